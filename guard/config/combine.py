"""Settings of a policy that do not go together, each with the reason and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator

from guard.config.lists import Fault
from guard.config.policies import PolicySettings
from guard.dialect.lark import Level
from guard.run.policy import ForceBy, Vary


def faults_of_settings(settings: PolicySettings) -> Iterator[Fault]:
    """Find keys of a policy that contradict each other."""
    yield from _of_delivery(settings)
    yield from _of_caps(settings)
    yield from _of_generations(settings)
    yield from _of_forcing(settings)


def _of_delivery(settings: PolicySettings) -> Iterator[Fault]:
    if settings.deliver == "pass_through":
        if settings.mode not in {None, "observe"}:
            yield (
                ("deliver", "mode"),
                (
                    f"`pass_through` is only for mode `observe`, found mode {settings.mode!r}: "
                    "write `mode: observe`, or `deliver: hold_step`"
                ),
            )
        active = {
            "actions": settings.actions,
            "rules": settings.rules,
            "race": settings.race > 1,
            "votes": settings.votes,
            "compute": settings.compute == "guard",
        }
        for field, written in active.items():
            if written:
                yield (
                    (field, "deliver"),
                    (
                        f"`{field}` cannot work with `deliver: pass_through`, by which the client has the "
                        f"answer already: leave out `{field}`, or write `deliver: hold_step`"
                    ),
                )
    if settings.sample < 1 and settings.mode not in {None, "observe"}:
        yield (
            ("sample", "mode"),
            (
                f"a sample is only for mode `observe`, found mode {settings.mode!r}: leave it out, or write "
                "`mode: observe`"
            ),
        )


def _of_caps(settings: PolicySettings) -> Iterator[Fault]:
    most, written = settings.attempts, settings.model_fields_set
    if "attempts_per_step" in written and settings.attempts_per_step > most:
        yield (
            ("attempts_per_step", "attempts"),
            f"{settings.attempts_per_step} attempts at a step are more than `attempts` allows, {most} in all",
        )
    for name, cap in settings.attempts_per_upstream.items():
        if cap > most:
            yield (
                (f"attempts_per_upstream.{name}", "attempts"),
                f"{cap} attempts on {name!r} are more than `attempts` allows, {most} in all",
            )


def _of_generations(settings: PolicySettings) -> Iterator[Fault]:
    votes = settings.votes
    if settings.seed is not None and Vary.SEED not in settings.vary:
        same = {"race": settings.race > 1, "votes": votes}
        for field, written in same.items():
            if written:
                yield (
                    (field, "seed", "vary"),
                    (
                        f"`{field}` asks with the same seed again and again, since `vary` has no `seed`: "
                        "leave out `seed`, or add it to `vary`"
                    ),
                )
    if "temperatures" in settings.model_fields_set and Vary.TEMPERATURE not in settings.vary:
        yield (
            ("temperatures", "vary"),
            "is never used, since `vary` has no `temperature`: leave it out, or add `temperature` to `vary`",
        )


def _of_forcing(settings: PolicySettings) -> Iterator[Fault]:
    written = settings.model_fields_set
    values = settings.force is Level.VALUES
    by = settings.force_by
    if by in {ForceBy.LINES, ForceBy.ISOLATION} and settings.force in {Level.NONE, Level.SHAPE}:
        yield (
            ("force_by", "force"),
            (
                f"`{by}` gives the operands of each line, found `force: {settings.force}`: write "
                "`force: operands` or nothing, or another `force_by`"
            ),
        )
    if settings.compute == "guard" and "force" in written and not values:
        yield (
            ("force", "compute"),
            (
                "`compute: guard` gives the model all that can be computed, found "
                f"`force: {settings.force}`: write `force: values` or nothing, or `compute: model`"
            ),
        )
    if settings.compute == "model" and "compute" in written and values:
        yield (
            ("compute", "force"),
            "`force: values` leaves the model nothing to compute: write `compute: guard`, or another `force`",
        )

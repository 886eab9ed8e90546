"""What cannot come to pass in the lists of actions of a policy, and in its rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Final

from guard.check.verdict import Kind
from guard.config.policies import Entry, PolicySettings, RuleSettings
from guard.procedure.model import ANSWERS, StepKind
from guard.run.ladders import AT_A_STEP, ENDS, Action, Rung

Fault = tuple[tuple[str, ...], str]  # the keys that are to blame, the first one above all; what is wrong

REPEATED: Final = frozenset({Action.RESTART, *AT_A_STEP})
DECIDED: Final = frozenset({StepKind.EXTRACT, StepKind.JUDGE, StepKind.CHOICE})  # what the model decides
_ONLY_AT: Final[Mapping[Kind, frozenset[StepKind]]] = {
    Kind.WRONG_BRANCH: frozenset({StepKind.BRANCH, StepKind.WHILE, StepKind.REQUIRE, StepKind.CHECK}),
    Kind.WRONG_ANSWER: ANSWERS,
    Kind.INADMISSIBLE_VALUE: DECIDED,
    Kind.UNGROUNDED_VALUE: frozenset({StepKind.EXTRACT, StepKind.JUDGE}),
}
Cases = frozenset[tuple[Kind, StepKind | None]]
CASES: Final[Cases] = frozenset(
    (kind, step) for kind, step in product(Kind, (*StepKind, None)) if step in _ONLY_AT.get(kind, (step,))
)


def faults_of_lists(settings: PolicySettings) -> Iterator[Fault]:
    """Find what is wrong in the lists and rules of a policy."""
    for key, entries in lists(settings):
        yield from _faults_of_list(key, entries, settings.attempts)
    yield from _faults_of_rules(settings)


def lists(settings: PolicySettings) -> Iterator[tuple[str, Sequence[Entry]]]:
    """Give each list of actions with its key below the policy's."""
    yield "actions", settings.actions or ()
    for index, rule in enumerate(settings.rules):
        yield f"rules[{index}].actions", rule.actions


def spell_rung(rung: Rung) -> str:
    """Spell an action as it is written in a list."""
    more = rung.upstream or rung.times
    return rung.action.value if more is None else f"{rung.action}: {more}"


def _faults_of_list(key: str, entries: Sequence[Entry], attempts: int) -> Iterator[Fault]:
    end: Entry | None = None
    seen: dict[tuple[Action, str | None], str] = {}
    for index, entry in enumerate(entries):
        at, action, times = f"{key}[{index}]", entry.action, entry.times
        if end is not None:
            yield (at,), f"`{action}` is never reached behind `{end.action}`: put it before, or leave it out"
        end = entry if action in ENDS else end
        known = seen.setdefault((action, entry.upstream), at)
        if known != at:
            more = f"; for more tries write `{action}: N` there" if action in REPEATED else ""
            yield (
                (at,),
                f"`{spell_rung(entry.rung)}` stands in this list already, as {known}: leave it out{more}",
            )
        if entry.upstream is not None and action is not Action.FALLBACK:
            yield (at,), f"only `fallback` goes to an upstream: write `{action}`"
        if times is not None and action not in REPEATED:
            yield (at,), f"`{action}` is done once at most: write `{action}` without a number"
        elif isinstance(times, int) and times > attempts:
            yield (
                (at, "attempts"),
                f"{times} times at one step is more than `attempts` allows, {attempts} in all",
            )


def _faults_of_rules(settings: PolicySettings) -> Iterator[Fault]:
    taken: dict[tuple[Kind, StepKind | None], int] = {}
    for index, rule in enumerate(settings.rules):
        key, fits = f"rules[{index}]", cases(rule)
        if not fits:
            kinds, steps = ", ".join(rule.violation), ", ".join(rule.step)
            yield (key,), f"never fits: there is no {kinds} at steps of kind {steps}"
        elif fits <= taken.keys():
            before = ", ".join(f"rules[{number}]" for number in sorted({taken[case] for case in fits}))
            yield (key,), f"is never used, since {before} fits whenever it does: put it before"
        elif all(step in DECIDED for _, step in fits):
            for number, entry in enumerate(rule.actions):
                if entry.action is Action.REPAIR:
                    message = "`repair` cannot write what the model has to decide: leave it out"
                    yield (f"{key}.actions[{number}]",), message
        for case in fits:
            taken.setdefault(case, index)
    if settings.actions and taken.keys() >= CASES:
        message = "is never used, since `rules` fit whatever happens: leave it out, or narrow them"
        yield ("actions", "rules"), message


def cases(rule: RuleSettings) -> Cases:
    """Give the violations and steps that a rule fits, of those that there can be."""
    made = rule.rule
    return frozenset(case for case in CASES if made.fits(*case))

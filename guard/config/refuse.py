"""What can be read but never work: in a policy, and between policies, routes, upstreams and procedures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from guard.config.capabilities import impossible_capabilities
from guard.config.combine import faults_of_settings
from guard.config.inherit import DEFAULT_POLICY
from guard.config.lists import DECIDED, Fault, faults_of_lists, lists
from guard.config.places import Problem
from guard.config.policies import Mode, PolicySettings
from guard.config.settings import AzureUpstream, Defaults, HttpUpstream, LocalUpstream, Route
from guard.config.words import suggestion
from guard.procedure.execute import Program
from guard.procedure.model import StepKind
from guard.upstream.backends import BACKENDS, backend_for
from guard.upstream.capabilities import Api

VOTED = DECIDED - {StepKind.CHOICE}

Section = TypeVar("Section", bound=BaseModel)


def impossible(
    raw: Mapping[str, Any], written: Mapping[str, Any], programs: Mapping[str, Program] | None
) -> list[Problem]:
    """Find what cannot work in the values of a file, whatever else is wrong with them.

    `raw` has the policies with what they take over, `written` as they stand there. `programs` is None where
    the procedures could not be compiled.
    """
    policies = {
        name: settings
        for name, values in _mapping(raw.get("policies")).items()
        if (settings := _valid(PolicySettings, values)) is not None
    }
    problems: list[Problem] = []
    upstreams = _mapping(raw.get("upstreams")) or {"local": {"kind": "local"}}
    for name, values in upstreams.items():
        problems += [(f"upstreams.{name}.{key}", why) for key, why in _of_server(_mapping(values))]
    for name, settings in policies.items():
        faults = (*faults_of_settings(settings), *faults_of_lists(settings), *_of_names(settings, upstreams))
        problems += _blamed(name, _mapping(written.get(name)), faults)
    policies.setdefault(DEFAULT_POLICY, PolicySettings())
    uses = list(_uses(raw, policies))
    problems += _of_modes(policies, uses)
    for use in uses:
        problems += _of_procedure(use, programs)
        problems += _of_slots(use, upstreams)
    return list(dict.fromkeys(problems))


def decides(program: Program) -> bool:
    """Whether the model has to extract or judge something in a procedure, or in one that it carries out."""
    return bool(VOTED & set(program.step_numbers.values())) or any(map(decides, program.callees.values()))


def _blamed(name: str, written: Mapping[str, Any], faults: tuple[Fault, ...]) -> Iterator[Problem]:
    """Blame the first key of a fault that the policy writes itself; what it took over is blamed above."""
    for fields, message in faults:
        for field in fields:
            if field.split(".")[0].split("[")[0] in written:
                yield f"policies.{name}.{field}", message
                break


def _of_names(settings: PolicySettings, upstreams: Mapping[str, Any]) -> Iterator[Fault]:
    for key, entries in lists(settings):
        for index, entry in enumerate(entries):
            if entry.upstream is not None and entry.upstream not in upstreams:
                message = f"there is no upstream {entry.upstream!r}{suggestion(entry.upstream, upstreams)}"
                yield (f"{key}[{index}]",), message
    for name in settings.attempts_per_upstream:
        if name not in upstreams:
            message = f"there is no upstream {name!r}{suggestion(name, upstreams)}"
            yield (f"attempts_per_upstream.{name}",), message


# --- servers -------------------------------------------------------------------------------------

_BETA = (
    "only below /beta does this kind go on from a prefix: write https://api.deepseek.com/beta, "
    "or `capabilities: {prefix: none}`"
)

_NO_DEPLOYMENT = (
    "the Responses API is not below a deployment: leave it out, end `base_url` in /openai/v1 and name the "
    "deployment as `model`"
)


def _of_server(values: Mapping[str, Any]) -> Iterator[Problem]:
    """Find what cannot be in one model server: the key in it, and why."""
    kind = values.get("kind")
    if not isinstance(kind, str) or kind not in BACKENDS:
        return
    sections: Mapping[str, type[HttpUpstream | AzureUpstream | LocalUpstream]] = {
        "azure": AzureUpstream,
        "local": LocalUpstream,
    }
    settings = _valid(sections.get(kind, HttpUpstream), values)
    if settings is None:
        return
    model = settings.model if isinstance(settings.model, str) else ""
    for column, why in impossible_capabilities(settings.kind, model, settings.capabilities):
        yield f"capabilities.{column}" if column else "capabilities", why
    match settings:
        case HttpUpstream(kind="deepseek", base_url=url) if not url.endswith("/beta"):
            if backend_for("deepseek", settings.model, settings.capabilities.changes).prefill:
                yield "base_url", _BETA
        case AzureUpstream(deployment=str()):
            if settings.api_version is None:
                yield "deployment", "needs `api_version`, too"
            if not settings.base_url.endswith("/openai"):
                yield "base_url", f"of a deployment it ends in /openai, found {settings.base_url!r}"
            if backend_for("azure", model, settings.capabilities.changes).api is Api.RESPONSES:
                yield "deployment", _NO_DEPLOYMENT
        case _:
            pass


# --- where policies are used ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    """A policy that requests of a route, or of none, can have.

    `mode` is the one that counts unless the client asks for another, `modes` are those that it may ask for.
    """

    name: str
    settings: PolicySettings
    key: str  # what names the policy
    mode_key: str  # what gives the mode
    mode: Mode
    modes: tuple[Mode, ...] = ()
    route: Route | None = None
    place: str = ""
    upstream: str | None = None


def _uses(raw: Mapping[str, Any], policies: Mapping[str, PolicySettings]) -> Iterator[_Use]:
    defaults = _valid(Defaults, raw.get("defaults", {})) or Defaults()
    first = next(iter(_mapping(raw.get("upstreams"))), "local")
    written = raw.get("routes")
    for index, values in enumerate(written if isinstance(written, list) else ()):
        route, place = _valid(Route, values), f"routes[{index}]"
        for name, key in _named(route, place, defaults) if route else ():
            settings = policies.get(name)
            if route is not None and settings is not None:
                yield _Use(
                    name=name,
                    settings=settings,
                    key=key,
                    mode_key=f"{place}.mode" if route.mode else key,
                    mode=route.mode or settings.mode or defaults.mode,
                    modes=route.modes,
                    route=route,
                    place=place,
                    upstream=(route.upstream or defaults.upstream or (first,))[0],
                )
    settings = policies.get(defaults.policy)
    if settings is not None:
        key = "defaults.policy" if "policy" in defaults.model_fields_set else f"policies.{defaults.policy}"
        mode = settings.mode or defaults.mode
        yield _Use(name=defaults.policy, settings=settings, key=key, mode_key=key, mode=mode)


def _named(route: Route, place: str, defaults: Defaults) -> Iterator[tuple[str, str]]:
    """Give the policies of a route, each with the key that names it."""
    if route.policy is None:
        yield defaults.policy, f"{place}.procedure" if route.procedure else place
    else:
        yield route.policy, f"{place}.policy"
    for name in route.policies or ():
        yield name, f"{place}.policies"


def _of_modes(policies: Mapping[str, PolicySettings], uses: list[_Use]) -> Iterator[Problem]:
    for use in uses:
        passes = use.settings.deliver == "pass_through"
        if passes and use.mode == "enforce" and use.settings.mode in {None, "observe"}:
            yield (
                use.mode_key,
                (
                    f"policy {use.name!r} cannot be enforced, since it delivers answers as they come "
                    "(`deliver: pass_through`): write `mode: observe`, or another policy"
                ),
            )
        if passes and "enforce" in use.modes:
            yield (
                f"{use.place}.modes",
                (
                    f"policy {use.name!r} cannot be enforced, since it delivers answers as they come "
                    "(`deliver: pass_through`): leave out `enforce`"
                ),
            )
    for name, settings in policies.items():
        own = [use for use in uses if use.name == name]
        observed = any("observe" in {use.mode, *use.modes} for use in own)
        if settings.mode is None and settings.sample < 1 and not observed:
            yield (
                f"policies.{name}.sample",
                (
                    "a sample is only for mode `observe`, in which no route has this policy: "
                    "write `mode: observe`, or leave it out"
                ),
            )
        if settings.mode is None and settings.deliver == "pass_through" and not own:
            yield (
                f"policies.{name}.deliver",
                "`pass_through` is only for mode `observe`: write `mode: observe`, or `deliver: hold_step`",
            )


def _of_procedure(use: _Use, programs: Mapping[str, Program] | None) -> Iterator[Problem]:
    program = (programs or {}).get((use.route.procedure if use.route else None) or "")
    if use.settings.votes is not None and program is not None and not decides(program):
        yield (
            use.key,
            (
                f"policy {use.name!r} puts to the vote what the model decides (`votes`), but procedure "
                f"{program.name!r} has no extract and no judge step: name a policy without `votes`"
            ),
        )


def _of_slots(use: _Use, upstreams: Mapping[str, Any]) -> Iterator[Problem]:
    upstream = _mapping(upstreams.get(use.upstream or ""))
    settings = _valid(LocalUpstream, upstream) if upstream.get("kind") == "local" else None
    if settings is not None and use.settings.race > settings.slots:
        yield (
            use.key,
            (
                f"policy {use.name!r} races {use.settings.race} generations, but upstream "
                f"{use.upstream!r} has only {settings.slots} `slots`: raise them, or lower `race`"
            ),
        )


def _valid(section: type[Section], values: object) -> Section | None:
    """Read one section on its own; None where it has mistakes, which are told elsewhere."""
    try:
        return section.model_validate(values)
    except ValidationError:
        return None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}

"""What a policy comes to: its decision table, its limits, and what of it each route cannot use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

from guard.cli.terminal import Style, Terminal
from guard.config import Config
from guard.config.lists import CASES, DECIDED, spell_rung
from guard.config.policies import PolicySettings
from guard.config.refuse import VOTED
from guard.config.settings import AbleUpstream, Route, ServedUpstream
from guard.dialect.lark import Level
from guard.procedure.execute import Program
from guard.procedure.model import StepKind
from guard.run import lines as one_by_one
from guard.run.ladders import ALL, AT_A_STEP, ENDS, Action, Ladder, defaults, named
from guard.run.messages import Target
from guard.run.policy import ForceBy
from guard.upstream.backends import target_for

_LOOPS: Final = frozenset({StepKind.LOOP, StepKind.WHILE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is done about some violations at some steps; empty: about all, at all. `source`: who says so."""

    source: str
    violations: Sequence[str]
    steps: Sequence[str]
    actions: Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """The most that one request can cost. None: it depends on the inputs.

    Generations: the `first` ones, `after_violations`, `after_faults` of the network on all upstreams (going
    on to each next one among them), `behind_decisions` of the model or `behind_lines` where each line is one,
    and for `votes` on decisions; `generations` is the sum of those. A repaired line and one that a server cut
    short cost one more each.
    """

    first: int
    after_violations: int
    after_faults: int
    behind_decisions: int | None
    behind_lines: int | None
    votes: int | None
    generations: int | None
    output_tokens: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """The policy on a route. `by`: it is the `route`'s, the `default` one, or the `client` may ask for it."""

    route: str
    model: str
    by: str
    mode: str
    modes: Sequence[str]  # that the client may ask for besides
    procedure: str | None
    upstreams: Sequence[str]
    passed_over: Sequence[Mapping[str, str]]
    worst: Worst


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A policy in words and numbers. `settings` has every key with what counts for it."""

    policy: str
    settings: Mapping[str, Any]
    table: Sequence[Row]
    routes: Sequence[Use] = field(default_factory=tuple)

    def to_json(self) -> dict[str, object]:
        """Give it as JSON values."""
        return asdict(self)


def explain(config: Config, name: str, settings: PolicySettings) -> Explanation:
    """Explain a policy of a configuration."""
    return Explanation(
        policy=name,
        settings={**settings.model_dump(mode="json"), "vary": sorted(settings.vary), **_forced(settings)},
        table=tuple(_table(settings)),
        routes=tuple(_uses(config, name, settings)),
    )


def _forced(settings: PolicySettings) -> Mapping[str, str]:
    """Give the two keys of which each says something of the other, as they count together."""
    force = settings.policy.force
    return {"compute": "guard" if force is Level.VALUES else "model", "force": force.value}


# --- the decision table --------------------------------------------------------------------------


def _table(settings: PolicySettings) -> Iterator[Row]:
    left = set(CASES)
    for index, rule in enumerate(settings.rules):
        yield Row(
            source=f"rules[{index}]",
            violations=tuple(kind.value for kind in rule.violation),
            steps=tuple(step.value for step in rule.step),
            actions=_actions(rule.rule.ladder, settings),
        )
        made = rule.rule
        left = {case for case in left if not made.fits(*case)}
    if settings.actions is not None:
        ladder = tuple(entry.rung for entry in settings.actions)
        yield Row(source="actions", violations=(), steps=(), actions=_actions(ladder, settings))
        return
    kinds: dict[Ladder, list[str]] = {}
    for kind, ladder in defaults(settings.policy.force).items():
        if any(kind is other for other, _ in left):
            kinds.setdefault(ladder, []).append(kind.value)
    for ladder, violations in kinds.items():
        yield Row(
            source="default", violations=tuple(violations), steps=(), actions=_actions(ladder, settings)
        )


def _actions(ladder: Ladder, settings: PolicySettings) -> Sequence[Mapping[str, object]]:
    """Give the actions in order with their caps; a run that is behind the last one is rejected."""
    listed: list[Mapping[str, object]] = []
    for rung in ladder:
        cap: int | Literal["all"] | None = None
        if rung.action in AT_A_STEP or rung.action is Action.RESTART:
            cap = settings.attempts_per_step if rung.times is None else rung.times
        listed.append(
            {
                "action": rung.action.value,
                "at_most": cap,
                "per": None if cap is None else "upstream" if rung.action is Action.RESTART else "step",
                "upstream": rung.upstream,
            }
        )
    if ladder[-1].action not in ENDS:
        listed.append({"action": Action.REJECT.value, "at_most": None, "per": None, "upstream": None})
    return tuple(listed)


# --- on the routes -------------------------------------------------------------------------------


def _uses(config: Config, name: str, settings: PolicySettings) -> Iterator[Use]:
    defaults = config.defaults
    for index, route in enumerate(config.routes):
        by = _by(config, route, name)
        if by is not None and (route.procedure or by != "client" or name in (route.policies or ())):
            mode, place = route.mode or settings.mode or defaults.mode, f"routes[{index}]"
            yield _use(config, settings, by=by, mode=mode, route=route, place=place)
            if mode != "enforce" and _may_enforce(settings, route.modes, free=route.override):
                yield _use(config, settings, by="client", mode="enforce", route=route, place=place)
    by = "default" if name == defaults.policy else "client"
    mode = settings.mode or defaults.mode
    yield _use(config, settings, by=by, mode=mode)
    if mode != "enforce" and _may_enforce(settings, (), free=config.passes_unbound(None)):
        yield _use(config, settings, by="client", mode="enforce")


def _may_enforce(settings: PolicySettings, modes: Sequence[str], *, free: bool) -> bool:
    """Whether a client may have a policy enforced that by itself is not."""
    return settings.deliver != "pass_through" and (free or "enforce" in modes)


def _by(config: Config, route: Route, name: str) -> str | None:
    if route.policy == name:
        return "route"
    if route.policy is None and config.defaults.policy == name:
        return "default"
    free = route.override or (route.policy is None and route.policies is None)
    return "client" if free or name in (route.policies or ()) else None


def _use(
    config: Config,
    settings: PolicySettings,
    *,
    by: str,
    mode: str,
    route: Route | None = None,
    place: str = "",
) -> Use:
    first = next(iter(config.upstreams))
    upstreams = (route.upstream if route else None) or config.defaults.upstream or (first,)
    program = config.programs.get(route.procedure or "") if route else None
    standby = [one for one in named(settings.policy.rules) if one not in upstreams]
    return Use(
        route=place,
        model=route.model if route else "",
        by=by,
        mode=mode,
        modes=tuple(one for one in route.modes if one != mode) if route else (),
        procedure=program.name if program else None,
        upstreams=upstreams,
        passed_over=tuple(_passed_over(config, settings, mode, upstreams, program)),
        worst=_worst(
            settings,
            program,
            upstreams=len(upstreams),
            standby=len(standby),
            lines=any(_by_lines(config, settings, name) for name in [*upstreams, *standby]),
        ),
    )


def _passed_over(
    config: Config,
    settings: PolicySettings,
    mode: str,
    upstreams: Sequence[str],
    program: Program | None,
) -> Iterator[Mapping[str, str]]:
    if mode != "enforce":
        checked = f"{settings.sample:.0%} of the requests are only checked and counted"
        why = "requests pass through unchecked" if mode == "off" else checked
        yield _passed("everything", f"in mode `{mode}` {why}")
        return
    rungs = {rung for rule in settings.policy.rules for rung in rule.ladder}
    if any(row.source == "default" for row in _table(settings)):
        rungs |= {rung for ladder in defaults(settings.policy.force).values() for rung in ladder}
    actions = {rung.action for rung in rungs}
    for rung in sorted(rungs, key=spell_rung):
        if rung.action is Action.FALLBACK and rung.upstream is None and len(upstreams) == 1:
            yield _passed("fallback", f"there is one upstream only, {upstreams[0]!r}")
        if rung.action is Action.FALLBACK and rung.upstream == upstreams[0]:
            yield _passed(spell_rung(rung), "it is the upstream that the run begins on")
    if settings.policy.force is Level.VALUES:
        if Action.SCAFFOLD in actions:
            yield _passed("scaffold", "the guard writes each line that can be computed itself")
    elif Action.SCAFFOLD in actions and settings.force is Level.OPERANDS:
        given = [
            name
            for name in upstreams
            if _by_grammar(config, settings, name) or _by_lines(config, settings, name)
        ]
        if given:
            why = f"`force: {settings.force}` gives the operands already on {', '.join(map(repr, given))}"
            yield _passed("scaffold", f"{why}, wherever they are known")
    if Action.REPAIR in actions and (program is None or _decided(program, DECIDED)):
        steps = "what the model decides cannot be repaired"
        yield _passed("repair", steps if program is None else f"{steps}: {_listed(program)}")
    if Action.RESTART in actions and settings.deliver == "hold_step":
        yield _passed("restart", "on streams, as soon as a step was delivered")
    yield from _unforced(config, settings, upstreams)
    yield from _unused(settings, upstreams, program)


def _unforced(
    config: Config, settings: PolicySettings, upstreams: Sequence[str]
) -> Iterator[Mapping[str, str]]:
    """Say where a way of forcing is asked for that a server does not know."""
    if settings.policy.force is Level.NONE or settings.force_by is ForceBy.AUTO:
        return
    for name in upstreams:
        if settings.force_by is ForceBy.GRAMMAR and not _by_grammar(config, settings, name):
            yield _passed("force_by: grammar", f"{name!r} takes no grammar")
        if settings.force_by is ForceBy.LINES and not _by_lines(config, settings, name):
            yield _passed("force_by: lines", f"{name!r} does not continue a line that was begun")


def _unused(
    settings: PolicySettings, upstreams: Sequence[str], program: Program | None
) -> Iterator[Mapping[str, str]]:
    reached = {*upstreams, *named(settings.policy.rules)}
    for name in settings.attempts_per_upstream:
        if name not in reached:
            yield _passed(f"attempts_per_upstream.{name}", "no request gets to this upstream here")
    if settings.votes is not None and settings.votes.ahead == 1:
        yield _passed("votes", "one vote is ahead by one: each step is asked for once")
    if program is not None and not _decided(program, DECIDED):
        if settings.votes is not None:
            yield _passed("votes", f"{program.name!r} leaves the model nothing to decide")
        for index, rule in enumerate(settings.rules):
            if rule.step and set(rule.step) <= DECIDED:
                yield _passed(f"rules[{index}]", f"{program.name!r} leaves the model nothing to decide")


def _passed(what: str, why: str) -> Mapping[str, str]:
    return {"what": what, "why": why}


def _by_grammar(config: Config, settings: PolicySettings, name: str) -> bool:
    """Whether an upstream is held to the lines by a grammar."""
    return _target(config, name).dialect is not None and not _by_lines(config, settings, name)


def _by_lines(config: Config, settings: PolicySettings, name: str) -> bool:
    """Whether each line is a generation of its own on an upstream."""
    return one_by_one.must(_target(config, name), settings.policy.force, settings.force_by)


def _target(config: Config, name: str) -> Target:
    """Say what an upstream can do, for the model that it is configured with."""
    upstream = config.upstreams[name]
    changes = upstream.capabilities.changes if isinstance(upstream, AbleUpstream) else None
    model = upstream.model if isinstance(upstream, ServedUpstream) else ""
    return replace(target_for(upstream.kind, name, model, changes), replays=upstream.kind == "scripted")


def _worst(
    settings: PolicySettings, program: Program | None, *, upstreams: int, standby: int, lines: bool
) -> Worst:
    """Add up; each lane of a race goes on behind its own decisions, but only one is ever tried again."""
    decisions, voted = _static(program, DECIDED), _static(program, VOTED)
    decisions = decisions and decisions * settings.race
    behind_lines: int | None = 0
    if lines and settings.policy.force is not Level.VALUES:
        steps = _static(program, frozenset(StepKind))
        decisions, behind_lines = 0, steps and (steps - 1) * settings.race
    more = 0 if settings.votes is None else (settings.votes.most - 1) * settings.race
    votes = more and voted and voted * more
    faults = settings.transport_retries * (upstreams + standby) + upstreams - 1
    parts = (settings.race, settings.attempts, faults, decisions, behind_lines, votes)
    return Worst(
        first=settings.race,
        after_violations=settings.attempts,
        after_faults=faults,
        behind_decisions=decisions,
        behind_lines=behind_lines,
        votes=votes,
        generations=None if None in parts else sum(part or 0 for part in parts),
        output_tokens=settings.output_tokens,
        seconds=settings.seconds,
    )


def _static(program: Program | None, kinds: frozenset[StepKind]) -> int | None:
    """Count the steps of some kinds; None where the inputs say how many there are."""
    if program is None:
        return None
    found = _decided(program, kinds)
    loops = any(kind in _LOOPS for kind in program.step_numbers.values())
    inner = any(_decided(callee, kinds) for callee in program.callees.values())
    return None if (found and loops) or inner else len(found)


def _decided(program: Program, kinds: frozenset[StepKind]) -> list[str]:
    """Give the numbers of the steps of some kinds, and those that carry out procedures with some."""
    own = [number for number, kind in program.step_numbers.items() if kind in kinds]
    return own + [name for name, callee in program.callees.items() if _decided(callee, kinds)]


def _listed(program: Program) -> str:
    numbers = _decided(program, DECIDED)
    return "steps " + ", ".join(numbers[:8]) + (", ..." if len(numbers) > 8 else "")


# --- in words ------------------------------------------------------------------------------------


def show(explanation: Explanation, out: Terminal) -> None:
    """Print an explanation for people."""
    settings = explanation.settings
    title = explanation.policy + (f" (extends {settings['extends']})" if settings["extends"] else "")
    out.line(out.styled(f"policy {title}", Style.STRONG))
    out.heading("What is done about a violation: the first row that fits counts, from left to right")
    for row in explanation.table:
        out.paragraph(_who(row, "any" if explanation.table[0].source == row.source else "any other"), "  ")
        out.paragraph(", ".join(map(_spell, row.actions)), "      ")
    for title, lines in _limits(settings).items():
        out.heading(title)
        for line in lines:
            out.paragraph(line, "  ")
    for uses in _alike(explanation.routes):
        out.heading(_where(uses))
        for line in _of_use(uses[0]):
            out.paragraph(line, "  ")


def _who(row: Row, other: str) -> str:
    violations = ", ".join(row.violations) or f"{'any' if row.steps else other} violation"
    return violations + (f" at {', '.join(row.steps)}:" if row.steps else ":")


def _spell(action: Mapping[str, object]) -> str:
    spelled = str(action["action"])
    if action["upstream"] is not None:
        spelled += f" to {action['upstream']}"
    if action["at_most"] == ALL:
        spelled += " (until all attempts are spent)"
    elif action["at_most"] is not None:
        often = "once" if action["at_most"] == 1 else f"{action['at_most']} times"
        spelled += f" ({often} on an upstream)" if action["per"] == "upstream" else f" ({often} at a step)"
    return spelled


def _limits(settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    caps, votes, vary = settings["attempts_per_upstream"], settings["votes"], settings["vary"]
    temperatures = settings["temperatures"]
    force = settings["force"]
    schedule = ", ".join("as asked for" if one is None else f"{one:g}" for one in temperatures)
    return {
        "Limits of one request": [
            f"after violations: {settings['attempts']} generations"
            + "".join(f", of them {cap} on {name}" for name, cap in caps.items()),
            f"after faults of the network: {settings['transport_retries']} on each upstream",
            f"{settings['output_tokens']} output tokens, {settings['seconds']:g} seconds",
        ],
        "What a further try changes": [
            f"{', '.join(sorted(vary)) or 'nothing'}"
            + (f"; temperatures at least: {schedule}" if "temperature" in vary else ""),
            *([f"seed of the first try: {settings['seed']}"] if settings["seed"] is not None else []),
        ],
        "What is asked for": [
            f"{'the guard' if force == 'values' else 'the model'} computes, force {force}"
            f"{'' if settings['force_by'] == 'auto' else ' by ' + settings['force_by']}, "
            f"trace {settings['trace']}" + (", other text is left out" if settings["tolerant"] else ""),
            *([f"{settings['race']} generations race at first"] if settings["race"] != 1 else []),
            *([_votes(votes)] if isinstance(votes, dict) else []),
        ],
        "What the client gets": [
            f"mode: {settings['mode'] or 'as the route or the defaults say'}",
            f"deliver {settings['deliver']}, content {settings['content']}, steps as {settings['steps_as']}",
            f"usage: {settings['usage']}; reports {'with' if settings['reveal'] else 'without'} values",
            f"a stream is opened after {settings['commit_after_s']:g} s at the latest",
        ],
    }


def _votes(votes: Mapping[str, object]) -> str:
    return (
        f"votes on what the model decides: until one value is {votes['ahead']} ahead, {votes['most']} at most"
    )


def _alike(uses: Sequence[Use]) -> Sequence[Sequence[Use]]:
    groups: dict[str, list[Use]] = {}
    for use in uses:
        groups.setdefault(repr((use.by, use.mode, *_of_use(use))), []).append(use)
    return tuple(groups.values())


def _where(uses: Sequence[Use]) -> str:
    by = {"route": "", "default": ", by default", "client": ", if the client asks for it"}[uses[0].by]
    routes = [f"{use.route} {use.model}" for use in uses if use.route]
    if not routes:
        return f"Where a client binds its requests itself{by}"
    shown = ", ".join(routes[:6]) + (f" and {len(routes) - 6} more" if len(routes) > 6 else "")
    return f"On {shown}{by}"


def _of_use(use: Use) -> Iterator[str]:
    yield f"mode {use.mode}" + (f" (or {', '.join(use.modes)})" if use.modes else "")
    yield f"upstreams {', '.join(use.upstreams)}"
    for passed in use.passed_over:
        yield f"passed over: {passed['what']}: {passed['why']}"
    if use.mode == "enforce":
        yield from _of_worst(use.worst)


def _of_worst(worst: Worst) -> Iterator[str]:
    parts = {
        "first": worst.first,
        "after violations": worst.after_violations,
        "after faults": worst.after_faults,
        "behind decisions": worst.behind_decisions,
        "behind lines": worst.behind_lines,
        "votes": worst.votes,
    }
    spelled = [f"{count} {name}" for name, count in parts.items() if count]
    open_ended = [name for name, count in parts.items() if count is None]
    more = f", and {' and '.join(open_ended)} by the number of steps" if open_ended else ""
    total = "" if worst.generations is None else f"{worst.generations} generations: "
    yield f"at worst {total}{', '.join(spelled)}{more}"
    yield f"at worst {worst.output_tokens} output tokens and {worst.seconds:g} seconds"

"""What runs have drawn of each closed set, and what each of these sets has: asked of the code that defines it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, get_args

from guard.check.verdict import Kind
from guard.dialect.json_schema import Patterns
from guard.dialect.line import Level
from guard.dialect.notation import Dialect
from guard.procedure.expected import Form
from guard.procedure.model import Hit, StepKind
from guard.procedure.types import Rounding
from guard.run.ladders import Action
from guard.run.messages import Command, EndName, Margin, Outcome, Result, RunEvent, StepClass, Strategy
from guard.run.policy import ForceBy, Vary
from guard.upstream.backends import BACKENDS
from guard.upstream.capabilities import Api, Echo, Place, Prefix, Roles, Thinking
from tests.fuzz.mistakes import MISTAKES
from tests.fuzz.play import Played
from tests.fuzz.scenario import CONTENTS, CUTS, DELIVERIES, FAULTS, OWN_ENDS, Manner, Mishap

Tally = Counter[tuple[str, str]]

# Members that no run can have, each with the reason; when that is gone, so is the entry.
NOT_RUN: Final[Mapping[tuple[str, str], str]] = {
    ("step", "call"): "procedures with tools are refused",
    ("step", "confirm"): "procedures with tools are refused",
    ("step", "say"): "procedures with tools are refused",
    ("violation", "wrong_call"): "kept for when tool steps are run",
    ("violation", "unconfirmed_call"): "kept for when tool steps are run",
    ("result", "internal_error"): "what the driver says where the guard itself has failed",
    ("outcome", "passthrough"): "what is not bound, or only observed, is no run",
}

_SETS: Final[Mapping[str, Iterable[object]]] = {
    "step": StepKind,
    "end": get_args(EndName),
    "table": Hit,
    "rounding": Rounding,
    "form": Form,
    "mistake": MISTAKES,
    "violation": Kind,
    "action": Action,
    "delivery": DELIVERIES,
    "content": CONTENTS,
    "level": Level,
    "force_by": ForceBy,
    "vary": Vary,
    "votes": Margin,
    "race": (1, 2, 3),
    "kind of server": BACKENDS,
    "api": Api,
    "place": Place,
    "dialect": Dialect,
    "patterns": Patterns,
    "prefix": Prefix,
    "echo": Echo,
    "roles": Roles,
    "thinking": Thinking,
    "manner": Manner,
    "mishap": Mishap,
    "finish reason": (*OWN_ENDS, *CUTS, *FAULTS),
    "strategy": Strategy,
    "result": Result,
    "class": StepClass,
    "outcome": Outcome,
    "event": [kind.__name__ for kind in get_args(RunEvent)],
    "command": [kind.__name__ for kind in get_args(Command)],
}
SETS: Final[Mapping[str, tuple[str, ...]]] = {
    name: tuple(str(member) for member in members if (name, str(member)) not in NOT_RUN)
    for name, members in _SETS.items()
}


def of(played: Played) -> Tally:
    """Count what a run has of each set."""
    return Counter(_members(played))


def _members(played: Played) -> Iterator[tuple[str, str]]:
    yield from _asked(played)
    for generation in played.generations:
        answer, mistake = generation.answer, generation.said.mistake
        yield "manner", answer.manner
        yield "mishap", answer.mishap
        yield "finish reason", str(answer.finish_reason)
        yield "strategy", generation.command.strategy
        yield from [("mistake", mistake.name)] if mistake is not None else []
        yield from (("violation", violation.kind) for violation in generation.found)
        yield from (("event", type(event).__name__) for event in generation.heard)
        yield from [("result", generation.close.result)] if generation.close is not None else []
    yield from (("command", type(command).__name__) for command in played.commands)
    yield from [("event", "Waited")] if ("Wait" in {type(c).__name__ for c in played.commands}) else []
    yield from (("step", emit.kind) for emit in played.emits)
    assert played.finish is not None
    finish = played.finish
    yield "outcome", finish.outcome
    yield from [("end", finish.end)] if finish.end is not None else []
    yield from (("class", each) for each in finish.classes.values())
    yield from [("class", StepClass.MISSING)] if finish.steps.missing else []
    yield from (("votes", voted.margin) for voted in finish.votes)


def _asked(played: Played) -> Iterator[tuple[str, str]]:
    scenario, policy = played.scenario, played.scenario.policy
    yield from (("table", table.hit) for table in scenario.library.module.tables.values())
    yield "rounding", scenario.library.module.numbers.rounding
    yield "form", scenario.program.form
    yield from (("action", rung.action) for rule in policy.rules for rung in rule.ladder)
    yield "delivery", policy.deliver
    yield "content", scenario.content
    yield "level", policy.force
    yield "force_by", policy.force_by
    yield from (("vary", each) for each in policy.vary)
    yield "race", str(policy.race)
    for row in scenario.rows:
        yield "kind of server", row.kind
        yield "api", row.api
        yield from [("place", row.grammar)] if row.grammar is not None else []
        yield from [("dialect", row.dialect)] if row.dialect is not None else []
        yield from (("patterns", row.patterns), ("prefix", row.prefix), ("echo", row.echo))
        yield from (("roles", row.roles), ("thinking", row.thinking))


def never(tally: Tally) -> list[str]:
    """Say which members of which sets were never drawn."""
    return [
        f"{name}: {member}" for name, members in SETS.items() for member in members if not tally[name, member]
    ]


def table(tally: Tally) -> str:
    """Show what was drawn of each set, the rarest first."""
    width = max(map(len, SETS))
    return "\n".join(
        f"{name:{width}}  {', '.join(f'{member} {tally[name, member]}' for member in _rarest(name, tally))}"
        for name in SETS
    )


def _rarest(name: str, tally: Tally) -> list[str]:
    return sorted(SETS[name], key=lambda member: (tally[name, member], member))

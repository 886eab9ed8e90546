"""How many short texts are read rightly: `python -m tests.benchmarks.texts --model FILE.gguf --half tune`.

A table with a row for each policy, over the texts of `cases/texts.yaml` and, with `--shipped`, the cases of the
examples that read texts:

    answered   of all, those that ended as the procedure may: with an answer or a refusal of its own
    right      those that came to the right end by the right values
    wrong      those that were answered and not right
    asked      generations a text
    tokens     generated ones a text
    seconds    a text

Below it, for each row, why texts were not answered or not right.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from guard.procedure.execute import Program, reference
from guard.procedure.types import Value
from guard.procedure.values import equal
from guard.run.ladders import Action, always
from guard.run.policy import Policy, Votes
from tests.benchmarks.prompting import Found, say
from tests.benchmarks.runs import SECONDS, add_model, carry_out, started, without
from tests.live import Heard
from tests.texts import texts
from tests.worked import worked

CONTEXT: Final = 6144
READING: Final = ("baggage", "blatchford", "claim", "flight_delay")  # shipped procedures that read texts
HEAD: Final = (
    "| policy | answered | right | wrong | asked | tokens | seconds |",
    "|---|---|---|---|---|---|---|",
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One text, and what is right."""

    name: str
    program: Program
    inputs: dict[str, Value]
    decisions: dict[str, Value]

    @property
    def end(self) -> tuple[str, Value]:
        """The path and the value of the last line."""
        steps, _ = reference(self.program, self.inputs, self.decisions)
        return steps[-1][0].path, steps[-1][1]


def cases(half: str, *, shipped: bool) -> list[Case]:
    """The texts of a half, and those of the examples."""
    found = [
        Case(name=one.name, program=one.program, inputs=one.inputs, decisions=one.decisions)
        for one in texts()
        if one.half == half
    ]
    if shipped:
        found += [
            Case(
                name=f"{one.folder}: {one.name}",
                program=one.program,
                inputs=one.inputs,
                decisions=one.decisions,
            )
            for folder in READING
            for one in worked(folder)
        ]
    return found


def policies() -> Mapping[str, Policy]:
    """The rows."""
    return {
        "first generation": Policy(rules=always((Action.REJECT,)), seconds=SECONDS),
        "default without feedback": Policy(rules=without(Action.FEEDBACK), seconds=SECONDS),
        "default without isolate": Policy(rules=without(Action.ISOLATE), seconds=SECONDS),
        "default": Policy(seconds=SECONDS),
        "default with up to 3 votes": Policy(seconds=SECONDS, votes=Votes(most=3)),
    }


@dataclass(kw_only=True)
class Row:
    """What came of all texts under one policy."""

    found: Found
    asked: int = 0
    tokens: int = 0
    seconds: float = 0.0
    reasons: list[str] = field(default_factory=list)

    def note(self, case: Case, heard: Heard, seconds: float) -> None:
        """Add one text, and why it was not right."""
        end = heard.end
        assert end is not None
        answered = end.end is not None
        path, value = case.end
        last = heard.verified[-1] if heard.verified else None
        right = answered and last is not None and last.path == path and equal(last.value, value)
        self.found.note("answered", right=answered)
        self.found.note("right", right=right)
        self.found.note("wrong", right=answered and not right)
        self.asked += end.generations
        self.tokens += sum(usage.completion for usage in end.usage)
        self.seconds += seconds
        if right:
            return
        if answered:
            why = [f"{one.target} = {one.value}" for one in heard.verified if one.decided]
        else:
            failed = Counter(f"{one.kind} at {one.step}: {one.found[:60]!r}" for one in heard.violations)
            why = [f"{times} x {what}" for what, times in failed.items()]
        self.reasons.append(f"{case.name}: {'wrong' if answered else end.outcome}: {'; '.join(why)}")

    def text(self, name: str) -> str:
        """Write the row of a table."""
        of = self.found.of["right"]
        shares = " | ".join(self.found.share(what) for what in ("answered", "right", "wrong"))
        return f"| {name} | {shares} | {self.asked / of:.1f} | {self.tokens / of:.0f} | {self.seconds / of:.1f} |"


async def measure(arguments: argparse.Namespace) -> None:
    """Print the table row by row, then the reasons of each."""
    asked = cases(arguments.half, shipped=arguments.shipped)
    rows = {name: Row(found=Found(right=Counter(), of=Counter())) for name in arguments.rows}
    async with started(arguments, CONTEXT) as upstream:
        say(f"{upstream.target.model}, {len(asked)} texts of the half `{arguments.half}`", "", *HEAD)
        for name, made in rows.items():
            await carry_out(upstream, policies()[name], asked, arguments.slots, made.note)
            say(made.text(name))
    for name, made in rows.items():
        say("", f"{name}:", *(f"* {reason}" for reason in made.reasons))


def main() -> None:
    """Read what is to be measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.texts")
    parser.add_argument("--half", choices=["tune", "report"], default="tune")
    parser.add_argument("--shipped", action="store_true", help="the cases of the examples, too")
    parser.add_argument("--rows", nargs="+", default=list(policies()), choices=list(policies()))
    add_model(parser)
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()

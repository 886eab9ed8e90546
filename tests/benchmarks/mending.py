"""What mends a line that came out wrong: `python -m tests.benchmarks.mending --model FILE.gguf`.

A table with a row for each policy, of chains of sums, differences and products by one digit, 5, 10 and 20 steps
long. All rows have the same chains, anew for each `--seed`:

    right      of all requests, those with the right answer, with an interval of 95 % after Wilson
    lines      those that were asked for alone, and those that the guard wrote, of a thousand delivered
    tokens     generated ones against those of a faithful trace: as many a character as requests took that
               came through in one generation
    prompt     prompt tokens a request, as the server counts them
    asked      generations a request
    seconds    a request, with so many requests at once as `--slots` says
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from guard.cli.amounts import whole
from guard.procedure.execute import Program, reference
from guard.procedure.load import load
from guard.procedure.types import Value
from guard.run.ladders import Action, Rule, Rung, always
from guard.run.messages import StepClass
from guard.run.policy import Policy
from guard.trace import render
from tests.benchmarks.prompting import Found, say
from tests.benchmarks.runs import NONCE, SECONDS, add_model, carry_out, started, without
from tests.live import Heard

LENGTHS: Final = (5, 10, 20)
SMALL: Final = 1_500  # what is larger is not multiplied
CONTEXT: Final = 4096
HEAD: Final = (
    "| policy | right | asked for alone, of 1,000 lines | written by the guard | tokens | prompt | asked | seconds |",
    "|---|---|---|---|---|---|---|---|",
)


def only(action: Action, times: int = 3) -> tuple[Rule, ...]:
    """One action, up to three times a line."""
    return always((Rung(action, times), Action.REJECT))


def policies() -> Mapping[str, Policy]:
    """The rows."""
    rules = {
        "first generation": always((Action.REJECT,)),
        "resume": only(Action.RESUME),
        "feedback": only(Action.FEEDBACK),
        "isolate": only(Action.ISOLATE),
        "default, no repair": without(Action.REPAIR),
        "default": (),
    }
    return {
        name: Policy(rules=each, attempts=60, attempts_per_step=3, seconds=SECONDS)
        if name in {"resume", "feedback", "isolate"}
        else Policy(rules=each, seconds=SECONDS)
        for name, each in rules.items()
    }


@dataclass(frozen=True, kw_only=True)
class Chain:
    """One request, and what is right."""

    program: Program
    inputs: dict[str, Value]
    trace: str


def chain(length: int, seed: int) -> Chain:
    """Draw a chain of so many lines, the last of which returns."""
    random = Random(f"mending {length} {seed}")
    values = {"a": random.randint(2, 60), "b": random.randint(2, 60)}
    inputs: dict[str, Value] = dict(values)
    lines = list[str]()
    for number in range(1, length):
        near = f"s{number - 1}" if number > 1 else "a"
        far = random.choice([name for name in values if name != near][-3:])
        digit = random.randint(2, 9)
        product = f"{near} * {digit}", values[near] * digit
        text, value = random.choice(
            [
                (f"{near} + {far}", values[near] + values[far]),
                (f"{near} - {far}", values[near] - values[far]),
                *([product] if abs(values[near]) <= SMALL else []),
            ]
        )
        values[f"s{number}"] = value
        lines.append(f"  s{number} = {text}\n")
    head = "procedure chain(a: int, b: int) -> int\n"
    [program] = load(f"{head}{''.join(lines)}  return s{length - 1}\n").procedures.values()
    steps, _ = reference(program, inputs, {})
    return Chain(program=program, inputs=inputs, trace=render.trace(program, steps, NONCE))


@dataclass(kw_only=True)
class Row:
    """What came of all requests under one policy; `plain` are tokens and characters of right first generations."""

    found: Found
    lines: int = 0
    isolated: int = 0
    repaired: int = 0
    generated: int = 0
    told: int = 0
    asked: int = 0
    faithful: int = 0
    seconds: float = 0.0
    plain: tuple[int, int] = (0, 0)

    def note(self, each: Chain, heard: Heard, seconds: float) -> None:
        """Add one request."""
        end = heard.end
        assert end is not None
        right = end.answer is not None and end.trace == each.trace
        generated = sum(usage.completion for usage in end.usage)
        self.found.note("right", right=right)
        self.seconds += seconds
        self.lines += len(end.classes)
        self.isolated += len(end.isolated)
        self.repaired += sum(one is StepClass.REPAIRED for one in end.classes.values())
        self.generated += generated
        self.told += sum(usage.prompt for usage in end.usage)
        self.asked += end.generations
        self.faithful += len(each.trace)
        if right and end.generations == 1:
            self.plain = (self.plain[0] + generated, self.plain[1] + len(each.trace))

    def text(self, name: str, tokens_a_character: float | None) -> str:
        """Write the row of a table; None where it is not known what a faithful trace takes."""
        plain = None if tokens_a_character is None else self.faithful * tokens_a_character
        ratio = "not known" if plain is None else f"{self.generated / plain:.2f}"
        of, share = self.found.of["right"], 1000 / max(1, self.lines)
        return (
            f"| {name} | {self.found.share('right')} | {self.isolated * share:.0f} | {self.repaired * share:.0f} "
            f"| {ratio} | {self.told / of:.0f} "
            f"| {self.asked / of:.1f} | {self.seconds / of:.1f} |"
        )


async def measure(arguments: argparse.Namespace) -> None:
    """Print the table once all is measured, and what is known so far to the side."""
    chains = [chain(length, arguments.seed + run) for run in range(arguments.runs) for length in LENGTHS]
    rows = {name: Row(found=Found(right=Counter(), of=Counter())) for name in arguments.rows}
    async with started(arguments, CONTEXT) as upstream:
        for name, made in rows.items():
            await carry_out(upstream, policies()[name], chains, arguments.slots, made.note)
            sys.stderr.write(f"{made.text(name, None)}\n")
        model = upstream.target.model
    tokens, characters = (sum(one.plain[index] for one in rows.values()) for index in (0, 1))
    say(f"{model}, {len(chains)} chains from seed {arguments.seed}", "", *HEAD)
    say(*(one.text(name, tokens / characters if tokens else None) for name, one in rows.items()))


def main() -> None:
    """Read what is to be measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.mending")
    parser.add_argument("--runs", type=whole(1, 100_000), default=10, help="chains of each length")
    parser.add_argument("--seed", type=whole(0, 10**9), default=0, help="of the first chain")
    parser.add_argument("--rows", nargs="+", default=list(policies()), choices=list(policies()))
    add_model(parser)
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()

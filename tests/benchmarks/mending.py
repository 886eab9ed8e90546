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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Final

from guard.cli.amounts import whole
from guard.dialect.line import Level
from guard.procedure.execute import Program, reference
from guard.procedure.load import load
from guard.procedure.types import Value
from guard.run.ladders import Action, Rule, Rung, always, defaults
from guard.run.messages import StepClass
from guard.run.opening import Job
from guard.run.policy import Policy
from guard.trace import prompt, render
from guard.upstream.http import Timeouts
from guard.upstream.local import LocalUpstream
from guard.upstream.model import resolve
from guard.wire.conversation import sent_on
from tests.benchmarks.prompting import Found, say
from tests.live import Heard, ask

LENGTHS: Final = (5, 10, 20)
SMALL: Final = 1_500  # what is larger is not multiplied
NONCE: Final = "3fa92c"
CONTEXT: Final = 4096
PATIENT: Final = Timeouts(first_s=900, idle_s=900)
HEAD: Final = (
    "| policy | right | asked for alone, of 1,000 lines | written by the guard | tokens | prompt | asked | seconds |",
    "|---|---|---|---|---|---|---|---|",
)
SECONDS: Final = 3600.0  # for a request: no row ends for want of time


def without_repair(level: Level = Level.OPERANDS) -> tuple[Rule, ...]:
    """The default ladders, but the guard writes no line."""
    return tuple(
        Rule(
            ladder=tuple(rung for rung in ladder if rung.action is not Action.REPAIR), kinds=frozenset({kind})
        )
        for kind, ladder in defaults(level).items()
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
        "default, no repair": without_repair(),
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


def job(one: Chain) -> Job:
    """Ask as the endpoint does."""
    closing = prompt.closing(one.program, one.inputs, NONCE)
    messages = sent_on([{"role": "user", "content": closing}], prompt.instructions(one.program))
    return Job(program=one.program, inputs=one.inputs, messages=messages, nonce=NONCE)


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

    def text(self, name: str, tokens_a_character: float) -> str:
        """Write the row of a table."""
        of, share = self.found.of["right"], 1000 / max(1, self.lines)
        return (
            f"| {name} | {self.found.share('right')} | {self.isolated * share:.0f} | {self.repaired * share:.0f} "
            f"| {self.generated / (self.faithful * tokens_a_character):.2f} | {self.told / of:.0f} "
            f"| {self.asked / of:.1f} | {self.seconds / of:.1f} |"
        )


async def row(upstream: LocalUpstream, policy: Policy, chains: Iterable[Chain], slots: int) -> Row:
    """Carry all chains out under one policy."""
    free, made = asyncio.Semaphore(slots), Row(found=Found(right=Counter(), of=Counter()))

    async def one(each: Chain) -> None:
        async with free:
            began = perf_counter()
            heard = await ask(upstream, job(each), policy)
            made.note(each, heard, perf_counter() - began)

    await asyncio.gather(*map(one, chains))
    return made


async def measure(arguments: argparse.Namespace) -> None:
    """Print the table once all is measured, and what is known so far to the side."""
    chains = [chain(length, arguments.seed + run) for run in range(arguments.runs) for length in LENGTHS]
    upstream = LocalUpstream(
        "local",
        arguments.model or resolve(),
        threads=arguments.threads,
        context=CONTEXT,
        slots=arguments.slots,
        timeouts=PATIENT,
    )
    rows = dict[str, Row]()
    try:
        await upstream.start()
        for name in arguments.rows:
            rows[name] = made = await row(upstream, policies()[name], chains, arguments.slots)
            sys.stderr.write(f"{made.text(name, 1)}\n")
    finally:
        await upstream.close()
    tokens, characters = (sum(one.plain[index] for one in rows.values()) for index in (0, 1))
    say(f"{upstream.target.model}, {len(chains)} chains from seed {arguments.seed}", "", *HEAD)
    say(*(one.text(name, tokens / characters if tokens else 1) for name, one in rows.items()))


def main() -> None:
    """Read what is to be measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.mending")
    parser.add_argument("--model", type=Path, help="a GGUF file; default: the embedded model")
    parser.add_argument("--runs", type=whole(1, 100_000), default=10, help="chains of each length")
    parser.add_argument("--seed", type=whole(0, 10**9), default=0, help="of the first chain")
    parser.add_argument("--rows", nargs="+", default=list(policies()), choices=list(policies()))
    parser.add_argument("--threads", type=whole(1, 64), default=2)
    parser.add_argument("--slots", type=whole(1, 64), default=2)
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()

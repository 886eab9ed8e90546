"""Which way of forcing serves a model best: `XDG_CACHE_HOME=... python -m tests.benchmarks.forcing`.

The same requests go to the local model with nothing forced, with a grammar of shapes, with a grammar that has
the operands, and line by line. Each wrong line is tried twice again, then scaffolded, then written by the
guard; a run succeeds where the guard had to write none. The ways take turns request by request, so that what
else the machine does weighs on all of them alike.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from operator import itemgetter
from random import Random
from time import perf_counter
from typing import Any

from guard.check.verdict import Judgement, StepVerified, Violation
from guard.cli.amounts import MOST_SEED, whole
from guard.dialect.lark import Level
from guard.engine import drive
from guard.procedure.execute import Program
from guard.procedure.load import load
from guard.run.ladders import Action, Rung, always
from guard.run.messages import Close, Finish, Open, Outcome
from guard.run.policy import ForceBy, Policy
from guard.run.run import Job, Run
from guard.telemetry.observer import Observer, RunInfo, RunObserver
from guard.trace import prompt
from guard.upstream.base import Upstream
from guard.upstream.local import LocalUpstream
from guard.upstream.model import resolve
from guard.wire.conversation import sent_on
from tests.benchmarks.waiting import Caller
from tests.worked import every

CHAIN = """\
procedure chain(a: int, b: int) -> int
  x = a + b
  y = x * 3
  z = y - b
  w = z + x
  return w

example chain
  a = 6
  b = 9
"""
LONGEST = 45  # lines of a shipped case: more take long and show nothing else
CHAIN_TOKENS, SHIPPED_TOKENS = 300, 900  # of one request: a shape lets a small model write on and on
LADDER = always([Rung(Action.RESUME, 2), Rung(Action.SCAFFOLD, 1), Action.REPAIR, Action.REJECT])
GOOD = frozenset({Outcome.ACCEPTED_FIRST, Outcome.ACCEPTED_AFTER_RETRY})
WAYS = {
    "none": (Level.NONE, ForceBy.GRAMMAR),
    "shape, by grammar": (Level.SHAPE, ForceBy.GRAMMAR),
    "operands, by grammar": (Level.OPERANDS, ForceBy.GRAMMAR),
    "operands, by lines": (Level.OPERANDS, ForceBy.LINES),
}


@dataclass
class Tally(RunObserver, Observer):
    """What the requests of one way came to."""

    runs: int = 0
    succeeded: int = 0
    first: int = 0  # of them, those in which nothing was wrong
    asked: int = 0  # lines to be computed that the model was asked for
    right: int = 0  # of them, those that were right at the first try
    requests: int = 0
    written: int = 0  # tokens
    read: int = 0
    seconds: float = 0.0
    outcomes: dict[str, int] = field(default_factory=dict)
    _open: bool = False
    _wrong: bool = False

    def run_started(self, info: RunInfo) -> RunObserver:  # noqa: ARG002
        self._open = self._wrong = False
        return self

    def opened(self, command: Open) -> None:  # noqa: ARG002
        self._open = True
        self.requests += 1

    def closed(self, command: Close) -> None:
        self._open = False
        self.written += command.usage.completion
        self.read += command.usage.prompt

    def observed(self, judgement: Judgement, generation: int = 0) -> None:  # noqa: ARG002
        match judgement:
            case StepVerified(decided=decided):
                if not decided and (self._open or self._wrong):
                    self.asked += 1
                    self.right += not self._wrong
                self._wrong = False
            case Violation():
                self._wrong = True
            case _:
                pass

    def done(self, finish: Finish, seconds: float) -> None:
        self.runs += 1
        self.asked += self._wrong
        self.succeeded += finish.outcome in GOOD
        self.first += finish.outcome is Outcome.ACCEPTED_FIRST
        self.seconds += seconds
        self.outcomes[finish.outcome.value] = self.outcomes.get(finish.outcome.value, 0) + 1

    @property
    def row(self) -> str:
        """Its cells in a table, tokens and seconds for one request."""
        n = max(1, self.runs)
        return (
            f"{self.succeeded} of {self.runs} | {self.first} of {self.runs} | "
            f"{self.right} of {self.asked} ({self.right / max(1, self.asked):.0%}) | {self.requests / n:.1f} | "
            f"{self.written / n:.0f} | {self.read / n:.0f} | {self.seconds / n:.2f}"
        )


def chains(count: int, random: Random) -> Iterator[Job]:
    """Draw requests for five steps."""
    program = load(CHAIN).procedures["chain"]
    for _ in range(count):
        yield _job(program, {"a": random.randint(2, 15), "b": random.randint(2, 15)}, random)


def shipped(count: int, random: Random) -> Iterator[Job]:
    """Draw requests out of the worked cases of the examples, one of each procedure first."""
    cases = [one for one in every() if one.trace is not None and one.trace.count("\n") <= LONGEST]
    random.shuffle(cases)
    turn: Counter[str] = Counter()
    turns = []
    for one in cases:
        turns.append((turn[one.folder], one))
        turn[one.folder] += 1
    for _, one in sorted(turns, key=itemgetter(0))[:count]:
        yield _job(one.program, one.given, random)


def _job(program: Program, given: dict[str, Any], random: Random) -> Job:
    inputs = program.accept(given)
    nonce = f"{random.getrandbits(24):06x}"
    closing = prompt.closing(program, inputs, nonce)
    said = sent_on([{"role": "user", "content": closing}], prompt.instructions(program))
    return Job(program=program, inputs=inputs, messages=said, nonce=nonce)


async def carry_out(job: Job, policy: Policy, upstream: Upstream, tally: Tally) -> None:
    """Send one request."""
    name = job.program.name
    info = RunInfo(
        procedure=name, version=None, digest="", audit_id=job.nonce, mode="enforce", stream=True, model=""
    )
    run = Run(job, policy, [upstream.target])
    started = perf_counter()
    steps = drive(run, {upstream.target.name: upstream}, tally, info, client=Caller(), seconds=policy.seconds)
    async with aclosing(steps) as commands:
        async for command in commands:
            if isinstance(command, Finish):
                tally.done(command, perf_counter() - started)


async def measure(
    title: str, jobs: Sequence[Job], upstream: Upstream, *, tokens: int, ways: Collection[str]
) -> None:
    """Measure ways over the same requests and print a table. `tokens` are for one request."""
    tallies = {name: Tally() for name in ways}
    for count, job in enumerate(jobs, 1):
        for name in ways:
            level, by = WAYS[name]
            policy = Policy(
                attempts=1000, rules=LADDER, force=level, force_by=by, output_tokens=tokens, seconds=180
            )
            await carry_out(job, policy, upstream, tallies[name])
        sys.stderr.write(f"{title}: {count} of {len(jobs)}\n")
    lines = [
        f"{title}, {len(jobs)} requests",
        "",
        "| way | succeeded | at once | lines right at the first try | requests | written | read | seconds |",
        "|---|---|---|---|---|---|---|---|",
        *(f"| {name} | {tally.row} |" for name, tally in tallies.items()),
        "",
        *(f"{name}: {tally.outcomes}" for name, tally in tallies.items()),
    ]
    sys.stdout.write("".join(f"{line}\n" for line in lines))


async def main() -> None:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--runs", type=whole(1, 100_000), default=24, help="requests of each kind (default %(default)s)"
    )
    parser.add_argument("--seed", type=whole(0, MOST_SEED), default=1)
    parser.add_argument("--only", choices=["chain", "shipped"])
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    said = parser.parse_args()
    upstream = LocalUpstream("local", resolve())
    await upstream.start()
    try:
        if said.only != "shipped":
            jobs = list(chains(said.runs, Random(said.seed)))
            await measure("a chain of 5 steps", jobs, upstream, tokens=CHAIN_TOKENS, ways=said.ways)
        if said.only != "chain":
            jobs = list(shipped(said.runs, Random(said.seed)))
            await measure("shipped procedures", jobs, upstream, tokens=SHIPPED_TOKENS, ways=said.ways)
    finally:
        await upstream.close()


if __name__ == "__main__":
    asyncio.run(main())

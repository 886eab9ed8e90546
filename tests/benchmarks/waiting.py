"""How long a run keeps the event loop to itself: `python -m tests.benchmarks.waiting`.

What an upstream writes is read between the turns of everybody else. Beside a run that reads the worst
that an upstream can write, a second task notes the longest that its turn did not come, in processor time,
so that other programs do not count.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field
from time import process_time

from guard.engine import drive
from guard.procedure.execute import Program
from guard.run.messages import Ended, Finish, Open, Target, Text
from guard.run.policy import Policy
from guard.run.run import Job, Run
from guard.telemetry.observer import Observer, RunInfo
from guard.trace.parser import Parser, same_working
from guard.upstream.base import ClientCall, Passage, PassageAnswer
from tests.benchmarks.checking import NONCE, Inputs, chain, loop, traced

CHARACTERS = 16_000  # of a long line
TARGET = Target(name="u", model="m", prefill=True, dialect=None)
INFO = RunInfo(procedure="p", version=None, digest="d", audit_id="a", mode="enforce", stream=True, model="m")


class Writer:
    """An upstream that has all of its answer ready, in pieces."""

    target = TARGET

    def __init__(self, text: str, size: int) -> None:
        self._text, self._size = text, size

    async def stream(self, command: Open, *, client: ClientCall) -> AsyncGenerator[Text | Ended]:  # noqa: ARG002
        text = self._text.removeprefix(command.prefix)
        for at in range(0, len(text), self._size):
            yield Text(text[at : at + self._size])
        yield Ended("stop")

    def forward(self, request: Passage, *, client: ClientCall) -> AbstractAsyncContextManager[PassageAnswer]:
        raise NotImplementedError

    async def start(self) -> None: ...

    async def close(self) -> None: ...


@dataclass
class Caller:
    """A client that asks for nothing in particular."""

    extra: dict[str, object] = field(default_factory=dict)
    authorization: str | None = None


async def _watch(longest: list[float]) -> None:
    while True:
        before = process_time()
        await asyncio.sleep(0)
        longest[0] = max(longest[0], process_time() - before)


async def _carry_out(run: Run, upstream: Writer) -> Finish:
    async with aclosing(
        drive(run, {TARGET.name: upstream}, Observer(), INFO, client=Caller(), seconds=600)
    ) as commands:
        async for command in commands:
            if isinstance(command, Finish):
                return command
    raise AssertionError("a run ends with its end")


async def _measure(run: Run, upstream: Writer) -> tuple[float, Finish]:
    longest = [0.0]
    watch = asyncio.create_task(_watch(longest))
    await asyncio.sleep(0)
    finish = await _carry_out(run, upstream)
    await asyncio.sleep(0)  # its last turn was the longest, perhaps
    watch.cancel()
    return longest[0], finish


def longest_wait(program: Program, inputs: Inputs, text: str, size: int) -> tuple[float, Finish]:
    """Seconds that others wait at most while a run reads a text in pieces of a size, and how it ends."""
    job = Job(program=program, inputs=inputs, messages=({"role": "user", "content": "Go."},), nonce=NONCE)
    policy = Policy(output_tokens=10_000_000)
    gc.collect()
    return asyncio.run(_measure(Run(job, policy, (TARGET,)), Writer(text, size)))


def texts() -> Iterator[tuple[str, str]]:
    """What the worst of upstreams writes to a run of `chain`, each with its name."""
    begin = f"@begin chain {NONCE}\n"
    rows = {
        "one sum": "1 s1 = " + "1+" * CHARACTERS,
        "one sum, spelled as usual": "1 s1 = 1" + " + 1" * (CHARACTERS // 4 - 4) + " = 2",
        "one list": "1 s1 = [" + "1," * CHARACTERS,
        "one list, spelled as usual": "1 s1 = [" + "1, " * (CHARACTERS // 3 - 9) + "1]",
        "one call": "1 s1 = f(" + "a," * CHARACTERS,
        "one path of fields": "1 s1 = a" + ".a" * CHARACTERS,
        "one string": '1 s1 = "' + "\\u0041" * (CHARACTERS // 6 - 9) + '"',
        "brackets": "1 s1 = " + ("(1 + " * 59 + "1" + ")" * 59 + " + ") * 99,
        "quotes": "1 s1 = 1" + ' <- "a"' * CHARACTERS,
    }
    for name, row in rows.items():
        yield name, f"{begin}{row[:CHARACTERS]}\n"
    yield "a preamble of 4 MB", "Let me think about it. " * 180_000
    yield "4 MB of preamble in lines", "Let me think about it.\n" * 180_000
    yield "4 MB of blank lines", begin + "\n" * 4_000_000
    yield "4 MB of blank lines, behind the answer", traced(*chain(95)) + "\n" * 4_000_000


def main() -> None:
    """Print what is measured."""
    out = sys.stdout
    Parser().feed("1 usual = 1\n?\n")  # as a server does before its first request
    same_working("1", "2")
    cases = [(name, *chain(95), text) for name, text in texts()]
    for passes in (99, 499, 9_999):
        long = loop(passes)
        cases.append((f"a faithful trace of {10 * passes + 3:,} steps", *long, traced(*long)))
    for name, program, inputs, text in cases:
        for size in (4, 65_536, len(text)):
            if len(text) > 1_000_000 and size == 4:
                continue
            wait, finish = longest_wait(program, inputs, text, size)
            out.write(f"{name}, in pieces of {size:,}: {wait * 1e3:.1f} ms ({finish.outcome})\n")


if __name__ == "__main__":
    main()

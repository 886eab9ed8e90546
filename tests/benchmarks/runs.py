"""Many runs of one model on this machine, so many at once: what the benchmarks of policies have in common."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Final, Protocol, TypeVar

from guard.cli.amounts import whole
from guard.procedure.execute import Program
from guard.procedure.types import Value
from guard.run.ladders import Action, Rule, always, defaults
from guard.run.opening import Job
from guard.run.policy import Policy
from guard.trace import prompt
from guard.upstream.http import Timeouts
from guard.upstream.local import LocalUpstream
from guard.upstream.model import resolve
from guard.wire.conversation import sent_on
from tests.live import Heard, ask

NONCE: Final = "3fa92c"
PATIENT: Final = Timeouts(first_s=900, idle_s=900)
SECONDS: Final = 3600.0  # for a request: no row ends for want of time


class Asked(Protocol):
    """What is asked for."""

    @property
    def program(self) -> Program:
        """The procedure."""

    @property
    def inputs(self) -> dict[str, Value]:
        """Its inputs."""


One = TypeVar("One", bound=Asked)


def job(asked: Asked) -> Job:
    """Ask as the endpoint does."""
    closing = prompt.closing(asked.program, asked.inputs, NONCE)
    messages = sent_on([{"role": "user", "content": closing}], prompt.instructions(asked.program))
    return Job(program=asked.program, inputs=asked.inputs, messages=messages, nonce=NONCE)


def without(*actions: Action) -> tuple[Rule, ...]:
    """Give the default ladders without some actions."""
    ladders = {
        kind: tuple(rung for rung in ladder if rung.action not in actions)
        for kind, ladder in defaults(Policy().force).items()
    }
    ends = always((Action.REJECT,))[0].ladder
    return tuple(Rule(ladder=ladder or ends, kinds=frozenset({kind})) for kind, ladder in ladders.items())


async def carry_out(
    upstream: LocalUpstream,
    policy: Policy,
    asked: Iterable[One],
    slots: int,
    note: Callable[[One, Heard, float], None],
) -> None:
    """Carry all out under one policy; each is noted when it is over, with the seconds that it took."""
    free = asyncio.Semaphore(slots)

    async def one(each: One) -> None:
        async with free:
            began = perf_counter()
            heard = await ask(upstream, job(each), policy)
            note(each, heard, perf_counter() - began)

    await asyncio.gather(*map(one, asked))


def add_model(parser: argparse.ArgumentParser) -> None:
    """Let a command line say which model is asked, and with how much of the machine."""
    parser.add_argument("--model", type=Path, help="a GGUF file; default: the embedded model")
    parser.add_argument("--threads", type=whole(1, 64), default=2)
    parser.add_argument("--slots", type=whole(1, 64), default=2)


@asynccontextmanager
async def started(arguments: argparse.Namespace, context: int) -> AsyncIterator[LocalUpstream]:
    """Give the model that a command line names, for `context` tokens a slot."""
    upstream = LocalUpstream(
        "local",
        arguments.model or resolve(),
        threads=arguments.threads,
        context=context,
        slots=arguments.slots,
        timeouts=PATIENT,
    )
    try:
        await upstream.start()
        yield upstream
    finally:
        await upstream.close()

"""From a bound request to the bytes that its client gets: drives the run and sends what it lets go."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from time import perf_counter
from typing import Final, TypeVar

from guard.config import Service
from guard.engine import drive
from guard.proxy.binding import Bound, Caller
from guard.proxy.exchange import ClientGone, Exchange
from guard.proxy.responses import KEEP_ALIVE, STREAM_HEADERS, Answer
from guard.run.asked import Asking
from guard.run.messages import Emit, Finish, Relay
from guard.run.race import machine
from guard.telemetry.observer import RunInfo, Stage

KEEP_ALIVE_S: Final = 10.0  # between two comments on a stream that has nothing to say

LOOKED_THROUGH: Final = 2_048  # characters that were released, in which keys are sought within milliseconds

T = TypeVar("T")
Steps = AsyncGenerator[Emit | Relay | Finish]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What travels unchanged to an upstream; see `guard.upstream.base.ClientCall`."""

    extra: dict[str, object]
    authorization: str | None


async def deliver(service: Service, exchange: Exchange, caller: Caller, bound: Bound) -> None:
    """Carry a bound request out and answer it, in one piece or as a stream."""
    audit_id, nonce, stream = new_audit_id(), secrets.token_hex(3), bool(bound.request.stream)
    created = int(time.time())  # noqa: TID251 (a date for people)
    sink = service.sink.also(caller.authorization, caller.key)
    run = Asking(machine(bound.job(nonce), bound.policy, bound.targets))
    answer = Answer(bound, audit_id=audit_id, nonce=nonce, created=created, sink=sink, asking=run)
    info = RunInfo(
        procedure=bound.program.name,
        version=bound.program.version,
        digest=bound.program.digest,
        audit_id=audit_id,
        mode="enforce",
        stream=stream,
        model=bound.request.model,
        step_kinds=bound.program.step_numbers,
        traceparent=caller.traceparent,
        sink=sink,
    )
    steps = drive(
        run,
        service.upstreams,
        service.observer,
        info,
        client=Call(extra=bound.extra, authorization=caller.authorization),
        seconds=bound.policy.seconds,
        started=exchange.started,
    )
    exchange.counted = True
    async with exchange.watched(), aclosing(steps):
        if stream:
            spent_s = await _Stream(exchange, answer, bound.enforced.settings.commit_after_s).send(steps)
        else:
            spent_s = await _whole(exchange, answer, steps)
    service.observer.overhead(Stage.DELIVER, spent_s)


async def _whole(exchange: Exchange, answer: Answer, steps: Steps) -> float:
    """Answer in one piece. Gives the seconds that it took to make it."""
    spent_s = 0.0
    async for step in steps:
        if isinstance(step, Relay):
            answer.keep(step)
        if isinstance(step, Finish):
            before = perf_counter()
            made = await _made(answer.whole, step)
            spent_s = perf_counter() - before
            await exchange.answer(*made)
    return spent_s


async def _made(make: Callable[[Finish], T], finish: Finish) -> T:
    """Make what the end of a run comes to: in another thread where a long text is looked through for keys."""
    long = len(finish.unverified) > LOOKED_THROUGH
    return await asyncio.to_thread(make, finish) if long else make(finish)


class _Stream:
    """A stream that begins with the first verified step, or when its client has waited long enough."""

    def __init__(self, exchange: Exchange, answer: Answer, commit_after_s: float) -> None:
        self._exchange, self._answer = exchange, answer
        self._sending = asyncio.Lock()  # the steps and the comments between them
        self._spent_s = 0.0
        self._clock = asyncio.get_running_loop().time
        self._due = self._clock() + commit_after_s  # when a comment is, unless something else is said

    async def send(self, steps: Steps) -> float:
        keep_alive = asyncio.create_task(self._keep_alive())
        try:
            async for step in steps:
                async with self._sending:
                    match step:
                        case Emit() | Relay():
                            await self._step(step)
                        case Finish():
                            keep_alive.cancel()
                            await self._finish(step)
        finally:
            keep_alive.cancel()
        return self._spent_s

    async def _step(self, step: Emit | Relay) -> None:
        before = perf_counter()
        data = self._answer.step(step) if isinstance(step, Emit) else self._answer.thought(step)
        self._spent_s += perf_counter() - before
        if data:
            await self._write(data)

    async def _write(self, data: bytes) -> None:
        await self._begin()
        await self._exchange.write(data)
        self._due = self._clock() + KEEP_ALIVE_S

    async def _finish(self, finish: Finish) -> None:
        if finish.error is not None and not self._exchange.committed:
            await self._exchange.answer(*self._answer.whole(finish))
            return
        before = perf_counter()
        data = await _made(self._answer.last, finish)
        self._spent_s += perf_counter() - before
        await self._begin(finish)
        await self._exchange.end(data)

    async def _begin(self, finish: Finish | None = None) -> None:
        """Send the status and the headers, unless that is done; of the end, if that is known by then."""
        if not self._exchange.committed:
            self._exchange.streaming = True
            known = self._answer.headers if finish is None else self._answer.headers_at(finish)
            await self._exchange.begin(200, (*STREAM_HEADERS, *known))

    async def _keep_alive(self) -> None:
        """Open the stream when its time has come, and never let it be silent for long from then on."""
        try:
            while True:
                await asyncio.sleep(min(self._due - self._clock(), KEEP_ALIVE_S))
                async with self._sending:
                    if self._clock() >= self._due:
                        await self._write(KEEP_ALIVE)
        except ClientGone:
            pass  # whoever writes next finds out, or is told by the watch


def new_audit_id() -> str:
    """Make a UUID of version 7: its order is that of time."""
    moment = time.time_ns() // 1_000_000  # noqa: TID251 (so that ids sort by date)
    value = (moment & (1 << 48) - 1) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(3 << 62) | 2 << 62
    digits = f"{value:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

"""The driver: performs a run's commands with asyncio. Decides nothing.

    async with aclosing(drive(run, upstreams, observer, info, client=..., seconds=...)) as steps:
        async for step in steps:  # every Emit and Relay as it comes, then exactly one Finish

Whoever stops listening (closes the generator or is cancelled) has the run cancelled and the upstream's
connection closed before the generator is done.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import CancelledError
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import Protocol, TypeVar

from guard.check.report import StepCounts
from guard.errors import UpstreamError, UpstreamProtocolError, UpstreamTimeout
from guard.run.messages import (
    Cancelled,
    Close,
    Command,
    Emit,
    Ended,
    Failed,
    Finish,
    Observe,
    Open,
    Outcome,
    OutOfTime,
    Relay,
    Result,
    RunError,
    RunEvent,
    Text,
    Usage,
    Wait,
    Waited,
)
from guard.telemetry.foreign_log import crashed
from guard.telemetry.observer import Observer, RunInfo, Stage
from guard.upstream.base import OUT_OF_TIME, ClientCall, Sparing, Upstream

log = logging.getLogger(__name__)

SERVERS_FAULT = 500  # statuses from here on are for the operator to know
SLICE = 512  # characters that a run is told at once; a flood of short lines takes a few milliseconds
LINGER_S = 2.0  # for the usage of a generation whose text is whole, where its server says nothing more
BUSY_S = 0.001  # that a run may have worked before others get their turn

T = TypeVar("T")


def read_clock() -> datetime:
    """Give the time, in UTC: the only place that looks at a clock of the day."""
    return datetime.now(UTC)  # noqa: TID251


async def give_way() -> None:
    """Let all others have their turn after long work.

    What came for them meanwhile is queued after this task where it waits but once.
    """
    await asyncio.sleep(0)
    await asyncio.sleep(0)


class Machine(Protocol):
    """The run, as the driver sees it; `guard.run.run.Run` is one, `guard.run.race.Race` another.

    It may have several generations open at once. What an upstream did comes with the number of its
    generation; for everything else the number says nothing.
    """

    @property
    def decided(self) -> bool:
        """Whether nothing that the open generation still says counts: its usage is not waited for long."""

    def start(self) -> Iterable[Command]: ...

    def handle(self, event: RunEvent, generation: int, /) -> Iterable[Command]: ...


async def drive(
    run: Machine,
    upstreams: Mapping[str, Upstream],
    observer: Observer,
    info: RunInfo,
    *,
    client: ClientCall,
    seconds: float,
    started: float | None = None,
) -> AsyncGenerator[Emit | Relay | Finish]:
    """Carry out a run: yield its `Emit` and `Relay` commands and, last, its `Finish`.

    `seconds` is the run's wall time, counted from `started` (on the loop's clock; default: now). Never
    raises for what a run or an upstream does: a bug in either ends in a `Finish` with status 500.
    """
    driver = _Driver(run, upstreams, client, observer, info, seconds=seconds, started=started)
    try:
        driver.begin()
        while True:
            command = await driver.next()
            if command is not None:
                yield command
                if isinstance(command, Finish):
                    return
    except (CancelledError, GeneratorExit):  # the client has gone
        await driver.abandon()
        raise
    except Exception as error:  # noqa: BLE001 (whatever it is, the client gets an end)
        crashed(error, info.sink, f"run {info.audit_id} of {info.procedure} failed")
        yield await driver.crash()
    finally:
        driver.deadline.cancel()


class _Driver:
    def __init__(
        self,
        run: Machine,
        upstreams: Mapping[str, Upstream],
        client: ClientCall,
        observer: Observer,
        info: RunInfo,
        *,
        seconds: float,
        started: float | None,
    ) -> None:
        self._run, self._upstreams, self._client = run, upstreams, client
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time() if started is None else started
        self.deadline = _Deadline(self._started + seconds)
        self._observer, self._info = observer, info
        self._heard = observer.run_started(info)
        self._commands: deque[Command] = deque()
        self._finished = False
        self._open: set[int] = set()  # generations
        self._streams: dict[int, AsyncGenerator[Text | Ended]] = {}
        self._over: set[int] = set()  # generations whose streams have nothing more, closed or not
        # What is waited for where several streams are open; the one that was heard longest ago comes first.
        self._reading: dict[int, asyncio.Future[Text | Ended]] = {}
        self._only: AsyncGenerator[Text | Ended] | None = (
            None  # the stream to be read where it is the only one
        )
        self._current = 0  # the generation that was heard last
        self._slices: Iterator[Text] = iter(())  # what is left of a piece of it too long to be told at once
        self._checked_s = 0.0  # spent in the run itself
        self._busy_s = 0.0  # that this run has worked, or sent what came of it, since others had their turn
        self._since = perf_counter()  # from when on what was done is not counted yet

    def begin(self) -> None:
        """Ask the run what it wants first."""
        before = perf_counter()
        self._commands.extend(self._run.start())
        self._observer.overhead(Stage.PROMPT, perf_counter() - before)

    async def next(self) -> Emit | Relay | Finish | None:
        """Perform one command, or take one event where none is left. Give what the client may have."""
        now = perf_counter()
        self._busy_s += now - self._since
        if self._busy_s > BUSY_S:
            self._busy_s = 0.0
            await asyncio.sleep(0)
        if self._commands:
            self._since = now  # performing it, and whatever the client's side does with it, is work as well
            return await self._perform(self._commands.popleft())
        self._tell(await self._event(), self._current)
        self._since = perf_counter()
        return None

    async def _perform(self, command: Command) -> Emit | Relay | Finish | None:
        match command:
            case Open() as command:
                self._open.add(command.generation)
                self._heard.opened(command)
                upstream = self._upstreams[command.upstream]
                self._streams[command.generation] = upstream.stream(command, client=self._client)
                self._look_for_one()
            case Close() as command:
                await self._close(command)
            case Observe(judgement, generation):
                self._heard.observed(judgement, generation)
            case Wait() as command:
                self._tell(await self._wait(command))
            case Emit() as command:
                self._heard.emitted(command, self._elapsed())
                return command
            case Relay() as command:
                return command
            case Finish() as command:
                self._finish(command)
                return command
        return None

    def _tell(self, event: RunEvent, generation: int = 0) -> None:
        before = perf_counter()
        self._commands.extend(self._run.handle(event, generation))
        spent = perf_counter() - before
        self._checked_s += spent
        self._busy_s += spent

    async def _event(self) -> RunEvent:
        """Take what happens next, to `_current`."""
        rest = None if self.deadline.over else next(self._slices, None)
        if rest is not None:
            return rest
        event = await self._heard_of()
        if isinstance(event, Ended | Failed):
            self._over.add(self._current)
            self._look_for_one()
        if isinstance(event, Text) and len(event.text) > SLICE:
            self._slices = _sliced(event)
            return next(self._slices)
        return event

    async def _heard_of(self) -> RunEvent:
        """Wait for what happens next."""
        try:
            return await self._awaited()
        except TimeoutError:
            if self.deadline.over:
                return OutOfTime()
            return Failed(UpstreamTimeout("its end was not said in time"), self.deadline.left_s)
        except UpstreamError as error:
            return Failed(error, self.deadline.left_s)
        except StopAsyncIteration:
            return Failed(UpstreamProtocolError("the answer ended without its end"), self.deadline.left_s)

    async def _awaited(self) -> Text | Ended:
        """Wait for the next event of an upstream; not long where nothing that it could be counts."""
        wait = self._any if self._only is None else self._only.__anext__
        if not self._run.decided:
            return await self.deadline.guard(wait)
        async with asyncio.timeout(LINGER_S):
            return await self.deadline.guard(wait)

    async def _any(self) -> Text | Ended:
        """Wait for several streams at once and take what comes first."""
        assert len(self._streams) > len(self._over), "a run that neither waits nor reads is finished"
        for generation, stream in self._streams.items():
            if generation not in self._reading and generation not in self._over:
                self._reading[generation] = asyncio.ensure_future(stream.__anext__())
        done, _ = await asyncio.wait(self._reading.values(), return_when=asyncio.FIRST_COMPLETED)
        self._current = next(generation for generation, future in self._reading.items() if future in done)
        reading = self._reading.pop(self._current)
        self._look_for_one()
        return reading.result()

    def _look_for_one(self) -> None:
        """Read a stream that is the only one directly: a task a piece would cost more than the piece."""
        self._only = None
        if len(self._streams) == len(self._over) + 1 and not self._reading:
            self._current, self._only = next(
                (number, stream) for number, stream in self._streams.items() if number not in self._over
            )

    async def _wait(self, command: Wait) -> RunEvent:
        upstream: object = self._upstreams.get(command.upstream)
        try:
            with upstream.retrying(command) if isinstance(upstream, Sparing) else nullcontext(True) as comes:
                await self.deadline.guard(partial(asyncio.sleep, command.seconds if comes else 0))
        except TimeoutError:
            return OutOfTime()
        return Waited()

    async def _close(self, command: Close) -> None:
        """Close the connection first and tell of it then: a cut must not wait for anybody."""
        if command.generation not in self._open:
            return  # never opened, since the client went away before
        self._open.discard(command.generation)
        if self._current == command.generation:
            self._slices = iter(())  # nobody reads on
        stream = self._streams.pop(command.generation, None)
        self._over.discard(command.generation)
        reading = self._reading.pop(command.generation, None)
        self._look_for_one()
        try:
            if reading is not None:
                await _stop(reading, OUT_OF_TIME if self.deadline.over else None)
            if stream is not None:
                await stream.aclose()
        finally:
            self._heard.closed(command)

    def _finish(self, command: Finish) -> None:
        if not self._finished:
            self._finished = True
            error = command.error
            if error is not None and error.status >= SERVERS_FAULT:
                # Its message may quote what the upstream said, which no log may hold.
                log.warning("run %s of %s: %s", self._info.audit_id, self._info.procedure, error.code)
            self._heard.finished(command, self._elapsed())
            self._observer.overhead(Stage.CHECK, self._checked_s)

    async def abandon(self) -> None:
        """Cancel the run, whatever it was about to do, and release the upstream."""
        if self._finished:
            return
        pending, self._commands = list(self._commands), deque()
        try:
            if not any(isinstance(command, Finish) for command in pending):
                pending += self._run.handle(Cancelled(), 0)
            for command in pending:
                match command:
                    case Close():
                        await self._close(command)
                    case Observe(judgement, generation):
                        self._heard.observed(judgement, generation)
                    case Finish():
                        self._finish(command)
                    case Open() | Emit() | Relay() | Wait():
                        pass
        except Exception as error:  # noqa: BLE001 (same)
            crashed(error, self._info.sink, "a run could not be cancelled")
            await self.crash()

    async def crash(self) -> Finish:
        """End a run that is broken itself."""
        for generation in sorted(self._open):
            await self._close(Close(generation=generation, result=Result.INTERNAL_ERROR, usage=Usage()))
        finish = Finish(
            outcome=Outcome.ERROR,
            end=None,
            answer=None,
            trace="",
            attempts=0,
            generations=0,
            violations=(),
            steps=StepCounts(),
            usage=(),
            error=RunError(status=500, type="server_error", code="internal_error", message="internal error"),
            reason="internal error",
        )
        self._finish(finish)
        return finish

    def _elapsed(self) -> float:
        return self._loop.time() - self._started


async def _stop(reading: asyncio.Future[Text | Ended], why: str | None) -> None:
    """Break off what is waited for, so that its stream can be closed."""
    reading.cancel(why)  # and where it has come to something, nobody asks any more
    await asyncio.wait((reading,))


def _sliced(event: Text) -> Iterator[Text]:
    """Cut a long piece. Its tokens count once all of it was told; until then they are ahead."""
    ahead = event.tokens if event.usage is None else event.usage.completion
    for at in range(0, len(event.text), SLICE):
        if at + SLICE >= len(event.text):
            yield replace(event, text=event.text[at:])
        else:
            yield replace(event, text=event.text[at : at + SLICE], tokens=0, ahead=ahead)


class _Deadline:
    """One timer for a whole run: `asyncio.timeout` around every piece would cost more than the piece.

    When the time comes it cancels the task that waits at that moment, or the next one that wants to.
    """

    def __init__(self, when: float) -> None:
        self._waiting: asyncio.Task[object] | None = None
        self.over = self._cancelled = False
        self._when, self._loop = when, asyncio.get_running_loop()
        self._timer = self._loop.call_at(when, self._expire)

    @property
    def left_s(self) -> float:
        """Seconds until then."""
        return self._when - self._loop.time()

    def _expire(self) -> None:
        self.over = True
        if self._waiting is not None:
            self._cancelled = True
            self._waiting.cancel(OUT_OF_TIME)

    async def guard(self, wait: Callable[[], Awaitable[T]]) -> T:
        """Wait for something; raises `TimeoutError` where the time is over first."""
        if self.over:
            raise TimeoutError
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        self._waiting = task
        try:
            return await wait()
        except CancelledError:
            if self._cancelled and task.cancelling() == before + 1:  # nobody else wants it to stop
                raise TimeoutError from None
            raise
        finally:
            self._waiting = None
            if self._cancelled:
                self._cancelled = False
                task.uncancel()

    def cancel(self) -> None:
        """Stop the timer."""
        self._timer.cancel()

"""Mode `observe`: request and answer pass as they are, and what passed is looked at afterwards.

    relay:  upstream --bytes--> client, and a reference to each piece into a `Sighting`
    watch:  one sighting after the other, in turns of a millisecond, once its answer has gone; what takes
            longer, as a long line does, in another thread

Nothing that is known, or goes wrong, on the second line can reach the first. What is kept is bounded: a
single answer by its length, all of them together by the room that there is.
"""

from __future__ import annotations

import asyncio
import logging
import random
from asyncio import CancelledError
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from traceback import extract_tb
from typing import Any, Final

from pydantic import ValidationError

from guard.config import Service
from guard.config.service import Enforced
from guard.engine import BUSY_S, give_way, read_clock
from guard.errors import RequestError, UpstreamError
from guard.foreign import Sink
from guard.procedure.execute import Program
from guard.proxy.binding import Caller, Choice, mode_of, policy_of, without_control
from guard.proxy.delivery import Call, new_audit_id
from guard.proxy.exchange import ClientGone, Exchange
from guard.proxy.sighting import MAX_BYTES, Asked, Conclusion, Sighting, concluded, read
from guard.run.messages import Close, Open, Outcome, Result, Strategy
from guard.telemetry.observer import CHECKED, Observed, Observer, RunInfo, RunObserver, Stage
from guard.upstream.base import Passage
from guard.wire.chat import Control, text_of
from guard.wire.headers import Headers
from guard.wire.members import members

log = logging.getLogger(__name__)

ROOM: Final = 64 * 1024 * 1024  # bytes of answers that wait to be looked at, together
FIRST_S: Final = 0.002  # before a look begins: the end of its answer is still to be sent
CHECK_S: Final = 2.0  # of work on one answer
CLOSE_S: Final = 2.0  # for what is still waiting when the server stops
NAME: Final = 200  # characters of a model's name that are told on


def observes(service: Service, choice: Choice) -> bool:
    """Whether a request is bound and only to be looked at. Raises `RequestError` as `mode_of` does."""
    return choice.procedure is not None and mode_of(service, choice) == "observe"


async def observe(
    service: Service, watch: Watch, exchange: Exchange, *, caller: Caller, choice: Choice, passage: Passage
) -> None:
    """Pass a bound request on and relay its answer; look at it afterwards.

    `passage` is the request with its body as the client wrote it. Raises `RequestError` for control fields
    that mean nothing, never for inputs.
    """
    enforced = service.policies[policy_of(service, choice)]
    _check_control(choice.raw.get("stepguard"))
    upstream = service.upstream_names(choice.route)[0]
    look = _Look(service, watch, exchange, caller=caller, choice=choice, enforced=enforced, body=passage.body)
    exchange.counted = True
    call = Call(extra={}, authorization=caller.authorization)
    try:
        await give_way()  # what is sent on is made by going through the body once more
        passage = replace(passage, body=without_control(choice, passage.body))
        async with (
            exchange.watched(),
            service.upstreams[upstream].forward(passage, client=call) as answer,
        ):
            look.begin(answer.status, answer.headers)
            await exchange.begin(answer.status, answer.headers)
            async for data in answer.body:
                await exchange.write(data)
                look.take(data)
            await exchange.end()
    except (CancelledError, ClientGone):  # or the server stops
        look.end(Observed.CANCELLED, Outcome.CANCELLED)
        raise
    except UpstreamError:
        look.end(Observed.UPSTREAM_ERROR, Outcome.ERROR)
        raise
    except BaseException:  # ours
        look.end(Observed.CHECK_FAILED, Outcome.ERROR)
        raise
    look.end(None, Outcome.PASSTHROUGH)


def _check_control(control: Any) -> None:
    """Refuse control fields that mean nothing, as an enforced request would; inputs are another matter."""
    if control is None:
        return
    try:
        Control.model_validate(control)
    except ValidationError as error:
        for problem in error.errors(include_url=False, include_context=False, include_input=False):
            where = ".".join(map(str, ("stepguard", *problem["loc"])))
            if where.split(".")[1:2] != ["inputs"]:
                message = "expected an object" if not problem["loc"] else problem["msg"].lower()
                raise RequestError(f"{where}: {message}", param=where, code="invalid_value") from None


class _Look:
    """Beside one request: keeps what passes, tells who listens. No method of it ever raises."""

    def __init__(
        self,
        service: Service,
        watch: Watch,
        exchange: Exchange,
        *,
        caller: Caller,
        choice: Choice,
        enforced: Enforced,
        body: bytes,
    ) -> None:
        self._watch, self._exchange, self._observer = watch, exchange, service.observer
        self._sighting = Sighting()
        self._heard = RunObserver()
        with self._harmless():
            assert choice.procedure is not None
            program = enforced.procedures[choice.procedure].program
            sink = service.sink.also(caller.authorization, caller.key)
            self._heard = self._observer.run_started(_info(program, caller, choice, sink))
            opened = _opened(service, choice)
            self._heard.opened(opened)
            if random.random() < enforced.settings.sample:  # noqa: S311 (nothing secret hangs on it)
                target = service.upstreams[opened.upstream].target
                asked = Asked(
                    program=program,
                    control=_control(body),
                    said=_said_last(choice.raw),
                    moment=read_clock(),
                    thinks=target.asked_for(opened.model or target.model).thinks,
                )
                watch.expect(self._sighting, asked)
            else:
                self._sighting.give_up(Observed.NOT_SAMPLED)

    @contextmanager
    def _harmless(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 (the request goes on whatever this is)
            report_fault(error)
            self._sighting.give_up(Observed.CHECK_FAILED)

    def begin(self, status: int, headers: Headers) -> None:
        """The answer begins."""
        with self._harmless():
            self._sighting.begin(status, headers)

    def take(self, data: bytes) -> None:
        """A piece of the answer has gone to the client."""
        if self._sighting.readable:
            with self._harmless():
                self._watch.keep(self._sighting, data)

    def end(self, why: Observed | None, outcome: Outcome) -> None:
        """The exchange is over; `why` is what leaves nothing to be read, if something does."""
        with self._harmless():
            if why is not None:
                self._sighting.give_up(why, finally_=True)
            passed = Passed(
                sighting=self._sighting,
                heard=self._heard,
                observer=self._observer,
                outcome=outcome,
                duration_s=self._exchange.elapsed,
            )
            self._watch.add(passed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """An exchange that is over: what there is to be looked at, and who is to hear of it."""

    sighting: Sighting
    heard: RunObserver
    observer: Observer
    outcome: Outcome
    duration_s: float


class Watch:
    """Looks at what has passed by, one after the other and in turns, so that requests hardly notice."""

    def __init__(self, *, room: int = ROOM, seconds: float = CHECK_S) -> None:
        self._room, self._seconds = room, seconds
        self._held = 0  # bytes
        self._waiting: deque[Passed] = deque()
        self._task: asyncio.Task[None] | None = None

    def expect(self, sighting: Sighting, asked: Asked) -> None:
        """An answer is coming to what was asked."""
        sighting.asked = asked
        self._take(sighting, len(asked.control) + len(asked.said))

    def keep(self, sighting: Sighting, data: bytes) -> None:
        """Keep a piece of an answer, if there is room for it."""
        if sighting.size + len(data) > MAX_BYTES:
            self._release(sighting, Observed.TOO_LONG)
        elif self._take(sighting, len(data)):
            sighting.kept.append(data)

    def _take(self, sighting: Sighting, size: int) -> bool:
        if self._held + size > self._room:
            self._release(sighting, Observed.BUSY)
            return False
        self._held += size
        sighting.size += size
        return True

    def _release(self, sighting: Sighting, why: Observed | None = None) -> None:
        if why is not None:
            sighting.give_up(why)
        self._held -= sighting.size
        sighting.size = 0
        sighting.kept.clear()

    def add(self, passed: Passed) -> None:
        """Look at an answer as soon as there is time; at once where there is nothing to be read."""
        if not passed.sighting.readable:
            self._release(passed.sighting)
            _tell(passed, concluded(passed.sighting.ended or Observed.UPSTREAM_ERROR), 0.0)
            return
        self._waiting.append(passed)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        while self._waiting:
            await asyncio.sleep(FIRST_S)
            passed = self._waiting.popleft()
            try:
                await self._look_at(passed)
            finally:
                self._release(passed.sighting)

    async def _look_at(self, passed: Passed) -> None:
        spent_s = 0.0
        conclusion = concluded(Observed.BUSY)  # where the server stops in the middle of it
        turns = read(passed.sighting)
        try:
            long = False
            while True:
                before = perf_counter()
                done = await _elsewhere(turns) if long else _turn(turns)
                spent_s += perf_counter() - before
                if isinstance(done, Conclusion):
                    conclusion = done
                    break
                if spent_s > self._seconds:
                    conclusion = concluded(Observed.TOO_LONG)
                    break
                long = done
                await asyncio.sleep(0)
        except Exception as error:  # noqa: BLE001 (it is counted, and the next one is looked at)
            report_fault(error)
            conclusion = concluded(Observed.CHECK_FAILED)
        finally:
            turns.close()
            _tell(passed, conclusion, spent_s)

    async def close(self, seconds: float = CLOSE_S) -> None:
        """Finish what is waiting, within seconds; what is left is counted as one that came too late."""
        if self._task is None:
            return
        await asyncio.wait([self._task], timeout=seconds)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        while self._waiting:
            _tell(self._waiting.popleft(), concluded(Observed.BUSY), 0.0)


def _turn(turns: Generator[bool, None, Conclusion], *, elsewhere: bool = False) -> Conclusion | bool:
    """Go on with a look for a moment, or to what takes long; give what it came to once it is over.

    Else it says whether what comes next takes long. `elsewhere`: what does is done here.
    """
    until, long = perf_counter() + BUSY_S, False
    while (elsewhere or not long) and perf_counter() < until:
        try:
            long = next(turns)
        except StopIteration as stop:
            done: Conclusion = stop.value
            return done
    return long


async def _elsewhere(turns: Generator[bool, None, Conclusion]) -> Conclusion | bool:
    """Do what takes long in another thread, which the server does not leave running when it stops."""
    work = asyncio.ensure_future(asyncio.to_thread(_turn, turns, elsewhere=True))
    try:
        return await asyncio.shield(work)
    except CancelledError:
        await asyncio.wait([work])
        raise


def _tell(passed: Passed, conclusion: Conclusion, spent_s: float) -> None:
    """Tell who listens what a request came to."""
    result = conclusion.observation.result
    try:
        for violation in conclusion.violations:
            passed.heard.observed(violation)
        passed.heard.closed(
            Close(generation=1, result=_RESULTS.get(result, Result.PASSED), usage=conclusion.usage)
        )
        passed.heard.concluded(conclusion.observation)
        passed.heard.finished(conclusion.finish(passed.outcome), passed.duration_s)
        if result in CHECKED:
            passed.observer.overhead(Stage.OBSERVE, spent_s)
    except Exception as error:  # noqa: BLE001 (whoever listens is no concern of the request)
        report_fault(error)


_RESULTS: Final = {
    Observed.FAILED: Result.VIOLATION,
    Observed.UPSTREAM_ERROR: Result.UPSTREAM_ERROR,
    Observed.CANCELLED: Result.CANCELLED,
}


def report_fault(error: Exception) -> None:
    """Log where a fault of ours was; its message may hold what a model or a client said."""
    place = extract_tb(error.__traceback__)[-1]
    log.error("observing failed: %s in %s:%s", type(error).__name__, place.filename, place.lineno)


def _info(program: Program, caller: Caller, choice: Choice, sink: Sink) -> RunInfo:
    return RunInfo(
        procedure=program.name,
        version=program.version,
        digest=program.digest,
        audit_id=new_audit_id(),
        mode="observe",
        stream=choice.raw.get("stream") is True,
        model=_name(choice.raw.get("model")),
        step_kinds=program.step_numbers,
        traceparent=caller.traceparent,
        sink=sink,
    )


def _opened(service: Service, choice: Choice) -> Open:
    """Say what is asked of the upstream as far as it can be told of a request that nobody reads."""
    raw, route = choice.raw, choice.route
    most = raw.get("max_completion_tokens") or raw.get("max_tokens")
    return Open(
        generation=1,
        attempt=1,
        upstream=service.upstream_names(route)[0],
        strategy=Strategy.INITIAL,
        messages=(),
        prefix="",
        grammar=None,
        max_tokens=most if isinstance(most, int) else 0,
        temperature=_number(raw.get("temperature")),
        top_p=_number(raw.get("top_p")),
        model=(route.upstream_model if route else None) or _name(raw.get("model")),
        last=True,
    )


def _name(model: object) -> str:
    return model[:NAME] if isinstance(model, str) else ""


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _control(body: bytes) -> bytes:
    """Give the member `stepguard` as it was written: of several the last, as JSON readers have it."""
    found = [body[one.value_at : one.end] for one in members(body) if one.name == "stepguard"]
    return found[-1] if found else b"{}"


def _said_last(raw: Mapping[str, Any]) -> str:
    """Give the text of the last message of a user."""
    messages = raw.get("messages")
    listed = messages if isinstance(messages, list) else []
    said = [one for one in listed if isinstance(one, dict) and one.get("role") == "user"]
    return text_of(said[-1]) if said else ""

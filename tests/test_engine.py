"""The driver, with runs that are told what to say and upstreams that are told how to behave."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager
from dataclasses import dataclass, field
from time import perf_counter

import pytest

from guard.check.report import StepCounts
from guard.check.verdict import Ignored, Judgement
from guard.engine import BUSY_S, SLICE, drive
from guard.errors import UpstreamConnectError, UpstreamProtocolError
from guard.procedure.model import StepKind
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
    RunEvent,
    StepClass,
    Strategy,
    Target,
    Text,
    Usage,
    Wait,
    Waited,
)
from guard.telemetry.foreign_log import FOREIGN
from guard.telemetry.observer import Observer, RunInfo, RunObserver, Stage
from guard.upstream.base import ClientCall, Passage, PassageAnswer
from tests.upstream.servers import HANGS_S

INFO = RunInfo(
    procedure="chain", version=None, digest="d", audit_id="a", mode="enforce", stream=True, model="m"
)


def opening(generation: int = 1) -> Open:
    return Open(
        generation=generation, attempt=1, upstream="u", strategy=Strategy.INITIAL, messages=(), prefix="",
        grammar=None, max_tokens=10, temperature=None,
    )  # fmt: skip


def closing(generation: int = 1, result: Result = Result.PASSED) -> Close:
    return Close(generation=generation, result=result, usage=Usage())


def finishing(outcome: Outcome = Outcome.ACCEPTED_FIRST) -> Finish:
    return Finish(
        outcome=outcome, end=None, answer=None, trace="", attempts=1, generations=1, violations=(),
        steps=StepCounts(), usage=(),
    )  # fmt: skip


EMIT = Emit(step="1", kind=StepKind.ASSIGN, step_class=StepClass.VERIFIED, text="1 x = 1\n", value=1)
NOTE = Observe(Ignored(text="", at=0, why="blank"))


@dataclass
class Told:
    """A run that answers each event with what it was told to."""

    first: list[Command]
    answers: dict[type, list[Command] | Exception] = field(default_factory=dict)
    events: list[RunEvent] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    decided: bool = False

    def start(self) -> list[Command]:
        return self.first

    def handle(self, event: RunEvent, generation: int = 0, /) -> list[Command]:
        self.events.append(event)
        self.numbers.append(generation)
        answer = self.answers.get(type(event), [])
        if isinstance(answer, Exception):
            raise answer
        return answer


class Busy(Told):
    """A run that takes its time."""

    def handle(self, event: RunEvent, generation: int = 0, /) -> list[Command]:
        until = perf_counter() + BUSY_S
        while perf_counter() <= until:
            pass
        return super().handle(event, generation)


class Server:
    """An upstream that behaves as one function says, and notes when it was closed."""

    target = Target(name="u", model="m", prefill=True, dialect=None)

    def __init__(self, behave: Callable[[], AsyncGenerator[Text | Ended]]) -> None:
        self.behave, self.opened, self.closed_at = behave, 0, list[float]()

    async def stream(self, command: Open, *, client: ClientCall) -> AsyncGenerator[Text | Ended]:  # noqa: ARG002
        self.opened += 1
        try:
            async with aclosing(self.behave()) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            self.closed_at.append(asyncio.get_running_loop().time())

    def forward(self, request: Passage, *, client: ClientCall) -> AbstractAsyncContextManager[PassageAnswer]:
        raise NotImplementedError

    async def start(self) -> None: ...

    async def close(self) -> None: ...


@dataclass
class Caller:
    extra: dict[str, object] = field(default_factory=dict)
    authorization: str | None = None


class Ear(Observer, RunObserver):
    """Hears everything in one list."""

    def __init__(self) -> None:
        self.heard: list[object] = []
        self.stages: dict[Stage, float] = {}

    def run_started(self, info: RunInfo) -> RunObserver:
        self.heard.append(info)
        return self

    def opened(self, command: Open) -> None:
        self.heard.append(command)

    def closed(self, command: Close) -> None:
        self.heard.append(command)

    def observed(self, judgement: Judgement, generation: int = 0) -> None:
        self.heard.append(Observe(judgement, generation))

    def emitted(self, command: Emit, elapsed_s: float) -> None:  # noqa: ARG002
        self.heard.append(command)

    def finished(self, command: Finish, duration_s: float) -> None:
        assert duration_s >= 0
        self.heard.append(command)

    def overhead(self, stage: Stage, seconds: float) -> None:
        self.stages[stage] = seconds


async def speaks() -> AsyncGenerator[Text | Ended]:
    yield Text("1 x = 1\n")
    yield Ended("stop")


async def is_silent() -> AsyncGenerator[Text | Ended]:
    await asyncio.sleep(60)
    yield Ended("stop")


def driving(
    run: Told, server: Server, ear: Ear, *, seconds: float = 30
) -> AsyncGenerator[Emit | Relay | Finish]:
    return drive(run, {"u": server}, ear, INFO, client=Caller(), seconds=seconds)


async def all_of(run: Told, server: Server, ear: Ear, *, seconds: float = 30) -> list[Emit | Relay | Finish]:
    return [step async for step in driving(run, server, ear, seconds=seconds)]


def play(body: Coroutine[object, object, None]) -> None:
    asyncio.run(asyncio.wait_for(body, HANGS_S))


def test_performs_commands_in_order_and_gives_what_the_client_may_have() -> None:
    async def body() -> None:
        run = Told([opening()], {Text: [NOTE, EMIT], Ended: [closing(), finishing()]})
        server, ear = Server(speaks), Ear()
        assert await all_of(run, server, ear) == [EMIT, finishing()]
        assert run.events == [Text("1 x = 1\n"), Ended("stop")]
        assert ear.heard == [INFO, opening(), NOTE, EMIT, closing(), finishing()]
        assert ear.stages.keys() == {Stage.PROMPT, Stage.CHECK}
        assert len(server.closed_at) == 1

    play(body())


def test_a_cut_closes_the_connection_before_the_next_one_is_opened() -> None:
    async def body() -> None:
        run = Told([opening()], {Text: [closing(1, Result.VIOLATION), finishing()]})
        server = Server(speaks)
        await all_of(run, server, Ear())
        assert len(server.closed_at) == 1

    play(body())


@pytest.mark.parametrize(
    ("error", "kind"),
    [(UpstreamConnectError("refused"), UpstreamConnectError), (None, UpstreamProtocolError)],
)
def test_a_fault_of_the_upstream_is_an_event(error: Exception | None, kind: type[Exception]) -> None:
    async def fails() -> AsyncGenerator[Text | Ended]:
        nothing: tuple[Text, ...] = ()
        for piece in nothing:
            yield piece
        if error:
            raise error

    async def body() -> None:
        run = Told([opening()], {Failed: [closing(), finishing(Outcome.ERROR)]})
        assert await all_of(run, Server(fails), Ear()) == [finishing(Outcome.ERROR)]
        (event,) = run.events
        assert isinstance(event, Failed)
        assert isinstance(event.error, kind)
        assert event.left_s is not None
        assert 29 < event.left_s <= 30

    play(body())


def test_the_wall_time_ends_a_run_whose_upstream_is_silent() -> None:
    async def body() -> None:
        run = Told([opening()], {OutOfTime: [closing(1, Result.TIMEOUT), finishing(Outcome.ERROR)]})
        server = Server(is_silent)
        assert await all_of(run, server, Ear(), seconds=0.05) == [finishing(Outcome.ERROR)]
        assert run.events == [OutOfTime()]
        assert len(server.closed_at) == 1
        current = asyncio.current_task()
        assert current is not None
        assert current.cancelling() == 0

    play(body())


def test_a_long_piece_is_told_in_slices_of_which_the_last_one_has_its_tokens() -> None:
    long = "1 x = 1\n" * SLICE + "2"

    async def writes() -> AsyncGenerator[Text | Ended]:
        yield Text(long, 7)
        yield Text("3 x = 1\n" * (SLICE // 8), 9)
        yield Ended("stop")

    async def body() -> None:
        run = Told([opening()], {Ended: [closing(), finishing()]})
        await all_of(run, Server(writes), Ear())
        *slices, last, whole, _ = run.events
        assert all(isinstance(event, Text) and len(event.text) <= SLICE for event in [*slices, last])
        assert "".join(event.text for event in [*slices, last] if isinstance(event, Text)) == long
        assert [event.tokens for event in slices if isinstance(event, Text)] == [0] * 8
        assert last == Text("2", 7)
        assert whole == Text("3 x = 1\n" * (SLICE // 8), 9)

    play(body())


def test_what_is_left_of_a_piece_is_not_told_once_its_generation_is_closed_or_the_time_is_over() -> None:
    async def writes() -> AsyncGenerator[Text | Ended]:
        yield Text("x" * SLICE * 9)
        yield Ended("stop")

    async def body() -> None:
        run = Told([opening()], {Text: [closing(), finishing()]})
        await all_of(run, Server(writes), Ear())
        assert [type(event) for event in run.events] == [Text]
        run = Busy([opening()], {OutOfTime: [closing(), finishing(Outcome.ERROR)]})
        await all_of(run, Server(writes), Ear(), seconds=BUSY_S / 2)
        assert run.events[-1] == OutOfTime()
        assert len(run.events) < 5

    play(body())


def test_a_run_that_works_long_lets_others_have_their_turn() -> None:
    async def writes() -> AsyncGenerator[Text | Ended]:
        yield Text("x" * SLICE * 4)
        yield Ended("stop")

    async def body() -> None:
        turns: list[int] = []
        run = Busy([opening()], {Ended: [closing(), finishing()]})

        async def other() -> None:
            while True:
                turns.append(len(run.events))
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        await all_of(run, Server(writes), Ear())
        task.cancel()
        assert {1, 2, 3, 4} <= set(turns)

    play(body())


def test_the_wall_time_never_hits_the_client_that_is_slow() -> None:
    async def body() -> None:
        run = Told([opening()], {Text: [EMIT], OutOfTime: [closing(), finishing(Outcome.ERROR)]})
        steps: list[Emit | Relay | Finish] = []
        async with aclosing(driving(run, Server(speaks), Ear(), seconds=0.02)) as driven:
            async for step in driven:
                steps.append(step)
                await asyncio.sleep(0.05)
        assert steps == [EMIT, finishing(Outcome.ERROR)]
        assert run.events == [Text("1 x = 1\n"), OutOfTime()]

    play(body())


def test_a_wait_is_an_event_and_ends_with_the_wall_time() -> None:
    async def body() -> None:
        run = Told([Wait(0.01, "")], {Waited: [Wait(60, "")], OutOfTime: [finishing()]})
        await all_of(run, Server(speaks), Ear(), seconds=0.1)
        assert run.events == [Waited(), OutOfTime()]

    play(body())


@pytest.mark.parametrize(("comes", "seconds"), [(True, 0.2), (False, 60)])
def test_what_an_upstream_would_not_be_asked_again_is_not_waited_for(comes: bool, seconds: float) -> None:
    held: list[object] = []

    class Spared(Server):
        @contextmanager
        def retrying(self, wait: Wait) -> Iterator[bool]:
            held.append(wait)
            yield comes
            held.append("let go")

    async def body() -> None:
        wait = Wait(seconds, opening().upstream)
        run = Told([wait], {Waited: [finishing()]})
        began = asyncio.get_running_loop().time()
        await all_of(run, Spared(speaks), Ear(), seconds=5)
        assert run.events == [Waited()]
        assert held == [wait, "let go"]
        if comes:
            assert asyncio.get_running_loop().time() - began >= 0.2

    play(body())


def test_a_client_that_stops_listening_cancels_the_run() -> None:
    async def body() -> None:
        run = Told([opening()], {Text: [EMIT, NOTE], Cancelled: [closing(), finishing(Outcome.CANCELLED)]})
        server, ear = Server(speaks), Ear()
        async with aclosing(driving(run, server, ear)) as driven:
            assert await anext(driven) == EMIT
        assert run.events[-1] == Cancelled()
        assert ear.heard == [INFO, opening(), EMIT, NOTE, closing(), finishing(Outcome.CANCELLED)]
        assert len(server.closed_at) == 1

    play(body())


def test_a_cancelled_request_closes_a_silent_upstream_at_once() -> None:
    async def body() -> None:
        run = Told([opening()], {Cancelled: [closing(), finishing(Outcome.CANCELLED)]})
        server, ear = Server(is_silent), Ear()
        task = asyncio.create_task(all_of(run, server, ear))
        await asyncio.sleep(0.05)
        assert server.opened == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(server.closed_at) == 1
        assert ear.heard[-1] == finishing(Outcome.CANCELLED)

    play(body())


def test_what_was_about_to_be_opened_when_the_client_left_is_not_opened() -> None:
    async def body() -> None:
        again: list[Command] = [EMIT, closing(1), opening(2)]
        run = Told([opening()], {Text: again, Cancelled: [closing(2), finishing(Outcome.CANCELLED)]})
        server, ear = Server(speaks), Ear()
        async with aclosing(driving(run, server, ear)) as driven:
            await anext(driven)
        assert server.opened == 1
        assert ear.heard == [INFO, opening(), EMIT, closing(1), finishing(Outcome.CANCELLED)]

    play(body())


def test_a_run_that_had_finished_when_the_client_left_stays_finished() -> None:
    async def body() -> None:
        run = Told([opening()], {Text: [closing(), EMIT, finishing()]})
        ear = Ear()
        async with aclosing(driving(run, Server(speaks), ear)) as driven:
            await anext(driven)
        assert ear.heard[-1] == finishing()
        assert Cancelled() not in run.events

    play(body())


def test_a_bug_in_the_run_is_an_answer_with_500_and_closes_the_upstream(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body() -> None:
        run = Told([opening()], {Text: RuntimeError("secret")})
        server, ear = Server(speaks), Ear()
        (finish,) = await all_of(run, server, ear)
        assert isinstance(finish, Finish)
        assert finish.error is not None
        assert (finish.error.status, finish.error.message) == (500, "internal error")
        assert len(server.closed_at) == 1
        assert ear.heard[-1] == finish
        assert [one.result for one in ear.heard if isinstance(one, Close)] == [Result.INTERNAL_ERROR]

    with caplog.at_level(FOREIGN):
        play(body())
    assert [one.levelno for one in caplog.records if "secret" in one.getMessage()] == [FOREIGN]
    assert "RuntimeError" in caplog.text
    assert "run a of chain: internal_error" in caplog.text


def test_a_bug_in_the_run_does_not_hide_that_the_client_left(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        run = Told([opening()], {Text: [EMIT], Cancelled: RuntimeError("no")})
        server, ear = Server(speaks), Ear()
        async with aclosing(driving(run, server, ear)) as driven:
            await anext(driven)
        assert len(server.closed_at) == 1
        assert isinstance(ear.heard[-1], Finish)

    with caplog.at_level(logging.ERROR):
        play(body())


# --- several streams at once ---------------------------------------------------------------------


class Lanes(Server):
    """An upstream that behaves otherwise for each generation."""

    def __init__(self, *behaviours: Callable[[], AsyncGenerator[Text | Ended]]) -> None:
        super().__init__(behaviours[0])
        self.behaviours = behaviours
        self.closed: list[int] = []

    async def stream(self, command: Open, *, client: ClientCall) -> AsyncGenerator[Text | Ended]:  # noqa: ARG002
        self.opened += 1
        try:
            async with aclosing(self.behaviours[command.generation - 1]()) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            self.closed.append(command.generation)
            self.closed_at.append(asyncio.get_running_loop().time())


async def ticks() -> AsyncGenerator[Text | Ended]:
    for number in range(4):
        yield Text(f"{number}")
        await asyncio.sleep(0.001)
    yield Ended("stop")


async def breaks() -> AsyncGenerator[Text | Ended]:
    yield Text("x")
    raise UpstreamConnectError("gone")


ALL_OPEN: list[Command] = [opening(1), opening(2), opening(3)]
ALL_CLOSED: list[Command] = [closing(1), closing(2), closing(3)]


def test_several_streams_are_read_at_once_and_events_say_whose_they_are() -> None:
    async def body() -> None:
        run = Told(ALL_OPEN, {Ended: [*ALL_CLOSED, finishing()]})
        server = Lanes(ticks, is_silent, breaks)
        assert await all_of(run, server, Ear()) == [finishing()]
        by_lane: dict[int, list[RunEvent]] = {}
        for number, event in zip(run.numbers, run.events, strict=True):
            by_lane.setdefault(number, []).append(event)
        assert by_lane[1] == [*(Text(f"{number}") for number in range(4)), Ended("stop")]
        assert [type(event) for event in by_lane[3][:2]] == [Text, Failed]
        assert by_lane.keys() == {1, 3}
        assert sorted(server.closed) == [1, 2, 3]

    play(body())


def test_a_stream_that_always_has_something_does_not_keep_the_others_waiting() -> None:
    async def floods() -> AsyncGenerator[Text | Ended]:
        while True:
            yield Text("x")

    async def body() -> None:
        run = Told(ALL_OPEN[:2], {Ended: [*ALL_CLOSED[:2], finishing()]})
        await all_of(run, Lanes(floods, ticks), Ear())
        assert run.numbers.count(2) == 5

    play(body())


def test_the_stream_that_is_left_is_read_on_and_nothing_of_it_is_lost() -> None:
    class Closes(Told):
        def handle(self, event: RunEvent, generation: int = 0, /) -> list[Command]:
            super().handle(event, generation)
            if isinstance(event, Ended):
                return [closing(generation), finishing()]
            return [closing(2)] if generation == 2 else []

    async def body() -> None:
        run = Closes(ALL_OPEN[:2])
        await all_of(run, Lanes(ticks, ticks), Ear())
        told = [e for e, number in zip(run.events, run.numbers, strict=True) if number == 1]
        assert told == [*(Text(f"{number}") for number in range(4)), Ended("stop")]
        assert run.numbers.count(2) == 1

    play(body())


def test_slices_of_a_long_piece_outlive_the_close_of_another_stream() -> None:
    long = "x" * SLICE * 3 + "y"

    async def writes() -> AsyncGenerator[Text | Ended]:
        yield Text(long, 7)
        yield Ended("stop")

    async def body() -> None:
        run = Told(ALL_OPEN[:2], {Text: [closing(2)], Ended: [closing(1), finishing()]})
        await all_of(run, Lanes(writes, is_silent), Ear())
        assert run.numbers == [1] * 5
        assert "".join(event.text for event in run.events if isinstance(event, Text)) == long

    play(body())


@pytest.mark.parametrize("stubborn", [False, True])
def test_streams_that_lost_are_closed_within_a_tenth_of_a_second(stubborn: bool) -> None:
    async def clings() -> AsyncGenerator[Text | Ended]:
        try:
            await asyncio.sleep(60)
        finally:
            if stubborn:
                await asyncio.sleep(0.01)
        yield Ended("stop")

    async def wins() -> AsyncGenerator[Text | Ended]:
        await asyncio.sleep(0.02)
        yield Ended("stop")

    async def body() -> None:
        run = Told(ALL_OPEN, {Ended: [*ALL_CLOSED, finishing()]})
        server, ear = Lanes(clings, wins, clings), Ear()
        await all_of(run, server, ear)
        assert len(server.closed_at) == 3
        assert ear.heard[-4:] == [*ALL_CLOSED, finishing()]
        assert len(asyncio.all_tasks()) <= 2, "nobody reads on"

    play(body())


@pytest.mark.parametrize("how", ["leaves", "is late", "breaks"])
def test_every_stream_is_closed_however_it_ends(how: str, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        answers: dict[type, list[Command] | Exception] = {
            Cancelled: [*ALL_CLOSED, finishing(Outcome.CANCELLED)],
            OutOfTime: [*ALL_CLOSED, finishing(Outcome.ERROR)],
            Text: RuntimeError("no") if how == "breaks" else [],
        }
        run = Told(ALL_OPEN, answers)
        server, ear = Lanes(is_silent, is_silent, ticks if how == "breaks" else is_silent), Ear()
        task = asyncio.create_task(all_of(run, server, ear, seconds=0.05 if how == "is late" else 30))
        await asyncio.sleep(0.02)
        if how == "leaves":
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            await task
        assert sorted(server.closed) == [1, 2, 3]
        closes = [heard.generation for heard in ear.heard if isinstance(heard, Close)]
        assert closes == [1, 2, 3]
        assert isinstance(ear.heard[-1], Finish)

    with caplog.at_level(logging.CRITICAL):
        play(body())


def test_what_is_left_of_a_piece_is_not_told_to_the_next_generation() -> None:
    async def writes() -> AsyncGenerator[Text | Ended]:
        yield Text("x" * SLICE * 3)
        yield Ended("stop")

    class Cuts(Told):
        def handle(self, event: RunEvent, generation: int = 0, /) -> list[Command]:
            super().handle(event, generation)
            if generation == 1:
                return [closing(1), opening(2)]
            return [closing(2), finishing()] if isinstance(event, Ended) else []

    async def body() -> None:
        run = Cuts([opening(1)])
        await all_of(run, Lanes(writes, ticks), Ear())
        assert run.numbers == [1, 2, 2, 2, 2, 2]

    play(body())


def test_a_fault_of_a_stream_that_is_closed_meanwhile_is_nobodys_and_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fails_with_it() -> AsyncGenerator[Text | Ended]:
        await won.wait()
        nothing: tuple[Text, ...] = ()
        for piece in nothing:
            yield piece
        raise UpstreamConnectError("gone")

    async def wins() -> AsyncGenerator[Text | Ended]:
        await won.wait()
        yield Ended("stop")

    async def body() -> None:
        asyncio.get_running_loop().call_later(0.01, won.set)  # both have something at the same time
        run = Told(ALL_OPEN[:2], {Ended: [*ALL_CLOSED[:2], finishing()]})
        await all_of(run, Lanes(wins, fails_with_it), Ear())
        assert run.numbers == [1]
        gc.collect()

    won = asyncio.Event()
    with caplog.at_level(logging.ERROR):
        play(body())
    assert not caplog.records


def test_a_generation_whose_text_is_whole_does_not_wait_for_a_server_that_says_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("guard.engine.LINGER_S", 0.02)

    class Decides(Told):
        def handle(self, event: RunEvent, generation: int = 0, /) -> list[Command]:
            self.decided = isinstance(event, Text)
            return super().handle(event, generation)

    async def whole_and_silent() -> AsyncGenerator[Text | Ended]:
        yield Text("1 x = 1\n")
        await asyncio.sleep(10 * HANGS_S)
        yield Ended("stop")

    async def body() -> None:
        run = Decides([opening(1)], {Failed: [closing(1), finishing()]})
        server = Server(whole_and_silent)
        async for _ in driving(run, server, Ear(), seconds=10 * HANGS_S):
            pass
        assert [type(event) for event in run.events] == [Text, Failed]
        assert len(server.closed_at) == 1

    play(body())

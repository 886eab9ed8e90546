"""What counts as a fault of an upstream, what does not, and who is let through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from guard.errors import (
    RequestError,
    UnreadableGrammar,
    UpstreamBusy,
    UpstreamConnectError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamSpared,
    UpstreamStatusError,
    UpstreamTimeout,
)
from guard.run.messages import Ended, Open, Strategy, Target, Text, Wait
from guard.telemetry import metrics
from guard.upstream.base import ClientCall, Passage, PassageAnswer
from guard.upstream.breaker import Breaker, State
from guard.upstream.budget import RetryBudget
from guard.upstream.spared import REASONS, SparedUpstream
from tests.upstream.servers import Call, opening, run

REFUSED = UpstreamConnectError("refused")
CHAT = Passage(method="POST", path="/chat/completions?x=1", headers=(), body=b"{}")
MODELS = Passage(method="GET", path="/models", headers=(), body=b"")


class Server:
    """An upstream that says words, then fails, ends or is silent, as it was told last."""

    target = Target(name="main", model="m", prefill=True, dialect=None)

    def __init__(self) -> None:
        self.words = 0
        self.fails: Exception | None = None
        self.silent = False
        self.status = 200
        self.opened = 0
        self.told: list[str] = []

    async def stream(self, command: Open, *, client: ClientCall) -> AsyncGenerator[Text | Ended]:  # noqa: ARG002
        self.opened += 1
        for _ in range(self.words):
            yield Text("word ")
        if self.silent:
            await asyncio.sleep(60)
        if self.fails is not None:
            raise self.fails
        yield Ended("stop")

    @asynccontextmanager
    async def forward(self, request: Passage, *, client: ClientCall) -> AsyncIterator[PassageAnswer]:  # noqa: ARG002
        self.opened += 1
        if self.fails is not None and not self.words:
            raise self.fails
        yield PassageAnswer(status=self.status, headers=(), body=self._body())

    async def _body(self) -> AsyncIterator[bytes]:
        yield b"half"
        if self.fails is not None:
            raise self.fails

    async def start(self) -> None:
        self.told.append("start")

    async def close(self) -> None:
        self.told.append("close")


class Ear:
    def __init__(self) -> None:
        self.spared: list[str] = []
        self.states: list[str] = []

    def upstream_spared(self, upstream: str, reason: str) -> None:
        assert upstream == "main"
        self.spared.append(reason)

    def breaker_changed(self, upstream: str, state: str) -> None:
        assert upstream == "main"
        self.states.append(state)


class Case:
    """A spared upstream and all that is around it. Its breaker opens at the first fault, for 50 ms."""

    def __init__(self, *, failures: int = 1, minimum: int = 3, silent_s: float = 30) -> None:
        self.server, self.ear = Server(), Ear()
        self.breaker = Breaker(failures=failures, open_s=0.05)
        self.budget = RetryBudget(percent=0, minimum=minimum)
        self.upstream = SparedUpstream(
            self.server, self.ear, breaker=self.breaker, budget=self.budget, silent_s=silent_s
        )

    def is_in(self, state: State) -> bool:
        return self.breaker.state is state

    async def hears(self, command: Open | None = None, *, most: int = 99) -> int:
        """Count the pieces of a generation, of which at most so many are waited for."""
        count = 0
        async with aclosing(self.upstream.stream(command or opening(), client=Call())) as pieces:
            async for _ in pieces:
                count += 1
                if count == most:
                    break
        return count

    async def fails(self, error: Exception = REFUSED, *, words: int = 0) -> None:
        self.server.fails, self.server.words = error, words
        with pytest.raises(type(error)):
            await self.hears()
        self.server.fails, self.server.words = None, 0

    async def passes(self, passage: Passage = CHAT) -> bytes:
        async with self.upstream.forward(passage, client=Call()) as answer:
            return b"".join([data async for data in answer.body])


WAIT = Wait(0.5, "main")


def retry() -> Open:
    return opening(strategy=Strategy.TRANSPORT)


def test_it_passes_for_the_upstream_that_it_is_around() -> None:
    async def body() -> None:
        case = Case()
        await case.upstream.start()
        assert await case.hears() == 1
        await case.upstream.close()
        assert case.server.told == ["start", "close"]
        assert case.upstream.target == case.server.target

    run(body())


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (REFUSED, True),
        (UpstreamTimeout("silent"), True),
        (UpstreamProtocolError("HTML"), True),
        (UpstreamBusy("overloaded", upstream_status=503), True),
        (UpstreamBusy("slow down", upstream_status=429), False),
        (UpstreamBusy("conflict", upstream_status=409), False),
        (UpstreamStatusError("no such model", upstream_status=404), False),
        (UpstreamStatusError("elsewhere", upstream_status=302), False),
        (RequestError("the path is wrong"), False),
    ],
)
@pytest.mark.parametrize("words", [0, 2])
def test_only_faults_of_the_network_and_the_server_count(error: Exception, counts: bool, words: int) -> None:
    async def body() -> None:
        case = Case()
        await case.fails(error, words=words)
        assert case.is_in(State.OPEN if counts else State.CLOSED)
        assert case.ear.states == (["open"] if counts else [])

    run(body())


def test_an_open_breaker_refuses_all_but_who_has_nowhere_else_to_go() -> None:
    async def body() -> None:
        case = Case()
        await case.fails()
        with pytest.raises(UpstreamSpared, match=r"upstream 'main': it is left alone for 0.0\d+ s after its"):
            await case.hears()
        assert case.server.opened == 1
        assert case.ear.spared == ["breaker"]
        assert await case.hears(opening(last=True)) == 1
        assert case.is_in(State.CLOSED), "that went well"
        assert await case.hears() == 1

    run(body())


@pytest.mark.parametrize("words", [0, 3])
def test_a_probe_that_is_cut_counts_where_there_was_a_word(words: int) -> None:
    async def body() -> None:
        case = Case()
        await case.fails()
        await asyncio.sleep(0.06)
        case.server.words, case.server.silent = words, True
        hearing = asyncio.create_task(case.hears(most=3))
        await asyncio.sleep(0.01)
        hearing.cancel()
        await asyncio.wait([hearing])
        case.server.silent = False
        assert case.is_in(State.CLOSED if words else State.HALF_OPEN)
        assert await case.hears() == words + 1, "the next one may try"
        assert case.ear.states == ["open", "half_open", "closed"]

    run(body())


def test_a_grammar_that_was_not_sent_says_nothing_about_the_upstream() -> None:
    async def body() -> None:
        case = Case()
        await case.fails()
        await asyncio.sleep(0.06)
        await case.fails(UnreadableGrammar("no", upstream_status=400))
        assert case.is_in(State.HALF_OPEN)
        await case.hears()
        assert case.is_in(State.CLOSED), "the next one may try"

    run(body())


def test_retries_beyond_the_budget_are_not_made_and_fallbacks_are_no_retries() -> None:
    async def body() -> None:
        case = Case(minimum=1)
        assert await case.hears(retry()) == 1
        with pytest.raises(UpstreamSpared, match="the retries of the last 10 s are spent") as caught:
            await case.hears(retry())
        assert caught.value.reason == "budget"
        assert not caught.value.retryable
        for strategy in set(Strategy) - {Strategy.TRANSPORT}:
            assert await case.hears(opening(strategy=strategy)) == 1
        assert case.ear.spared == ["budget"]

    run(body())


def test_a_retry_is_held_while_it_is_waited_for() -> None:
    async def body() -> None:
        case = Case(minimum=2)
        with case.upstream.retrying(WAIT) as first, case.upstream.retrying(WAIT) as second:
            with case.upstream.retrying(WAIT) as third:
                assert (first, second, third) == (True, True, False)
            with pytest.raises(UpstreamSpared):
                await case.hears(retry())
        assert await case.hears(retry()) == 1
        with case.upstream.retrying(WAIT) as fourth:
            assert fourth, "of the two one was never made"
        assert case.ear.spared == ["budget"]

    run(body())


@pytest.mark.parametrize(
    ("seconds", "last", "comes"), [(0.01, False, False), (60.0, False, True), (0.01, True, True)]
)
def test_what_the_breaker_would_stop_is_not_waited_for(seconds: float, last: bool, comes: bool) -> None:
    async def body() -> None:
        case = Case()
        await case.fails()
        assert case.is_in(State.OPEN)
        with case.upstream.retrying(Wait(seconds, "main", last=last)) as would:
            assert would is comes
        assert case.ear.spared == []

    run(body())


def test_a_retry_that_is_not_made_is_no_probe() -> None:
    async def body() -> None:
        case = Case(minimum=0)
        await case.fails()
        await asyncio.sleep(0.06)
        with pytest.raises(UpstreamSpared):
            await case.hears(retry())
        assert await case.hears() == 1
        assert case.is_in(State.CLOSED)

    run(body())


@pytest.mark.parametrize("most", [1, 99])
def test_what_is_over_is_no_longer_running(most: int) -> None:
    async def body() -> None:
        case = Case(minimum=1)
        case.budget = RetryBudget(percent=0, minimum=1, window_s=0.01)
        case.upstream = SparedUpstream(case.server, case.ear, breaker=case.breaker, budget=case.budget)
        case.server.words = 3
        for _ in range(3):
            await case.hears(retry(), most=most)
            await asyncio.sleep(0.02)
        assert case.ear.spared == []

    run(body())


# --- passing through -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "error", "broken_off"),
    [
        (500, None, False),
        (503, None, False),
        (200, REFUSED, False),
        (200, UpstreamProtocolError("cut"), True),
    ],
)
def test_chat_completions_that_pass_through_count_and_are_never_refused(
    status: int, error: UpstreamError | None, broken_off: bool
) -> None:
    async def body() -> None:
        case = Case()
        case.server.status, case.server.fails, case.server.words = status, error, int(broken_off)
        for _ in range(3):
            if error is None:
                await case.passes()
            else:
                with pytest.raises(type(error)):
                    await case.passes()
        assert case.is_in(State.OPEN)
        assert case.server.opened == 3
        case.server.status, case.server.fails = 200, None
        assert await case.passes() == b"half"
        assert case.is_in(State.CLOSED)

    run(body())


@pytest.mark.parametrize("status", [200, 404, 500])
def test_other_paths_say_nothing_about_generating(status: int) -> None:
    async def body() -> None:
        case = Case(failures=2)
        await case.fails()
        case.server.status = status
        assert await case.passes(MODELS) == b"half"
        assert case.is_in(State.CLOSED)
        await case.fails()
        assert case.is_in(State.OPEN), "two in a row, whatever came between them"

    run(body())


def test_metrics_know_all_states_and_reasons() -> None:
    assert metrics.BREAKER_STATES == ("closed", "half_open", "open")
    assert set(metrics.BREAKER_STATES) == set(State)
    assert metrics.SPARED == REASONS

"""What an upstream is remembered to refuse, and what is refused in its place."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from guard.dialect.notation import Dialect
from guard.errors import UpstreamError, UpstreamStatusError
from guard.run.messages import Ended, Open, Strategy, Target, Text
from guard.upstream.base import ClientCall, Passage, PassageAnswer
from guard.upstream.proven import ProvenUpstream
from guard.upstream.refusals import Refusals
from guard.upstream.unforced import UnforcedUpstream
from tests.upstream.servers import Call, opening, run

GOOD, BAD = '%llguidance {}\nstart: "a"\n', "%llguidance {}\nstart: (\n"

DIALECTS = {"m": Dialect.LLGUIDANCE, "n": Dialect.GBNF, "plain": None}
TARGET = Target(name="main", model="m", prefill=True, dialect=Dialect.LLGUIDANCE)


class Server:
    """An upstream that fails as it was told last, or answers."""

    target = replace(TARGET, by_model=lambda model: replace(TARGET, model=model, dialect=DIALECTS[model]))

    def __init__(self) -> None:
        self.fails: UpstreamError | None = None
        self.grammars: list[str | None] = []
        self.told: list[str] = []

    async def stream(self, command: Open, *, client: ClientCall) -> AsyncGenerator[Text | Ended]:  # noqa: ARG002
        self.grammars.append(command.grammar)
        if self.fails is not None:
            raise self.fails
        yield Text("word")
        yield Ended("stop")

    @asynccontextmanager
    async def forward(self, request: Passage, *, client: ClientCall) -> AsyncIterator[PassageAnswer]:  # noqa: ARG002
        self.told.append(request.path)
        yield PassageAnswer(status=200, headers=(), body=_nothing())

    async def start(self) -> None:
        self.told.append("start")

    async def close(self) -> None:
        self.told.append("close")


async def _nothing() -> AsyncIterator[bytes]:
    yield b""


class Case:
    """An upstream, what its server hears, and how often a grammar counted as refused."""

    def __init__(self) -> None:
        self.server, self.refusals = Server(), Refusals()
        self.refused = 0
        self.upstream = UnforcedUpstream(ProvenUpstream(self.server), self, self.refusals, now=lambda: 0.0)

    def grammar_refused(self, upstream: str) -> None:
        assert upstream == "main"
        self.refused += 1

    def hears(self, **changes: object) -> int:
        async def body() -> int:
            pieces = self.upstream.stream(opening(**changes), client=Call())
            return len([piece async for piece in pieces])

        return run(body())


def test_an_answer_without_the_grammar_shows_that_it_was_refused(caplog: pytest.LogCaptureFixture) -> None:
    case = Case()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert case.hears(strategy=Strategy.UNFORCED) == 2
    assert case.refused == 2
    assert case.refusals.holds("main", "m", 599)
    assert not case.refusals.holds("main", "m", 600)
    assert not case.refusals.holds("main", "other", 0)
    assert [record.message for record in caplog.records] == [
        "upstream main refuses the grammar for model 'm': it gets none for 600 s"
    ]


def test_what_fails_again_shows_nothing_nor_does_any_other_answer() -> None:
    case = Case()
    case.hears(grammar=GOOD)
    case.server.fails = UpstreamStatusError("no", upstream_status=400)
    for strategy in (Strategy.INITIAL, Strategy.UNFORCED):
        with pytest.raises(UpstreamStatusError):
            case.hears(strategy=strategy)
    assert (case.refused, case.refusals.holds("main", "m", 0)) == (0, False)


def test_a_grammar_that_cannot_be_read_is_not_sent() -> None:
    case = Case()
    for model, grammar in (("m", BAD), ("m", BAD), ("n", GOOD)):
        with pytest.raises(UpstreamStatusError) as refused:
            case.hears(grammar=grammar, model=model)
        assert refused.value.upstream_status == 400
        assert refused.value.message == "upstream 'main': the grammar was not sent, it cannot be read"
        assert refused.value.said.text
    assert case.server.grammars == []
    case.hears(grammar=None, strategy=Strategy.UNFORCED, model="m")
    assert (case.refused, case.refusals.holds("main", "m", 0)) == (1, True)


def test_what_can_be_read_is_sent_and_where_none_is_taken_nothing_is_read() -> None:
    case = Case()
    for model, grammar in (("m", GOOD), ("m", GOOD), ("n", 'root ::= "a"\n'), ("n", None), ("plain", BAD)):
        assert case.hears(grammar=grammar, model=model) == 2
    assert case.server.grammars == [GOOD, GOOD, 'root ::= "a"\n', None, BAD]


def test_all_else_is_passed_on() -> None:
    case = Case()

    async def body() -> None:
        await case.upstream.start()
        request = Passage(method="GET", path="/models", headers=(), body=b"")
        async with case.upstream.forward(request, client=Call()) as answer:
            assert answer.status == 200
        await case.upstream.close()

    run(body())
    assert case.server.told == ["start", "/models", "close"]
    assert case.upstream.target is case.server.target

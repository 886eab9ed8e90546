"""No word of a server's or a model's leaves but where a policy lets it: words planted in every place, looked for in all."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from guard.telemetry import foreign_log
from guard.telemetry.observer import FanOut
from guard.telemetry.spans import Spans
from tests.proxy.planting import Answer, draw, draw_text
from tests.proxy.running import BODY, Endpoint, Reply, behind, nonce_in, policy, run, running
from tests.test_foreign import SPELLINGS, gives_away
from tests.upstream.servers import Connection, serving
from tests.upstream.servers import whole as whole_answer

WORD = "Planted7Word"  # a capital makes it no word of a program
NUMBER = "7371737173717"
KEY = "sk-Ab3/xY+7_qW-9.zR5tK1mN"
DRAWS = 50  # for each policy

Draw = Callable[[Random, str], tuple[str, Answer]]

GENTLE = "attempts: 3\ntransport_retries: 0\n"
CLOSED = {
    "hold_all": f"{GENTLE}deliver: hold_all\n",
    "hold_step": f"{GENTLE}deliver: hold_step\n",
    "tolerant": f"{GENTLE}tolerant: true\nforce: none\n",
    "race": f"{GENTLE}race: 2\n",
    "repair": f"{GENTLE}actions: [resume, repair, reject]\n",
}
OPEN = {
    "reveal": f"{GENTLE}reveal: true\n",
    "relay": f"{GENTLE}reveal: true\nreasoning: relay\n",
    "release": f"{GENTLE}actions: [release]\nreveal: true\n",
}


class Garden:
    """An endpoint before a server that answers as it is told, with all that leaves it kept."""

    def __init__(self, endpoint: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
        self.endpoint, self.caplog = endpoint, caplog
        self.answer: Answer = lambda _: []
        self.exporter = InMemorySpanExporter()
        observer = endpoint.service.observer
        assert isinstance(observer, FanOut)
        observer.observers += (Spans(self.exporter, version="1", upstreams={"main": "generic"}),)

    async def ask(self, **changes: object) -> list[Reply]:
        """Ask for an answer in one piece, and for a stream."""
        bodies = ({**BODY, **changes}, {**BODY, **changes, "stream": True})
        return [await self.endpoint.post(body, Authorization="Bearer none") for body in bodies]

    async def left(self) -> str:
        """All that left otherwise than as an answer."""
        metrics = (await self.endpoint.admin("/metrics")).body.decode()
        observer = self.endpoint.service.observer
        assert isinstance(observer, FanOut)
        observer.close()
        spans = [
            f"{one.name} {one.attributes} {one.events} {one.status.description}"
            for one in self.exporter.get_finished_spans()
        ]
        records = [one for one in self.caplog.records if one.levelno != foreign_log.FOREIGN]
        told = [f"{one.getMessage()} {one.exc_text or ''}" for one in records]
        return "\n".join([metrics, *spans, *told])


@asynccontextmanager
async def garden(folder: Path, caplog: pytest.LogCaptureFixture, settings: str) -> AsyncIterator[Garden]:
    async def behave(connection: Connection) -> None:
        await connection.request()
        bound = b"@begin" in connection.body
        await connection.send(*planted.answer(nonce_in(connection) if bound else ""))

    caplog.set_level(logging.DEBUG)
    caplog.set_level(foreign_log.FOREIGN, logger=foreign_log.__name__)
    plenty: dict[str, Any] = {"retry_budget": {"minimum": 1_000}, "breaker": {"failures": 0}, "api_key": KEY}
    async with serving(behave) as server:
        service = behind(
            folder, server.url, config="defaults: {unbound: pass}\n" + policy(settings), **plenty
        )
        async with running(service) as endpoint:
            planted = Garden(endpoint, caplog)
            yield planted


def whole(reply: Reply) -> str:
    return f"{reply.headers} {reply.body.decode('utf-8', 'surrogateescape')}"


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize(("word", "draw"), [(WORD, draw), (NUMBER, draw_text)])
def test_no_planted_word_leaves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, word: str, draw: Draw
) -> None:
    rng = Random(f"{name} {word}")

    async def body() -> None:
        async with garden(tmp_path, caplog, CLOSED[name]) as planted:
            for _ in range(DRAWS):
                where, planted.answer = draw(rng, word)
                for reply in await planted.ask():
                    assert word not in whole(reply), where
            assert word not in await planted.left()

    run(body())
    assert any(record.levelno == foreign_log.FOREIGN for record in caplog.records)


@pytest.mark.parametrize("name", [*CLOSED, *OPEN])
def test_no_spelling_of_the_key_leaves(tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str) -> None:
    rng = Random(name)

    async def body() -> None:
        async with garden(tmp_path, caplog, {**CLOSED, **OPEN}[name]) as planted:
            for _ in range(DRAWS):
                how = rng.choice([one for one in SPELLINGS if "lines" not in one])
                spelled = SPELLINGS[how](KEY)
                where, planted.answer = draw(rng, spelled)
                for reply in await planted.ask():
                    assert not gives_away(whole(reply), KEY, spelled), (how, where)
            assert not gives_away(await planted.left(), KEY, KEY)
            logged = "\n".join(record.getMessage() for record in caplog.records)
            for spelling in SPELLINGS.values():
                assert not gives_away(logged, KEY, spelling(KEY))

    run(body())


def test_the_operator_gets_what_the_client_does_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        async with garden(tmp_path, caplog, CLOSED["hold_all"]) as planted:
            planted.answer = lambda _: [
                whole_answer("404 Gone", b'{"error": {"message": "%s %s"}}' % (WORD.encode(), KEY.encode()))
            ]
            await planted.ask()
        told = [record.getMessage() for record in caplog.records if record.levelno == foreign_log.FOREIGN]
        assert any(f"'{WORD} ***'" in line for line in told)
        async with garden(tmp_path, caplog, OPEN["reveal"]) as planted:
            planted.answer = lambda _: [
                whole_answer("404 Gone", b'{"error": {"message": "%s %s"}}' % (WORD.encode(), KEY.encode()))
            ]
            reply, _ = await planted.ask()
            assert reply.error["message"] == f"upstream 'main': it answered 404: '{WORD} ***'"
            assert reply.report["reason"] == "upstream 'main': it answered 404"

    run(body())


def test_what_is_observed_leaves_only_as_it_passes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rng = Random(5)

    async def body() -> None:
        async with garden(tmp_path, caplog, "mode: observe\n") as planted:
            for _ in range(DRAWS):
                _, planted.answer = draw(rng, WORD)
                await planted.ask()
            await asyncio.sleep(0.1)
            assert WORD not in await planted.left()

    run(body())


@pytest.mark.parametrize("how", [one for one in SPELLINGS if "lines" not in one])
def test_an_error_that_passes_through_has_no_key_of_ours(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    spelled = SPELLINGS[how](KEY)

    async def body() -> None:
        async with garden(tmp_path, caplog, GENTLE) as planted:
            told = json.dumps({"error": {"message": f"bad key {spelled}", "type": "x"}}).encode()
            planted.answer = lambda _: [whole_answer("401 No", told, "X-Key: " + KEY)]
            sent = {name: value for name, value in BODY.items() if name != "stepguard"} | {"model": "any"}
            reply = await planted.endpoint.post(sent)
            assert reply.status == 401
            assert not gives_away(whole(reply), KEY, spelled)
            assert reply.json["error"]["type"] == "x"

    run(body())

"""Cutting HTTP generations: whoever leaves leaves no connection, and is owed nothing more."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

from guard.errors import (
    UpstreamError,
    UpstreamTimeout,
)
from guard.upstream.http import Timeouts
from tests.upstream.servers import (
    DONE,
    HANGS_S,
    SHORT,
    STREAM_HEAD,
    Behaviour,
    Call,
    Connection,
    answers,
    chunked,
    connected,
    event,
    first_pieces,
    hear,
    opening,
    run,
    said,
    serving,
    streams,
    then_holds,
    until_closed,
    whole,
)

FILES = Path("/proc/self/fd")
LASTING = Timeouts(first_s=10 * HANGS_S, idle_s=10 * HANGS_S)


def open_files() -> int:
    return len(list(FILES.iterdir()))


@pytest.mark.parametrize("kind", ["generic", "llama.cpp"])
def test_closing_the_generator_closes_the_connection(kind: str) -> None:
    async def body() -> None:
        behave = then_holds(STREAM_HEAD, chunked(said("1 a")), chunked(said(" = ")))
        async with serving(behave) as server, connected(server, kind=kind) as upstream:
            await first_pieces(upstream.stream(opening(), client=Call()), 2)
            await until_closed(server.connections[0])

    run(body())


@pytest.mark.parametrize("raw", [(), (STREAM_HEAD,), (STREAM_HEAD, chunked(said("1")))])
def test_cancelling_whoever_waits_closes_the_connection(raw: tuple[bytes, ...]) -> None:
    async def body() -> None:
        async with serving(then_holds(*raw)) as server, connected(server, timeouts=LASTING) as upstream:
            waiting = asyncio.create_task(hear(upstream))
            while not server.connections:  # noqa: ASYNC110 (a list, no event)
                await asyncio.sleep(0.005)
            waiting.cancel()
            await asyncio.wait([waiting])
            await until_closed(server.connections[0])

    run(body())


def test_a_server_that_does_not_read_its_request_is_left_all_the_same() -> None:
    long = 30_000_000
    given_up, gone = asyncio.Event(), asyncio.Event()

    async def behave(connection: Connection) -> None:
        connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await given_up.wait()
        connection.writer.transport.resume_reading()  # type: ignore[attr-defined]
        await connection.until_gone()
        gone.set()

    async def body() -> int:
        async with serving(behave) as server, connected(server, timeouts=SHORT) as upstream:
            with pytest.raises(UpstreamTimeout):
                await hear(upstream, opening(messages=({"role": "user", "content": "x" * long},)))
            given_up.set()
            await gone.wait()
            return server.connections[0].received

    assert run(body()) < long / 2  # what the system had buffered; the rest is not sent after the end


@pytest.mark.skipif(not FILES.is_dir(), reason="counts open files as Linux shows them")
def test_no_connection_is_left_open_whatever_happens() -> None:
    page = whole("200 OK", b"<html>", content_type="text/html")
    behaviours = [
        streams(said("1", "stop"), DONE),
        streams(said("1"), event({"error": "gone"})),
        answers(page),
        answers(whole("500 Oh", b"{}")),
        answers(STREAM_HEAD, chunked(said("1"))),
        then_holds(STREAM_HEAD, chunked(said("1", "stop") + DONE)),
    ]

    async def once(behave: Behaviour) -> None:
        async with serving(behave) as server, connected(server) as upstream:
            with suppress(UpstreamError):
                await hear(upstream)
            with suppress(UpstreamError):
                await first_pieces(upstream.stream(opening(), client=Call()), 1)

    async def body() -> None:
        await asyncio.gather(*map(once, behaviours))
        before = open_files()
        await asyncio.gather(*map(once, behaviours * 10))
        while open_files() > before:  # noqa: ASYNC110 (the system counts them)
            await asyncio.sleep(0.01)

    run(body())


def test_text_that_piles_up_holds_the_server_back() -> None:
    sent = 0

    async def behave(connection: Connection) -> None:
        nonlocal sent
        await connection.request()
        await connection.send(STREAM_HEAD)
        piece = chunked(said("x" * 60_000))
        while sent < 2000:
            await connection.send(piece)
            sent += 1

    async def body() -> None:
        async with (
            serving(behave) as server,
            connected(server) as upstream,
            aclosing(upstream.stream(opening(), client=Call())) as stream,
        ):
            await anext(stream)
            await asyncio.sleep(0.3)

    run(body())
    assert sent < 400  # of 2,000 pieces, the socket buffers' worth

"""Upstreams that fail, clients that leave, servers that stop: nothing hangs and nothing is left open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest

from guard.engine import read_clock
from guard.errors import ConfigError
from tests.proxy.running import (
    ASK,
    BODY,
    BRIEF,
    PASSING,
    PORTS,
    TRACE,
    WRONG,
    before,
    behind,
    nonce_in,
    policy,
    read_chunks,
    read_head,
    read_reply,
    request,
    run,
    running,
    scripted,
    until,
)
from tests.upstream.servers import (
    DONE,
    HANGS_S,
    STREAM_HEAD,
    Connection,
    chunked,
    event,
    head,
    said,
    until_closed,
    whole,
)

FREE = {"model": "any", "messages": ASK["messages"]}
Behaviour = Callable[[Connection], Awaitable[None]]


async def answers(connection: Connection, trace: str = TRACE, *, pause_s: float = 0) -> None:
    """Answer one request with a trace, line by line."""
    await connection.request()
    lines = trace.replace("{nonce}", nonce_in(connection)).splitlines(keepends=True)
    await connection.stream(*map(said, lines), said(None, "stop"), DONE, pause_s=pause_s)


async def tells_steps_and_falls_silent(connection: Connection) -> None:
    await connection.request()
    await connection.send(STREAM_HEAD)
    for line in TRACE.replace("{nonce}", nonce_in(connection)).splitlines(keepends=True)[:4]:
        await connection.send(chunked(said(line)))
    await connection.until_gone()


async def falls_silent(connection: Connection) -> None:
    await connection.request()
    await connection.until_gone()


# --- what an upstream can do wrong ---------------------------------------------------------------


async def sends_html(connection: Connection) -> None:
    await connection.request()
    await connection.send(whole("200 OK", b"<html>Sign in</html>", content_type="text/html"))


async def is_overloaded(connection: Connection) -> None:
    await connection.request()
    await connection.send(whole("429 Too Many", b'{"error": {"message": "slow down"}}', "Retry-After: 3600"))


async def wants_a_key(connection: Connection) -> None:
    await connection.request()
    await connection.send(whole("401 Unauthorized", b'{"error": {"message": "no key"}}'))


async def is_broken(connection: Connection) -> None:
    await connection.request()
    await connection.send(whole("500 Oops", b"trouble"))


async def closes_mid_line(connection: Connection) -> None:
    await connection.request()
    await connection.send(STREAM_HEAD, chunked(b'data: {"choices": [{"delta": {"con'))


async def sends_an_error_in_the_stream(connection: Connection) -> None:
    await connection.request()
    await connection.stream(event({"error": {"message": "overloaded", "code": 503}}))


async def finds_it_too_long(connection: Connection) -> None:
    await connection.request()
    told = {"message": "too long", "type": "upstream_error", "code": "context_length_exceeded"}
    await connection.send(whole("400 Bad Request", json.dumps({"error": told}).encode()))


FAULTS: list[tuple[Behaviour, int, str]] = [
    (sends_html, 502, "upstream_protocol_error"),
    (is_overloaded, 429, "upstream_busy"),
    (wants_a_key, 502, "upstream_denied"),
    (is_broken, 500, "upstream_busy"),
    (closes_mid_line, 502, "upstream_protocol_error"),
    (sends_an_error_in_the_stream, 503, "upstream_busy"),
    (finds_it_too_long, 400, "context_length_exceeded"),
    (falls_silent, 504, "upstream_timeout"),
]


@pytest.mark.parametrize(("behave", "status", "code"), FAULTS)
def test_a_fault_of_the_upstream_is_an_error_with_its_status(
    tmp_path: Path, behave: Behaviour, status: int, code: str
) -> None:
    async def body() -> None:
        timeouts = BRIEF if behave is falls_silent else {}
        async with before(tmp_path, behave, **timeouts) as (endpoint, server):
            for reply in await asyncio.gather(endpoint.post(BODY), endpoint.post({**BODY, "stream": True})):
                assert (reply.status, reply.error["type"], reply.error["code"]) == (
                    status,
                    "upstream_error",
                    code,
                )
                assert reply.json["stepguard"]["outcome"] == "error"
            assert await endpoint.counted('stepguard_requests_total{outcome="error",procedure="chain"}') == 2
            await until(lambda: all(connection.reader.at_eof() for connection in server.connections))

    run(body())


def test_an_upstream_that_refuses_is_a_502(tmp_path: Path) -> None:
    async def body() -> None:
        async with running(behind(tmp_path, "http://127.0.0.1:9/v1", config=PASSING)) as endpoint:
            for request_body in (BODY, FREE):
                reply = await endpoint.post(request_body)
                assert (reply.status, reply.error["code"]) == (502, "upstream_connect_error")

    run(body())


def test_an_upstream_that_answers_a_stream_request_with_json_is_read_as_one_piece(tmp_path: Path) -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        message = {"role": "assistant", "content": TRACE.replace("{nonce}", nonce_in(connection))}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        await connection.send(whole("200 OK", json.dumps({"choices": [choice]}).encode()))

    async def body() -> None:
        async with before(tmp_path, behave) as (endpoint, _):
            reply = await endpoint.post({**BODY, "stream": True})
            assert reply.events[-1]["stepguard"]["outcome"] == "accepted_first"

    run(body())


def test_an_upstream_that_breaks_off_behind_a_step_is_gone_on_with(tmp_path: Path) -> None:
    calls = 0

    async def behave(connection: Connection) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            await connection.request()
            line = "@begin chain {nonce}\n1 s1 = 2 + 3 = 5\n".replace("{nonce}", nonce_in(connection))
            await connection.send(STREAM_HEAD, chunked(said(line)))
            return  # and closes
        await answers(connection)

    async def body() -> None:
        async with before(tmp_path, behave) as (endpoint, _):
            reply = await endpoint.post({**BODY, "stream": True})
            steps = [event["choices"][0]["delta"].get("reasoning_content", "") for event in reply.events]
            assert "".join(steps).count("s1 = 2") == 1
            assert reply.events[-1]["stepguard"]["steps"]["verified"] == 9

    run(body())


def test_the_next_upstream_takes_over_where_one_is_down(tmp_path: Path) -> None:
    config = """
    routes: [{model: chain, procedure: chain, upstream: [main, play]}]
    """

    async def body() -> None:
        service = scripted(
            tmp_path,
            TRACE,
            config=config,
            server=PORTS,
            upstreams={"main": {"kind": "generic", "base_url": "http://127.0.0.1:9/v1"}},
        )
        async with running(service) as endpoint:
            reply = await endpoint.post(BODY)
            assert reply.json["stepguard"]["outcome"] == "accepted_by_fallback"

    run(body())


# --- cut connections -----------------------------------------------------------------------------


def test_the_upstream_is_cut_at_the_violation(tmp_path: Path) -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(STREAM_HEAD)
        for line in WRONG.replace("{nonce}", nonce_in(connection)).splitlines(keepends=True)[:5]:
            await connection.send(chunked(said(line)))
        await connection.until_gone()

    async def body() -> None:
        async with before(tmp_path, behave, config=policy("actions: [reject]")) as (endpoint, server):
            reply = await endpoint.post(BODY)
            assert reply.status == 422
            await until_closed(server.connections[0])

    run(body())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("sent", "behave"),
    [(FREE, falls_silent), (BODY, falls_silent), (BODY, tells_steps_and_falls_silent)],
)
def test_a_client_that_leaves_closes_the_upstream_at_once(
    tmp_path: Path, sent: dict[str, Any], behave: Behaviour, stream: bool
) -> None:
    async def body() -> None:
        async with before(tmp_path, behave, config=PASSING, first_s=10 * HANGS_S, idle_s=10 * HANGS_S) as (
            endpoint,
            server,
        ):
            _, writer = await endpoint.connect()
            writer.write(request(json.dumps({**sent, "stream": stream}).encode()))
            await until(lambda: bool(server.connections))
            await asyncio.sleep(0.05)
            writer.transport.abort()
            await until_closed(server.connections[0])
            if sent is BODY:
                series = 'stepguard_requests_total{outcome="cancelled",procedure="chain"}'
                assert await endpoint.counted(series) == 1

    run(body())


def test_a_client_that_leaves_while_it_sends_is_only_counted(tmp_path: Path) -> None:
    async def body() -> None:
        async with running(scripted(tmp_path, TRACE)) as endpoint:
            _, writer = await endpoint.connect()
            writer.write(request(json.dumps(BODY).encode())[:-10])
            await writer.drain()
            writer.transport.abort()
            while await endpoint.counted('stepguard_requests_refused_total{code="client_gone"}') != 1:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    run(body())


# --- slow upstreams ------------------------------------------------------------------------------


def test_a_stream_is_opened_though_no_step_came_and_kept_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("guard.proxy.delivery.KEEP_ALIVE_S", 0.05)
    proceed = asyncio.Event()

    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(STREAM_HEAD)
        await proceed.wait()
        lines = TRACE.replace("{nonce}", nonce_in(connection)).splitlines(keepends=True)
        await connection.send(*(chunked(said(line)) for line in lines), chunked(said(None, "stop") + DONE))

    async def body() -> None:
        config = policy("commit_after_s: 0.05")
        async with before(tmp_path, behave, config=config) as (endpoint, _):
            reader, writer = await endpoint.connect()
            writer.write(request(json.dumps({**BODY, "stream": True}).encode()))
            status, headers = await read_head(reader)
            assert status == 200
            assert headers["x-stepguard-procedure"] == "chain"
            pieces = list[bytes]()
            async for piece in read_chunks(reader):
                pieces.append(piece)
                if pieces.count(b": keep-alive\n\n") == 2:
                    proceed.set()
            assert pieces[-1].endswith(b"data: [DONE]\n\n")
            writer.close()

    run(body())


def test_a_stream_that_began_with_a_step_is_kept_alive_long_before_others_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("guard.proxy.delivery.KEEP_ALIVE_S", 1)

    async def behave(connection: Connection) -> None:
        await connection.request()
        lines = TRACE.replace("{nonce}", nonce_in(connection)).splitlines(keepends=True)
        await connection.send(STREAM_HEAD, *(chunked(said(line)) for line in lines[:4]))
        await asyncio.sleep(2.5)
        await connection.send(*(chunked(said(line)) for line in lines[4:]), pause_s=0.3)
        await connection.send(chunked(said(None, "stop") + DONE))

    async def body() -> None:
        config = policy("commit_after_s: 600")
        async with before(tmp_path, behave, config=config) as (endpoint, _):
            reply = await endpoint.post({**BODY, "stream": True})
            before_it, _, behind_it = reply.body.partition(b"4 s4 = ")
            assert before_it.count(b": keep-alive\n\n") >= 2
            assert b": keep-alive" not in behind_it, "a stream that says something needs no comments"
            assert reply.events[-1]["stepguard"]["outcome"] == "accepted_first"
            async with endpoint.client() as client:
                stream = await client.chat.completions.create(stream=True, **ASK)
                assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == "38"

    run(body())


def test_an_error_behind_the_opening_of_a_stream_is_said_in_it(tmp_path: Path) -> None:
    async def body() -> None:
        config = policy("commit_after_s: 0.05")
        async with before(tmp_path, falls_silent, config=config, first_s=0.2) as (endpoint, _):
            reply = await endpoint.post({**BODY, "stream": True})
            assert reply.status == 200
            (last,) = reply.events
            assert last["error"]["code"] == "upstream_timeout"

    run(body())


def test_the_wall_time_ends_a_run(tmp_path: Path) -> None:
    async def body() -> None:
        async with before(tmp_path, falls_silent, config=policy("seconds: 0.2"), first_s=HANGS_S) as (
            endpoint,
            server,
        ):
            reply = await endpoint.post(BODY)
            assert (reply.status, reply.error["code"]) == (504, "out_of_time")
            await until(lambda: server.connections[0].gone is not None)

    run(body())


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_is_whole_is_not_kept_back_by_a_server_that_says_nothing_more(
    tmp_path: Path, stream: bool
) -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.stream(said(TRACE.replace("{nonce}", nonce_in(connection))), end=False)
        await connection.until_gone()

    async def body() -> None:
        patient = 10 * HANGS_S
        async with before(tmp_path, behave, first_s=patient, idle_s=patient) as (endpoint, server):
            reply = await endpoint.post({**BODY, "stream": stream})
            report = reply.events[-1]["stepguard"] if stream else reply.report
            assert report["outcome"] == "accepted_first"
            assert len(server.connections) == 1

    run(body())


# --- passing through -----------------------------------------------------------------------------


def test_an_unbound_stream_passes_byte_for_byte_and_piece_by_piece(tmp_path: Path) -> None:
    pieces = [b": hello\r\n\r\n", b'data: {"odd":\xc3', b"\xa4}\n\n", b"data: [DONE]\n\n"]
    proceed = asyncio.Event()
    seen: list[Connection] = []

    async def behave(connection: Connection) -> None:
        await connection.request()
        seen.append(connection)
        await connection.send(
            head("200 OK", "Transfer-Encoding: chunked", "X-Ratelimit: 7", "X-Stepguard-Outcome: x")
        )
        for piece in pieces:
            await connection.send(chunked(piece))
            await proceed.wait()
            proceed.clear()
        await connection.send(b"0\r\n\r\n")

    async def body() -> None:
        async with before(tmp_path, behave, config=PASSING, api_key="own") as (endpoint, _):
            data = b'{"model":"any",  "messages" : [], "stream":true, "x": 1e3}'
            reader, writer = await endpoint.connect()
            writer.write(
                request(data, x_stepguard_key="k", x_custom="7", x_title="8", authorization="Bearer theirs")
            )
            status, headers = await read_head(reader)
            assert (status, headers["x-ratelimit"]) == (200, "7")
            assert headers["x-stepguard-outcome"] == "passthrough"
            got = []
            async for piece in read_chunks(reader):
                got.append(piece)
                proceed.set()
            assert got == pieces
            assert seen[0].body == data
            assert (seen[0].header("x-title"), seen[0].header("x-custom")) == ("8", None)
            assert seen[0].header("authorization") == "Bearer own"
            assert "x-stepguard" not in seen[0].head.lower()
            writer.close()
            assert await endpoint.counted(
                'stepguard_requests_total{outcome="passthrough",procedure="(none)"}'
            ) == 1  # fmt: skip

    run(body())


async def header_lines(reader: asyncio.StreamReader) -> list[str]:
    """The headers of an answer as they stand there, each name in small letters."""
    text = (await reader.readuntil(b"\r\n\r\n")).decode()
    pairs = (line.partition(": ") for line in text.split("\r\n")[1:] if line)
    return [f"{name.lower()}: {value}" for name, _, value in pairs]


def test_an_answer_that_passes_has_each_header_once_and_none_of_the_connection(tmp_path: Path) -> None:
    """An answer was made when its server says so; where it does not, as over HTTP/1.0, we do."""
    dated = "Date: Tue, 15 Nov 1994 08:12:31 GMT"
    connections = [
        "Connection: keep-alive, X-Drop",
        "Keep-Alive: timeout=5",
        "X-Drop: 1",
        "Trailer: x-late",
        "Upgrade: h2c",
        "Proxy-Connection: keep-alive",
        "Proxy-Authenticate: Basic",
    ]
    theirs = ["Server: theirs", "Set-Cookie: a=1", "Set-Cookie: b=2", "Cache-Control: no-store"]

    async def behave(connection: Connection) -> None:
        while True:
            await connection.request()
            stamped = [dated] if "/dated" in connection.head else []
            if "/stream" in connection.head:
                start = head("200 OK", *stamped, *connections, *theirs, "Transfer-Encoding: chunked")
                await connection.send(start, chunked(b"x"), b"0\r\n\r\n")
            else:
                await connection.send(whole("200 OK", b"x", *stamped, *connections, *theirs))

    async def body() -> None:
        async with before(tmp_path, behave, config=PASSING) as (endpoint, _):
            for path in ("/v1/dated", "/v1/dated/stream", "/v1/plain", "/v1/plain/stream"):
                reader, writer = await endpoint.connect()
                writer.write(request(b"{}", path=path, x_stepguard_key="k"))
                lines = await header_lines(reader)
                writer.close()
                names = [line.partition(":")[0] for line in lines]
                framing = "transfer-encoding" if path.endswith("stream") else "content-length"
                passed = ["cache-control", "content-type", framing, "server", "set-cookie", "set-cookie"]
                assert sorted(names) == sorted([*passed, "date", "x-stepguard-outcome"]), path
                assert ("dated" in path) == (dated.lower() in [line.lower() for line in lines])

    run(body())


def test_what_we_say_ourselves_has_one_date(tmp_path: Path) -> None:
    async def body() -> None:
        async with running(scripted(tmp_path, TRACE)) as endpoint:
            asked = [
                (endpoint.addresses.client, request(json.dumps(BODY).encode())),
                (endpoint.addresses.client, request(json.dumps({**BODY, "stream": True}).encode())),
                (endpoint.addresses.client, request(b"", path="/elsewhere", method="GET")),
                (endpoint.addresses.admin, request(b"", path="/healthz", method="GET")),
            ]
            for address, data in asked:
                reader, writer = await endpoint.connect(address)
                writer.write(data)
                dates = [line[6:] for line in await header_lines(reader) if line.startswith("date: ")]
                writer.close()
                [date] = dates
                assert abs((parsedate_to_datetime(date) - read_clock()).total_seconds()) < 5

    run(body())


def test_other_paths_pass_with_their_method_query_and_status(tmp_path: Path) -> None:
    async def behave(connection: Connection) -> None:
        while True:
            await connection.request()
            line = connection.head.split("\r\n")[0]
            await connection.send(whole("418 Teapot", line.encode(), content_type="text/plain"))

    async def body() -> None:
        async with before(tmp_path, behave) as (endpoint, _):
            for method, path in [
                ("GET", "/files?limit=2&after=%2Fx"),
                ("DELETE", "/files/a%2Fb"),
                ("POST", "/embeddings"),
                ("GET", "/models/org/x"),
                ("POST", "/tokenize"),
            ]:
                for prefix in ("/v1", "/p/v1x/v1", "/p/chain/v1"):
                    reply = await endpoint.post({"model": "any"}, path=prefix + path, method=method)
                    assert reply.status == 418
                    assert reply.body.decode() == f"{method} /v1{path} HTTP/1.1"

    run(body())


def test_headers_pass_byte_for_byte_whatever_their_encoding(tmp_path: Path) -> None:
    seen: list[bytes] = []

    async def behave(connection: Connection) -> None:
        seen.append(await connection.reader.readuntil(b"\r\n\r\n"))
        name = "X-Name: 日本é\r\n".encode() + b"X-Old: \xe9\r\n"
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + name + b"\r\nok")

    async def body() -> None:
        async with before(tmp_path, behave) as (endpoint, _):
            reader, writer = await endpoint.connect()
            writer.write(request(b"", path="/v1/files", method="GET", x_title="日本é"))
            answer = await reader.readuntil(b"ok")
            writer.close()
            assert "x-name: 日本é\r\n".encode() in answer
            assert b"x-old: \xe9\r\n" in answer
            assert "x-title: 日本é\r\n".encode() in seen[0].replace(b"X-Title", b"x-title")

    run(body())


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_an_answer_that_has_no_body_passes_though_it_names_a_length(
    tmp_path: Path, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(head(status, "Content-Length: 10", "Etag: x"))

    async def body() -> None:
        async with before(tmp_path, behave) as (endpoint, _):
            reply = await endpoint.post(path="/v1/files", method="GET")
            assert (reply.status, reply.body, reply.headers["etag"]) == (int(status[:3]), b"", "x")

    run(body())
    assert not caplog.records


def test_what_passes_through_is_cut_where_the_upstream_breaks_off(tmp_path: Path) -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(STREAM_HEAD, chunked(said("half")))

    async def body() -> None:
        async with before(tmp_path, behave, config=PASSING) as (endpoint, _):
            reader, writer = await endpoint.connect()
            writer.write(request(json.dumps(FREE).encode()))
            await read_head(reader)
            with pytest.raises(asyncio.IncompleteReadError):
                _ = [piece async for piece in read_chunks(reader)]
            writer.close()

    run(body())


# --- room, and the end ---------------------------------------------------------------------------


def test_more_requests_than_there_is_room_for_are_sent_away(tmp_path: Path) -> None:
    server = "server: {port: 0, max_requests: 1}\nadmin: {port: 0}\n"

    async def body() -> None:
        config = policy("seconds: 0.4")
        async with before(tmp_path, falls_silent, server=server, config=config) as (endpoint, upstream):
            first = asyncio.create_task(endpoint.post(BODY))
            await until(lambda: bool(upstream.connections))
            reply = await endpoint.post(BODY)
            assert (reply.status, reply.error["code"]) == (503, "overloaded")
            assert reply.headers["retry-after"] == "1"
            assert reply.headers["x-should-retry"] == "true"
            assert (await first).status == 504

    run(body())


def test_a_server_that_stops_lets_running_requests_finish(tmp_path: Path) -> None:
    proceed = asyncio.Event()

    async def behave(connection: Connection) -> None:
        await connection.request()
        lines = TRACE.replace("{nonce}", nonce_in(connection)).splitlines(keepends=True)
        await connection.send(STREAM_HEAD, chunked(said(lines[0])))
        await proceed.wait()
        await connection.send(
            *(chunked(said(line)) for line in lines[1:]), chunked(said(None, "stop") + DONE)
        )

    async def body() -> None:
        async with before(tmp_path, behave) as (endpoint, upstream):
            kept, kept_writer = await endpoint.connect()
            running_request = asyncio.create_task(endpoint.post({**BODY, "stream": True}))
            await until(lambda: bool(upstream.connections))
            endpoint.stop.set()
            while (ready := await endpoint.admin("/readyz")).status == 200:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert (ready.status, ready.json) == (503, {"status": "stopping"})
            assert (await endpoint.admin("/healthz")).status == 200
            kept_writer.write(request(json.dumps(BODY).encode()))
            status, headers, data = await read_reply(kept)
            assert (status, json.loads(data)["error"]["code"]) == (503, "stopping")
            assert headers["retry-after"] == "1"
            kept_writer.close()
            proceed.set()
            reply = await running_request
            assert reply.events[-1]["stepguard"]["outcome"] == "accepted_first"
            await endpoint.ended

    run(body())


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_must_stop_says_so_to_those_still_running(tmp_path: Path, stream: bool) -> None:
    server = "server: {port: 0, drain_s: 1}\nadmin: {port: 0}\n"

    async def body() -> None:
        async with before(tmp_path, tells_steps_and_falls_silent, server=server) as (endpoint, upstream):
            running_request = asyncio.create_task(endpoint.post({**BODY, "stream": stream}))
            await until(lambda: bool(upstream.connections))
            endpoint.stop.set()
            reply = await running_request
            if stream:
                assert reply.status == 200
                assert reply.events[-1]["error"]["code"] == "stopping"
                assert len(reply.events) == 5  # the role, three steps, the error
            else:
                assert (reply.status, reply.error["code"]) == (503, "stopping")
            await endpoint.ended
            assert upstream.connections[0].gone is not None

    run(body())


def test_a_server_that_must_stop_waits_for_nobody_who_is_still_sending(tmp_path: Path) -> None:
    server = "server: {port: 0, drain_s: 0.1}\nadmin: {port: 0}\n"

    async def body() -> None:
        async with running(scripted(tmp_path, TRACE, server=server)) as endpoint:
            reader, writer = await endpoint.connect()
            writer.write(request(json.dumps(BODY).encode())[:-10])
            await asyncio.sleep(0.05)
            endpoint.stop.set()
            status, _, data = await read_reply(reader)
            assert (status, json.loads(data)["error"]["code"]) == (503, "stopping")
            writer.close()
            await endpoint.ended

    run(body())


def test_a_client_that_never_ends_its_request_is_sent_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("guard.proxy.exchange.BODY_S", 0.1)

    async def body() -> None:
        async with running(scripted(tmp_path, TRACE)) as endpoint:
            reader, writer = await endpoint.connect()
            writer.write(request(json.dumps(BODY).encode())[:-10])
            status, _, data = await read_reply(reader)
            assert (status, json.loads(data)["error"]["code"]) == (408, "request_timeout")
            writer.close()

    run(body())


def test_a_client_that_takes_nothing_is_gone_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("guard.proxy.exchange.STALL_S", 0.2)

    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(STREAM_HEAD)
        with suppress(ConnectionError):
            while True:
                await connection.send(chunked(b"x" * 100_000))

    async def body() -> None:
        async with before(tmp_path, behave, config=PASSING) as (endpoint, server):
            reader, writer = await endpoint.connect()
            writer.write(request(json.dumps(FREE).encode()))
            await read_head(reader)  # and not a byte more
            await until(server.connections[0].writer.is_closing)
            writer.transport.abort()

    run(body())


def test_an_address_that_is_taken_is_said_as_such(tmp_path: Path) -> None:
    async def body() -> None:
        async with running(scripted(tmp_path, TRACE)) as endpoint:
            port = endpoint.addresses.client.rsplit(":", 1)[1]
            taken = scripted(tmp_path, TRACE, server=f"server: {{port: {port}}}\nadmin: {{port: 0}}\n")
            with pytest.raises(ConfigError, match=f"server: cannot listen on 127.0.0.1:{port}"):
                async with running(taken):
                    pass

    run(body())

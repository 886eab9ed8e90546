"""The process: it serves, says where, and ends by itself when it is told to."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from weakref import ref

import pytest

from guard.telemetry.metrics import Metrics
from tests.proxy.running import (
    BODY,
    BOUND,
    PORTS,
    TRACE,
    Reply,
    read_body,
    read_head,
    read_reply,
    request,
    run,
    running,
    scripted,
)
from tests.upstream.servers import HANGS_S

SERVES = """
import sys
from pathlib import Path
from guard.config import build, load_config
from guard.proxy.app import run
service = build(load_config(Path(sys.argv[1])))
run(service, ready=lambda addresses: print(addresses.client, addresses.admin, flush=True))
print("ended", flush=True)
"""


@asynccontextmanager
async def process(folder: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str, str]]:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVES, str(folder / "stepguard.yaml"), stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    try:
        client, admin = (await child.stdout.readline()).decode().split()
        yield child, client, admin
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def ask(url: str, data: bytes, begun: asyncio.Event | None = None) -> Reply:
    """Ask on a connection of its own; `begun` is set once the head of the answer has come."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(data)
        status, headers = await read_head(reader)
        if begun is not None:
            begun.set()
        return Reply(status, headers, await read_body(reader, headers))
    finally:
        writer.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_a_running_stream_finish_and_the_process_end_well(
    tmp_path: Path, number: signal.Signals
) -> None:
    scripted(tmp_path, {"text": TRACE, "chunk": 20, "delay_s": 0.05}, config=BOUND, server=PORTS)

    async def body() -> None:
        async with process(tmp_path) as (child, client, admin):
            assert (await ask(admin, request(b"", path="/readyz", method="GET"))).json == {"status": "ready"}
            begun = asyncio.Event()
            asking = ask(client, request(json.dumps({**BODY, "stream": True}).encode()), begun)
            stream = asyncio.create_task(asking)
            await begun.wait()
            child.send_signal(number)
            reply = await stream
            assert reply.events[-1]["stepguard"]["outcome"] == "accepted_first"
            assert await asyncio.wait_for(child.wait(), HANGS_S) == 0
            assert child.stdout is not None
            assert await child.stdout.read() == b"ended\n"

    run(body())


def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    scripted(tmp_path, {"text": TRACE, "chunk": 20, "delay_s": 0.5}, config=BOUND, server=PORTS)

    async def body() -> None:
        async with process(tmp_path) as (child, client, admin):
            begun = asyncio.Event()
            asking = ask(client, request(json.dumps({**BODY, "stream": True}).encode()), begun)
            stream = asyncio.create_task(asking)
            await begun.wait()
            child.send_signal(signal.SIGTERM)
            while (await ask(admin, request(b"", path="/readyz", method="GET"))).status == 200:  # noqa: ASYNC110 (another process tells)
                await asyncio.sleep(0.01)
            assert child.returncode is None
            child.send_signal(signal.SIGTERM)
            assert await child.wait() == -signal.SIGTERM
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await stream

    run(body())


def test_a_server_that_has_stopped_leaves_nothing_in_memory(tmp_path: Path) -> None:
    async def body() -> ref[Metrics]:
        async with running(scripted(tmp_path, TRACE, config=BOUND)) as endpoint:
            assert (await endpoint.post(BODY)).status == 200
            assert (await endpoint.admin("/metrics")).status == 200
            assert (await endpoint.admin("/readyz")).status == 200
            return ref(endpoint.service.metrics)

    metrics = run(body())
    gc.collect()
    assert metrics() is None


def test_pipelined_and_smuggled_requests_are_one_request_or_none(tmp_path: Path) -> None:
    scripted(tmp_path, TRACE, config=BOUND, server=PORTS)
    smuggled = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
    )

    async def body() -> None:
        async with process(tmp_path) as (_, client, _):
            host, port = client.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(smuggled)
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert answer.count(b"HTTP/1.1") == 1
            writer.close()

    run(body())


@pytest.mark.parametrize(
    "endless",
    [
        (b"GET /v1/models HTTP/1.1\r\nHost: x\r\nX: ", b"y" * 50_000),
        (b"GET /v1/models HTTP/1.1\r\nHost: x\r\n", b"X: y\r\n" * 10_000),
        (b"GET /", b"y" * 50_000),
        (b"POST /v1/embeddings HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n" * 10_000),
    ],
    ids=["a header", "headers", "a path", "trailers"],
)
def test_what_is_no_body_is_bounded(tmp_path: Path, endless: tuple[bytes, bytes]) -> None:
    begin, more = endless

    async def body() -> None:
        async with running(scripted(tmp_path, TRACE)) as endpoint:
            reader, writer = await endpoint.connect()
            writer.write(begin)
            answer = asyncio.create_task(reader.read())
            with suppress(ConnectionError):
                for _ in range(40):
                    writer.write(more)
                    await writer.drain()
                    await asyncio.sleep(0.002)
            assert writer.transport.is_closing() or answer.done()
            with suppress(ConnectionError):
                said = await answer
                assert b"POST" in begin or said.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))
            writer.close()

    run(body())


def test_a_body_in_tiny_chunks_is_no_endless_head(tmp_path: Path) -> None:
    data = json.dumps({**BODY, "padding": "x" * 50_000}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in data) + b"0\r\n\r\n"
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def body() -> None:
        async with running(scripted(tmp_path, TRACE)) as endpoint:
            reader, writer = await endpoint.connect()
            for _ in range(2):
                for piece in (head, chunks[:100_000], chunks[100_000:]):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.01)
                status, _, _ = await read_reply(reader)
                assert status == 200
            writer.close()

    run(body())


def test_an_offer_of_http_2_is_declined_and_the_request_answered(tmp_path: Path) -> None:
    offer = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": "AAEAAEAA"}
    note = {**BODY, "messages": [{"role": "user", "content": "a\r\nUpgrade: x\r\n\r\nupgrade: y"}]}

    async def body() -> None:
        async with running(scripted(tmp_path, TRACE)) as endpoint:
            for asked in (BODY, note):
                reply = await endpoint.post(asked, **offer)
                assert reply.status == 200
            reader, writer = await endpoint.connect()
            for _ in range(2):
                writer.write(request(json.dumps(note).encode(), **offer))
                assert (await read_reply(reader))[0] == 200
            writer.close()

    run(body())


def test_requests_that_offer_an_upgrade_keep_their_bodies_however_they_are_cut_and_pipelined(
    tmp_path: Path,
) -> None:
    offer = {"connection": "keep-alive, Upgrade", "upgrade": "h2c"}
    data = json.dumps(BODY).encode()
    both = request(data, **offer) + request(data, **offer) + request(data)
    cuts = [*range(1, len(both), 29), *(both.index(b"\r\n\r\n", len(data)) + at for at in range(-3, 6))]

    async def body() -> None:
        async with running(scripted(tmp_path, TRACE)) as endpoint:
            for cut in cuts:
                reader, writer = await endpoint.connect()
                for piece in (both[:cut], both[cut:]):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                for _ in range(3):
                    assert (await read_reply(reader))[0] == 200, cut
                writer.close()

    run(body())


TRAILERS = [
    "Authorization: Bearer key-a",
    "X-Stepguard-Key: key-a",
    "X-Stepguard-Policy: none",
    "X-Stepguard-Procedure: chain",
]


@pytest.mark.parametrize("trailer", TRAILERS)
def test_what_follows_a_body_is_no_header(tmp_path: Path, trailer: str) -> None:
    data = json.dumps(BODY).encode()

    def chunked_with(*headers: str) -> bytes:
        lines = ["POST /v1/chat/completions HTTP/1.1", "Host: x", "Transfer-Encoding: chunked", *headers]
        body = b"%x\r\n%s\r\n0\r\n%s\r\n\r\n" % (len(data), data, trailer.encode())
        return "\r\n".join([*lines, "", ""]).encode() + body

    async def body() -> None:
        keyed = "server: {port: 0, api_keys: [key-a]}\nadmin: {port: 0}\n"
        async with running(scripted(tmp_path, TRACE, server=keyed)) as endpoint:
            reader, writer = await endpoint.connect()
            writer.write(chunked_with())
            assert (await read_reply(reader))[0] == 401
            writer.write(chunked_with("Authorization: Bearer key-a"))
            assert (await read_reply(reader))[0] == 200
            writer.close()

    run(body())


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (b"GET /v1/models HTTP/1.1\r\n\r\n", 400, "malformed_request"),
        (b"GET /v1/models HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400, "malformed_request"),
        (
            b"POST /v1/embeddings HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
            "malformed_request",
        ),
        (b"TRACE /v1/models HTTP/1.1\r\nHost: x\r\n\r\n", 405, "method_not_allowed"),
        (b"PROPFIND /v1/models HTTP/1.1\r\nHost: x\r\n\r\n", 405, "method_not_allowed"),
        (b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "malformed_request"),
        (b"GET /v1/%0d%0aX HTTP/1.1\r\nHost: x\r\n\r\n", 404, "not_found"),
        (b"GET /%0a HTTP/1.1\r\nHost: x\r\n\r\n", 404, "not_found"),
        (b"no request at all\r\n\r\n", 400, "malformed_request"),
        (b"GET /v1/models HTTP/1.1\r\nHost : x\r\n\r\n", 400, "malformed_request"),
    ],
)
def test_what_is_no_request_is_told_so_in_the_shape_of_every_error(
    tmp_path: Path, data: bytes, status: int, code: str
) -> None:
    async def body() -> None:
        async with running(scripted(tmp_path, TRACE)) as endpoint:
            reader, writer = await endpoint.connect()
            writer.write(data)
            reply = Reply(*(await read_reply(reader)))
            assert (reply.status, reply.error["code"]) == (status, code)
            writer.close()

    run(body())


def test_a_hangup_ends_neither_the_process_nor_a_stream(tmp_path: Path) -> None:
    scripted(tmp_path, {"text": TRACE, "chunk": 20, "delay_s": 0.05}, config=BOUND, server=PORTS)

    async def body() -> None:
        async with process(tmp_path) as (child, client, _):
            stream = asyncio.create_task(ask(client, request(json.dumps({**BODY, "stream": True}).encode())))
            for _ in range(3):
                await asyncio.sleep(0.05)
                child.send_signal(signal.SIGHUP)
            assert (await stream).events[-1]["stepguard"]["outcome"] == "accepted_first"
            assert child.returncode is None

    run(body())

"""The process: it serves, says where, and ends by itself when it is told to."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.proxy.running import BODY, BOUND, PORTS, TRACE, Reply, read_reply, request, run, scripted

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


async def ask(url: str, data: bytes) -> Reply:
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(data)
        return Reply(*(await read_reply(reader)))
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
            stream = asyncio.create_task(ask(client, request(json.dumps({**BODY, "stream": True}).encode())))
            await asyncio.sleep(0.2)
            child.send_signal(number)
            reply = await stream
            assert reply.events[-1]["stepguard"]["outcome"] == "accepted_first"
            assert await asyncio.wait_for(child.wait(), 5) == 0
            assert child.stdout is not None
            assert await child.stdout.read() == b"ended\n"

    run(body())


def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    scripted(tmp_path, {"text": TRACE, "delay_s": 5}, config=BOUND, server=PORTS)

    async def body() -> None:
        async with process(tmp_path) as (child, client, _):
            stream = asyncio.create_task(ask(client, request(json.dumps(BODY).encode())))
            await asyncio.sleep(0.2)
            child.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.2)
            assert child.returncode is None
            child.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(child.wait(), 2) == -signal.SIGTERM
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await stream

    run(body())


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

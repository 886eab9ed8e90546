"""Loopback servers that misbehave: raw sockets, so that every byte and its absence is the test's own."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any, TypeVar

import pytest
import uvloop

from guard.errors import UpstreamError
from guard.run.messages import Ended, Open, Strategy, Text
from guard.upstream.http import HttpUpstream, Timeouts

T = TypeVar("T")

HANGS_S = (
    120  # a test that takes longer hangs; on a busy machine starting a process alone may take half a minute
)
SHORT = Timeouts(connect_s=0.2, first_s=0.3, idle_s=0.2, linger_s=0.1, passage_s=0.3)


@dataclass(frozen=True)
class Call:
    """What comes from the client's request."""

    extra: dict[str, object] = field(default_factory=dict)
    authorization: str | None = None


@dataclass
class Connection:
    """One connection as the server sees it. `gone` is when the client closed it, by the loop's clock."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    head: str = ""
    body: bytes = b""
    gone: float | None = None
    received: int = 0  # bytes behind the last request that was read
    requests: int = 0  # that were read whole

    async def request(self) -> dict[str, Any]:
        """Read one request; give its body. Raises `IncompleteReadError` where the client closes instead."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        self.head = head.decode()
        self.body = await self.reader.readexactly(int(self.header("content-length") or 0))
        self.requests += 1
        return json.loads(self.body) if self.body.startswith(b"{") else {}

    def header(self, name: str) -> str | None:
        for line in self.head.split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.lower() == name:
                return value.strip()
        return None

    async def send(self, *pieces: bytes, pause_s: float = 0) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(pause_s)

    async def stream(self, *events: bytes, head: bytes = b"", end: bool = True, pause_s: float = 0) -> None:
        """Answer with an event stream in chunked encoding."""
        await self.send(head or STREAM_HEAD)
        await self.send(*(chunked(event) for event in events), pause_s=pause_s)
        if end:
            await self.send(b"0\r\n\r\n")

    async def until_gone(self) -> None:
        """Wait until the client closes, and note when."""
        with suppress(ConnectionError):
            while data := await self.reader.read(65536):
                self.received += len(data)
        self.gone = asyncio.get_running_loop().time()

    def reset(self) -> None:
        """Close with a reset instead of a farewell."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Behaviour = Callable[[Connection], Awaitable[None]]


@dataclass
class Server:
    url: str
    connections: list[Connection] = field(default_factory=list)


@asynccontextmanager
async def serving(behave: Behaviour) -> AsyncIterator[Server]:
    """A server on a free port that treats every connection the same way."""
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        connection = Connection(reader, writer)
        server.connections.append(connection)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                await behave(connection)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    server = Server(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1")
    try:
        yield server
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def head(status: str = "200 OK", *headers: str, content_type: str = "text/event-stream") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


# Most behaviours answer once and close. They say so: a client that believes the connection kept may use it
# again just before it sees the close, and then the test has drawn a fault that it does not mean.
CLOSES = "Connection: close"
STREAM_HEAD = head("200 OK", "Transfer-Encoding: chunked", CLOSES)
KEPT_STREAM_HEAD = head("200 OK", "Transfer-Encoding: chunked")


def whole(
    status: str, body: bytes, *headers: str, content_type: str = "application/json", kept: bool = False
) -> bytes:
    closes = () if kept else (CLOSES,)
    return head(status, f"Content-Length: {len(body)}", *closes, *headers, content_type=content_type) + body


def event(data: object) -> bytes:
    return b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\n\n"


def said(text: str | None, finish_reason: str | None = None, **delta: object) -> bytes:
    choice = {"index": 0, "delta": {"content": text, **delta}, "finish_reason": finish_reason}
    return event({"object": "chat.completion.chunk", "choices": [choice]})


USAGE = event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}})
DONE = event(b"[DONE]")


def opening(**changes: Any) -> Open:
    known: dict[str, Any] = {
        "generation": 1,
        "attempt": 1,
        "upstream": "main",
        "strategy": Strategy.INITIAL,
        "messages": ({"role": "user", "content": "Add one and two."},),
        "prefix": "",
        "grammar": None,
        "max_tokens": 100,
        "temperature": 0.0,
        "model": "m",
    }
    return Open(**known | changes)


async def hear(
    upstream: HttpUpstream, command: Open | None = None, call: Call | None = None
) -> list[Text | Ended]:
    """All that an upstream says."""
    return [piece async for piece in upstream.stream(command or opening(), client=call or Call())]


def text_in(pieces: list[Text | Ended]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, Text))


@asynccontextmanager
async def connected(server: Server, **settings: Any) -> AsyncIterator[HttpUpstream]:
    upstream = HttpUpstream("main", server.url, **{"model": "m", **settings})
    try:
        yield upstream
    finally:
        await upstream.close()


def answered(
    behave: Behaviour, command: Open | None = None, *, call: Call | None = None, **settings: Any
) -> list[Text | Ended]:
    """What an upstream says that talks to such a server once."""

    async def body() -> list[Text | Ended]:
        async with serving(behave) as server, connected(server, **settings) as upstream:
            return await hear(upstream, command, call)

    return run(body())


def streams(*events: bytes, **settings: Any) -> Behaviour:
    async def behave(connection: Connection) -> None:
        while True:
            await connection.request()
            await connection.stream(*events, **{"head": KEPT_STREAM_HEAD, **settings})

    return behave


def answers(*raw: bytes, pause_s: float = 0) -> Behaviour:
    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(*raw, pause_s=pause_s)

    return behave


def then_holds(*raw: bytes) -> Behaviour:
    """Answers so far, then keeps the connection open in silence until the client leaves."""

    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(*raw)
        await connection.until_gone()

    return behave


def fault(behave: Behaviour, **settings: Any) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        answered(behave, **settings)
    assert str(caught.value).startswith("upstream 'main': ")
    assert caught.value.message == str(caught.value)
    return caught.value


async def until_closed(*connections: Connection) -> None:
    """Wait until the client has closed these; a test where nobody else would close them hangs if it does not."""
    while any(connection.gone is None for connection in connections):  # noqa: ASYNC110 (a field, no event)
        await asyncio.sleep(0.005)


def run(body: Coroutine[Any, Any, T]) -> T:
    """Run on the event loop that the service uses."""
    return uvloop.run(asyncio.wait_for(body, HANGS_S))


async def first_pieces(stream: AsyncGenerator[Text | Ended], count: int) -> None:
    """Hear so many pieces, then cut."""
    async with aclosing(stream):
        for _ in range(count):
            await anext(stream)


@contextmanager
def in_a_thread(server: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Run a server beside a command that has an event loop of its own; give what it gives."""
    given: list[T] = []
    ready, stop = Event(), Event()

    async def serve() -> None:
        async with server as gives:
            given.append(gives)
            ready.set()
            while not stop.is_set():  # noqa: ASYNC110 (another thread says so)
                await asyncio.sleep(0.02)

    thread = Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(10)
        yield given[0]
    finally:
        stop.set()
        thread.join(10)

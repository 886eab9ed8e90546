"""One request and its answer on raw ASGI: a bounded body, one beginning, and a client that may leave.

    async with exchange.watched():      cancelled at once where the client leaves
        await exchange.answer(...)      or begin, write, ..., end

A client that leaves, or takes nothing, and a server that wants to stop, cancel the task that serves the
request, wherever it waits. Whoever catches the cancellation asks `stopped` what it means.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, MutableMapping
from contextlib import asynccontextmanager
from email.utils import format_datetime
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from guard.engine import read_clock
from guard.errors import RequestError

STALL_S: Final = 30.0  # a client that takes nothing for so long is gone
BODY_S: Final = 60.0  # until a request has been sent

HEADER_TEXT: Final = ("utf-8", "surrogateescape")  # as aiohttp reads and writes headers

BLANK: Final = b" \t"  # around a header's value, and no part of it

HeaderPairs = Iterable[tuple[str, str]]


class ClientGone(Exception):  # noqa: N818 (nobody's error: it left)
    """There is nobody left to answer."""


class Interrupted(Exception):  # noqa: N818 (a command, not an error)
    """The server wants to stop."""


class Exchange:
    """What the endpoint does with the server's three ASGI values, once a request.

    `headers` have lower-case names; the last of several counts. `committed`: the status has been sent.
    `streaming`: it was that of a stream of ours, in which an error can still be said. `procedure` is the
    one that the request is bound to, as soon as that is known. `counted`: observers know of it.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self.committed = self.streaming = self.counted = False
        self.procedure: str | None = None
        self._receive, self._send = receive, send
        self._loop = asyncio.get_running_loop()
        self.started = self._loop.time()
        self._task = asyncio.current_task()
        self._stop: ClientGone | Interrupted | None = None

    @property
    def method(self) -> str:
        """The method, in capitals."""
        return str(self.scope["method"])

    @property
    def elapsed(self) -> float:
        """Seconds since the request's headers were read."""
        return self._loop.time() - self.started

    def told(self, name: str) -> str | None:
        """Give what a header that is meant for us says, None where it is not there.

        `name` is in lower case. Raises `RequestError` where it is there more than once and says different
        things: whoever wrote one of them, another program's default perhaps, did not mean the other.
        """
        raw = name.encode("latin-1")
        values = {value.strip(BLANK) for known, value in self.scope["headers"] if known == raw}
        if len(values) > 1:
            raise RequestError(
                f"the header {name} is there more than once, with different values: expected one",
                code="header_conflict",
            )
        return values.pop().decode("latin-1") if values else None

    def require_head(self) -> None:
        """Raise `RequestError` where the head says that this is no request that two readers read alike.

        RFC 9112: a request of HTTP/1.1 has one `host` (section 3.2), and one of HTTP/1.0 no
        `transfer-encoding` (section 6.1).
        """
        names = [name for name, _ in self.scope["headers"]]
        if self.scope["http_version"] == "1.1" and names.count(b"host") != 1:
            raise RequestError(
                f"expected one header host, found {names.count(b'host')}", code="malformed_request"
            )
        if self.scope["http_version"] != "1.1" and b"transfer-encoding" in names:
            raise RequestError(
                "a request of HTTP/1.0 cannot have a header transfer-encoding", code="malformed_request"
            )

    async def body(self, limit: int) -> bytes:
        """Read the body. Raises `RequestError` as soon as it is clear that it is too long or too slow."""
        announced = self.headers.get("content-length", "")
        if announced.isdigit() and len(announced) < 20 and int(announced) > limit:
            raise _too_long(limit)
        try:
            async with asyncio.timeout(BODY_S):
                return await self._read(limit)
        except TimeoutError:
            raise RequestError(
                f"the body did not come within {BODY_S:g} s", code="request_timeout", status=408
            ) from None

    async def _read(self, limit: int) -> bytes:
        parts: list[bytes] = []
        length = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            part = message.get("body", b"")
            length += len(part)
            if length > limit:
                raise _too_long(limit)
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Stop at once where the client leaves. Only behind the body."""
        watch = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watch.cancel()

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._cancel(ClientGone())

    def interrupt(self) -> None:
        """Stop what is being done, since the server wants to."""
        self._cancel(Interrupted())

    def _cancel(self, why: ClientGone | Interrupted) -> None:
        if self._task is not None and self._stop is None:
            self._stop = why
            self._task.cancel()

    def stopped(self) -> ClientGone | Interrupted | None:
        """Say why the task was cancelled, and take the cancellation back; None: somebody else did it."""
        why, self._stop = self._stop, None
        if why is None or self._task is None or self._task.uncancel() > 0:
            return None
        return why

    async def answer(self, status: int, headers: HeaderPairs, body: bytes) -> None:
        """Answer in one piece."""
        await self.begin(status, [*headers, ("content-length", str(len(body)))])
        await self._message({"type": "http.response.body", "body": body})

    async def begin(self, status: int, headers: HeaderPairs) -> None:
        """Send the status and the headers: there is no way back.

        Bytes of an upstream's headers that are no UTF-8 come, and leave, as surrogates. Its `date` says when
        its answer was made, and stays; an answer that has none gets ours.
        """
        raw = [(name.lower().encode("latin-1"), value.encode(*HEADER_TEXT)) for name, value in headers]
        if not any(name == b"date" for name, _ in raw):
            raw.append((b"date", format_datetime(read_clock(), usegmt=True).encode("ascii")))
        self.committed = True
        await self._message({"type": "http.response.start", "status": status, "headers": raw})

    async def write(self, data: bytes) -> None:
        """Send a piece of the body. Waits while the client is slow, but not for ever."""
        await self._message({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        """Send the last piece."""
        await self._message({"type": "http.response.body", "body": data})

    async def _message(self, message: MutableMapping[str, Any]) -> None:
        stalled = self._loop.call_later(STALL_S, self._cancel, ClientGone())
        try:
            await self._send(message)
        except OSError:
            raise ClientGone from None
        finally:
            stalled.cancel()


def _too_long(limit: int) -> RequestError:
    return RequestError(f"the body is longer than {limit} bytes", code="request_too_large", status=413)

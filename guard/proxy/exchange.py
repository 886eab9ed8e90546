"""One request and its answer on raw ASGI: a bounded body, one beginning, and a client that may leave.

async with exchange.watched():      ends with `ClientGone` or `Interrupted` at once, wherever it waits
    await exchange.answer(...)      or begin, write, ..., end
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections.abc import AsyncIterator, Iterable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from guard.errors import RequestError

STALL_S: Final = 30.0  # a client that takes nothing for so long is gone

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
        self._task: asyncio.Task[Any] | None = None
        self._stop: Exception | None = None

    @property
    def method(self) -> str:
        """The method, in capitals."""
        return str(self.scope["method"])

    @property
    def elapsed(self) -> float:
        """Seconds since the request's headers were read."""
        return self._loop.time() - self.started

    async def body(self, limit: int) -> bytes:
        """Read the body. Raises `RequestError` with 413 as soon as it is clear that it is too long."""
        announced = self.headers.get("content-length", "")
        if announced.isdigit() and len(announced) < 20 and int(announced) > limit:
            raise _too_long(limit)
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
        """Stop at once where the client leaves or `interrupt` is called. Only behind the body."""
        task = self._task = asyncio.current_task()
        assert task is not None
        watch = asyncio.create_task(self._watch())
        try:
            yield
        except CancelledError:
            if self._stop is None:
                raise
            if task.uncancel() > 0:  # somebody else wants it to stop, too
                raise
            raise self._stop from None
        finally:
            self._task = None
            watch.cancel()

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._cancel(ClientGone())

    def interrupt(self) -> None:
        """Stop what is being done; it ends with `Interrupted`."""
        self._cancel(Interrupted())

    def _cancel(self, why: Exception) -> None:
        if self._task is not None and self._stop is None:
            self._stop = why
            self._task.cancel()

    async def answer(self, status: int, headers: HeaderPairs, body: bytes) -> None:
        """Answer in one piece."""
        await self.begin(status, [*headers, ("content-length", str(len(body)))])
        await self._message({"type": "http.response.body", "body": body})

    async def begin(self, status: int, headers: HeaderPairs) -> None:
        """Send the status and the headers: there is no way back."""
        self.committed = True
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
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

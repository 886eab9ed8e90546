"""Bodies of answers as servers send them: compressed, without an end, in pieces that take long to read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import aiohttp

from guard.errors import UpstreamProtocolError
from guard.upstream.base import PassageAnswer
from guard.wire.encodings import UndecodableError, decoder

PLAIN: Final = ("accept-encoding", "identity")  # what is asked for; without it a server may choose
MAX_ERROR_BYTES: Final = 64 * 1024
ERROR_BODY_S: Final = 2.0
TURN_S: Final = 0.002  # of work, until others have their turn


class Turns:
    """Gives way to others now and then, in front of everything that reads what a server sent."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._since = self._clock()

    async def give_way(self) -> None:
        """Let others have their turn, if it is time."""
        now = self._clock()
        if now - self._since > TURN_S:
            await asyncio.sleep(0)
            self._since = self._clock()


def decoding(headers: Mapping[str, str]) -> Callable[[bytes], Iterator[bytes]]:
    """Give what undoes the encoding of an answer, which may not be the one that was asked for.

    In small pieces: whoever has enough stops, however much there would be. Raises `UpstreamProtocolError`,
    and so does what is given.
    """
    coding = headers.get("content-encoding", "").strip().lower()
    try:
        decode = decoder(coding)
    except UndecodableError:
        raise UpstreamProtocolError("the answer is compressed in a way that cannot be undone") from None
    return decode if coding in {"", "identity"} else _named(decode)


def _named(decode: Callable[[bytes], Iterator[bytes]]) -> Callable[[bytes], Iterator[bytes]]:
    def named(data: bytes) -> Iterator[bytes]:
        try:
            yield from decode(data)
        except UndecodableError:
            raise UpstreamProtocolError("the answer is not compressed as it says") from None

    return named


async def beginning(response: aiohttp.ClientResponse) -> bytes:
    """Give the body of an error answer up to a limit, or what there is of it: the status matters more."""
    body = b""
    try:
        decode = decoding(response.headers)
        async with asyncio.timeout(ERROR_BODY_S):
            while len(body) < MAX_ERROR_BYTES and (data := await response.content.readany()):
                for plain in decode(data):
                    body += plain
                    if len(body) >= MAX_ERROR_BYTES:
                        break
    except (aiohttp.ClientError, OSError, UpstreamProtocolError):
        pass
    return body[:MAX_ERROR_BYTES]


async def whole(answer: PassageAnswer, limit: int) -> bytes:
    """Give the body of an answer to a question of ours, decoded and at most so many bytes of it.

    Raises `UpstreamError`.
    """
    body, turns = bytearray(), Turns()
    decode = decoding({name.lower(): value for name, value in answer.headers})
    async for data in answer.body:
        for plain in decode(data):
            body += plain
            if len(body) >= limit:
                return bytes(body[:limit])
            await turns.give_way()
    return bytes(body)


class Farewell:
    """How the connection of an answer ended, where that is the answer's end.

    An answer without a length that is not chunked is over when its connection is; aiohttp takes a reset for
    such an end, too.
    """

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        headers = response.headers
        ends = "content-length" not in headers and "chunked" not in headers.get("transfer-encoding", "")
        connection = response.connection if ends else None
        protocol = None if connection is None else connection.protocol
        self._closed = None if protocol is None else protocol.closed
        if self._closed is not None:
            self._closed.add_done_callback(_taken_note_of)

    def check(self) -> None:
        """Raise `UpstreamProtocolError` where it was reset."""
        closed = self._closed
        if closed is not None and closed.done() and not closed.cancelled() and closed.exception() is not None:
            raise UpstreamProtocolError("the connection broke off in the middle of the answer")


def _taken_note_of(closed: asyncio.Future[None]) -> None:
    """Nobody else asks for it, which asyncio would complain about."""
    if not closed.cancelled():
        closed.exception()

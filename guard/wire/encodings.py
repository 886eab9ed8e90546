"""Bodies that were compressed on the way: what can be undone, within a limit, and what cannot."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Final

PIECE: Final = 16 * 1024  # bytes that are given at once
READABLE: Final = frozenset({"", "identity", "gzip", "x-gzip", "deflate"})

_ANY: Final = 32 + zlib.MAX_WBITS  # gzip or zlib, whichever it is
_RAW: Final = -zlib.MAX_WBITS  # what some servers send as `deflate`


class UndecodableError(Exception):
    """The bytes are not in the encoding that they are said to be in."""


def decoded(pieces: Iterable[bytes], coding: str) -> Iterator[bytes]:
    """Give a body as it was before it was encoded, in small pieces; whoever has enough stops listening.

    `coding` is one of `READABLE`. Raises `UndecodableError`, behind the pieces that were good. A body that
    breaks off gives what was there.
    """
    if coding in {"", "identity"}:
        for data in pieces:
            for at in range(0, len(data), PIECE):
                yield data[at : at + PIECE]
        return
    inflater = _Inflater(raw_allowed=coding == "deflate")
    for data in pieces:
        yield from inflater.feed(data)


class _Inflater:
    """Inflates piece by piece; members of a gzip file follow each other."""

    def __init__(self, *, raw_allowed: bool) -> None:
        self._raw_allowed = raw_allowed
        self._stream = zlib.decompressobj(_ANY)
        self._fresh = True  # nothing of this member was read

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._stream.eof:
                self._stream, self._fresh = zlib.decompressobj(_ANY), True
            out = self._inflate(data)
            data = self._stream.unconsumed_tail or self._stream.unused_data
            if out:
                yield out

    def _inflate(self, data: bytes) -> bytes:
        fresh, self._fresh = self._fresh, False
        try:
            return self._stream.decompress(data, PIECE)
        except zlib.error as error:
            if not (fresh and self._raw_allowed):
                raise UndecodableError(str(error)) from None
        self._raw_allowed, self._stream = False, zlib.decompressobj(_RAW)
        return self._inflate(data)

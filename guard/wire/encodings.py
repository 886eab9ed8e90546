"""Bodies that were compressed on the way: what can be undone, within a limit, and what cannot."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

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
    decode = decoder(coding)
    for data in pieces:
        yield from decode(data)


def decoder(coding: str) -> Callable[[bytes], Iterator[bytes]]:
    """Give what undoes an encoding piece by piece, as `decoded` does.

    Raises `UndecodableError` for one that is not `READABLE`, and so does what is given, where bytes are not
    in that encoding.
    """
    if coding not in READABLE:
        raise UndecodableError(f"unknown encoding {coding[:40]!r}")
    return _cut if coding in {"", "identity"} else _Inflater(raw_allowed=coding == "deflate").feed


def _cut(data: bytes) -> Iterator[bytes]:
    yield from (data[at : at + PIECE] for at in range(0, len(data), PIECE))


class _Inflater:
    """Inflates piece by piece; members of a gzip file follow each other."""

    def __init__(self, *, raw_allowed: bool) -> None:
        self._raw_allowed = raw_allowed
        self._head = b""  # of what came: two bytes tell what it is
        self._stream: Any = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._stream is None:
            data = self._head = self._head + data
            if len(data) < 2:
                return
            self._stream = zlib.decompressobj(_RAW if self._raw_allowed and not _is_zlib(data) else _ANY)
        while data:
            if self._stream.eof:
                self._stream = zlib.decompressobj(_ANY)
            try:
                out = self._stream.decompress(data, PIECE)
            except zlib.error as error:
                raise UndecodableError(str(error)) from None
            data = self._stream.unconsumed_tail or self._stream.unused_data
            if out:
                yield out


def _is_zlib(data: bytes) -> bool:
    """Whether data begins as zlib or gzip have it."""
    method = data[0] & 0x0F
    return data[:2] == b"\x1f\x8b" or (method == zlib.DEFLATED and (data[0] << 8 | data[1]) % 31 == 0)

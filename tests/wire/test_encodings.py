"""What was compressed on the way is read, however it is cut, and never more of it than is listened to."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.wire.encodings import PIECE, UndecodableError, decoded

TEXT = b"so many words, " * 400


def cut(data: bytes, places: list[int]) -> list[bytes]:
    at = sorted({place % (len(data) + 1) for place in places})
    return [data[start:end] for start, end in zip([0, *at], [*at, len(data)], strict=True)]


def raw(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


ENCODERS: dict[tuple[str, str], Callable[[bytes], bytes]] = {
    ("gzip", "once"): gzip.compress,
    ("gzip", "twice"): lambda data: gzip.compress(data[:7]) + gzip.compress(data[7:]),
    ("x-gzip", "once"): gzip.compress,
    ("deflate", "zlib"): zlib.compress,
    ("deflate", "raw"): raw,
    ("identity", "once"): bytes,
    ("", "once"): bytes,
}


@pytest.mark.parametrize("encoder", ENCODERS)
@given(data=st.binary(max_size=200) | st.just(TEXT * 9), places=st.lists(st.integers(0, 10_000), max_size=6))
def test_what_was_encoded_comes_back(encoder: tuple[str, str], data: bytes, places: list[int]) -> None:
    pieces = list(decoded(cut(ENCODERS[encoder](data), places), encoder[0]))
    assert b"".join(pieces) == data
    assert all(len(piece) <= PIECE for piece in pieces)


def test_a_body_that_breaks_off_gives_what_was_there() -> None:
    whole = gzip.compress(TEXT, compresslevel=0)
    assert TEXT.startswith(b"".join(decoded([whole[:2_000]], "gzip")))
    assert len(b"".join(decoded([whole[:2_000]], "gzip"))) > 1_500


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@given(st.binary(max_size=99))
def test_other_bytes_raise_nothing_else(coding: str, data: bytes) -> None:
    try:
        for _ in decoded([data], coding):
            pass
    except UndecodableError:
        pass


def test_a_bomb_is_inflated_only_as_far_as_somebody_listens() -> None:
    bomb = gzip.compress(bytes(100_000_000))
    assert sum(map(len, islice(decoded([bomb], "gzip"), 10))) == 10 * PIECE

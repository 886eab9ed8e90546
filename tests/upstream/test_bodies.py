"""Answers as servers send them: compressed though nobody asked for that, or ended by a connection that breaks."""

from __future__ import annotations

import gzip
import socket
import struct
import zlib

import pytest

from guard.errors import UpstreamError, UpstreamProtocolError, UpstreamStatusError
from guard.run.messages import Ended
from guard.upstream.base import Passage
from tests.upstream.servers import (
    DONE,
    Call,
    Connection,
    answered,
    answers,
    chunked,
    connected,
    fault,
    head,
    run,
    said,
    serving,
    text_in,
    whole,
)

EVENTS = said("1 a = ") + said("3\n") + said(None, "stop") + DONE


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("coding", "pack"),
    [("gzip", gzip.compress), ("GZIP", gzip.compress), ("deflate", zlib.compress), ("deflate", raw_deflate)],
)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_an_answer_that_is_compressed_is_read_all_the_same(coding: str, pack: object, size: int) -> None:
    packed = pack(EVENTS)  # type: ignore[operator]
    pieces = [chunked(packed[at : at + size]) for at in range(0, len(packed), size)]
    pieces_heard = answered(
        answers(
            head("200 OK", f"Content-Encoding: {coding}", "Transfer-Encoding: chunked"), *pieces, b"0\r\n\r\n"
        )
    )
    assert text_in(pieces_heard) == "1 a = 3\n"
    assert isinstance(pieces_heard[-1], Ended)


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip"])
def test_what_cannot_be_undone_is_named(coding: str) -> None:
    error = fault(answers(whole("200 OK", b"\x1b\x00", f"Content-Encoding: {coding}")))
    assert isinstance(error, UpstreamProtocolError)
    assert "compressed in a way that cannot be undone" in error.message


def test_what_is_not_compressed_as_it_says_is_named() -> None:
    error = fault(answers(whole("200 OK", b"{}", "Content-Encoding: gzip")))
    assert "not compressed as it says" in error.message


def test_a_little_that_unpacks_to_very_much_is_bounded() -> None:
    bomb = gzip.compress(b'{"a": "' + b" " * 200_000_000, 9)
    error = fault(answers(whole("200 OK", bomb, "Content-Encoding: gzip")))
    assert "longer than 2097152 bytes" in error.message


def test_an_error_may_be_compressed() -> None:
    body = gzip.compress(b'{"error": {"message": "no", "code": "context_length_exceeded"}}')
    error = fault(answers(whole("400 Bad", body, "Content-Encoding: gzip")))
    assert isinstance(error, UpstreamStatusError)
    assert error.said.code == "context_length_exceeded"


@pytest.mark.parametrize("reset", [False, True])
def test_a_passage_that_ends_with_its_connection_is_whole_only_if_that_was_closed(reset: bool) -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        connection.writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nhalf")
        await connection.writer.drain()
        if reset:
            raw = connection.writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.writer.transport.abort() if reset else connection.writer.close()

    async def body() -> bytes:
        passage = Passage(method="GET", path="/files/x", headers=(), body=b"")
        async with (
            serving(behave) as server,
            connected(server) as upstream,
            upstream.forward(passage, client=Call()) as answer,
        ):
            return b"".join([data async for data in answer.body])

    if reset:
        with pytest.raises(UpstreamError, match="broke"):
            run(body())
    else:
        assert run(body()) == b"half"

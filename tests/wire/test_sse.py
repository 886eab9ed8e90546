"""Server-sent events: what is one event must not depend on how it travelled."""

from __future__ import annotations

from itertools import pairwise
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.wire import sse

STREAM = (
    b"\xef\xbb\xbf: hello\n\n"
    b'data: {"a": 1}\n\n'
    b"data:tight\n\n"
    b"event: error\ndata: two\ndata: lines\nid: 7\n\n"
    b"retry: 10\n\n"
    b"\n\n"
    b"data\n\n"
    b"data: gr\xc3\xbc\xc3\x9fe\n\n"
    b"data:  spaced \n\n"
    b"data: [DONE]\n\n"
)
EVENTS = [b'{"a": 1}', b"tight", b"two\nlines", b"", b"gr\xc3\xbc\xc3\x9fe", b" spaced ", b"[DONE]"]
ENDS = (b"\n", b"\r\n", b"\r")


def decoded(pieces: list[bytes]) -> list[bytes]:
    decoder = sse.Decoder()
    return [event for piece in pieces for event in decoder.feed(piece)] + decoder.close()


@pytest.mark.parametrize("end", ENDS)
def test_events_are_read_whatever_ends_a_line(end: bytes) -> None:
    assert decoded([STREAM.replace(b"\n", end)]) == EVENTS


@pytest.mark.parametrize("end", ENDS)
def test_a_split_anywhere_is_invisible(end: bytes) -> None:
    stream = STREAM.replace(b"\n", end)
    for at in range(len(stream)):
        assert decoded([stream[:at], stream[at:]]) == EVENTS, at


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r")).map(str.encode), min_size=1),
    st.sampled_from(ENDS),
    st.lists(st.integers(0, 2000)),
)
def test_what_is_encoded_is_decoded_in_any_pieces(events: list[bytes], end: bytes, cuts: list[int]) -> None:
    stream = b"".join(sse.encode(event) for event in events).replace(b"\n", end)
    bounds = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[start:stop] for start, stop in pairwise(bounds)]
    assert decoded(pieces) == events


@given(st.lists(st.binary()))
def test_arbitrary_bytes_are_no_reason_to_raise(pieces: list[bytes]) -> None:
    decoded(pieces)


@pytest.mark.parametrize(
    ("rest", "events", "cut"),
    [
        (b"data: whole line\n", [b"whole line"], False),
        (b"data: whole line\r", [b"whole line"], False),
        (b"data: [DONE]", [b"[DONE]"], False),
        (b'data: {"broken', [], True),
        (b"da", [], True),
        (b": comm\n", [], False),
        (b"\n", [], False),
        (b"", [], False),
    ],
)
def test_a_stream_that_ends_without_a_blank_line(rest: bytes, events: list[bytes], cut: bool) -> None:
    decoder = sse.Decoder()
    assert decoder.feed(b"data: first\n\n" + rest) == [b"first"]
    assert decoder.close() == events
    assert decoder.cut is cut


def test_a_line_that_never_ends_is_not_kept_for_ever() -> None:
    decoder = sse.Decoder()
    given_up = 0
    for _ in range(40):
        assert decoder.feed(b"x" * 65536) == []
        given_up += decoder.overflowed
    assert given_up
    assert decoder.feed(b"\n\ndata: late\n\n") == []


@pytest.mark.parametrize("end", ENDS)
def test_an_event_in_many_small_reads_costs_its_length(end: bytes) -> None:
    def spent(size: int) -> float:
        line = b"x" * 62 + end
        pieces = [b"data: ", *[line] * (size // len(line)), end, end]
        before = process_time()
        assert len(decoded(pieces)) == 1
        return process_time() - before

    # Where each read goes over all that came before, twice as much takes four times as long: here, seconds.
    assert min(spent(500_000) for _ in range(3)) < 1


def test_a_comment_is_skipped() -> None:
    assert decoded([sse.comment("keep-alive"), sse.encode(b"x")]) == [b"x"]

"""Answers that are no plain text: a trace as the input of a tool, or as the members of an object."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.errors import UpstreamBusy
from guard.run.messages import Text
from guard.upstream.reading import MAX_SILENT_BYTES, MAX_SILENT_EVENTS, AnswerReader
from tests.upstream.servers import DONE, USAGE, event, said

LINES = "1 a = 3 + 4 = 7\n2 b = 7 * 2 = 14\n"
OBJECT = '{"1 a = 3 + 4 = ": "7", "2 b = 7 * 2 = ": "14"}'


def chunk(finish_reason: str | None = None, **delta: object) -> bytes:
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})


def called(text: str, *, index: int = 0, first: bool = False) -> bytes:
    """One delta of a custom tool's call; those behind the first repeat nothing."""
    custom = {"name": "trace" if first else None, "input": text}
    call: dict[str, Any] = {"index": index, "id": None, "type": None, "custom": custom}
    return chunk(tool_calls=[call | ({"id": "call_1", "type": "custom"} if first else {})])


def read(*events: bytes, **settings: Any) -> tuple[list[str], AnswerReader]:
    reader = AnswerReader(**settings)
    texts: list[Text] = []
    for one in events:
        texts += reader.feed(one)
    texts += reader.close()
    assert reader.fault is None
    return [text.text for text in texts if text.text], reader


@pytest.mark.parametrize("finish_reason", ["tool_calls", "stop"])
def test_the_input_of_a_tool_is_what_the_model_says_and_ends_as_a_text_does(finish_reason: str) -> None:
    start = chunk(role="assistant", content=None, refusal=None)
    pieces = [called("", first=True), called("1 a = 3"), called(" + 4 = 7\n")]
    texts, reader = read(start, *pieces, chunk(finish_reason), USAGE, DONE)
    assert texts == ["1 a = 3", " + 4 = 7\n"]
    ended = reader.ended()
    assert ended.finish_reason == "stop"
    assert ended.usage is not None
    assert (ended.usage.completion, ended.usage.estimated) == (3, False)


@pytest.mark.parametrize("settings", [{"members": True, "required": 2}, {"tool": True}])
@pytest.mark.parametrize(("text", "strayed"), [(None, False), ("", False), ("No.", True)])
def test_an_answer_without_any_text_has_not_strayed(
    settings: dict[str, Any], text: str | None, strayed: bool
) -> None:
    _, reader = read(chunk(content=text, refusal="I cannot."), chunk("stop"), DONE, **settings)
    assert reader.ended().strayed is strayed


def test_a_call_that_was_cut_off_is_no_end() -> None:
    _, reader = read(called("1 a", first=True), chunk("length"), DONE)
    assert reader.ended().finish_reason == "length"


def test_a_call_of_another_kind_is_no_text_and_no_end_of_one() -> None:
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    texts, reader = read(chunk(tool_calls=[call]), chunk("tool_calls"), DONE)
    assert texts == []
    assert reader.ended().finish_reason == "tool_calls"


def test_what_is_said_in_front_of_a_call_or_in_another_one_stands_on_a_line_of_its_own() -> None:
    texts, _ = read(said("Well."), called("1 a", first=True), called("\n"), called("2 b", index=1), DONE)
    assert "".join(texts) == "Well.\n1 a\n2 b"


def test_an_answer_in_one_piece_has_its_call_in_the_message() -> None:
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "custom", "custom": {"name": "trace", "input": LINES}}],
    }
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    texts, reader = read(json.dumps(body).encode())
    assert texts == [LINES]
    assert reader.ended().finish_reason == "stop"


def test_the_tokens_of_a_call_are_counted() -> None:
    texts, reader = read(*[called("x" * 8)] * 5, DONE)
    assert len(texts) == 5
    ended = reader.ended()
    assert ended.usage is not None
    assert (ended.usage.completion, ended.usage.estimated) == (10, True)


@given(st.integers(1, 60))
def test_members_are_lines_however_they_travel(size: int) -> None:
    events = [said(OBJECT[at : at + size]) for at in range(0, len(OBJECT), size)]
    texts, reader = read(*events, said("", "stop"), DONE, members=True)
    assert "".join(texts) == LINES
    assert reader.ended().finish_reason == "stop"


def test_members_in_an_answer_in_one_piece_are_lines() -> None:
    message = {"role": "assistant", "content": OBJECT}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    texts, _ = read(json.dumps(body).encode(), members=True)
    assert texts == [LINES]


@pytest.mark.parametrize("end", [OBJECT.index("3 + 4"), OBJECT.index("14"), OBJECT.index("14") + 2])
def test_an_object_that_ends_within_a_member_was_cut_off_whatever_the_server_says(end: int) -> None:
    texts, reader = read(said(OBJECT[:end]), said("", "stop"), DONE, members=True)
    assert LINES.startswith("".join(texts))
    assert reader.ended().finish_reason == "length"


def test_blanks_between_members_are_no_text_and_cost_their_tokens() -> None:
    reader = AnswerReader(members=True)
    texts = [text for piece in ("{", *["\n" * 8] * 5) for text in reader.feed(said(piece))]
    assert {text.text for text in texts} == {""}
    assert sum(text.tokens for text in texts) == 11


def test_without_members_an_object_is_a_text_like_any_other() -> None:
    texts, _ = read(said(OBJECT), said("", "stop"), DONE)
    assert texts == [OBJECT]


@given(st.text(st.sampled_from("a😀é\n\U0001f9ee"), min_size=1, max_size=8), st.data())
def test_a_character_that_is_split_over_two_deltas_is_whole(text: str, data: st.DataObject) -> None:
    raw = text.encode("utf-16-le")
    halves = [chr(raw[at] | raw[at + 1] << 8) for at in range(0, len(raw), 2)]
    pieces = [chunk(content=half, reasoning_content=half) for half in halves]
    texts, reader = read(*pieces, chunk("stop"), DONE)
    assert "".join(texts) == text
    assert reader.ended().finish_reason == "stop"


@pytest.mark.parametrize(
    "event_of",
    [
        b'data: {"choices":[{"index":0,"delta":{"content":"1 a\\ud800"},"finish_reason":null}]}\n\n',
        b'data: {"odd":"\\udc00","choices":[{"index":0,"delta":{"content":"1 a"},"finish_reason":null}]}\n\n',
        b'data: {"odd":"\xff\xfe","choices":[{"index":0,"delta":{"content":"1 a"},"finish_reason":null}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"1 a\xed\xa0\xbd"},"finish_reason":null}]}\n\n',
    ],
)
def test_one_character_outside_unicode_spoils_nothing_else(event_of: bytes) -> None:
    texts, _ = read(event_of, chunk("stop"), DONE)
    assert "".join(texts).rstrip("\N{REPLACEMENT CHARACTER}") == "1 a"


SILENT = (
    *(
        b"data:\n\n",
        b"data: null\n\n",
        b"data: {}\n\n",
        b'event: ping\ndata: {"type":"ping"}\n\n',
        b": x\n\n",
    ),
    *(b'data: {"id":"x"}\n\n', b'data: {"choices":[null]}\n\n', b'data: {"choices":[]}\n\n', b"data: 7\n\n"),
    *(b'data: "wait"\n\n', b'data: {"choices":{"a":1}}\n\n', b"event: ping\n\n"),
)


@given(st.lists(st.sampled_from(SILENT), max_size=6), st.sampled_from([DONE, b"data: [DONE] \n\n", b""]))
def test_what_says_nothing_is_passed_over(silent: list[bytes], last: bytes) -> None:
    texts, reader = read(*silent, chunk(content="1 a"), *silent, chunk("stop"), *silent, last)
    assert texts == ["1 a"]
    assert reader.ended().finish_reason == "stop"


def test_what_says_nothing_without_end_is_a_fault() -> None:
    reader = AnswerReader()
    for _ in range(MAX_SILENT_EVENTS // 1000 + 2):
        reader.feed(b"data: {}\n\n" * 1000)
    assert reader.fault is not None
    comments = AnswerReader()
    for _ in range(MAX_SILENT_BYTES // 65_536 + 2):
        comments.feed(b": " + b"x" * 65_532 + b"\n\n")
    assert comments.fault is not None


@pytest.mark.parametrize(
    "reasons", [("length", "stop"), ("stop", "length"), ("stop", "abort"), ("error", "stop")]
)
def test_of_two_reasons_the_worse_one_counts(reasons: tuple[str, str]) -> None:
    reader = AnswerReader()
    for one in (chunk(content="1 a = 3"), *map(chunk, reasons), DONE):
        reader.feed(one)
    reader.close()
    if "length" in reasons:
        assert reader.ended().finish_reason == "length"
    else:
        assert isinstance(reader.fault, UpstreamBusy)
        assert reader.fault.retryable


@pytest.mark.parametrize("whole", [False, True])
def test_a_call_of_another_tool_is_no_part_of_the_trace(whole: bool) -> None:
    other = {"index": 0, "id": "call_0", "type": "custom", "custom": {"name": "search", "input": "9 x = 1\n"}}
    ours = {"index": 0, "id": "call_1", "type": "custom", "custom": {"name": "trace", "input": "1 a = 3\n"}}
    more = {"index": 0, "id": None, "type": None, "custom": {"name": None, "input": "2 b = 4\n"}}
    if whole:
        calls = [other | {"index": 0}, ours | {"index": 1}, more | {"index": 1}]
        events = [chunk(tool_calls=calls)]
    else:
        events = [chunk(tool_calls=[other]), chunk(tool_calls=[ours]), chunk(tool_calls=[more])]
    texts, reader = read(*events, chunk("tool_calls"), DONE, tool=True)
    assert "".join(texts) == "1 a = 3\n2 b = 4\n"
    assert reader.ended().strayed


@pytest.mark.parametrize("text", ["1 a = 3", "1 a = 3\n"])
def test_calls_with_the_same_number_are_told_apart_by_their_names_for_them(text: str) -> None:
    calls = [
        {"index": 0, "id": name, "type": "custom", "custom": {"name": "trace", "input": text}}
        for name in "xyy"
    ]
    texts, _ = read(*(chunk(tool_calls=[call]) for call in calls), chunk("tool_calls"), DONE, tool=True)
    assert "".join(texts) == f"{text.rstrip()}\n{text}{text}"

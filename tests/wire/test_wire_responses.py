"""What the events of the Responses API say, and what is no such event."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseError

from guard.foreign import Foreign, Said
from guard.wire.chat import SILENT, Call, InBandError, Piece
from guard.wire.responses import THOUGHTS, Events
from tests.upstream.responding import Answer, models


def pieces_of(events: list[bytes], reader: Events | None = None) -> list[Piece]:
    reader = reader or Events()
    read = [reader.read(event.partition(b"data: ")[2]) for event in events]
    assert all(isinstance(piece, Piece) for piece in read)
    return [piece for piece in read if isinstance(piece, Piece)]


def error_of(event: bytes | dict[str, Any]) -> InBandError:
    data = json.dumps(event).encode() if isinstance(event, dict) else event.partition(b"data: ")[2]
    error = Events().read(data)
    assert isinstance(error, InBandError)
    return error


def text_in(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def test_what_is_said_written_and_thought_is_kept_apart() -> None:
    answer = Answer()
    events = [
        *answer.start(),
        *answer.summary(["I ", "add."]),
        *answer.thoughts(["2 + 3"]),
        *answer.text(["Here:"]),
        *answer.tool(["1 a", " = 3\n"]),
        *answer.end(),
    ]
    pieces = pieces_of(events)
    assert "".join(piece.thought for piece in pieces) == "I add.2 + 3"
    assert text_in(pieces) == "Here:"
    assert [each for piece in pieces for each in piece.inputs] == [
        Call(3, text, "ctc_3", "trace") for text in ("1 a", " = 3\n")
    ]
    last = pieces[-1]
    assert last.finish_reason == "stop"
    assert last.usage is not None
    assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (400, 90)
    assert last.usage.reasoning_tokens == 64
    assert [piece.finish_reason for piece in pieces[:-1]] == [None] * (len(pieces) - 1)


@pytest.mark.parametrize("finish_reason", ["stop", "length", "content_filter"])
def test_the_end_is_told_as_a_chat_completion_would(finish_reason: str) -> None:
    answer = Answer()
    answer.text(["7"])
    [streamed] = pieces_of(answer.end(finish_reason))
    whole = Events().read(json.dumps(answer.ended(finish_reason)).encode())
    assert isinstance(whole, Piece)
    assert streamed.finish_reason == whole.finish_reason == finish_reason
    assert streamed.text == whole.text == "7"


@pytest.mark.parametrize("reason", [None, {"reason": None}, {"reason": "steered"}, {"reason": 7}, "?"])
def test_whatever_left_an_answer_incomplete_it_was_cut(reason: object) -> None:
    response = Answer().response("incomplete") | {"incomplete_details": reason}
    [piece] = pieces_of(
        [b"data: " + json.dumps({"type": "response.incomplete", "response": response}).encode()]
    )
    assert piece.finish_reason == "length"


@pytest.mark.parametrize("status", ["queued", "in_progress", "cancelled", None, 7])
def test_a_response_that_has_not_ended_has_no_end(status: object) -> None:
    response = Answer().response("in_progress") | {"status": status}
    piece = Events().read(json.dumps(response).encode())
    assert isinstance(piece, Piece)
    assert piece.finish_reason is None


def test_a_response_in_one_piece_says_it_all() -> None:
    answer = Answer()
    answer.summary(["I add."])
    answer.text(["Here:"])
    answer.tool(["1 a = 3\n"])
    piece = Events().read(json.dumps(answer.ended()).encode())
    assert isinstance(piece, Piece)
    assert (piece.text, piece.thought, piece.inputs) == (
        "Here:",
        "I add.",
        (Call(2, "1 a = 3\n", "ctc_2", "trace"),),
    )


def test_what_only_the_last_event_tells_is_read_there_and_what_was_told_is_not_read_again() -> None:
    answer = Answer()
    told = [*answer.summary(["I add."]), *answer.tool(["1 a = 3\n"])]
    [last] = pieces_of(answer.end())
    assert (last.thought, last.inputs) == ("I add.", (Call(1, "1 a = 3\n", "ctc_1", "trace"),))
    *_, last = pieces_of([*told, *answer.end()])
    assert (last.thought, last.inputs, last.text) == ("", (), "")
    *_, last = pieces_of([*told[:3], *answer.end()])  # the thoughts alone
    assert (last.thought, last.inputs) == ("", (Call(1, "1 a = 3\n", "ctc_1", "trace"),))


@pytest.mark.parametrize("first", ["Let me see.", "Let me see.\n"])
def test_each_part_of_a_message_begins_on_a_line_of_its_own(first: str) -> None:
    answer = Answer()
    told = [*answer.text([first]), *answer.text(["1 a", " = 3\n"])]
    assert text_in(pieces_of([*told, *answer.end()])) == "Let me see.\n1 a = 3\n"
    assert text_in(pieces_of(answer.end())) == "Let me see.\n1 a = 3\n"


def test_a_refusal_is_no_text() -> None:
    answer = Answer()
    assert text_in(pieces_of([*answer.start(), *answer.refusal(["I ", "cannot."]), *answer.end()])) == ""


def test_which_deltas_are_thoughts_can_be_said() -> None:
    musing = b'data: {"type": "response.musing.delta", "delta": "hm"}'
    assert [piece.thought for piece in pieces_of([musing])] == [""]
    assert [piece.thought for piece in pieces_of([musing], Events(("musing",)))] == ["hm"]


def test_events_that_nobody_knows_say_nothing() -> None:
    known = {"error", "response.completed", "response.incomplete", "response.failed"}
    known |= {f"response.{name}.delta" for name in ("output_text", "custom_tool_call_input", *THOUGHTS)}
    for kind in {*models(), "response.telepathy.delta", "keepalive"} - known:
        event = {"type": kind, "sequence_number": 1, "delta": "x", "text": "x", "response": None}
        assert Events().read(json.dumps(event).encode()) == Piece("", "", None, None)


@pytest.mark.parametrize(
    "data",
    [
        b"7",
        b"null",
        b"[]",
        b"{}",
        b'{"type": 7}',
        b'{"type": "response.output_text.delta"}',
        b'{"type": "response.output_text.delta", "delta": null}',
        b'{"type": "response.custom_tool_call_input.delta", "delta": 7}',
        b'{"type": "response.reasoning_text.delta", "delta": []}',
        b'{"object": "chat.completion.chunk", "choices": []}',
    ],
)
def test_what_is_no_event_says_nothing(data: bytes) -> None:
    assert Events().read(data) == SILENT


@pytest.mark.parametrize("data", [b"", b"{", b'{"type": "response.completed"', b"Hello"])
def test_what_is_no_json_is_told_apart(data: bytes) -> None:
    assert Events().read(data) is None


@pytest.mark.parametrize(
    ("event", "finish_reason"),
    [
        ({"type": "response.completed"}, "stop"),
        ({"type": "response.completed", "response": {"status": None}}, "stop"),
        ({"type": "response.completed", "response": {"status": "incomplete"}}, "length"),
        ({"type": "response.completed", "response": {"status": "in_progress"}}, None),
        ({"type": "response.completed", "response": {"incomplete_details": {"reason": "odd"}}}, "length"),
        ({"type": "response.completed", "response": {"output": [{"status": "incomplete"}]}}, "length"),
        ({"type": "response.incomplete", "response": {"status": "completed"}}, "length"),
        ({"type": "response.incomplete", "response": 7}, "length"),
    ],
)
def test_of_an_event_and_its_response_the_worse_one_says_how_it_ended(
    event: dict[str, Any], finish_reason: str | None
) -> None:
    piece = Events().read(json.dumps(event).encode())
    assert isinstance(piece, Piece)
    assert piece.finish_reason == finish_reason


def test_a_failure_without_a_response_is_one() -> None:
    assert error_of({"type": "response.failed", "response": 7}) == InBandError(Said.of(""), None)


def test_a_failure_is_told_with_the_status_that_it_would_have() -> None:
    codes = get_args(ResponseError.model_fields["code"].annotation)
    statuses = {}
    for code in codes:
        [event] = Answer().failed(code, "No.")
        error = error_of(event)
        assert error.said == Said.of("No.", code=code)
        statuses[code] = error.status
    passing = {"server_error": 500, "rate_limit_exceeded": 429, "vector_store_timeout": 504}
    assert statuses == dict.fromkeys(codes, 400) | passing


@pytest.mark.parametrize(
    ("event", "message", "status"),
    [
        ({"type": "error", "code": "server_error", "message": "No."}, "No.", 500),
        ({"type": "error", "code": None, "message": "No."}, "No.", None),
        ({"type": "error", "code": "odd", "message": ""}, "", None),
        ({"type": "error", "code": 503, "message": "No."}, "No.", 503),
        ({"type": "error", "code": 7, "message": None}, "", None),
        (
            {"type": "error", "error": {"type": "invalid_request_error", "code": None, "message": "No."}},
            "No.",
            400,
        ),
        ({"error": {"message": "No.", "code": 401}}, "No.", 401),
        ({"error": {"message": "No.", "status": 503, "code": "odd"}}, "No.", 503),
        (
            {"error": {"message": "No.", "code": "rate_limit_exceeded"}},
            "No.",
            429,
        ),
        ({"error": "No."}, "No.", None),
        ({"code": 400, "message": "No.", "type": "invalid_request_error"}, "No.", 400),
        ({"error": {"message": "No.", "code": "400"}}, "No.", 400),
        ({"type": "response.failed", "response": {"status": "failed"}}, "", None),
        ({"object": "response", "status": "failed", "error": {"message": "No."}}, "No.", None),
    ],
)
def test_errors_come_in_several_shapes(event: dict[str, Any], message: str, status: int | None) -> None:
    error = error_of(event)
    assert (error.said.text, error.status) == (Foreign(message), status)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["message", "input"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "content", "input", "reason", "x"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(
    st.sampled_from([*models(), "?", None, 7]),
    st.dictionaries(
        st.sampled_from(
            [
                "delta",
                "response",
                "object",
                "status",
                "output",
                "usage",
                "error",
                "incomplete_details",
                "code",
            ]
        ),
        JSON | st.dictionaries(st.sampled_from(["status", "output", "usage", "error"]), JSON, max_size=4),
        max_size=5,
    ),
)
def test_whatever_comes_reading_does_not_fail(kind: object, members: dict[str, Any]) -> None:
    read = Events().read(json.dumps({"type": kind, **members}).encode())
    assert read is None or isinstance(read, Piece | InBandError)
    whole = Events().read(json.dumps({"object": "response", **members}).encode())
    assert whole is None or isinstance(whole, Piece | InBandError)

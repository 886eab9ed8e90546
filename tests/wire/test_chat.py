"""Chat requests and answers on the wire."""

from __future__ import annotations

import gzip
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.errors import RequestError
from guard.foreign import Said
from guard.wire.body import Written
from guard.wire.chat import (
    SILENT,
    Call,
    Envelope,
    InBandError,
    Piece,
    parse_request,
    read_any_piece,
    read_error,
    read_piece,
    read_usual_piece,
    text_of,
)
from guard.wire.lenient import NOT_JSON, read_json
from guard.wire.responses import Events

ASK = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


def body(**changes: Any) -> bytes:
    return json.dumps(ASK | changes).encode()


def refused(data: bytes) -> RequestError:
    with pytest.raises(RequestError) as caught:
        parse_request(data)
    assert caught.value.http_status == 400
    return caught.value


def test_unknown_fields_survive() -> None:
    request = parse_request(body(user="ann", top_k=5, reasoning={"effort": "low"}))
    assert request.model_extra == {"user": "ann", "top_k": 5, "reasoning": {"effort": "low"}}


def test_messages_come_through_as_they_are() -> None:
    messages = [
        {"role": "system", "content": "Be brief.", "name": "s"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": "x"}}],
        },
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "tool_call_id": "1", "content": "4"},
    ]
    assert parse_request(body(messages=messages)).messages == messages


@pytest.mark.parametrize(
    ("fields", "budget"),
    [
        ({}, None),
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 7}, 7),
        ({"max_tokens": 5, "max_completion_tokens": 7}, 5),
        ({"max_tokens": None}, None),
    ],
)
def test_the_smaller_of_the_two_limits_is_the_budget(fields: dict[str, Any], budget: int | None) -> None:
    assert parse_request(body(**fields)).budget == budget


def test_a_client_says_whether_it_wants_the_usage() -> None:
    assert parse_request(body(stream_options={"include_usage": True, "x": 1})).wants_usage
    assert not parse_request(body(stream_options=None)).wants_usage


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": None}, "model"),
        ({"model": 5}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": "Hello"}, "messages"),
        ({"messages": ["Hello"]}, "messages.0"),
        ({"messages": [{"content": "x"}]}, "messages"),
        ({"messages": [{"role": 1, "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user", "content": {"text": "x"}}]}, "messages"),
        ({"stream": "yes"}, "stream"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_completion_tokens": 1.5}, "max_completion_tokens"),
        ({"temperature": 3}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": -1}, "top_p"),
        ({"seed": "x"}, "seed"),
        ({"stepguard": "invoice"}, "stepguard"),
        ({"stepguard": {"procedur": "invoice"}}, "stepguard.procedur"),
        ({"stepguard": {"procedure": "p", "inputs": [1]}}, "stepguard.inputs"),
        ({"stepguard": {"content": "all"}}, "stepguard.content"),
    ],
)
def test_the_field_that_is_wrong_is_named(fields: dict[str, Any], param: str) -> None:
    error = refused(body(**fields))
    assert error.param == param
    assert error.code == "invalid_value"
    assert error.message.startswith(f"{param}: ")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"\xff\xfe",
        b'{"model": "m", "temperature": NaN}',
        b'{"model": "\\ud800"}',
        b"[" * 10_000,
        b'{"stepguard": {"inputs": ' + b"[" * 1020 + b"1" + b"]" * 1020 + b"}}",
    ],
)
def test_what_is_no_json_object_is_refused(data: bytes) -> None:
    assert refused(data).code == "invalid_json"


def test_inputs_are_exact() -> None:
    data = b'{"model":"m","messages":[{"role":"user","content":"x"}],"stepguard":{"procedure":"p","inputs":'
    data += b'{"a": 12345678901234567890.10, "b": 2, "c": [1.50], "e": "1.0", "f": true}}}'
    control = parse_request(data).stepguard
    assert control is not None
    assert repr(control.inputs) == repr(
        {
            "a": Written("12345678901234567890.10"),
            "b": 2,
            "c": [Written("1.50")],
            "e": "1.0",
            "f": True,
        }
    )


@pytest.mark.parametrize("number", ["1e999999", "9" * 1_000_000, "-1e400"])
def test_numbers_beyond_all_measure_are_refused_in_no_time(number: str) -> None:
    began = time.process_time()
    error = refused(body(stepguard={"inputs": {"a": 1}}).replace(b'"a": 1', b'"a": ' + number.encode()))
    assert time.process_time() - began < 1
    assert error.code == "invalid_json"


def test_a_prompt_of_ten_megabytes_is_read() -> None:
    content = "x" * 10_000_000
    assert (
        parse_request(body(messages=[{"role": "user", "content": content}])).messages[0]["content"] == content
    )


@given(st.binary())
def test_arbitrary_bytes_are_refused_and_nothing_else(data: bytes) -> None:
    with pytest.raises(RequestError):
        parse_request(data)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Hi", "Hi"),
        (None, ""),
        ([{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}], "a\nb"),
        (["odd", 3, {"text": 4}], ""),
    ],
)
def test_the_text_of_a_message_is_its_text_parts(content: object, text: str) -> None:
    assert text_of({"role": "user", "content": content}) == text


@pytest.mark.parametrize(
    ("data", "read"),
    [
        (b'{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}', ("x", "", None)),
        (b'{"choices":[{"delta":{"role":"assistant","content":null}}]}', ("", "", None)),
        (b'{"choices":[{"delta":{"reasoning_content":"hmm"}}]}', ("", "hmm", None)),
        (b'{"choices":[{"delta":{"reasoning":{"odd":1}}}]}', ("", "", None)),
        (b'{"choices":[{"delta":{"tool_calls":[{}]},"finish_reason":"tool_calls"}]}', ("", "", "tool_calls")),
        (b'{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}', ("x", "", "stop")),
        (b'{"choices":[{"index":1,"delta":{"content":"x"}}]}', ("", "", None)),
        (b'{"choices":[]}', ("", "", None)),
        (b'{"choices":[{"delta":{"content":"x"}}],"error":null}', ("x", "", None)),
    ],
)
def test_a_chunk_says_what_the_first_choice_says(data: bytes, read: tuple[str, str, str | None]) -> None:
    assert read_piece(data) == Piece(*read, None)


@pytest.mark.parametrize(
    "usage",
    ["[]", "3", '"x"', '{"prompt_tokens": -5, "completion_tokens": "many"}', '{"completion_tokens": 1e30}'],
)
def test_usage_that_cannot_be_meant_is_none_and_spoils_no_text(usage: str) -> None:
    chunk = '{"choices":[{"index":null,"delta":{"content":"x"},"finish_reason":null}],"usage":' + usage + "}"
    piece = read_piece(chunk.encode())
    assert isinstance(piece, Piece)
    assert piece.text == "x"
    told = piece.usage
    assert told is None or (told.prompt_tokens, told.completion_tokens) == (None, None)


@pytest.mark.parametrize("field", ["x", "metadata", "messages"])
def test_what_is_nested_too_deeply_to_be_sent_on_is_refused(field: str) -> None:
    deep = b"[" * 300 + b"]" * 300
    value = b'[{"role":"user","content":%s}]' % deep if field == "messages" else deep
    with pytest.raises(RequestError, match="nested too deeply") as caught:
        parse_request(body()[:-1] + b',"%s":%s}' % (field.encode(), value))
    assert caught.value.code == "invalid_json"


def test_usage_is_read_where_it_is_given() -> None:
    piece = read_piece(b'{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"x":{}}}')
    assert isinstance(piece, Piece)
    assert piece.usage is not None
    assert (piece.usage.prompt_tokens, piece.usage.completion_tokens) == (3, 4)


TEXT = st.none() | st.text(max_size=5)
DELTAS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {}, optional={"content": TEXT | st.just([]), "role": TEXT, "reasoning": TEXT}
)
CHOICES = st.fixed_dictionaries(
    {"delta": DELTAS | st.none()}, optional={"index": st.integers(-1, 1), "finish_reason": TEXT}
)
CHUNKS = st.fixed_dictionaries(
    {"choices": st.lists(CHOICES, max_size=2)},
    optional={
        "usage": st.none() | st.just({"prompt_tokens": 1, "completion_tokens": 2}),
        "error": st.sampled_from([None, {"message": "m"}, "m", {}]),
    },
)


@given(CHUNKS)
def test_the_short_way_reads_what_the_long_way_reads(chunk: dict[str, Any]) -> None:
    data = json.dumps(chunk).encode()
    usual = read_usual_piece(data)
    assert usual is None or usual == read_any_piece(data)


def test_the_short_way_is_taken_by_an_ordinary_chunk() -> None:
    chunk = b'{"id":"x","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}],"usage":null}'
    assert read_usual_piece(chunk) == Piece("x", "", None, None)


@given(st.binary())
def test_arbitrary_data_is_no_chunk(data: bytes) -> None:
    assert read_piece(data) in (None, SILENT)
    assert (read_piece(data) is None) == (read_json(data) is NOT_JSON)
    assert read_piece(b'{"choices":' + data) is None


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
MEMBERS = (
    *("id", "object", "choices", "usage", "index", "delta", "message", "content", "tool_calls", "custom"),
    *("input", "name", "finish_reason", "reasoning", "type", "code", "status", "detail", "prompt_tokens"),
)
ODD = st.recursive(
    ANYTHING,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=4)
        | st.builds(lambda choice: {"choices": [choice]}, inner)
    ),
    max_leaves=12,
)


@given(ODD)
def test_no_json_is_a_fault_whatever_it_says(value: object) -> None:
    """A sign of life, a member of another type: what cannot be read says nothing."""
    data = json.dumps(value).encode()
    assert isinstance(read_piece(data), Piece | InBandError)
    assert isinstance(Events().read(data), Piece | InBandError)


@pytest.mark.parametrize(
    "data",
    [
        b"null",
        b"{}",
        b"[]",
        b"7",
        b'{"type":"ping"}',
        b'{"choices":[null]}',
        b'{"choices":null}',
        b'{"choices":7}',
    ],
)
def test_a_sign_of_life_says_nothing(data: bytes) -> None:
    assert read_piece(data) == SILENT


def test_the_usage_of_a_chunk_without_choices_is_kept() -> None:
    piece = read_piece(b'{"usage":{"prompt_tokens":3,"completion_tokens":4}}')
    assert isinstance(piece, Piece)
    assert piece.usage is not None
    assert piece.usage.completion_tokens == 4


def test_an_error_is_found_in_every_usual_shape() -> None:
    assert read_error(b'{"error":{"message":"m","code":"x","status":503}}') == InBandError(
        Said.of("m", code="x"), 503
    )
    assert read_error(b'{"error":{"message":"m","code":12}}') == InBandError(Said.of("m"), None)
    assert read_error(b'{"error":"m"}') == InBandError(Said.of("m"), None)
    assert read_error(b'{"detail":"m"}') == InBandError(Said.of("m"), None)
    assert read_error(b'{"error":{"why":1}}') == InBandError(Said.of('{"error":{"why":1}}'), None)
    deep = b'{"error":' + b'{"a":' * 255 + b"1" + b"}" * 256
    assert read_error(deep) == InBandError(Said.of(deep), None)
    assert read_error(b'{"error":{"code":429}}') == InBandError(Said.of('{"error":{"code":429}}'), 429)
    assert read_error(b'{"object":"error","message":"m","code":404}') == InBandError(Said.of("m"), 404)
    assert read_error(b'{"message":"m","code":400,"type":"x"}') == InBandError(Said.of("m", type="x"), 400)
    for nothing in (b"{}", b"[]", b"", b"\xff", b'{"error":null}', b'{"error":{}}'):
        assert read_error(nothing) is None


ENVELOPE = Envelope(id="chatcmpl-1", model="m", created=1_800_000_000)


def test_an_answer_is_one_that_the_openai_client_reads() -> None:
    from openai.types.chat import ChatCompletion, ChatCompletionChunk  # noqa: PLC0415 (slow to import)

    usage: dict[str, object] = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    answer = ChatCompletion.model_validate_json(
        ENVELOPE.completion("3", reasoning="1 a = 3\n", usage=usage, stepguard={"outcome": "accepted_first"}),
        strict=True,
    )
    assert answer.choices[0].message.content == "3"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 3
    assert answer.model_extra == {"stepguard": {"outcome": "accepted_first"}}
    assert (answer.choices[0].message.model_extra or {})["reasoning_content"] == "1 a = 3\n"
    chunks = [
        ChatCompletionChunk.model_validate_json(data, strict=True)
        for data in (
            ENVELOPE.role(),
            ENVELOPE.reasoning("1 a = 3\n"),
            ENVELOPE.content("3"),
            ENVELOPE.finish("stop", {"outcome": "accepted_first"}),
            ENVELOPE.usage(usage),
        )
    ]
    assert {(chunk.id, chunk.created, chunk.model) for chunk in chunks} == {
        ("chatcmpl-1", 1_800_000_000, "m")
    }
    assert [chunk.choices[0].delta.content for chunk in chunks[:4]] == ["", None, "3", None]
    assert [chunk.choices[0].finish_reason for chunk in chunks[:4]] == [None, None, None, "stop"]
    assert chunks[3].model_extra == {"stepguard": {"outcome": "accepted_first"}}
    assert chunks[4].choices == []


def test_what_we_write_we_read() -> None:
    assert read_piece(ENVELOPE.content("grüße\n")) == Piece("grüße\n", "", None, None)
    assert read_piece(ENVELOPE.finish("stop")) == Piece("", "", "stop", None)
    assert read_piece(ENVELOPE.completion("x")) == Piece("x", "", "stop", None)


def call(**custom: object) -> dict[str, object]:
    return {"index": 0, "id": None, "type": None, "function": None, "custom": custom}


@pytest.mark.parametrize(
    ("said", "inputs"),
    [
        (
            {"tool_calls": [{**call(name="trace", input=""), "id": "call_1", "type": "custom"}]},
            (Call(0, "", "call_1", "trace"),),
        ),
        ({"content": None, "tool_calls": [call(name=None, input="1 a")]}, (Call(0, "1 a"),)),
        (
            {"tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "trace", "input": "x"}}]},
            (Call(0, "x", "c", "trace"),),
        ),
        ({"tool_calls": [call(input="x"), {**call(input="y"), "index": 4}]}, (Call(0, "x"), Call(4, "y"))),
        ({"tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{}"}}]}, ()),
        ({"tool_calls": [{"custom": None}, {"custom": 3}, {"custom": {"input": 4}}, "odd", None]}, ()),
        ({"tool_calls": None}, ()),
        ({"tool_calls": "odd"}, ()),
    ],
)
@pytest.mark.parametrize("place", ["delta", "message"])
def test_the_input_of_a_tool_that_takes_a_text_is_read(
    said: dict[str, object], inputs: tuple[Call, ...], place: str
) -> None:
    data = json.dumps({"choices": [{"index": 0, place: said, "finish_reason": "tool_calls"}]}).encode()
    assert read_piece(data) == Piece("", "", "tool_calls", None, inputs)


PATHS = st.lists(st.sampled_from(["metadata", "user", "note"]) | st.integers(0, 2), min_size=1, max_size=4)


@given(PATHS, st.sampled_from(["\ud83d", "\udc00", "a\ud800b"]))
def test_half_of_a_character_in_a_request_is_told_with_its_path(path: list[str | int], half: str) -> None:
    value: object = half
    for step in reversed(path):
        value = {step: value} if isinstance(step, str) else [*["whole"] * step, value]
    error = refused(json.dumps({**ASK, "extra": value}).encode())
    assert (error.code, error.http_status) == ("invalid_json", 400)
    assert error.param == ".".join(map(str, ["extra", *path]))
    assert "half of a surrogate pair" in error.message


def test_what_is_no_text_is_told_so() -> None:
    sent = json.dumps(ASK).encode()
    assert "no UTF-8: byte 0xff at position 2" in refused(b'{"\xff' + sent).message
    assert "no UTF-8: byte 0xed" in refused(sent.replace(b"Hello", b"\xed\xa0\xbd")).message
    with pytest.raises(RequestError, match=r"compressed \(gzip\)") as packed:
        parse_request(gzip.compress(sent))
    assert (packed.value.http_status, packed.value.code) == (415, "unsupported_encoding")

"""The body of a request: numbers stay as they are written, and what takes long to read is not read."""

from __future__ import annotations

import json
from time import process_time

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.errors import RequestError
from guard.wire.body import (
    MOST_BRACKETS,
    MOST_READ,
    MOST_STRINGS,
    encode,
    read_body,
    read_exactly,
    read_object,
    values_in,
)

DIGITS = st.text("0123456789", min_size=1, max_size=60)
WHOLE = DIGITS.map(lambda digits: digits.lstrip("0") or "0")
NUMBERS = st.builds(
    lambda sign, whole, decimals, exponent: f"{sign}{whole}{decimals}{exponent}",
    st.sampled_from(["", "-"]),
    WHOLE,
    st.one_of(st.just(""), DIGITS.map(lambda digits: f".{digits}")),
    st.one_of(
        st.just(""),
        st.builds(lambda e, s, d: e + s + d, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), DIGITS),
    ),
)


@given(NUMBERS)
def test_a_number_is_sent_on_as_it_is_written(number: str) -> None:
    written = f'{{"a":{number},"b":[{{"c":{number}}}]}}'.encode()
    try:
        read_object(written)
    except RequestError:  # beyond what other readers of JSON take
        return
    again = encode(read_exactly(written))
    assert again == written or (number.lstrip("-").isdigit() and json.loads(again) == json.loads(written))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=9), inner, max_size=6),
    max_leaves=30,
)


def values(value: object) -> int:
    """How many values there are, this one and all in it."""
    match value:
        case list():
            return 1 + sum(map(values, value))
        case dict():
            return 1 + sum(map(values, value.values()))
        case _:
            return 1


@given(JSON)
def test_any_values_are_read_and_counted_whatever_their_texts_say(value: object) -> None:
    data = orjson.dumps(value)
    assert read_body(data) == value
    assert values_in(data, 0) >= values(value)
    assert read_exactly(data) == value


TOO_MUCH = {
    "lists": b"[" + b"[]," * MOST_BRACKETS + b"1]",
    "objects": b"[" + b"{}," * MOST_BRACKETS + b"1]",
    "strings": b"[" + b'"",' * 2 * MOST_STRINGS + b"1]",
    "names": b"[" + b'{"a":1},' * MOST_BRACKETS + b"1]",
    "numbers": b"[" + b"1," * MOST_READ + b"1]",
    "numbers beside a long text": b'["' + b"a, " * 900_000 + b'",' + b"1," * MOST_READ + b"1]",
    "marks that end no string": b"[" + rb'\\",' * 990_000,
    "brackets that never close": b"[" * 4_000_000,
    "strings of a backslash": b"[" + rb'"\\",' * 3 * MOST_STRINGS + b"1]",
}


@pytest.mark.parametrize("shape", TOO_MUCH)
def test_what_takes_long_to_read_is_refused_before_it_is_read(shape: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_body(TOO_MUCH[shape])
    assert caught.value.http_status == 413
    assert caught.value.code == "request_too_large"


def test_as_many_numbers_as_a_batch_of_tokens_has_are_read() -> None:
    tokens = [1] * (MOST_READ - 1)
    assert read_body(orjson.dumps(tokens)) == tokens


LONG_TEXTS = {
    "a text": "word, " * 600_000,
    "a text of brackets": "[{" * 2_000_000,
    "JSON in a string": json.dumps([{"a": "b"}] * 100_000),
    "backslashes": "\\" * 1_900_000,
}


@pytest.mark.parametrize("shape", LONG_TEXTS)
def test_a_long_text_is_read_whatever_it_says(shape: str) -> None:
    data = orjson.dumps({"messages": [{"role": "user", "content": LONG_TEXTS[shape]}]})
    before = process_time()
    assert read_object(data)["messages"][0]["content"] == LONG_TEXTS[shape]
    assert process_time() - before < 0.5

"""JSON of others: one bad character takes nothing else along, and nothing is nested too deeply to be refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.wire.lenient import MAX_PARTS, NOT_JSON, Pairs, half_in, halves, paired, read_json

UNITS = st.text(
    st.characters(min_codepoint=0xD7F0, max_codepoint=0xE010) | st.sampled_from("a😀é\n"), max_size=8
)


def units(text: str) -> str:
    """A text as UTF-16 has it: each character beyond the first 65,536 as a pair of halves."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return "".join(chr(raw[at] | raw[at + 1] << 8) for at in range(0, len(raw), 2))


@given(UNITS, st.data())
def test_a_text_is_whole_again_however_it_was_cut(text: str, data: st.DataObject) -> None:
    cut, pairs, said = units(text), Pairs(), ""
    while cut:
        length = data.draw(st.integers(1, len(cut)))
        said += pairs.join(cut[:length]) + pairs.join("")
        cut = cut[length:]
    said += pairs.close()
    assert said == paired(units(text))
    assert not halves(said)


@given(st.text())
def test_a_text_without_halves_stays_as_it_is(text: str) -> None:
    assert paired(text) == text == Pairs().join(text)
    assert not halves(text)


@given(UNITS, st.binary(max_size=5))
def test_a_bad_character_takes_nothing_else_along(text: str, odd: bytes) -> None:
    told = json.dumps({"a": text, "b": 7}).encode()
    assert read_json(told)["b"] == 7
    cleaned = odd.translate(None, bytes(range(0x20)) + b'"\\')
    assert read_json(b'{"odd": "' + cleaned + b'", "b": 7}')["b"] == 7


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[" * 100_000, b'{"a":' * 3000 + b"1", b"Hello", b"{'a': 1}", b"\xff"]
)
def test_what_is_no_json_is_told_from_null(data: bytes) -> None:
    assert read_json(data) is NOT_JSON
    assert read_json(b"null") is None


def test_numbers_of_any_length_are_read() -> None:
    assert read_json(b'{"a": ' + b"9" * 10_000 + b', "b": "\\ud800"}')["a"] == float("inf")


def test_more_values_than_anybody_means_are_no_json() -> None:
    assert read_json(b"[" + b"[]," * MAX_PARTS + b"[]]") is NOT_JSON
    assert len(read_json(b'"' + b"a" * 1_000_000 + b'"')) == 1_000_000


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"messages": [{"content": "a"}, {"content": "\ud83d"}]}, "messages.1.content"),
        ({"a": {"\udc00": 1}}, "a"),
        (["\ud800"], "0"),
        ("\ud800", ""),
        ({"a": ["b", {"c": None}]}, None),
    ],
)
def test_half_of_a_pair_is_found_where_it_stands(value: object, path: str | None) -> None:
    assert half_in(value) == path

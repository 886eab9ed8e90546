"""Taking a member out of a JSON object leaves every other byte where it was."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.wire.members import edited, members

BLANKS = st.text(" \t\r\n", max_size=2)
TEXTS = st.text(st.sampled_from('"\\{}[],:aé \n') | st.characters(exclude_categories=["Cs"]), max_size=6)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def written(draw: st.DrawFn) -> tuple[list[tuple[str, str]], str]:
    """An object as somebody may write it: its members, and its text."""
    names = draw(st.lists(st.sampled_from(["stepguard", "model", "a"]) | TEXTS, max_size=5))
    pairs = [(name, json.dumps(draw(VALUES), ensure_ascii=draw(st.booleans()))) for name in names]
    shown = [
        f"{draw(BLANKS)}{json.dumps(name)}{draw(BLANKS)}:{draw(BLANKS)}{value}{draw(BLANKS)}"
        for name, value in pairs
    ]
    return pairs, f"{draw(BLANKS)}{{{','.join(shown) or draw(BLANKS)}}}{draw(BLANKS)}"


@given(written())
def test_every_member_is_found_where_it_stands(case: tuple[list[tuple[str, str]], str]) -> None:
    pairs, text = case
    body = text.encode()
    found = [(member.name, body[member.value_at : member.end].decode()) for member in members(body)]
    assert found == pairs


@given(written())
def test_what_is_left_is_what_was_there_without_it(case: tuple[list[tuple[str, str]], str]) -> None:
    pairs, text = case
    left = edited(text.encode(), without="stepguard")
    orjson.loads(left)
    rest = [(name, value) for name, value in pairs if name != "stepguard"]
    assert [(m.name, left[m.value_at : m.end].decode()) for m in members(left)] == rest
    if rest == pairs:
        assert left == text.encode()


@given(written())
def test_a_value_that_is_changed_changes_nothing_beside_it(case: tuple[list[tuple[str, str]], str]) -> None:
    pairs, text = case
    body = text.encode()
    other = edited(body, without="stepguard", changed={"model": b'"other"'})
    kept = [(name, '"other"' if name == "model" else value) for name, value in pairs if name != "stepguard"]
    assert [(m.name, other[m.value_at : m.end].decode()) for m in members(other)] == kept


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (b'{"model": "m", "stepguard": {"a": [1]}, "n": 1}', b'{"model": "m", "n": 1}'),
        (b'{"model": "m", "stepguard": {}}', b'{"model": "m"}'),
        (b'{\n  "stepguard": {},\n  "model": "m"\n}', b'{\n  "model": "m"\n}'),
        (b'{"a":1e5,"stepguard":{},"stepguard":{},"b":1.50}', b'{"a":1e5,"b":1.50}'),
        (b'{"a":1,"stepguard":{},"stepguard":{}}', b'{"a":1}'),
        (b'{"step\\u0067uard":{}}', b"{}"),
        (b'{"x": "\\"stepguard\\": {}"}', b'{"x": "\\"stepguard\\": {}"}'),
        (b'{"x": {"stepguard": 1}}', b'{"x": {"stepguard": 1}}'),
    ],
)
def test_the_bytes_that_are_left(body: bytes, left: bytes) -> None:
    assert edited(body, without="stepguard") == left

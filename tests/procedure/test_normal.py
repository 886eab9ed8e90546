"""Normal forms: those of Unicode, in time that grows with the text, and by one function everywhere."""

from __future__ import annotations

import ast
import sys
import time
from pathlib import Path
from unicodedata import combining, is_normalized, normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guard
from guard.procedure.normal import APART, JOINER, LAST_MARK, MARKS, normal

texts = st.text(st.sampled_from("ae\u00e9\u1e9e\ufb01\u0301\u0316\u0344\u0f73\u1100\u1161 ,"), max_size=20)
runs = st.lists(
    st.tuples(st.sampled_from("a\u00e9\u0301\u0316\u0344\u0f73\u0f75\u302a"), st.integers(1, 100)), max_size=6
).map(lambda parts: "".join(char * often for char, often in parts))


@given(texts)
def test_it_is_the_normal_form_of_unicode(text: str) -> None:
    assert normal(text) == normalize("NFC", text)
    assert normal(text, "NFKD") == normalize("NFKD", text)
    assert normal(normalize("NFD", text)) == normal(text)


@given(texts | runs)
def test_it_is_normal_and_stays_as_it_is(text: str) -> None:
    made = normal(text)
    assert is_normalized("NFC", made)
    assert normal(made) == made


@given(runs)
def test_no_more_marks_stand_in_a_row_and_none_is_lost(text: str) -> None:
    run = longest = 0
    for char in normalize("NFD", normal(text)):
        run = run + 1 if combining(char) else 0
        longest = max(longest, run)
    assert longest <= MARKS + 2  # those of the character in front, which may bring marks of its own
    plain = "".join(sorted(normalize("NFD", normal(text)).replace(JOINER, "")))
    assert plain == "".join(sorted(normalize("NFD", text)))


def test_every_mark_is_known() -> None:
    """A mark is sorted among those that stand with it, or comes apart into one that is."""
    characters = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    marks = {char for char in characters if combining(normalize("NFKD", char)[0])}
    assert max(marks) < chr(LAST_MARK)
    assert marks == {char for char in marks if combining(char)} | set(APART)


@pytest.mark.parametrize("marks", ["\u0301\u0316", "\u0f73", "\u0344\u0316", "\U00016ff0\u0316"])
def test_marks_in_a_row_take_no_longer_than_other_text(marks: str) -> None:
    """Quadratic, this would take minutes."""
    began = time.process_time()
    normal("a" + "".join(mark * 200_000 for mark in marks))
    assert time.process_time() - began < 5


@pytest.mark.parametrize("text", ["\u00e4", "e\u0301 ", "\u6f22", "\U0001f600", "e" + "\u0301" * 30])
def test_text_of_any_script_is_quick(text: str) -> None:
    """A set of all marks is slow to look in; one look a character is 10 ms for so many, and this is 80 of them."""
    began = time.process_time()
    for _ in range(8):
        normal(text * (500_000 // len(text)))
    assert time.process_time() - began < 1


@given(st.lists(st.sampled_from(["\U00012000", "\U0001d165", "\u0301", "\u302a", "a"]), max_size=200))
def test_runs_are_found_among_characters_beyond_the_first_plane(parts: list[str]) -> None:
    text = "".join(part * (1 + len(parts) % 40) for part in parts)
    longest = max(
        (len(run) for run in "".join("m" if combining(c) else " " for c in text).split()), default=0
    )
    assert (JOINER in normal(text)) == (longest > MARKS)


def test_nothing_else_normalises() -> None:
    home = Path(guard.__file__).parent
    users = {
        path.relative_to(home).as_posix()
        for path in home.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.ImportFrom | ast.Attribute) and "normalize" in _names(node))
    }
    assert users == {"procedure/normal.py", "foreign.py"}  # which looks at one character at a time


def _names(node: ast.ImportFrom | ast.Attribute) -> list[str]:
    return [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else [node.attr]

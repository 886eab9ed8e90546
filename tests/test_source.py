"""Places in a text, and the caret below them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.errors import Problem
from guard.source import Source, Span

TEXTS = st.text(alphabet="ab\t\r\n\u00e9\U0001f600", max_size=40)


def test_lines_and_columns_count_from_one() -> None:
    source = Source("f", "ab\ncd\n")
    assert [source.position(offset) for offset in range(7)] == [
        (1, 1),
        (1, 2),
        (1, 3),
        (2, 1),
        (2, 2),
        (2, 3),
        (3, 1),
    ]


def test_columns_count_characters_not_bytes() -> None:
    assert Source("f", "\u00e9\U0001f600x").position(2) == (1, 3)


def test_a_line_is_given_without_its_end() -> None:
    source = Source("f", "ab\r\ncd")
    assert (source.line(1), source.line(2)) == ("ab", "cd")


@given(TEXTS, st.data())
def test_a_position_leads_back_to_its_offset(text: str, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(text)))
    line, column = Source("f", text).position(offset)
    start = 0
    for _ in range(line - 1):
        start = text.index("\n", start) + 1
    assert start + column - 1 == offset


@pytest.mark.parametrize(
    ("text", "span", "snippet"),
    [
        ("x = 1 +\n", Span(4, 5), "  1 | x = 1 +\n    |     ^"),
        ("x = abc\n", Span(4, 7), "  1 | x = abc\n    |     ^^^"),
        ("x = (\n1)", Span(4, 8), "  1 | x = (\n    |     ^"),
        ("x\n", Span(1, 2), "  1 | x\n    |  ^"),
        ("", Span(0, 0), "  1 | \n    | ^"),
        ("a\n" * 9 + "\tb", Span(19, 20), "  10 | \tb\n     | \t^"),
    ],
    ids=["one character", "a word", "only its first line", "behind the line", "nothing", "below a tab"],
)
def test_carets_stand_below_what_they_mean(text: str, span: Span, snippet: str) -> None:
    assert Source("f", text).caret(span) == snippet


@given(TEXTS, st.data())
def test_every_span_of_a_text_has_a_caret(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    line, carets = Source("f", text).caret(Span(start, end)).rsplit("\n", 1)
    assert "^" in carets
    assert len(carets) <= len(line) + 1


def test_a_problem_reads_as_compilers_write_it() -> None:
    problem = Source("a.proc", "x = 1\n").problem(Span(4, 5), "too small", help="write 2")
    assert str(problem) == "a.proc:1:5: error: too small\n  1 | x = 1\n    |     ^\n  help: write 2"


def test_a_problem_without_a_text_is_one_line() -> None:
    problem = Problem(file="a.proc", line=1, column=1, message="too large", severity="warning")
    assert str(problem) == "a.proc:1:1: warning: too large"

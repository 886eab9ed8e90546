"""Lines and their limits, whatever the pieces."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from guard.trace.events import TooLong
from guard.trace.lines import Growing, Limits, Lines, RawLine

SMALL = Limits(line=5, lines=4, total=15)


def cut(text: str, cuts: set[int], limits: Limits = SMALL) -> list[RawLine | TooLong]:
    lines = Lines(limits)
    bounds = [0, *sorted(c for c in cuts if c < len(text)), len(text)]
    out = [
        item for a, b in pairwise(bounds) for item in lines.feed(text[a:b]) if not isinstance(item, Growing)
    ]
    last = lines.close()
    return out if last is None else [*out, last]


def test_a_line_is_given_when_it_ends() -> None:
    lines = Lines()
    assert list(lines.feed("1 a")) == []
    assert list(lines.feed(" = 1\n2")) == [RawLine("1 a = 1", 0, 8)]
    assert lines.offset == 9
    assert lines.close() == RawLine("2", 8, 9)
    assert lines.close() is None


def test_only_a_line_feed_ends_a_line() -> None:
    text = "a\rb\x0bc\x0cd\x85e\u2028f\u2029g\n"
    assert cut(text, set(), Limits()) == [RawLine(text[:-1], 0, len(text))]


def test_a_line_knows_whether_it_has_an_end() -> None:
    first, second = cut("a\nb", set())
    assert isinstance(first, RawLine)
    assert isinstance(second, RawLine)
    assert (first.terminated, second.terminated) == (True, False)


def test_too_long_a_line_is_noticed_before_it_ends() -> None:
    lines = Lines(SMALL)
    assert list(lines.feed("12345")) == []
    assert list(lines.feed("6")) == [TooLong(limit="5 characters in a line", at=0)]
    assert list(lines.feed("\nab\n")) == []
    assert lines.close() is None


def test_a_line_may_be_as_long_as_the_limit() -> None:
    assert cut("12345\n", set()) == [RawLine("12345", 0, 6)]


def test_too_many_lines_end_the_reading_at_the_first_that_is_too_many() -> None:
    assert cut("\n\n\n\n\n", set())[-1] == TooLong(limit="4 lines", at=4)
    assert cut("\n\n\n\nx", set())[-1] == TooLong(limit="4 lines", at=4)
    assert len(cut("\n\n\n\n", set())) == 4


def test_too_much_text_ends_the_reading_at_the_line_that_is_too_much() -> None:
    assert cut("1234\n1234\n1234\n1\n", set(), Limits(line=9, lines=9, total=15))[-1] == TooLong(
        limit="15 characters in all", at=15
    )


def test_nothing_is_read_behind_an_end_that_was_asked_for() -> None:
    lines = Lines()
    assert lines.hold("ab")
    lines.end()
    assert not lines.hold("")
    assert lines.feed("c\nd\n") == []
    assert lines.close() is None


@given(st.text("ab\n", max_size=40), st.sets(st.integers(0, 40)))
def test_how_text_is_cut_changes_nothing(text: str, cuts: set[int]) -> None:
    assert cut(text, cuts) == cut(text, set())


@given(st.text("ab\n", max_size=40))
def test_no_character_is_left_out(text: str) -> None:
    lines = [item for item in cut(text, set(), Limits()) if isinstance(item, RawLine)]
    assert "".join(line.text + "\n" * line.terminated for line in lines) == text
    assert [line.at for line in lines] == [0, *(line.end for line in lines)][: len(lines)]

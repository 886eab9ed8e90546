"""The incremental parser: chunking is invisible, and the fast reader agrees with the grammar."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.errors import InvalidState
from guard.procedure.numbers import DIGITS
from guard.procedure.passes import MOST_STEPS
from guard.trace.events import Begin, Blank, End, Event, Line, TooLong, Unreadable
from guard.trace.grammar import WORDS
from guard.trace.lines import Limits, RawLine
from guard.trace.parser import Parser, read_line
from guard.trace.usual import LENGTH, QUOTES, VALUES

TRACE = """@begin invoice 3fa92c
1 lines = [{"name": "h\u00efnge", "qty": 12, "unit_price": 3.35}] <- "twelve hinges at 3.35"
2 loyal = true
3 net = 0.00

5 for l in lines = 2
5[1].1 part = 12 * 3.35 * (1 - 5%) = 38.19
6 if true and 282.99 >= 200 = true
7 deny "Too \\"late\\"."
9 return {"net": 274.50, "total": 274.50 + 54.90 = 329.40}
nonsense
@end 3fa92c
"""


def parse(text: str, cuts: set[int]) -> list[Event]:
    parser = Parser()
    bounds = [0, *sorted(c for c in cuts if c < len(text)), len(text)]
    return [event for a, b in pairwise(bounds) for event in parser.feed(text[a:b])] + parser.close()


def test_reads_a_trace_line_by_line() -> None:
    kinds = [type(event) for event in parse(TRACE, set())]
    assert kinds == [Begin, Line, Line, Line, Blank, Line, Line, Line, Line, Line, Unreadable, End]


def test_every_single_cut_is_invisible() -> None:
    whole = parse(TRACE, set())
    for cut in range(len(TRACE)):
        assert parse(TRACE, {cut}) == whole


@given(st.sets(st.integers(0, len(TRACE))))
def test_any_set_of_cuts_is_invisible(cuts: set[int]) -> None:
    assert parse(TRACE, cuts) == parse(TRACE, set())


def test_nothing_is_said_of_a_line_before_it_ends() -> None:
    parser = Parser()
    assert parser.feed("3 net = 24") == []
    assert parser.feed("4.80") == []
    [event] = parser.feed("\n")
    assert isinstance(event, Line)


def test_a_last_line_without_an_end_is_given_at_the_close() -> None:
    parser = Parser()
    parser.feed("3 net = 24")
    [event] = parser.close()
    assert isinstance(event, Line)
    assert event.end == 10
    assert parser.close() == []


def test_feeding_a_closed_parser_is_a_bug_of_ours() -> None:
    parser = Parser()
    parser.close()
    with pytest.raises(InvalidState):
        parser.feed("x")


def test_a_limit_is_an_event_and_the_last_one() -> None:
    parser = Parser(Limits(line=10))
    assert parser.feed("1 a = 1\n" + "2" * 11) == [
        read_line(RawLine("1 a = 1", 0, 8)),
        TooLong(limit="10 characters in a line", at=8),
    ]
    assert parser.feed("\n3 a = 1\n") == []
    assert parser.close() == []


def test_a_number_of_too_many_digits_is_the_last_event() -> None:
    parser = Parser()
    assert parser.feed(f"1 a = {'9' * 41}\n2 a = 1\n") == [TooLong(limit="40 digits in a number", at=6)]
    assert parser.feed("3 a = 1\n") == []


def test_the_reference_names_the_limits() -> None:
    reference = " ".join(Path(__file__).parents[2].joinpath("grammars/README.md").read_text("utf-8").split())
    limits = Limits()
    for limit in (
        f"more than {limits.line:,} characters in a line, {limits.lines:,} lines, {limits.total:,} characters",
        f"{DIGITS} digits of a number, {VALUES} values of a list or record, {QUOTES} quotes",
        f"more than {LENGTH:,} characters)",
        f"may have {WORDS} words and signs",
        f"an execution {MOST_STEPS:,} steps",
    ):
        assert limit in reference
    assert limits.lines > MOST_STEPS  # a whole trace can be read, with its frame


@given(st.text())
def test_no_text_makes_the_parser_raise(text: str) -> None:
    parse(text, set())

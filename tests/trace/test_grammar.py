"""The authority on lines, and the comparison of workings."""

from __future__ import annotations

from fractions import Fraction
from importlib.resources import files
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lark import Lark

from guard.procedure.types import Value
from guard.trace.events import Begin, End, Fields, Items, Line, Quote, Scalar, TooLong, Unreadable
from guard.trace.grammar import lark, read


def scalar(text: str, value: Value, at: int) -> Scalar:
    return Scalar(working=None, working_at=at, value=value, value_at=at, value_text=text)


def test_the_grammar_has_no_conflicts_and_no_terminals_that_collide() -> None:
    text = files("guard.grammars").joinpath("trace.lark").read_text("utf-8")
    Lark(text, parser="lalr", lexer="contextual", start=["start", "expression"], strict=True)


def test_reads_the_frame() -> None:
    assert read("@begin invoice 3fa92c", 5, 27) == Begin(procedure="invoice", nonce="3fa92c", at=5, end=27)
    assert read(" @end  3fa92c\r", 5, 20) == End(nonce="3fa92c", at=5, end=20)


def test_reads_a_record_of_workings_and_values() -> None:
    text = '9 return {"net": 274.50, "due": [1 + 2 = 3, "x"]}'
    line = read(text, 100, 200)
    assert isinstance(line, Line)
    assert (line.path, line.head, line.body_at, line.at, line.end) == ("9", "return", 109, 100, 200)
    assert isinstance(line.body, Fields)
    (net, first), (due, second) = line.body.fields
    assert (net, due) == ("net", "due")
    assert isinstance(first, Scalar)
    assert isinstance(second, Items)
    assert text[first.value_at - 100 :].startswith("274.50,")
    assert second.items == (
        Scalar(working="1 + 2", working_at=133, value=3, value_at=141, value_text="3"),
        scalar('"x"', "x", 144),
    )
    assert second.text == '[1 + 2 = 3, "x"]'


def test_reads_quotes_behind_a_value() -> None:
    line = read(r'2 c = "DE" <- "to Bonn" <- "a\nb\u00e9"', 0, 40)
    assert isinstance(line, Line)
    assert line.quotes == (Quote(text="to Bonn", at=14), Quote(text="a\nbé", at=27))


def test_a_working_without_a_value_is_read_as_such() -> None:
    line = read("3 tax = 4 * 5", 0, 13)
    assert isinstance(line, Line)
    assert line.body == Scalar(working="4 * 5", working_at=8, value=None, value_at=13, value_text="")


def test_heads_come_in_canonical_spacing() -> None:
    heads = {
        "1 a=1": "a =",
        "1  if  true": "if",
        "1 for  x  in  o.xs  =  2": "for x in o.xs =",
        '1 deny"no"': "deny",
    }
    for text, head in heads.items():
        line = read(text, 0, len(text))
        assert isinstance(line, Line)
        assert line.head == head


WRONG = {
    "Sure, here it is:": (0, "expected a step number, found 'Sure, here it is:'"),
    "1": (1, "expected a name or a word such as return, found the end of the line"),
    "1 x": (3, None),
    "1 x = ": (6, "expected a value, found the end of the line"),
    "1 x = 9**9**9": (8, "expected a value, found '*9**9'"),
    "1 x = 1e999999": (7, "expected an operator or the end of the line, found 'e999999'"),
    "1 x = ٣": (6, "expected a value, found '٣'"),
    "1 x = １２": (6, "expected a value, found '１２'"),  # noqa: RUF001
    "1 x = 1,234.50": (7, None),
    "1 x = $5": (6, None),
    "1 x = 1 < 2 < 3 = true": (12, None),
    '1 x = "a\x07"': (6, None),
    '1 x = "a': (6, None),
    '1 x = "\\x41"': (6, None),
    '1 x = "\\ud800"': (6, "expected a string of whole characters, found half a surrogate pair"),
    "1 x = {a: 1}": (7, "expected a field's name in quotation marks, found 'a'"),
    '1 x = f({"a": 1 + 1 = 2}) = 3': (14, "expected one value, found a working inside another"),
    '1 x = 1 + 1 = {"a": 1, "a": 2}': (23, None),
    '1 x = 1 = {"a": 1, b: 2}': (19, None),
    "1 x = 1 = y": (10, "expected a value, found 'y'"),
    "1 x = 1 = [1 + 1 = 2]": (11, "expected a value, found a working"),
    "0 x = 1": (0, None),
    "1. x = 1": (1, None),
    "1[0].1 x = 1": (1, None),
    "8 else": (6, None),
    "@begin invoice": (14, "expected six hex digits, found the end of the line"),
    "@end 3FA92C": (5, None),
    "@stop": (0, None),
    "- 1 x = 2": (0, None),
    "**1** x = 2": (0, None),
}


@pytest.mark.parametrize("text", WRONG)
def test_says_where_a_line_stops_being_one(text: str) -> None:
    at, why = WRONG[text]
    line = read(text, 50, 50 + len(text))
    assert isinstance(line, Unreadable)
    assert line.wrong_at - 50 == at
    assert why is None or line.why == why


def test_a_value_behind_a_working_may_be_a_list_or_record() -> None:
    line = read('1 x = f(2) = {"a": [1, -5%], "b": {}}', 0, 1)
    assert isinstance(line, Line)
    assert isinstance(line.body, Scalar)
    assert line.body.value == {"a": (1, Fraction(-1, 20)), "b": {}}


def test_brackets_are_counted_outside_strings_only() -> None:
    deep = read("1 x = " + "(" * 61 + "1" + ")" * 61 + " = 1", 0, 1)
    assert isinstance(deep, Unreadable)
    assert (deep.wrong_at, deep.why) == (66, "nested deeper than 60 brackets")
    assert isinstance(read("1 x = " + "(" * 60 + "1" + ")" * 60 + " = 1", 0, 1), Line)
    assert isinstance(read('1 x = "' + ":( [{" * 90 + '"', 0, 1), Line)


@pytest.mark.parametrize("text", ["1 x = {} = 1", "1 x = 1 + {} = 2", "1 x = {}", "1 x = -{}", "1 x = [{}]"])
def test_a_number_of_too_many_digits_is_over_a_limit_and_never_converted(text: str) -> None:
    long = text.format("9" * 5000)
    assert read(long, 10, 9999) == TooLong(limit="40 digits in a number", at=10 + text.index("{"))
    assert isinstance(read(text.format("9" * 40), 0, 9), Line)
    assert isinstance(read(text.format("9" * 20 + "." + "9" * 20), 0, 9), Line)
    assert isinstance(read(text.format("9" * 20 + "." + "9" * 21), 0, 9), TooLong)


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9 = 1",
        "1e999999",
        "9" * 5000,
        "1." + "0" * 5000,
        "NaN",
        "٣٤٥",
        "１２３",  # noqa: RUF001
        "(" * 16_000,
        "[" * 16_000,
        "-" * 16_000 + "1",
        "not " * 4_000 + "true",
        '"' + "\\" * 16_000,
        "if true then " * 1_000 + "1",
        "1 + " * 4_000 + "1",
        "a." * 8_000 + "a",
    ],
    ids=lambda text: text[:12],
)
def test_hostile_values_are_decided_at_once(text: str) -> None:
    read(text, 0, 1)
    line = f"1 x = {text}"
    start = process_time()
    event = read(line, 0, len(line))
    assert process_time() - start < 5  # of some 16,000 characters; quadratic ways take minutes
    assert isinstance(event, Unreadable | TooLong | Line)


@given(st.text(max_size=60), st.text('0123456789.%+-*/()[]{}"\\ aif=,:<>-@tru e', max_size=60))
def test_no_text_makes_reading_raise(anything: str, alike: str) -> None:
    for text in (anything, alike, f"1 x = {alike}", f"2 if {anything}"):
        event = read(text or "x", 0, len(text) + 1)
        assert not isinstance(event, Unreadable) or 0 <= event.wrong_at <= max(len(text), 1)


@pytest.mark.parametrize("part", ["1 + ", "1+", "a.", "-", "not "])
def test_a_line_of_too_many_words_is_over_a_limit_and_read_no_further(part: str) -> None:
    text = "1 a = " + part * 100
    event = read(f"{text}?", 7, len(text) + 9, most=60)
    assert isinstance(event, TooLong)
    assert event.limit == "60 words and signs in a line spelled like this"
    words = text[: event.at - 7].replace(".", " . ").replace("-", " - ").replace("+", " + ")
    assert len(words.split()) == 60


def test_a_line_may_have_as_many_words_as_the_limit_and_what_fits_nothing_is_said_first() -> None:
    assert isinstance(read("1 a = 1 + 1 = 2", 0, 16, most=8), Line)
    assert isinstance(read("1 a = 1 + 1 = 2", 0, 16, most=7), TooLong)
    assert isinstance(read("Let me think" + " about it" * 1_000, 0, 9_013), Unreadable)


def test_the_grammar_is_built_once() -> None:
    assert lark() is lark()

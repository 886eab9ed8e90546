"""Usual lines: read as the grammar reads them, and faster."""

from __future__ import annotations

import json
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.trace.events import Line
from guard.trace.grammar import read
from guard.trace.lines import RawLine
from guard.trace.parser import read_line
from guard.trace.usual import LENGTH, QUOTES, VALUES, usual

USUAL = [
    "5[2].1 part = 4 * 61.20 * (1 - 0%) = 244.80",
    "6 if true and 282.99 >= 200 = true",
    "6 elif not false or -1 < 2 = true",
    "5 for l in order.lines = 2",
    "7 require 5 > 0 = true",
    "8 check 54.90 >= 0 = true",
    "9 return 329.40",
    '7.1 deny "Nothing ordered."',
    '2 country = "DE" <- "deliver to Bonn" <- "Germany"',
    "3 rate = bulk(12, x.y) = 5%",
    "3 rate = bulk(n, line.price) = bulk(12, x.y) = 5%",
    '3 x = a.b = 3 = 3 <- "x"',
    "3 x = 282.99 - min(282.99 * 3%, 25) = 274.50",
    "3 iffy = trueish + format = 3",
    "7 due = 2026-06-01 + 30 days = 2026-07-01",
    "7 due = 2026-01-31 - (n + 2 * 3) months down = 2025-12-31",
    "8 if 2026-06-01 + 2 * 7 days <= 2026-07-01 = true",
    "8 m = zoned(2026-06-01T09:30:00+00:00, x) - 36 hours = 2026-06-01T09:30:00+02:00",
    '9 return {"due": 2026-07-01, "at": [2026-06-01T09:30Z]}',
    '3 x = "a \\" = b" == "c" = false',
    "1 xs = []",
    "1 xs = {}",
    '1 xs = [{"name": "h\\"inge", "qty": 12}, {}, [-1, 5%, [true]], {"a": {"b": false}}] <- "x" <- "y"',
    '9 return {"net": 274.50, "net": "x"}',
    "1 xs = " + "[" * 60 + "]" * 60,
]


@pytest.mark.parametrize("text", USUAL)
def test_usual_lines_are_read_without_the_grammar(text: str) -> None:
    line = RawLine(text, 7, 8 + len(text))
    event = usual(line)
    assert event is not None
    assert event == read(text, line.at, line.end) == read_line(line)


UNUSUAL = [
    "3 x = (1 + (2)) = 3",
    "3  x = 3",
    "3 x = [1,2]",
    "3 x = [1 ]",
    "3 x = [1, ]",
    "3 x = [1}",
    "3 x = [1, 1 + 1 = 2]",
    "3 x = [1] + 2 = 3",
    "3 x = [1]]",
    '3 x = {"a" : 1}',
    '3 x = {"a": 1]',
    '3 x = {"a": 1, "b"}',
    '3 x = {"\\ud800": 1}',
    "3 x = {a: 1}",
    f"3 x = [{'9' * 41}]",
    "1 xs = " + "[" * 61 + "]" * 61,
    "3 x = y",
    "3 x = if true then 1 else 2 = 1",
    "3 if = 3",
    "3 true = 3",
    "3 x = not = 3",
    "3 x = and + 1 = 3",
    '3 x = "\\ud800"',
    '3 x = 1 <- "\\ud800"',
    f"3 x = {'9' * 41} = 1",
    f"3 x = 1 = {'9' * 41}",
    "3 x = 1 < 2 < 3 = true",
    "3 x = 1 \n",
    "3 x = 2026-02-30",
    "3 x = 2026-02-30 + 1 days = 2026-03-01",
    "3 x = [2026-02-30]",
    "3 x = 2026-06-01T24:00:00Z",
    "3 x = 2026-06-01 + 3 days * 2 = 1",
    "3 x = 2026-06-01 * 3 days = 1",
    "3 x = 3 days = 1",
    "3 x = (2026-06-01 + 3 days) - 2026-06-01 = 3",
    "3 x = 2026-06-01 + 3 days down up = 1",
    "3 x = 2026-06-012",
    "3 x = -2026-06-01",
]


@pytest.mark.parametrize("text", UNUSUAL)
def test_what_is_unusual_is_left_to_the_grammar(text: str) -> None:
    assert usual(RawLine(text, 0, len(text) + 1)) is None


PARTS = st.sampled_from(
    [
        "1",
        "5[2].1",
        "x",
        "net",
        "=",
        "if",
        "elif",
        "for",
        "in",
        "require",
        "check",
        "return",
        "deny",
        "true",
        "false",
        "not",
        "and",
        "or",
        "div",
        "mod",
        "then",
        "else",
        "3",
        "61.20",
        "5%",
        "-4",
        "(",
        ")",
        "+",
        "-",
        "*",
        "/",
        "<",
        ">=",
        "==",
        ",",
        "[",
        "]",
        "{",
        "}",
        ":",
        ".",
        "min(",
        "sum(",
        '"a"',
        '"b\\n"',
        "<-",
        "o.p",
        "2026-06-01",
        "2026-02-30",
        "2026-06-01T09:30:00+02:00",
        "days",
        "months",
        "down",
        "@end",
    ]
)


@given(st.lists(PARTS, max_size=14), st.lists(PARTS, max_size=9))
def test_what_the_fast_reader_takes_the_grammar_takes_with_the_same_event(
    parts: list[str], working: list[str]
) -> None:
    for text in (
        " ".join(parts),
        f"1 x = {' '.join(working)} = 3",
        f"1 x = {' '.join(parts)} = {' '.join(working)} = 3",
        f"1 x = a.b + 2 = {' '.join(working)} = 3",
        f"1 x = {' '.join(working).replace('( ', '(').replace(' )', ')')} = 3",
    ):
        event = usual(RawLine(text, 3, 4 + len(text)))
        assert event is None or event == read(text, 3, 4 + len(text))


PLAIN = st.recursive(
    st.one_of(st.integers(-999, 999), st.booleans(), st.text('ab"\\\n\u00e9]}, ', max_size=5)),
    lambda part: (
        st.lists(part, max_size=3) | st.dictionaries(st.text("ab", min_size=1, max_size=2), part, max_size=3)
    ),
    max_leaves=12,
)


@given(PLAIN, st.integers(0, 200), st.sampled_from(["", " ", ",", "]", "}", '"', "1", " = 1"]))
def test_plain_values_are_read_as_the_grammar_reads_them(value: object, place: int, other: str) -> None:
    text = f"1 x = {json.dumps(value, ensure_ascii=False)}"
    event = usual(RawLine(text, 3, 4 + len(text)))
    assert event is not None
    assert event == read(text, 3, 4 + len(text))
    changed = text[: place % len(text)] + other + text[place % len(text) + 1 :]
    event = usual(RawLine(changed, 3, 4 + len(changed)))
    assert event is None or event == read(changed, 3, 4 + len(changed))


@pytest.mark.parametrize(
    "text",
    ["1 x = " + "a." * 8000, "1 x = " + "(" * 16_000, '1 x = "' + "\\\\" * 8000, "1 x = " + "1 + " * 4000 + "= 1",
     "1 x = " + "f(" * 5000, "1 x = " + "-" * 16_000, "1" * 16_000, "1 x = " + "[" * 16_000, "1 x = [" + "1, " * 5000, "1 x = {" + '"a": 1, ' * 2000, "1[1]." * 3000, "1 x = 1" + ' <- "a"' * 2500],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_no_line_takes_the_fast_reader_more_than_linear_time(text: str) -> None:
    usual(RawLine("1 x = 1", 0, 8))
    start = process_time()
    usual(RawLine(text, 0, len(text)))
    assert process_time() - start < 5


@pytest.mark.parametrize(
    ("most", "line", "part"),
    [
        (VALUES, "1 a = [PART1]", "1, "),
        (VALUES, '1 a = {PART"a": 1}', '"a": 1, '),
        (QUOTES, "1 a = 1PART", ' <- "a"'),
    ],
)
def test_lists_records_and_quotes_have_limits(most: int, line: str, part: str) -> None:
    count = most - line.count("1]") - line.count("1}")
    as_long, longer = (line.replace("PART", part * count) for count in (count, count + 1))
    event = usual(RawLine(as_long, 0, len(as_long) + 1))
    assert event is not None
    assert event == read(as_long, 0, len(as_long) + 1, most=10_000)
    assert usual(RawLine(longer, 0, len(longer) + 1)) is None


def test_a_line_of_one_value_has_a_limit_too() -> None:
    for count, taken in ((LENGTH - 12, True), (LENGTH - 11, False)):
        text = f'1 x = "{"a" * count}" = 1'
        assert len(text) == count + 12
        assert (usual(RawLine(text, 0, len(text) + 1)) is not None) is taken
        assert isinstance(read_line(RawLine(text, 0, len(text) + 1)), Line)

"""Quotes and their sources: where they stand, and whether they say the value."""

from __future__ import annotations

import time
from datetime import date
from fractions import Fraction
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.check import quotes as quotes_module
from guard.check.checker import Checker
from guard.check.quotes import READ, Doubt, Sources
from guard.check.report import report
from guard.check.verdict import Kind, Verdict
from guard.procedure.execute import Program
from guard.procedure.expected import Decision
from guard.procedure.load import load
from guard.procedure.model import Quoting
from guard.procedure.types import (
    NULL,
    BoolType,
    DateType,
    DecimalType,
    EnumType,
    FieldType,
    IntType,
    ListType,
    OptionalType,
    PercentType,
    RecordType,
    StringType,
    Type,
    Value,
)
from tests import spelling

LINE: Final = RecordType((FieldType("name", StringType()), FieldType("qty", IntType())))


NUMBER: Final = IntType()


def decision(*texts: str, kind: Type = NUMBER, quote: Quoting = Quoting.SUPPORTING) -> Decision:
    sources = tuple((f"source{index}", text) for index, text in enumerate(texts))
    return Decision(type=kind, sources=sources, quote=quote, admissible=lambda _: None)


def doubt(note: str, kind: Type, value: Value, *quotes: str) -> Doubt | None:
    return Sources().doubt(decision(note, kind=kind), value, quotes)


def stands(quote: str, *texts: str) -> bool:
    """Whether a quote stands in a source: that is all that a loose one must do."""
    return Sources().doubt(decision(*texts, quote=Quoting.LOOSE), 1, [quote]) is None


# --- where a quote stands ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "quote",
    ["twelve hinges", " twelve \t\n hinges ", "Twelve", "twelve\u2003hinges", "cafe\u0301", "caf\u00e9", "."],
)
def test_white_space_and_composition_do_not_matter(quote: str) -> None:
    assert stands(quote, "Twelve. I mean twelve\r\n\r\nhinges for the cafe\u0301")


@pytest.mark.parametrize(
    "quote", ["", " ", "\n", "TWLV", "twlvhings", "hings twlv", "cafe", "e", "tw", "ings"]
)
def test_everything_else_does(quote: str) -> None:
    assert not stands(quote, "twlv hings caf\u0065\u0301, two")


@given(st.text("ab1 ,_\u00e9", min_size=1, max_size=12), st.data())
def test_a_quote_is_whole_words(text: str, data: st.DataObject) -> None:
    source = " ".join(text.split())
    start = data.draw(st.integers(0, len(source)))
    end = data.draw(st.integers(start, len(source)))
    quote = source[start:end].strip()
    words = "ab1_\u00e9"
    cut = [
        bool(quote)
        and source[at : at + len(quote)] == quote
        and not (at and source[at - 1] in words and quote[0] in words)
        and not (source[at + len(quote) : at + len(quote) + 1] in tuple(words) and quote[-1] in words)
        for at in range(len(source))
    ]
    assert stands(quote, text) is any(cut)


def test_a_quote_may_come_from_any_source_but_not_from_two() -> None:
    two = ("one two", "three four")
    assert stands("one two", *two)
    assert stands("four", *two)
    assert not stands("two three", *two)
    assert not stands("x")


# --- what it must say --------------------------------------------------------------------------------

NOTE: Final = (
    "Order A5 of 2026-01-02: twelve Hinges at 3.35 EUR, 1,250 screws and 4 oak panels, 61.20 each; 7.5% off, "
    "1.2 million cycles, minus 5 degrees, ready by 3 March 2026 at 9:30."
)
DECIMAL: Final = DecimalType(2)
MODE: Final = EnumType(("express", "standard"))


@pytest.mark.parametrize(
    ("kind", "value", "quote"),
    [
        (IntType(), 12, "twelve Hinges"),
        (IntType(), 1250, "1,250 screws"),
        (IntType(), 4, "4"),
        (IntType(), -5, "minus 5 degrees"),
        (IntType(), 1_200_000, "1.2 million cycles"),
        (DECIMAL, Fraction("3.35"), "at 3.35 EUR"),
        (DECIMAL, Fraction("61.2"), "panels, 61.20"),
        (PercentType(), Fraction("0.075"), "7.5% off"),
        (DateType(), date(2026, 1, 2), "of 2026-01-02"),
        (DateType(), date(2026, 3, 3), "by 3 March 2026"),
        (StringType(), "hinges", "twelve Hinges"),
        (StringType(), "Oak Panels", "4 oak panels"),
        (StringType(), "A5", "Order A5"),
        (MODE, "express", "ready by"),
        (BoolType(), True, "degrees"),
        (OptionalType(IntType()), 4, "and 4 oak"),
        (LINE, {"name": "hinges", "qty": 12}, "twelve Hinges"),
    ],
)
def test_a_value_that_is_readable_in_its_quote_is_supported(kind: Type, value: Value, quote: str) -> None:
    assert doubt(NOTE, kind, value, quote) is None


@pytest.mark.parametrize(
    ("kind", "value", "quote", "lacking"),
    [
        (IntType(), 20, "twelve Hinges", "20"),
        (IntType(), 12, ",", "12"),
        (IntType(), 12, "Hinges at", "12"),
        (IntType(), 12, "1,250 screws", "12"),
        (IntType(), 1, "1", "1"),  # of 1,250, and of 1.2 million
        (IntType(), 250, "250 screws", "250"),
        (IntType(), 2, "of 2026-01-02", "2"),
        (IntType(), 2026, "of 2026-01-02", "2026"),
        (IntType(), 5, "Order A5", "5"),
        (IntType(), 5, "minus 5 degrees", "5"),
        (IntType(), 2, "1.2 million", "2"),
        (IntType(), 2, "2 million", "2"),
        (IntType(), 1, "1.2 million", "1"),
        (IntType(), 9, "at 9:30", "9"),
        (IntType(), 3, "3 March 2026", "3"),
        (IntType(), 335, "3.35 EUR", "335"),
        (DECIMAL, Fraction("3.3"), "3.35 EUR", "3.30"),
        (DECIMAL, Fraction("0.35"), "35 EUR", "0.35"),
        (DECIMAL, Fraction("12.5"), "1,250 screws", "12.50"),
        (PercentType(), Fraction("0.75"), "7.5% off", "75%"),
        (PercentType(), Fraction("7.5"), "7.5% off", "750%"),
        (DateType(), date(2026, 3, 2), "by 3 March 2026", "2026-03-02"),
        (DateType(), date(2026, 2, 1), "of 2026-01-02", "2026-02-01"),
        (StringType(), "hinge", "twelve Hinges", '"hinge"'),
        (StringType(), "oak hinges", "4 oak panels", '"oak hinges"'),
        (StringType(), "5", "Order A5", '"5"'),
        (LINE, {"name": "hinges", "qty": 4}, "twelve Hinges", "4"),
        (LINE, {"name": "panels", "qty": 12}, "twelve Hinges", '"panels"'),
        (OptionalType(IntType()), 7, "and 4 oak", "7"),
    ],
)
def test_a_value_that_is_not_is_none(kind: Type, value: Value, quote: str, lacking: str) -> None:
    assert doubt(NOTE, kind, value, quote) == Doubt(index=0, expected=f"words of source0 that say {lacking}")
    loose = decision(NOTE, kind=kind, quote=Quoting.LOOSE)
    assert Sources().doubt(loose, value, [quote]) is None


NUMBERS = st.integers(2, 99_999) | st.builds(Fraction, st.integers(1, 9999), st.sampled_from([10, 100]))
TEXT: Final = "a b, c. d (e) f"


@given(NUMBERS, NUMBERS, st.integers(0, 5), st.integers(0, 5), st.data())
def test_a_quote_supports_the_values_that_stand_in_it_and_no_others(
    value: Any, other: Any, near: int, far: int, data: st.DataObject
) -> None:
    spelled = data.draw(st.sampled_from(list(spelling.spellings(value))))
    words = TEXT.split()
    source = " ".join([*words[:near], spelled, *words[near:], *words])
    start = data.draw(st.integers(0, near))
    end = data.draw(st.integers(near, near + far))
    inside = " ".join([*words[start:near], spelled, *words[near:end]])
    kind = DecimalType()
    assert doubt(source, kind, value, inside) is None
    beside = " ".join([*words[near:], *words][: far + 1])
    assert doubt(source, kind, value, beside) is not None
    convention = {value, Fraction(value) * 1000, Fraction(value) / 1000, value - Fraction(1, 2), 1, 2}
    if other not in convention:
        assert doubt(source, kind, other, inside) is not None


# --- how many ----------------------------------------------------------------------------------------

LINES: Final = ListType(LINE)
TWO: Final[tuple[Value, ...]] = ({"name": "hinges", "qty": 12}, {"name": "oak panels", "qty": 4})


@pytest.mark.parametrize(
    ("value", "quotes", "index", "expected"),
    [
        (TWO, ("twelve Hinges", "4 oak panels"), None, None),
        (TWO[::-1], ("4 oak panels", "twelve Hinges"), None, None),
        (TWO, ("twelve Hinges at 3.35 EUR, 1,250 screws and 4 oak panels",) * 2, None, None),
        ((), (), None, None),
        ((), ("twelve",), None, None),
        (TWO, ("4 oak panels", "twelve Hinges"), 0, 'words of source0 that say "hinges"'),
        (TWO, ("twelve Hinges", "twelve Hinges"), 1, 'words of source0 that say "oak panels"'),
        (TWO, ("twelve Hinges and",), 0, "words that stand in source0"),
        (TWO, ("twelve Hinges at",), 0, "a quote for each item, 2 in all"),
        (TWO, ("twelve Hinges", "4 oak panels", "each"), 2, "a quote for each item, 2 in all"),
    ],
)
def test_a_list_has_a_quote_for_each_item(
    value: Value, quotes: tuple[str, ...], index: int | None, expected: str | None
) -> None:
    found = doubt(NOTE, LINES, value, *quotes)
    assert found == (None if expected is None else Doubt(index=index, expected=expected))


def test_a_record_may_have_a_quote_for_each_field() -> None:
    value: Value = {"name": "screws", "qty": 12}
    assert doubt(NOTE, LINE, value, "twelve", "screws") is None
    assert doubt(NOTE, LINE, value, "twelve", "Hinges") == Doubt(
        index=0, expected='words of source0 that say "screws"'
    )


def test_what_is_null_or_empty_needs_no_quote_and_any_other_value_does() -> None:
    missing = Doubt(index=None, expected='a quote from source0 behind the value: <- "..."')
    for quoting in Quoting:
        maybe = decision(NOTE, kind=OptionalType(IntType()), quote=quoting)
        assert Sources().doubt(maybe, NULL, []) is None
        assert Sources().doubt(maybe, NULL, ["twelve"]) is None
        assert Sources().doubt(maybe, NULL, ["thirteen"]) == Doubt(
            index=0, expected="words that stand in source0"
        )
        assert Sources().doubt(maybe, 4, []) == missing
        assert Sources().doubt(decision(NOTE, kind=LINES, quote=quoting), (), []) is None


def test_there_are_no_more_quotes_than_could_be_of_use() -> None:
    assert doubt(NOTE, IntType(), 12, *["twelve"] * 8) is None
    assert doubt(NOTE, IntType(), 12, *["twelve"] * 9) == Doubt(index=8, expected="at most 8 quotes")


# --- what it costs -----------------------------------------------------------------------------------


def test_many_quotes_of_a_long_source_take_one_passage_through_it() -> None:
    """Each from the beginning, they would go through more than may be searched."""
    source = "".join(f"item {number} costs {number} EUR; " for number in range(30_000))
    items = tuple(range(1000, 29_000, 400))
    sources = Sources()
    asked = decision(source, kind=ListType(IntType()))
    began = time.process_time()
    assert sources.doubt(asked, items, [f"item {number} costs {number} EUR" for number in items]) is None
    assert sources.doubt(asked, items, [f"item {number} costs 7 EUR" for number in items]) is not None
    assert sources.doubt(asked, items, ["s"] * len(items)) is not None
    assert time.process_time() - began < 5


def test_a_search_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "first " + "word " * 100 + "last"
    both = decision(source, kind=ListType(StringType()))
    backwards = ("last", "first") * 10
    assert Sources().doubt(both, backwards, backwards) is None
    monkeypatch.setattr(quotes_module, "SEARCHED", 5_000)
    found = Sources().doubt(both, backwards, backwards)
    assert found is not None
    assert (found.beyond, found.expected) == (True, "quotes found in 5,000 characters")


REPEATED: Final = {
    "numbers": ("5 " * 200_000, 15_000),
    "words": ("word 5, " * 50_000, 15_000),
    "without a word's end": ("漢字" * 200_000, 14_999),
    "short": ("5 " * 200_000, 1),
}


@pytest.mark.parametrize("shape", REPEATED)
def test_a_quote_that_stands_everywhere_is_read_a_few_times(shape: str) -> None:
    """Its places read each in full, or sought in a word without end, take a second and more."""
    source, length = REPEATED[shape]
    began = time.process_time()
    for _ in range(5):
        assert Sources().doubt(decision(source), 7, [source[:length].strip()]) is not None
    assert time.process_time() - began < 2.5


def test_of_long_quotes_only_so_much_is_read() -> None:
    source = "word " * (READ // 5) + "12 end"
    found = Sources().doubt(decision(source), 12, [source])
    assert found is not None
    assert (found.beyond, found.expected) == (True, "quotes of 8,000 characters, read wherever they stand")
    assert Sources().doubt(decision(source), 12, [source[-READ // 2 :].partition(" ")[2]]) is None


# --- in a trace --------------------------------------------------------------------------------------

PROGRAM: Final[Program] = load(
    "procedure p(note: text) -> int\n"
    "  extract n: int from note quote\n"
    "  extract m: int from note quote loosely\n"
    "  extract k: int? from note quote\n"
    '  judge ok: bool from note asking "Is it?"\n'
    "  return n + m\n"
).procedures["p"]
TRACE: Final = (
    '@begin p 3fa92c\n1 n = 12 <- "twelve"\n2 m = 5 <- "Hinges"\n3 k = null\n4 ok = true <- "off"\n'
    "5 return 12 + 5 = 17\n@end 3fa92c\n"
)


def checked(text: str) -> Checker:
    checker = Checker(PROGRAM, {"note": NOTE}, nonce="3fa92c", stop_at_first=False)
    checker.feed(text)
    checker.close()
    return checker


def test_supported_and_unsupported_values_are_counted_apart() -> None:
    checker = checked(TRACE)
    assert checker.verdict is Verdict.PASSED
    assert checker.supported == {"1"}
    steps = report(checker).steps
    assert (steps.model_decided, steps.supported, steps.unsupported) == (4, 1, 3)
    assert steps.to_json()["supported"] == 1


def test_a_violation_says_which_quote_lacks_what() -> None:
    checker = checked(TRACE.replace('n = 12 <- "twelve"', 'n = 13 <- "twelve"').replace("12 +", "13 +"))
    violation = checker.violation
    assert violation is not None
    assert (violation.kind, violation.step, violation.expected, violation.found) == (
        Kind.UNGROUNDED_VALUE,
        "1",
        "words of note that say 13",
        "twelve",
    )
    assert violation.at == TRACE.index('"twelve"')
    assert checker.supported == frozenset()

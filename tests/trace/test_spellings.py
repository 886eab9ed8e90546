"""Numbers, days and times in texts: every spelling is read back exactly, and no part of one is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.procedure.types import DatetimeType, DateType, DecimalType, IntType, PercentType, Type, Unit, Value
from guard.trace.languages import LANGUAGES
from guard.trace.numberwords import below_thousand, number_words
from guard.trace.spellings import spelled_in
from guard.trace.support import Reading, flat
from tests import spelling

wholes = st.integers(0, 20) | st.integers(0, 9_999_999) | st.integers(1, 999).map(lambda n: n * 1000)
decimals = st.builds(Fraction, st.integers(0, 10_000_000), st.sampled_from([1, 2, 10, 100, 1000]))
percentages = st.integers(0, 1000).map(lambda n: Fraction(n, 1000))
days = st.dates(date(1000, 1, 1), date(9998, 12, 31)) | st.dates(date(1990, 1, 1), date(2030, 12, 31))
offsets = st.integers(-12, 14).map(lambda hours: timezone(timedelta(hours=hours)))
instants = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=offsets).map(  # noqa: DTZ001
    lambda moment: moment.replace(microsecond=0)
)
around = st.sampled_from(spelling.AROUND)


def supports(text: str, value: Value, kind: Type) -> bool:
    return all(Reading(flat(text)).places(value, kind))


def drawn(
    values: st.SearchStrategy[Any], spellings: Callable[[Any], Iterator[str]]
) -> st.SearchStrategy[Any]:
    """A value with one of its spellings."""
    return values.flatmap(lambda value: st.tuples(st.just(value), st.sampled_from(list(spellings(value)))))


@given(drawn(wholes | decimals, spelling.spellings), around)
def test_every_spelling_of_a_number_is_read(drawn: tuple[Any, str], place: str) -> None:
    value, text = drawn
    assert supports(place.format(text), value, DecimalType()), text
    if Fraction(value).denominator == 1:
        assert supports(place.format(text), int(value), IntType())


@given(drawn(percentages, spelling.shares), around)
def test_every_spelling_of_a_percentage_is_read(drawn: tuple[Fraction, str], place: str) -> None:
    value, text = drawn
    assert supports(place.format(text), value, PercentType()), text


@given(drawn(days, spelling.dates), around)
def test_every_spelling_of_a_day_is_read(drawn: tuple[date, str], place: str) -> None:
    value, text = drawn
    assert supports(place.format(text), value, DateType()), text
    assert not supports(place.format(text), value + timedelta(days=31 * 7), DateType())


@given(drawn(instants, spelling.moments), around)
def test_every_spelling_of_a_moment_is_read(drawn: tuple[datetime, str], place: str) -> None:
    value, text = drawn
    assert supports(place.format(text), value, DatetimeType()), text
    assert not supports(place.format(text), value + timedelta(minutes=1), DatetimeType())


@given(drawn(wholes | decimals, spelling.spellings), around)
def test_a_spelling_stands_for_one_value_or_for_those_of_its_conventions(
    drawn: tuple[Any, str], place: str
) -> None:
    value, text = drawn
    read = {number for one in spelled_in(flat(place.format(text))) for number in one.numbers}
    assert value in read
    assert len(read) == 1 or re.search(r"\b[0-9]{1,3}\.[0-9]{3}\b|/", text), text


@given(
    st.integers(2, 999).flatmap(lambda n: st.tuples(st.just(n), st.sampled_from(list(spelling.longer(n))))),
    around,
)
def test_a_number_in_something_longer_is_none(drawn: tuple[int, str], place: str) -> None:
    value, text = drawn
    assert not supports(place.format(text), value, IntType()), text


@pytest.mark.parametrize(
    "text", ["12 in 1250", "5 in A5 and 5", "2026-01-02 or 2", "No. 5", "Nr.5", "96/5", "4x5", "5x4"]
)
def test_a_number_beside_something_longer_is_one(text: str) -> None:
    value = next(n for n in (12, 5, 2) if str(n) in text.replace("1250", "").replace("2026-01-02", ""))
    assert supports(text, value, IntType())


@given(st.integers(0, 999_999))
def test_words_of_each_language_are_read_whole(value: int) -> None:
    for words in (spelling.in_english(value).replace("-", " ").split(), [spelling.in_german(value)]):
        assert number_words(words) == (value, len(words))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_has_all_numbers_and_months(language: Any) -> None:
    assert set(below_thousand(language).values()) == set(range(1000))
    assert len(language.months) == 12


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1.250", {1250, Fraction(5, 4)}),
        ("1,250", {1250}),
        ("0,250", {Fraction(1, 4)}),
        ("1.250,00", {1250}),
        ("1,250.00", {1250}),
        ("12 500", {12500}),
        ("1.2.3", set()),
        ("1,2,3", {1, 2, 3}),
        ("1,00,000", {100_000}),
        ("3/4 cup", {Fraction(3, 4), 3, 4}),
        ("96/60", {96, 60}),
        ("2 1/2", {Fraction(5, 2)}),
        ("4-6 weeks", {4, 6}),
        ("twenty or thirty", {20, 30}),
        ("two, three", {2, 3}),
        ("one two", {1, 2}),
        ("two and four", {2, 4}),
        ("5%", {5, Fraction(1, 20)}),
        ("$3m", {3_000_000}),
        ("3 m", {3}),
        ("an elf", {11}),
        ("9" * 41, set()),
        ("1e99", set()),
        ("9 am", {9}),
        ("\u0663", set()),
        ("", set()),
    ],
)
def test_what_a_text_is_read_as(text: str, values: set[Any]) -> None:
    assert {number for one in spelled_in(text) for number in one.numbers} == values


def test_a_number_in_a_unit_with_a_scale_may_leave_the_magnitude_to_it() -> None:
    millions = DecimalType(1, Unit((("million", 1),), (("EUR", 1),), (10**6, 1), (("EUR", 1),)))
    assert supports("1.2 million EUR", Fraction(6, 5), millions)
    assert supports("1,200,000 EUR", 1_200_000, millions)
    assert not supports("1.2 million EUR", Fraction(6, 5), DecimalType(1))


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("2026-06-01T09:30:00Z", True),
        ("2026-06-01T11:30:00+02:00", True),
        ("2026-06-01T09:30:00+02:00", False),
        ("1 June 2026, 9:30", True),
        ("2 June 2026, 9:30", False),
        ("1 June 2026, 9:31", False),
        ("9:30", False),
        ("1 June 2026", False),
    ],
)
def test_a_moment_has_its_day_and_time_and_its_offset_where_that_is_written(
    text: str, *, right: bool
) -> None:
    assert supports(text, datetime(2026, 6, 1, 9, 30, tzinfo=UTC), DatetimeType()) is right


@given(
    st.text(st.sampled_from("0123456789.,:/-+ eE%x\u00bd$\u20acabmp'Jun and thousand"), max_size=60)
    | st.text()
)
def test_any_text_is_read_and_its_places_are_in_order(text: str) -> None:
    end = -1
    for one in spelled_in(flat(text)):
        assert 0 <= one.at < one.end <= len(flat(text))
        assert one.end > end or one.at >= 0
        end = one.end


@pytest.mark.parametrize(
    "piece", ["1", "1.", "1,", "1 ", "1-", "1/", "one ", "one-", "a", "$", "-", "1:1", "May ", "twenty "]
)
def test_a_long_text_takes_time_in_proportion(piece: str) -> None:
    """The work is counted as spellings and letters looked at; quadratic, this would take minutes."""
    assert sum(1 for _ in spelled_in(piece * 5_000)) <= 5_001

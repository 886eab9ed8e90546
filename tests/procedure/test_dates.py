"""Dates and moments: spelling, ends of months, the bounds of the calendar, zones."""

from __future__ import annotations

from calendar import isleap
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.procedure.dates import (
    UNITS,
    OutOfRange,
    at_position,
    between,
    is_date,
    is_zone,
    kept,
    moment_at,
    moved,
    parse_date,
    parse_moment,
    position,
    shifted,
    spelled,
    suggested_zone,
    whats_wrong,
)
from guard.procedure.types import DatetimeType, DateType
from guard.procedure.values import answer_text, conforms, equal, from_json, json_text, spell

OFFSETS = st.integers(-86_399, 86_399).map(lambda seconds: timezone(timedelta(seconds=seconds)))
MOMENTS = st.builds(lambda moment, zone: moment.replace(microsecond=0, tzinfo=zone), st.datetimes(), OFFSETS)


@given(st.dates())
def test_a_date_is_read_as_it_is_spelled(day: date) -> None:
    assert parse_date(spelled(day)) == day
    assert at_position(position(day)) == day
    assert is_date(day)


@given(MOMENTS)
def test_a_moment_is_read_as_it_is_spelled(moment: datetime) -> None:
    read = parse_moment(spelled(moment))
    assert read is not None
    assert (read, read.utcoffset()) == (moment, moment.utcoffset())
    assert not is_date(read)


@given(MOMENTS, MOMENTS)
def test_moments_are_in_the_order_of_their_positions(one: datetime, other: datetime) -> None:
    assert (one < other) == (position(one) < position(other))
    assert between(one, other) == position(one) - position(other) == -between(other, one)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-6-01",
        "2026-06-1",
        "26-06-01",
        "12026-06-01",
        "2026-06-01 ",
        "2026-06-01\n",
        "2026/06/01",
        "20260601",
        "2026-W23-1",
        "2026-152",
        "2026-02-30",
        "2025-02-29",
        "1900-02-29",
        "2026-13-01",
        "2026-00-01",
        "2026-01-00",
        "0000-01-01",
        "２０２６-06-01",  # noqa: RUF001
        "٢٠٢٦-06-01",
        "-2026-06-01",
        "2026-06-01T09:30:00Z",
        "9" * 100_000,
    ],
)
def test_no_other_text_is_a_date(text: str) -> None:
    assert parse_date(text) is None


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("2026-06-01T09:30:00+02:00", "2026-06-01T09:30:00+02:00"),
        ("2026-06-01T09:30+02:00", "2026-06-01T09:30:00+02:00"),
        ("2026-06-01T09:30:00Z", "2026-06-01T09:30:00+00:00"),
        ("2026-06-01T09:30:00-00:00", "2026-06-01T09:30:00+00:00"),
        ("1890-06-01T00:00:00+00:53:28", "1890-06-01T00:00:00+00:53:28"),
        ("2026-06-01T23:59:59-23:59", "2026-06-01T23:59:59-23:59"),
    ],
)
def test_a_moment_has_one_canonical_spelling(text: str, canonical: str) -> None:
    assert spell(from_json(text, DatetimeType()), DatetimeType()) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "2026-06-01",
        "2026-06-01T09:30:00",
        "2026-06-01 09:30:00Z",
        "2026-06-01t09:30:00z",
        "2026-06-01T09:30:00.5Z",
        "2026-06-01T24:00:00Z",
        "2026-06-01T09:60:00Z",
        "2026-06-01T09:30:60Z",
        "2026-06-01T09:30:00+24:00",
        "2026-06-01T09:30:00+2:00",
        "2026-06-01T09:30:00+0200",
        "2026-06-01T09:30:00+02:00[Europe/Berlin]",
        "2026-02-30T09:30:00Z",
        "20260601T093000Z",
    ],
)
def test_no_other_text_is_a_moment(text: str) -> None:
    assert parse_moment(text) is None
    with pytest.raises(ValueError, match="expected a date with time and offset"):
        from_json(text, DatetimeType())


@pytest.mark.parametrize(
    "raw", [20260601, 1.5, None, True, [], {}, "2026-02-30", datetime(2026, 6, 1, tzinfo=UTC)]
)
def test_nothing_else_in_json_is_a_date(raw: object) -> None:
    with pytest.raises(ValueError, match="expected a date such as 2026-06-01"):
        from_json(raw, DateType())


def test_a_date_and_a_moment_are_no_values_of_each_other() -> None:
    day, moment = date(2026, 6, 1), datetime(2026, 6, 1, tzinfo=UTC)
    assert conforms(day, DatetimeType()) is not None
    assert conforms(moment, DateType()) is not None
    assert not equal(day, moment)
    assert not equal(day, "2026-06-01")


def test_in_an_answer_dates_are_bare_and_in_json_strings() -> None:
    day = date(2026, 6, 1)
    assert answer_text(day, DateType()) == "2026-06-01"
    assert json_text(day, DateType()) == '"2026-06-01"'


def test_a_moment_is_the_same_value_only_with_its_offset() -> None:
    here = from_json("2026-06-01T09:30:00+02:00", DatetimeType())
    there = from_json("2026-06-01T07:30:00Z", DatetimeType())
    assert here == there
    assert not equal(here, there)
    assert equal(here, from_json("2026-06-01T09:30+02:00", DatetimeType()))


def test_a_clocks_moment_is_kept_in_whole_seconds() -> None:
    moment = datetime(2026, 6, 1, 9, 30, 7, 999_999, tzinfo=UTC)
    assert spelled(kept(moment)) == "2026-06-01T09:30:07+00:00"
    with pytest.raises(ValueError, match="zone"):
        kept(moment.replace(tzinfo=None))


@pytest.mark.parametrize(
    ("text", "why", "instead"),
    [
        ("2026-02-30", "there is no day 2026-02-30", "from 2026-02-01 to 2026-02-28"),
        ("2024-02-30", "there is no day 2024-02-30", "from 2024-02-01 to 2024-02-29"),
        ("2026-06-00", "there is no day 2026-06-00", "from 2026-06-01 to 2026-06-30"),
        ("2026-13-01", "there is no month 13", "2026-06-01"),
        ("0000-01-01", "years are counted from 0001", "0001 to 9999"),
        ("2026-06-01T25:00Z", "there is no time 25:00Z", "T09:30:00+02:00"),
    ],
)
def test_says_what_is_wrong_with_a_date(text: str, why: str, instead: str) -> None:
    found, advice = whats_wrong(text)
    assert found == why
    assert instead in advice


# --- calculating ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("day", "amount", "unit", "mode", "then"),
    [
        ("2026-01-31", 1, "months", "down", "2026-02-28"),
        ("2026-01-31", 1, "months", "up", "2026-03-01"),
        ("2024-01-31", 1, "months", "down", "2024-02-29"),
        ("2024-01-30", 1, "months", "up", "2024-03-01"),
        ("2026-03-31", -1, "months", "down", "2026-02-28"),
        ("2026-03-31", -1, "months", "up", "2026-03-01"),
        ("2026-01-28", 1, "months", "up", "2026-02-28"),
        ("2025-12-31", 2, "months", "down", "2026-02-28"),
        ("2026-01-31", -2, "months", "down", "2025-11-30"),
        ("2024-02-29", 1, "years", "down", "2025-02-28"),
        ("2024-02-29", 1, "years", "up", "2025-03-01"),
        ("2024-02-29", 4, "years", "up", "2028-02-29"),
        ("1896-02-29", 4, "years", "down", "1900-02-28"),
        ("2026-12-31", 1, "days", None, "2027-01-01"),
        ("2024-02-28", 1, "days", None, "2024-02-29"),
        ("2026-06-01", -1, "weeks", None, "2026-05-25"),
        ("9999-12-31", 0, "months", "up", "9999-12-31"),
        ("9999-11-30", 1, "months", "up", "9999-12-30"),
        ("0001-01-31", 0, "days", None, "0001-01-31"),
    ],
)
def test_ends_of_months_and_years(day: str, amount: int, unit: str, mode: str | None, then: str) -> None:
    assert spelled(shifted(date.fromisoformat(day), amount, unit, mode)) == then


@given(
    st.dates(date(1000, 1, 1), date(3000, 1, 1)), st.integers(-9000, 9000), st.sampled_from(["down", "up"])
)
def test_a_month_later_is_the_same_day_or_the_nearest_that_the_mode_says(
    day: date, months: int, mode: str
) -> None:
    then = shifted(day, months, "months", mode)
    whole = then.year * 12 + then.month - day.year * 12 - day.month
    if then.day == day.day:
        assert whole == months
    elif mode == "down":
        assert whole == months
        assert then.day < day.day
        assert (then + timedelta(days=1)).day == 1
    else:
        assert (whole, then.day) == (months + 1, 1)


@given(
    st.dates(), st.integers(-(10**50), 10**50), st.sampled_from(UNITS[:4]), st.sampled_from(["down", "up"])
)
def test_a_date_is_in_the_calendar_or_out_of_range(day: date, amount: int, unit: str, mode: str) -> None:
    try:
        then = shifted(day, amount, unit, mode)
    except OutOfRange:
        assert amount != 0
    else:
        assert is_date(then)
        assert (then > day) == (amount > 0)


@given(MOMENTS, st.integers(-(10**13), 10**13) | st.integers(-9, 9), st.sampled_from(UNITS))
def test_a_moment_keeps_its_offset(moment: datetime, amount: int, unit: str) -> None:
    try:
        then = shifted(moment, amount, unit, "down")
    except OutOfRange:
        return
    assert isinstance(then, datetime)
    assert then.utcoffset() == moment.utcoffset()
    assert moment_at(position(moment)) == moment or moment.year in (1, 9999)


@given(st.dates(date(2, 1, 1), date(9998, 1, 1)))
def test_a_year_has_as_many_days_as_it_has(day: date) -> None:
    first = day.replace(month=1, day=1)
    assert between(shifted(first, 1, "years", "down"), first) == 365 + isleap(day.year)


# --- zones ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "then"),
    [
        ("Europe/Berlin", "2026-03-29T03:30:00+02:00"),
        ("America/New_York", "2026-03-28T21:30:00-04:00"),
        ("UTC", "2026-03-29T01:30:00+00:00"),
        ("+05:30", "2026-03-29T07:00:00+05:30"),
    ],
)
def test_a_moment_has_another_offset_in_another_zone(zone: str, then: str) -> None:
    moment = parse_moment("2026-03-29T01:30:00Z")
    assert moment is not None
    assert spelled(moved(moment, zone)) == then


def test_clocks_that_are_set_back_give_an_hour_twice() -> None:
    hours = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]
    moments = [moment for moment in map(parse_moment, hours) if moment is not None]
    assert [spelled(moved(moment, "Europe/Berlin")) for moment in moments] == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T02:30:00+01:00",
    ]


def test_old_offsets_have_seconds() -> None:
    moment = parse_moment("1890-01-01T00:00:00Z")
    assert moment is not None
    assert spelled(moved(moment, "Europe/Berlin")) == "1890-01-01T00:53:28+00:53:28"


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_the_ends_of_the_calendar_have_no_other_zone(text: str) -> None:
    moment = parse_moment(text)
    assert moment is not None
    with pytest.raises(OutOfRange):
        moved(moment, "-09:00" if text.startswith("0001") else "+09:00")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Europe",
        "Europe/Berln",
        "../../etc/passwd",
        "/etc/passwd",
        "Europe/../UTC",
        "\0",
        "+2:00",
        "+25:00",
        "x" * 9000,
        "é",
    ],
)
def test_no_other_name_is_a_zone(name: str) -> None:
    assert not is_zone(name)


def test_a_zone_that_there_is_not_has_a_suggestion() -> None:
    assert suggested_zone("Europe/Berln") == "did you mean 'Europe/Berlin'?"
    assert suggested_zone("Q") == 'write a zone such as "Europe/Berlin", "UTC" or "+02:00"'

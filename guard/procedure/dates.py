"""Dates and moments: their spelling, and what can be done with them. There is no clock here.

A moment (`datetime`) has whole seconds and an offset from UTC, and nothing else of a zone: every
calculation keeps the offset of the moment that it starts from.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import cache
from typing import Any, Final
from zoneinfo import ZoneInfo, available_timezones

from guard.procedure.faults import suggestion

DATE: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
OFFSET: Final = r"[+-][0-9]{2}:[0-9]{2}(?::[0-9]{2})?"
MOMENT: Final = rf"{DATE}T[0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}})?(?:Z|{OFFSET})"

CALENDAR_UNITS: Final = frozenset({"months", "years"})  # whose ends need a mode
DATE_UNITS: Final = ("days", "weeks", "months", "years")
UNITS: Final = (*DATE_UNITS, "hours", "minutes", "seconds")
MODES: Final = ("down", "up")

_BEYOND: Final = "a date beyond the years 1 to 9999 arose"
_MONTHS: Final = 12
_LAST_YEAR: Final = 9999
_DATE: Final = re.compile(DATE)
_MOMENT: Final = re.compile(MOMENT)
_OFFSET: Final = re.compile(OFFSET)


class OutOfRange(ValueError):  # noqa: N818 (what the date is, not what went wrong)
    """A date before the year 1 or behind the year 9999."""


def is_date(value: object) -> bool:
    """Whether a value is a date; a moment, which Python takes for one, is none."""
    return isinstance(value, date) and not isinstance(value, datetime)


# --- spelling ------------------------------------------------------------------------------------


def parse_date(text: str) -> date | None:
    """Give the date that a text such as `2026-06-01` spells, None where there is none."""
    if _DATE.fullmatch(text) is None:
        return None
    try:
        return date(int(text[:4]), int(text[5:7]), int(text[8:]))
    except ValueError:
        return None


def parse_moment(text: str) -> datetime | None:
    """Give the moment that a text such as `2026-06-01T09:30:00+02:00` spells, None where there is none.

    Seconds may be left out, and `Z` stands for `+00:00`. A day ends at 23:59:59, an offset is below 24 hours.
    """
    if _MOMENT.fullmatch(text) is None:
        return None
    try:
        return kept(datetime.fromisoformat(text))
    except ValueError:
        return None


def kept(moment: datetime) -> datetime:
    """Give a moment in the form in which values have it: whole seconds, and an offset for its zone.

    Raises ValueError for one without a zone.
    """
    offset = moment.utcoffset()
    if offset is None:
        raise ValueError("a moment has a zone")
    return moment.replace(
        microsecond=0, fold=0, tzinfo=timezone(timedelta(seconds=round(offset.total_seconds())))
    )


def spelled(value: date) -> str:
    """Spell a date or moment."""
    return value.isoformat()


def whats_wrong(text: str) -> tuple[str, str]:
    """Say why a text that looks like a date or moment is none, and what to write."""
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    if year == 0:
        return "years are counted from 0001", "write a year from 0001 to 9999"
    if not 1 <= month <= _MONTHS:
        return f"there is no month {text[5:7]}", "write the year, the month and the day: 2026-06-01"
    last = monthrange(year, month)[1]
    if not 1 <= day <= last:
        return f"there is no day {text[:10]}", f"write a day from {text[:8]}01 to {text[:8]}{last}"
    return (
        f"there is no time {text[11:]}",
        "write hours to 23, minutes and seconds to 59 and an offset: T09:30:00+02:00",
    )


_PARTS: Final = re.compile(r"([0-9]+)[./-]([0-9]+)[./-]([0-9]+)")
_YEAR: Final = 4  # digits


def dates_meant(text: str) -> str:
    """Say which dates a text such as `20/05/2026` may mean, as they are written here; "" for none."""
    match = _PARTS.fullmatch(text)
    if match is None:
        return ""
    first, second, third = match.groups()
    ways = [(first, second, third)] if len(first) == _YEAR else []
    if len(third) == _YEAR:
        ways = [(third, second, first), (third, first, second)]
    spelt = [f"{year}-{month:0>2}-{day:0>2}" for year, month, day in ways]
    found = list(dict.fromkeys(one for one in spelt if parse_date(one) is not None))
    return " or ".join(found) + (", whichever it means" if len(found) > 1 else "")


# --- calculating ---------------------------------------------------------------------------------


def shifted(value: date, amount: int, unit: str, mode: str | None) -> date:
    """Give the date or moment so many units later. `mode` says what becomes of a day that a month lacks.

    Raises `OutOfRange`.
    """
    try:
        if unit in CALENDAR_UNITS:
            return _months_later(value, amount * (_MONTHS if unit == "years" else 1), mode)
        return value + timedelta(**{unit: amount})
    except OverflowError:
        raise OutOfRange(_BEYOND) from None


def _months_later(value: date, months: int, mode: str | None) -> date:
    year, month = divmod(value.year * _MONTHS + value.month - 1 + months, _MONTHS)
    if not 1 <= year <= _LAST_YEAR:
        raise OutOfRange(_BEYOND)
    last = monthrange(year, month + 1)[1]
    if value.day <= last:
        return value.replace(year=year, month=month + 1)
    moved = value.replace(year=year, month=month + 1, day=last)
    return moved + timedelta(days=1) if mode == "up" else moved


def between(later: date, earlier: date) -> int:
    """Give how many days there are from one date to another, or seconds from one moment to another."""
    passed: timedelta = later - earlier
    return passed.days * 86_400 + passed.seconds if isinstance(later, datetime) else passed.days


def full_months(start: date, end: date, mode: str) -> int:
    """Give how many whole months have passed from one date to another, below 0 where that is earlier.

    Whole are those after which `start + n months mode` has come: with `down` the last day of February ends
    a month that began on the 31st of January, with `up` the first of March does.
    """
    if end < start:
        return -full_months(end, start, mode)
    months = (end.year - start.year) * _MONTHS + end.month - start.month
    return months - (_months_later(start, months, mode) > end)


def full_years(start: date, end: date, mode: str) -> int:
    """Give how many whole years have passed from one date to another, as `full_months` does."""
    months = full_months(start, end, mode)
    return months // _MONTHS if months >= 0 else -(-months // _MONTHS)


# --- zones ---------------------------------------------------------------------------------------


@cache  # so that a zone is read from the system's files once, where the procedure is loaded
def zone(name: str) -> tzinfo:
    """Give the zone of a name such as `Europe/Berlin`, `UTC` or `+02:00`. Raises ValueError for any other."""
    if name == "UTC":
        return UTC
    if _OFFSET.fullmatch(name):
        return kept(datetime.fromisoformat(f"2000-01-01T00:00:00{name}")).tzinfo or UTC
    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        raise ValueError("no zone") from None


def is_zone(name: str) -> bool:
    """Whether there is a zone of that name."""
    try:
        zone(name)
    except ValueError:
        return False
    return True


def suggested_zone(name: str) -> str:
    """Say what to write instead of a zone that there is not."""
    known = sorted(available_timezones())
    if not known:
        return 'write "UTC" or an offset such as "+02:00"; for others install the Python package tzdata'
    near = suggestion(name, known)
    return (
        near if near.startswith("did you mean") else 'write a zone such as "Europe/Berlin", "UTC" or "+02:00"'
    )


def moved(moment: datetime, name: str) -> datetime:
    """Give the same moment with the offset that it has in a zone. Raises `OutOfRange`."""
    try:
        return kept(moment.astimezone(zone(name)))
    except OverflowError:
        raise OutOfRange(_BEYOND) from None


# --- order ---------------------------------------------------------------------------------------


def position(value: Any) -> Any:
    """Give the number at which a date (in days) or moment (in seconds) stands; numbers are their own."""
    match value:
        case datetime():
            return between(value, _START)
        case date():
            return value.toordinal()
        case _:
            return value


_START: Final = datetime(1, 1, 1, tzinfo=UTC)


def at_position(place: int) -> date:
    """Give the date at a position."""
    return date.fromordinal(place)


def moment_at(place: int) -> datetime:
    """Give the moment at a position."""
    return _START + timedelta(seconds=place)

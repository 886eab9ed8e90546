"""Days of the calendar as people write them: in ISO 8601, as `2026/03/02`, or with the month's name."""

from __future__ import annotations

import re
from datetime import date
from typing import Final

from guard.procedure.dates import DATE, MOMENT, parse_date, parse_moment

_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december",
)  # fmt: skip
_MONTH: Final = rf"(?P<{{}}>{'|'.join(f'{name[:3]}(?:{name[3:]})?' for name in _MONTHS)}|sept)(?![^\W_])\.?"
_DAY: Final = r"(?P<{}>[0-9]{{1,2}})(?:st|nd|rd|th)?(?![0-9.]*[0-9])"
_YEAR: Final = r"(?P<{}>[0-9]{{4}})(?![0-9]|[-/.:][0-9])"
_ISO: Final = re.compile(rf"(?:{MOMENT}(?P<time>)|{DATE})(?![0-9:]|[-/T][0-9])")
_SPELLED: Final = re.compile(
    rf"(?:{_MONTH.format('month')} ?{_DAY.format('day')},? {_YEAR.format('year')}"
    rf"|{_DAY.format('day2')} (?:of )?{_MONTH.format('month2')},? {_YEAR.format('year2')}"
    r"|(?P<year3>[0-9]{4})/(?P<month3>[0-9]{2})/(?P<day3>[0-9]{2})(?![0-9/]))",
    re.IGNORECASE,
)


def dated(text: str, at: int) -> tuple[date | None, int] | None:
    """Read the date, or the moment in ISO 8601, that starts at a place.

    Gives its value and where it ends; the value is None where there is no such day or time. Gives None
    where neither starts.
    """
    match = _ISO.match(text, at)
    if match is not None:
        value = parse_date(match[0]) if match["time"] is None else parse_moment(match[0])
        return value, match.end()
    match = _SPELLED.match(text, at)
    if match is None:
        return None
    year = match["year"] or match["year2"] or match["year3"]
    day = match["day"] or match["day2"] or match["day3"]
    month = match["month3"] or _number_of(match["month"] or match["month2"])
    return parse_date(f"{year}-{month:>02}-{day:>02}"), match.end()


def _number_of(month: str) -> str:
    name = month.lower()[:3]
    return str(next(number for number, known in enumerate(_MONTHS, 1) if known.startswith(name)))

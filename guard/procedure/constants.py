"""Constants as they are written: numbers, percents and strings, their caps checked before conversion."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from guard.procedure import dates
from guard.procedure.faults import Faults, quoted
from guard.procedure.nodes import Literal
from guard.procedure.normal import normal
from guard.procedure.types import DatetimeType, DateType, DecimalType, IntType, PercentType, StringType
from guard.source import Span

if TYPE_CHECKING:
    from lark import Token

MAX_DIGITS: Final = 40
MAX_PLACES: Final = 20
MAX_STRING: Final = 10_000

_ESCAPE: Final = re.compile(r"\\(?:[\"\\/bfnrt]|u[0-9A-Fa-f]{4}|(.))", re.DOTALL)


def place(token: Token) -> Span:
    """Where a token stands in its text."""
    return Span(token.start_pos or 0, token.end_pos or 0)


def number(token: Token, faults: Faults, *, negative: bool = False, at: Span | None = None) -> Literal:
    """Read a whole number or decimal; one over a cap is reported and read as 0."""
    at = at or place(token)
    text = _checked(token.value, at, faults)
    sign = -1 if negative else 1
    if "." not in text:
        return Literal(sign * int(text), IntType(), at)
    return Literal(sign * Fraction(text), DecimalType(len(text.partition(".")[2])), at)


def percent(token: Token, faults: Faults, *, negative: bool = False, at: Span | None = None) -> Literal:
    """Read `12.5%`, which is the number 0.125."""
    at = at or place(token)
    text = _checked(token.value[:-1], at, faults)
    return Literal(Fraction(text) * (-1 if negative else 1) / 100, PercentType(), at)


def date(token: Token, faults: Faults) -> Literal:
    """Read `2026-06-01`; a day that does not exist is reported and read as another."""
    found = dates.parse_date(token.value)
    if found is None:
        faults(place(token), *dates.whats_wrong(token.value))
    return Literal(found or dates.at_position(1), DateType(), place(token))


def moment(token: Token, faults: Faults) -> Literal:
    """Read `2026-06-01T09:30:00+02:00`; one that does not exist is reported and read as another."""
    found = dates.parse_moment(token.value)
    if found is None:
        faults(place(token), *dates.whats_wrong(token.value))
    return Literal(found or dates.moment_at(0), DatetimeType(), place(token))


def _checked(text: str, at: Span, faults: Faults) -> str:
    whole, _, behind = text.partition(".")
    if len(whole) + len(behind) > MAX_DIGITS:
        faults(
            at,
            f"a number has at most {MAX_DIGITS} digits, this one has {len(whole) + len(behind)}",
            "write it with fewer digits, or in quotes where it is a text such as a code",
        )
    elif len(behind) > MAX_PLACES:
        faults(
            at,
            f"a number has at most {MAX_PLACES} digits behind the point, this one has {len(behind)}",
            "round it",
        )
    elif len(whole) > 1 and whole.startswith("0"):
        bare = text.lstrip("0")
        bare = f"0{bare}" if bare[:1] in ("", ".") else bare
        faults(
            at,
            f"the number {quoted(text)} starts with a zero",
            f'write {bare}, or "{text}" in quotes where it is a text such as a code',
        )
    else:
        return text
    return "0.0" if behind else "0"


def string(token: Token, faults: Faults) -> Literal:
    """Read the text between the quotes, its escapes replaced, in Unicode's form NFC."""
    return Literal(unescaped(token, faults), StringType(), place(token))


def unescaped(token: Token, faults: Faults) -> str:
    """Give what a string in quotes says; a wrong one is reported and read as empty."""
    at = place(token)
    raw = token.value
    if len(raw) - 2 > MAX_STRING:
        faults(
            at,
            f"a string has at most {MAX_STRING:,} characters, this one has {len(raw) - 2:,}",
            "give it as an input of type text",
        )
        return ""
    for escape in _ESCAPE.finditer(raw):
        if escape[1] is not None:
            where = Span(at.start + escape.start(), at.start + escape.end())
            faults(
                where,
                f"a string knows no escape {quoted(escape[0])}",
                r"write \" \\ \/ \b \f \n \r \t or \u and four hex digits; a backslash itself is \\",
            )
            return ""
    text: str = json.loads(raw, strict=False)
    if any("\ud800" <= char <= "\udfff" for char in text):
        faults(at, "a string holds half of a surrogate pair", r"write the character itself")
        return ""
    return normal(text)

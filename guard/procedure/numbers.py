"""Numbers: exact, read from text and written as text, and bounded before anything is converted.

A number is an `int` or a `Fraction`; there is no binary float behind any of them.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

from guard.procedure.types import Rounding

DIGITS: Final = 40  # of a number in a trace, an input or a result

Number = int | Fraction

LIMIT: Final = 10**DIGITS
POWERS: Final = tuple(10**places for places in range(DIGITS + 1))
_NUMBER: Final = re.compile(r"(-?)([0-9]{1,40})(?:\.([0-9]{1,40}))?(%?)")


class Unspellable(ValueError):  # noqa: N818 (what the value is, not what went wrong)
    """A number has no finite decimal spelling, or one of too many digits."""


def parse_number(text: str) -> Number | None:
    """Give the exact number that a text spells, or None.

    Taken are ASCII digits with an optional sign, decimals and percent sign (`-12.50`, `5%`), 40 digits
    at most: no exponent, no separators, no white space. A text with decimals or a percent sign gives a
    `Fraction`, any other an `int`.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    sign, whole, decimals, percent = match.groups("")
    if len(whole) + len(decimals) > DIGITS:
        return None
    number = int(sign + whole + decimals)
    places = len(decimals) + 2 * len(percent)
    return Fraction(number, 10**places) if decimals or percent else number


def round_to(value: Number, places: int, rounding: Rounding) -> Number:
    """Give the nearest number of so many decimals; `rounding` decides between the two neighbours.

    Places below 0 are those left of the point: -2 gives hundreds, as an `int`.
    """
    if places < 0:
        unit = int(10**-places)
        return int(round_to(Fraction(value, unit), 0, rounding)) * unit
    if isinstance(value, int):
        return value
    numerator, denominator, scale = value.numerator, value.denominator, 10**places
    if scale % denominator == 0:
        return value  # it has no more decimals than that already
    return Fraction(_whole(numerator * scale, denominator, rounding), scale)


def _whole(numerator: int, denominator: int, rounding: Rounding) -> int:
    """Round a fraction that is not whole."""
    below, rest = divmod(numerator, denominator)
    tie = 2 * rest - denominator  # 0 on a tie, positive where the upper neighbour is nearer
    match rounding:
        case Rounding.HALF_UP:
            return below + (tie > 0 or (tie == 0 and numerator > 0))
        case Rounding.HALF_DOWN:
            return below + (tie > 0 or (tie == 0 and numerator < 0))
        case Rounding.HALF_EVEN:
            return below + (tie > 0 or (tie == 0 and below % 2 == 1))
        case Rounding.DOWN:
            return below + (numerator < 0)
        case Rounding.UP:
            return below + (numerator > 0)
        case Rounding.FLOOR:
            return below
        case Rounding.CEILING:
            return below + 1


@lru_cache(maxsize=1024)
def decimals_of(denominator: int) -> int | None:
    """How many decimals a fraction in lowest terms needs; None where they never end."""
    twos = (denominator & -denominator).bit_length() - 1
    rest, fives = denominator >> twos, 0
    while rest % 5 == 0:
        rest //= 5
        fives += 1
    return max(twos, fives) if rest == 1 else None


def decimal_text(value: Number, least: int) -> str:
    """Give the decimal spelling with at least so many places and as many as the value needs.

    Raises `Unspellable`.
    """
    numerator, denominator = value.numerator, value.denominator
    needed = decimals_of(denominator)
    if needed is None:
        raise Unspellable("a number whose decimals never end")
    places = max(needed, least)
    if places >= DIGITS:
        raise Unspellable(f"a number of more than {DIGITS} digits")
    scaled = bounded(numerator * (POWERS[places] // denominator))
    if not places:
        return str(scaled)
    whole, behind = divmod(abs(scaled), POWERS[places])
    return f"{'-' if scaled < 0 else ''}{whole}.{behind:0{places}}"


def bounded(number: int) -> int:
    """Give a number as it is. Raises `Unspellable` where it has too many digits."""
    if -LIMIT < number < LIMIT:
        return number
    raise Unspellable(f"a number of more than {DIGITS} digits")

"""Numbers as people and models write them, read in one fixed way each.

For free-form text only: in a trace a number has one spelling, and none of these readings applies.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from guard.procedure.numbers import DIGITS, Number

# Every sign is replaced by one that takes as many characters, so that offsets stay right.
_PLAIN: Final = str.maketrans(
    {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    | dict.fromkeys(map(ord, "\u00a0\u2007\u2009\u202f\u3000"), " ")
    | {ord("\N{MINUS SIGN}"): "-", ord("\N{MULTIPLICATION SIGN}"): "*", ord("\N{MIDDLE DOT}"): "*"}
    | {ord("\N{DIVISION SIGN}"): "/", ord("\N{DOT OPERATOR}"): "*", ord("\N{DIVISION SLASH}"): "/"}
    | {ord("\N{FRACTION SLASH}"): "/", ord("\N{MULTIPLICATION X}"): "*", ord("\N{ASTERISK OPERATOR}"): "*"}
    | {ord("\N{BULLET OPERATOR}"): "*", ord("\N{RIGHT SINGLE QUOTATION MARK}"): "'"}
    | dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\ufe63\u2796"), "-")
)

# Groups of exactly three digits may stand after a comma, an apostrophe or a blank, in LaTeX's spellings too;
# after commas also those of India, two digits before the last three.
NUMERAL: Final = (
    r"(?:(?:[0-9]{1,2}(?:,[0-9]{2}(?![0-9])){1,12}+,[0-9]{3}(?![0-9])"
    r"|[0-9]{1,3}(?:(?:,|'|\{,\}|\\,| )[0-9]{3}(?![0-9]))++|[0-9]++)(?:\.[0-9]++)?+|\.[0-9]++)"
    r"(?:[eE][-+]?[0-9]++)?+(?:\\?%)?+"
)
_FRACTION: Final = re.compile(rf"\\[dt]?frac\{{ ?(?P<over>-?{NUMERAL}) ?\}}\{{ ?(?P<under>-?{NUMERAL}) ?\}}")
_NUMERAL: Final = re.compile(NUMERAL)
_SEPARATORS: Final = re.compile(r"\{,\}|\\,|[,' ]")
_EXPONENT: Final = 40


def plain(text: str) -> str:
    """Give a text of the same length in which full-width characters, minus and other signs are ASCII."""
    return text.translate(_PLAIN)


def numeral(text: str, at: int) -> tuple[Number | None, int] | None:
    r"""Read the number without a sign that starts at a place of a `plain` text, or a `\frac` of two.

    Gives its value and where it ends; the value is None where it has more digits than are read.
    Gives None where no number starts.
    """
    match = _FRACTION.match(text, at)
    if match is not None:
        over, under = _signed(match["over"]), _signed(match["under"])
        value = None if over is None or not under else Fraction(over) / Fraction(under)
        return value, match.end()
    match = _NUMERAL.match(text, at)
    return None if match is None else (_value(match[0]), match.end())


def spelled(value: Number) -> str:
    """Spell a number without a sign as an operand of a working in a trace, or as a quotient."""
    if isinstance(value, int):
        return str(value)
    places, rest = 0, value.denominator
    while rest % 10 == 0:
        places, rest = places + 1, rest // 10
    for prime in (2, 5):
        while rest % prime == 0:
            places, rest = places + 1, rest // prime
    if rest != 1:
        return f"({value.numerator} / {value.denominator})"
    if places == 0:
        return str(value.numerator)
    digits = str(value.numerator * 10**places // value.denominator).rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}"


def _signed(text: str) -> Number | None:
    if not text.startswith("-"):
        return _value(text)
    value = _value(text[1:])
    return None if value is None else -value


def _value(text: str) -> Number | None:
    percent = text.endswith("%")
    digits, _, exponent = _SEPARATORS.sub("", text.rstrip("\\%")).lower().partition("e")
    whole, _, decimals = digits.partition(".")
    # Whatever is too long is never converted: that takes quadratic time.
    if len(whole) + len(decimals) > DIGITS or len(exponent) > 3 or abs(int(exponent or 0)) > _EXPONENT:
        return None
    places = len(decimals) + 2 * percent - int(exponent or 0)
    number = int(whole + decimals)
    if places <= 0:
        return number * int(10**-places)
    return Fraction(number, 10**places)

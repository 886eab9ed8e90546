r"""The tokens of a line of prose, Markdown or LaTeX: operands, signs, words, and where its sentences end.

What only looks (blanks, emphasis, `\,`, the braces of `\text{}`) is left out, and whatever nobody knows the
meaning of is a token of its own: it is never skipped unread.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum, auto
from fractions import Fraction
from typing import Final
from unicodedata import category, numeric

from guard.procedure.numbers import Number
from guard.trace.amounts import CURRENCIES, MONEY
from guard.trace.days import dated
from guard.trace.numerals import numeral, spelled

Value = Number | bool | date | str


class Sort(Enum):
    """What a token is."""

    NUMBER = auto()
    DAY = auto()
    TEXT = auto()  # in quotes
    WORD = auto()
    SIGN = auto()  # of arithmetic or comparison
    OPEN = auto()
    CLOSE = auto()
    COMMA = auto()
    COLON = auto()
    EQUALS = auto()
    BAR = auto()
    MONEY = auto()
    MARK = auto()  # a quotation mark or another that changes nothing
    STOP = auto()  # a sentence ends
    OTHER = auto()  # nobody knows what it means


@dataclass(frozen=True, slots=True)
class Token:
    """One token. `text` is its canonical spelling, `value` what an operand is worth, None for nothing.

    `glued`: it follows the one before without a blank. `percent`: it is a number of hundredths.
    """

    sort: Sort
    text: str
    value: Value | None
    at: int
    end: int
    glued: bool = False
    percent: bool = False


OPERANDS: Final = frozenset({Sort.NUMBER, Sort.DAY, Sort.TEXT, Sort.WORD})
_COMPLETE: Final = OPERANDS | {Sort.CLOSE, Sort.MONEY, Sort.MARK}  # after which a sign may stand

_SKIP: Final = re.compile(
    r"(?:[ \t\r\u200b\u2060\ufeff]|\*\*|__|`|\\[,;:! ()\[\]]|\\\\|\\(?:left|right|q?quad)(?![a-zA-Z])|&(?==)"
    r"|</?(?!br\b)[a-zA-Z][a-zA-Z0-9]{0,15}>)++"
)
_MONEY: Final = re.compile(MONEY)
_TEXT: Final = re.compile(r'"(?:[^"\\\n]|\\[^\n]){0,200}"')
_WORD: Final = re.compile(r"[^\W\d]\w*+(?:(?:\.(?=[A-Za-z_])|&(?=\w))\w*+)*+(?:'[a-z]++)?+")
_NUMBER: Final = rf"[ \t]*+(?:[0-9(]|\.[0-9]|\\[dt]?frac|{MONEY}|[A-Z]{{3}} ?[0-9])"
_TIMES: Final = re.compile(
    rf"(?:[xX]|(?:times|plus|minus|(?:multiplied|divided)[ \t]++by|over|of)(?!\w))(?={_NUMBER})"
)
_SIGN: Final = re.compile(r"[!<>=]=|[-+*/<>^%]|\\(?:times|cdot|ast|div)(?![a-zA-Z])")
_EQUALS: Final = re.compile(
    r":=|=(?!=)>?|[≈≃≅→⇒⟹⟶]|~(?=[ \t]*+[-+0-9.$])|-++>"
    r"|\\(?:approx|simeq|cong|rightarrow|Rightarrow|implies)(?![a-zA-Z])"
)
_SAYS_EQUAL: Final = re.compile(
    rf"(?:equals|(?:is|are)[ \t]++equal[ \t]++to)(?=[ \t*_`]*+(?:\\boxed[ \t]*+\{{)?+(?:{_NUMBER}|[ \t]*+-))"
)
_ABOUT: Final = frozenset({"≈", "≃", "≅", "~", "\\approx", "\\simeq", "\\cong"})
_CANONICAL: Final = {
    "\\times": "*", "\\cdot": "*", "\\ast": "*", "\\div": "/", "x": "*", "X": "*", "times": "*",
    "multiplied": "*", "of": "*", "plus": "+", "minus": "-", "divided": "/", "over": "/",
}  # fmt: skip
_PERCENT: Final = re.compile(
    rf"[ \t]*+\\?%(?!{_NUMBER})|[ \t]++(?:percent|per[ \t]cent|pct)(?!\w)", re.IGNORECASE
)
_FRACTION: Final = re.compile(r"\\[dt]?frac[ \t]*+\{")
_BRACE: Final = re.compile(r"(?:\\(?:text|math|operatorname|boxed|[mf]box)[a-z]{0,12})?+[ \t]*+\{")
_POWER: Final = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,9}")
_RAISED: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_BREAK: Final = re.compile(r"<br ?/?>|<-(?= ?\")|[?;。](?!=)|!(?![ \t]*+[-+*/^=≈)])", re.IGNORECASE)
_DOTS: Final = re.compile(r"\.{2,}+|…|\\[lc]?dots")
_LISTED: Final = re.compile(r"[ \t]++[0-9]{1,3}[.)][ \t]")
_ABBREVIATED: Final = re.compile(
    r"[ \t]*+(?:[+*/^=≈)]|-[ \t]*+[0-9$]|\\(?:times|cdot|div|approx))|[ \t]++(?:[a-z]|X[ \t]*+[0-9$])"
)
_DIGIT: Final = re.compile(r"[ \t]*+[0-9]")
_FIGURE: Final = re.compile(r"[ \t]*+[-+]?[ \t]*+\.?[0-9]")
_ONE: Final = {
    "(": Sort.OPEN, "[": Sort.OPEN, ")": Sort.CLOSE, "]": Sort.CLOSE, ",": Sort.COMMA, ":": Sort.COLON,
    "|": Sort.BAR,
}  # fmt: skip
_MARKS: Final = frozenset("\"'\u201c\u201d\u2018\u00ab\u00bb\u201e")


def tokens(text: str, at: int, end: int) -> list[Token]:
    """Give the tokens of a piece of a `plain` text, in linear time."""
    return _Scanner(text, at, end).run()


def first_sentence(text: str, at: int, end: int) -> list[Token]:
    """Give the tokens up to the first that ends a sentence, and that one; nothing after it is looked at."""
    return _Scanner(text, at, end).run(until=Sort.STOP)


class _Scanner:
    """Goes through a piece once. `open` are the braces not yet closed."""

    def __init__(self, text: str, at: int, end: int) -> None:
        self._text, self._at, self._end = text, at, end
        self._found: list[Token] = []
        self._open: list[str] = []
        self._glued = False
        self._italic = False

    def run(self, until: Sort | None = None) -> list[Token]:
        while self._at < self._end and (until is None or self._last is not until):
            if skipped := self._match(_SKIP):
                self._at, self._glued = skipped.end(), False
            elif not any(read(self) for read in _READERS):
                self._take(_other(self._text[self._at]), 1)
        if self._open:
            self._take(Sort.OTHER, 0)  # what a brace holds goes on
        return self._found

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        return pattern.match(self._text, self._at, self._end)

    @property
    def _last(self) -> Sort | None:
        return self._found[-1].sort if self._found else None

    def _take(
        self,
        sort: Sort,
        length: int,
        text: str | None = None,
        value: Value | None = None,
        *,
        percent: bool = False,
    ) -> bool:
        start, self._at = self._at, self._at + length
        spelling = self._text[start : self._at] if text is None else text
        self._found.append(Token(sort, spelling, value, start, self._at, self._glued, percent))
        self._glued = True
        return True

    # --- operands ----------------------------------------------------------------------------------

    def operand(self) -> bool:
        day = dated(self._text, self._at) if self._text[self._at].isalnum() else None
        if day is not None and day[1] <= self._end:
            return self._take(Sort.DAY, day[1] - self._at, value=day[0])
        number = numeral(self._text, self._at)
        if number is None or number[1] > self._end:
            return False
        value, stop = number
        percent = self._text[stop - 1] == "%"
        if not percent and (sign := _PERCENT.match(self._text, stop, self._end)):
            value, stop, percent = None if value is None else Fraction(value) / 100, sign.end(), True
        text = None if value is None else spelled(value)
        return self._take(Sort.NUMBER, stop - self._at, text, value, percent=percent)

    def raised(self) -> bool:
        """A power in small figures, or a fraction that is one character."""
        if power := self._match(_POWER):
            value = int(power[0].translate(_RAISED))
            self._take(Sort.SIGN, 0, "^")
            return self._take(Sort.NUMBER, len(power[0]), str(value), value)
        if self._text[self._at] not in "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞":
            return False
        fraction = Fraction(numeric(self._text[self._at])).limit_denominator(10)
        return self._take(Sort.NUMBER, 1, spelled(fraction), fraction)

    def money(self) -> bool:
        match = self._match(_MONEY)
        return match is not None and self._take(Sort.MONEY, len(match[0]))

    def quoted(self) -> bool:
        match = self._match(_TEXT)
        return match is not None and self._take(Sort.TEXT, len(match[0]), value=match[0][1:-1])

    def word(self) -> bool:
        match = self._match(_WORD)
        if match is not None and match[0] in CURRENCIES and _FIGURE.match(self._text, match.end(), self._end):
            return self._take(Sort.MONEY, len(match[0]))
        return match is not None and self._take(
            Sort.WORD, len(match[0]), value={"true": True, "false": False}.get(match[0].lower())
        )

    # --- signs -------------------------------------------------------------------------------------

    def times(self) -> bool:
        """A letter or a word between two operands that is a sign."""
        match = self._match(_TIMES) if self._last in _COMPLETE else None
        return match is not None and self._take(
            Sort.SIGN, len(match[0]), _CANONICAL[match[0].partition(" ")[0].partition("\t")[0]]
        )

    def emphasis(self) -> bool:
        """A star of Markdown's: where no sign can stand, and the one that belongs to it."""
        if self._text[self._at] != "*":
            return False
        following = self._text[self._at + 1 : self._at + 2]
        if self._last in _COMPLETE and not (
            self._italic and self._glued and not (following.isalnum() or following in {"(", "$"})
        ):
            return False
        self._italic = not self._italic
        self._at += 1
        return True

    def equals(self) -> bool:
        match = self._match(_EQUALS) or (self._match(_SAYS_EQUAL) if self._last in _COMPLETE else None)
        return match is not None and self._take(
            Sort.EQUALS, len(match[0]), "≈" if match[0] in _ABOUT else "="
        )

    def sign(self) -> bool:
        match = self._match(_SIGN)
        return match is not None and self._take(Sort.SIGN, len(match[0]), _CANONICAL.get(match[0], match[0]))

    def single(self) -> bool:
        sort = _ONE.get(self._text[self._at])
        return sort is not None and self._take(sort, 1)

    # --- braces ------------------------------------------------------------------------------------

    def brace(self) -> bool:
        if match := self._match(_FRACTION):
            self._open.append("over")
            return self._take(Sort.OPEN, len(match[0]), "(")
        if match := self._match(_BRACE):
            under = self._open and self._open[-1] == "under?"
            self._open[-1:] = ["under"] if under else [*self._open[-1:], ""]
            if under:
                return self._take(Sort.OPEN, len(match[0]), "(")
            self._at += len(match[0])
            return True
        if self._text[self._at] != "}":
            return False
        return self._close(self._open.pop() if self._open else "")

    def _close(self, brace: str) -> bool:
        if brace == "over":
            self._take(Sort.CLOSE, 0, ")")
            self._open.append("under?")
            return self._take(Sort.SIGN, 1, "/")
        if brace == "under":
            return self._take(Sort.CLOSE, 1, ")")
        self._at += 1
        return True

    # --- the end of a sentence -----------------------------------------------------------------------

    def stop(self) -> bool:
        if match := self._match(_BREAK):
            return self._take(Sort.STOP, len(match[0]))
        if match := self._match(_DOTS):
            return self._take(Sort.OTHER, len(match[0]))
        if self._text[self._at] != ".":
            return False
        behind = self._at + 1
        if self._last is Sort.WORD and _ABBREVIATED.match(self._text, behind, self._end):
            self._at += 1
            return True
        goes_on = self._last in {Sort.NUMBER, Sort.DAY} and _DIGIT.match(self._text, behind, self._end)
        listed = _LISTED.match(self._text, behind, self._end)
        return self._take(Sort.OTHER if goes_on and not listed else Sort.STOP, 1)


def _other(character: str) -> Sort:
    return Sort.MARK if character in _MARKS or category(character) == "So" else Sort.OTHER


_READERS: Final[tuple[Callable[[_Scanner], bool], ...]] = (
    _Scanner.operand,
    _Scanner.raised,
    _Scanner.brace,
    _Scanner.money,
    _Scanner.quoted,
    _Scanner.times,
    _Scanner.equals,
    _Scanner.word,
    _Scanner.emphasis,
    _Scanner.stop,
    _Scanner.sign,
    _Scanner.single,
)

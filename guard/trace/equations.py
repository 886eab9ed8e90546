"""Chains of equations (`S3 = S2 + 8 = 19 + 8 = 27`) found in a line of free-form text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Final

from guard.procedure.dates import MODES, UNITS
from guard.procedure.numbers import Number
from guard.trace.numerals import dated, numeral, spelled

_SKIP: Final = re.compile(
    r"(?:[ \t\r]|\*\*|__|`|\\[,;:! ()\[\]]|\\?\$|[€£]|\\(?:text|mathrm|boxed)\{|&(?==))++"
)
_NAME: Final = re.compile(r"[A-Za-z_]\w*+(?:\.[A-Za-z_]\w*+)*+", re.ASCII)
_STRING: Final = re.compile(r'"(?:[^"\\\n]|\\[^\n]){0,200}"')
_OPERATOR: Final = re.compile(r"(?:[=!<>]=|[-+*/<>]|\\(?:times|cdot|div)\b|(?:div|mod)\b)")
_SHIFT: Final = re.compile(rf"(?:{'|'.join(UNITS)})\b(?:[ \t]++(?:{'|'.join(MODES)})\b)?+")
_EQUALS: Final = re.compile(r"=(?!=)|\\approx\b")
_IS: Final = re.compile(r"(?:is|equals)\b|:(?=[ \t*_`\d-])|\|")
_WORDS: Final = {"\\times": "*", "\\cdot": "*", "\\div": "/"}
_SIGN: Final = "\0"  # of a number; the operator is "-"
_CONSTANTS: Final = {"true": True, "false": False}

Value = Number | bool | date | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What stands between two equals signs.

    `text` spells it as a working of a trace does; `value` is None where it is not a single number,
    truth value or string.
    """

    text: str
    value: Value | None
    at: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """`name = part = part`; `name` is None where the first part is no name. `at` is where it starts."""

    name: str | None
    parts: tuple[Part, ...]
    at: int
    end: int


def chains(text: str, at: int, end: int, known: Collection[str]) -> Iterator[Chain]:
    """Find the chains of a piece of a `plain` text, in one pass.

    Behind one of the `known` names also `is`, a colon or the bar of a table stands for the equals sign.
    """
    while at < end:
        run = _Run(text, at, end, known)
        run.read()
        chain = run.chain()
        if chain is not None:
            yield chain
        at = max(run.at, at + 1)
        if run.at == at - 1 and (word := _NAME.match(text, at - 1, end)):
            at = word.end()


class _Run:
    """As much as reads as operands with operators between them."""

    def __init__(self, text: str, at: int, end: int, known: Collection[str]) -> None:
        self._text, self.at, self._end, self._known = text, at, end, known
        self._tokens: list[str] = []  # of the part that is being read
        self._values: list[Value | None] = []
        self._parts: list[Part] = []
        self._start = self._stop = at
        self._first = at
        self._depth = 0
        self._wanted = True  # an operand, not an operator
        self._italic = False

    def read(self) -> None:
        while self.at < self._end:
            skipped = _SKIP.match(self._text, self.at, self._end)
            if skipped:
                self.at = skipped.end()
            elif not (self._operand() if self._wanted else self._between()):
                break
        self._close()

    def chain(self) -> Chain | None:
        if len(self._parts) < 2:
            return None
        name = self._parts[0].text if _NAME.fullmatch(self._parts[0].text) else None
        parts = tuple(self._parts[1:] if name else self._parts)
        return Chain(name=name, parts=parts, at=self._first, end=self._parts[-1].end)

    def _operand(self) -> bool:
        char = self._text[self.at]
        if char in "(-+":
            self._depth += char == "("
            if char != "+":
                self._take(_SIGN if char == "-" else char, None, self.at + 1)
            self.at += char == "+"
            return True
        if char == "*" and not self._tokens and not self._italic:
            self._italic = True
            self.at += 1
            return True
        number = numeral(self._text, self.at)
        day = dated(self._text, self.at)
        if day is not None and day[1] <= self._end:
            self._take(self._text[self.at : day[1]], day[0], day[1])
        elif number is not None and number[1] <= self._end:
            value, stop = number
            token = self._text[self.at : stop] if value is None else spelled(value)
            self._take(token, value, stop)
        elif match := _STRING.match(self._text, self.at, self._end):
            self._take(match[0], match[0][1:-1], match.end())
        elif match := _NAME.match(self._text, self.at, self._end):
            self._take(match[0], _CONSTANTS.get(match[0]), match.end())
        else:
            return False
        self._wanted = False
        return True

    def _between(self) -> bool:
        text, at = self._text, self.at
        if text[at] == "*" and self._italic:
            self._italic = False
            self.at += 1
            return True
        if text[at] == "}":
            self.at += 1
            return True
        if text[at] == ")" and self._depth:
            self._depth -= 1
            self._take(")", None, at + 1)
            return True
        if match := self._shift():
            self._take(" ".join(match[0].split()), None, match.end())
            return True
        if text[at] == "," and self._depth:
            return self._joint(",", at + 1)
        if match := _EQUALS.match(text, at, self._end):
            return self._next_part(match.end())
        if match := _OPERATOR.match(text, at, self._end):
            return self._joint(_WORDS.get(match[0], match[0]), match.end())
        if self._names_a_step() and (match := _IS.match(text, at, self._end)):
            return self._next_part(match.end())
        return False

    def _shift(self) -> re.Match[str] | None:
        """The unit of what is added to a date, or to a name that may be one's."""
        match = _SHIFT.match(self._text, self.at, self._end)
        if match is None or any(isinstance(value, date) for value in self._values):
            return match
        added = self._tokens[-2:-1] in (["+"], ["-"])
        return match if added and _EQUALS.match(self._text, self._skipped(match.end()), self._end) else None

    def _skipped(self, at: int) -> int:
        skipped = _SKIP.match(self._text, at, self._end)
        return skipped.end() if skipped else at

    def _names_a_step(self) -> bool:
        if self._parts:
            return self._text[self.at] == "|" and self._parts[0].text in self._known
        return len(self._tokens) == 1 and self._tokens[0] in self._known

    def _next_part(self, stop: int) -> bool:
        self._close()
        self.at, self._wanted = stop, True
        return True

    def _joint(self, token: str, stop: int) -> bool:
        self._take(token, None, stop)
        self._wanted = True
        return True

    def _take(self, token: str, value: Value | None, stop: int) -> None:
        if not self._tokens:
            self._start = self.at
            self._first = self._first if self._parts else self.at
        self._tokens.append(token)
        self._values.append(value)
        self.at = self._stop = stop

    def _close(self) -> None:
        if self._tokens:
            part = Part(text=_spelling(self._tokens), value=self._value(), at=self._start, end=self._stop)
            self._parts.append(part)
        self._tokens, self._values = [], []

    def _value(self) -> Value | None:
        match self._tokens, self._values:
            case [_], [value]:
                return value
            case ["(", _, ")"], [_, value, _]:
                return value
            case [sign, _], [_, value] if (
                sign == _SIGN and value is not None and not isinstance(value, bool | date | str)
            ):
                return -value
            case _:
                return None


def _spelling(tokens: list[str]) -> str:
    """The tokens with blanks between them, but none behind a sign."""
    return " ".join(tokens).replace(f"{_SIGN} ", "-").replace(_SIGN, "-")

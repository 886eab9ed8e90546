"""What the last part of an equation comes to: a value only where nothing in its sentence goes on.

A number, a date, a truth value or a text in quotes stands alone, in money or with its unit. Whatever makes
another number of it (a second one, a sign, a word such as `million`, a brace that nobody closes) leaves the
part unread, which is neither right nor wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from guard.procedure.dates import MODES, UNITS
from guard.trace.amounts import changes
from guard.trace.tokens import OPERANDS, Sort, Token, Value

_FIGURE: Final = re.compile("[0-9]")
_SIGN: Final = "\0"  # of a number; the operator is "-"
_LEADS: Final = frozenset({Sort.MONEY, Sort.MARK, Sort.OPEN, Sort.COLON})
_IDLE: Final = frozenset({Sort.MONEY, Sort.MARK, Sort.OPEN, Sort.CLOSE, Sort.COMMA, Sort.COLON})
_UNIT: Final = 2  # letters of a unit right after a number and a slash: `9/hour`, but not `9/x`


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What stands between two equals signs.

    `text` spells it as a working of a trace does; `value` is None where it is not a single number, date,
    truth value or text in quotes. `unread`: it is not, and has figures in it that are no working either.
    `about`: it is said to be near the value. `percent`: the value was written as so many hundredths. `clear`:
    it reads as one value or working, with nothing after it that goes on.
    """

    text: str
    value: Value | None
    at: int
    end: int
    unread: bool = False
    about: bool = False
    percent: bool = False
    clear: bool = True


def part(tokens: Sequence[Token], *, about: bool = False) -> Part | None:
    """Read what stands between two equals signs; None where nothing does."""
    kept = [token for token in tokens if token.sort is not Sort.MARK]
    if not any(token.sort in OPERANDS or token.sort is Sort.OTHER for token in kept):
        return None
    return _result(kept, about=about) or _working(kept)


# --- a value -------------------------------------------------------------------------------------


def _result(tokens: Sequence[Token], *, about: bool) -> Part | None:
    place, sign = _lead(tokens)
    core = tokens[place] if place < len(tokens) else None
    if core is None or core.value is None or core.sort not in OPERANDS or _goes_on(tokens, place):
        return None
    if sign is None or sign.text == "+":
        return Part(
            text=core.text, value=core.value, at=core.at, end=core.end, about=about, percent=core.percent
        )
    if core.sort is not Sort.NUMBER or isinstance(core.value, str | date):
        return None
    return Part(
        text=f"-{core.text}",
        value=-core.value,
        at=sign.at,
        end=core.end,
        about=about,
        percent=core.percent,
    )


def _lead(tokens: Sequence[Token]) -> tuple[int, Token | None]:
    """Go past what may stand before a number; gives where that is, and its sign."""
    place, sign = 0, None
    while place < len(tokens):
        token = tokens[place]
        if token.sort is Sort.SIGN and token.text in {"-", "+"} and sign is None:
            sign = token
        elif token.sort not in _LEADS:
            break
        place += 1
    return place, sign


def _goes_on(tokens: Sequence[Token], place: int) -> bool:
    """Whether what follows a value may change it."""
    core = tokens[place]
    following = tokens[place + 1 :]
    if following and following[0].glued and following[0].sort is Sort.WORD and _tied(core, following[0]):
        return True
    return any(
        changes(token.text) or core.sort is Sort.TEXT or _FIGURE.search(token.text) is not None
        if token.sort is Sort.WORD
        else token.sort not in _IDLE and not _joins_units(tokens, place + 1 + index)
        for index, token in enumerate(following)
    )


def _tied(core: Token, word: Token) -> bool:
    """Whether a word right at a value belongs to it in a way that nobody knows: `2x`, `2026-03-02T9`."""
    return core.sort is not Sort.NUMBER or word.text in {"x", "X"}


def _joins_units(tokens: Sequence[Token], place: int) -> bool:
    """Whether a sign is the slash between two units (`miles/hour`), or a hyphen in a word."""
    sign, following = tokens[place].text, tokens[place + 1 : place + 2]
    unit = tokens[place - 1].sort is Sort.WORD
    least = 1 if unit else _UNIT
    glued = any(one.sort is Sort.WORD and one.glued and len(one.text) >= least for one in following)
    return glued and (sign == "/" or (sign == "-" and tokens[place].glued and unit))


# --- a working -----------------------------------------------------------------------------------


def _working(tokens: Sequence[Token]) -> Part:
    """Read operands with signs between them; units are left out, but for those that a date is moved by."""
    spelling = _Spelling(tokens)
    figures = any(token.sort in {Sort.NUMBER, Sort.DAY, Sort.OTHER} for token in tokens)
    operands = [token for token in tokens if token.sort in OPERANDS or token.sort is Sort.CLOSE]
    return Part(
        text=spelling.text,
        value=None,
        at=tokens[0].at,
        end=(operands or tokens)[-1].end,
        unread=figures and not (spelling.clear and spelling.joined),
        clear=spelling.clear,
    )


class _Spelling:
    """The spelling of a working. `clear`: it reads as one; `joined`: it has a sign or a call in it."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._out: list[str] = []
        self._wanted = True  # an operand, not a sign
        self._depth = 0
        self._dated = any(token.sort is Sort.DAY for token in tokens)
        self.clear, self.joined = True, False
        for before, token in zip((None, *tokens), tokens, strict=False):
            self._operand(token) if self._wanted else self._between(before, token)
        self.clear = self.clear and not self._depth

    @property
    def text(self) -> str:
        """The tokens with blanks between them, but none after a sign."""
        return " ".join(self._out).replace(f"{_SIGN} ", "-").replace(_SIGN, "-")

    def _operand(self, token: Token) -> None:
        if token.sort in OPERANDS:
            self._out.append(token.text)
            self._wanted = False
        elif token.sort is Sort.OPEN:
            self._open()
        elif token.sort is Sort.SIGN and token.text in {"-", "+"}:
            self._out += [_SIGN] if token.text == "-" else []
        elif token.sort is not Sort.MONEY:
            self.clear = False

    def _between(self, before: Token | None, token: Token) -> None:
        match token.sort:
            case Sort.SIGN:
                self._join(token.text)
            case Sort.CLOSE if self._depth:
                self._depth -= 1
                self._out.append(")")
            case Sort.OPEN if token.glued and before is not None and before.sort is Sort.WORD:
                self._open()
                self.joined = True
            case Sort.COMMA if self._depth:
                self._join(",")
            case Sort.WORD if self._shifts(token):
                self._out.append(token.text)
            case Sort.WORD | Sort.MONEY:
                pass
            case _:
                self.clear = False

    def _open(self) -> None:
        self._depth += 1
        self._out.append("(")
        self._wanted = True

    def _join(self, sign: str) -> None:
        self._out.append(sign)
        self._wanted = self.joined = True

    def _shifts(self, word: Token) -> bool:
        """Whether a word is the unit, or its mode, of what is added to a date, or to a name of one."""
        if self._out[-1] in UNITS:
            return word.text in MODES
        added = word.text in UNITS and self._out[-2:-1] in (["+"], ["-"])
        return added and (self._dated or not self._out[0][:1].isdigit())

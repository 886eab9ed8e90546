"""Slips whose meaning is plain: reported like any other, but what they mean is read, not thrown away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lark import Token

if TYPE_CHECKING:
    from guard.procedure.stumble import Stumble

# Words and signs of other languages, with the token that they mean.
_MEANT: Final = {
    "quoted": ("QUOTE", "quote"),
    "AND": ("AND", "and"),
    "OR": ("OR", "or"),
    "&": ("AND", "and"),
    "!": ("NOT", "not"),
    "\N{MULTIPLICATION SIGN}": ("STAR", "*"),
    "\N{DIVISION SIGN}": ("SLASH", "/"),
    "\N{MINUS SIGN}": ("MINUS", "-"),
    "≤": ("COMPARE", "<="),
    "≥": ("COMPARE", ">="),
    "≠": ("COMPARE", "!="),
    "→": ("__ANON_0", "->"),
    "⇒": ("__ANON_1", "=>"),
}

_CONDITIONS: Final = frozenset({"IF", "ELIF", "WHILE", "REQUIRE", "CHECK"})


def meant(at: Stumble) -> tuple[int, int, list[Token]] | None:
    """Give the tokens from one index to another that a slip goes over, and those that it means."""
    index, token = at.index, at.token
    ends = at.after == "_NL" and not at.rest
    match token.type:
        case "COLON" if ends and at.line:
            return index, index + 1, []
        case "THEN" if ends and at.first in ("IF", "ELIF"):
            return index, index + 1, []
        case "IF" if at.before == "ELSE" and len(at.line) == 1:
            return index - 1, index + 1, [_instead(token, "ELIF", "elif")]
        case "EQUAL" if at.before == "COLON" and len(at.line) == 2:
            return index - 1, index, []
        case "EQUAL" if at.first in _CONDITIONS and "COMPARE" in at.accepts and at.after != "COMPARE":
            return index, index + 1, [_instead(token, "COMPARE", "==")]
        case "PLUS" | "MINUS" | "STAR" | "SLASH" if at.after == "EQUAL" and len(at.line) == 1:
            return index, index + 2, [at.rest[0], at.line[0], token]
        case "VBAR" if at.after == "VBAR" and "OR" in at.accepts:
            return index, index + 2, [_instead(token, "OR", "or")]
        case "NAME" | "UNREADABLE" if str(token) in _MEANT:
            return _word(at)
        case "_NL":
            return _missing(at)
        case _:
            return None


def _missing(at: Stumble) -> tuple[int, int, list[Token]] | None:
    """Give what a line lacks at its end: a loop's bound, a table's way to choose a row."""
    lacks: list[tuple[str, str]] = []
    bound = at.accepts == {"AT"} if at.first == "FOR" else "AT" in at.accepts and "NAME" not in at.accepts
    if at.first in ("FOR", "WHILE") and bound:
        lacks = [("AT", "at"), ("MOST", "most"), ("NUMBER", "1")]
    elif at.first == "TABLE" and at.open is None and "COMMA" in at.accepts:
        lacks = [("COMMA", ","), ("NAME", "first"), ("NAME", "match")]
    if not lacks:
        return None
    return at.index, at.index, [_instead(at.line[-1], kind, word) for kind, word in lacks]


def _word(at: Stumble) -> tuple[int, int, list[Token]] | None:
    kind, word = _MEANT[str(at.token)]
    if kind not in at.accepts:
        return None
    twice = at.rest[:1] == [at.token] and str(at.token) == "&"
    return at.index, at.index + 1 + twice, [_instead(at.token, kind, word)]


def _instead(token: Token, kind: str, word: str) -> Token:
    return Token.new_borrow_pos(kind, word, token)

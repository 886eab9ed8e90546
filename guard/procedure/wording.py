"""The wording of a `say`: a text with places in it for values, `{name}` or `{order.total}`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from lark import Token

from guard.procedure import constants
from guard.procedure.faults import quoted
from guard.procedure.nodes import Expr, FieldOf, Literal, Name
from guard.procedure.text import text
from guard.procedure.types import StringType
from guard.procedure.values import spell
from guard.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from guard.procedure.faults import Faults

_PIECE: Final = re.compile(r"\{\{|\}\}|\{(?P<inner>[^{}]*)\}|(?P<lone>[{}])|(?:\\.|[^\\{}])+")
_INNER: Final = re.compile(r"\s*[A-Za-z_]\w*(?:\s*\.\s*[A-Za-z_]\w*)*\s*", re.ASCII)
_WORD: Final = re.compile(r"\w+")


def read(word: Token, faults: Faults) -> tuple[Expr, ...]:
    """Give the parts of a wording: constant strings, and names and fields between them."""
    if not word.value[1:-1].strip():
        advice = 'write what is to be said, such as say "Hello."'
        faults(constants.place(word), "the wording is empty", advice)
    if not constants.unescaped(word, faults).strip():  # it is wrong as a whole
        return ()
    parts: list[Expr] = []
    for part in _pieces(word, faults):
        before = parts[-1] if parts else None
        if isinstance(part, Literal) and isinstance(before, Literal):
            joined, at = f"{before.value}{part.value}", Span(before.at.start, part.at.end)
            parts[-1] = Literal(joined, StringType(), at)
        else:
            parts.append(part)
    return tuple(parts)


def _pieces(word: Token, faults: Faults) -> Iterator[Expr]:
    start = (word.start_pos or 0) + 1
    for piece in _PIECE.finditer(word.value[1:-1]):
        at = Span(start + piece.start(), start + piece.end())
        if piece["lone"] is not None:
            faults(at, f"this {piece[0]!r} belongs to no name", f"write {piece[0] * 2} for the sign itself")
        elif piece["inner"] is not None:
            if _INNER.fullmatch(piece["inner"]):
                yield _value(piece["inner"], at.start + 1)
            else:
                advice = "give the value a name in a step before, and write {name}; {{ is the sign itself"
                faults(at, f"between braces stands a name or field, found {quoted(piece['inner'])}", advice)
        elif piece[0] in ("{{", "}}"):
            yield Literal(piece[0][0], StringType(), at)
        else:
            constant = Token("STRING", f'"{piece[0]}"', start_pos=at.start - 1)
            yield Literal(constants.unescaped(constant, faults), StringType(), at)


def _value(inner: str, start: int) -> Expr:
    name, *fields = _WORD.finditer(inner)
    found: Expr = Name(name[0], Span(start + name.start(), start + name.end()))
    for field in fields:
        found = FieldOf(found, field[0], Span(start + name.start(), start + field.end()))
    return found


def written(parts: Iterable[Expr]) -> str:
    """Give a wording as it is written, in quotes."""
    pieces = [
        value.replace("{", "{{").replace("}", "}}") if value is not None else f"{{{text(part)}}}"
        for part, value in ((part, _constant(part)) for part in parts)
    ]
    return spell("".join(pieces), StringType())


def values(parts: Iterable[Expr]) -> list[Expr]:
    """Give the values that stand in a wording."""
    return [part for part in parts if _constant(part) is None]


def _constant(part: Expr) -> str | None:
    return part.value if isinstance(part, Literal) and isinstance(part.value, str) else None

"""What the model may write where a value or a working is left to it, by type and bounded."""

from __future__ import annotations

import json
import re
from typing import assert_never

from guard.dialect.tree import Chars, Literal, Node, Repeat, Terminal, choice, optional, sequence
from guard.procedure.model import (
    BoolType,
    DecimalType,
    EnumType,
    IntType,
    ListType,
    PercentType,
    RecordType,
    StringType,
    TextType,
    Type,
)

INT_DIGITS = 9  # before the point; more only where the value is known to need them
FRACTION_DIGITS = 10
STRING_CHARS = 200
QUOTE_CHARS = 300
QUOTES = 4
LIST_ITEMS = 40
WORKING_ITEMS = 400

_DIGIT = Chars((("0", "9"),))
_ONE_TO_NINE = Chars((("1", "9"),))
_MINUS = optional(Literal("-"))
_HEX = Chars((("0", "9"), ("a", "f"), ("A", "F")))
# What may stand in a JSON string: any character but these as itself, the rest escaped.
_PLAIN = Chars((("\x00", "\x1f"), ('"', '"'), ("\\", "\\")), negated=True)
_SHORT = Chars(tuple((char, char) for char in '"\\/bfnrt'))
_ESCAPED = sequence(Literal("\\"), choice(_SHORT, sequence(Literal("u"), Repeat(_HEX, 4, 4))))
_CHAR = Terminal("char", choice(_PLAIN, _ESCAPED))


def _string(name: str, least: int, most: int) -> Node:
    return Terminal(name, sequence(Literal('"'), Repeat(_CHAR, least, most), Literal('"')))


STRING = _string("string", 0, STRING_CHARS)
_QUOTE = _string("quote", 1, QUOTE_CHARS)
_MORE_QUOTES = Repeat(sequence(Literal(", "), _QUOTE), 0, QUOTES - 1)
QUOTED = sequence(Literal(" <- "), _QUOTE, _MORE_QUOTES)
# An expression: no doubled blanks (weak models loop on them), no ` = `, which ends a working.
_PIECE = choice(
    Chars((("\x00", " "), ("=", "="), ('"', '"')), negated=True),
    STRING,
    sequence(Chars(tuple((char, char) for char in "=<>!")), Literal("=")),
)
WORKING = Terminal(
    "working",
    sequence(
        Terminal("piece", _PIECE),
        Repeat(sequence(optional(Literal(" ")), Terminal("piece", _PIECE)), 0, WORKING_ITEMS),
    ),
)


def hole(type_: Type, spelling: str | None = None) -> Node:
    """Every canonical spelling of the type; where the value's own is given, wide enough for that."""
    match type_:
        case IntType():
            return _whole(spelling)
        case DecimalType(places=places):
            return sequence(_whole(spelling), _fraction(places, spelling))
        case PercentType():
            return sequence(_whole(spelling), _fraction(None, spelling), Literal("%"))
        case BoolType():
            return choice(Literal("true"), Literal("false"))
        case EnumType(options=options):
            return choice(*(Literal(json.dumps(option, ensure_ascii=False)) for option in options))
        case StringType() | TextType():
            return STRING if spelling is None or len(spelling) <= STRING_CHARS else Literal(spelling)
        case ListType(item=item):
            return _list(hole(item))
        case RecordType(fields=fields):
            return _record([(field.name, hole(field.type)) for field in fields])
        case _:
            assert_never(type_)


def _whole(spelling: str | None) -> Node:
    digits = max(INT_DIGITS, _digits(r"-?(\d+)", spelling))
    return sequence(_MINUS, choice(Literal("0"), sequence(_ONE_TO_NINE, Repeat(_DIGIT, 0, digits - 1))))


def _fraction(places: int | None, spelling: str | None) -> Node:
    needed = _digits(r"-?\d+\.(\d+)", spelling)
    if places is None:
        return optional(Literal("."), Repeat(_DIGIT, 1, max(FRACTION_DIGITS, needed)))
    if max(places, needed) == 0:
        return Literal("")
    return sequence(Literal("."), Repeat(_DIGIT, places, max(places, needed)))


def _digits(pattern: str, spelling: str | None) -> int:
    found = re.match(pattern, spelling) if spelling else None
    return len(found[1]) if found else 0


def _list(item: Node) -> Node:
    more = Repeat(sequence(Literal(", "), item), 0, LIST_ITEMS - 1)
    return sequence(Literal("["), optional(item, more), Literal("]"))


def _record(fields: list[tuple[str, Node]]) -> Node:
    parts: list[Node] = []
    for index, (name, value) in enumerate(fields):
        parts += [Literal(f'{", " if index else ""}"{name}": '), value]
    return sequence(Literal("{"), *parts, Literal("}"))


def open_steps() -> Node:
    """Any number of step lines, for where the order hangs on what nobody has decided yet."""
    number = sequence(_ONE_TO_NINE, Repeat(_DIGIT, 0, 4))
    pass_ = optional(Literal("["), number, Literal("]"))
    path = sequence(number, pass_, Repeat(sequence(Literal("."), number, pass_), 0, 20))
    rest = sequence(WORKING, optional(Literal(" = "), WORKING), optional(QUOTED))
    return Repeat(sequence(path, Literal(" "), rest, Literal("\n")), 0, None)

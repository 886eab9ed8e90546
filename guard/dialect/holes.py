"""What the model may write where a value, a working or a quote is left to it: by type, and bounded."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final, assert_never

from guard.dialect.tree import Chars, Literal, Node, Repeat, Terminal, choice, optional, sequence
from guard.procedure.types import (
    BoolType,
    DatetimeType,
    DateType,
    DecimalType,
    EnumType,
    IntType,
    ListType,
    NothingType,
    NullType,
    OptionalType,
    PercentType,
    RecordType,
    StringType,
    TextType,
    Type,
)

Leaf = Callable[[Type], Node | None]  # what may stand for a single value of a type; None: any value of it

INT_DIGITS: Final = 9  # before the point; more only where the value is known to need them
FRACTION_DIGITS: Final = 10
STRING_CHARS: Final = 200
QUOTE_CHARS: Final = 300
QUOTES: Final = 8
LIST_ITEMS: Final = 100  # where nothing bounds a list
MAX_ITEMS: Final = 1_000

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_NUMERAL = re.compile(r"-?(\d+)(?:\.(\d+))?")
_SIGNED = re.compile(r"-?[0-9.]+%?")
_DIGIT = Chars((("0", "9"),))
_ONE_TO_NINE = Chars((("1", "9"),))
_HEX = Chars((("0", "9"), ("a", "f"), ("A", "F")))
# What may stand in a JSON string: any character but these as itself, the rest escaped.
_PLAIN = Chars((("\x00", "\x1f"), ('"', '"'), ("\\", "\\")), negated=True)
_SHORT = Chars(tuple((char, char) for char in '"\\/bfnrt'))
# No half of a surrogate pair: alone it is no character, and a pair is written as the character itself.
_CODE = choice(
    sequence(Chars((("0", "9"), ("a", "c"), ("e", "f"), ("A", "C"), ("E", "F"))), Repeat(_HEX, 3, 3)),
    sequence(Chars((("d", "d"), ("D", "D"))), Chars((("0", "7"),)), Repeat(_HEX, 2, 2)),
)
_ESCAPED = sequence(Literal("\\"), choice(_SHORT, sequence(Literal("u"), _CODE)))
_CHAR = Terminal("char", choice(_PLAIN, _ESCAPED))


def _string(name: str, least: int, most: int) -> Terminal:
    return Terminal(name, sequence(Literal('"'), Repeat(_CHAR, least, most), Literal('"')))


NULL = Literal("null")
NO_ITEMS = Literal("[]")
_BOOL = Terminal("bool", choice(Literal("true"), Literal("false")))
STRING = _string("string", 0, STRING_CHARS)
QUOTE = _string("quote", 1, QUOTE_CHARS)

_NUMBER = sequence(_ONE_TO_NINE, Repeat(_DIGIT, 0, 4))
PASS = Terminal("pass", sequence(Literal("["), _NUMBER, Literal("]")))


def _of(low: str, high: str) -> Chars:
    return Chars(((low, high),))


def _among(*digits: str) -> Chars:
    return Chars(tuple((digit, digit) for digit in digits))


# The days that there are: a reader takes no other for a date.
_YEAR = choice(
    sequence(_ONE_TO_NINE, Repeat(_DIGIT, 3, 3)),
    sequence(Literal("0"), _ONE_TO_NINE, Repeat(_DIGIT, 2, 2)),
    sequence(Literal("00"), _ONE_TO_NINE, _DIGIT),
    sequence(Literal("000"), _ONE_TO_NINE),
)
_MONTH = choice(sequence(Literal("0"), _ONE_TO_NINE), sequence(Literal("1"), _of("0", "2")))
_LONG_MONTH = choice(sequence(Literal("0"), _among(*"13578")), sequence(Literal("1"), _among(*"02")))
_NOT_FEBRUARY = choice(sequence(Literal("0"), _among(*"13456789")), sequence(Literal("1"), _of("0", "2")))
_TO_28 = choice(
    sequence(Literal("0"), _ONE_TO_NINE),
    sequence(Literal("1"), _DIGIT),
    sequence(Literal("2"), _of("0", "8")),
)
_FOURTH = choice(
    sequence(Literal("0"), _among(*"48")),
    sequence(_among(*"2468"), _among(*"048")),
    sequence(_among(*"13579"), _among(*"26")),
)
_LEAP_YEAR = choice(sequence(_DIGIT, _DIGIT, _FOURTH), sequence(_FOURTH, Literal("00")))
_DAY = choice(
    sequence(_YEAR, Literal("-"), _MONTH, Literal("-"), _TO_28),
    sequence(_YEAR, Literal("-"), _NOT_FEBRUARY, choice(Literal("-29"), Literal("-30"))),
    sequence(_YEAR, Literal("-"), _LONG_MONTH, Literal("-31")),
    sequence(_LEAP_YEAR, Literal("-02-29")),
)
_HOUR = choice(sequence(_of("0", "1"), _DIGIT), sequence(Literal("2"), _of("0", "3")))
_SIXTY = sequence(_of("0", "5"), _DIGIT)
_MINUTES = sequence(_HOUR, Literal(":"), _SIXTY)
_MOMENT = sequence(
    _DAY, Literal("T"), _MINUTES, Literal(":"), _SIXTY, Chars((("+", "+"), ("-", "-"))), _MINUTES
)
DATE = Terminal("date", _DAY)
MOMENT = Terminal("moment", _MOMENT)
_ODD_MOMENT = Terminal("oddmoment", sequence(_MOMENT, Literal(":"), _SIXTY))
_ODD_LENGTH: Final = len("1890-01-01T09:30:00+00:53:28")


def nothing_known(kind: Type) -> None:
    """Say nothing of a value, so that any of its type may stand."""


def quoted(text: str) -> str:
    """Spell a string as a trace does."""
    return encode_basestring(text)


def hole(
    type_: Type,
    spelling: str | None = None,
    *,
    at_most: int | None = None,
    at_least: int = 0,
    leaf: Leaf = nothing_known,
) -> Node:
    """Give the canonical spellings of a type; where the value's own is known, wide enough for that.

    `at_most` and `at_least` are how many items a list may have. `leaf` knows what a single value can be.
    """
    known = leaf(type_)
    if known is not None:
        return known
    match type_:
        case IntType():
            return _number(spelling, "int", 0)
        case DecimalType(places=places):
            return _number(spelling, "decimal", places)
        case PercentType():
            return _number(spelling, "percent", None)
        case BoolType():
            return _BOOL
        case DateType():
            return DATE
        case DatetimeType():
            return MOMENT if spelling is None or len(spelling) < _ODD_LENGTH else _ODD_MOMENT
        case EnumType(options=options):
            return choice(*(Literal(quoted(option)) for option in options))
        case StringType() | TextType():
            return STRING if spelling is None or len(spelling) <= STRING_CHARS else Literal(spelling)
        case NothingType() | ListType(item=NothingType()):
            return NO_ITEMS
        case ListType(item=item) if spelling is not None:
            return _known_list(item, spelling)
        case ListType(item=item):
            most = LIST_ITEMS if at_most is None else at_most
            return _list(hole(item, leaf=leaf), most, at_least)
        case RecordType(fields=fields):
            return _record([(field.name, hole(field.type, leaf=leaf)) for field in fields])
        case OptionalType(item=item):
            inner = hole(item, None if spelling == "null" else spelling, at_most=at_most, leaf=leaf)
            return choice(NULL, inner)
        case NullType():
            return NULL
        case _:
            assert_never(type_)


def _number(spelling: str | None, kind: str, places: int | None) -> Node:
    """Bound a number: no leading zeros, and exactly `places` decimals unless the value needs more."""
    if kind == "int" and len(spelling or "") <= INT_DIGITS:
        return _number_of(kind, INT_DIGITS, places, 0)
    written = _NUMERAL.match(spelling or "")
    whole, decimals = (len(digits) for digits in written.groups("")) if written else (0, 0)
    whole = max(INT_DIGITS, whole)
    return _number_of(kind, whole, places, max(FRACTION_DIGITS if places is None else places, decimals))


@lru_cache(maxsize=512)
def _number_of(kind: str, whole: int, places: int | None, most: int) -> Node:
    """Give numbers of so many digits. Most are wanted again and again."""
    parts = [
        optional(Literal("-")),
        choice(Literal("0"), sequence(_ONE_TO_NINE, Repeat(_DIGIT, 0, whole - 1))),
    ]
    if places is None:
        parts.append(optional(Literal("."), Repeat(_DIGIT, 1, most)))
    elif most:
        parts += [Literal("."), Repeat(_DIGIT, places, most)]
    if kind == "percent":
        parts.append(Literal("%"))
    fraction = f"x{'any' if places is None else places}x{most}" if most else ""
    return Terminal(f"{kind}{whole}{fraction}", sequence(*parts))


def _known_list(item: Type, spelling: str) -> Node:
    """Make a list wide enough for the one that is right; one beyond all bounds is given."""
    strings = [len(string[0]) - 2 for string in _STRING.finditer(spelling)]
    items = spelling.count(",") + 1
    if max(strings, default=0) > STRING_CHARS or items > MAX_ITEMS:
        return Literal(spelling)
    # The longest number of all, so that one rule is wide enough for each.
    numbers = [number[0] for number in _SIGNED.finditer(_STRING.sub("", spelling))]
    whole = max((len(number.partition(".")[0]) for number in numbers), default=0)
    decimals = max((len(number.partition(".")[2].rstrip("%")) for number in numbers), default=0)
    wide = "9" * whole + ("." + "9" * decimals if decimals else "")
    return _list(_widened(item, wide), max(LIST_ITEMS, items))


def _widened(type_: Type, wide: str) -> Node:
    match type_:
        case IntType() | DecimalType() | PercentType():
            return hole(type_, wide)
        case ListType(item=item) if not isinstance(item, NothingType):
            return _list(_widened(item, wide), LIST_ITEMS)
        case RecordType(fields=fields):
            return _record([(field.name, _widened(field.type, wide)) for field in fields])
        case _:
            return hole(type_)


def _list(item: Node, most: int, least: int = 0) -> Node:
    more = Repeat(sequence(Literal(", "), item), max(0, least - 1), max(0, min(most, MAX_ITEMS) - 1))
    return sequence(Literal("["), sequence(item, more) if least else optional(item, more), Literal("]"))


def _record(fields: list[tuple[str, Node]]) -> Node:
    parts: list[Node] = []
    for index, (name, value) in enumerate(fields):
        parts += [Literal(f"{', ' if index else ''}{quoted(name)}: "), value]
    return sequence(Literal("{"), *parts, Literal("}"))

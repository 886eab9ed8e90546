"""What a value in free-form text is as a value of the language, and whether it is the right answer."""

from __future__ import annotations

import json
import re
from datetime import date
from decimal import Decimal
from enum import Enum, auto
from fractions import Fraction
from itertools import islice
from typing import Final, Literal

from guard.procedure.normal import normal
from guard.procedure.types import (
    BoolType,
    DecimalType,
    EnumType,
    ListType,
    NothingType,
    NullType,
    OptionalType,
    PercentType,
    RecordType,
    StringType,
    TextType,
    Type,
    Value,
)
from guard.procedure.values import coerce, equal, from_json
from guard.trace.announced import Answer, number
from guard.trace.numerals import plain
from guard.trace.results import Part
from guard.trace.tokens import Value as Read

CANDIDATES: Final = 20  # places in a text that are tried for a list or record
JSON: Final = 20_000  # characters of a list or record
SPELLED: Final = 100  # characters of a text that may spell a number or date

_YES_NO: Final = {"yes": True, "true": True, "no": False, "false": False}
_OPENING: Final = re.compile(r"[\[{](?=\s*[\[{\"\]}0-9tfn-])")
_LETTERS: Final = re.compile(r"\w+")
_DECODER: Final = json.JSONDecoder(parse_float=Decimal)


def is_scalar(type: Type) -> bool:  # noqa: A002 (the type of a value is its type)
    """Whether values of a type are one number, word or text."""
    match type:
        case OptionalType(item):
            return is_scalar(item)
        case ListType() | RecordType() | NothingType() | NullType():
            return False
        case _:
            return True


class Unfit(Enum):
    """Why what was read is no value of a type."""

    UNREAD = auto()  # it may be one, in a spelling that is not read
    ALIEN = auto()  # it is of another kind


def as_value(read: Read | None, type: Type, *, quoted: bool = True) -> Value | Unfit:  # noqa: A002
    """Give what was read as a value of a scalar type. `quoted`: a text is all there is."""
    match type:
        case OptionalType(item):
            return as_value(read, item, quoted=quoted)
        case _ if read is None:
            return Unfit.UNREAD
        case BoolType() if isinstance(read, str):
            return _YES_NO.get(read.strip().lower(), Unfit.UNREAD)
        case EnumType(options) if isinstance(read, str):
            wanted = _plain(read)
            found = next((option for option in options if _plain(option) == wanted), None)
            return found if found is not None else Unfit.ALIEN if quoted else Unfit.UNREAD
        case StringType() | TextType() | EnumType() if not isinstance(read, str):
            return Unfit.UNREAD
        case StringType() | TextType():
            return read
        case _ if isinstance(read, str):
            return _spelled_out(read, type, quoted=quoted)
        case _:
            value = coerce(read, type)
            return Unfit.ALIEN if value is None else value


def _spelled_out(text: str, type: Type, *, quoted: bool) -> Value | Unfit:  # noqa: A002
    """Give the number or date that is all of a text."""
    spelled = plain(text)
    found = number(spelled, spelled, 0, len(spelled)) if len(text) <= SPELLED else None
    if found is not None and found.value is not None and not isinstance(found.value, str):
        return as_value(found.value, type)
    figures = any(map(str.isdigit, text))
    return Unfit.ALIEN if quoted and not figures else Unfit.UNREAD


def compared(
    read: Part | Answer,
    expected: Value,
    type: Type,  # noqa: A002
) -> Literal["right", "wrong", "unread"]:
    """Compare what was read with a value of a scalar type; texts may differ in case, blanks and signs."""
    quoted = read.quoted if isinstance(read, Answer) else True
    if isinstance(expected, str) and isinstance(read.value, str) and not isinstance(type, EnumType):
        return _compared_texts(read.value, expected, quoted=quoted)
    value = as_value(read.value, type, quoted=quoted)
    if isinstance(value, Unfit):
        return "wrong" if value is Unfit.ALIEN else "unread"
    if equal(value, expected):
        return "right"
    return "unread" if read.about or _in_hundredths(value, expected, type, percent=read.percent) else "wrong"


def _compared_texts(text: str, expected: str, *, quoted: bool) -> Literal["right", "wrong", "unread"]:
    if _plain(text) == _plain(expected):
        return "right"
    return "unread" if not quoted and says(text, expected) else "wrong"


def _in_hundredths(value: Value, expected: Value, type: Type, *, percent: bool) -> bool:  # noqa: A002
    """Whether only a percent sign is too much or missing, which people leave to the unit."""
    if isinstance(value, bool | str) or not isinstance(value, int | Fraction):
        return False
    if percent != isinstance(type, PercentType):
        return equal(value * 100 if percent else Fraction(value) / 100, expected)
    return False


def same(read: Read | None, expected: Value, type: Type) -> bool:  # noqa: A002
    """Whether what was read is a value of a scalar type; texts may differ in case, blanks and signs."""
    if isinstance(expected, str) and isinstance(read, str):
        return _plain(read) == _plain(expected)
    value = as_value(read, type)
    return not isinstance(value, Unfit) and equal(value, expected)


def worded(text: str, name: str, type: Type) -> list[Part]:  # noqa: A002
    """Find where a name is given a word that is a value of an enumeration, or yes or no: `loyal: no`."""
    options = _words(type)
    if not options:
        return []
    longest = sorted(options, key=len, reverse=True)
    pattern = re.compile(
        rf"(?<![\w.]){re.escape(name)}(?!\w)[ \t*_`\"|]{{0,9}}(?:=|:|\||\bis\b|\bequals\b)[ \t*_`\"]{{0,9}}"
        rf"(?P<word>{'|'.join(map(re.escape, longest))})(?!\w)",
        re.IGNORECASE,
    )
    return [
        Part(text=match["word"], value=match["word"], at=match.start("word"), end=match.end("word"))
        for match in pattern.finditer(text)
    ]


def _words(type: Type) -> tuple[str, ...]:  # noqa: A002
    match type:
        case OptionalType(item):
            return _words(item)
        case BoolType():
            return tuple(_YES_NO)
        case EnumType(options):
            return options
        case _:
            return ()


def written_json(text: str, type: Type) -> tuple[Value, int] | None:  # noqa: A002
    """Find the last list or record of a type that stands in a text as JSON; give it and its place."""
    places = [match.start() for match in _OPENING.finditer(text)]
    found: tuple[Value, int] | None = None
    end = 0
    for at in islice(places, max(0, len(places) - CANDIDATES), None):
        if at < end:
            continue
        try:
            raw, length = _DECODER.raw_decode(text[at : at + JSON])
            found, end = (from_json(raw, type), at), at + length
        except (ValueError, RecursionError):  # no JSON, or of another type
            continue
    return found


def same_json(text: str, expected: Value) -> tuple[bool, int] | None:
    """Compare the first list or record that stands in a text as JSON with a value; also gives its place.

    None where none stands there.
    """
    opening = _OPENING.search(text)
    if opening is None:
        return None
    try:
        raw, _ = _DECODER.raw_decode(text[opening.start() : opening.start() + JSON])
    except (ValueError, RecursionError):
        return None
    return _means(raw, expected), opening.start()


def _means(raw: object, expected: Value) -> bool:
    """Whether a piece of JSON means a value."""
    match expected:
        case tuple():
            listed = raw if isinstance(raw, list) else []
            return len(listed) == len(expected) and all(map(_means, listed, expected))
        case dict():
            fields = raw if isinstance(raw, dict) else {}
            return fields.keys() == expected.keys() and all(
                _means(fields[name], value) for name, value in expected.items()
            )
        case bool() | str():
            return raw == expected and isinstance(raw, bool | str)
        case int() | Fraction():
            return not isinstance(raw, bool | str) and _is_number(raw, expected)
        case date():
            return raw == expected.isoformat()
        case _:
            return raw is None


def _is_number(raw: object, expected: Value) -> bool:
    try:
        return equal(from_json(raw, DecimalType()), expected)
    except ValueError:  # no number, or one of too many digits
        return False


def says(text: str, expected: Value) -> bool:
    """Whether a text holds another one, but for case, blanks and signs."""
    return isinstance(expected, str) and f" {_plain(expected)} " in f" {_plain(text)} "


def _plain(text: str) -> str:
    return " ".join(_LETTERS.findall(normal(text).casefold()))

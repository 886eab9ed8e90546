"""What a value in free-form text is as a value of the language, and whether it is the right answer."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from itertools import islice
from typing import Final
from unicodedata import normalize

from guard.procedure.types import (
    BoolType,
    EnumType,
    ListType,
    NothingType,
    NullType,
    OptionalType,
    RecordType,
    StringType,
    TextType,
    Type,
    Value,
)
from guard.procedure.values import coerce, equal, from_json
from guard.trace import equations

CANDIDATES: Final = 20  # places in a text that are tried for a list or record
JSON: Final = 20_000  # characters of a list or record

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


def as_value(read: equations.Value | None, type: Type) -> Value | None:  # noqa: A002
    """Give what was read as a value of a scalar type; None where it is of another kind."""
    match type:
        case OptionalType(item):
            return as_value(read, item)
        case BoolType() if isinstance(read, str):
            return _YES_NO.get(read.strip().lower())
        case EnumType(options) if isinstance(read, str):
            wanted = _plain(read)
            return next((option for option in options if _plain(option) == wanted), None)
        case StringType() | TextType() | EnumType() if not isinstance(read, str):
            return None
    return None if read is None else coerce(read, type)


def same(read: equations.Value | None, expected: Value, type: Type) -> bool:  # noqa: A002
    """Whether what was read is a value of a scalar type; texts may differ in case, blanks and signs."""
    if isinstance(expected, str) and isinstance(read, str):
        return _plain(read) == _plain(expected)
    value = as_value(read, type)
    return value is not None and equal(value, expected)


def worded(text: str, name: str, type: Type) -> list[equations.Part]:  # noqa: A002
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
        equations.Part(text=match["word"], value=match["word"], at=match.start("word"), end=match.end("word"))
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


def says(text: str, expected: Value) -> bool:
    """Whether a text holds another one, but for case, blanks and signs."""
    return isinstance(expected, str) and f" {_plain(expected)} " in f" {_plain(text)} "


def _plain(text: str) -> str:
    return " ".join(_LETTERS.findall(normalize("NFC", text).casefold()))

"""JSON in free-form text, read as far as it is JSON: cut off, it gives what was there."""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import Final

from guard.trace.numerals import numeral

_TOKEN: Final = re.compile(
    r"[ \t\r\n]*+(?:(?P<sign>[{}\[\],:])|\"(?P<text>(?:[^\"\\\n]|\\[^\n]){0,1000})\""
    r"|(?P<number>-?[0-9][0-9.eE+-]*+)|(?P<word>true|false|null)\b)"
)
OPENING: Final = re.compile(r"\[?[ \t\r\n]{0,20}\{[ \t\r\n]{0,20}\"")
AHEAD: Final = 64  # characters that an opening may take, over several lines
PIECE: Final = 256  # tokens that are read in one go
_WORDS: Final = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One scalar member of an object, with the place of its value."""

    text: str
    value: object
    at: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """The scalar members of one object, by lower-case name; of two alike the last."""

    members: dict[str, Member]
    at: int
    end: int


def read_objects(text: str, at: int) -> Generator[None, None, tuple[list[Object], int]]:
    """Read JSON from a place on. Gives its objects, in the order of their ends, and where it stops.

    Yields now and then, so that others get their turn.
    """
    start, found, tokens = at, list[Object](), 0
    open_: list[tuple[int, dict[str, Member]]] = []
    lists = 0  # those that are open around all objects
    key: str | None = None
    previous: str | None = None  # a text that a colon would make a key
    while match := _TOKEN.match(text, at):
        at, tokens = match.end(), tokens + 1
        if tokens % PIECE == 0:
            yield
        kind = match.lastgroup
        sign = match["sign"]
        lists += ((sign == "[") - (sign == "]")) * (not open_)
        if sign == "{":
            open_.append((at - 1, {}))
        elif sign == "}" and open_:
            place, members = open_.pop()
            found.append(Object(members=members, at=place, end=at))
        elif sign == ":":
            key, previous = previous, None
            continue
        elif not sign:
            begin = match.start(kind) if kind else at
            if key is None:
                previous = match["text"]
            elif open_:
                value = _value(match, text)
                member = Member(text=match[kind or 0], value=value, at=begin, end=match.end(kind or 0))
                open_[-1][1][key.lower()] = member
        key = None
        if sign in {"]", "}"} and not open_ and lists <= 0:
            break
    found += [Object(members=members, at=place, end=at) for place, members in reversed(open_)]
    return found, max(at, start + 1)


def _value(match: re.Match[str], text: str) -> object:
    if match["word"]:
        return _WORDS[match["word"]]
    if match["text"] is not None:
        return match["text"]
    begin = match.start("number")
    negative = text[begin] == "-"
    number = numeral(text, begin + negative)
    if number is None or number[0] is None or number[1] != match.end("number"):
        return None
    return -number[0] if negative else number[0]

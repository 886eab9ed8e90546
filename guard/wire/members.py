"""The members of a JSON object where they stand, so that one can go and the rest stays as written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import orjson

_QUOTED: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_STRING: Final = re.compile(_QUOTED, re.DOTALL)
_KEY: Final = re.compile(rb"[ \t\r\n,]*+(" + _QUOTED + rb"|\})", re.DOTALL)
# What opens and closes, behind whatever stands in front of it: enough to know how deep a place is.
_BRACKET: Final = re.compile(rb'(?:[^"{}\[\]]++|' + _QUOTED + rb")*+([{}\[\]])", re.DOTALL)
_DEPTH: Final = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}
_COLON: Final = re.compile(rb"[ \t\r\n]*+:[ \t\r\n]*+")
_SCALAR: Final = re.compile(rb"[^ \t\r\n,}]++")
_COMMA: Final = re.compile(rb"[ \t\r\n]*+,[ \t\r\n]*+")
_BLANK: Final = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class Member:
    """One member of the outermost object: its name, where that starts, and where its value stands."""

    name: str
    at: int
    value_at: int
    end: int


def members(body: bytes) -> Iterator[Member]:
    """Give the members of the object that a body is. The body must be JSON; the same name may come twice."""
    at = body.index(b"{") + 1
    while (key := _KEY.match(body, at)) is not None and key[1] != b"}":
        colon = _COLON.match(body, key.end())
        assert colon is not None, "a name has a colon behind it"
        end = _end_of_value(body, colon.end())
        yield Member(orjson.loads(key[1]), key.start(1), colon.end(), end)
        at = end


def _end_of_value(body: bytes, at: int) -> int:
    opened = body[at : at + 1]
    if opened not in {b"{", b"["}:
        single = (_STRING if opened == b'"' else _SCALAR).match(body, at)
        assert single is not None, "a colon has a value behind it"
        return single.end()
    depth = 0
    for bracket in _BRACKET.finditer(body, at):
        depth += _DEPTH[bracket[1]]
        if depth == 0:
            return bracket.end()
    raise AssertionError("what is opened is closed")


def edited(body: bytes, *, without: str, changed: Mapping[str, bytes] | None = None) -> bytes:
    """Give the body without one member, and with other values for some: every other byte is as it was.

    Of the two commas around the member the one behind it goes with it, or else the one before.
    """
    kept = bytearray()
    at = 0  # up to here the body has been looked at
    for member in members(body):
        if member.name == without:
            kept += body[at : member.at]
            comma = _COMMA.match(body, member.end)
            at = member.end if comma is None else comma.end()
            if comma is None and (bare := kept.rstrip(_BLANK)).endswith(b","):
                kept = bare[:-1]
        elif changed and member.name in changed:
            kept += body[at : member.value_at] + changed[member.name]
            at = member.end
    return bytes(kept + body[at:])

"""JSON that others wrote, read as far as it can be: one bad character takes nothing else along."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import orjson

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"  # for half of a pair that has no other half
MAX_PARTS: Final = 150_000  # values of a text, about: reading that many takes some 30 ms
MAX_DIGITS: Final = 18  # of a number that is read as a whole one, where orjson cannot read it all


class _NotJson:
    """What is returned in place of a value: `None` is one."""


NOT_JSON: Final = _NotJson()

_LONG: Final = 64 * 1024  # bytes, in which there cannot be too many values
_MARKS: Final = (b"[", b"{", b",")
_HALF: Final = re.compile("[\ud800-\udfff]")


def read_json(data: bytes) -> Any:
    """Read a value, `NOT_JSON` where there is none. Never raises.

    Half of a surrogate pair stays in its string, for `Pairs` to find the other half; bytes that are no UTF-8
    become U+FFFD. What is nested more deeply, or has more values, than anybody means it is no JSON.
    """
    if len(data) > _LONG and sum(map(data.count, _MARKS)) > MAX_PARTS:
        return NOT_JSON
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(data.decode("utf-8", "replace"), parse_int=_whole)
    except (ValueError, RecursionError):
        return NOT_JSON


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= MAX_DIGITS else float(digits)


def halves(text: str) -> bool:
    """Whether there are surrogates in a text, which no encoding of Unicode has."""
    return not text.isascii() and _HALF.search(text) is not None


def paired(text: str) -> str:
    """Give a text with its halves put together, and U+FFFD for those that have no other half."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace") if halves(text) else text


def half_in(value: object) -> str | None:
    """Find the first string with half of a pair in a value: its path, such as `messages.0.content`."""
    places: list[tuple[str, object]] = [("", value)]
    while places:
        path, inner = places.pop()
        begin = f"{path}." if path else ""
        match inner:
            case str() if halves(inner):
                return path
            case dict():
                if any(map(halves, inner)):
                    return path
                places += reversed([(f"{begin}{name}", each) for name, each in inner.items()])
            case list():
                places += reversed([(f"{begin}{place}", each) for place, each in enumerate(inner)])
            case _:
                pass
    return None


class Pairs:
    """Puts characters back together that were cut in two on their way, into the pieces of a text."""

    def __init__(self) -> None:
        self._high = ""  # a first half; the next piece may begin with the second one

    def join(self, text: str) -> str:
        """Give what a piece adds."""
        if not text or (not self._high and text.isascii()):
            return text
        text, self._high = self._high + text, ""
        if "\ud800" <= text[-1] <= "\udbff":
            text, self._high = text[:-1], text[-1]
        return paired(text)

    def close(self) -> str:
        """Give what is left at the end."""
        rest, self._high = paired(self._high), ""
        return rest

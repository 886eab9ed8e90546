"""Whether the quotes of a line stand in their sources as whole words, and support its value.

Compared are NFC, runs of white space as one blank, case kept. What a quote's words say is read where they
stand in the source, so that no part of a longer number or word is taken for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from guard.dialect.holes import QUOTES
from guard.procedure.expected import Decision
from guard.procedure.lattice import required
from guard.procedure.model import Quoting
from guard.procedure.types import NULL, ListType, Type, Value
from guard.trace.support import Reading, flat, unsupported

SEARCHED: Final = 3_000_000  # characters of sources that are gone through for the quotes of one line
PLACES: Final = 16  # of one quote that are read
READ: Final = 8_000  # characters of all places that are read for one line, with what stands around them

_NEAR: Final = 32  # characters around a quote in which the number may begin or end that it cuts
_PLACE: Final = 200  # characters that it takes as long to go through as to look at one place


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """What is wrong with the quotes of a line: the `index` of the wrong one, None where it is a missing one.

    `expected` is for people. `beyond`: what it would take to tell exceeds a limit.
    """

    index: int | None
    expected: str
    beyond: bool = False


class Sources:
    """The texts of one run, made comparable when they are first asked about."""

    __slots__ = ("_flat",)

    def __init__(self) -> None:
        self._flat: dict[str, str] = {}

    def doubt(self, decision: Decision, value: Value, quotes: Sequence[str]) -> Doubt | None:
        """Give the first thing that is wrong with a line's quotes for a decision."""
        names = " or ".join(name for name, _ in decision.sources) or "a source"
        if not quotes:
            needed = decision.quote is not None and value not in (NULL, ())
            expected = f'a quote from {names} behind the value: <- "..."'
            return Doubt(index=None, expected=expected) if needed else None
        texts = [self._text(name, text) for name, text in decision.sources]
        line = _Line(texts, names, quotes)
        if decision.quote is not Quoting.SUPPORTING or value in (NULL, ()):
            return line.stands(max(QUOTES, len(value) if isinstance(value, tuple) else 0))
        kind = required(decision.type)
        if isinstance(value, tuple) and isinstance(kind, ListType):
            return line.supports_each(value, kind.item)
        return line.stands(QUOTES) or line.supports(value, kind)

    def _text(self, name: str, text: str) -> str:
        if name not in self._flat:
            self._flat[name] = flat(text)
        return self._flat[name]


class _Line:
    """The quotes of one line, next to the flat texts of their sources.

    They mostly come in the order of the text: each is sought from where the one before was found, so that
    many of them take one passage through a long source.
    """

    def __init__(self, texts: Sequence[str], names: str, quotes: Sequence[str]) -> None:
        self._texts, self._names, self._quotes = texts, names, quotes
        self._from = [0] * len(texts)
        self._left, self._unread = SEARCHED, READ

    def stands(self, most: int) -> Doubt | None:
        """Whether each quote stands in a source, and they are not too many."""
        for index, quote in enumerate(self._quotes):
            if index >= most:
                return Doubt(index=index, expected=f"at most {most} quotes")
            if next(self._places(quote), None) is None:
                return self._doubt(index, f"words that stand in {self._names}")
        return None

    def supports(self, value: Value, kind: Type) -> Doubt | None:
        """Whether the quotes together say a value, wherever they stand."""
        readings = (reading for quote in self._quotes for reading in self._places(quote))
        lacking = unsupported(value, kind, self._within(readings))
        return None if lacking is None else self._doubt(0, self._says(lacking))

    def supports_each(self, items: Sequence[Value], kind: Type) -> Doubt | None:
        """Whether there is a quote for each item, which stands in a source and says it."""
        every = f"a quote for each item, {len(items)} in all"
        for index, quote in enumerate(self._quotes):
            if index >= len(items):
                return Doubt(index=index, expected=every)
            places = self._places(quote)
            first = next(places, None)
            if first is None:
                return self._doubt(index, f"words that stand in {self._names}")
            lacking = unsupported(items[index], kind, self._within(chain([first], places)))
            if lacking is not None:
                return self._doubt(index, self._says(lacking))
        missing = len(self._quotes) < len(items)
        return Doubt(index=len(self._quotes) - 1, expected=every) if missing else None

    def _says(self, lacking: str) -> str:
        return f"words of {self._names} that say {lacking}"

    def _doubt(self, index: int, expected: str) -> Doubt:
        if self._left < 0:
            return Doubt(index=index, expected=f"quotes found in {SEARCHED:,} characters", beyond=True)
        if self._unread < 0:
            return Doubt(
                index=index, expected=f"quotes of {READ:,} characters, read wherever they stand", beyond=True
            )
        return Doubt(index=index, expected=expected)

    def _places(self, quote: str) -> Iterator[Reading]:
        """Give where a quote stands as whole words, up to `PLACES` times, as far as may be searched."""
        words = flat(quote)
        found = 0
        for number, text in enumerate(self._texts if words else ()):
            begun = self._from[number]
            for first, last in ((begun, len(text)), (0, min(begun + len(words) - 1, len(text)))):
                for at in self._sought(words, text, first, last):
                    if found == PLACES:
                        return
                    self._from[number] = at
                    found += 1
                    yield _reading(text, at, at + len(words))

    def _within(self, readings: Iterable[Reading]) -> Iterator[Reading]:
        """Give readings as far as they may be read."""
        for reading in readings:
            self._unread -= len(reading.text)
            if self._unread < 0:
                return
            yield reading

    def _sought(self, words: str, text: str, first: int, last: int) -> Iterator[int]:
        while self._left >= 0:
            at = text.find(words, first, last)
            self._left -= (last if at < 0 else at) - first + len(words) + _PLACE
            if at < 0:
                return
            if _is_whole(text, at, at + len(words)):
                yield at
            first = at + 1


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether no word is cut at either end."""
    cut_before = start > 0 and _in_word(text[start - 1]) and _in_word(text[start])
    return not cut_before and not (end < len(text) and _in_word(text[end - 1]) and _in_word(text[end]))


def _in_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _reading(text: str, start: int, end: int) -> Reading:
    """Read a place with what stands around it, from one blank to another."""
    first = 0 if start <= _NEAR else text.find(" ", start - _NEAR, start) + 1 or start - _NEAR
    last = len(text) if len(text) <= end + _NEAR else text.rfind(" ", end, end + _NEAR)
    return Reading(text[first : end + _NEAR if last < 0 else last], start - first, end - first)

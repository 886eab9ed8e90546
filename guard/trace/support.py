"""Whether words of a text support a value: they have the number or date in them, or the words of the string.

An enumeration or a boolean is supported by any words, since the model says in other words what these say; so
is what is null or empty, which no words show.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import Final, assert_never

from guard.procedure.normal import normal
from guard.procedure.types import (
    NULL,
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
    Value,
)
from guard.procedure.values import spell
from guard.trace.spellings import Spelled, spelled_in

_WORD: Final = re.compile(r"\w+")
OPENING: Final = 200  # characters of a quote for what any words support

Leaf = tuple[Value, Type]
Place = tuple[int, int]


def flat(text: str) -> str:
    """Give a text as quotes are compared: NFC, runs of white space as one blank, none at its ends."""
    return " ".join(normal(text).split())


class Reading:
    """What can be read between two places of a flat text: only spellings that stand there whole."""

    def __init__(self, text: str, start: int = 0, end: int | None = None) -> None:
        self.text = text
        self._start, self._end = start, len(text) if end is None else end

    @cached_property
    def spelled(self) -> list[Spelled]:
        """The numbers, days and times."""
        return [one for one in spelled_in(self.text) if self._start <= one.at and one.end <= self._end]

    @cached_property
    def words(self) -> dict[str, list[Place]]:
        """The words, case-folded, with their places."""
        found: dict[str, list[Place]] = {}
        for word in _WORD.finditer(self.text, self._start, self._end):
            found.setdefault(word[0].casefold(), []).append(word.span())
        return found

    def places(self, value: Value, kind: Type) -> list[list[Place]]:
        """Give where a single value can be read: of each part that must be there, all places.

        A part without places is not there. A value that any words support has no parts.
        """
        match kind:
            case IntType() | DecimalType():
                scaled = kind.unit is not None and bool(kind.unit.scales)
                return [[(one.at, one.end) for one in self.spelled if _is_number(value, one, scaled=scaled)]]
            case PercentType():
                return [[(one.at, one.end) for one in self.spelled if value in one.shares]]
            case DateType():
                return [[(one.at, one.end) for one in self.spelled if value in one.days]]
            case DatetimeType():
                assert isinstance(value, datetime)
                return self._moment(value)
            case StringType() | TextType():
                assert isinstance(value, str)
                return self._string(value)
            case EnumType() | BoolType() | NullType() | NothingType():
                return []
            case ListType() | RecordType() | OptionalType():
                raise AssertionError("these have leaves of their own")
            case _:
                assert_never(kind)

    def _moment(self, value: datetime) -> list[list[Place]]:
        whole = [(one.at, one.end) for one in self.spelled if value in one.moments]
        if whole:
            return [whole]
        apart = [one for one in self.spelled if not one.moments]
        clock = value.replace(tzinfo=None).time()
        return [
            [(one.at, one.end) for one in apart if value.date() in one.days],
            [(one.at, one.end) for one in apart if clock in one.times],
        ]

    def _string(self, value: str) -> list[list[Place]]:
        words = _WORD.findall(normal(value))
        if words:
            return [self.words.get(word.casefold(), []) for word in words]
        at = self.text.find(bare, self._start, self._end) if (bare := flat(value)) else self._start
        return [[(at, at + len(bare))] if at >= 0 else []] if bare else []


def _is_number(value: Value, one: Spelled, *, scaled: bool) -> bool:
    return value in one.numbers or (scaled and value in one.unscaled)


def leaves(value: Value, kind: Type) -> Iterator[Leaf]:
    """Give the single values of a value, in order, without what is null."""
    match value, kind:
        case _, OptionalType(item=item):
            yield from () if value is NULL else leaves(value, item)
        case tuple(), ListType(item=item):
            for one in value:
                yield from leaves(one, item)
        case dict(), RecordType(fields=fields):
            for field in fields:
                yield from leaves(value[field.name], field.type)
        case _:
            yield value, kind


def unsupported(value: Value, kind: Type, readings: Iterable[Reading]) -> str | None:
    """Give the first single value of a value, spelled, that no reading supports; None where all are."""
    read, coming = list[Reading](), iter(readings)
    for leaf, type_ in leaves(value, kind):
        while not any(all(reading.places(leaf, type_)) for reading in read):
            more = next(coming, None)  # only where those so far do not do, for each takes time
            if more is None:
                return spell(leaf, type_)
            read.append(more)
    return None


# --- finding quotes --------------------------------------------------------------------------------


def quotes_for(value: Value, kind: Type, sources: Sequence[str]) -> tuple[str, ...] | None:
    """Choose quotes that support a value: one, or one an item of a list; None where none can.

    Each is the shortest run of words that does, with the word before and the word after it. What any words
    support is quoted where its own stand, or else the beginning of the first source is.
    """
    readings = [Reading(text) for source in sources if (text := flat(source))]
    whole = _items(value, kind)
    chosen = [_quote(one, type_, readings) for one, type_ in whole]
    found = tuple(quote for quote in chosen if quote is not None)
    return found if len(found) == len(whole) else None


def _items(value: Value, kind: Type) -> list[Leaf]:
    match value, kind:
        case _, OptionalType(item=item):
            return [] if value is NULL else _items(value, item)
        case tuple(), ListType(item=item):
            return [(one, item) for one in value]
        case _:
            return [(value, kind)]


def _quote(value: Value, kind: Type, readings: Sequence[Reading]) -> str | None:
    needed, spans = False, []
    for reading in readings:
        parts = [part for leaf, type_ in leaves(value, kind) for part in reading.places(leaf, type_)]
        said = [part for leaf, type_ in leaves(value, kind) for part in _said(leaf, type_, reading)]
        needed = needed or bool(parts)
        span = _shortest([*parts, *said])
        if span is not None:
            spans.append((span[1] - span[0], reading.text, span))
    if spans:
        _, text, span = min(spans, key=lambda found: found[0])
        return _around(text, *span)
    return None if needed else next(opening(reading.text for reading in readings), None)


def _said(value: Value, kind: Type, reading: Reading) -> list[list[Place]]:
    """Where the words of an enumeration's value stand, if they all do."""
    if not isinstance(kind, EnumType):
        return []
    parts = reading.places(value, StringType())
    return parts if all(parts) else []


def _shortest(parts: Sequence[list[Place]]) -> Place | None:
    """Find the shortest stretch that has a place of each part."""
    if not parts or not all(parts):
        return None
    best: Place | None = None
    latest: dict[int, Place] = {}
    for place, part in sorted((place, number) for number, places in enumerate(parts) for place in places):
        latest[part] = place
        if len(latest) < len(parts):
            continue
        start, end = min(at for at, _ in latest.values()), max(end for _, end in latest.values())
        if best is None or end - start < best[1] - best[0]:
            best = (start, end)
    return best


def _around(text: str, start: int, end: int) -> str:
    """Give a stretch of a text with the words before and after it."""
    before = re.search(r"(?:\S+ )?\S*$", text[max(0, start - _NEAR) : start])
    after = re.match(r"\S*(?: \w+)?", text[end : end + _NEAR])
    return (before[0] if before else "") + text[start:end] + (after[0] if after else "")


_NEAR: Final = 200  # characters in which the neighbours of a word are looked for


def opening(sources: Iterable[str]) -> Iterator[str]:
    """Give the first words of each source that has any."""
    for source in sources:
        words = flat(source[: 4 * OPENING])
        if words:
            yield words if len(words) <= OPENING else words[:OPENING].rpartition(" ")[0] or words[:OPENING]

"""Rows of Markdown tables: which cell names a step, which holds its working and which its value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from guard.trace.amounts import changes
from guard.trace.equations import Names, chains, parts_of
from guard.trace.results import Part
from guard.trace.tokens import Sort, Token, tokens

DELIMITER: Final = re.compile(
    r"[ \t>]*+\|?(?:[ \t]*+:?-++:?[ \t]*+\|)++(?:[ \t]*+:?-++:?)?+[ \t\r]*+(?=\n|\Z)"
)
_CELL: Final = re.compile(r"(?:[^|\\]|\\.)*+", re.DOTALL)
_VALUES: Final = frozenset({"value", "result", "amount", "answer", "output", "total", "values", "results"})
_UNITS: Final = frozenset({"unit", "units", "scale"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a row gives a value, the last of `parts`. `name` is None where only a number stands."""

    name: str | None
    parts: tuple[Part, ...]
    at: int
    end: int


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a table, by the words above them."""

    columns: tuple[str, ...]

    def value(self, cells: int) -> int | None:
        """The column of values, of a row with so many cells; None where no word names one."""
        if cells != len(self.columns):
            return None
        return next((place for place, word in enumerate(self.columns) if word in _VALUES), None)

    def unit(self, cells: int) -> int | None:
        """The column that says what the values count."""
        if cells != len(self.columns):
            return None
        return next((place for place, word in enumerate(self.columns) if word in _UNITS), None)


def header(text: str, at: int, end: int) -> Header:
    """Read the line above a table's delimiters."""
    return Header(tuple(text[start:stop].strip(" \t*_`\r").lower() for start, stop in _spans(text, at, end)))


def row(text: str, at: int, end: int, known: Names, *, numbered: bool, columns: Header | None) -> Row | None:
    """Read a line with bars; None where it is no row of a step. `numbered`: its first cell has a number."""
    spans = _spans(text, at, end)
    cells = [tokens(text, start, stop) for start, stop in spans]
    named = next((place for place, cell in enumerate(cells) if _names(cell, known)), None)
    if named is None and not numbered:
        return None
    if named is None and (row := _equation(cells, known)):
        return row
    first = named if named is not None else 0
    last = columns.value(len(cells)) if columns is not None else None
    if last is None or last <= first:
        last = len(cells) - 1
    parts = [part for cell in cells[first + 1 : last + 1] for part in parts_of(cell)]
    if not parts or not cells[last]:
        return None
    scaled = columns.unit(len(cells)) if columns is not None else None
    if scaled is not None and any(changes(token.text) for token in cells[scaled]):
        parts[-1] = replace(parts[-1], value=None, unread=True)
    name = _names(cells[named], known) if named is not None else None
    return Row(name=name, parts=tuple(parts), at=spans[first][0], end=parts[-1].end)


def _spans(text: str, at: int, end: int) -> list[tuple[int, int]]:
    """The places of the cells, without the empty ones at both ends."""
    found: list[tuple[int, int]] = []
    while at <= end:
        cell = _CELL.match(text, at, end)
        assert cell is not None  # it takes the empty text
        found.append(cell.span())
        at = cell.end() + 1
    filled = [place for place, (start, stop) in enumerate(found) if text[start:stop].strip()]
    return found[filled[0] : filled[-1] + 1] if filled else []


def _names(cell: Sequence[Token], known: Names) -> str | None:
    if not cell or any(token.sort is not Sort.WORD for token in cell):
        return None
    return known.known([token.text for token in cell])


def _equation(cells: Sequence[Sequence[Token]], known: Names) -> Row | None:
    """A row whose equation names the step itself."""
    for place, cell in enumerate(cells):
        for chain in chains(cell, known):
            if chain.name is not None:
                rest = [part for after in cells[place + 1 :] for part in parts_of(after)]
                parts = (*chain.parts, *rest)
                return Row(name=chain.name, parts=parts, at=chain.at, end=parts[-1].end)
    return None

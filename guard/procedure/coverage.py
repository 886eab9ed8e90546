"""What the rows of a decision table have in common, and what they leave out, over all their columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from fractions import Fraction
from itertools import pairwise, product
from math import prod
from typing import Final

from guard.procedure.dates import at_position, moment_at, position
from guard.procedure.lattice import is_whole, required
from guard.procedure.model import AnyCell, Cell, Hit, Parameter, RangeCell, Row, Table, ValuesCell
from guard.procedure.nodes import Literal
from guard.procedure.types import (
    NULL,
    BoolType,
    DatetimeType,
    DateType,
    EnumType,
    IntType,
    OptionalType,
    Type,
    Value,
)
from guard.procedure.values import speller

Number = int | Fraction
# An end of a range: the number, and 0 where it belongs to the range, else the side it is approached from.
End = tuple[Number, int]

MOST_LOOKS: Final = 500_000  # combinations of values times rows; larger tables are not searched for gaps


def clashes(table: Table) -> Iterator[tuple[Row, Row]]:
    """Find, for each row, the first one above it that takes some of the same values.

    Under `any equal` only one with another result counts.
    """
    whole = [is_whole(required(parameter.type)) for parameter in table.parameters]
    for index, row in enumerate(table.rows):
        for earlier in table.rows[:index]:
            agree = table.hit is Hit.ANY and earlier.result.value == row.result.value
            if not agree and all(map(_meet, earlier.cells, row.cells, whole)):
                yield earlier, row
                break


def gap(table: Table) -> str:
    """Name some values of a table's inputs that no row takes; nothing where none were found.

    Looked at are the ends of ranges and what lies between them, never what lies beyond all of them.
    """
    columns = [
        list(_points(parameter.type, [row.cells[index] for row in table.rows]))
        for index, parameter in enumerate(table.parameters)
    ]
    if prod(map(len, columns)) * len(table.rows) > MOST_LOOKS:
        return ""
    for point in product(*columns):
        if not any(all(map(_takes, row.cells, point)) for row in table.rows):
            return ", ".join(map(_named, table.parameters, point))
    return ""


# --- cells ---------------------------------------------------------------------------------------


def _meet(one: Cell, other: Cell, whole: bool) -> bool:
    """Whether there is a value that both cells take."""
    match one, other:
        case (AnyCell(), _) | (_, AnyCell()):
            return True
        case ValuesCell(values), _:
            return any(_takes(other, value.value) for value in values)
        case _, ValuesCell(values):
            return any(_takes(one, value.value) for value in values)
        case RangeCell(), RangeCell():
            return _crossing([one, other], whole=whole)


def _crossing(ranges: Sequence[RangeCell], *, whole: bool) -> bool:
    """Whether there is a number in all of some ranges."""
    lows = [_end(r.low, r.low_included, 1, whole=whole) for r in ranges if r.low is not None]
    highs = [_end(r.high, r.high_included, -1, whole=whole) for r in ranges if r.high is not None]
    return not lows or not highs or max(lows) <= min(highs)


def is_empty(cell: RangeCell, *, whole: bool) -> bool:
    """Whether no number, or no whole number, is in a range."""
    return not _crossing([cell], whole=whole)


def _end(literal: Literal, included: bool, side: int, *, whole: bool) -> End:
    value = _number(literal)
    if included:
        return value, 0
    return (value + side, 0) if whole else (value, side)


def _takes(cell: Cell, value: Value | None) -> bool:
    """Whether a cell takes a value; None is any value at all."""
    match cell:
        case AnyCell():
            return True
        case ValuesCell(values):
            return any(literal.value == value for literal in values)
        case RangeCell() if isinstance(value, int | Fraction | date):
            point = Literal(position(value), IntType())
            return _crossing([cell, RangeCell(point, point)], whole=False)
        case _:
            return False


# --- values of a column --------------------------------------------------------------------------


def _points(type_: Type, cells: list[Cell]) -> Iterator[Value | None]:
    """Give values of a column that between them meet every difference its cells make."""
    match type_:
        case OptionalType(item):
            yield from _points(item, cells)
            yield NULL
        case EnumType(options):
            yield from options
        case BoolType():
            yield from (True, False)
        case _ if all(isinstance(cell, AnyCell) for cell in cells):
            yield None
        case _:
            listed = [value.value for cell in cells if isinstance(cell, ValuesCell) for value in cell.values]
            ends = [e for cell in cells if isinstance(cell, RangeCell) for e in (cell.low, cell.high) if e]
            texts = dict.fromkeys(value for value in listed if isinstance(value, str))
            found = {position(value) for value in listed if isinstance(value, int | Fraction | date)}
            yield from texts
            for number in _between(sorted(found | set(map(_number, ends))), whole=is_whole(type_)):
                yield _value_at(number, type_)


def _between(numbers: list[Number], *, whole: bool) -> Iterator[Number]:
    yield from numbers[:1]
    for low, high in pairwise(numbers):
        if not whole:
            yield Fraction(low + high) / 2
        elif high - low > 1:
            yield low + 1
        yield high


def _value_at(number: Number, type_: Type) -> Value:
    match type_:
        case DateType():
            return at_position(int(number))
        case DatetimeType():
            return moment_at(int(number))
        case _:
            return number


def _named(parameter: Parameter, value: Value | None) -> str:
    return f"{parameter.name} = {'any' if value is None else _spelled(value, parameter.type)}"


def _spelled(value: Value, type_: Type) -> str:
    return speller(type_)(value)


def _number(literal: Literal) -> Number:
    number = position(literal.value)
    assert isinstance(number, int | Fraction)
    return number

"""What the rows of a decision table have in common, over all their columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from fractions import Fraction

from guard.procedure.dates import position
from guard.procedure.lattice import is_whole, required
from guard.procedure.model import AnyCell, Cell, Hit, RangeCell, Row, Table, ValuesCell
from guard.procedure.nodes import Literal
from guard.procedure.types import (
    IntType,
    Value,
)

Number = int | Fraction
# An end of a range: the number, and 0 where it belongs to the range, else the side it is approached from.
End = tuple[Number, int]


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


# --- cells ---------------------------------------------------------------------------------------


def _meet(one: Cell, other: Cell, whole: bool) -> bool:
    """Whether there is a value that both cells take."""
    match one, other:
        case (AnyCell(), _) | (_, AnyCell()):
            return True
        case ValuesCell(ours), ValuesCell(theirs):
            return not {value.value for value in ours}.isdisjoint(value.value for value in theirs)
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


def _number(literal: Literal) -> Number:
    number = position(literal.value)
    assert isinstance(number, int | Fraction)
    return number

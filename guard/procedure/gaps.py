"""What the rows of a decision table leave out: every gap between them, in the steps of each column's type.

Between the ends of the rows nothing is passed over. What lies beyond all of them is no gap, unless another
row takes values there. A column of whole numbers, of dates or of a number of decimals has steps; between
the values of any other there is always one more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from math import ceil, floor, prod
from typing import Final

from guard.procedure.dates import at_position, moment_at, position
from guard.procedure.lattice import is_ordered, is_time, required
from guard.procedure.model import AnyCell, Cell, Parameter, RangeCell, Table, ValuesCell
from guard.procedure.nodes import Literal
from guard.procedure.numbers import Number
from guard.procedure.text import text
from guard.procedure.types import (
    NULL,
    BoolType,
    DatetimeType,
    DateType,
    DecimalType,
    EnumType,
    IntType,
    NullType,
    OptionalType,
    Type,
    Value,
)

# An end of a span: a number, and 0 where it belongs to the span, else 1 just above the number, -1 just below.
End = tuple[Number, int]

MOST_LOOKS: Final = 500_000  # combinations of values times rows; larger tables are not searched for gaps
MOST_NAMED: Final = 50  # of a table's gaps


@dataclass(frozen=True, slots=True)
class Span:
    """Values of a column from one end to another; None: without end."""

    low: End | None
    high: End | None


# Values of a column that its cells do not tell apart: a span, or one value; None is any value at all.
Part = Span | Value | None
Box = tuple[tuple[int, ...], ...]  # for each column which of its parts


@dataclass(frozen=True, slots=True)
class Gap:
    """Values that no row takes: in words, and as the cells of rows that would take them."""

    words: str
    rows: tuple[str, ...]


def gaps(table: Table) -> list[Gap]:
    """Find what no row of a table takes; nothing where a table of several columns is too large to search."""
    columns = [_Column(one, [row.cells[at] for row in table.rows]) for at, one in enumerate(table.parameters)]
    if len(columns) == 1:
        (column,) = columns
        return [Gap(column.named([part]), (column.cell(part),)) for part in column.missing()]
    parts = [column.parts() for column in columns]
    if prod(map(len, parts)) * len(table.rows) > MOST_LOOKS:
        return []
    return [_named(columns, parts, box) for box in _boxes(columns, parts, table)]


def _boxes(columns: Sequence[_Column], parts: Sequence[list[Part]], table: Table) -> list[Box]:
    """Find all combinations that no row takes, those that differ in one column put together."""
    taken = [list(map(_Column.taken, columns, row.cells, parts)) for row in table.rows]
    boxes: list[Box] = [
        tuple((index,) for index in point)
        for point in product(*(range(len(each)) for each in parts))
        if not any(all(index in there for index, there in zip(point, row, strict=True)) for row in taken)
    ]
    for at in reversed(range(len(columns))):
        joined: dict[Box, tuple[int, ...]] = {}
        for box in boxes:
            rest = (*box[:at], *box[at + 1 :])
            joined[rest] = joined.get(rest, ()) + box[at]
        boxes = [(*rest[:at], tuple(sorted(indexes)), *rest[at:]) for rest, indexes in joined.items()]
    return boxes


def _named(columns: Sequence[_Column], parts: Sequence[list[Part]], box: Box) -> Gap:
    words: list[str] = []
    cells: list[list[str]] = []
    for column, each, indexes in zip(columns, parts, box, strict=True):
        whole = len(indexes) == len(each) and column.is_whole
        runs: list[Part] = [None] if whole else _runs(each, indexes)
        words.append(column.named(runs))
        cells.append(list(map(column.cell, runs)))
    return Gap(", ".join(words), tuple(map(", ".join, product(*cells))))


def _runs(parts: list[Part], indexes: Sequence[int]) -> list[Part]:
    """Put spans together that follow each other."""
    found: list[Part] = []
    last = -2
    for index in indexes:
        part, before = parts[index], found[-1] if found else None
        if isinstance(part, Span) and isinstance(before, Span) and index == last + 1:
            found[-1] = Span(before.low, part.high)
        else:
            found.append(part)
        last = index
    return found


class _Column:
    """A column of a table: its type, and the steps of that."""

    def __init__(self, parameter: Parameter, cells: Sequence[Cell]) -> None:
        self.name, self.cells = parameter.name, cells
        self.type, self.optional = required(parameter.type), isinstance(parameter.type, OptionalType)
        self.step = _step(self.type)
        self.any = any(isinstance(cell, AnyCell) for cell in cells)

    @property
    def is_whole(self) -> bool:
        """Whether its parts are all the values that it has."""
        if not is_ordered(self.type):
            return isinstance(self.type, EnumType | BoolType)
        spans = [part for part in self.parts() if isinstance(part, Span)]
        return bool(spans) and spans[0].low is None and spans[-1].high is None

    # --- what there is

    def missing(self) -> list[Part]:
        """Give what none of its cells takes, where they are the only ones."""
        if self.any:
            return []
        if is_ordered(self.type):
            return [*self._between(), *self._null()]
        values = {value.value for cell in self.cells if isinstance(cell, ValuesCell) for value in cell.values}
        return [part for part in self.parts() if part not in values] if self.is_whole else self._null()

    def _null(self) -> list[Part]:
        taken = any(
            isinstance(cell, ValuesCell) and NULL in [v.value for v in cell.values] for cell in self.cells
        )
        return [NULL] if self.optional and not taken else []

    def parts(self) -> list[Part]:
        """Give values that between them meet every difference its cells make."""
        null: list[Part] = [NULL] if self.optional else []
        match self.type:
            case EnumType(options):
                return [*options, *null]
            case BoolType():
                return [True, False, *null]
            case _ if all(isinstance(cell, AnyCell) for cell in self.cells):
                return [None, *null]
            case kind if is_ordered(kind):
                return [*self._cut(), *null]
            case _:
                listed = (v.value for cell in self.cells if isinstance(cell, ValuesCell) for v in cell.values)
                return [*dict.fromkeys(value for value in listed if value is not NULL), *null]

    def _cut(self) -> Iterator[Span]:
        """Cut the column at all ends of its cells."""
        spans = list(self._spans())
        starts = {end.low for end in spans if end.low is not None}
        starts |= {self._above(end.high) for end in spans if end.high is not None}
        ordered = sorted(starts)
        if not ordered:
            yield Span(None, None)
            return
        if self.any or any(span.low is None for span in spans):
            yield Span(None, self._below(ordered[0]))
        for low, following in pairwise(ordered):
            yield Span(low, self._below(following))
        if self.any or any(span.high is None for span in spans):
            yield Span(ordered[-1], None)

    def _between(self) -> Iterator[Span]:
        spans = sorted(self._spans(), key=lambda span: (span.low is not None, span.low or (0, 0)))
        reached: End | None = None
        for index, span in enumerate(spans):
            if index and span.low is not None and reached is not None and self._above(reached) < span.low:
                yield Span(self._above(reached), self._below(span.low))
            if span.high is None:
                return
            reached = span.high if reached is None else max(reached, span.high)

    def _spans(self) -> Iterator[Span]:
        for cell in self.cells:
            match cell:
                case ValuesCell(values):
                    points = [_place(value) for value in values if value.value is not NULL]
                    yield from (Span((point, 0), (point, 0)) for point in points)
                case RangeCell():
                    span = self._span(cell)
                    if span.low is None or span.high is None or span.low <= span.high:
                        yield span
                case AnyCell():
                    pass

    def _span(self, cell: RangeCell) -> Span:
        low = None if cell.low is None else (_place(cell.low), 0 if cell.low_included else 1)
        high = None if cell.high is None else (_place(cell.high), 0 if cell.high_included else -1)
        if self.step is None:
            return Span(low, high)
        return Span(low and (self._up(*low), 0), high and (self._down(*high), 0))

    def taken(self, cell: Cell, parts: Sequence[Part]) -> frozenset[int]:
        """Say which of some parts a cell takes."""
        return frozenset(index for index, part in enumerate(parts) if self.takes(cell, part))

    def takes(self, cell: Cell, part: Part) -> bool:
        """Whether a cell takes a part; of those that its cells make it takes all values or none."""
        match cell, part:
            case AnyCell(), _:
                return True
            case _, None:
                return False
            case RangeCell(), Span(low, high):
                mine = self._span(cell)
                above = mine.low is None or (low is not None and mine.low <= low)
                return above and (mine.high is None or (high is not None and high <= mine.high))
            case ValuesCell(values), Span(low, high):
                return low == high and any(v.value is not NULL and (_place(v), 0) == low for v in values)
            case ValuesCell(values), _:
                return any(value.value == part for value in values)
            case _:
                return False

    # --- neighbours

    def _above(self, end: End) -> End:
        """Give the lowest end above a highest one."""
        return (end[0], end[1] + 1) if self.step is None else (end[0] + self.step, 0)

    def _below(self, end: End) -> End:
        """Give the highest end below a lowest one."""
        return (end[0], end[1] - 1) if self.step is None else (end[0] - self.step, 0)

    def _up(self, value: Number, side: int) -> Number:
        assert self.step is not None
        steps = ceil(value / self.step)
        return (steps + (side == 1 and steps * self.step == value)) * self.step

    def _down(self, value: Number, side: int) -> Number:
        assert self.step is not None
        steps = floor(value / self.step)
        return (steps - (side == -1 and steps * self.step == value)) * self.step

    # --- names

    def named(self, parts: Sequence[Part]) -> str:
        """Name values of the column: `x = 3..8`, `x <= 2`."""
        cells = list(map(self.cell, parts))
        return f"{self.name} {'' if cells[0][0] in '<>' else '= '}{' or '.join(cells)}"

    def cell(self, part: Part) -> str:
        """Give a cell that takes values of the column, as it is written."""
        match part:
            case None | Span(None, None):
                return "any"
            case Span(None, (high, side)):
                return f"{'<=' if side == 0 else '<'} {self._value(high)}"
            case Span((low, side), None):
                return f"{'>=' if side == 0 else '>'} {self._value(low)}"
            case Span((low, above), (high, below)):
                if low == high:
                    return self._value(low)
                return f"{self._value(low)}{'<' * above}..{'<' * -below}{self._value(high)}"
            case Span():
                raise AssertionError(part)  # all spans have been named
            case _:
                return self._constant(part)

    def _value(self, number: Number) -> str:
        match self.type:
            case DateType():
                return self._constant(at_position(int(number)))
            case DatetimeType():
                return self._constant(moment_at(int(number)))
            case IntType():
                return self._constant(int(number))
            case _:
                return self._constant(number)

    def _constant(self, value: Value) -> str:
        return text(Literal(value, NullType() if value is NULL else self.type))


def _step(type_: Type) -> Number | None:
    match type_:
        case DecimalType(int(places)):
            return Fraction(1, 10**places)
        case _:
            return 1 if isinstance(type_, IntType) or is_time(type_) else None


def _place(literal: Literal) -> Number:
    number = position(literal.value)
    assert isinstance(number, int | Fraction)
    return number

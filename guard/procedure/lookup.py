"""Decision tables as functions: the first row whose cells all take the values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from guard.procedure.functions import EvaluationError
from guard.procedure.model import AnyCell, Cell, IntType, RangeCell, Table, Type, Value, ValuesCell
from guard.procedure.values import spell


def lookup(table: Table) -> Callable[[Sequence[Any]], Value]:
    """Give the function that looks values up, one a parameter.

    It raises `EvaluationError` where no row is for them.
    """
    rows = [
        (tuple(_matcher(cell) for cell in row.cells), _table_value(row.result.value, table.result))
        for row in table.rows
    ]

    def find(values: Sequence[Any]) -> Value:
        for cells, result in rows:
            if all(cell is None or cell(value) for cell, value in zip(cells, values, strict=True)):
                return result
        pairs = zip(table.parameters, values, strict=True)
        looked = ", ".join(f"{parameter.name} = {spell(value, parameter.type)}" for parameter, value in pairs)
        raise EvaluationError(f"no row of table {table.name!r} is for {looked}")

    return find


def _table_value(value: Value, type: Type) -> Value:  # noqa: A002
    return int(value) if isinstance(type, IntType) and isinstance(value, Fraction) else value


def _matcher(cell: Cell) -> Callable[[Any], bool] | None:
    match cell:
        case AnyCell():
            return None
        case ValuesCell(values):
            options = frozenset(value.value for value in values)
            return options.__contains__
        case RangeCell(low, high, low_included, high_included):
            return _between(low and low.value, high and high.value, low_included, high_included)


def _between(low: Any, high: Any, low_included: bool, high_included: bool) -> Callable[[Any], bool]:
    def between(value: Any) -> bool:
        above = low is None or value > low or (low_included and value == low)
        return above and (high is None or value < high or (high_included and value == high))

    return between

"""Decision tables as functions: the rows whose cells all take the values, and what they give together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Final

from guard.procedure.functions import EvaluationError
from guard.procedure.model import AnyCell, Cell, Hit, RangeCell, Table, ValuesCell
from guard.procedure.types import NULL, IntType, OptionalType, Type, Value
from guard.procedure.values import spell


def lookup(table: Table) -> Callable[[Sequence[Any]], Value]:
    """Give the function that looks values up, one a parameter.

    It raises `EvaluationError` where no row is for them.
    """
    rows = [
        (tuple(_matcher(cell) for cell in row.cells), _table_value(row.result.value, table.result))
        for row in table.rows
    ]

    def hits(values: Sequence[Any]) -> Iterator[Value]:
        for cells, result in rows:
            if all(cell is None or cell(value) for cell, value in zip(cells, values, strict=True)):
                yield result

    choose = _CHOICES[table.hit]

    def find(values: Sequence[Any]) -> Any:
        try:
            return choose(hits(values))
        except _Unfit as how_many:
            pairs = zip(table.parameters, values, strict=True)
            looked = ", ".join(f"{p.name} = {spell(value, p.type)}" for p, value in pairs)
            found = f"{how_many} of table {table.name!r} is for"
            raise EvaluationError(f"{found} {looked}", plain=f"{found} its values") from None

    return find


class _Unfit(Exception):  # noqa: N818 (never leaves this module)
    """Too few or too many rows take the values."""


def _first(results: Iterator[Any]) -> Any:
    for result in results:
        return result
    raise _Unfit("no row")


def _unique(results: Iterator[Any]) -> Any:
    only = _first(results)
    if next(results, None) is not None:
        raise _Unfit("more than one row")
    return only


def _any_equal(results: Iterator[Any]) -> Any:
    common = _first(results)
    if any(result != common for result in results):
        raise _Unfit("more than one result")
    return common


def _best(choose: Callable[[Iterable[Any]], Any]) -> Callable[[Iterator[Any]], Any]:
    def chosen(results: Iterator[Any]) -> Any:
        first = _first(results)
        return choose([first, *results])

    return chosen


_CHOICES: Final[dict[Hit, Callable[[Iterator[Any]], Any]]] = {
    Hit.FIRST: _first,
    Hit.UNIQUE: _unique,
    Hit.ANY: _any_equal,
    Hit.SUM: lambda results: sum(results, 0),
    Hit.MIN: _best(min),
    Hit.MAX: _best(max),
}


def _table_value(value: Value, type: Type) -> Value:  # noqa: A002
    whole = isinstance(type.item if isinstance(type, OptionalType) else type, IntType)
    return int(value) if whole and isinstance(value, Fraction) else value


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
        if value is NULL:
            return False
        above = low is None or value > low or (low_included and value == low)
        return above and (high is None or value < high or (high_included and value == high))

    return between

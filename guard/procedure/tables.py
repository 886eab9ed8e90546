"""Decision tables: whether their cells fit their columns, and what their rows leave out or never reach."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from fractions import Fraction
from itertools import pairwise
from typing import Final

from guard.procedure.coverage import clashes, gap, is_empty
from guard.procedure.dates import position
from guard.procedure.expression import infer
from guard.procedure.faults import Faults, suggestion
from guard.procedure.lattice import (
    is_number,
    is_ordered,
    is_time,
    is_whole,
    may_be_null,
    required,
    type_text,
)
from guard.procedure.library import FUNCTIONS
from guard.procedure.listing import range_text
from guard.procedure.measured import odd_constant
from guard.procedure.model import AnyCell, Cell, Hit, Parameter, RangeCell, Row, Table, ValuesCell
from guard.procedure.nodes import Literal
from guard.procedure.scope import Scope
from guard.procedure.text import text
from guard.procedure.types import (
    NULL,
    BoolType,
    DateType,
    EnumType,
    IntType,
    ListType,
    Null,
    RecordType,
    TextType,
    Type,
)
from guard.procedure.values import conforms

Number = int | Fraction

COMPARED_ROWS: Final = 300  # larger tables are not searched for rows that are never chosen or that clash
_OF_NUMBERS: Final = frozenset({Hit.SUM, Hit.MIN, Hit.MAX})
_ADD_ROW: Final = "add a row, or any => ... as the last one"


def check_table(table: Table, faults: Faults) -> None:
    """Report what is wrong with a table, and warn of gaps and of rows that are never chosen."""
    before = len(faults.problems)
    if table.name in FUNCTIONS:
        faults(table.at, f"{table.name!r} is a function of the language", "take another name")
    for parameter in table.parameters:
        if parameter.default is not None:
            advice = "leave it out: a look-up gives every input, and any takes every value"
            faults(parameter.default.at, "the input of a table has no default", advice)
        if isinstance(required(parameter.type), ListType | RecordType | TextType):
            faults(
                parameter.at,
                f"a table looks up numbers, dates, strings and bools, not {type_text(parameter.type)}",
                "give it the field that decides",
            )
    if isinstance(required(table.result), ListType | RecordType | TextType):
        faults(
            table.at,
            f"a table gives a constant, not {type_text(table.result)}",
            "write one table for each field",
        )
    for row in table.rows:
        _check_row(table, row, faults)
    fits = is_number if table.hit is Hit.SUM else is_ordered
    if table.hit in _OF_NUMBERS and not fits(table.result):
        faults(
            table.at,
            f"{table.hit.value!r} puts numbers together, the table gives {type_text(table.result)}",
            "write first match or unique",
        )
    if len(faults.problems) == before:
        _rows(table, faults)


def _rows(table: Table, faults: Faults) -> None:
    match table.hit:
        case Hit.FIRST:
            _unreached(table, faults)
        case Hit.UNIQUE | Hit.ANY:
            _clashes(table, faults)
        case _:
            pass
    if table.hit is Hit.SUM:
        return  # where no row is, nothing is added
    if len(table.parameters) == 1:
        _gaps(table, faults)
    elif found := gap(table):
        faults.warning(table.at, f"no row of table {table.name!r} is for {found}", _ADD_ROW)


def _clashes(table: Table, faults: Faults) -> None:
    """Report rows that take the same values where only one may, or only with the same result."""
    if len(table.rows) > COMPARED_ROWS:
        return
    for earlier, row in clashes(table):
        line, _ = faults.source.position(earlier.at.start)
        if table.hit is Hit.UNIQUE:
            faults(
                row.at,
                f"this row takes values that the one in line {line} takes, too: only one row may",
                "narrow one of them (1..<9 leaves out the 9), or write first match",
            )
        else:
            faults(
                row.at,
                f"this row takes values that the one in line {line} takes, too, and gives another result",
                "give both the same result, narrow one of them, or write first match",
            )


def _check_row(table: Table, row: Row, faults: Faults) -> None:
    if len(row.cells) != len(table.parameters):
        wanted = ", ".join(parameter.name for parameter in table.parameters)
        faults(
            row.at,
            f"a row has one cell for each input ({wanted}), found {len(row.cells)}",
            "separate cells by commas; any stands for every value, and | between alternatives",
        )
    else:
        for parameter, cell in zip(table.parameters, row.cells, strict=True):
            _check_cell(parameter, cell, faults)
    _check_literal(row.result, table.result, f"table {table.name!r} gives", faults)


def _check_cell(parameter: Parameter, cell: Cell, faults: Faults) -> None:
    what = f"the column {parameter.name!r} is"
    match cell:
        case AnyCell():
            pass
        case ValuesCell(values):
            for value in values:
                _check_literal(value, parameter.type, what, faults)
        case RangeCell(low, high):
            ends = [end for end in (low, high) if end is not None]
            if not is_ordered(required(parameter.type)):
                faults(
                    ends[0].at,
                    f"{what} {type_text(parameter.type)}, which has no ranges",
                    "list the values, with |",
                )
                return
            for end in ends:
                if not is_whole(required(parameter.type)):
                    _check_kind(end, required(parameter.type), what, faults)
                else:
                    _check_literal(end, required(parameter.type), what, faults)
            if low is not None and high is not None:
                _check_range(cell, low, high, faults, whole=is_whole(required(parameter.type)))


def _check_literal(literal: Literal, type_: Type, what: str, faults: Faults) -> None:
    wanted = conforms(literal.value, type_)
    odd = odd_constant(literal, type_)
    if wanted is None and odd is not None:
        faults(
            literal.at, f"{what} {type_text(type_)}, found {text(literal)}", "write the number in that unit"
        )
    if wanted is None:
        return
    match literal.value, type_:
        case str(word), EnumType(options):
            known = suggestion(word, options)
        case _:
            known = f"write {wanted}"
    faults(literal.at, f"{what} {type_text(type_)}, found {text(literal)}", known)


def _check_kind(literal: Literal, type_: Type, what: str, faults: Faults) -> None:
    found = infer(literal, Scope(), faults)
    if found is not None and not is_number(found):
        faults(literal.at, f"{what} {type_text(type_)}, found {text(literal)}", "write a number")
    elif odd_constant(literal, type_) is not None:
        faults(
            literal.at, f"{what} {type_text(type_)}, found {text(literal)}", "write the number in that unit"
        )


def _check_range(cell: RangeCell, low: Literal, high: Literal, faults: Faults, *, whole: bool) -> None:
    kinds = [type(end.value) for end in (low, high)]
    mixed = kinds[0] != kinds[1] and any(issubclass(kind, date) for kind in kinds)
    if {bool, str, Null} & set(kinds) or mixed or not is_empty(cell, whole=whole):
        return
    turned = replace(cell, low=high, high=low)
    advice = "write the value alone where it is one, or move the ends apart"
    if not is_empty(turned, whole=whole):
        advice = f"write {range_text(turned, high, low)}"
    faults(low.at, f"the range {range_text(cell, low, high)} is empty", advice)


# --- rows that are never chosen ------------------------------------------------------------------


def _unreached(table: Table, faults: Faults) -> None:
    if len(table.rows) > COMPARED_ROWS:
        return
    for index, row in enumerate(table.rows):
        for earlier in table.rows[:index]:
            if all(_covers(one, other) for one, other in zip(earlier.cells, row.cells, strict=True)):
                line, _ = faults.source.position(earlier.at.start)
                faults.warning(
                    row.at, f"this row is never chosen, line {line} takes all it has", "leave it out"
                )
                break


def _covers(one: Cell, other: Cell) -> bool:
    match one, other:
        case AnyCell(), _:
            return True
        case ValuesCell(ours), ValuesCell(theirs):
            return {value.value for value in theirs} <= {value.value for value in ours}
        case RangeCell(), RangeCell():
            return _below(one, other) and _above(one, other)
        case RangeCell(), ValuesCell(theirs):
            return all(value.value is not NULL and _holds(one, _number(value)) for value in theirs)
        case _:
            return False


def _below(one: RangeCell, other: RangeCell) -> bool:
    if one.low is None:
        return True
    if other.low is None:
        return False
    ours, theirs = _number(one.low), _number(other.low)
    return ours < theirs or (ours == theirs and (one.low_included or not other.low_included))


def _above(one: RangeCell, other: RangeCell) -> bool:
    if one.high is None:
        return True
    if other.high is None:
        return False
    ours, theirs = _number(one.high), _number(other.high)
    return ours > theirs or (ours == theirs and (one.high_included or not other.high_included))


def _holds(cell: RangeCell, value: Number) -> bool:
    point = Literal(value, IntType())
    return _covers(cell, RangeCell(point, point))


def _number(literal: Literal) -> Number:
    """Give where an end stands among all values of its column."""
    number = position(literal.value)
    assert isinstance(number, int | Fraction)
    return number


# --- gaps ----------------------------------------------------------------------------------------


def _gaps(table: Table, faults: Faults) -> None:
    """Warn of values of a single column that no row has, where they lie between those of two rows."""
    if any(isinstance(row.cells[0], AnyCell) for row in table.rows):
        return
    parameter = table.parameters[0]
    cells = [row.cells[0] for row in table.rows]
    if may_be_null(parameter.type) and not any(_takes_null(cell) for cell in cells):
        faults.warning(table.at, f"no row of table {table.name!r} has null", "add a row null => ...")
    match required(parameter.type):
        case EnumType(options):
            listed = {value.value for cell in cells if isinstance(cell, ValuesCell) for value in cell.values}
            missing = " and ".join(f'"{option}"' for option in options if option not in listed)
        case BoolType():
            listed = {value.value for cell in cells if isinstance(cell, ValuesCell) for value in cell.values}
            missing = " and ".join(
                word for word, value in (("true", True), ("false", False)) if value not in listed
            )
        case type_ if is_ordered(type_):
            missing = _gap_between(cells, type_)
        case _:
            return
    if missing:
        faults.warning(table.at, f"no row of table {table.name!r} has {missing}", _ADD_ROW)


def _gap_between(cells: list[Cell], type_: Type) -> str:
    whole = is_whole(type_)
    ranges = sorted(
        _ranges(cells), key=lambda cell: (cell.low is not None, _number(cell.low) if cell.low else 0)
    )
    for one, other in pairwise(_merged(ranges, whole=whole)):
        assert one.high is not None
        assert other.low is not None
        return f"the {_family_text(type_)} between {text(one.high)} and {text(other.low)}"
    return ""


def _family_text(type_: Type) -> str:
    match type_:
        case DateType():
            return "dates"
        case _ if is_time(type_):
            return "moments"
        case _:
            return "whole numbers" if is_whole(type_) else "numbers"


def _ranges(cells: list[Cell]) -> list[RangeCell]:
    found: list[RangeCell] = []
    for cell in cells:
        match cell:
            case RangeCell():
                found.append(cell)
            case ValuesCell(values):
                found.extend(RangeCell(value, value) for value in values if value.value is not NULL)
            case _:
                pass
    return found


def _takes_null(cell: Cell) -> bool:
    return isinstance(cell, ValuesCell) and any(value.value is NULL for value in cell.values)


def _merged(ranges: list[RangeCell], *, whole: bool) -> list[RangeCell]:
    """Ranges in order, those that touch made one."""
    merged: list[RangeCell] = []
    for cell in ranges:
        if merged and _touch(merged[-1], cell, whole=whole):
            last = merged[-1]
            if not _above(last, cell):
                merged[-1] = RangeCell(last.low, cell.high, last.low_included, cell.high_included)
        else:
            merged.append(cell)
    return merged


def _touch(one: RangeCell, other: RangeCell, *, whole: bool) -> bool:
    if one.high is None or other.low is None:
        return True
    high, low = _number(one.high), _number(other.low)
    if whole:
        high = high if one.high_included else high - 1
        low = low if other.low_included else low + 1
        return low <= high + 1
    return low < high or (low == high and (one.high_included or other.low_included))

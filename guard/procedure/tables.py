"""Decision tables: whether their cells fit their columns, and what their rows leave out or never reach."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import Final

from guard.procedure.coverage import clashes, is_empty
from guard.procedure.dates import position
from guard.procedure.expression import infer
from guard.procedure.faults import Faults, suggestion
from guard.procedure.gaps import MOST_NAMED, gaps
from guard.procedure.lattice import (
    is_number,
    is_ordered,
    is_whole,
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
    _gaps(table, faults)


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
    """Warn of values that no row takes, where they lie between those of two rows."""
    found = gaps(table)
    if not found:
        return
    named = [gap.words for gap in found[:MOST_NAMED]]
    more = [f"{len(found) - MOST_NAMED} gaps more"] if len(found) > MOST_NAMED else []
    every = ", ".join("any" for _ in table.parameters)
    faults.warning(
        table.at,
        f"no row of table {table.name!r} is for {'; '.join([*named, *more])}",
        f"add a row such as {found[0].rows[0]} => ..., or {every} => ... as the last one",
    )

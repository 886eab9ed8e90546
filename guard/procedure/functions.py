"""The built-in functions: what each takes, what it gives and how it is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from guard.procedure import dates
from guard.procedure.lattice import is_number, is_ordered, is_string, is_time, join_all
from guard.procedure.nodes import Expr, Literal
from guard.procedure.numbers import Number, round_to
from guard.procedure.types import (
    BoolType,
    DatetimeType,
    DateType,
    DecimalType,
    IntType,
    ListType,
    Rounding,
    Type,
    Value,
)

BITS: Final = 665  # of a numerator or denominator while a step is computed: 200 decimal digits
MOST_PLACES: Final = 20


class EvaluationError(Exception):
    """A fault of the procedure while it runs: division by zero, no row that matches, ...

    `plain` says it without the values, which may be a model's own words; "" where there are none in it.
    """

    def __init__(self, reason: str, *, plain: str = "") -> None:
        super().__init__(reason)
        self.plain = plain


def bounded(number: Number) -> Number:
    """Pass a number on unless it has grown out of all proportion. Raises `EvaluationError`."""
    if isinstance(number, int):
        grown = number.bit_length() > BITS
    else:
        grown = number.numerator.bit_length() > BITS or number.denominator.bit_length() > BITS
    if grown:
        raise EvaluationError("a number of more than 200 digits arose")
    return number


Apply = Callable[[Sequence[Any], Rounding], Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One built-in.

    `over` gives the result's type for a collection of values of one type: such functions take two or
    more arguments, or one list, or `term for x in items`. `fixed` gives it for the arguments one by
    one. Both give None where the arguments do not fit `signature`.

    `listed` says that it takes a list whole and no single values. `item` says that it looks one of them
    up, which then stands as an operand. `quick`: it takes as long whatever the length of its list.
    `typed` gives `apply` where that depends on the argument's type.
    """

    signature: str
    apply: Apply
    over: Callable[[Type], Type | None] | None = None
    fixed: Callable[[Sequence[Type], Sequence[Expr]], Type | None] | None = None
    listed: bool = False
    item: bool = False
    quick: bool = False
    typed: Callable[[Type], Apply] | None = None

    def result(self, types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:
        """Give the type of a call's result, None where the arguments do not fit."""
        if self.fixed is not None:
            return self.fixed(types, arguments)
        assert self.over is not None
        match types:
            case []:
                return None
            case [ListType(item)]:
                return self.over(item)
            case [_]:
                return None
            case _ if self.listed:
                return None
            case _:
                joined = join_all(list(types))
                return joined and self.over(joined)


# --- collections ---------------------------------------------------------------------------------


def _number_over(type: Type) -> Type | None:  # noqa: A002
    return type if is_number(type) else None


def _ordered_over(type: Type) -> Type | None:  # noqa: A002
    return type if is_ordered(type) else None


def _bool_over(type: Type) -> Type | None:  # noqa: A002
    return type if isinstance(type, BoolType) else None


def _sum(values: Sequence[Any], rounding: Rounding) -> Value:  # noqa: ARG001
    total: Number = 0
    for value in values:
        total = bounded(total + value)
    return total


def _min(values: Sequence[Any], rounding: Rounding) -> Value:  # noqa: ARG001
    return _some("min", values, min)


def _max(values: Sequence[Any], rounding: Rounding) -> Value:  # noqa: ARG001
    return _some("max", values, max)


def _some(name: str, values: Sequence[Any], choose: Callable[[Sequence[Any]], Value]) -> Value:
    if not values:
        raise EvaluationError(f"{name} of nothing has no value")
    return choose(values)


# --- one by one ----------------------------------------------------------------------------------


def _same_number(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:  # noqa: ARG001
    return types[0] if len(types) == 1 and is_number(types[0]) else None


def _whole(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:
    return IntType() if len(types) == 1 and is_number(types[0]) else _rounded(types, arguments)


def _length(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:  # noqa: ARG001
    measured = len(types) == 1 and (isinstance(types[0], ListType) or is_string(types[0]))
    return IntType() if measured else None


def _rounded(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:
    # The second argument is a constant: the number of decimals is part of the result's type.
    places = places_given(arguments[1:], least=-MOST_PLACES)
    if len(types) != 2 or not is_number(types[0]) or places is None:
        return None
    return IntType() if places < 0 else DecimalType(places)


def places_given(arguments: Sequence[Expr], least: int = 0) -> int | None:
    """Give the number of decimals that one argument says, None where it is no constant for that.

    Below 0 it counts the digits left of the point that are rounded away.
    """
    match arguments:
        case [Literal(int(places), IntType())] if least <= places <= MOST_PLACES:
            return places
        case _:
            return None


def _to(rounding: Rounding) -> Apply:
    """Round in one way whatever the procedure's is: to a whole number, or to so many decimals."""

    def apply(values: Sequence[Any], _: Rounding) -> Value:
        number, *places = values
        if places:
            return round_to(number, places[0], rounding)
        return int(round_to(number, 0, rounding))

    return apply


# --- dates and moments ---------------------------------------------------------------------------


def _of_time(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:  # noqa: ARG001
    return IntType() if len(types) == 1 and is_time(types[0]) else None


def _of_moment(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:  # noqa: ARG001
    return IntType() if list(types) == [DatetimeType()] else None


def _day_of_moment(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:  # noqa: ARG001
    return DateType() if list(types) == [DatetimeType()] else None


def _of_two_dates(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:
    match types, arguments:
        case [DateType(), DateType()], _:
            return IntType()
        case [DateType(), DateType(), _], [_, _, Literal("down" | "up")]:
            return IntType()
        case _:
            return None


def _passed(count: Callable[[Any, Any, str], int]) -> Apply:
    """Count whole months or years; the day that a month lacks is its last one unless `up` is said."""

    def apply(values: Sequence[Any], _: Rounding) -> Value:
        start, end, *mode = values
        try:
            return count(start, end, mode[0] if mode else "down")
        except dates.OutOfRange as reason:
            raise EvaluationError(str(reason)) from None

    return apply


def _in_zone(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:
    # The second argument is a constant: zones are looked up when a procedure is loaded, never while it runs.
    match types, arguments:
        case [DatetimeType(), _], [_, Literal(str(name))] if dates.is_zone(name):
            return DatetimeType()
        case _:
            return None


def _zoned(values: Sequence[Any], rounding: Rounding) -> Value:  # noqa: ARG001
    try:
        return dates.moved(values[0], values[1])
    except dates.OutOfRange as reason:
        raise EvaluationError(str(reason)) from None


def shift(op: str, unit: str, mode: str | None) -> Callable[[Any, Any], Value]:
    """Give the function that computes `date op amount unit mode`."""

    def shifted(value: Any, amount: int) -> Value:
        try:
            return dates.shifted(value, amount if op == "+" else -amount, unit, mode)
        except dates.OutOfRange as reason:
            raise EvaluationError(str(reason)) from None

    return shifted


FUNCTIONS: Final[dict[str, Function]] = {
    "sum": Function(signature="sum(numbers)", apply=_sum, over=_number_over),
    "min": Function(signature="min(numbers or dates)", apply=_min, over=_ordered_over),
    "max": Function(signature="max(numbers or dates)", apply=_max, over=_ordered_over),
    "count": Function(
        signature="count(items)", apply=lambda values, _: len(values), over=lambda _: IntType()
    ),
    "all": Function(signature="all(conditions)", apply=lambda values, _: all(values), over=_bool_over),
    "any": Function(signature="any(conditions)", apply=lambda values, _: any(values), over=_bool_over),
    "abs": Function(signature="abs(number)", apply=lambda values, _: abs(values[0]), fixed=_same_number),
    "floor": Function(
        signature="floor(number), or floor(number, decimals)",
        apply=_to(Rounding.FLOOR),
        fixed=_whole,
    ),
    "ceil": Function(
        signature="ceil(number), or ceil(number, decimals)",
        apply=_to(Rounding.CEILING),
        fixed=_whole,
    ),
    "round": Function(
        signature="round(number, decimals), or round(number)",
        apply=lambda values, rounding: _to(rounding)(values, rounding),
        fixed=_whole,
    ),
    "len": Function(
        signature="len(list), or len(string)",
        apply=lambda values, _: len(values[0]),
        fixed=_length,
        quick=True,
    ),
    "year": Function(signature="year(date)", apply=lambda values, _: values[0].year, fixed=_of_time),
    "month": Function(signature="month(date)", apply=lambda values, _: values[0].month, fixed=_of_time),
    "day": Function(signature="day(date)", apply=lambda values, _: values[0].day, fixed=_of_time),
    "weekday": Function(
        signature="weekday(date)", apply=lambda values, _: values[0].isoweekday(), fixed=_of_time
    ),
    "hour": Function(signature="hour(datetime)", apply=lambda values, _: values[0].hour, fixed=_of_moment),
    "minute": Function(
        signature="minute(datetime)", apply=lambda values, _: values[0].minute, fixed=_of_moment
    ),
    "date": Function(
        signature="date(datetime)", apply=lambda values, _: values[0].date(), fixed=_day_of_moment
    ),
    "full_months": Function(
        signature='full_months(from, to), or full_months(from, to, "up")',
        apply=_passed(dates.full_months),
        fixed=_of_two_dates,
    ),
    "full_years": Function(
        signature='full_years(from, to), or full_years(from, to, "up")',
        apply=_passed(dates.full_years),
        fixed=_of_two_dates,
    ),
    "zoned": Function(signature='zoned(datetime, "Europe/Berlin")', apply=_zoned, fixed=_in_zone),
}


def arithmetic(op: str) -> Callable[[Any, Any], Number]:
    """Give the function that computes `left op right` exactly and bounded."""
    return _ARITHMETIC[op]


def _divide(left: Number, right: Number) -> Number:
    return bounded(Fraction(left) / _divisor(right))


def _divisor(right: Number) -> Number:
    if right == 0:
        raise EvaluationError("division by zero")
    return right


_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Number]]] = {
    "+": lambda left, right: bounded(left + right),
    "-": lambda left, right: bounded(left - right),
    "*": lambda left, right: bounded(left * right),
    "/": _divide,
    "div": lambda left, right: bounded(left // _divisor(right)),
    "mod": lambda left, right: bounded(left % _divisor(right)),
}

"""The types of calculations with dates and moments, and every reason why one makes no sense."""

from __future__ import annotations

from collections.abc import Callable

from guard.procedure.dates import CALENDAR_UNITS, DATE_UNITS
from guard.procedure.lattice import is_number, is_time, kind_text, type_text
from guard.procedure.nodes import Arithmetic, Shift
from guard.procedure.text import ATOM, SUM, binding, text
from guard.procedure.types import DatetimeType, DateType, IntType, Type
from guard.source import Span

Problems = Callable[[Span, str, str], None]  # place, message, help


def difference_type(expr: Arithmetic, left: Type, right: Type, problems: Problems) -> Type | None:
    """Give the type of `left op right` where at least one of the two is a date or moment."""
    match expr.op, left, right:
        case "-", _, _ if left == right:
            return IntType()
        case "-", _, _ if is_time(left) and is_time(right):
            message = f"one side is {type_text(left)}, the other {type_text(right)}"
            moment, other = (expr.left, right) if isinstance(left, DatetimeType) else (expr.right, left)
            problems(expr.at, message, f"write date({text(moment)}) for a {type_text(other)}")
        case "+", _, _ if is_time(left) and is_time(right):
            problems(expr.at, "two dates cannot be added up", "subtract one from the other: that gives days")
        case "+" | "-" as op, _, _ if is_time(left) and is_number(right):
            units = "days" if isinstance(left, DateType) else "hours"
            message = f"{op!r} with a {type_text(left)} has to know the unit of {text(expr.right)!r}"
            problems(expr.at, message, f"write {text(expr)} {units}, or weeks, or months down")
        case "+", _, _ if is_number(left):
            later = f"{text(expr.right)} + {text(expr.left, SUM)} days"
            problems(expr.at, f"what is added to a {type_text(right)} stands behind it", f"write {later}")
        case op, _, _:
            wrong, found = (expr.left, left) if is_time(left) else (expr.right, right)
            message = f"{op!r} needs a number, {text(wrong)!r} is {kind_text(found)}"
            advice = "a date takes + and - with days, weeks, months or years; two dates give the days between"
            problems(wrong.at, message, advice)
    return None


def shift_type(expr: Shift, moment: Type | None, amount: Type | None, problems: Problems) -> Type | None:
    """Give the type of a shift."""
    if amount is not None and not isinstance(amount, IntType):
        _amount(expr, amount, problems)
    if moment is None:
        return None
    if not is_time(moment):
        message = f"{expr.unit} are added to a date, {text(expr.date)!r} is {kind_text(moment)}"
        problems(expr.date.at, message, f"start from a date: order_date {expr.op} {_by(expr)}")
        return None
    if isinstance(moment, DateType) and expr.unit not in DATE_UNITS:
        problems(expr.at, f"a date has no {expr.unit}", "write days, or start from a datetime")
    elif expr.unit in CALENDAR_UNITS and expr.mode is None:
        message = f"{expr.unit} may lead to a day that its month does not have, such as 31 February"
        down, up = (f"{_by(expr)} {mode}" for mode in ("down", "up"))
        problems(
            expr.at, message, f"write {down} for the last day of the month, {up} for the first of the next"
        )
    elif expr.unit not in CALENDAR_UNITS and expr.mode is not None:
        problems(expr.at, f"{expr.unit} always lead to a day that there is", f"leave {expr.mode} out")
    return moment


def _amount(expr: Shift, amount: Type, problems: Problems) -> None:
    message = f"the number of {expr.unit} is a whole number, {text(expr.amount)!r} is {kind_text(amount)}"
    rounded = f"write round({text(expr.amount)}), or floor or ceil instead of round"
    problems(expr.amount.at, message, rounded if is_number(amount) else f"write a number of {expr.unit}")


def _by(expr: Shift) -> str:
    amount = text(expr.amount)
    return f"{amount if binding(expr.amount) >= ATOM else f'({amount})'} {expr.unit}"

"""What may be compared with what, and every reason why a comparison makes no sense."""

from __future__ import annotations

from collections.abc import Callable

from guard.procedure.advice import ORDER, instead
from guard.procedure.faults import suggestion
from guard.procedure.lattice import holds_null, is_number, is_string, is_time, join, kind_text, type_text
from guard.procedure.measured import same_unit
from guard.procedure.nodes import Comparison, Expr
from guard.procedure.text import SUM, text
from guard.procedure.types import EnumType, ListType, NullType, Type
from guard.source import Span

Problems = Callable[[Span, str, str], None]  # place, message, help


def compared_null(expr: Comparison, left: Type | None, problems: Problems) -> None:
    """Report a comparison one side of which is the word `null`. `left` is the type of its left side."""
    other = expr.right if isinstance(left, NullType) else expr.left
    word = "is not null" if expr.op in {"!=", "not in"} else "is null"
    problems(expr.at, f"null is not compared by {expr.op!r}", f"write {text(other, SUM)} {word}")


def compared(expr: Comparison, left: Type | None, right: Type | None, problems: Problems) -> None:
    """Look at a comparison of values that are there. A side without a type has been complained about."""
    if expr.op in ORDER and not (is_time(left) or is_time(right)):
        _order(expr, left, right, problems)
        if left is not None and right is not None and is_number(left) and is_number(right):
            same_unit(expr, left, right, problems)
    elif left is not None and right is not None and not _inner_null(expr, left, right, problems):
        if expr.op in {"in", "not in"}:
            _membership(expr, left, right, problems)
        else:
            _alike(expr, left, right, problems)


def _inner_null(expr: Comparison, left: Type, right: Type, problems: Problems) -> bool:
    """Whether a side has a part that may be null, which is reported: null equals nothing."""
    for side, found in ((expr.left, left), (expr.right, right)):
        if holds_null(found):
            message = f"{text(side)!r} is {type_text(found)}: a part of it may be null, which equals nothing"
            problems(expr.at, message, "compare the parts, behind a test such as `x is not null`")
            return True
    return False


def _order(expr: Comparison, left: Type | None, right: Type | None, problems: Problems) -> None:
    if is_string(left) and is_string(right):
        if isinstance(left, EnumType) and isinstance(right, EnumType):
            advice = "compare it with == or in, or give its values numbers in a table"
            problems(expr.at, "the values of an enumeration have no order", advice)
        return
    for side, found, other in ((expr.left, left, right), (expr.right, right, left)):
        if found is not None and not is_number(found):
            _unordered(expr, side, found, other, problems)


def _unordered(expr: Comparison, side: Expr, found: Type, other: Type | None, problems: Problems) -> None:
    if is_string(found) and not is_number(other):
        return  # the other side is what cannot be compared, or has been complained about
    message = f"{expr.op!r} needs a number, {text(side)!r} is {kind_text(found)}"
    problems(side.at, message, instead(expr.op, found))


def _membership(expr: Comparison, item: Type, items: Type, problems: Problems) -> None:
    if isinstance(items, ListType):
        _alike(expr, item, items.item, problems)
        return
    message = f"{expr.op!r} needs a list on its right, {text(expr.right)!r} is {type_text(items)}"
    advice = 'write the values in brackets: ["a", "b"]'
    if is_string(items):
        advice += f", or contains({text(expr.right)}, {text(expr.left)}) for a part of a string"
    problems(expr.right.at, message, advice)


def _alike(expr: Comparison, left: Type, right: Type, problems: Problems) -> None:
    if is_number(left) and is_number(right) and not same_unit(expr, left, right, problems):
        return
    if join(left, right) is None:
        message = f"cannot compare {type_text(left)} with {type_text(right)}"
        quotes = ", and a date stands without quotes" if is_time(left) or is_time(right) else ""
        problems(expr.at, message, f"both sides must be of one kind{quotes}")
    elif isinstance(left, EnumType) and isinstance(right, EnumType):
        _overlapping(expr, left, right, problems)


def _overlapping(expr: Comparison, left: EnumType, right: EnumType, problems: Problems) -> None:
    if not set(left.options) & set(right.options):
        advice = suggestion(right.options[0], left.options)
        message = f"never equal: {type_text(left)} against {type_text(right)}"
        problems(expr.at, message, advice)

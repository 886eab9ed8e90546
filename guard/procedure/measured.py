"""The types of calculations with units, and every reason why one makes no sense."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

from guard.procedure.lattice import is_number, required, type_text
from guard.procedure.nodes import Aggregate, Arithmetic, Call, Comparison, Convert, Expr, Literal
from guard.procedure.numbers import decimals_of
from guard.procedure.text import PRODUCT, text
from guard.procedure.types import DecimalType, IntType, ListType, PercentType, Type, Unit
from guard.procedure.units import bare, ratio, root, times, unit_name, unit_of, with_unit
from guard.source import Span

Problems = Callable[[Span, str, str], None]  # place, message, help

# Functions whose result is a number in the unit of what they are given.
KEEPING: Final = frozenset({"sum", "min", "max", "abs", "floor", "ceil", "round"})
_PLAIN: Final = frozenset({"ln", "exp", "log10", "pow"})
_OF_ONE: Final = frozenset({"abs", "floor", "ceil", "round"})  # what stands behind is a number of decimals


def unit_advice(expr: Expr, given: Type | None, wanted: Type | None) -> str:
    """Say how to make a number of the wanted unit of one of another; "" where that is not the matter."""
    mine, other = (unit_of(None if type_ is None else required(type_)) for type_ in (given, wanted))
    if mine == other or given is None or wanted is None:
        return ""
    if not (is_number(required(given)) and is_number(required(wanted))):
        return ""
    written, name = text(expr, PRODUCT), unit_name(other)
    if ratio(mine, other) is not None and (mine is not None or (other is not None and other.scales)):
        target = name if "/" not in name else f"({name})"
        return f"convert it: {written} as {target}"
    if mine is None and isinstance(required(given), PercentType):
        return f"write a share of it, such as amount * {written}"
    if mine is None and isinstance(expr, Literal):
        return f"write {text(expr)} {name}"
    if mine is None:
        return f"give it its unit where it is made, such as 0 {name}, or write {written} * 1 {name}"
    if other is None:
        return f"divide it by 1 {unit_name(mine)} for the number alone"
    return f"{unit_name(mine)} is no {name}: multiply it by a rate in {unit_name(times(other, mine, -1))}"


def same_unit(expr: Arithmetic | Comparison, left: Type, right: Type, problems: Problems) -> bool:
    """Whether two numbers have one unit; if not, that is reported."""
    if unit_of(left) == unit_of(right):
        return True
    message = f"{expr.op!r} needs one unit on both sides, found {_counted(left)} and {_counted(right)}"
    if expr.op in {"in", "not in"}:
        advice = f"give the items the unit of what is looked for, such as [1 {unit_name(unit_of(left))}]"
        problems(expr.at, message, advice if unit_of(left) else unit_advice(expr.left, left, right))
    elif unit_of(left) is None:
        problems(expr.at, message, unit_advice(expr.left, left, right))
    else:
        problems(expr.at, message, unit_advice(expr.right, right, left))
    return False


def first_odd(exprs: Sequence[Expr], types: Sequence[Type]) -> str:
    """Say how to make the first number of another unit one of the others'; "" where there is none."""
    numbers = [pair for pair in zip(exprs, types, strict=False) if is_number(required(pair[1]))]
    wanted = next((type_ for _, type_ in numbers if unit_of(required(type_)) is not None), None)
    return next((advice for expr, type_ in numbers if (advice := unit_advice(expr, type_, wanted))), "")


def _counted(type_: Type) -> str:
    return _named(unit_of(type_))


def _named(unit: Unit | None) -> str:
    return "a number without unit" if unit is None else unit_name(unit)


def arithmetic_unit(
    expr: Arithmetic, left: Type, right: Type, problems: Problems
) -> tuple[bool, Unit | None]:
    """Whether the units of two numbers go together, and the unit of what comes out."""
    match expr.op:
        case "*":
            return True, times(unit_of(left), unit_of(right))
        case "/" | "div":
            return True, times(unit_of(left), unit_of(right), -1)
        case _:
            return same_unit(expr, left, right, problems), unit_of(left)


def is_one(expr: Expr) -> bool:
    """Whether a constant is one of a unit: what is multiplied or divided by it is the same number."""
    return isinstance(expr, Literal) and expr.value == 1 and unit_of(expr.type) is not None


def converted(
    expr: Convert, found: Type, problems: Problems, arithmetic: Callable[[str, Type, Type], Type]
) -> tuple[Type | None, Fraction]:
    """Give the type of `x as unit`, and what x is multiplied by."""
    wanted = None if expr.unit == NUMBER else expr.unit
    share = ratio(unit_of(found), wanted)
    if share is None:
        name = _counted(found)
        message = f"{text(expr.operand)!r} counts {name}, which cannot be counted in {unit_name(wanted)}"
        advice = unit_advice(expr.operand, found, with_unit(bare(found), wanted))
        problems(expr.at, message, advice)
        return None, Fraction(1)
    plain = bare(found)
    if share != 1:
        places = decimals_of(share.denominator)
        by: Type = IntType() if share.denominator == 1 else DecimalType(places)
        plain = DecimalType(None) if places is None else arithmetic("*", plain, by)
    return with_unit(plain, wanted), share


NUMBER: Final = Unit((), (), (1, 1), ())  # what `as number` converts into: what counts nothing


def called(
    expr: Call | Aggregate,
    types: Sequence[Type],
    problems: Problems,
    result: Callable[[list[Type]], Type | None],
) -> tuple[bool, Type | None]:
    """Whether a function goes together with the units of its arguments, and the type of what it gives."""
    name, units = expr.function, [unit for type_ in types for unit in _units(type_)]
    if not any(units) or name not in KEEPING | _PLAIN | {"sqrt"}:
        return True, result(list(types))
    unit = next(filter(None, units))
    match name:
        case "sqrt":
            kept, problem = root(unit), (f"{unit_name(unit)} is the square of no unit", _DIVIDE)
            fits = kept is not None
        case _ if name in _PLAIN:
            fits, kept = False, None
            problem = (f"{name!r} takes a number without unit, found {unit_name(unit)}", _DIVIDE)
        case _:
            numbers = units[:1] if name in _OF_ONE else units
            fits, kept = len(set(numbers)) == 1, numbers[0]
            listed = " and ".join(dict.fromkeys(map(_named, numbers)))
            exprs = expr.arguments if isinstance(expr, Call) else (expr.term,)
            problem = (f"{name!r} needs one unit, found {listed}", first_odd(exprs, types))
    if not fits:
        problems(expr.at, *problem)
        return False, None
    found = result([bare(type_) for type_ in types])
    return True, found and with_unit(found, kept)


_DIVIDE: Final = "divide it by one of its unit first, such as x / 1 kg"


def _units(type_: Type) -> list[Unit | None]:
    if isinstance(type_, ListType):
        return _units(type_.item)
    return [unit_of(type_)] if is_number(type_) else []


def odd_constant(literal: Literal, wanted: Type) -> str | None:
    """Say what is wrong with the unit of a constant, which may leave its unit out."""
    unit = unit_of(literal.type)
    if unit is None or unit == unit_of(required(wanted)):
        return None
    return f"it counts {unit_name(unit)}, expected {type_text(wanted)}"

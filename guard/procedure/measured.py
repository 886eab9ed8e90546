"""The types of calculations with units, and every reason why one makes no sense."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

from guard.procedure.lattice import is_number, required, type_text
from guard.procedure.nodes import Arithmetic, Comparison, Convert, Expr, Literal
from guard.procedure.text import PRODUCT, text
from guard.procedure.types import DecimalType, IntType, ListType, Type, Unit
from guard.procedure.units import bare, ratio, root, times, unit_name, unit_of, with_unit
from guard.procedure.values import decimals_of
from guard.source import Span

Problems = Callable[[Span, str, str], None]  # place, message, help

# Functions whose result is a number in the unit of what they are given.
KEEPING: Final = frozenset({"sum", "min", "max", "abs", "floor", "ceil", "round"})
_PLAIN: Final = frozenset({"ln", "exp", "pow"})


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
    if mine is None and isinstance(expr, Literal):
        return f"write {text(expr)} {name}"
    if mine is None:
        return f"write {written} * 1 {name} if it is meant so"
    if other is None:
        return f"divide it by 1 {unit_name(mine)} for the number alone"
    return f"{unit_name(mine)} is no {name}: multiply it by a rate in {unit_name(times(other, mine, -1))}"


def same_unit(expr: Arithmetic | Comparison, left: Type, right: Type, problems: Problems) -> bool:
    """Whether two numbers have one unit; if not, that is reported."""
    if unit_of(left) == unit_of(right):
        return True
    message = f"{expr.op!r} needs one unit on both sides, found {_counted(left)} and {_counted(right)}"
    wrong, given, wanted = (expr.right, right, left)
    if isinstance(expr.left, Literal) and unit_of(left) is None:
        wrong, given, wanted = (expr.left, left, right)
    problems(expr.at, message, unit_advice(wrong, given, wanted))
    return False


def _counted(type_: Type) -> str:
    unit = unit_of(type_)
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
    name: str,
    types: Sequence[Type],
    at: Span,
    problems: Problems,
    result: Callable[[list[Type]], Type | None],
) -> tuple[bool, Type | None]:
    """Whether a function goes together with the units of its arguments, and the type of what it gives."""
    units = [unit for type_ in types for unit in _units(type_)]
    if name in _PLAIN and any(units):
        advice = "divide by one of the unit first, such as x / 1 kg"
        problems(
            at, f"{name!r} takes a number without unit, found {unit_name(next(filter(None, units)))}", advice
        )
        return False, None
    if name == "sqrt" and any(units):
        unit = units[0]
        assert unit is not None
        half = root(unit)
        if half is None:
            problems(at, f"{unit_name(unit)} is the square of no unit", "divide by one of the unit first")
            return False, None
        found = result([bare(type_) for type_ in types])
        return True, found and with_unit(found, half)
    if name not in KEEPING or not any(units):
        return True, result(list(types))
    numbers = units[:1] if name == "round" else units
    if len(set(numbers)) > 1:
        listed = ", ".join(dict.fromkeys(unit_name(unit) for unit in numbers))
        problems(
            at, f"{name!r} needs one unit, found {listed}", f"convert them: x as {unit_name(numbers[0])}"
        )
        return False, None
    found = result([bare(type_) for type_ in types])
    return True, found and with_unit(found, numbers[0])


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

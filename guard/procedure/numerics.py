"""The built-in functions of numbers whose results have no end of decimals: they are told how many to give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from guard.procedure import roots
from guard.procedure.functions import MOST_PLACES, Function, places_given
from guard.procedure.lattice import is_number
from guard.procedure.nodes import Expr, Literal
from guard.procedure.numbers import Number
from guard.procedure.types import DecimalType, IntType, Rounding, Type, Value


def _of_one(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:
    places = places_given(arguments[1:])
    return DecimalType(places) if len(types) == 2 and is_number(types[0]) and places is not None else None


def _power(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:
    if not types or not all(map(is_number, types)):
        return None
    match types, arguments:
        case [_, IntType()], [_, exponent]:
            return _whole_power(types[0], exponent)
        case [_, _, _], _:
            places = places_given(arguments[2:])
            return None if places is None else DecimalType(places)
        case _:
            return None


def _whole_power(base: Type, exponent: Expr) -> Type | None:
    match base, exponent:
        case _, Literal(int(times)) if times < 0:
            return None
        case IntType(), _:
            return base
        case DecimalType(int(places)), Literal(int(times)) if places * times <= MOST_PLACES:
            return DecimalType(places * times)
        case _:
            return DecimalType(None)


def _one(of: Callable[[Number, int, Rounding], Number]) -> Callable[[Sequence[Any], Rounding], Value]:
    return lambda values, rounding: of(values[0], values[1], rounding)


def _raised(values: Sequence[Any], rounding: Rounding) -> Value:
    base, exponent, *places = values
    return roots.rounded_power(base, exponent, places[0], rounding) if places else roots.power(base, exponent)


FUNCTIONS: Final[dict[str, Function]] = {
    "sqrt": Function(
        signature="sqrt(number, decimals), such as sqrt(x, 4)", apply=_one(roots.sqrt), fixed=_of_one
    ),
    "exp": Function(
        signature="exp(number, decimals), such as exp(x, 4)", apply=_one(roots.exp), fixed=_of_one
    ),
    "ln": Function(signature="ln(number, decimals), such as ln(x, 4)", apply=_one(roots.ln), fixed=_of_one),
    "log10": Function(
        signature="log10(number, decimals), such as log10(x, 4)", apply=_one(roots.log10), fixed=_of_one
    ),
    "pow": Function(
        signature="pow(number, n) where n is a whole number from 0, else pow(number, exponent, decimals)",
        apply=_raised,
        fixed=_power,
    ),
}

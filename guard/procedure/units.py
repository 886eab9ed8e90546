"""What numbers count: units and scales as parts of types, and how they multiply, divide and convert."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, Final

from guard.procedure.numbers import LIMIT
from guard.procedure.types import (
    DecimalType,
    FieldType,
    IntType,
    ListType,
    OptionalType,
    PercentType,
    RecordType,
    Type,
    Unit,
)

if TYPE_CHECKING:
    from guard.procedure.model import Table

MOST_POWERS: Final = 20  # of the units in one

Powers = tuple[tuple[str, int], ...]


def base_unit(name: str) -> Unit:
    """Give a unit that is declared by itself."""
    return Unit((), ((name, 1),), (1, 1), ((name, 1),))


def named_unit(name: str, amount: Fraction, of: Unit | None) -> Unit:
    """Give a unit that is an amount of another, or a scale where `of` is None."""
    if of is None:
        return Unit(((name, 1),), (), amount.as_integer_ratio(), ())
    factor = amount * Fraction(*of.factor)
    return Unit((), ((name, 1),), factor.as_integer_ratio(), of.base)


def is_small(unit: Unit) -> bool:
    """Whether a unit can be reckoned with: of few powers, and of an amount that can be written."""
    powers = sum(abs(exponent) for _, exponent in unit.base)
    return powers <= MOST_POWERS and all(number < LIMIT for number in unit.factor)


def times(left: Unit | None, right: Unit | None, power: int = 1) -> Unit | None:
    """Give the unit of `left * right`, of `left / right` where the power is -1; None where none is left."""
    if right is None:
        return left
    mine = left or Unit((), (), (1, 1), ())
    factor = Fraction(*mine.factor) * Fraction(*right.factor) ** power
    made = Unit(
        _added(mine.scales, right.scales, power),
        _added(mine.powers, right.powers, power),
        factor.as_integer_ratio(),
        _added(mine.base, right.base, power),
    )
    return made if made.scales or made.powers else None


def _added(left: Powers, right: Powers, power: int) -> Powers:
    sums = dict(left)
    for name, exponent in right:
        sums[name] = sums.get(name, 0) + exponent * power
    return tuple(sorted((name, exponent) for name, exponent in sums.items() if exponent))


def root(unit: Unit) -> Unit | None:
    """Give the unit whose square a unit is; None where there is none."""
    exponents = [exponent for part in (unit.scales, unit.powers, unit.base) for _, exponent in part]
    numbers = [isqrt(number) for number in unit.factor]
    whole = all(number * number == square for number, square in zip(numbers, unit.factor, strict=True))
    if not whole or any(exponent % 2 for exponent in exponents):
        return None
    halves = (
        tuple((name, exponent // 2) for name, exponent in part)
        for part in (unit.scales, unit.powers, unit.base)
    )
    scales, powers, base = halves
    return Unit(scales, powers, (numbers[0], numbers[1]), base)


def unit_name(unit: Unit | None) -> str:
    """Give a unit as it is written: `kg`, `thousand EUR`, `EUR/kg`; `number` for none."""
    if unit is None:
        return "number"
    parts = (*unit.scales, *unit.powers)
    above = " ".join(name for name, exponent in parts for _ in range(exponent))
    below = "".join(f"/{name}" for name, exponent in parts for _ in range(-exponent))
    return (above or "1") + below


def ratio(given: Unit | None, wanted: Unit | None) -> Fraction | None:
    """Say what turns a number of one unit into one of another; None where they measure other things."""
    mine, other = given or Unit((), (), (1, 1), ()), wanted or Unit((), (), (1, 1), ())
    return Fraction(*mine.factor) / Fraction(*other.factor) if mine.base == other.base else None


# --- types ---------------------------------------------------------------------------------------


def unit_of(type: Type | None) -> Unit | None:  # noqa: A002
    """Give the unit of a number type; None for numbers by themselves and for all other types."""
    return type.unit if isinstance(type, IntType | DecimalType) else None


def with_unit(type: Type, unit: Unit | None) -> Type:  # noqa: A002
    """Give a number type with a unit."""
    match type:
        case IntType() | DecimalType():
            return replace(type, unit=unit)
        case PercentType() if unit is not None:
            return DecimalType(None, unit)
        case _:
            return type


def bare(type: Type) -> Type:  # noqa: A002
    """Give a type without the units in it: that of the values as they are computed and written."""
    match type:
        case IntType() | DecimalType():
            return replace(type, unit=None)
        case OptionalType(item):
            return OptionalType(bare(item))
        case ListType(item):
            return ListType(bare(item))
        case RecordType(fields, name):
            return RecordType(tuple(FieldType(field.name, bare(field.type)) for field in fields), name)
        case _:
            return type


def bare_table(table: Table) -> Table:
    """Give a table without the units of its inputs and results."""
    parameters = tuple(replace(parameter, type=bare(parameter.type)) for parameter in table.parameters)
    return replace(table, parameters=parameters, result=bare(table.result))


def counts(type: Type) -> bool:  # noqa: A002
    """Whether a type has a unit in it."""
    return bare(type) != type

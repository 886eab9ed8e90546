"""What values are of: the types of the language, and how its values stand in Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from enum import Enum, StrEnum
from fractions import Fraction
from typing import Final


@dataclass(frozen=True, slots=True)
class Unit:
    """What a number counts: declared names with their powers, and what one of it is in units by themselves.

    `EUR/kg` has the powers EUR 1 and kg -1. One g is `factor` 1/1000 of the `base` kg; a scale such as
    thousand is 1000 of nothing.
    """

    scales: tuple[tuple[str, int], ...]
    powers: tuple[tuple[str, int], ...]
    factor: tuple[int, int]
    base: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class IntType:
    """Whole numbers, of a unit or by themselves."""

    unit: Unit | None = None


@dataclass(frozen=True, slots=True)
class DecimalType:
    """Exact numbers, shown with at least `places` decimals; None: as many as the value needs."""

    places: int | None = None
    unit: Unit | None = None


@dataclass(frozen=True, slots=True)
class PercentType:
    """Exact numbers that are shown times 100 with a `%` where they stand: 0.05 is `5%`."""


@dataclass(frozen=True, slots=True)
class BoolType:
    """`true` and `false`."""


@dataclass(frozen=True, slots=True)
class DateType:
    """Days of the calendar."""


@dataclass(frozen=True, slots=True)
class DatetimeType:
    """Moments: a day, a time in whole seconds and an offset from UTC."""


@dataclass(frozen=True, slots=True)
class StringType:
    """Short text: a value that steps compare and show."""


@dataclass(frozen=True, slots=True)
class TextType:
    """Long text: a source to extract from, quote and judge; stands by its name."""


@dataclass(frozen=True, slots=True)
class EnumType:
    """One of some strings."""

    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NothingType:
    """What the items of `[]` are of: no value at all, so that it joins with every type."""


@dataclass(frozen=True, slots=True)
class ListType:
    """Values of one type in order."""

    item: Type


@dataclass(frozen=True, slots=True)
class FieldType:
    """A named part of a record."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class RecordType:
    """Named fields in a fixed order. Two record types are the same when their fields are."""

    fields: tuple[FieldType, ...]
    name: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class OptionalType:
    """A value of a type, or `null`. The type is no text and not optional itself."""

    item: Type


@dataclass(frozen=True, slots=True)
class NullType:
    """`null` and nothing else: what the word alone is of."""


Type = (
    IntType
    | DecimalType
    | PercentType
    | BoolType
    | DateType
    | DatetimeType
    | StringType
    | TextType
    | EnumType
    | NothingType
    | ListType
    | RecordType
    | OptionalType
    | NullType
)


class Null(Enum):
    """The value that says there is none. Python's None stands for what the guard does not have at all."""

    NULL = None


NULL: Final = Null.NULL

# A value of the language. Numbers are exact: `int`, or `Fraction` where there are decimals. A list is
# a tuple; a record is a dict in the order of its fields and is never changed. `bool` is a truth value
# although Python makes it a number, and a `datetime` is a moment although Python makes it a date: ask for
# them first.
Value = bool | int | Fraction | date | datetime | str | Null | tuple["Value", ...] | dict[str, "Value"]


class Rounding(StrEnum):
    """How `to n` decides between the two neighbours of a number."""

    HALF_UP = "half_up"  # away from zero on a tie
    HALF_DOWN = "half_down"  # towards zero on a tie
    HALF_EVEN = "half_even"
    DOWN = "down"  # towards zero
    UP = "up"  # away from zero
    FLOOR = "floor"
    CEILING = "ceiling"

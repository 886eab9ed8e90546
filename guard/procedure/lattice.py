"""How types relate: what two of them have in common, and which values one takes from another."""

from __future__ import annotations

from guard.procedure.types import (
    BoolType,
    DatetimeType,
    DateType,
    DecimalType,
    EnumType,
    FieldType,
    IntType,
    ListType,
    NothingType,
    NullType,
    OptionalType,
    PercentType,
    RecordType,
    StringType,
    TextType,
    Type,
)
from guard.procedure.units import bare, unit_name, unit_of, with_unit


def is_number(type: Type | None) -> bool:  # noqa: A002
    """Whether values of a type can be calculated with."""
    return isinstance(type, IntType | DecimalType | PercentType)


def required(type: Type) -> Type:  # noqa: A002
    """Give the type of what a value is where it is not null."""
    return type.item if isinstance(type, OptionalType) else type


def optional(type: Type) -> Type | None:  # noqa: A002
    """Give the type of a value that may also be null; None for a text, which always is there."""
    match type:
        case OptionalType() | NullType():
            return type
        case TextType():
            return None
        case _:
            return OptionalType(type)


def may_be_null(type: Type | None) -> bool:  # noqa: A002
    """Whether a value of a type may itself be null."""
    return isinstance(type, OptionalType | NullType)


def holds_null(type: Type) -> bool:  # noqa: A002
    """Whether a value of a type may be null or have a part that is."""
    match type:
        case OptionalType() | NullType():
            return True
        case ListType(item):
            return holds_null(item)
        case RecordType(fields):
            return any(holds_null(field.type) for field in fields)
        case _:
            return False


def is_string(type: Type | None) -> bool:  # noqa: A002
    """Whether values of a type are made of characters."""
    return isinstance(type, StringType | TextType | EnumType)


def is_empty(type: Type) -> bool:  # noqa: A002
    """Whether a type has no other values than empty lists, or holds a part that has none."""
    match type:
        case NothingType():
            return True
        case ListType(item) | OptionalType(item):
            return is_empty(item)
        case RecordType(fields):
            return any(is_empty(field.type) for field in fields)
        case _:
            return False


def depth(type: Type) -> int:  # noqa: A002
    """Say how many lists and records of a type stand one within the other."""
    match type:
        case ListType(item):
            return 1 + depth(item)
        case OptionalType(item):
            return depth(item)
        case RecordType(fields):
            return 1 + max((depth(field.type) for field in fields), default=0)
        case _:
            return 0


def is_time(type: Type | None) -> bool:  # noqa: A002
    """Whether values of a type are dates or moments."""
    return isinstance(type, DateType | DatetimeType)


def is_ordered(type: Type | None) -> bool:  # noqa: A002
    """Whether values of a type come one before the other."""
    return is_number(type) or is_time(type)


def is_whole(type: Type) -> bool:  # noqa: A002
    """Whether values of a type stand at whole numbers: between two neighbours there is none."""
    return isinstance(type, IntType) or is_time(type)


def join(left: Type, right: Type) -> Type | None:
    """Give the smallest type that has all values of both; None where there is none.

    A whole number is a decimal of no places, decimals take the larger number of places (open places
    absorb), a percent joined with another number is a decimal of open places, options are united.
    """
    if left == right:
        return left
    if is_number(left) and is_number(right) and (unit_of(left) or unit_of(right)):
        joined = join(bare(left), bare(right)) if unit_of(left) == unit_of(right) else None
        return joined and with_unit(joined, unit_of(left))
    match left, right:
        case (NothingType(), _):
            return right
        case (_, NothingType()):
            return left
        case (IntType(), DecimalType()):
            return right
        case (DecimalType(), IntType()):
            return left
        case (DecimalType(), DecimalType()):
            return DecimalType(most_places(left, right))
        case (IntType() | DecimalType() | PercentType(), IntType() | DecimalType() | PercentType()):
            return DecimalType(None)
        case (EnumType(ours), EnumType(theirs)):
            return EnumType(ours + tuple(option for option in theirs if option not in ours))
        case (StringType() | TextType() | EnumType(), StringType() | TextType() | EnumType()):
            return TextType() if TextType() in (left, right) else StringType()
        case (ListType(ours), ListType(theirs)):
            item = join(ours, theirs)
            return item and ListType(item)
        case (RecordType(), RecordType()):
            return _join_records(left, right)
        case (NullType(), other) | (other, NullType()):
            return optional(other)
        case (OptionalType(), _) | (_, OptionalType()):
            item = join(required(left), required(right))
            return item and optional(item)
        case _:
            return None


def join_all(types: list[Type]) -> Type | None:
    """Give the join of one or more types; options are put together at once, since there may be many."""
    listed = [type for type in types if isinstance(type, EnumType)]  # noqa: A001
    if len(listed) > 1:
        options = dict.fromkeys(option for enum in listed for option in enum.options)
        others = [type for type in types if not isinstance(type, EnumType)]  # noqa: A001
        types = [EnumType(tuple(options)), *others]
    joined: Type | None = types[0]
    for type in types[1:]:  # noqa: A001
        joined = None if joined is None else join(joined, type)
    return joined


def _join_records(left: RecordType, right: RecordType) -> RecordType | None:
    theirs = {field.name: field.type for field in right.fields}
    if theirs.keys() != {field.name for field in left.fields}:
        return None
    joined = [(field.name, join(field.type, theirs[field.name])) for field in left.fields]
    fields = tuple(FieldType(name, type) for name, type in joined if type is not None)  # noqa: A001
    return (
        RecordType(fields, left.name if left.name == right.name else None)
        if len(fields) == len(joined)
        else None
    )


def most_places(*types: Type) -> int | None:
    """Give the largest number of decimals among number types; None where one of them is open."""
    most = 0
    for type in types:  # noqa: A001
        match type:
            case IntType():
                pass
            case DecimalType(int(places)):
                most = max(most, places)
            case _:
                return None
    return most


def takes(target: Type, given: Type) -> bool:
    """Whether every value of `given` may stand where `target` is asked for."""
    match target, given:
        case (_, NothingType()):
            return True
        case (OptionalType(), NullType()):
            return True
        case (OptionalType(item), _):
            return takes(item, required(given))
        case (IntType() | DecimalType() | PercentType(), IntType() | DecimalType() | PercentType()) if (
            unit_of(target) or unit_of(given)
        ):
            return unit_of(target) == unit_of(given) and takes(bare(target), bare(given))
        case (PercentType(), DecimalType()):
            return True
        case (DecimalType(None), PercentType()):
            return True
        case (ListType(ours), ListType(theirs)):
            return takes(ours, theirs)
        case (RecordType(ours), RecordType(theirs)):
            types = {field.name: field.type for field in theirs}
            return types.keys() == {field.name for field in ours} and all(
                takes(field.type, types[field.name]) for field in ours
            )
        case (EnumType(ours), EnumType(theirs)):
            return set(theirs) <= set(ours)
        case _:
            return join(target, given) == target


def places_of_type(type_: Type) -> int | None:
    """Give the decimals that a type of numbers has at most; None where it sets none."""
    match type_:
        case IntType():
            return 0
        case DecimalType(places):
            return places
        case _:
            return None


def too_precise(wanted: Type, found: Type) -> bool:
    """Whether nothing but its decimals keeps a number from being of a type."""
    match required(wanted), required(found):
        case IntType(unit) | DecimalType(int(), unit), IntType(other) | DecimalType(_, other):
            return unit == other and not takes(required(wanted), required(found))
        case IntType(None) | DecimalType(int(), None), PercentType():
            return True
        case _:
            return False


def type_text(type: Type) -> str:  # noqa: A002
    """Give a type as it is written: `list of Line`, `"DE" or "AT"`, `{ net: decimal(2) }`."""
    match type:
        case IntType(unit) | DecimalType(_, unit) if unit is not None:
            return f"{type_text(bare(type))} {unit_name(unit)}"
        case IntType():
            return "int"
        case DecimalType(None):
            return "decimal"
        case DecimalType(places):
            return f"decimal({places})"
        case PercentType():
            return "percent"
        case BoolType():
            return "bool"
        case DateType():
            return "date"
        case DatetimeType():
            return "datetime"
        case StringType():
            return "string"
        case TextType():
            return "text"
        case EnumType(options):
            return " or ".join(f'"{option}"' for option in options)
        case NothingType():
            return "nothing"
        case ListType(NothingType()):
            return "an empty list"
        case ListType(item):
            return f"list of {type_text(item)}"
        case RecordType(fields, name):
            return name or fields_text(fields)
        case OptionalType(EnumType() as item):
            return f"{type_text(item)} or null"
        case OptionalType(ListType() as item):
            return f"({type_text(item)})?"
        case OptionalType(item):
            return f"{type_text(item)}?"
        case NullType():
            return "null"


def kind_text(type: Type) -> str:  # noqa: A002
    """Name the type of an expression for a message: a constant string is of an enumeration of itself."""
    return "a string" if isinstance(type, EnumType) and len(type.options) == 1 else type_text(type)


def fields_text(fields: tuple[FieldType, ...]) -> str:
    """Give the fields of a record as they are written."""
    return "{ " + ", ".join(f"{field.name}: {type_text(field.type)}" for field in fields) + " }"

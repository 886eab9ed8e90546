"""Values as text and as JSON: what belongs to a type, bounded before anything is converted.

Strings are NFC from the moment they enter, so that comparing them exactly compares them as people do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final, TypeGuard

from guard.procedure.dates import is_date, kept, parse_date, parse_moment, spelled
from guard.procedure.normal import normal
from guard.procedure.numbers import (
    DIGITS,
    LIMIT,
    POWERS,
    Number,
    bounded,
    decimal_text,
    decimals_of,
    parse_number,
)
from guard.procedure.types import (
    NULL,
    BoolType,
    DatetimeType,
    DateType,
    DecimalType,
    EnumType,
    IntType,
    ListType,
    NothingType,
    Null,
    NullType,
    OptionalType,
    PercentType,
    RecordType,
    StringType,
    TextType,
    Type,
    Value,
)
from guard.procedure.units import bare, unit_name

STRING_LENGTH: Final = 10_000  # characters of a string; a text has no limit here
LIST_LENGTH: Final = 10_000  # items of a list in an input, which is as many as a loop can take
SPELLED: Final = 400  # characters of a number in JSON, far more than its digits may be
SHOWN: Final = 60  # characters of foreign text in a message

Speller = Callable[[Value], str]

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


# --- spelling ------------------------------------------------------------------------------------


def spell(value: Value, type: Type) -> str:  # noqa: A002 (the type of a value is its type)
    """Give the canonical spelling of a value of a type.

    Raises `Unspellable` for a number that has none within 40 digits.
    """
    return speller(type)(value)


def speller(type: Type, *, json: bool = False) -> Speller:  # noqa: A002
    """Give the function that spells values of a type; with `json`, percents become plain numbers."""
    return _speller(type, json)


# Each function is only ever given values of its own type, which a checker of types cannot see: hence `...`.
@lru_cache(maxsize=1024)
def _speller(type: Type, json: bool) -> Callable[..., str]:  # noqa: A002
    match type:
        case IntType():
            return _spell_int
        case DecimalType(places):
            least = places or 0
            return lambda value: decimal_text(value, least)
        case PercentType() if not json:
            return lambda value: decimal_text(value * 100, 0) + "%"
        case PercentType():
            return lambda value: decimal_text(value, 0)
        case BoolType():
            return lambda value: "true" if value else "false"
        case DateType() | DatetimeType():
            return (lambda value: f'"{spelled(value)}"') if json else spelled
        case StringType() | TextType() | EnumType():
            return encode_basestring
        case NothingType():
            return str
        case ListType(item):
            return _list_speller(_speller(item, json))
        case RecordType(fields):
            return _record_speller({field.name: _speller(field.type, json) for field in fields})
        case OptionalType(item):
            inner = _speller(item, json)
            return lambda value: "null" if value is NULL else inner(value)
        case NullType():
            return lambda _: "null"


def _spell_int(value: int) -> str:
    return str(bounded(value))


def _list_speller(item: Speller) -> Callable[[tuple[Value, ...]], str]:
    return lambda value: f"[{', '.join(map(item, value))}]"


def _record_speller(fields: Mapping[str, Speller]) -> Callable[[Mapping[str, Value]], str]:
    def spelled(value: Mapping[str, Value]) -> str:
        parts = [f'"{name}": {field(value[name])}' for name, field in fields.items()]
        return "{" + ", ".join(parts) + "}"

    return spelled


def answer_text(value: Value, type: Type) -> str:  # noqa: A002
    """Give what a client reads: a scalar bare (strings without quotation marks), a list or record as JSON."""
    match type:
        case OptionalType(item) if value is not NULL:
            return answer_text(value, item)
        case StringType() | TextType() | EnumType():
            return str(value)
        case ListType() | RecordType():
            return json_text(value, type)
        case _:
            return spell(value, type)


# --- belonging -----------------------------------------------------------------------------------


def equal(left: Value, right: Value) -> bool:
    """Whether two values are the same: numbers exactly, strings after NFC, no number is a truth value."""
    match left, right:
        case (bool(), _) | (_, bool()):
            return left is right
        case (datetime(), datetime()):
            return left == right and left.utcoffset() == right.utcoffset()
        case (str(), str()):
            return left == right or normal(left) == normal(right)
        case (tuple(), tuple()):
            return len(left) == len(right) and all(map(equal, left, right))
        case (dict(), dict()):
            return left.keys() == right.keys() and all(equal(left[name], right[name]) for name in left)
        case _:
            return left == right


def wanted(type: Type) -> str:  # noqa: A002
    """Say what a type asks for, in words: `a whole number`, `one of "DE", "AT"`."""
    match type:
        case IntType(unit) | DecimalType(_, unit) if unit is not None:
            return f"{wanted(bare(type))}, in {unit_name(unit)}"
        case IntType():
            return "a whole number"
        case DecimalType(None):
            return "a number"
        case DecimalType(places):
            return f"a number with at most {places} decimal{'' if places == 1 else 's'}"
        case PercentType():
            return "a percentage such as 5%"
        case BoolType():
            return "true or false"
        case DateType():
            return "a date such as 2026-06-01"
        case DatetimeType():
            return "a date with time and offset such as 2026-06-01T09:30:00+02:00"
        case StringType():
            return "a string"
        case TextType():
            return "a text"
        case EnumType(options):
            return "one of " + ", ".join(map(encode_basestring, options))
        case NothingType():
            return "nothing"
        case ListType():
            return "a list"
        case RecordType(fields):
            return "a record of " + ", ".join(field.name for field in fields)
        case OptionalType(item):
            return f"{wanted(item)}, or null"
        case NullType():
            return "null"


def conforms(value: Value, type: Type) -> str | None:  # noqa: A002
    """None where a value fits a type, else what is wanted and where: `a whole number at [0].qty`.

    A whole number fits a decimal type; a number with more decimals than its type does not fit.
    """
    return _misfit(value, type, "")


def _misfit(value: Value, type: Type, path: str) -> str | None:  # noqa: A002
    match type:
        case OptionalType(item):
            reason = None if value is NULL else _misfit(value, item, path)
            return f"{reason}, or null" if reason == wanted(item) else reason
        case ListType(item) if isinstance(value, tuple):
            inner = (_misfit(part, item, f"{path}[{index}]") for index, part in enumerate(value))
            return next(filter(None, inner), None)
        case RecordType(fields) if isinstance(value, dict) and value.keys() == {f.name for f in fields}:
            inner = (_misfit(value[f.name], f.type, f"{path}.{f.name}") for f in fields)
            return next(filter(None, inner), None)
    reason = _scalar_misfit(value, type)
    where = path.removeprefix(".")
    return reason and (f"{reason} at {where}" if where else reason)


def _scalar_misfit(value: Value, type: Type) -> str | None:  # noqa: A002
    match type:
        case IntType() if _is_number(value) and value.denominator == 1:
            return _long(value)
        case DecimalType(places) if _is_number(value):
            needed = decimals_of(value.denominator)
            fits = needed is not None and (places is None or needed <= places)
            return _long(value, places or 0) if fits else wanted(type)
        case PercentType() if _is_number(value) and decimals_of(value.denominator) is not None:
            return _long(value * 100)
        case BoolType() if isinstance(value, bool):
            return None
        case DateType() if is_date(value):
            return None
        case DatetimeType() if isinstance(value, datetime):
            return None
        case StringType() | TextType() if isinstance(value, str):
            return _bad_string(value, type)
        case EnumType(options) if isinstance(value, str) and normal(value) in options:
            return None
        case NullType() if value is NULL:
            return None
    return wanted(type)


def _is_number(value: object) -> TypeGuard[Number]:
    return isinstance(value, int | Fraction) and not isinstance(value, bool)


def _long(value: Number, least: int = 0) -> str | None:
    """Say whether a number has too many digits when it is spelled with at least so many decimals."""
    places = max(decimals_of(value.denominator) or 0, least)
    if places < DIGITS and abs(value.numerator) * POWERS[places] < LIMIT * value.denominator:
        return None
    return f"a number of at most {DIGITS} digits"


def _bad_string(value: str, type: Type) -> str | None:  # noqa: A002
    if _SURROGATE.search(value):
        return "Unicode text without lone surrogates"
    if isinstance(type, StringType) and len(value) > STRING_LENGTH:
        return f"a string of at most {STRING_LENGTH} characters"
    return None


def coerce(value: Value, type: Type) -> Value | None:  # noqa: A002
    """Give a value in the shape in which a type keeps it, or None where it is of another kind.

    Whole numbers become `int` for `int`, strings NFC, records take the order of their fields. Bounds
    (decimals, options, lengths) are not asked for: that is `conforms`.
    """
    match type:
        case IntType():
            return int(value) if _is_number(value) and value.denominator == 1 else None
        case DecimalType() | PercentType():
            return value if _is_number(value) else None
        case BoolType():
            return value if isinstance(value, bool) else None
        case DateType():
            return value if is_date(value) else None
        case DatetimeType():
            return value if isinstance(value, datetime) else None
        case StringType() | TextType() | EnumType():
            return normal(value) if isinstance(value, str) else None
        case NothingType():
            return None
        case ListType(item):
            return _coerce_list(value, item) if isinstance(value, tuple) else None
        case RecordType():
            return _coerce_record(value, type) if isinstance(value, dict) else None
        case OptionalType(item):
            return NULL if value is NULL else coerce(value, item)
        case NullType():
            return value if value is NULL else None


def _coerce_list(value: tuple[Value, ...], item: Type) -> Value | None:
    parts = [coerce(part, item) for part in value]
    kept = tuple(part for part in parts if part is not None)
    return kept if len(kept) == len(parts) else None


def _coerce_record(value: dict[str, Value], type: RecordType) -> Value | None:  # noqa: A002
    if value.keys() != {field.name for field in type.fields}:
        return None
    parts = {field.name: coerce(value[field.name], field.type) for field in type.fields}
    kept = {name: part for name, part in parts.items() if part is not None}
    return kept if len(kept) == len(parts) else None


# --- JSON ----------------------------------------------------------------------------------------


def from_json(raw: object, type: Type, path: str = "") -> Value:  # noqa: A002
    """Give the value that a piece of JSON means for a type.

    Numbers may come as `int`, `Fraction`, `Decimal`, `float` (taken as its `repr` spells it), or as a
    string that spells one where the type has decimals; dates and moments in ISO 8601, or as `date` and
    `datetime`. `path` says where the piece stands. Raises `ValueError` naming the place, what was expected
    and what was found.
    """
    match type:
        case OptionalType(item):
            return NULL if raw is None or raw is NULL else from_json(raw, item, path)
        case IntType() | DecimalType() | PercentType():
            value: Value | None = _number_from_json(raw, text=not isinstance(type, IntType))
        case DateType():
            value = parse_date(raw) if isinstance(raw, str) else _date_from_data(raw)
        case DatetimeType():
            value = parse_moment(raw) if isinstance(raw, str) else _moment_from_data(raw)
        case ListType(item) if isinstance(raw, list | tuple):
            if len(raw) > LIST_LENGTH:
                raise ValueError(f"{_where(path)}expected at most {LIST_LENGTH} items, found {len(raw)}")
            return tuple(from_json(part, item, f"{path}[{index}]") for index, part in enumerate(raw))
        case RecordType() if isinstance(raw, Mapping):
            return _record_from_json(raw, type, path)
        case BoolType() | StringType() | TextType() | EnumType() if isinstance(raw, bool | str):
            value = raw
        case _:
            value = None
    kept = None if value is None else coerce(value, type)
    reason = wanted(type) if kept is None else _scalar_misfit(kept, type)
    if kept is None or reason is not None:
        raise ValueError(f"{_where(path)}expected {reason}, found {_cut(raw)}")
    return kept


def _number_from_json(raw: object, *, text: bool) -> Number | None:
    match raw:
        case bool():
            return None
        case int() | Fraction():
            return raw
        case float() if len(spelling := repr(raw)) <= SPELLED:
            return _number_from_spelling(spelling)
        case Decimal():
            return _number_from_decimal(raw)
        case str() if text:
            return parse_number(raw)
        case _:
            return None


def _number_from_spelling(spelling: str) -> Number | None:
    """Read a number as JSON spells it."""
    try:
        return _number_from_decimal(Decimal(spelling))
    except InvalidOperation:  # an exponent that no decimal has
        return None


def _date_from_data(raw: object) -> date | None:
    return raw if isinstance(raw, date) and is_date(raw) else None


def _moment_from_data(raw: object) -> datetime | None:
    return kept(raw) if isinstance(raw, datetime) and raw.utcoffset() is not None else None


def _number_from_decimal(raw: Decimal) -> Number | None:
    # The exponent is looked at first: converting 1e999999 takes seconds.
    if not raw.is_finite() or abs(raw.adjusted()) > DIGITS or len(raw.as_tuple().digits) > DIGITS:
        return None
    return Fraction(raw)


def _record_from_json(raw: Mapping[object, object], type: RecordType, path: str) -> Value:  # noqa: A002
    names = [field.name for field in type.fields]
    missing = [field.name for field in type.fields if field.name not in raw and not _may_lack(field.type)]
    if missing:
        raise ValueError(f"{_where(path)}expected {wanted(type)}, missing: {', '.join(missing)}")
    unknown = [_cut(name) for name in raw if name not in names]
    if unknown:
        raise ValueError(f"{_where(path)}expected {wanted(type)}, unknown: {', '.join(unknown[:5])}")
    return {
        field.name: from_json(raw.get(field.name), field.type, f"{path}.{field.name}")
        for field in type.fields
    }


def _may_lack(type: Type) -> bool:  # noqa: A002
    """Whether JSON may leave a field of a type out, which makes it null."""
    return isinstance(type, OptionalType)


def _where(path: str) -> str:
    where = path.removeprefix(".")
    return f"{where}: " if where else ""


def _cut(raw: object) -> str:
    match raw:
        case str():
            shown = repr(raw[: SHOWN + 1])
        case list() | tuple():
            return f"a list of {len(raw)}"
        case Mapping():
            return "an object"
        case int() if not -LIMIT < raw < LIMIT:
            return "a longer number"
        case None | Null.NULL:
            return "null"
        case bool():
            return "true" if raw else "false"
        case _:
            shown = str(raw)
    return shown if len(shown) <= SHOWN else shown[:SHOWN] + "..."


def to_json(value: Value, type: Type) -> object:  # noqa: A002
    """Give a value as JSON data: numbers as `int` or `Decimal`, whose `str` is their canonical spelling.

    Dates and moments are strings in ISO 8601.
    """
    match value, type:
        case Null.NULL, _:
            return None
        case _, OptionalType(item):
            return to_json(value, item)
        case tuple(), ListType(item):
            return [to_json(part, item) for part in value]
        case dict(), RecordType(fields):
            return {field.name: to_json(value[field.name], field.type) for field in fields}
        case int() | Fraction(), DecimalType() | PercentType():
            return Decimal(speller(type, json=True)(value))
        case date(), DateType() | DatetimeType():
            return spelled(value)
        case _:
            return value


def json_text(value: Value, type: Type) -> str:  # noqa: A002
    """Give a value as JSON text: numbers in canonical spelling, percents as plain numbers."""
    return speller(type, json=True)(value)

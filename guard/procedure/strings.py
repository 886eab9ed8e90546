"""The built-in functions of strings, and those that strings and lists share. Places count from 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from guard.procedure.functions import EvaluationError, Function
from guard.procedure.lattice import is_number, is_string, is_time, join
from guard.procedure.lists import capped, joined_lists, key_of, within
from guard.procedure.nodes import Expr
from guard.procedure.normal import normal
from guard.procedure.numbers import Unspellable, parse_number, round_to
from guard.procedure.types import (
    BoolType,
    DecimalType,
    EnumType,
    IntType,
    ListType,
    Rounding,
    StringType,
    Type,
    Value,
)
from guard.procedure.values import LIST_LENGTH, SHOWN, STRING_LENGTH, speller

Fixed = Callable[[Sequence[Type], Sequence[Expr]], Type | None]
Apply = Callable[[Sequence[Any], Rounding], Value]


def _short(text: str) -> str:
    """Pass a string on in Unicode's form NFC unless it has grown too long. Raises `EvaluationError`."""
    if len(text) <= STRING_LENGTH:
        text = normal(text)
    if len(text) > STRING_LENGTH:
        raise EvaluationError(f"a string of more than {STRING_LENGTH:,} characters arose")
    return text


def _strings(how_many: int, result: Type) -> Fixed:
    """Take so many strings."""

    def fixed(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:  # noqa: ARG001
        return result if len(types) == how_many and all(map(is_string, types)) else None

    return fixed


def _plain(function: Callable[..., Value]) -> Apply:
    return lambda values, _: function(*values)


def _mapped(function: Callable[[str], str]) -> Apply:
    # A text may be longer than any string: it is not worked on then.
    return lambda values, _: _short(function(_short(values[0])))


def _replace(text: str, old: str, new: str) -> Value:
    if not old:
        raise EvaluationError("replace looks for an empty string")
    if len(text) + text.count(old) * (len(new) - len(old)) > STRING_LENGTH:
        raise EvaluationError(f"a string of more than {STRING_LENGTH:,} characters arose")
    return _short(text.replace(old, new))


def _split(text: str, separator: str) -> Value:
    if not separator:
        raise EvaluationError("split looks for an empty string: characters(s) gives each by itself")
    if text.count(separator) >= LIST_LENGTH:
        raise EvaluationError(f"a list of more than {LIST_LENGTH:,} items arose")
    return tuple(map(_short, text.split(separator)))


def _characters(text: str) -> Value:
    if len(text) > LIST_LENGTH:
        raise EvaluationError(f"a list of more than {LIST_LENGTH:,} items arose")
    return tuple(text)


def _join(strings: tuple[str, ...], separator: str) -> Value:
    if sum(map(len, strings)) + len(separator) * (len(strings) - 1) > STRING_LENGTH:
        raise EvaluationError(f"a string of more than {STRING_LENGTH:,} characters arose")
    return _short(separator.join(strings))


def _number(text: str) -> Value:
    value = parse_number(text)
    if value is None:
        why = "is no number: expected digits with a point, such as 12.50"
        raise EvaluationError(f"{text[:SHOWN]!r} {why}", plain=f"the text {why}")
    return value


# --- strings and lists ---------------------------------------------------------------------------


def _concat(values: Sequence[Any], rounding: Rounding) -> Value:  # noqa: ARG001
    if isinstance(values[0], str):
        return _join(tuple(values), "")
    return capped(tuple(item for items in values for item in items))


def _concat_type(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:  # noqa: ARG001
    if len(types) >= 2 and all(map(is_string, types)):
        return StringType()
    return joined_lists(types)


def _slice(values: Sequence[Any], rounding: Rounding) -> Value:  # noqa: ARG001
    whole, first, last = values
    what = "a string" if isinstance(whole, str) else "a list"
    start = within(first, len(whole) + 1, what)
    if last != first - 1:  # which is where a part without anything ends
        within(last, len(whole), what)
        if last < first:
            raise EvaluationError(f"a part from {first} to {last} ends before it begins")
    part = whole[start:last]
    return _short(part) if isinstance(part, str) else part


def _slice_type(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:  # noqa: ARG001
    match types:
        case [ListType() as whole, IntType(), IntType()]:
            return whole
        case [whole, IntType(), IntType()] if is_string(whole):
            return StringType()
        case _:
            return None


def _position(whole: Any, part: Any) -> Value:
    if isinstance(whole, str):
        return whole.find(part) + 1
    sought = key_of(part)
    return next((place for place, item in enumerate(whole, start=1) if key_of(item) == sought), 0)


def _position_type(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:  # noqa: ARG001
    match types:
        case [ListType(item), part]:
            return IntType() if join(item, part) is not None else None
        case [whole, part] if is_string(whole) and is_string(part):
            return IntType()
        case _:
            return None


def _join_type(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:  # noqa: ARG001
    match types:
        case [ListType(item), separator] if is_string(item) and is_string(separator):
            return StringType()
        case _:
            return None


def _number_type(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:  # noqa: ARG001
    match types:
        case [BoolType()]:
            return IntType()
        case [one] if is_string(one):
            return DecimalType(None)
        case _:
            return None


def _read(value: Any) -> Value:
    return int(value) if isinstance(value, bool) else _number(value)


def _text_type(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:  # noqa: ARG001
    match types:
        case [BoolType() | StringType() | EnumType()]:
            return StringType()
        case [one] if is_number(one) or is_time(one):
            return StringType()
        case _:
            return None


def _spelled(type: Type) -> Apply:  # noqa: A002
    """Spell values of a type as lines of a trace do; strings stay as they are."""
    spell = speller(type)

    def apply(values: Sequence[Any], rounding: Rounding) -> Value:
        (value,) = values
        if isinstance(value, str):
            return value
        if isinstance(type, DecimalType) and type.places is not None:
            value = round_to(value, type.places, rounding)  # exact values may have more than are shown
        try:
            return spell(value)
        except Unspellable as reason:
            raise EvaluationError(f"the value is {reason}") from None

    return apply


_BOOL: Final = BoolType()
_STRING: Final = StringType()

FUNCTIONS: Final[dict[str, Function]] = {
    "upper": Function(signature="upper(string)", apply=_mapped(str.upper), fixed=_strings(1, _STRING)),
    "lower": Function(signature="lower(string)", apply=_mapped(str.lower), fixed=_strings(1, _STRING)),
    "casefold": Function(
        signature="casefold(string)", apply=_mapped(str.casefold), fixed=_strings(1, _STRING)
    ),
    "trim": Function(signature="trim(string)", apply=_mapped(str.strip), fixed=_strings(1, _STRING)),
    "contains": Function(
        signature="contains(string, part)",
        apply=_plain(lambda text, part: part in text),
        fixed=_strings(2, _BOOL),
    ),
    "starts_with": Function(
        signature="starts_with(string, start)", apply=_plain(str.startswith), fixed=_strings(2, _BOOL)
    ),
    "ends_with": Function(
        signature="ends_with(string, end)", apply=_plain(str.endswith), fixed=_strings(2, _BOOL)
    ),
    "replace": Function(
        signature="replace(string, old, new)", apply=_plain(_replace), fixed=_strings(3, _STRING)
    ),
    "split": Function(
        signature="split(string, separator)", apply=_plain(_split), fixed=_strings(2, ListType(_STRING))
    ),
    "characters": Function(
        signature="characters(string)", apply=_plain(_characters), fixed=_strings(1, ListType(_STRING))
    ),
    "join": Function(signature="join(strings, separator)", apply=_plain(_join), fixed=_join_type),
    "number": Function(
        signature='number(string), such as number("12.50"), or number(bool), which is 1 or 0',
        apply=_plain(_read),
        fixed=_number_type,
    ),
    "text": Function(
        signature="text(number), or text of a date or bool",
        apply=_plain(str),
        fixed=_text_type,
        typed=_spelled,
    ),
    "concat": Function(signature="concat(a, b) of strings, or of lists", apply=_concat, fixed=_concat_type),
    "slice": Function(
        signature="slice(string, first, last), or slice(list, first, last), both places included",
        apply=_slice,
        fixed=_slice_type,
    ),
    "position": Function(
        signature="position(list, item), or position(string, part)",
        apply=_plain(_position),
        fixed=_position_type,
    ),
}

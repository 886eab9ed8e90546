"""The built-in functions of lists. Places in a list count from 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from guard.procedure.functions import EvaluationError, Function
from guard.procedure.lattice import is_ordered, is_string, join, join_all
from guard.procedure.nodes import Expr
from guard.procedure.types import BoolType, IntType, ListType, NothingType, Rounding, Type, Value
from guard.procedure.values import LIST_LENGTH

Items = tuple[Any, ...]


def sorts(type: Type) -> bool:  # noqa: A002
    """Whether values of a type have an order."""
    return is_ordered(type) or is_string(type) or isinstance(type, BoolType | NothingType)


def ordered(items: Sequence[Any], keys: Sequence[Any], *, descending: bool) -> Items:
    """Give items in the order of their keys; those of equal keys keep theirs."""
    places = sorted(range(len(items)), key=keys.__getitem__, reverse=descending)
    return tuple(items[place] for place in places)


def capped(items: Items) -> Items:
    """Pass a list on unless it has grown too long. Raises `EvaluationError`."""
    if len(items) > LIST_LENGTH:
        raise EvaluationError(f"a list of more than {LIST_LENGTH:,} items arose")
    return items


def key_of(value: Any) -> Any:
    """Give what stands for a value where it must be told from others quickly."""
    match value:
        case bool():
            return ("bool", value)
        case tuple():
            return tuple(map(key_of, value))
        case dict():
            return frozenset((name, key_of(part)) for name, part in value.items())
        case _:
            return value


# --- types ---------------------------------------------------------------------------------------


def _item(type: Type) -> Type | None:  # noqa: A002
    return None if isinstance(type, NothingType) else type


def _sorted(type: Type) -> Type | None:  # noqa: A002
    return ListType(type) if sorts(type) else None


def _same_list(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:  # noqa: ARG001
    return types[0] if len(types) == 1 and isinstance(types[0], ListType) else None


def _appended(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:  # noqa: ARG001
    match types:
        case [ListType(item), further]:
            joined = join(item, further)
            return joined and ListType(joined)
        case _:
            return None


def _placed(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:
    match types:
        case [ListType() as items, IntType(), item]:
            return _appended([items, item], arguments)
        case _:
            return None


def _at(types: Sequence[Type], arguments: Sequence[Expr]) -> Type | None:  # noqa: ARG001
    match types:
        case [ListType(item), IntType()]:
            return _item(item)
        case _:
            return None


def joined_lists(types: Sequence[Type]) -> Type | None:
    """Give the type of lists put together, None where they are none or of different kinds."""
    if len(types) < 2 or not all(isinstance(type_, ListType) for type_ in types):
        return None
    return join_all(list(types))


# --- values --------------------------------------------------------------------------------------


def _apply(function: Callable[..., Value]) -> Callable[[Sequence[Any], Rounding], Value]:
    return lambda values, _: function(*values)


def _distinct(items: Sequence[Any], _: Rounding) -> Value:
    found: dict[Any, Any] = {}
    for item in items:
        found.setdefault(key_of(item), item)
    return tuple(found.values())


def _first(items: Sequence[Any], _: Rounding) -> Any:
    return _filled("first", items)[0]


def _last(items: Sequence[Any], _: Rounding) -> Any:
    return _filled("last", items)[-1]


def _filled(name: str, items: Sequence[Any]) -> Any:
    if not items:
        raise EvaluationError(f"{name} of an empty list has no value")
    return items


def within(place: int, most: int, what: str) -> int:
    """Give the index of a place that counts from 1. Raises `EvaluationError` where there is none."""
    if 1 <= place <= most:
        return place - 1
    shown = place if abs(place) < 10**12 else "given"
    raise EvaluationError(f"there is no place {shown} in {what} of {most}")


def _at_place(items: Items, place: int) -> Any:
    return items[within(place, len(items), "a list")]


def _put(items: Items, place: int, item: Value) -> Value:
    index = within(place, len(items), "a list")
    return (*items[:index], item, *items[index + 1 :])


def _insert(items: Items, place: int, item: Value) -> Value:
    index = within(place, len(items) + 1, "a list with room for one more,")
    return capped((*items[:index], item, *items[index:]))


FUNCTIONS: Final[dict[str, Function]] = {
    "filter": Function(
        signature="filter(x for x in list if condition)",
        apply=lambda items, _: tuple(items),
        over=ListType,
        listed=True,
    ),
    "sort": Function(
        signature="sort(list) of numbers, strings or dates, or sort(x for x in list by key desc)",
        apply=lambda items, _: ordered(items, items, descending=False),
        over=_sorted,
        listed=True,
    ),
    "distinct": Function(signature="distinct(list)", apply=_distinct, over=ListType, listed=True),
    "first": Function(signature="first(list)", apply=_first, over=_item, listed=True, item=True, quick=True),
    "last": Function(signature="last(list)", apply=_last, over=_item, listed=True, item=True, quick=True),
    "at": Function(
        signature="at(list, place), the first place being 1",
        apply=_apply(_at_place),
        fixed=_at,
        item=True,
        quick=True,
    ),
    "append": Function(
        signature="append(list, item)",
        apply=lambda values, _: capped((*values[0], values[1])),
        fixed=_appended,
    ),
    "insert": Function(signature="insert(list, place, item)", apply=_apply(_insert), fixed=_placed),
    "put": Function(signature="put(list, place, item)", apply=_apply(_put), fixed=_placed),
    "rest": Function(
        signature="rest(list)", apply=lambda values, _: _filled("rest", values[0])[1:], fixed=_same_list
    ),
    "drop_last": Function(
        signature="drop_last(list)",
        apply=lambda values, _: _filled("drop_last", values[0])[:-1],
        fixed=_same_list,
    ),
    "reverse": Function(signature="reverse(list)", apply=lambda values, _: values[0][::-1], fixed=_same_list),
}

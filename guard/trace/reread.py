"""A working read back as the expression that it shows, with constants for the values that were put in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lark import Token, Tree, UnexpectedInput

from guard.procedure.dates import parse_date, parse_moment
from guard.procedure.nodes import (
    Aggregate,
    Arithmetic,
    Call,
    Choose,
    Comparison,
    Default,
    Expr,
    FieldOf,
    IsNull,
    ListOf,
    Literal,
    Logic,
    Name,
    Negate,
    Not,
    RecordOf,
    Shift,
)
from guard.procedure.numbers import parse_number
from guard.procedure.types import (
    NULL,
    BoolType,
    DatetimeType,
    DateType,
    DecimalType,
    IntType,
    NullType,
    PercentType,
    StringType,
)
from guard.trace.grammar import TooManyWords, nested_too_deep, parse, read_string

_Part = Tree[Token] | Token

_ARITHMETIC: Final = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "floor_divide": "div",
    "modulo": "mod",
}
_COMPARED: Final = {
    "equal": "==",
    "unequal": "!=",
    "less": "<",
    "at_most": "<=",
    "more": ">",
    "at_least": ">=",
    "in": "in",
    "not_in": "not in",
}


class _Odd(Exception):  # noqa: N818 (never leaves this module)
    """The grammar takes it, yet it is no expression."""


def expression(working: str) -> Expr | None:
    """Give the expression that a working shows, None where it cannot be read."""
    if nested_too_deep(working) is not None:
        return None
    try:
        return _of(parse(working, "expression"))
    except (UnexpectedInput, TooManyWords, _Odd):
        return None


def _of(part: _Part) -> Expr:
    match part:
        case Tree(data=str(op), children=[Tree() as left, Tree() as right]) if op in _ARITHMETIC:
            return Arithmetic(_ARITHMETIC[op], _of(left), _of(right))
        case Tree(data=str(op), children=[Tree() as left, Tree() as right]) if op in _COMPARED:
            return Comparison(_COMPARED[op], _of(left), _of(right))
        case Tree(data="and" | "or" as op, children=[Tree() as left, Tree() as right]):
            return Logic(op, _of(left), _of(right))
        case Tree(data="parenthesis" | "alone", children=[Tree() as only]):
            return _of(only)
        case Tree(data="negate", children=[Tree() as only]):
            return Negate(_of(only))
        case Tree(data="not", children=[Tree() as only]):
            return Not(_of(only))
        case Tree(data="is_null" | "is_not_null" as kind, children=[Tree() as only]):
            return IsNull(_of(only), kind == "is_not_null")
        case Tree(data="default", children=[Tree() as value, Tree() as fallback]):
            return Default(_of(value), _of(fallback))
        case Tree(
            data="choose" | "closed_choose", children=[Tree() as told, Tree() as then, Tree() as other]
        ):
            return Choose(_of(told), _of(then), _of(other))
        case Tree(
            data="later" | "earlier" as way, children=[Tree() as moment, Tree() as amount, Tree() as by]
        ):
            unit, *mode = map(str, by.children)
            op = "+" if way == "later" else "-"
            return Shift(_of(moment), op, _of(amount), unit, mode[0] if mode else None)
        case Tree(data="name", children=[Token() as name]):
            return Name(str(name))
        case Tree(data="field_of", children=[Tree() as record, Token() as name]):
            return FieldOf(_of(record), str(name))
        case Tree(data="call", children=[Token() as name, *arguments]):
            return Call(str(name), _all(arguments))
        case Tree(data="list", children=items):
            return ListOf(_all(items))
        case Tree(data="record", children=fields):
            return RecordOf(tuple(_field(field) for field in fields))
        case Tree(data="aggregate", children=[Token() as function, Tree() as term, Token() as name, *rest]):
            return _aggregate(str(function), term, str(name), rest)
        case Tree(data="list_of", children=[Tree() as term, Token() as name, *rest]):
            return _aggregate("list", term, str(name), rest)
        case _:
            return _literal(part)


def _all(parts: Iterable[_Part]) -> tuple[Expr, ...]:
    return tuple(_of(part) for part in parts)


def _field(field: _Part) -> tuple[str, Expr]:
    match field:
        case Tree(data="field", children=[Token() as name, Tree() as value]):
            return _string(name), _of(value)
        case Tree(data="bare_field", children=[Token() as name, Tree() as value]):
            return str(name), _of(value)
        case _:
            raise _Odd


def _aggregate(function: str, term: _Part, name: str, rest: list[_Part]) -> Expr:
    trees = [part for part in rest if isinstance(part, Tree)]
    key = next((tree.children[0] for tree in trees if tree.data == "by"), None)
    items, *conditions = (tree for tree in trees if tree.data != "by")
    return Aggregate(
        function,
        _of(term),
        name,
        _of(items),
        _of(conditions[0]) if conditions else None,
        None if key is None else _of(key),
        any(isinstance(part, Token) for part in rest),
    )


def _literal(part: _Part) -> Literal:
    match part:
        case Tree(data="number", children=[Token() as token]):
            return _number(str(token))
        case Tree(data="string", children=[Token() as token]):
            return Literal(_string(token), StringType())
        case Tree(data="true" | "false" as word):
            return Literal(word == "true", BoolType())
        case Tree(data="null"):
            return Literal(NULL, NullType())
        case Tree(data="date", children=[Token() as token]) if (day := parse_date(token)) is not None:
            return Literal(day, DateType())
        case Tree(data="datetime", children=[Token() as token]) if (
            moment := parse_moment(token)
        ) is not None:
            return Literal(moment, DatetimeType())
        case _:
            raise _Odd


def _number(token: str) -> Literal:
    value = parse_number(token)
    if value is None:
        raise _Odd
    if token.endswith("%"):
        return Literal(value, PercentType())
    places = len(token.partition(".")[2])
    return Literal(value, DecimalType(places) if places else IntType())


def _string(token: Token) -> str:
    text = read_string(token)
    if text is None:
        raise _Odd
    return text

"""Types and conditions in words: what a value must be, for somebody who does not know the language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from guard.procedure.expected import UNKNOWN, Unknown
from guard.procedure.nodes import Aggregate, Comparison, Expr, Literal, Logic, Name, Not, mapped
from guard.procedure.text import SUM, text
from guard.procedure.types import ListType, OptionalType, RecordType, StringType, TextType, Type, Value
from guard.procedure.values import spell, wanted

SHOWN: Final = 60  # characters of a value that stands for a name

_SIGNS: Final = {
    "==": "is",
    "!=": "is not",
    "<": "is less than",
    "<=": "is at most",
    ">": "is more than",
    ">=": "is at least",
    "in": "is one of",
    "not in": "is none of",
}
_FORMS: Final = {"all": "for each {name} of {items}: {term}", "any": "for some {name} of {items}: {term}"}


def type_in_words(type_: Type) -> str:
    """Say what a value of a type is: `a list, each item a record of name (a string) and qty (a number)`."""
    match type_:
        case OptionalType(item):
            return f"{type_in_words(item)}, or null"
        case ListType(item):
            return f"a list, each item {type_in_words(item)}"
        case RecordType(fields):
            told = [f"{field.name} ({type_in_words(field.type)})" for field in fields]
            return "a record of " + " and ".join(filter(None, [", ".join(told[:-1]), told[-1]]))
        case StringType() | TextType():
            return "words in quotation marks"
        case _:
            return wanted(type_)


def in_words(condition: Expr) -> str:
    """Say what a condition asks for: `qty is at least 1 and qty is at most 9`."""
    match condition:
        case Comparison(op, left, right):
            return f"{text(left, SUM)} {_SIGNS[op]} {text(right, SUM)}"
        case Logic(op, left, right):
            first, second = (
                f"({in_words(part)})" if isinstance(part, Logic) and part.op != op else in_words(part)
                for part in (left, right)
            )
            return f"{first} {op} {second}"
        case Not(operand):
            return f"it is not so that {in_words(operand)}"
        case Aggregate(function, term, variable, items, None) if function in _FORMS:
            return _FORMS[function].format(name=variable, items=text(items), term=in_words(term))
        case _:
            return text(condition)


def put_in(expr: Expr, values: Mapping[str, Value | Unknown], types: Mapping[str, Type]) -> Expr:
    """Give an expression with the short ones of some values in the place of their names."""
    match expr:
        case Name(name) if name in types and (value := values.get(name, UNKNOWN)) is not UNKNOWN:
            assert not isinstance(value, Unknown)
            short = len(spell(value, types[name])) <= SHOWN
            return Literal(value, types[name]) if short else expr
        case Aggregate(variable=variable):
            inner = {name: value for name, value in values.items() if name != variable}
            return mapped(expr, lambda part: put_in(part, inner, types))
        case _:
            return mapped(expr, lambda part: put_in(part, values, types))

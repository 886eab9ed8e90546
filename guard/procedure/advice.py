"""What an author is told to write instead of an expression of the wrong type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from guard.procedure.clock import TIMED
from guard.procedure.faults import suggestion
from guard.procedure.lattice import (
    is_string,
    join,
    may_be_null,
    places_of_type,
    required,
    too_precise,
    type_text,
)
from guard.procedure.measured import (
    unit_advice,
)
from guard.procedure.nodes import (
    Call,
    Expr,
)
from guard.procedure.presence import path_of
from guard.procedure.text import CHOICE, binding, text
from guard.procedure.types import (
    BoolType,
    DecimalType,
    EnumType,
    IntType,
    ListType,
    NullType,
    OptionalType,
    PercentType,
    StringType,
    Type,
)
from guard.procedure.units import unit_name, unit_of

# What other languages call it -> what is written here.
CALLED: Final = {
    **dict.fromkeys(("mean", "avg", "average"), "write sum(xs) / count(xs), and round it: ... to 2"),
    **dict.fromkeys(("length", "size"), "write len(xs)"),
    **dict.fromkeys(("substring", "substr", "mid"), "write slice(s, first, last), both places included"),
    **dict.fromkeys(("toupper", "uppercase"), "write upper(s)"),
    **dict.fromkeys(("tolower", "lowercase"), "write lower(s)"),
    **dict.fromkeys(("int", "float", "parse"), "write number(s) to read a number from a string"),
    **dict.fromkeys(("str", "string", "to_string", "format"), "write text(x) to spell a number or date"),
    **dict.fromkeys(
        ("months_between", "datediff", "date_diff", "age"),
        "write full_months(from, to) or full_years(from, to), or to - from for days",
    ),
    "log": "write ln(x, 4), or log10(x, 4)",
    "map": "write [x * 2 for x in xs]",
    "sorted": "write sort(xs)",
    "unique": "write distinct(xs)",
}


def instead(op: str, found: Type) -> str:
    """Say what to write where a number is wanted and there is something else."""
    match op, found:
        case "+", ListType():
            return "write append(list, item) for one item more, concat(a, b) for two lists"
        case "+", _ if is_string(found):
            return "write concat(a, b) to put strings together, number(s) to read a number from one"
        case _, ListType() if op in ORDER:
            return "compare len(list), or one item with at(list, 1)"
        case _, _ if op in ORDER and is_string(found):
            return "compare two strings, or number(s) with a number"
        case _, _ if is_string(found):
            return "write a number, or number(s) to read one from a string"
        case _:
            return "write a number"


ORDER: Final = frozenset({"<", "<=", ">", ">="})


def null_problem(expr: Expr, found: Type) -> tuple[str, str]:
    """Give the message and the advice for a value that may be null where one is needed."""
    if isinstance(found, NullType):
        return f"{text(expr)!r} is null, there is nothing to go on with", "write a value"
    return f"{text(expr)!r} may be null here", _filled(expr, required(found))


def advice_for(expr: Expr, given: Type, wanted: Type, what: str) -> str:
    """Say how to make a value of a type of one that may be null, counts something else or is too precise.

    `what` names the input that it is given to, and where that is declared. "" otherwise.
    """
    return (
        null_advice(expr, given, wanted)
        or unit_advice(expr, given, wanted)
        or _decimals_advice(expr, given, wanted, what)
    )


def _decimals_advice(expr: Expr, given: Type, wanted: Type, what: str) -> str:
    """Say how to give a number that may have too many decimals: whole, where its input can be changed."""
    places = places_of_type(required(wanted))
    if places is None or not too_precise(wanted, given) or may_be_null(given):
        return ""
    wider = type_text(join(required(wanted), given) or given) + ("?" if may_be_null(wanted) else "")
    return f"declare {what.format(type=wider)} to keep all decimals, or write {rounded(expr, places)}"


def rounded(expr: Expr, places: int) -> str:
    """Give an expression that is rounded where it stands."""
    return f"round({text(expr)}, {places})" if places else f"round({text(expr)})"


def null_advice(expr: Expr, given: Type, wanted: Type) -> str:
    """Say how to give a value of a type where one that may be null was given; "" where that is no reason."""
    fits = may_be_null(given) and not may_be_null(wanted) and join(required(given), wanted) is not None
    return _filled(expr, required(given)) if fits else ""


def _filled(expr: Expr, item: Type) -> str:
    """Say how to make a value of one that may be null."""
    path = path_of(expr)
    test = (
        f"test `{text(expr)} is not null` before"
        if path is not None
        else "give it a name and test that before"
    )
    match item:
        case IntType() | PercentType() | DecimalType():
            unit = unit_of(item)
            zero = "0%" if isinstance(item, PercentType) else "0"
            fallback = zero if unit is None else f"0 {unit_name(unit)}"
        case BoolType():
            fallback = "false"
        case EnumType((option, *_)):
            fallback = f'"{option}"'
        case StringType():
            fallback = '""'
        case ListType():
            fallback = "[]"
        case _:
            return test
    value = text(expr) if binding(expr) > CHOICE else f"({text(expr)})"
    return f"write ({value} else {fallback}), or {test}"


def nulls_left_out(expr: Call, given: list[Type]) -> str:
    """Say how to go over a list without the items that are null; "" where that is not the matter."""
    match given, expr.arguments:
        case [ListType(OptionalType())], (items,):
            return f"leave the nulls out: {expr.function}(x for x in {text(items)} if x is not null)"
        case _:
            return ""


def meant(name: str, variables: Mapping[str, Type | None]) -> str:
    """Say what an unknown name was probably meant to be: a constant, or another name."""
    if name.lower() in {"true", "false"}:
        return f"write {name.lower()}"
    if name.lower() in {"none", "nil", "nothing", "undefined"}:
        return "write null"
    if name in TIMED:
        return f'add {name}: {type_text(TIMED[name])} to the inputs, and above them now in "Europe/Berlin"'
    if any(isinstance(known, EnumType) and name in known.options for known in variables.values()):
        return f'write "{name}" in quotes for the string'
    return suggestion(name, variables)

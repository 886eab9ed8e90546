"""The canonical text of expressions: one spelling for each, with as few parentheses as its tree allows."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from guard.procedure.faults import CUT, quoted
from guard.procedure.nodes import (
    Aggregate,
    Arithmetic,
    Call,
    Choose,
    Comparison,
    Convert,
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
from guard.procedure.types import DecimalType, IntType
from guard.procedure.units import unit_name
from guard.procedure.values import spell

# How tightly an expression binds; an operand that binds less tightly than its place asks for stands in
# parentheses.
CHOICE: Final = 0
OR: Final = 1
AND: Final = 2
NOT: Final = 3
COMPARED: Final = 4
SUM: Final = 5
PRODUCT: Final = 6
NEGATED: Final = 7
ATOM: Final = 8

_SUMS: Final = frozenset("+-")


def binding(expr: Expr) -> int:
    """Say how tightly an expression holds together, from `CHOICE` to `ATOM`."""
    match expr:
        case Choose() | Default():
            return CHOICE
        case Logic(op):
            return OR if op == "or" else AND
        case Not():
            return NOT
        case Comparison() | IsNull():
            return COMPARED
        case Convert():
            return PRODUCT
        case Arithmetic(op):
            return SUM if op in _SUMS else PRODUCT
        case Shift():
            return SUM
        case Negate():
            return NEGATED
        case Literal(int() | Fraction() as number) if number < 0:
            return NEGATED
        case _:
            return ATOM


def places_of(expr: Expr) -> tuple[int, int]:
    """Say how tightly the left and right operands of a binary operator must bind.

    Operators group to the left, so the right operand must bind more tightly than the operator itself;
    comparisons do not group at all.
    """
    own = binding(expr)
    return (own + 1 if own == COMPARED else own), own + 1


def text(expr: Expr, least: int = CHOICE) -> str:
    """Give the canonical text of an expression, in parentheses where it binds less tightly than `least`."""
    written = _text(expr)
    return written if binding(expr) >= least else f"({written})"


def cut(expr: Expr, *, bare: bool = False) -> str:
    """Give an expression for a message: in quotation marks and cut; `bare` for advice, as it is or dots."""
    spelt = text(expr)
    if bare or isinstance(expr, Literal):
        return "..." if len(spelt) > CUT else spelt
    return quoted(spelt)


def _text(expr: Expr) -> str:
    match expr:
        case Literal(value, IntType(unit) | DecimalType(_, unit) as type) if unit is not None:
            return f"{spell(value, type)} {unit_name(unit)}"
        case Literal(value, type):
            return spell(value, type)
        case Name(name):
            return name
        case FieldOf(record, name):
            return f"{text(record, ATOM)}.{name}"
        case Negate(operand):
            return "-" + text(operand, ATOM)
        case Arithmetic(op, left, right) | Comparison(op, left, right) | Logic(op, left, right):
            before, behind = places_of(expr)
            return f"{text(left, before)} {op} {text(right, behind)}"
        case IsNull(operand, negated):
            return f"{text(operand, SUM)} is {'not ' if negated else ''}null"
        case Convert(operand, unit):
            name = unit_name(unit if unit.scales or unit.powers else None)
            return f"{text(operand, PRODUCT)} as {f'({name})' if '/' in name else name}"
        case Default(value, fallback):
            return f"{text(value, OR)} else {text(fallback)}"
        case Shift(date, op, amount):
            before, behind = places_of(expr)
            return f"{text(date, before)} {op} {text(amount, behind)} {unit_text(expr)}"
        case Not(operand):
            return "not " + text(operand, NOT)
        case Choose(condition, then, otherwise):
            return f"if {text(condition, OR)} then {text(then, OR)} else {text(otherwise)}"
        case Call(function, arguments):
            return f"{function}({', '.join(map(text, arguments))})"
        case Aggregate(function, term, variable, items, condition, key, descending):
            only = f" if {text(condition, OR)}" if condition is not None else ""
            order = (f" by {text(key, OR)}" if key is not None else "") + (" desc" if descending else "")
            within = f"{text(term)} for {variable} in {text(items, OR)}{only}{order}"
            return f"[{within}]" if function == "list" else f"{function}({within})"
        case ListOf(items):
            return f"[{', '.join(map(text, items))}]"
        case RecordOf(fields):
            return "{ " + ", ".join(f"{name}: {text(value)}" for name, value in fields) + " }"


def unit_text(expr: Shift) -> str:
    """Give what stands behind an amount: `days`, `months down`."""
    return expr.unit if expr.mode is None else f"{expr.unit} {expr.mode}"

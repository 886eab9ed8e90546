"""An expression in the simplest equal form: no sign on an operand that need not have one, few brackets.

What a model finds hard in `136 - -68` or `4 - (3 - 9)` is not the arithmetic. A sum is taken apart into its
terms and a product into its factors, as far as they are numbers; their signs become those of the sum or of
the product. Nothing is computed.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Final

from guard.procedure.nodes import (
    Aggregate,
    Arithmetic,
    Call,
    Comparison,
    Expr,
    Literal,
    Negate,
    Shift,
    mapped,
)

_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_ADDING: Final = frozenset("+-")
_SCALING: Final = frozenset("*/")


def simplest(expr: Expr) -> Expr:
    """Give an equal expression without avoidable signs and brackets."""
    match expr:
        case _ if _is_sum(expr):
            return _summed(_terms(expr))
        case Negate() | Arithmetic(op="*" | "/"):
            negative, factor = _signed(expr)
            return _with_sign(negative, factor)
        case Arithmetic(op="div" as op, left=left, right=right):
            (first, one), (second, other) = _signed(left), _signed(right)
            if first and second:  # of a quotient that is rounded down only both can be left out
                return Arithmetic(op, one, other)
            return Arithmetic(op, _with_sign(first, one), _with_sign(second, other))
        case Comparison(op, left, right) if op in _MIRRORED:
            return _compared(op, _signed(left), _signed(right))
        case Call("abs", (only,)):
            return Call("abs", (_signed(only)[1],))
        case Shift(date, op, amount):
            negative, size = _signed(amount)
            turned = {"+": "-", "-": "+"}[op] if negative else op
            return replace(expr, date=simplest(date), op=turned, amount=size)
        case Aggregate():  # which goes by what is written of its terms
            return expr
        case _:
            return mapped(expr, simplest)


def _is_sum(expr: Expr) -> bool:
    """Whether an expression has terms that can be put in another order, or is what such a one takes away."""
    match expr:
        case Negate(operand):
            return _is_sum(operand)
        case Arithmetic(op):
            return op in _ADDING and _is_number(expr)
        case _:
            return False


def _is_number(expr: Expr) -> bool:
    """Whether an expression is seen to be a number: what is added to one is another."""
    match expr:
        case Literal(bool()):
            return False
        case Literal(value):
            return isinstance(value, int | Fraction)
        case Negate():
            return True
        case Arithmetic(op, left, right):
            return op not in _ADDING or _is_number(left) or _is_number(right)
        case _:
            return False


# --- products --------------------------------------------------------------------------------------


def _signed(expr: Expr) -> tuple[bool, Expr]:
    """Give an expression's sign and, in its simplest form, what that stands before."""
    match expr:
        case Literal(int() | Fraction() as value, type_) if not isinstance(value, bool) and value < 0:
            return True, Literal(-value, type_)
        case Negate(operand) if not _is_sum(operand):
            negative, rest = _signed(operand)
            return not negative, rest
        case Arithmetic(op, left, right) if op in _SCALING:
            first, one = _signed(left)
            second, other = _signed(right)
            return first is not second, _product(op, one, other)
        case _:
            made = simplest(expr)
            return (True, made.operand) if isinstance(made, Negate) else (False, made)


def _product(op: str, left: Expr, right: Expr) -> Expr:
    """Multiply or divide; a factor that is a product is multiplied by its factors one by one."""
    if op == "*" and isinstance(right, Arithmetic) and right.op in _SCALING:
        return Arithmetic(right.op, _product("*", left, right.left), right.right)
    return Arithmetic(op, left, right)


def _with_sign(negative: bool, expr: Expr) -> Expr:
    match expr:
        case _ if not negative:
            return expr
        case Literal(int() | Fraction() as value, type_):
            return Literal(-value, type_)
        case _:
            return Negate(expr)


# --- sums ------------------------------------------------------------------------------------------

_Term = tuple[bool, Expr]  # whether it is taken away, and what it is


def _terms(expr: Expr, *, away: bool = False) -> list[_Term]:
    match expr:
        case Arithmetic(op, left, right) if _is_sum(expr):
            behind = away is not (op == "-")
            return [*_terms(left, away=away), *_terms(right, away=behind)]
        case Negate(operand):
            return _terms(operand, away=not away)
        case _:
            negative, factor = _signed(expr)
            if _is_sum(factor):  # as the only factor that is left of a product
                return _terms(factor, away=away is not negative)
            return [(away is not negative, factor)]


def _summed(terms: list[_Term]) -> Expr:
    """Add terms up: one that is not taken away comes first; where all are, so is their sum."""
    first = next((place for place, (away, _) in enumerate(terms) if not away), None)
    if first is None:
        return _with_sign(True, _summed([(False, term) for _, term in terms]))
    rest = [*terms[:first], *terms[first + 1 :]]
    made = terms[first][1]
    for away, term in rest:
        made = Arithmetic("-" if away else "+", made, term)
    return made


# --- comparisons -----------------------------------------------------------------------------------


def _compared(op: str, left: tuple[bool, Expr], right: tuple[bool, Expr]) -> Expr:
    """Compare; of two numbers below zero the ones without their signs, the other way round."""
    if left[0] and right[0]:
        return Comparison(_MIRRORED[op], left[1], right[1])
    return Comparison(op, _with_sign(*left), _with_sign(*right))

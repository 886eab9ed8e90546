"""Whole numbers, computed and written in one go: what most lines of most procedures are.

The general way computes and spells with holes for what nobody has decided, and makes a cell of it. Where
all operands of an expression are whole numbers and known, its value is that of Python's own operators, and
its text that of a template. Where anything else comes up, nothing is said here and the general way decides.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from operator import itemgetter
from typing import Any, Final

from guard.procedure.evaluate import Compiled
from guard.procedure.nodes import Arithmetic, Comparison, Expr, Literal, Name
from guard.procedure.numbers import DIGITS
from guard.procedure.passes import Env
from guard.procedure.showing import Operand
from guard.procedure.types import BoolType, IntType, Type

MOST_OPERANDS: Final = 4  # so that nothing on the way to a value can come to 200 digits

Operands = tuple[int, ...]
Compute = Callable[[Operands], Any]

MOST: Final = 10**DIGITS  # a value that stands in a line is between these
LEAST: Final = -MOST
TRUTH: Final = {False: "false", True: "true"}
_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "div": operator.floordiv,
    "mod": operator.mod,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Plain:
    """An expression over whole numbers, that gives one or a truth value (`truth`).

    `read` gives its operands in the order of the text, a single one (`only`) by itself; `template` takes the
    step's path and head, the operands and the value. One of the functions, or the template, raises
    `TypeError` where an operand is not known; `compute` also `ZeroDivisionError`.
    """

    read: Callable[[Env], Any]
    only: bool
    compute: Compute
    template: str
    truth: bool


def plain(compiled: Compiled, type: Type, *, bare: bool) -> Plain | None:  # noqa: A002
    """Give the quick way for what stands alone in a line of a type; None where there is none.

    `bare`: the line shows nothing but the value.
    """
    parts = compiled.whole
    names = tuple(part.name for part in parts if isinstance(part, Operand))
    if compiled.type != type or (bare and not isinstance(compiled.expr, Literal)):
        return None
    if len(names) > MOST_OPERANDS or not all(isinstance(part, str | Operand) for part in parts):
        return None
    shape = _shape(compiled.expr, count())
    compute = None if shape is None else _computed(shape)
    if compute is None:
        return None
    working = "".join(part.replace("%", "%%") if isinstance(part, str) else "%d" for part in parts)
    return Plain(
        read=itemgetter(*names) if names else _nothing,
        only=len(names) == 1,
        compute=compute,
        template=f"%s %s {'' if bare else f'{working} = '}%s",
        truth=isinstance(type, BoolType),
    )


def _nothing(_: Env) -> Operands:
    return ()


# What is computed in one way is one tree: an operand is an index, a constant itself.
Shape = int | Literal | tuple[str, "Shape", "Shape"]


def _shape(expr: Expr, places: Iterator[int]) -> Shape | None:
    match expr:
        case Name():
            return next(places)
        case Literal(int(), IntType()):
            return expr
        case Arithmetic(op, left, right) | Comparison(op, left, right) if op in _OPERATORS:
            first, second = _shape(left, places), _shape(right, places)
            return None if first is None or second is None else (op, first, second)
        case _:
            return None


@lru_cache(maxsize=1024)  # so that steps alike share a function: there are many more steps than shapes
def _computed(shape: Shape) -> Compute:
    match shape:
        case int(place):
            return itemgetter(place)
        case Literal(value):
            return lambda _: value
        case (op, left, Literal(value)):
            apply, first = _OPERATORS[op], _computed(left)
            return lambda operands: apply(first(operands), value)
        case (op, left, right):
            apply, first, second = _OPERATORS[op], _computed(left), _computed(right)
            return lambda operands: apply(first(operands), second(operands))

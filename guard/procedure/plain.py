"""Whole numbers, computed and written in one go: what most lines of most procedures are.

The general way computes and spells with holes for what nobody has decided, and makes a cell of it. Where
all operands of an expression are whole numbers and known, its value is that of Python's own operators, and
its text that of a template. Where anything else comes up, nothing is said here and the general way decides.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from guard.procedure.evaluate import Compiled, Env, Evaluate, Operand
from guard.procedure.nodes import Arithmetic, Comparison, Expr, Literal, Name
from guard.procedure.types import BoolType, IntType, Type
from guard.procedure.values import DIGITS

MOST_OPERANDS: Final = 4  # so that nothing on the way to a value can come to 200 digits

Operands = tuple[int, ...]

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

    `names` are its operands in the order of the text, which `read` gives; `template` takes the step's path
    and head, the operands and the value. Both functions, or the template, raise `TypeError` where an
    operand is not known; and `compute` `ZeroDivisionError`.
    """

    names: tuple[str, ...]
    read: Callable[[Env], Operands]
    compute: Evaluate
    template: str
    truth: bool

    def env(self, operands: Operands) -> Env:
        """Give the variables as they were, as far as they matter."""
        return dict(zip(self.names, operands, strict=True))


def plain(compiled: Compiled, type: Type, *, bare: bool) -> Plain | None:  # noqa: A002
    """Give the quick way for what stands alone in a line of a type; None where there is none.

    `bare`: the line shows nothing but the value.
    """
    compute, parts = _computed(compiled.expr), compiled.whole
    names = tuple(part.name for part in parts if isinstance(part, Operand))
    if compute is None or compiled.type != type or (bare and not isinstance(compiled.expr, Literal)):
        return None
    if len(names) > MOST_OPERANDS or not all(isinstance(part, str | Operand) for part in parts):
        return None
    working = "".join(part.replace("%", "%%") if isinstance(part, str) else "%d" for part in parts)
    return Plain(
        names=names,
        read=_reader(names),
        compute=compute,
        template=f"%s %s {'' if bare else f'{working} = '}%s",
        truth=isinstance(type, BoolType),
    )


def _computed(expr: Expr) -> Evaluate | None:
    match expr:
        case Name(name):
            return itemgetter(name)
        case Literal(int(value), IntType()):
            return lambda _: value
        case Arithmetic(op, left, right) | Comparison(op, left, right) if op in _OPERATORS:
            first, second = _computed(left), _computed(right)
            return None if first is None or second is None else _applied(_OPERATORS[op], first, second, right)
        case _:
            return None


def _applied(op: Callable[[Any, Any], Any], first: Evaluate, second: Evaluate, right: Expr) -> Evaluate:
    if isinstance(right, Literal):
        constant = right.value
        return lambda env: op(first(env), constant)
    return lambda env: op(first(env), second(env))


def _reader(names: tuple[str, ...]) -> Callable[[Env], Operands]:
    match names:
        case ():
            return lambda _: ()
        case (only,):
            first = itemgetter(only)
            return lambda env: (first(env),)
        case _:
            return itemgetter(*names)

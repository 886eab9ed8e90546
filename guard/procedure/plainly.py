"""A module without units: what is counted is settled before anything is computed, and no line shows it.

Conversions become multiplications, constants lose their unit. The types of inputs, results and readings keep
theirs, so that people and models see what a number counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from guard.procedure.bindings import known_in
from guard.procedure.expression import conversions
from guard.procedure.measured import is_one
from guard.procedure.model import (
    AnyOrder,
    Assign,
    Branch,
    Check,
    Confirm,
    Do,
    End,
    Extract,
    For,
    If,
    Invoke,
    Judge,
    Module,
    Next,
    OneOf,
    Procedure,
    Require,
    Return,
    Say,
    Step,
    While,
)
from guard.procedure.nodes import (
    Arithmetic,
    Convert,
    Expr,
    Literal,
    mapped,
)
from guard.procedure.numbers import decimals_of
from guard.procedure.presence import NOTHING, Paths
from guard.procedure.scope import Scope
from guard.procedure.types import DecimalType, IntType, Type
from guard.procedure.units import bare

if TYPE_CHECKING:
    from guard.source import Span


def plainly(module: Module, types: Mapping[str, Mapping[str, Type]], done: Mapping[str, Procedure]) -> Module:
    """Give a module in which no expression has a unit.

    `types` are those of each procedure's names; `done` are those of other files, which have none already.
    """
    if not module.units:
        return module
    procedures = {
        name: done[name] if name in done else _Procedure(procedure, module, types[name]).plain()
        for name, procedure in module.procedures.items()
    }
    return replace(module, procedures=procedures)


class _Procedure:
    def __init__(self, procedure: Procedure, module: Module, types: Mapping[str, Type]) -> None:
        self.procedure = procedure
        self.scope = Scope(dict(types), module.tables, module.numbers, module.procedures, module.tools)
        self.known = known_in(procedure, self.scope)

    def plain(self) -> Procedure:
        return replace(self.procedure, body=tuple(map(self.step, self.procedure.body)))

    def expression(self, expr: Expr, number: str, scope: Scope | None = None) -> Expr:
        known: Paths = self.known.get(number, NOTHING)
        found = conversions(expr, (scope or self.scope).knowing(known))
        return unitless(expr, found)

    def several(self, exprs: tuple[Expr, ...], number: str) -> tuple[Expr, ...]:
        return tuple(self.expression(expr, number) for expr in exprs)

    def step(self, step: Step) -> Step:
        match step:
            case Assign(number=number, expression=expression):
                return replace(step, expression=self.expression(expression, number))
            case Do(number=number, arguments=arguments):
                return replace(step, arguments=self.several(arguments, number))
            case Extract(number=number, where=where) | Judge(number=number, where=where):
                if where is None:
                    return step
                scope = self.scope.bind(step.target, step.type)
                return replace(step, where=self.expression(where, number, scope))
            case If(branches=branches):
                return replace(step, branches=tuple(map(self.branch, branches)))
            case For(number=number, items=items, body=body):
                return replace(step, items=self.expression(items, number), body=tuple(map(self.step, body)))
            case While(number=number, condition=condition, body=body):
                condition = self.expression(condition, number)
                return replace(step, condition=condition, body=tuple(map(self.step, body)))
            case AnyOrder(body=body):
                return replace(step, body=tuple(map(self.step, body)))
            case OneOf(alternatives=ways, otherwise=otherwise):
                return replace(
                    step,
                    alternatives=tuple(replace(way, body=tuple(map(self.step, way.body))) for way in ways),
                    otherwise=otherwise and self.branch(otherwise),
                )
            case Require(number=number, condition=condition, otherwise=end):
                return replace(
                    step,
                    condition=self.expression(condition, number),
                    otherwise=end if isinstance(end, Next) else self.end(end),
                )
            case Check(number=number, condition=condition):
                return replace(step, condition=self.expression(condition, number))
            case Invoke(number=number, arguments=arguments):
                return replace(step, arguments=self.several(arguments, number))
            case Confirm(number=number, arguments=arguments, details=details, otherwise=end):
                return replace(
                    step,
                    arguments=self.several(arguments, number),
                    details=self.several(details, number),
                    otherwise=self.end(end),
                )
            case Say(number=number, parts=parts):
                return replace(step, parts=self.several(parts, number))
            case _:
                return self.end(step)

    def end(self, end: End) -> End:
        if isinstance(end, Return):
            return replace(end, expression=self.expression(end.expression, end.number))
        return end

    def branch(self, branch: Branch) -> Branch:
        condition = branch.condition
        if condition is not None:
            condition = self.expression(condition, branch.number)
        return replace(branch, condition=condition, body=tuple(map(self.step, branch.body)))


def unitless(expr: Expr, shares: Mapping[Span, Fraction]) -> Expr:
    """Give an expression without units. `shares` say what each conversion multiplies by, by its place."""

    def of(part: Expr) -> Expr:
        return unitless(part, shares)

    match expr:
        case Literal():
            return replace(expr, type=bare(expr.type))
        case Convert(operand):
            return _multiplied(of(operand), shares[expr.at], expr.at)
        case Arithmetic("*" | "/", left, right) if is_one(right):
            return of(left)
        case _:
            return mapped(expr, of)


def _multiplied(expr: Expr, share: Fraction, at: Span) -> Expr:
    """Give an expression times a fraction: by a constant where that can be spelled, else by two."""
    above, below = share.as_integer_ratio()
    places = decimals_of(below)
    if share == 1:
        return expr
    if below == 1:
        return Arithmetic("*", expr, Literal(above, IntType(), at), at)
    if places is not None:
        return Arithmetic("*", expr, Literal(share, DecimalType(places), at), at)
    many = expr if above == 1 else Arithmetic("*", expr, Literal(above, IntType(), at), at)
    return Arithmetic("/", many, Literal(below, IntType(), at), at)

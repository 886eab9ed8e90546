"""Where a value that may be null is known to be there: behind the tests and assignments that say so.

A *path* is a variable, or a field of one by fields that lead to it: `x`, `l.discount`. What is known are the
paths that hold no null, by their canonical text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from guard.procedure.lattice import holds_null, may_be_null
from guard.procedure.listing import walk
from guard.procedure.model import (
    AnyOrder,
    Check,
    Confirm,
    Deny,
    Escalate,
    For,
    If,
    Next,
    OneOf,
    Procedure,
    Require,
    Return,
    Step,
    While,
)
from guard.procedure.nodes import Expr, FieldOf, IsNull, Logic, Name, Not
from guard.procedure.text import text
from guard.procedure.types import Type

Paths = frozenset[str]
NOTHING: Paths = frozenset()


def told(condition: Expr, *, holds: bool) -> Paths:
    """Give the paths that are not null where a condition holds, or where it does not."""
    match condition:
        case IsNull(operand, negated):
            path = path_of(operand)
            return frozenset([path]) if path is not None and negated is holds else NOTHING
        case Not(operand):
            return told(operand, holds=not holds)
        case Logic(op, left, right):
            sides = told(left, holds=holds), told(right, holds=holds)
            return sides[0] | sides[1] if (op == "and") is holds else sides[0] & sides[1]
        case _:
            return NOTHING


def path_of(expr: Expr) -> str | None:
    """Give the path that an expression is, None where it is something else."""
    inner = expr
    while isinstance(inner, FieldOf):
        inner = inner.record
    return text(expr) if isinstance(inner, Name) else None


def without(paths: Paths, names: Iterable[str]) -> Paths:
    """Leave out the paths of some variables, which have got other values."""
    gone = set(names)
    return frozenset(path for path in paths if path.partition(".")[0] not in gone)


def presence(
    procedure: Procedure,
    variables: Iterable[Type | None],
    name_of: Callable[[Step], str | None],
    given: Callable[[Step, Paths], Type | None],
) -> dict[str, Paths]:
    """Give what is known in front of each step, by its number.

    `variables` are the types of the procedure's names. `name_of` tells the name that a step gives a value,
    `given` the type of that value where some paths are known.
    """
    if not any(type_ is not None and holds_null(type_) for type_ in variables):
        return {}
    flow = _Flow(name_of, given)
    flow.block(procedure.body, NOTHING)
    return flow.known


@dataclass(slots=True)
class _Flow:
    name_of: Callable[[Step], str | None]
    given: Callable[[Step, Paths], Type | None]
    known: dict[str, Paths] = field(default_factory=dict)

    def block(self, steps: Iterable[Step], paths: Paths) -> Paths | None:
        """Go through steps; what is known behind them, None where no way leads there."""
        behind: Paths | None = paths
        for step in steps:
            behind = self._step(step, NOTHING if behind is None else behind)
        return behind

    def _step(self, step: Step, paths: Paths) -> Paths | None:
        match step:
            case If():
                return self._if(step, paths)
            case For(number=number, body=body):
                again = without(paths, self._changed(body))
                self.known[number] = paths
                self.block(body, self._bound(step, again))
                return again
            case While(number=number, condition=condition, body=body):
                again = without(paths, self._changed(body))
                self.known[number] = again
                self.block(body, again | told(condition, holds=True))
                return again | told(condition, holds=False)
            case Require(number=number, condition=condition, otherwise=end):
                self.known[number] = paths
                if not isinstance(end, Next):
                    self.known[end.number] = paths | told(condition, holds=False)
                return paths | told(condition, holds=True)
            case AnyOrder(number=number, body=body):
                self.known[number] = paths
                return self._any_order(body, paths)
            case OneOf():
                return self._one_of(step, paths)
            case Confirm(number=number, otherwise=end):
                self.known[number] = self.known[end.number] = paths
                return paths
            case Check(number=number, condition=condition):
                self.known[number] = paths
                return paths | told(condition, holds=True)
            case Return() | Deny() | Escalate():
                self.known[step.number] = paths
                return None
            case _:
                self.known[step.number] = paths
                return self._bound(step, paths)

    def _if(self, step: If, paths: Paths) -> Paths | None:
        ways: list[Paths] = []
        for branch in step.branches:
            self.known[branch.number] = paths
            inner = paths
            if branch.condition is not None:
                inner = paths | told(branch.condition, holds=True)
                paths |= told(branch.condition, holds=False)
            behind = self.block(branch.body, inner)
            if behind is not None:
                ways.append(behind)
        if step.branches[-1].condition is not None:
            ways.append(paths)
        return frozenset.intersection(*ways) if ways else None

    def _any_order(self, body: tuple[Step, ...], paths: Paths) -> Paths:
        """Give what is known behind steps of which none knows which of the others came before."""
        inner = without(paths, self._changed(body))
        behind = inner
        for step in body:
            others = self._changed(other for other in body if other is not step)
            behind |= without(self.block((step,), inner) or NOTHING, others)
        return behind

    def _one_of(self, step: OneOf, paths: Paths) -> Paths | None:
        """Give what is known behind the alternative that held; others may have failed half way."""
        blocks = [way.body for way in step.alternatives]
        inner = without(paths, [name for body in blocks for name in self._changed(body)])
        self.known[step.number] = inner
        ways = [self.block(body, inner) for body in blocks]
        if step.otherwise is not None:
            self.known[step.otherwise.number] = inner
            ways.append(self.block(step.otherwise.body, inner))
        going_on = [way for way in ways if way is not None]
        return frozenset.intersection(*going_on) if going_on else None

    def _bound(self, step: Step, paths: Paths) -> Paths:
        """Give what is known where a step has given its name a value."""
        name = self.name_of(step)
        if name is None:
            return paths
        rest, found = without(paths, [name]), self.given(step, paths)
        return rest if may_be_null(found) else rest | {name}

    def _changed(self, body: Iterable[Step]) -> list[str]:
        return [name for step in walk(body) if (name := self.name_of(step)) is not None]

"""The statement of a procedure's text that a step stands for, with the procedure that it is in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from guard.procedure.execute import Program
from guard.procedure.listing import walk
from guard.procedure.model import (
    Assign,
    Branch,
    Check,
    Do,
    Extract,
    For,
    If,
    Judge,
    Require,
    Return,
    Step,
    While,
)
from guard.procedure.nodes import Call, Expr, names
from guard.procedure.types import Rounding

Statement = Step | Branch


@dataclass(frozen=True, slots=True)
class Located:
    """A statement, and the program in whose scope its names are."""

    program: Program
    statement: Statement

    @property
    def expression(self) -> Expr | None:
        """What it computes; None where it computes nothing, or several things. Of a loop: its items."""
        match self.statement:
            case Assign(expression=expression) | Return(expression=expression):
                return expression
            case Branch(condition=condition):
                return condition
            case While(condition=condition) | Require(condition=condition) | Check(condition=condition):
                return condition
            case For(items=items):
                return Call("len", (items,))
            case _:
                return None

    @property
    def rounding(self) -> tuple[int, Rounding] | None:
        """To how many decimals it rounds and how; None: it does not."""
        match self.statement:
            case Assign(places=int(places), rounding=mode) | Return(places=int(places), rounding=mode):
                return places, mode or self.program.numbers.rounding
            case _:
                return None

    @property
    def reads(self) -> frozenset[str]:
        """The variables that it takes the values of."""
        match self.statement:
            case (
                Extract(sources=sources, target=target, where=where)
                | Judge(sources=sources, target=target, where=where)
            ):
                told = () if where is None else names(where)
                return frozenset(sources) | {name.name for name in told if name.name != target}
            case Do(arguments=arguments):
                return frozenset(name.name for part in arguments for name in names(part))
            case _:
                expression = self.expression
                return frozenset(() if expression is None else (name.name for name in names(expression)))


@lru_cache(maxsize=32)
def statements(program: Program) -> Mapping[str, Located]:
    """Give the statements of a program by number, those of the procedures that it carries out included."""
    return dict(_located(program))


def _located(program: Program) -> Iterator[tuple[str, Located]]:
    for step in walk(program.procedure.body):
        if isinstance(step, If):
            yield from ((arm.number, Located(program, arm)) for arm in step.branches)
        else:
            yield step.number, Located(program, step)
        if isinstance(step, Do):
            for number, inner in statements(program.callees[step.procedure]).items():
                yield f"{step.number}.{number}", inner

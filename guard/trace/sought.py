"""Which steps a free-form text is searched for, and which of them must occur in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from guard.procedure.execute import Program
from guard.procedure.expected import Expected
from guard.procedure.listing import walk
from guard.procedure.model import AnyOrder, Deny, If, Return, StepKind
from guard.procedure.model import Step as Statement

_SURE: Final = frozenset(
    {StepKind.ASSIGN, StepKind.EXTRACT, StepKind.JUDGE, StepKind.BRANCH, StepKind.LOOP, StepKind.RETURN}
)
_HOLDS: Final = frozenset({StepKind.REQUIRE, StepKind.CHECK})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """A step to look for: its number, the variable it gives a value, if any, and whether it must occur."""

    number: str
    name: str | None = None
    sure: bool = True
    answers: bool = False  # its value is an answer


def sought(steps: Program | Iterable[Expected | str]) -> tuple[Sought, ...]:
    """Give the steps to look for.

    Of a program, those that do not hang on a condition are sure; the steps that an execution yielded
    all are. Names count as numbered from 1, and the last one's value is the answer.
    """
    if isinstance(steps, Program):
        return _of_program(steps)
    listed = [
        Sought(number=str(place), name=step)
        if isinstance(step, str)
        else Sought(number=step.path, name=step.target)
        for place, step in enumerate(steps, 1)
    ]
    # Others that return end a procedure that was called, and answer nothing.
    listed[-1:] = [replace(step, answers=True) for step in listed[-1:]]
    return tuple(listed)


def _of_program(program: Program) -> tuple[Sought, ...]:
    statements: dict[str, Statement] = {}
    later_arms: set[str] = set()
    straight = set(_straight(program.procedure.body))
    for step in walk(program.procedure.body):
        if isinstance(step, If):
            later_arms.update(branch.number for branch in step.branches[1:])
        else:
            statements[step.number] = step
    found: list[Sought] = []
    certain = True  # until a step that may end the run, or that this module does not know
    for number, kind in program.step_numbers.items():
        sure = certain and number in straight and number not in later_arms and kind in _SURE | _HOLDS
        certain = certain and kind in _SURE and not ("." in number and kind is StepKind.RETURN)
        name = getattr(statements.get(number), "target", None)
        found.append(Sought(number=number, name=name, sure=sure, answers=_ends(statements.get(number))))
    return tuple(found)


def _straight(block: Iterable[Statement]) -> Iterator[str]:
    """Give the numbers of the statements that stand in no arm, loop or other procedure."""
    for step in block:
        match step:
            case AnyOrder(body=body):
                yield from _straight(body)
            case If(branches=branches):
                yield from (branch.number for branch in branches)
            case _:
                yield step.number


def _ends(statement: Statement | None) -> bool:
    return isinstance(statement, Return | Deny)

"""An execution carried to a point by what was sent to it, since a generator cannot be rewound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Final, Protocol

from guard.procedure.expected import UNKNOWN, Ending, EndKind, Execution, Expected, Pick, Unknown
from guard.procedure.groups import around
from guard.procedure.model import StepKind
from guard.procedure.passes import MOST_STEPS
from guard.procedure.types import Value

AHEAD: Final = 2_000  # steps that are looked ahead for one that was written

Sent = Value | Unknown | Pick | None


class Executable(Protocol):
    """A compiled procedure, as far as checking needs it."""

    @property
    def name(self) -> str: ...

    @property
    def step_numbers(self) -> Mapping[str, StepKind]: ...

    @property
    def members(self) -> Mapping[str, int]: ...

    def execute(self, inputs: Mapping[str, Value]) -> Execution: ...


@dataclass(slots=True)
class Walk:
    """An execution under way: the step that is due, or how it ended, and what was sent so far."""

    execution: Execution
    due: Expected | None = None
    ending: Ending | None = None
    sent: list[Sent] = field(default_factory=list)

    def send(self, value: Sent) -> None:
        """Go past the step that is due; to another one of those that may come, where that is picked."""
        self.sent.append(value)
        try:
            self.due = self.execution.send(value)
        except StopIteration as stop:
            self.due, self.ending = None, stop.value

    def skip(self) -> None:
        """Go past the step that is due with what the guard knows of it."""
        self.send(UNKNOWN if self.due is not None and self.due.decision is not None else None)

    @property
    def passed(self) -> int:
        """How many steps lie behind it: as many as values were sent, picks left out."""
        return sum(not isinstance(value, Pick) for value in self.sent)

    def pick(self, path: str) -> bool:
        """Make a step the one that is due, where it may come next; whether it is due."""
        if self.due is not None and any(step.path == path for step in self.due.others):
            self.send(Pick(path))
        return self.due is not None and self.due.path == path

    def turn_to(self, path: str, members: Mapping[str, int]) -> None:
        """In a group of any order, pick the member that leads to a step. `members` are the program's."""
        if self.due is None or not self.due.others:
            return
        wanted = around(path, members)
        steps = [self.due, *self.due.others]  # of several that lead as far, the one that is due
        self.pick(max(steps, key=lambda step: _shared(around(step.path, members), wanted)).path)

    @property
    def undetermined(self) -> bool:
        """Whether what comes hangs on what was never decided."""
        return self.ending is not None and self.ending.kind is EndKind.UNDETERMINED

    @classmethod
    def start(cls, program: Executable, inputs: Mapping[str, Value], sent: Iterable[Sent] = ()) -> Walk:
        """Start an execution and carry it as far as `sent` does."""
        walk = cls(program.execute(inputs))
        walk.send(None)  # starts it
        walk.sent.clear()
        for value in sent:
            if walk.due is None:
                break
            walk.send(value)
        return walk


def retrace(program: Executable, inputs: Mapping[str, Value], sent: Iterable[Sent]) -> Iterator[Expected]:
    """Give once more the steps at which an execution was sent a value, in order."""
    walk = Walk.start(program, inputs)
    for value in sent:
        if walk.due is None:
            return
        if not isinstance(value, Pick):
            yield replace(walk.due, others=()) if walk.due.others else walk.due
        walk.send(value)


def _shared(one: Sequence[object], other: Sequence[object]) -> int:
    """How many of the first items two sequences share."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def look_ahead(
    program: Executable, inputs: Mapping[str, Value], sent: Iterable[Sent], path: str, *, most: int = AHEAD
) -> Walk:
    """Carry an execution on behind `sent`, computing: to a step, to the end, or for so many steps."""
    walk = Walk.start(program, inputs, sent)
    for _ in range(most):
        walk.turn_to(path, program.members)
        if walk.due is None or walk.due.path == path:
            break
        walk.skip()
    return walk


def count_steps(
    program: Executable, inputs: Mapping[str, Value], sent: Iterable[Sent], *, most: int = MOST_STEPS
) -> int | None:
    """How many steps the whole execution has, carried on behind `sent` with computed values.

    None where that hangs on what was never decided, or where there are more than any trace can have.
    """
    walk = Walk.start(program, inputs, sent)
    steps = walk.passed
    while walk.due is not None and steps < most:
        walk.skip()
        steps += 1
    return steps if walk.due is None and not walk.undetermined else None

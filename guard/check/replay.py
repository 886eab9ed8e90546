"""An execution carried to a point by what was sent to it, since a generator cannot be rewound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from guard.procedure.expected import UNKNOWN, Ending, EndKind, Execution, Expected, Unknown
from guard.procedure.model import StepKind
from guard.procedure.steps import MAX_STEPS
from guard.procedure.types import Value

AHEAD: Final = 2_000  # steps that are looked ahead for one that was written

Sent = Value | Unknown | None


class Executable(Protocol):
    """A compiled procedure, as far as checking needs it."""

    @property
    def name(self) -> str: ...

    @property
    def step_numbers(self) -> Mapping[str, StepKind]: ...

    def execute(self, inputs: Mapping[str, Value]) -> Execution: ...


@dataclass(slots=True)
class Walk:
    """An execution under way: the step that is due, or how it ended, and what was sent so far."""

    execution: Execution
    due: Expected | None = None
    ending: Ending | None = None
    sent: list[Sent] = field(default_factory=list)

    def send(self, value: Sent) -> None:
        """Go past the step that is due."""
        self.sent.append(value)
        try:
            self.due = self.execution.send(value)
        except StopIteration as stop:
            self.due, self.ending = None, stop.value

    def skip(self) -> None:
        """Go past the step that is due with what the guard knows of it."""
        self.send(UNKNOWN if self.due is not None and self.due.decision is not None else None)

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
    """Give once more the steps at which an execution was sent something, in order."""
    walk = Walk.start(program, inputs)
    for value in sent:
        if walk.due is None:
            return
        yield walk.due
        walk.send(value)


def look_ahead(
    program: Executable, inputs: Mapping[str, Value], sent: Iterable[Sent], path: str, *, most: int = AHEAD
) -> Walk:
    """Carry an execution on behind `sent`, computing: to a step, to the end, or for so many steps."""
    walk = Walk.start(program, inputs, sent)
    for _ in range(most):
        if walk.due is None or walk.due.path == path:
            break
        walk.skip()
    return walk


def count_steps(
    program: Executable, inputs: Mapping[str, Value], sent: Iterable[Sent], *, most: int = MAX_STEPS
) -> int | None:
    """How many steps the whole execution has, carried on behind `sent` with computed values.

    None where that hangs on what was never decided, or where there are more than any trace can have.
    """
    walk = Walk.start(program, inputs, sent)
    while walk.due is not None and len(walk.sent) < most:
        walk.skip()
    return len(walk.sent) if walk.due is None and not walk.undetermined else None

"""A procedure carried out faithfully, where things stand in its trace, and a trace with one departure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final

from guard.procedure.execute import Program, reference
from guard.procedure.expected import Ending, Expected, Pick
from guard.procedure.steps import Sent
from guard.procedure.types import Value
from guard.procedure.values import spell
from guard.trace import render

NONCE: Final = "3fa92c"
ENDS: Final = frozenset({"return", "deny", "escalate"})


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A procedure carried out faithfully: its program, inputs, steps with their values, and its end."""

    text: str
    program: Program
    inputs: dict[str, Value]
    steps: tuple[tuple[Expected, Value], ...]
    ending: Ending

    @cached_property
    def trace(self) -> str:
        """The faithful trace."""
        return render.trace(self.program, self.steps, NONCE)

    @cached_property
    def due(self) -> tuple[str, ...]:
        """Which step is due in front of each, the first as written of several; "" behind the last."""
        return tuple(due for due, _ in come(self.program, self.inputs, self.steps))

    @property
    def lines(self) -> list[str]:
        """The faithful trace, line by line, with its frame."""
        return list(self._lines)

    @cached_property
    def _lines(self) -> tuple[str, ...]:
        return tuple(self.trace.split("\n")[:-1])

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        return tuple(accumulate(len(line) + 1 for line in self._lines))

    def path(self, index: int) -> str:
        """The number of a step; behind the last one there is none."""
        return self.steps[index][0].path if index < len(self.steps) else ""

    def start(self, index: int) -> int:
        """Where a step's line starts; behind the last one, the closing line's."""
        return self._starts[index]

    @cached_property
    def paths(self) -> frozenset[str]:
        """The numbers of all steps."""
        return frozenset(expected.path for expected, _ in self.steps)


def come(
    program: Program, inputs: Mapping[str, Value], steps: Iterable[tuple[Expected, Value]]
) -> Iterator[tuple[str, bool]]:
    """Let steps come one after the other: which one is due in front of each, and whether it may come.

    Stops behind the first that may not; behind all of them, what is due then ("" for nothing) and False.
    """
    execution = program.execute(inputs)
    due: Expected | None = next(execution)
    for step, value in steps:
        may = due is not None and step.path in {due.path, *(other.path for other in due.others)}
        yield due.path if due is not None else "", may
        if due is None or not may:
            return
        if due.path != step.path:
            execution.send(Pick(step.path))
        try:
            due = execution.send(None if step.decision is None else value)
        except StopIteration:
            due = None
    yield due.path if due is not None else "", False


def sent(
    program: Program, inputs: Mapping[str, Value], steps: Sequence[tuple[Expected, Value]]
) -> list[Sent]:
    """What an execution is sent that comes to steps in their order: values of decisions, None, and picks."""
    found: list[Sent] = []
    for (step, value), (due, _) in zip(steps, come(program, inputs, steps), strict=False):
        found += [Pick(step.path)] if due != step.path else []
        found.append(None if step.decision is None else value)
    return found


def carried_out(text: str, program: Program, inputs: dict[str, Value], decisions: dict[str, Value]) -> Sample:
    """Carry a procedure out to its end. Raises RequestError where a decision is missing."""
    steps, ending = reference(program, inputs, decisions)
    return Sample(text=text, program=program, inputs=inputs, steps=tuple(steps), ending=ending)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A trace with one departure, and what is to be said of it. `name` is that of its injector."""

    name: str
    text: str
    kind: str
    step: str
    at: int
    finish_reason: str | None = "stop"


# Gives the departures of one form that a step of a faithful trace can have; none where it can have none.
Injector = Callable[[Sample, int], Iterator[Mutant]]


@dataclass(frozen=True, slots=True)
class Spot:
    """A cell in its line: offsets from the line's start. What a cell does not have is None."""

    at: int  # where it starts, behind its lead
    symbol: str | None  # the expression as it is written in the procedure
    working: str | None
    working_at: int
    value: str | None  # None in a line whose value comes in later lines
    value_at: int


def spots(expected: Expected, value: Value) -> list[Spot]:
    """Where the cells of a faithful line stand."""
    at = len(f"{expected.path} {expected.head} ")
    found = []
    for cell in expected.cells:
        start = at + len(cell.lead)
        at += len(cell.given)
        working_at, working = at, None
        spelling = spell(value, cell.type) if expected.decision is not None else cell.spelling
        if cell.working is not None:
            working = "".join(part for part in cell.working if isinstance(part, str))
            at += len(working) + (0 if cell.bare else len(" = "))
        shown = None if cell.bare else spelling
        found.append(Spot(start, cell.symbol, working, working_at, shown, at))
        at += len(shown or "")
    return found


def changed_line(
    sample: Sample, index: int, line: str, kind: str, into: int, *, name: str, step: str | None = None
) -> Mutant:
    """Another line instead of a step's; what is wrong with it is `into` the line.

    Where it is a step of several that may come, its number tells which one is meant.
    """
    lines = sample.lines
    lines[index + 1] = line
    foreign = not line.startswith(f"{sample.path(index)} ")
    return Mutant(
        name=name,
        text="".join(f"{each}\n" for each in lines),
        kind=kind,
        step=step if step is not None else sample.due[index] if foreign else sample.path(index),
        at=sample.start(index) + into,
    )


def inserted_line(
    sample: Sample, index: int, line: str, kind: str, *, name: str, step: str | None = None
) -> Mutant:
    """A line in front of a step's, which is wrong from its start."""
    lines = sample.lines
    lines.insert(index + 1, line)
    return Mutant(
        name=name,
        text="".join(f"{each}\n" for each in lines),
        kind=kind,
        step=sample.due[index] if step is None else step,
        at=sample.start(index),
    )

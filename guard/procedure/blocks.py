"""Compiled steps that carry out others: blocks, branches, loops, and procedures within procedures."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Protocol

from guard.procedure.cells import Leaf
from guard.procedure.evaluate import Compiled
from guard.procedure.expected import UNKNOWN, Cell, Ending, EndKind, Expected, Unknown
from guard.procedure.functions import EvaluationError
from guard.procedure.model import StepKind
from guard.procedure.passes import PASSES, Env
from guard.procedure.showing import Part, render
from guard.procedure.steps import (
    NEXT,
    SIMPLE,
    Condition,
    Fault,
    Frame,
    Place,
    RefuseStep,
    ReturnStep,
    Run,
    Sent,
    Simple,
    count,
    due,
    fault,
    undetermined,
    usable,
)
from guard.procedure.text import text
from guard.procedure.types import IntType, StringType, Type

_INT = IntType()
_STRING = StringType()


def _asked(
    condition: Condition, frame: Frame, prefix: str
) -> Generator[Expected, Sent, tuple[bool | Unknown, str]]:
    path = prefix + condition.place.suffix
    return condition.holds(frame, (yield due(condition, frame, path))), path


@dataclass(frozen=True, slots=True)
class RequireStep:
    """Go on where a condition holds, else end; without an end, the alternative around has failed."""

    condition: Condition
    otherwise: ReturnStep | RefuseStep | None

    def run(self, frame: Frame, prefix: str) -> Run:
        """Carry out the requirement and, where it does not hold, the end below it."""
        holds, path = yield from _asked(self.condition, frame, prefix)
        match holds:
            case True:
                return None
            case False:
                if self.otherwise is None:
                    return NEXT
                return (yield from Block((self.otherwise,)).run(frame, prefix))
            case _:
                return undetermined(path, self.condition.place)


@dataclass(frozen=True, slots=True)
class BranchStep:
    """Carry out the first arm whose condition holds. An arm without a condition is the last."""

    arms: tuple[tuple[Condition | None, Block], ...]

    def run(self, frame: Frame, prefix: str) -> Run:
        """Ask one condition after the other."""
        for condition, block in self.arms:
            if condition is not None:
                holds, path = yield from _asked(condition, frame, prefix)
                if holds is UNKNOWN:
                    return undetermined(path, condition.place)
                if not holds:
                    continue
            return (yield from block.run(frame, prefix))
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DoStep:
    """Carry out another procedure, on arguments of its own, and keep what it returns.

    `shown` is the call as its line shows it; `inputs` are the names and values of the other's inputs.
    """

    place: Place
    target: str
    type: Type
    shown: tuple[Part, ...]
    inputs: tuple[tuple[str, Leaf], ...]
    body: Block
    exact: bool  # whether the other procedure carries exact values

    def run(self, frame: Frame, prefix: str) -> Run:
        """Give the call, then the steps up to their return. A refusal in them is the whole run's."""
        path = prefix + self.place.suffix
        count(frame, path)
        try:
            inner = self._frame(frame)
            working = render(self.shown, frame.env, frame.shown)
        except EvaluationError as reason:
            raise fault(path, reason) from None
        written = [part for part in working if isinstance(part, str)]
        known = "".join(written) if len(written) == len(working) else None
        cell = Cell((), "", working, UNKNOWN if known is None else known, known, _STRING, bare=True)
        yield self.place.expect(path, (cell,), env=frame.shown)
        inner.steps = frame.steps
        inner.env[PASSES] = frame.env[PASSES]
        ending = yield from self._inside(self.body.run(inner, f"{path}."))
        frame.steps = inner.steps
        frame.env[PASSES] = inner.env[PASSES]
        if ending is None or ending.kind is not EndKind.RETURN:
            return ending
        value = UNKNOWN if ending.value is None else usable(ending.value, self.type)
        frame.store(self.target, value, value)
        return None

    def _frame(self, frame: Frame) -> Frame:
        """Give the other procedure's scope: its inputs and nothing else."""
        env: Env = {}
        shown: Env = {}
        for name, leaf in self.inputs:
            env[name], cell = leaf.fill(frame.env, frame.shown)
            shown[name] = cell.value
        if self.exact:
            return Frame(env, shown, most=frame.most)
        kept = env if frame.shown is frame.env else shown
        return Frame(kept, kept, most=frame.most)

    def _inside(self, run: Run) -> Run:
        """Give the steps of the other procedure the numbers that they have here."""
        sent: Sent = None
        try:
            while True:
                sent = yield self._here(run.send(sent))
        except StopIteration as stop:
            ending: Ending | None = stop.value
            return ending

    def _here(self, expected: Expected) -> Expected:
        kind = StepKind.RESULT if expected.kind is StepKind.RETURN else expected.kind
        number = f"{self.place.number}.{expected.number}"
        others = tuple(map(self._here, expected.others)) if expected.others else ()
        return replace(expected, number=number, kind=kind, others=others)


@dataclass(frozen=True, slots=True)
class LoopStep:
    """Carry out a block for each item of a list."""

    place: Place
    variable: str
    items: Compiled
    named: bool  # the list is a variable or field, so it is shown as it was written
    bound: int
    body: Block

    def run(self, frame: Frame, prefix: str) -> Run:
        """Give the header, then each pass."""
        path = prefix + self.place.suffix
        count(frame, path)
        try:
            items = self.items.evaluate(frame.env)
        except EvaluationError as reason:
            raise fault(path, reason) from None
        if items is UNKNOWN:
            yield self.place.expect(path, (Cell((), "", None, UNKNOWN, None, _INT),), env=frame.shown)
            return undetermined(path, self.place)
        if len(items) > self.bound:
            long = f"has {len(items)} items, the loop takes at most {self.bound}"
            raise Fault(path, f"{text(self.items.expr)} {long}")
        count_of = Cell((), "", None, len(items), str(len(items)), _INT)
        yield self.place.expect(path, (count_of,), env=frame.shown)
        seen = self.items.evaluate(frame.shown) if self.named else items
        for index, item in enumerate(items):
            frame.store(self.variable, item, seen[index])
            ending = yield from self.body.run(frame, f"{path}[{index + 1}].")
            if ending is not None:
                return ending
        return None


@dataclass(frozen=True, slots=True)
class WhileStep:
    """Carry out a block as long as a condition holds. Each test is a line, numbered by its pass."""

    condition: Condition
    bound: int
    body: Block

    def run(self, frame: Frame, prefix: str) -> Run:
        """Give the test and the pass behind it, in turn. Raises `Fault` where one pass more would come."""
        for turn in range(1, self.bound + 2):
            path = f"{prefix}{self.condition.place.suffix}[{turn}]"
            expected = due(self.condition, frame, path)
            if turn > self.bound and frame.pending is True:
                raise Fault(path, self._endless())
            holds = self.condition.holds(frame, (yield expected))
            if holds is UNKNOWN:
                return undetermined(path, self.condition.place)
            if not holds:
                return None
            if turn > self.bound:
                raise Fault(path, self._endless())
            ending = yield from self.body.run(frame, f"{path}.")
            if ending is not None:
                return ending
        return None

    def _endless(self) -> str:
        return f"the condition still holds after {self.bound} passes, the loop takes at most {self.bound}"


class Compound(Protocol):
    """A step that carries out others."""

    def run(self, frame: Frame, prefix: str) -> Run:
        """Carry it out; `prefix` is what the paths of its steps begin with. Raises `Fault`."""


@dataclass(frozen=True, slots=True)
class Block:
    """Steps in order."""

    steps: tuple[Step, ...]

    def run(self, frame: Frame, prefix: str) -> Run:
        """Carry the steps out, up to the end of the block or of the procedure. Raises `Fault`."""
        for step in self.steps:
            if isinstance(step, SIMPLE):
                path = prefix + step.place.suffix
                expected = due(step, frame, path)
                ending = step.take(frame, expected, (yield expected))
            else:
                ending = yield from step.run(frame, prefix)
            if ending is not None:
                return ending
        return None


Step = Simple | Compound

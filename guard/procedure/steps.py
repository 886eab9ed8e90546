"""Compiled steps: what each expects next, and what it does with the value that came.

Steps have no state; all of an execution's state is in its frame. `Simple` steps are one line each;
compound ones carry out blocks of others.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

from guard.errors import InvalidState
from guard.procedure.cells import Body, Leaf
from guard.procedure.evaluate import Compiled, Part, render
from guard.procedure.expected import UNKNOWN, Cell, Decision, Ending, EndKind, Expected, Pick, Ready, Unknown
from guard.procedure.functions import EvaluationError
from guard.procedure.model import StepKind
from guard.procedure.passes import Env
from guard.procedure.plain import LEAST, MOST, TRUTH
from guard.procedure.text import text
from guard.procedure.types import NULL, BoolType, IntType, StringType, Type, Value
from guard.procedure.values import coerce, conforms, spell

Sent = Value | Unknown | Pick | None
Run = Generator[Expected, Sent, Ending | None]  # returns None where the procedure goes on behind it

MAX_STEPS: Final = 100_000  # of one execution, so that loops in loops come to an end
TOO_MANY: Final = f"there are more than {MAX_STEPS} steps"

NEXT: Final = Ending(EndKind.FAILED, reason="this alternative has failed")  # for the `one of` around
_INT = IntType()
_BOOL = BoolType()
_STRING = StringType()


class Frame:
    """The state of one execution: values by name, and the same as the trace shows them."""

    __slots__ = ("env", "pending", "shown", "steps")

    def __init__(self, env: Env, shown: Env) -> None:
        self.env, self.shown = env, shown
        self.steps = 0
        self.pending: Value | Unknown = UNKNOWN  # what the yielded step carries on unless it is sent a value

    def store(self, name: str, carried: Value | Unknown, seen: Value | Unknown) -> None:
        """Keep a variable's value."""
        self.env[name] = carried
        if self.shown is not self.env:
            self.shown[name] = seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a step stands. `suffix` is what its number adds to that of the loop around it."""

    number: str
    suffix: str
    kind: StepKind
    head: str
    label: str | None = None
    target: str | None = None

    def expect(
        self, path: str, cells: tuple[Cell, ...], tail: str = "", decision: Decision | None = None
    ) -> Expected:
        """Give the line that must come here."""
        return Expected(
            path, self.number, self.kind, self.label, self.target, self.head, cells, tail, decision
        )

    def ready(self, path: str, body: Body, env: Env) -> Expected | None:
        """Give the line written in one go, where that can be."""
        plain = body.plain
        if plain is None:
            return None
        try:
            operands = plain.read(env)
            if plain.only:
                operands = (operands,)
            value = plain.compute(operands)
            shown = TRUTH[value] if plain.truth else value
            line = plain.template % (path, self.head, *operands, shown)
        except (TypeError, ZeroDivisionError):  # an operand is not known; the procedure is at fault
            return None
        if not LEAST < value < MOST:
            return None
        kind, label, target, head = self.kind, self.label, self.target, self.head
        return Ready(path, self.number, kind, label, target, head, line, value, body)


class Fault(Exception):  # noqa: N818 (the procedure's, and no error of ours)
    """A procedure cannot go on at a step."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path


def undetermined(path: str, place: Place) -> Ending:
    """Give the ending of an execution that hangs on what nobody has decided."""
    loop = place.kind in {StepKind.LOOP, StepKind.WHILE}
    what = "how often the loop runs" if loop else "where the procedure goes on"
    return Ending(EndKind.UNDETERMINED, path=path, reason=f"{what} hangs on a value that is not decided")


def count(frame: Frame, path: str) -> None:
    """Count a step that is about to come. Raises `Fault` where there have been too many."""
    frame.steps += 1
    if frame.steps > MAX_STEPS:
        raise Fault(path, TOO_MANY)


def due(step: Simple | Condition, frame: Frame, path: str) -> Expected:
    """Give the line that must come at a path. Raises `Fault` where there can be none."""
    frame.steps += 1  # as `count` does; this is where most steps come by
    if frame.steps > MAX_STEPS:
        raise Fault(path, TOO_MANY)
    try:
        return step.expect(frame, path)
    except EvaluationError as reason:
        raise Fault(path, str(reason)) from None


def usable(sent: Value | Unknown | Pick, type: Type) -> Value | Unknown:  # noqa: A002
    """Give a value to go on from: what was sent, UNKNOWN where that is of another kind than the step's."""
    value = None if isinstance(sent, Unknown | Pick) else coerce(sent, type)
    return UNKNOWN if value is None else value


# --- one line ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AssignStep:
    """Compute a variable."""

    place: Place
    target: str
    type: Type
    body: Body

    def expect(self, frame: Frame, path: str) -> Expected:
        """Give the line with the computed value."""
        ready = self.place.ready(path, self.body, frame.env)
        if ready is not None:
            frame.pending = ready.value
            return ready
        frame.pending, cells = self.body.fill(frame.env, frame.shown)
        return self.place.expect(path, cells, self.body.tail)

    def take(self, frame: Frame, expected: Expected, sent: Sent) -> None:
        """Keep the value: the computed one, or what was sent instead."""
        if sent is None:
            frame.env[self.target] = frame.pending
            if frame.shown is not frame.env:
                frame.shown[self.target] = expected.value
        else:
            value = usable(sent, self.type)
            frame.store(self.target, value, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideStep:
    """Take a variable's value from the model. `limits` bound lists in it, by the fields that lead there."""

    place: Place
    target: str
    type: Type
    sources: tuple[str, ...]
    quote: bool
    where: Compiled | None
    limits: tuple[tuple[tuple[str, ...], int], ...]

    def expect(self, frame: Frame, path: str) -> Expected:
        """Give the line without its value, and what bounds that."""
        texts = [(name, frame.env[name]) for name in self.sources]
        decision = Decision(
            type=self.type,
            sources=tuple((name, value) for name, value in texts if isinstance(value, str)),
            quote=self.quote,
            # `where` sees the variables as they are now, whenever it is asked.
            admissible=partial(self._admissible, dict(frame.env) if self.where is not None else {}),
            at_most=next((most for fields, most in self.limits if not fields), None),
        )
        cell = Cell((), "", None, UNKNOWN, None, self.type)
        return self.place.expect(path, (cell,), decision=decision)

    def take(self, frame: Frame, expected: Expected, sent: Sent) -> None:
        """Keep the model's value."""
        if sent is None:
            raise InvalidState(f"step {expected.path} is the model's to decide: send a value or UNKNOWN")
        value = usable(sent, self.type)
        frame.store(self.target, value, value)

    def _admissible(self, env: Env, value: Value) -> str | None:
        reason = conforms(value, self.type) or self._too_long(value)
        if reason is not None or self.where is None:
            return reason
        try:
            holds = self.where.evaluate({**env, self.target: usable(value, self.type)})
        except EvaluationError as fault:
            return f"a value for which {text(self.where.expr)} can be computed ({fault})"
        return f"a value where {text(self.where.expr)}" if holds is False else None

    def _too_long(self, value: Any) -> str | None:
        for fields, most in self.limits:
            part = value
            for name in fields:
                part = NULL if part is NULL else part[name]
            if part is not NULL and len(part) > most:
                return f"a list of at most {most} items" + "".join(
                    f" at {'.'.join(fields)}" for _ in fields[:1]
                )
        return None


@dataclass(frozen=True, slots=True)
class Condition:
    """A line whose value is true or false: of `if`, `elif`, `while`, `require` and `check`."""

    place: Place
    body: Body

    def expect(self, frame: Frame, path: str) -> Expected:
        """Give the line with the condition's value."""
        ready = self.place.ready(path, self.body, frame.env)
        if ready is not None:
            frame.pending = ready.value
            return ready
        frame.pending, cells = self.body.fill(frame.env, frame.shown)
        return self.place.expect(path, cells)

    def holds(self, frame: Frame, sent: Sent) -> bool | Unknown:
        """Say what to go on with: the computed value, or what was sent instead."""
        value = frame.pending if sent is None else usable(sent, _BOOL)
        return value if isinstance(value, bool) else UNKNOWN


@dataclass(frozen=True, slots=True)
class CheckStep:
    """Fail where a condition does not hold."""

    place: Place
    condition: Condition

    def expect(self, frame: Frame, path: str) -> Expected:
        """Give the line. Raises `EvaluationError` where the condition is false: it has no line then."""
        expected = self.condition.expect(frame, path)
        if frame.pending is False:
            working = self.condition.body.leaves[0].expression.working(frame.env, frame.shown)
            shown = "".join(part for part in working if isinstance(part, str))
            raise EvaluationError(f"the check does not hold: {shown}")
        return expected

    def take(self, frame: Frame, expected: Expected, sent: Sent) -> None:
        """Go on, whatever came."""


@dataclass(frozen=True, slots=True)
class ReturnStep:
    """End with an answer."""

    place: Place
    type: Type
    body: Body

    def expect(self, frame: Frame, path: str) -> Expected:
        """Give the line with the answer."""
        _, cells = self.body.fill(frame.env, frame.shown)
        return self.place.expect(path, cells, self.body.tail)

    def take(self, frame: Frame, expected: Expected, sent: Sent) -> Ending:  # noqa: ARG002
        """End."""
        value = expected.value if sent is None else usable(sent, self.type)
        return Ending(EndKind.RETURN, value=value, path=expected.path)


@dataclass(frozen=True, slots=True)
class RefuseStep:
    """End with a text for the client: a refusal, or that people must look at the case."""

    place: Place
    text: str
    end: EndKind

    def expect(self, frame: Frame, path: str) -> Expected:  # noqa: ARG002
        """Give the line."""
        cell = Cell((), "", None, self.text, spell(self.text, _STRING), _STRING)
        return self.place.expect(path, (cell,))

    def take(self, frame: Frame, expected: Expected, sent: Sent) -> Ending:  # noqa: ARG002
        """End."""
        return Ending(self.end, value=self.text, path=expected.path)


# --- blocks of lines -----------------------------------------------------------------------------


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
            raise Fault(path, str(reason)) from None
        written = [part for part in working if isinstance(part, str)]
        known = "".join(written) if len(written) == len(working) else None
        cell = Cell((), "", working, UNKNOWN if known is None else known, known, _STRING, bare=True)
        yield self.place.expect(path, (cell,))
        inner.steps = frame.steps
        ending = yield from self._inside(self.body.run(inner, f"{path}."))
        frame.steps = inner.steps
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
            return Frame(env, shown)
        kept = env if frame.shown is frame.env else shown
        return Frame(kept, kept)

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
            raise Fault(path, str(reason)) from None
        if items is UNKNOWN:
            yield self.place.expect(path, (Cell((), "", None, UNKNOWN, None, _INT),))
            return undetermined(path, self.place)
        if len(items) > self.bound:
            long = f"has {len(items)} items, the loop takes at most {self.bound}"
            raise Fault(path, f"{text(self.items.expr)} {long}")
        yield self.place.expect(path, (Cell((), "", None, len(items), str(len(items)), _INT),))
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
            if isinstance(step, _SIMPLE):
                path = prefix + step.place.suffix
                expected = due(step, frame, path)
                ending = step.take(frame, expected, (yield expected))
            else:
                ending = yield from step.run(frame, prefix)
            if ending is not None:
                return ending
        return None


# Most steps are assignments, and a union takes longer to be asked for than a tuple.
_SIMPLE: Final = (AssignStep, DecideStep, CheckStep, ReturnStep, RefuseStep)
Simple = AssignStep | DecideStep | CheckStep | ReturnStep | RefuseStep
Step = Simple | Compound

"""Compiled steps of one line: what each expects next, and what it does with the value that came.

Steps have no state; all of an execution's state is in its frame.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from guard.errors import InvalidState
from guard.procedure.cells import Body
from guard.procedure.evaluate import Compiled
from guard.procedure.expected import UNKNOWN, Cell, Decision, Ending, EndKind, Expected, Pick, Ready, Unknown
from guard.procedure.functions import EvaluationError
from guard.procedure.model import Quoting, StepKind
from guard.procedure.passes import Env, TooMuchError
from guard.procedure.plain import LEAST, MOST, TRUTH
from guard.procedure.text import text
from guard.procedure.types import NULL, BoolType, IntType, StringType, Type, Value
from guard.procedure.values import coerce, conforms, spell

Sent = Value | Unknown | Pick | None
Run = Generator[Expected, Sent, Ending | None]  # returns None where the procedure goes on behind it

NEXT: Final = Ending(EndKind.FAILED, reason="this alternative has failed")  # for the `one of` around
_INT = IntType()
_BOOL = BoolType()
_STRING = StringType()


class Frame:
    """The state of one execution: values by name, and the same as the trace shows them.

    `steps` is how many there were, of `most` that may be. What is counted beside them stands in `env`.
    """

    __slots__ = ("env", "most", "pending", "shown", "steps")

    def __init__(self, env: Env, shown: Env, *, most: int) -> None:
        self.env, self.shown, self.most = env, shown, most
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
        self,
        path: str,
        cells: tuple[Cell, ...],
        tail: str = "",
        decision: Decision | None = None,
        *,
        env: Env,
    ) -> Expected:
        """Give the line that must come here. `env` has the values that the trace shows."""
        return Expected(
            *(path, self.number, self.kind, self.label, self.target, self.head, cells, tail, decision),
            env=env,
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
        return Ready(path, self.number, kind, label, target, head, line, value, body, env)


class Fault(Exception):  # noqa: N818 (the procedure's, and no error of ours)
    """A procedure cannot go on at a step. `limited`: it has gone as far as an execution may.

    `plain` is the reason without values, as that of an `EvaluationError`.
    """

    def __init__(self, path: str, reason: str, *, limited: bool = False, plain: str = "") -> None:
        super().__init__(reason)
        self.path, self.limited, self.plain = path, limited, plain


def fault(path: str, reason: EvaluationError) -> Fault:
    """Make the fault of a step that could not be computed."""
    return Fault(path, str(reason), limited=isinstance(reason, TooMuchError), plain=reason.plain)


def _too_many(frame: Frame, path: str) -> Fault:
    return Fault(path, f"there are more than {frame.most:,} steps (limit `steps`)", limited=True)


def undetermined(path: str, place: Place) -> Ending:
    """Give the ending of an execution that hangs on what nobody has decided."""
    loop = place.kind in {StepKind.LOOP, StepKind.WHILE}
    what = "how often the loop runs" if loop else "where the procedure goes on"
    return Ending(EndKind.UNDETERMINED, path=path, reason=f"{what} hangs on a value that is not decided")


def count(frame: Frame, path: str) -> None:
    """Count a step that is about to come. Raises `Fault` where there have been too many."""
    frame.steps += 1
    if frame.steps > frame.most:
        raise _too_many(frame, path)


def due(step: Simple | Condition, frame: Frame, path: str) -> Expected:
    """Give the line that must come at a path. Raises `Fault` where there can be none."""
    frame.steps += 1  # as `count` does; this is where most steps come by
    if frame.steps > frame.most:
        raise _too_many(frame, path)
    try:
        return step.expect(frame, path)
    except EvaluationError as reason:
        raise fault(path, reason) from None


def usable(sent: Value | Unknown | Pick, type: Type) -> Value | Unknown:  # noqa: A002
    """Give a value to go on from: what was sent, UNKNOWN where that is of another kind than the step's."""
    value = None if isinstance(sent, Unknown | Pick) else coerce(sent, type)
    return UNKNOWN if value is None else value


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
        return self.place.expect(path, cells, self.body.tail, env=frame.shown)

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
    quote: Quoting | None
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
        return self.place.expect(path, (cell,), decision=decision, env=frame.shown)

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
        return self.place.expect(path, cells, env=frame.shown)

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
            plain = "the check does not hold"
            raise EvaluationError(f"{plain}: {shown}", plain=plain)
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
        return self.place.expect(path, cells, self.body.tail, env=frame.shown)

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

    def expect(self, frame: Frame, path: str) -> Expected:
        """Give the line."""
        cell = Cell((), "", None, self.text, spell(self.text, _STRING), _STRING)
        return self.place.expect(path, (cell,), env=frame.shown)

    def take(self, frame: Frame, expected: Expected, sent: Sent) -> Ending:  # noqa: ARG002
        """End."""
        return Ending(self.end, value=self.text, path=expected.path)


# Most steps are assignments, and a union takes longer to be asked for than a tuple.
SIMPLE: Final = (AssignStep, DecideStep, CheckStep, ReturnStep, RefuseStep)
Simple = AssignStep | DecideStep | CheckStep | ReturnStep | RefuseStep

"""The reference execution: a generator that yields the step that must come and is sent what came.

A procedure is compiled once into a tree of steps without state. Each execution has a frame of its own, so
a `Program` may be shared by any number of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from guard.errors import ConversationError, InvalidState, RequestError
from guard.procedure.blocks import Block
from guard.procedure.clock import with_time
from guard.procedure.expected import UNKNOWN, Decision, Ending, EndKind, Execution, Expected, Form, Unknown
from guard.procedure.listing import walk
from guard.procedure.model import (
    Do,
    Example,
    Extract,
    Judge,
    Module,
    Numbers,
    OneOf,
    Parameter,
    Procedure,
    StepKind,
)
from guard.procedure.nodes import Expr, ListOf, Literal, RecordOf
from guard.procedure.passes import CEILING, PASSES, Extent
from guard.procedure.steps import Fault, Frame
from guard.procedure.text import text
from guard.procedure.types import NULL, EnumType, OptionalType, Type, Value
from guard.procedure.values import from_json, wanted

_PASS: Final = re.compile(r"\[[0-9]+\]")
_TOOL_STEPS: Final = frozenset({StepKind.CALL, StepKind.CONFIRM, StepKind.SAY})

Constant = Literal | ListOf | RecordOf


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Program:
    """A compiled procedure: immutable, shared by all requests that are bound to it.

    `digest` is its identity: 16 hex digits that white space, comments and examples do not change.
    `numbered` is its text as the model sees it. `step_numbers` has the number of every step that has a
    line (all but `else`), with its kind, in the order of the text. `decisions` are the variables that the
    model decides, `sources` the inputs of type text. `zone` is that of the inputs `now` and `today` which a
    clock gives where a request does not; None where there are none.
    """

    name: str
    version: str | None
    digest: str
    parameters: tuple[Parameter, ...]
    result: Type
    numbers: Numbers
    numbered: str
    example: Example | None
    step_numbers: Mapping[str, StepKind]
    decisions: tuple[str, ...]
    sources: tuple[str, ...]
    procedure: Procedure
    types: Mapping[str, Type]  # of every variable
    runnable: Block | None  # None where there are tool steps
    callees: Mapping[str, Program]  # the procedures that its steps carry out
    members: Mapping[str, int]  # number of each statement in a group of any order -> which member it is
    module: Module
    form: Form  # of the trace
    zone: str | None
    compiled_for: Callable[..., Program]  # the same, with such callees, for a form, watched or not
    largest: int  # steps of the largest run that its text allows
    extent: Extent = CEILING  # how far an execution may go

    def in_form(self, form: Form) -> Program:
        """Give the same procedure, compiled for another form of the trace."""
        if form is self.form:
            return self
        callees = {name: callee.in_form(form) for name, callee in self.callees.items()}
        return self.compiled_for(callees, form)

    def within(self, extent: Extent) -> Program:
        """Give the same procedure, whose executions go no further than that."""
        return self if extent == self.extent else replace(self, extent=extent)

    @property
    def tool_steps(self) -> tuple[str, ...]:
        """The numbers of the steps that call tools, confirm or say; where there are any, it cannot be run."""
        return tuple(number for number, kind in self.step_numbers.items() if kind in _TOOL_STEPS)

    @property
    def block(self) -> Block:
        """The steps to be run. Raises `ConversationError`."""
        self.require_runnable()
        assert self.runnable is not None
        return self.runnable

    def require_runnable(self) -> None:
        """Raise `ConversationError` where steps of it use tools or speak."""
        if self.runnable is None:
            raise ConversationError(self.name, self.tool_steps)

    def accept(self, raw: Mapping[str, object], moment: datetime | None = None) -> dict[str, Value]:
        """Give the inputs that a request's JSON means; `moment` is the time for those that ask for it.

        Raises `RequestError` that lists every input that is missing, unknown or of the wrong type.
        """
        types = {parameter.name: parameter.type for parameter in self.parameters}
        raw = with_time(raw, types, self.zone, moment)
        missing = [
            (name, f"input {name!r} is missing: expected {wanted(type)}")
            for name, type in types.items()  # noqa: A001
            if name not in raw and name not in self.left_out
        ]
        return _accepted({**self.left_out, **raw}, types, "input", "stepguard.inputs", missing)

    @property
    def left_out(self) -> dict[str, Value]:
        """What the inputs are that a request may leave out: their defaults, or null."""
        return {
            one.name: NULL if one.default is None else one.default.value
            for one in self.parameters
            if one.default is not None or isinstance(one.type, OptionalType)
        }

    def decide(self, raw: Mapping[str, object]) -> dict[str, Value]:
        """Give the decisions that a piece of JSON means: by variable, or by path for a step in a loop.

        Raises `RequestError` that lists every one that is unknown or of the wrong type.
        """
        return _accepted(raw, self.decision_types, "decision", "decide", [])

    @property
    def decision_types(self) -> dict[str, Type]:
        """The type of each decision, by variable and by number; its own go before those of sub-procedures."""
        found: dict[str, Type] = {}
        own: dict[str, Type] = {}
        numbers: dict[str, Type] = {}
        for step in walk(self.procedure.body):
            match step:
                case Extract() | Judge():
                    own[step.target] = step.type
                    numbers[step.number] = step.type
                case OneOf():
                    kind = EnumType(tuple(way.name for way in step.alternatives))
                    numbers[step.number] = kind
                    own |= {step.label: kind} if step.label is not None else {}
                case Do():
                    inner = self.callees[step.procedure].decision_types
                    found |= {
                        f"{step.number}.{name}" if name[0].isdigit() else name: type_
                        for name, type_ in inner.items()
                    }
                case _:
                    pass
        return {**own, **numbers, **found, **own}

    def execute(self, inputs: Mapping[str, Value]) -> Execution:
        """Carry the procedure out on inputs as `accept` gives them."""
        env: dict[str, Value | Unknown] = dict(inputs)
        env[PASSES] = (self.extent.passes, self.extent.passes)
        frame = Frame(env, dict(env) if self.numbers.carry_exact else env, most=self.extent.steps)
        try:
            ending = yield from self.block.run(frame, "")
        except Fault as fault:
            return Ending(
                EndKind.FAILED, path=fault.path, reason=str(fault), limited=fault.limited, plain=fault.plain
            )
        if ending is None:
            raise InvalidState(f"procedure {self.name!r} came to its last step without an end")
        return ending

    def foresee(self, inputs: Mapping[str, Value]) -> Ending:
        """Carry the procedure out as far as it can be without the model, to know what is in the way."""
        execution = self.execute(inputs)
        sent: Unknown | None = None
        while True:
            try:
                expected = execution.send(sent)
            except StopIteration as stop:
                ending: Ending = stop.value
                return ending
            sent = UNKNOWN if expected.decision is not None else None

    @property
    def example_inputs(self) -> dict[str, Value] | None:
        """The inputs of the example, None where there is none. Raises `RequestError`, as `accept` does."""
        return None if self.example is None else self.accept(_constants(self.example.inputs))

    @property
    def example_decisions(self) -> dict[str, Value] | None:
        """The decisions of the example, None where there is none. Raises `RequestError`."""
        return None if self.example is None else self.decide(_constants(self.example.decisions))


def reference(
    program: Program, inputs: Mapping[str, Value], decisions: Mapping[str, Value]
) -> tuple[list[tuple[Expected, Value]], Ending]:
    """Execute a program to its end: each step with its value, and how it ended.

    `decisions` are by variable, or by path (`5[2].1`), which goes first. Raises `RequestError` naming a
    decision that is missing or may not stand.
    """
    steps: list[tuple[Expected, Value]] = []
    carried = carried_out(program, inputs, decisions)
    while True:
        try:
            steps.append(next(carried))
        except StopIteration as stop:
            ending: Ending = stop.value
            return steps, ending


def carried_out(
    program: Program, inputs: Mapping[str, Value], decisions: Mapping[str, Value]
) -> Generator[tuple[Expected, Value], None, Ending]:
    """Execute a program step by step, as `reference` does, which wants the decisions of all steps."""
    execution = program.execute(inputs)
    sent: Value | None = None
    while True:
        try:
            expected = execution.send(sent)
        except StopIteration as stop:
            ending: Ending = stop.value
            return ending
        sent = _decision(expected, decisions) if expected.decision is not None else None
        value = expected.value if sent is None else sent
        assert not isinstance(value, Unknown)
        yield expected, value


def _decision(expected: Expected, decisions: Mapping[str, Value]) -> Value:
    assert expected.decision is not None
    if expected.kind is StepKind.CHOICE:
        return _chosen(expected, expected.decision, decisions)
    value = decisions.get(expected.path, decisions.get(expected.target or ""))
    param = f"decide.{expected.target}"
    if value is None:
        raise RequestError(f"no decision for {expected.target!r} at step {expected.path}", param=param)
    reason = expected.decision.admissible(value)
    if reason is not None:
        raise RequestError(
            f"the decision for {expected.target!r} at step {expected.path} may not stand: expected {reason}",
            param=param,
        )
    return value


def _chosen(expected: Expected, decision: Decision, decisions: Mapping[str, Value]) -> Value:
    """Give the alternative that is to be tried: the first of those left where none is named."""
    value = decisions.get(expected.path, decisions.get(expected.label or ""))
    if value is not None and decision.admissible(value) is None:
        return value
    left = expected.cells[0].type
    assert isinstance(left, EnumType)
    return left.options[0]


def _accepted(
    raw: Mapping[str, object],
    types: Mapping[str, Type],
    what: str,
    param: str,
    problems: list[tuple[str, str]],
) -> dict[str, Value]:
    """Read values by name; `problems` are (name, message) pairs known already."""
    accepted: dict[str, Value] = {}
    for name, value in raw.items():
        type = types.get(_PASS.sub("", name))  # noqa: A001
        if type is None:
            known = f", known are {', '.join(map(repr, types))}" if types else ""
            problems.append((name, f"{what} {name[:60]!r} is unknown{known}"))
            continue
        try:
            accepted[name] = from_json(value, type)
        except ValueError as reason:
            problems.append((name, f"{what} {name!r}: {reason}"))
    if problems:
        message = "; ".join(message for _, message in problems)
        raise RequestError(message, param=f"{param}.{problems[0][0][:60]}")
    # In the order of the types, so that equal requests give equal mappings.
    return {name: accepted[name] for name in sorted(accepted, key=[*types, *accepted].index)}


def _constants(given: Mapping[str, Constant]) -> dict[str, object]:
    return {name: constant(expr) for name, expr in given.items()}


def constant(expr: Expr) -> object:
    """Give the data that a constant of an example stands for, as `from_json` takes it."""
    match expr:
        case Literal(value):
            return value
        case ListOf(items):
            return [constant(item) for item in items]
        case RecordOf(fields):
            return {name: constant(value) for name, value in fields}
        case _:
            raise InvalidState(f"an example has {text(expr)!r}, which is no constant")

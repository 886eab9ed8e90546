"""The reference execution: a generator that yields the step that must come and is sent what came.

A procedure is compiled once into a tree of steps without state. Each execution has a frame of its own, so
a `Program` may be shared by any number of them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from guard.errors import ConversationError, InvalidState, RequestError
from guard.procedure.alternatives import OneOfStep
from guard.procedure.bindings import known_in
from guard.procedure.cells import Rule, argument, body
from guard.procedure.clock import with_time, zone_of
from guard.procedure.evaluate import call_shown, compiled
from guard.procedure.expected import Decision, Ending, EndKind, Execution, Expected, Form, Unknown
from guard.procedure.expression import Scope
from guard.procedure.groups import GroupStep, members
from guard.procedure.listing import canonical, is_conversation, listing, statement, walk
from guard.procedure.model import (
    AnyOrder,
    Assign,
    Branch,
    Check,
    Confirm,
    Deny,
    Do,
    End,
    Escalate,
    Example,
    Extract,
    For,
    If,
    Invoke,
    Judge,
    Module,
    Next,
    Numbers,
    OneOf,
    Parameter,
    Procedure,
    Require,
    Return,
    Say,
    Step,
    StepKind,
    ToolStep,
    While,
)
from guard.procedure.nodes import Expr, FieldOf, ListOf, Literal, Name, RecordOf
from guard.procedure.presence import NOTHING, Paths
from guard.procedure.steps import (
    AssignStep,
    Block,
    BranchStep,
    CheckStep,
    Condition,
    DecideStep,
    DoStep,
    Fault,
    Frame,
    LoopStep,
    Place,
    RefuseStep,
    RequireStep,
    ReturnStep,
    WhileStep,
)
from guard.procedure.steps import Step as Compiled
from guard.procedure.text import text
from guard.procedure.types import NULL, BoolType, EnumType, ListType, OptionalType, TextType, Type, Value
from guard.procedure.units import bare, bare_table
from guard.procedure.values import from_json, wanted

_PASS: Final = re.compile(r"\[[0-9]+\]")
_BOOL: Final = BoolType()

Constant = Literal | ListOf | RecordOf


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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

    def in_form(self, form: Form) -> Program:
        """Give the same procedure, compiled for another form of the trace."""
        if form is self.form:
            return self
        callees = {name: callee.in_form(form) for name, callee in self.callees.items()}
        return compile_program(self.module, self.procedure, self.types, callees, form)

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
        frame = Frame(env, dict(env) if self.numbers.carry_exact else env)
        try:
            ending = yield from self.block.run(frame, "")
        except Fault as fault:
            return Ending(EndKind.FAILED, path=fault.path, reason=str(fault))
        if ending is None:
            raise InvalidState(f"procedure {self.name!r} came to its last step without an end")
        return ending

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
    execution = program.execute(inputs)
    steps: list[tuple[Expected, Value]] = []
    sent: Value | None = None
    while True:
        try:
            expected = execution.send(sent)
        except StopIteration as stop:
            ending: Ending = stop.value
            return steps, ending
        sent = _decision(expected, decisions) if expected.decision is not None else None
        value = expected.value if sent is None else sent
        assert not isinstance(value, Unknown)
        steps.append((expected, value))


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


# --- compiling -----------------------------------------------------------------------------------


def compile_program(
    module: Module,
    procedure: Procedure,
    types: Mapping[str, Type],
    callees: Mapping[str, Program] | None = None,
    form: Form = Form.WORK,
) -> Program:
    """Compile a procedure that has been found valid; `types` has the type of each of its variables.

    `callees` are the procedures that its steps carry out, compiled before for the same form of the trace.
    """
    callees = callees or {}
    variables = {parameter.name: parameter.type for parameter in procedure.parameters} | dict(types)
    # Units have been settled: what is computed and written is numbers by themselves.
    plain = {name: bare(type) for name, type in variables.items()}  # noqa: A001
    tables = {name: bare_table(table) for name, table in module.tables.items()}
    scope = Scope(plain, tables, module.numbers)
    known = known_in(procedure, replace(scope, procedures=module.procedures, tools=module.tools))
    compiler = _Compiler(scope, bare(procedure.result), _limits(procedure), callees, form, known)
    steps = list(walk(procedure.body))
    return Program(
        name=procedure.name,
        version=module.version,
        digest=hashlib.sha256(canonical(module, procedure).encode()).hexdigest()[:16],
        parameters=procedure.parameters,
        result=procedure.result,
        numbers=module.numbers,
        numbered=listing(module, procedure),
        example=module.examples.get(procedure.name),
        step_numbers=dict(_numbered(steps, callees)),
        decisions=tuple(dict.fromkeys(_decided(steps, callees))),
        sources=tuple(p.name for p in procedure.parameters if isinstance(p.type, TextType)),
        procedure=procedure,
        types=variables,
        runnable=None if is_conversation(procedure, module) else compiler.block(procedure.body, ""),
        callees=callees,
        members=dict(_grouped(steps, callees)),
        module=module,
        form=form,
        zone=zone_of(procedure, module),
    )


KINDS: Final[Mapping[type, StepKind]] = {
    Assign: StepKind.ASSIGN,
    Do: StepKind.DO,
    Invoke: StepKind.CALL,
    Confirm: StepKind.CONFIRM,
    Say: StepKind.SAY,
    Extract: StepKind.EXTRACT,
    Judge: StepKind.JUDGE,
    Branch: StepKind.BRANCH,
    For: StepKind.LOOP,
    While: StepKind.WHILE,
    OneOf: StepKind.CHOICE,
    Require: StepKind.REQUIRE,
    Check: StepKind.CHECK,
    Return: StepKind.RETURN,
    Deny: StepKind.DENY,
    Escalate: StepKind.ESCALATE,
}

_TOOL_STEPS: Final = frozenset({StepKind.CALL, StepKind.CONFIRM, StepKind.SAY})

Numbered = Assign | Do | Extract | Judge | Branch | For | While | OneOf | Require | Check | ToolStep | End


def _numbered(steps: Iterable[Step], callees: Mapping[str, Program]) -> Iterator[tuple[str, StepKind]]:
    for step in steps:
        if isinstance(step, If):
            yield from ((arm.number, KINDS[Branch]) for arm in step.branches if arm.condition is not None)
        elif not isinstance(step, AnyOrder):  # which has no line
            yield step.number, KINDS[type(step)]
        if isinstance(step, Do):
            for number, kind in callees[step.procedure].step_numbers.items():
                yield f"{step.number}.{number}", StepKind.RESULT if kind is StepKind.RETURN else kind


def _grouped(steps: Iterable[Step], callees: Mapping[str, Program]) -> Iterator[tuple[str, int]]:
    for step in steps:
        if isinstance(step, AnyOrder):
            yield from members(step)
        elif isinstance(step, Do):
            for number, index in callees[step.procedure].members.items():
                yield f"{step.number}.{number}", index


def _decided(steps: Iterable[Step], callees: Mapping[str, Program]) -> Iterator[str]:
    for step in steps:
        match step:
            case Extract(target=target) | Judge(target=target):
                yield target
            case Do(procedure=name):
                yield from callees[name].decisions
            case _:
                pass


def head(step: Numbered) -> str:
    """Give the head of a step's line: what stands between its number and its working or value."""
    match step:
        case Assign(target=target) | Extract(target=target) | Judge(target=target):
            return f"{target} ="
        case Do(target=target):
            return f"{target} = do"
        case Invoke(target=target):
            return f"{target} = call" if target else "call"
        case For():
            return f"{statement(step)} ="
        case Branch(keyword=keyword):
            return keyword
        case OneOf():
            return "try"
        case _:
            return KINDS[type(step)].value


def _limits(procedure: Procedure) -> dict[str, tuple[tuple[tuple[str, ...], int], ...]]:
    """Find the bounds that loops set to lists in variables which the model decides and nothing else sets.

    By variable: the fields that lead to a list, and how many items it may have.
    """
    steps = list(walk(procedure.body))
    targets = [step.target for step in steps if isinstance(step, Assign | Do | Invoke | Extract | Judge)]
    decided = {step.target for step in steps if isinstance(step, Extract | Judge)}
    found: dict[str, dict[tuple[str, ...], int]] = {}
    for step in steps:
        root, fields = _path(step.items) if isinstance(step, For) else (None, ())
        if isinstance(step, For) and root in decided and targets.count(root) == 1:
            limits = found.setdefault(root, {})
            limits[fields] = min(step.bound, limits.get(fields, step.bound))
    return {target: tuple(limits.items()) for target, limits in found.items()}


def _path(expr: Expr) -> tuple[str | None, tuple[str, ...]]:
    match expr:
        case Name(name):
            return name, ()
        case FieldOf(record, name):
            root, fields = _path(record)
            return root, (*fields, name)
        case _:
            return None, ()


@dataclass(frozen=True, slots=True)
class _Compiler:
    scope: Scope
    result: Type
    limits: Mapping[str, tuple[tuple[tuple[str, ...], int], ...]]
    callees: Mapping[str, Program]
    form: Form
    known: Mapping[str, Paths]  # in front of each step: what is not null there

    def block(self, steps: Iterable[Step], base: str) -> Block:
        """Compile a block; `base` is the number of the loop around it with a dot, or ""."""
        return Block(tuple(self.step(step, base) for step in steps))

    def step(self, step: Step, base: str) -> Compiled:
        if not isinstance(step, If) and self.scope.present != self._known(step.number):
            return self._where(step.number).step(step, base)
        match step:
            case Assign():
                return self._assign(step, base)
            case Do():
                return self._do(step, base)
            case Extract() | Judge():
                return self._decide(step, base)
            case If(branches=branches):
                return BranchStep(tuple(self._where(arm.number)._arm(arm, base) for arm in branches))  # noqa: SLF001 (its own kind)
            case For():
                return self._loop(step, base)
            case While(condition=condition, body=steps):
                test = self._condition(step, condition, base)
                return WhileStep(test, step.bound, self.block(steps, f"{step.number}."))
            case AnyOrder(body=steps):
                return GroupStep(tuple(self.block((member,), base) for member in steps))
            case OneOf():
                return self._one_of(step, base)
            case Require(condition=condition, otherwise=otherwise):
                end = None
                if not isinstance(otherwise, Next):
                    end = self._where(otherwise.number)._end(otherwise, base)  # noqa: SLF001 (its own kind)
                return RequireStep(self._condition(step, condition, base), end)
            case Check(condition=condition):
                inner = self._condition(step, condition, base)
                return CheckStep(inner.place, inner)
            case Return() | Deny() | Escalate():
                return self._end(step, base)
            case Invoke() | Confirm() | Say():
                raise InvalidState(f"step {step.number} was to be compiled, and steps like it are not run")

    def _known(self, number: str) -> Paths:
        return self.known.get(number, NOTHING)

    def _where(self, number: str) -> _Compiler:
        """Give the compiler for a step: what is known to be there differs between them."""
        return replace(self, scope=self.scope.knowing(self._known(number)))

    def _assign(self, step: Assign, base: str) -> AssignStep:
        type = self.scope.variables[step.target]  # noqa: A001
        assert type is not None
        right = body(step.expression, type, self.scope, self.form, Rule(step.places, step.rounding))
        return AssignStep(_place(step, base), step.target, type, right)

    def _do(self, step: Do, base: str) -> DoStep:
        callee = self.callees[step.procedure]
        given = list(zip(callee.parameters, step.arguments, strict=True))
        return DoStep(
            place=_place(step, base),
            target=step.target,
            type=bare(callee.result),
            shown=call_shown(callee.name, [compiled(expr, self.scope) for expr in step.arguments]),
            inputs=tuple((one.name, argument(expr, bare(one.type), self.scope)) for one, expr in given),
            body=callee.block,
            exact=callee.numbers.carry_exact,
        )

    def _decide(self, step: Extract | Judge, base: str) -> DecideStep:
        return DecideStep(
            place=_place(step, base),
            target=step.target,
            type=step.type,
            sources=step.sources,
            quote=step.quote,
            where=None
            if step.where is None
            else compiled(step.where, self.scope.bind(step.target, bare(step.type))),
            limits=self.limits.get(step.target, ()),
        )

    def _condition(self, step: Branch | While | Require | Check, condition: Expr, base: str) -> Condition:
        return Condition(_place(step, base), body(condition, _BOOL, self.scope, self.form))

    def _arm(self, branch: Branch, base: str) -> tuple[Condition | None, Block]:
        condition = None if branch.condition is None else self._condition(branch, branch.condition, base)
        return condition, self.block(branch.body, base)

    def _loop(self, step: For, base: str) -> LoopStep:
        items = compiled(step.items, self.scope)
        assert isinstance(items.type, ListType)
        inner = replace(self, scope=self.scope.bind(step.variable, items.type.item))
        return LoopStep(
            place=_place(step, base),
            variable=step.variable,
            items=items,
            named=items.single,
            bound=step.bound,
            body=inner.block(step.body, f"{step.number}."),
        )

    def _one_of(self, step: OneOf, base: str) -> OneOfStep:
        return OneOfStep(
            place=_place(step, base),
            ways={way.name: self.block(way.body, f"{step.number}.") for way in step.alternatives},
            attempts=step.attempts,
            otherwise=None if step.otherwise is None else self.block(step.otherwise.body, base),
        )

    def _end(self, step: End, base: str) -> ReturnStep | RefuseStep:
        match step:
            case Return(expression=expression):
                right = body(expression, self.result, self.scope, self.form)
                return ReturnStep(_place(step, base), self.result, right)
            case Deny(text=message):
                return RefuseStep(_place(step, base), message, EndKind.DENY)
            case Escalate(text=message):
                return RefuseStep(_place(step, base), message, EndKind.ESCALATE)


def _place(step: Numbered, base: str) -> Place:
    return Place(
        number=step.number,
        suffix=step.number.removeprefix(base),
        kind=KINDS[type(step)],
        head=head(step),
        label=step.label,
        target=step.target if isinstance(step, Assign | Do | Extract | Judge) else None,
    )

"""From the model of a procedure to its program: steps without state, once and for all requests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from guard.errors import InvalidState
from guard.procedure.alternatives import OneOfStep
from guard.procedure.bindings import known_in
from guard.procedure.blocks import Block, BranchStep, DoStep, LoopStep, RequireStep, WhileStep
from guard.procedure.blocks import Step as Compiled
from guard.procedure.cells import Body, Rule, Watch, argument, body
from guard.procedure.clock import zone_of
from guard.procedure.evaluate import call_shown, compiled
from guard.procedure.execute import Program
from guard.procedure.expected import EndKind, Form
from guard.procedure.groups import GroupStep, members
from guard.procedure.largest import largest_run
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
    Extract,
    For,
    If,
    Invoke,
    Judge,
    Module,
    Next,
    OneOf,
    Procedure,
    Require,
    Return,
    Say,
    Step,
    StepKind,
    ToolStep,
    While,
)
from guard.procedure.nodes import Expr, FieldOf, Name
from guard.procedure.presence import NOTHING, Paths
from guard.procedure.scope import Scope
from guard.procedure.steps import AssignStep, CheckStep, Condition, DecideStep, Place, RefuseStep, ReturnStep
from guard.procedure.types import BoolType, ListType, TextType, Type
from guard.procedure.units import bare, bare_table

_BOOL: Final = BoolType()


def compile_program(
    module: Module,
    procedure: Procedure,
    types: Mapping[str, Type],
    callees: Mapping[str, Program] | None = None,
    form: Form = Form.WORK,
    *,
    watch: Watch | None = None,
) -> Program:
    """Compile a procedure that has been found valid; `types` has the type of each of its variables.

    `callees` are the procedures that its steps carry out, compiled before for the same form of the trace.
    `watch` is told the values that it computes, before they are rounded.
    """
    callees = callees or {}
    variables = {parameter.name: parameter.type for parameter in procedure.parameters} | dict(types)
    # Units have been settled: what is computed and written is numbers by themselves.
    plain = {name: bare(type) for name, type in variables.items()}  # noqa: A001
    tables = {name: bare_table(table) for name, table in module.tables.items()}
    scope = Scope(plain, tables, module.numbers)
    known = known_in(procedure, replace(scope, procedures=module.procedures, tools=module.tools))
    compiler = _Compiler(scope, bare(procedure.result), _limits(procedure), callees, form, known, watch)
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
        compiled_for=partial(compile_program, module, procedure, types),
        largest=largest_run(procedure.body, {name: callee.largest for name, callee in callees.items()}),
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
    watch: Watch | None = None

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
        return AssignStep(_place(step, base), step.target, type, self._body(step, type))

    def _body(self, step: Assign | Return, type: Type) -> Body:  # noqa: A002
        right = body(step.expression, type, self.scope, self.form, Rule(step.places, step.rounding))
        return right if self.watch is None else right.watched(self.watch, step.number)

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
            case Return():
                return ReturnStep(_place(step, base), self.result, self._body(step, self.result))
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

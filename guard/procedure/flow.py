"""The order of a procedure's steps: what has a value where, what is used, and where its ways end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from guard.procedure.alternatives import check_alternatives
from guard.procedure.bindings import given_name, target_span
from guard.procedure.faults import Faults, suggestion
from guard.procedure.groups import check_group
from guard.procedure.listing import expressions, walk
from guard.procedure.model import (
    Alternative,
    AnyOrder,
    Assign,
    Branch,
    Confirm,
    Deny,
    Do,
    Escalate,
    Extract,
    For,
    If,
    Invoke,
    Judge,
    Next,
    OneOf,
    Procedure,
    Require,
    Return,
    Step,
    While,
)
from guard.procedure.nodes import Aggregate, Expr, names, parts
from guard.procedure.types import TextType
from guard.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from guard.procedure.scope import Scope

Bound = frozenset[str]


def check_flow(procedure: Procedure, scope: Scope, faults: Faults) -> None:
    """Report names without a value, values without use, steps that are never reached, ways without an end."""
    flow = _Flow(procedure, scope, faults)
    ended, _ = flow.block(procedure.body, frozenset(flow.inputs))
    if not ended:
        flow.open_end(procedure.body)
    flow.unused()


@dataclass(slots=True)
class _Flow:
    procedure: Procedure
    scope: Scope
    faults: Faults
    loops: list[str] = field(default_factory=list)  # the items of the loops around
    tries: int = 0  # how many alternatives are around
    used: set[str] = field(default_factory=set)
    givers: dict[str, list[Step]] = field(default_factory=dict)  # the steps that give each name a value

    def __post_init__(self) -> None:
        for step in walk(self.procedure.body):
            name = given_name(step)
            if name is not None:
                self.givers.setdefault(name, []).append(step)

    @property
    def inputs(self) -> set[str]:
        return {parameter.name for parameter in self.procedure.parameters}

    def block(self, steps: Iterable[Step], bound: Bound) -> tuple[bool, Bound]:
        """Go through steps; whether every way through them ends, and what has a value behind them."""
        ended = False
        for step in steps:
            if ended:
                self.faults(step.at, "this step is never reached", "leave it out, or move it above the end")
                break
            ended, bound = self._step(step, bound)
        return ended, bound

    def _step(self, step: Step, bound: Bound) -> tuple[bool, Bound]:
        match step:
            case If():
                return self._if(step, bound)
            case For():
                return self._for(step, bound)
            case While():
                return self._while(step, bound)
            case AnyOrder():
                return self._any_order(step, bound)
            case OneOf():
                return self._one_of(step, bound)
            case Extract() | Judge():
                self._sources(step, bound)
                bound = self._bind(step, step.target, bound)
                self._expressions(step, bound)
                return False, bound
            case Assign() | Do():
                self._expressions(step, bound)
                return False, self._bind(step, step.target, bound)
            case Invoke(target=name):
                self._expressions(step, bound)
                return False, bound if name is None else self._bind(step, name, bound)
            case Require(otherwise=end) | Confirm(otherwise=end):
                self._expressions(step, bound)
                if not isinstance(end, Next):
                    self._expressions(end, bound)
                elif not self.tries:
                    self.faults(
                        step.at,
                        "next goes on to another alternative, and this step is in none",
                        'write else deny "...", or put it below a try of one of',
                    )
                return False, bound
            case _:
                self._expressions(step, bound)
                return isinstance(step, Return | Deny | Escalate), bound

    def _if(self, step: If, bound: Bound) -> tuple[bool, Bound]:
        ways: list[Bound] = []
        for branch in step.branches:
            if branch.condition is not None:
                self._expression(branch.condition, bound)
            ended, behind = self.block(branch.body, bound)
            if not ended:
                ways.append(behind)
        if step.branches[-1].condition is not None:
            ways.append(bound)
        return not ways, frozenset.intersection(*ways) if ways else bound

    def _for(self, step: For, bound: Bound) -> tuple[bool, Bound]:
        self._expression(step.items, bound)
        inner = self._bind(step, step.variable, bound)
        self.loops.append(step.variable)
        self.block(step.body, inner)
        self.loops.pop()
        return False, bound  # there may be no pass at all

    def _while(self, step: While, bound: Bound) -> tuple[bool, Bound]:
        self._expression(step.condition, bound)
        self.block(step.body, bound)
        told = {name.name for name in names(step.condition)}
        inner = list(walk(step.body))
        leaves = any(isinstance(part, Return | Deny | Escalate | Require | Confirm) for part in inner)
        if not leaves and not told & {given_name(part) for part in inner}:
            self.faults(
                step.condition.at,
                "nothing in this loop changes what its condition says, so it never ends",
                "give a name of the condition another value in a step below it",
            )
        return False, bound  # there may be no pass at all

    def _any_order(self, step: AnyOrder, bound: Bound) -> tuple[bool, Bound]:
        told = check_group(step, self.scope.procedures, self.faults)
        for member in step.body:
            _, behind = self._step(member, bound | told)
            bound |= behind - told
        return False, bound | told

    def _one_of(self, step: OneOf, bound: Bound) -> tuple[bool, Bound]:
        check_alternatives(step, self.faults)
        self.tries += 1
        blocks = [self.block(way.body, bound) for way in step.alternatives]
        self.tries -= 1
        if step.otherwise is not None:
            blocks.append(self.block(step.otherwise.body, bound))
        ways = [behind for ended, behind in blocks if not ended]
        return not ways, frozenset.intersection(*ways) if ways else bound

    def _bind(self, step: Step, name: str, bound: Bound) -> Bound:
        at = target_span(self.faults.source.text, step.at, name)
        if name in self.inputs:
            self.faults(
                at, f"{name!r} is an input and keeps its value", f"take another name, such as {name}_1"
            )
        elif name in self.loops:
            self.faults(
                at, f"{name!r} is the item of the loop around", f"take another name, such as {name}_1"
            )
        elif isinstance(step, For) and name in bound:
            self.faults(
                at,
                f"the loop's item {name!r} hides the value of that name",
                f"take another name, such as {name}_1",
            )
        return bound | {name}

    # --- uses -------------------------------------------------------------------------------------

    def _expressions(self, step: Step, bound: Bound) -> None:
        for expression in expressions(step):
            self._expression(expression, bound)

    def _expression(self, expression: Expr, bound: Bound) -> None:
        for name in names(expression):
            self._use(name.name, name.at, bound)
        for aggregate in _aggregates(expression):
            if aggregate.variable in bound:
                self.faults(
                    aggregate.at,
                    f"the item {aggregate.variable!r} hides the value of that name",
                    f"take another name for the item, such as {aggregate.variable}_1",
                )

    def _use(self, name: str, at: Span, bound: Bound) -> None:
        self.used.add(name)
        if name in bound:
            return
        if steps := self.givers.get(name):
            self._unbound(name, at, steps)

    def _unbound(self, name: str, at: Span, steps: list[Step]) -> None:
        if all(isinstance(step, For) for step in steps):
            line, _ = self.faults.source.position(steps[0].at.start)
            self.faults(
                at,
                f"{name!r} has a value only in the loop of line {line}",
                "use it in the steps of that loop",
            )
            return
        lines = [self.faults.source.position(step.at.start)[0] for step in steps]
        here, _ = self.faults.source.position(at.start)
        if all(line >= here for line in lines):
            message = f"{name!r} has no value yet; it is given one in line {lines[0]}"
        else:
            earlier = [line for line in lines if line < here]
            message = f"{name!r} may have no value here: line {earlier[-1]} is not always carried out"
        self.faults(at, message, f"give it a value before, such as {name} = 0")

    def _sources(self, step: Extract | Judge, bound: Bound) -> None:
        variables = self.scope.variables
        for name in step.sources:
            at = _source_span(self.faults.source.text, step.at, name)
            if name not in variables:
                texts = [known for known, type_ in variables.items() if isinstance(type_, TextType)]
                self.faults(at, f"unknown name {name!r}", suggestion(name, texts or variables))
            else:
                self._use(name, at, bound)

    def unused(self) -> None:
        """Warn of values that nothing uses."""
        for parameter in self.procedure.parameters:
            if parameter.name not in self.used and not parameter.name.startswith("_"):
                self.faults.warning(
                    parameter.at, f"the input {parameter.name!r} is never used", "leave it out"
                )
        seen: set[str] = set()
        for step in walk(self.procedure.body):
            match step:
                case Assign(target=name) | Do(target=name) | Extract(target=name) | Judge(target=name):
                    if name not in self.used | seen and not name.startswith("_"):
                        at = target_span(self.faults.source.text, step.at, name)
                        self.faults.warning(at, f"the value {name!r} is never used", "leave the step out")
                    seen.add(name)
                case Invoke(target=str(name), tool=tool):
                    if name not in self.used | seen and not name.startswith("_"):
                        at = target_span(self.faults.source.text, step.at, name)
                        self.faults.warning(
                            at, f"the result {name!r} is never used", f"write call {tool}(...) without a name"
                        )
                    seen.add(name)
                case _:
                    pass

    # --- ends -------------------------------------------------------------------------------------

    def open_end(self, steps: tuple[Step, ...]) -> None:
        """Report where a procedure may run out of steps without an end."""
        last = steps[-1]
        if isinstance(last, If):
            for branch in last.branches:
                if not _ends(branch.body):
                    self.faults(
                        branch.at,
                        f"the procedure has no end where this {branch.keyword} is carried out",
                        "end it with return or deny, or write a return below, indented like the if",
                    )
                    return
            self.faults(
                last.at,
                "the procedure has no end where none of these conditions holds",
                "add else with a return or deny, or write a return below",
            )
            return
        if isinstance(last, OneOf):
            ways: list[Alternative | Branch] = [*last.alternatives]
            ways += [last.otherwise] if last.otherwise is not None else []
            way = next(way for way in ways if not _ends(way.body))
            self.faults(
                way.at,
                "the procedure has no end where this is carried out",
                "end it with return or deny, or write a return below, indented like the one of",
            )
            return
        self.faults(
            last.at,
            "the procedure has no end: behind this step nothing follows",
            "add a return below it, such as return net",
        )


def _ends(steps: tuple[Step, ...]) -> bool:
    match steps[-1]:
        case Return() | Deny() | Escalate():
            return True
        case If(branches=branches):
            return branches[-1].condition is None and all(_ends(branch.body) for branch in branches)
        case OneOf(alternatives=ways, otherwise=otherwise):
            return all(_ends(way.body) for way in ways) and (otherwise is None or _ends(otherwise.body))
        case _:
            return False


def _aggregates(expression: Expr) -> Iterable[Aggregate]:
    if isinstance(expression, Aggregate):
        yield expression
    for part in parts(expression):
        yield from _aggregates(part)


def _source_span(text: str, at: Span, name: str) -> Span:
    """Find a source of a step: they stand behind the last `from` of its head."""
    start = text.rfind("from", at.start, at.end)
    return target_span(text, Span(max(start, at.start) + len("from"), at.end), name)

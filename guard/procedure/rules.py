"""Whether the rules of `always` hold on every way through a procedure, as far as its text shows.

A procedure is followed along all its ways at once, with those that it carries out in their place. What is
known to have happened on *every* way (a confirmation that still holds, a call that had to come before)
is cut down where ways meet; what may have happened on *some* way (a call that forbids another) adds up.
So a rule that is not reported holds in every run; one that is reported may hold for reasons that only
the values show.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from guard.procedure.bindings import given_name
from guard.procedure.callees import STEPS
from guard.procedure.listing import reached, rule_text, walk
from guard.procedure.model import (
    Always,
    AnyOrder,
    Confirm,
    Demand,
    Deny,
    Do,
    Escalate,
    For,
    If,
    Invoke,
    Module,
    OneOf,
    Procedure,
    Return,
    Step,
    While,
)
from guard.procedure.nodes import names
from guard.procedure.text import text

if TYPE_CHECKING:
    from guard.procedure.faults import Faults
    from guard.procedure.nodes import Expr, Name

_BUDGET: Final = 4 * STEPS  # steps looked at for one procedure; one that has more is refused elsewhere


def check_rules(module: Module, procedures: Iterable[Procedure], faults: Faults) -> None:
    """Report calls in procedures of a module that may break a rule of it."""
    if module.rules:
        reported: set[tuple[int, int]] = set()
        # Those that others carry out come first: what is said of them is not said of the others again.
        for procedure in sorted(procedures, key=lambda one: len(reached(one, module))):
            _Ways(module, faults, reported).follow(procedure)


@dataclass(frozen=True, slots=True)
class _Agreed:
    """A call that the user has agreed to: the tool, its arguments as written, the names in them."""

    tool: str
    arguments: tuple[str, ...]
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class _State:
    """What has happened when a step is reached: `met` are the rules whose earlier call has come."""

    agreed: frozenset[_Agreed] = frozenset()  # on every way
    met: frozenset[int] = frozenset()  # on every way
    called: frozenset[str] = frozenset()  # on some way


def _meet(states: Iterable[_State | None]) -> _State | None:
    """Join ways; None is a way that has ended."""
    joined: _State | None = None
    for state in states:
        if state is not None and joined is not None:
            joined = _State(
                joined.agreed & state.agreed, joined.met & state.met, joined.called | state.called
            )
        else:
            joined = state or joined
    return joined


@dataclass(slots=True)
class _Ways:
    module: Module
    faults: Faults
    reported: set[tuple[int, int]]  # (step, rule): said already, of this procedure or of one within it
    around: list[Do] = field(default_factory=list)  # the steps that carry out what is followed
    inside: list[str] = field(default_factory=list)  # the procedures that are followed, one in the other
    returned: list[_State] = field(default_factory=list)  # where the innermost of them returns
    budget: int = _BUDGET

    def follow(self, procedure: Procedure) -> None:
        self.inside.append(procedure.name)
        self._block(procedure.body, _State())

    def _block(self, steps: Iterable[Step], state: _State | None) -> _State | None:
        for step in steps:
            self.budget -= 1
            if state is None or self.budget < 0:
                break
            state = self._step(step, state)
        return state

    def _step(self, step: Step, state: _State) -> _State | None:
        match step:
            case If(branches=branches):
                ways = [self._block(branch.body, state) for branch in branches]
                return _meet([*ways, state if branches[-1].condition is not None else None])
            case For() | While():
                return _meet([state, self._block(step.body, self._again(step, state))])
            case AnyOrder(body=members):
                return self._any_order(members, state)
            case OneOf():
                return self._one_of(step, state)
            case Invoke():
                return _forget(self._call(step, state), given_name(step))
            case Confirm(tool=tool, arguments=arguments):
                return replace(state, agreed=state.agreed | {_agreed(tool, arguments)})
            case Do():
                return _forget(self._do(step, state), step.target)
            case Return():
                self.returned.append(state)
                return None
            case Deny() | Escalate():
                return None
            case _:
                return _forget(state, given_name(step))

    def _again(self, loop: For | While, state: _State) -> _State:
        """Give what is known at the start of any pass: what no pass can have undone."""
        return self._amid(_forget(state, given_name(loop)) or state, walk(loop.body))

    def _amid(self, state: _State, steps: Iterable[Step]) -> _State:
        """Give what is known where some of these steps may have come, and some not."""
        inner = list(steps)
        agreed = frozenset(one for one in state.agreed if not _undone(one, inner))
        return _State(agreed, state.met, state.called | self._tools(inner))

    def _any_order(self, members: tuple[Step, ...], state: _State) -> _State:
        """Follow members each of which may come first, and last."""
        before, behind = [], []
        for member in members:
            others = [step for other in members if other is not member for step in walk([other])]
            before.append(self._amid(state, others))
            behind.append(self._block((member,), before[-1]) or before[-1])
        kept = {
            one
            for one in frozenset[_Agreed]().union(*(each.agreed for each in behind))
            if all(
                one in end.agreed or (one not in start.agreed and not _undone(one, list(walk([member]))))
                for member, start, end in zip(members, before, behind, strict=True)
            )
        }
        met = frozenset[int]().union(*(each.met for each in behind))
        called = frozenset[str]().union(*(each.called for each in behind))
        return _State(frozenset(kept), met, called)

    def _one_of(self, step: OneOf, state: _State) -> _State | None:
        """Follow ways each of which may come behind parts of others that failed."""
        start = self._amid(state, (inner for way in step.alternatives for inner in walk(way.body)))
        blocks = [way.body for way in step.alternatives]
        blocks += [] if step.otherwise is None else [step.otherwise.body]
        return _meet([self._block(block, start) for block in blocks])

    def _tools(self, steps: Iterable[Step]) -> frozenset[str]:
        found: set[str] = set()
        for step in steps:
            if isinstance(step, Invoke):
                found.add(step.tool)
            elif isinstance(step, Do) and step.procedure in self.module.procedures:
                found |= _carried(self.module.procedures[step.procedure], self.module)
        return frozenset(found)

    def _do(self, step: Do, state: _State) -> _State | None:
        """Follow a procedure that is carried out: it sees none of the names, and no confirmation of them."""
        callee = self.module.procedures.get(step.procedure)
        if callee is None or callee.name in self.inside:
            return state
        self.around.append(step)
        self.inside.append(callee.name)
        before, self.returned = self.returned, []
        self._block(callee.body, replace(state, agreed=frozenset()))
        behind, self.returned = _meet(self.returned), before
        self.inside.pop()
        self.around.pop()
        return None if behind is None else replace(behind, agreed=state.agreed)

    # --- calls ------------------------------------------------------------------------------------

    def _call(self, step: Invoke, state: _State) -> _State:
        agreed = _agreed(step.tool, step.arguments)
        met = set(state.met)
        for index, rule in enumerate(self.module.rules):
            first = self._stands(rule.first, step.tool)
            if self._stands(rule.then, step.tool):
                self._hold(rule, index, step, state)
            if rule.demand is Demand.BEFORE and first:
                met.add(index)
        return _State(state.agreed - {agreed}, frozenset(met), state.called | {step.tool})

    def _stands(self, tools: Iterable[Name], tool: str) -> bool:
        """Whether a tool is among some that a rule names."""
        known = self.module.tools.get(tool)
        return any(one.name == tool or (known and one.name == known.effect) for one in tools)

    def _hold(self, rule: Always, index: int, step: Invoke, state: _State) -> None:
        """Report a rule that may not hold at a call."""
        match rule.demand:
            case Demand.CONFIRM:
                agreed = _agreed(step.tool, step.arguments)
                if agreed not in state.agreed:
                    self._report(rule, index, step, *self._unconfirmed(agreed))
            case Demand.BEFORE:
                if index not in state.met and not self._stands(rule.first, step.tool):
                    needed = " or ".join(one.name for one in rule.first)
                    advice = f"call {needed} in a step above that is always carried out"
                    self._report(rule, index, step, f"is not always called behind {needed}", advice)
            case Demand.NEVER_AFTER:
                early = sorted(tool for tool in state.called if self._stands(rule.first, tool))
                if early:
                    advice = "end the procedure between them, or put them into two arms of an if"
                    self._report(rule, index, step, f"may be called after {early[0]}", advice)

    def _unconfirmed(self, wanted: _Agreed) -> tuple[str, str]:
        """Say what is wrong with the confirmation of a call, and what to write."""
        called = f"{wanted.tool}({', '.join(wanted.arguments)})"
        body = self.module.procedures[self.inside[-1]].body
        for step in walk(body):
            if isinstance(step, Confirm) and step.tool == wanted.tool and not self.around:
                line, _ = self.faults.source.position(step.at.start)
                if _agreed(step.tool, step.arguments) == wanted:
                    message = f"is called where the confirmation of line {line} may not hold"
                    return (
                        message,
                        "confirm it right above the call, once for each call, below what gives its values",
                    )
                confirmed = f"{step.tool}({', '.join(map(text, step.arguments))})"
                return f"is confirmed in line {line} with other arguments", f"write call {confirmed}"
        return "is called without a confirmation", f'write above it: confirm {called} else deny "..."'

    def _report(self, rule: Always, index: int, step: Invoke, message: str, advice: str) -> None:
        if (id(step), index) in self.reported:
            return
        self.reported.add((id(step), index))
        carried = f" by procedure {self.inside[1]!r}" if self.around else ""
        at = self.around[0].at if self.around else step.at
        by = rule.origin
        line = by.place if by.file != self.module.file else f"line {by.line}"
        self.faults(at, f"{step.tool!r} {message}{carried}; {line} says {rule_text(rule)}", advice)


def _undone(agreed: _Agreed, steps: Iterable[Step]) -> bool:
    """Whether steps may have used a confirmation up, or given one of its names another value."""
    return any(
        given_name(step) in agreed.names or (isinstance(step, Invoke) and step.tool == agreed.tool)
        for step in steps
    )


def _forget(state: _State | None, name: str | None) -> _State | None:
    """Give what is known when a name gets another value: what was agreed to with it is not, any more."""
    if state is None or name is None:
        return state
    return replace(state, agreed=frozenset(one for one in state.agreed if name not in one.names))


def _agreed(tool: str, arguments: tuple[Expr, ...]) -> _Agreed:
    used = frozenset(name.name for argument in arguments for name in names(argument))
    return _Agreed(tool, tuple(map(text, arguments)), used)


def _carried(procedure: Procedure, module: Module) -> set[str]:
    """Find the tools that a procedure and those it carries out call."""
    steps = (step for one in reached(procedure, module) for step in walk(one.body))
    return {step.tool for step in steps if isinstance(step, Invoke)}

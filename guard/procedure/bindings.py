"""One type for each name of a procedure: what everything that is ever put into it has in common."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from guard.procedure.doubt import is_known
from guard.procedure.expression import infer
from guard.procedure.lattice import depth, is_empty, is_number, join, required, type_text
from guard.procedure.listing import walk
from guard.procedure.model import Assign, Do, Extract, For, If, Invoke, Judge, Procedure, Return, Step
from guard.procedure.nodes import ListOf
from guard.procedure.presence import NOTHING, Paths, presence
from guard.procedure.scope import Scope
from guard.procedure.types import DecimalType, IntType, ListType, NothingType, OptionalType, Type
from guard.procedure.units import unit_of, with_unit
from guard.source import Span

if TYPE_CHECKING:
    from guard.procedure.faults import Faults

# A sum in a loop may gain decimals in every pass (`x = x * 1.5`). After so many rounds they are left open.
WIDEN_AFTER: Final = 4

MAX_DEPTH: Final = 20  # of lists and records in each other: `x = [x]` would go on for ever

Bindings = dict[str, Type | None]


def types_of(procedure: Procedure, outer: Scope, doubtful: frozenset[str], faults: Faults) -> Scope:
    """Add to a scope every name that the procedure gives a value, with its type; None where it has none.

    Names that are given values of different kinds are reported. `doubtful` names stand in lines that
    could not be read: they may be anything.
    """
    return _Typing(procedure, outer, doubtful).solve(faults)


def given_type(step: Assign | Return, found: Type | None) -> Type | None:
    """Give the type of what an assignment keeps, or a return answers, from that of its expression."""
    if step.places is None or not (found is None or is_number(found)):
        return found
    return with_unit(DecimalType(step.places) if step.places > 0 else IntType(), unit_of(found))


def given(step: Step, scope: Scope) -> Type | None:
    """Give the type of what a step gives its name, as far as it has one."""
    match step:
        case Extract(type=type_) | Judge(type=type_):
            return type_ if is_known(type_) else None
        case Do(procedure=name):
            callee = scope.procedures.get(name)
            return callee.result if callee is not None and is_known(callee.result) else None
        case Invoke(tool=name):
            tool = scope.tools.get(name)
            return tool.result if tool is not None and is_known(tool.result) else None
        case For(items=items):
            found = infer(items, scope, _ignored)
            return found.item if isinstance(found, ListType) else None
        case Assign(expression=expression):
            return given_type(step, infer(expression, scope, _ignored))
        case _:
            return None


def known_in(procedure: Procedure, scope: Scope) -> dict[str, Paths]:
    """Give the values that may be null by their type and are not in front of a step, by its number."""
    return presence(
        procedure,
        scope.variables.values(),
        given_name,
        lambda step, known: given(step, scope.knowing(known)),
    )


def target_span(source_text: str, at: Span, name: str) -> Span:
    """Where in a step the name stands that the step gives a value: its first occurrence as a word."""
    start = source_text.find(name, at.start, at.end)
    while start >= 0:
        end = start + len(name)
        if not _wordy(source_text, start - 1) and not _wordy(source_text, end):
            return Span(start, end)
        start = source_text.find(name, start + 1, at.end)
    return at


def _wordy(text: str, index: int) -> bool:
    return 0 <= index < len(text) and (text[index].isalnum() or text[index] == "_")


def _ignored(span: Span, message: str, help: str) -> None:  # noqa: A002
    """Complaints of the rounds before all types are known are none."""


class _Typing:
    def __init__(self, procedure: Procedure, outer: Scope, doubtful: frozenset[str]) -> None:
        self.steps = [step for step in walk(procedure.body) if given_name(step) is not None]
        self.first: dict[str, Span] = {parameter.name: parameter.at for parameter in procedure.parameters}
        for step in self.steps:
            self.first.setdefault(given_name(step) or "", step.at)
        inputs = {p.name: p.type for p in procedure.parameters if is_known(p.type)}
        self.bindings: Bindings = {
            name: None if name in doubtful else inputs.get(name) for name in [*self.first, *sorted(doubtful)]
        }
        self.doubtful = doubtful
        self.scope = replace(outer, variables=self.bindings)
        self.procedure = procedure
        self.known: dict[str, Paths] = {}  # in front of each step: what is not null there
        self.clashes: dict[int, tuple[str, Step, Type]] = {}

    def solve(self, faults: Faults) -> Scope:
        turn, changed = 0, True
        while changed:
            turn += 1
            changed = False
            self.known = known_in(self.procedure, self.scope)
            for step in self.steps:
                changed |= self._visit(step, widen=turn > WIDEN_AFTER)
        for name, step, found in self.clashes.values():
            self._clash(faults, name, step, found)
        for name, type_ in self.bindings.items():
            if type_ is not None and is_empty(type_):
                self._empty(faults, name)
        return self.scope

    def _empty(self, faults: Faults, name: str) -> None:
        """Report a list that nothing is ever put into: nobody knows what it is a list of."""
        item = isinstance(self.bindings[name], NothingType)
        self.bindings[name] = None
        if item:
            for step in self.steps:
                if isinstance(step, For) and step.variable == name and isinstance(step.items, ListOf):
                    faults(step.items.at, "a loop goes through a list that is empty", "leave the loop out")
            return
        faults(
            target_span(faults.source.text, self.first[name], name),
            f"nothing is ever put into the list {name!r}",
            f"put something into it, such as {name} = append({name}, 1), or leave it out",
        )

    def _visit(self, step: Step, *, widen: bool) -> bool:
        """Let a step add to the type of its name; whether that has changed."""
        name = given_name(step)
        if name is None or name in self.doubtful or isinstance(step, If):
            return False
        found = given(step, self.scope.knowing(self.known.get(step.number, NOTHING)))
        if found is None:
            return False
        before = self.bindings[name]
        joined = found if before is None else join(before, found)
        if joined is None or depth(joined) > MAX_DEPTH:
            self.clashes.setdefault(id(step), (name, step, found))
            return False
        if widen and joined != before and is_number(required(joined)):
            open_ = DecimalType(None, unit_of(required(joined)))
            joined = open_ if is_number(joined) else OptionalType(open_)
        self.bindings[name] = joined
        return joined != before

    def _clash(self, faults: Faults, name: str, step: Step, found: Type) -> None:
        line, _ = faults.source.position(self.first[name].start)
        before = self.bindings[name]
        at = target_span(faults.source.text, step.at, name)
        if before is None or depth(before) == MAX_DEPTH or depth(found) > MAX_DEPTH:
            limit = f"lists and records stand at most {MAX_DEPTH} one within the other"
            faults(at, f"{limit}, {name!r} has more", "put items into a list, not the list into itself")
            return
        counted = is_number(required(before)) and is_number(required(found))
        faults(
            at,
            f"{name!r} is {type_text(before)} since line {line} and {type_text(found)} here",
            "convert one of them, such as x as kg" if counted else "give one of the two another name",
        )


def given_name(step: Step) -> str | None:
    """Give the name that a step gives a value, if it does."""
    match step:
        case Assign(target=name) | Do(target=name) | For(variable=name):
            return name
        case Extract(target=name) | Judge(target=name):
            return name
        case Invoke(target=target):
            return target
        case _:
            return None

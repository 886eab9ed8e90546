"""Steps in any order: whether they hang on each other, and how one is picked that is written out of turn.

A member of a group is one of its statements; the lines of a compound one stay together. Members do not hang
on each other, so the first line of each is known when the group begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from guard.errors import InvalidState
from guard.procedure.alternatives import failing
from guard.procedure.bindings import given_name, target_span
from guard.procedure.blocks import Block
from guard.procedure.expected import Ending, Expected, Pick
from guard.procedure.listing import expressions, walk
from guard.procedure.model import (
    AnyOrder,
    Deny,
    Do,
    Escalate,
    Extract,
    For,
    If,
    Judge,
    OneOf,
    Procedure,
    Return,
    Step,
)
from guard.procedure.nodes import names
from guard.procedure.steps import Fault, Frame, Run, Sent

if TYPE_CHECKING:
    from collections.abc import Generator

    from guard.procedure.faults import Faults

_PASS: Final = re.compile(r"\[[0-9]+\]")

# --- where a member stands ------------------------------------------------------------------------


def members(group: AnyOrder) -> Iterator[tuple[str, int]]:
    """Give the number of each statement of a group with its member's index; the arms of an `if` are one."""
    for index, step in enumerate(group.body):
        if isinstance(step, If):
            yield from ((branch.number, index) for branch in step.branches)
        else:
            yield step.number, index
            if isinstance(step, OneOf) and step.otherwise is not None:
                yield step.otherwise.number, index


def around(path: str, numbers: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Give the groups around a step, the outermost first: each one's path, and which member of it this is.

    `numbers` are a program's `members`.
    """
    found: list[tuple[str, int]] = []
    parts = _PASS.sub("", path).split(".") if numbers else ()
    for end in range(1, len(parts)):
        index = numbers.get(".".join(parts[: end + 1]))
        if index is not None:
            found.append((".".join(path.split(".")[:end]), index))
    return tuple(found)


# --- carrying it out ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupStep:
    """Carry out members in the order in which they are picked; as they are written where none is."""

    members: tuple[Block, ...]

    def run(self, frame: Frame, prefix: str) -> Run:
        """Give the steps of one member after the other."""
        begun = [_Member(block.run(frame, prefix), frame) for block in self.members]
        waiting = [member for member in begun if not member.silent]
        while waiting:
            taken, sent = yield from _picked(waiting)
            waiting.remove(taken)
            ending = yield from taken.go_on(frame, sent)
            if ending is not None:
                return ending
        return None


def _picked(waiting: Sequence[_Member]) -> Generator[Expected, Sent, tuple[_Member, Sent]]:
    """Offer the members that are left, until one of them is gone on with."""
    taken = waiting[0]
    while True:
        sent = yield taken.offered([member for member in waiting if member is not taken])
        if not isinstance(sent, Pick):
            return taken, sent
        taken = _holding(waiting, sent)
        taken.pick(sent)


def _holding(waiting: Iterable[_Member], pick: Pick) -> _Member:
    for member in waiting:
        if any(step.path == pick.path for step in member.steps):
            return member
    raise InvalidState(f"step {pick.path} is none of those that may come next")


class _Member:
    """A member up to its first line. `steps` are what may come first: more than one in a group of its own."""

    __slots__ = ("_fault", "_pending", "_run", "silent", "steps")

    def __init__(self, run: Run, frame: Frame) -> None:
        self._run = run
        self.steps: tuple[Expected, ...] = ()
        self._fault: Fault | None = None
        self.silent = False
        try:
            self._offer(next(run))
        except Fault as fault:
            self._fault = fault
        except StopIteration:
            self.silent = True
        self._pending = frame.pending

    def _offer(self, first: Expected) -> None:
        self.steps = (replace(first, others=()), *first.others) if first.others else (first,)

    def offered(self, others: Iterable[_Member]) -> Expected:
        """Give its first line, with those that may come instead. Raises `Fault` where it has none."""
        if self._fault is not None:
            raise self._fault
        first, *own = self.steps
        return replace(first, others=(*own, *(step for member in others for step in member.steps)))

    def pick(self, pick: Pick) -> None:
        """Let one of its steps come first."""
        if self.steps[0].path != pick.path:
            self._offer(self._run.send(pick))

    def go_on(self, frame: Frame, sent: Sent) -> Run:
        """Give what follows its first line."""
        frame.pending = self._pending
        try:
            while True:
                sent = yield self._run.send(sent)
        except StopIteration as stop:
            ending: Ending | None = stop.value
            return ending


# --- what may be in a group -----------------------------------------------------------------------


def check_group(group: AnyOrder, procedures: Mapping[str, Procedure], faults: Faults) -> frozenset[str]:
    """Report what gives the members of a group an order. Gives the names that were reported."""
    if len(group.body) == 1:
        advice = "leave any order out, or add the steps that may come before or behind it"
        faults.warning(group.at, "a group of one step has no order to choose", advice)
    for step in walk(group.body):
        _check_end(step, procedures, faults)
    for step in failing(group.body):
        faults(
            step.at,
            "a step of any order cannot let an alternative fail: what came before would be left to chance",
            "give a name its value here, and write the require behind the group",
        )
    uses = [_Uses.of(member) for member in group.body]
    told: set[str] = set()
    for index, one in enumerate(uses):
        for other in uses[:index]:
            for name in sorted(one.conflicts(other) - told):
                told.add(name)
                _report(name, other, one, faults)
    return frozenset(told)


def _check_end(step: Step, procedures: Mapping[str, Procedure], faults: Faults) -> None:
    match step:
        case Return() | Deny() | Escalate():
            faults(
                step.at,
                "a step of any order cannot end the run: which others came before would be left to chance",
                "give a name its value here, and write require or if with that name behind the group",
            )
        case Do(procedure=name) if _refuses(name, procedures, set()):
            faults(
                step.at,
                f"procedure {name!r} may end the run, which a step of any order cannot",
                "carry it out in front of the group or behind it",
            )
        case _:
            pass


def _refuses(name: str, procedures: Mapping[str, Procedure], seen: set[str]) -> bool:
    """Whether a procedure, or one that it carries out, may deny or escalate."""
    if name in seen or name not in procedures:
        return False
    seen.add(name)
    return any(
        isinstance(step, Deny | Escalate)
        or (isinstance(step, Do) and _refuses(step.procedure, procedures, seen))
        for step in walk(procedures[name].body)
    )


@dataclass(frozen=True, slots=True)
class _Uses:
    """The names that a member gives values, each with the step that does, and those that it reads."""

    gives: dict[str, Step]
    items: frozenset[str]  # names that are a loop's item and nothing else
    reads: dict[str, Step]

    @classmethod
    def of(cls, member: Step) -> _Uses:
        gives: dict[str, Step] = {}
        reads: dict[str, Step] = {}
        others: set[str] = set()
        for step in walk([member]):
            name = given_name(step)
            if name is not None:
                gives.setdefault(name, step)
                if not isinstance(step, For):
                    others.add(name)
            for used in _read(step):
                reads.setdefault(used, step)
        return cls(gives, frozenset(gives.keys() - others), reads)

    def conflicts(self, other: _Uses) -> set[str]:
        """Find the names for which it matters which of two members comes first."""
        both = (self.gives.keys() & other.gives.keys()) - (self.items & other.items)
        mine = (self.gives.keys() & other.reads.keys()) - other.items
        return both | mine | ((other.gives.keys() & self.reads.keys()) - self.items)


def _read(step: Step) -> Iterator[str]:
    for expression in expressions(step):
        yield from (name.name for name in names(expression))
    if isinstance(step, Extract | Judge):
        yield from step.sources


def _report(name: str, first: _Uses, second: _Uses, faults: Faults) -> None:
    """Report a name at the step that gives it a value, the later one of two."""
    if name in first.gives and name in second.gives:
        step, other, what = second.gives[name], first.gives[name], "given a value"
        advice = f"take another name in one of them, such as {name}_1"
    elif name in second.gives:
        step, other, what = second.gives[name], first.reads[name], "used"
        advice = "move this step in front of the group, or the other one behind it"
    else:
        step, other, what = first.gives[name], second.reads[name], "used"
        advice = "move this step in front of the group, or the other one behind it"
    line, _ = faults.source.position(other.at.start)
    message = f"{name!r} is given a value here and {what} in line {line}: these steps have an order"
    faults(target_span(faults.source.text, step.at, name), message, advice)

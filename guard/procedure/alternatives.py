"""One of several ways: which the model chooses, and another one where that way fails.

An alternative fails where a `require ... else next` in it does not hold. The choice of each attempt is a line
of its own, decided by the model among the alternatives that are left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from guard.errors import InvalidState
from guard.procedure.blocks import Block
from guard.procedure.expected import UNKNOWN, Cell, Decision
from guard.procedure.model import AnyOrder, For, If, Next, OneOf, Require, Step, While
from guard.procedure.steps import NEXT, Frame, Place, Run, count, undetermined, usable
from guard.procedure.types import EnumType, Value
from guard.procedure.values import conforms

if TYPE_CHECKING:
    from guard.procedure.faults import Faults


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOfStep:
    """Carry out the alternatives that are chosen, until one does not fail.

    `attempts`: how many there are at most, each of any alternative; None: one of each.
    """

    place: Place
    ways: dict[str, Block]
    attempts: int | None
    otherwise: Block | None

    def run(self, frame: Frame, prefix: str) -> Run:
        """Give the choice and its steps, attempt by attempt; then what is to be done where all failed."""
        left, known = list(self.ways), EnumType(tuple(self.ways))
        for turn in range(1, (self.attempts or len(left)) + 1):
            path = f"{prefix}{self.place.suffix}[{turn}]"
            count(frame, path)
            cell = Cell((), "", None, UNKNOWN, None, EnumType(tuple(left)))
            decision = _choice(known, EnumType(tuple(left)))
            chosen = yield self.place.expect(path, (cell,), decision=decision, env=frame.shown)
            name = usable(chosen, known) if chosen is not None else None
            if not isinstance(name, str) or name not in self.ways:
                return undetermined(path, self.place)
            ending = yield from self.ways[name].run(frame, f"{path}.")
            if ending is not NEXT:
                return ending
            # What has not been tried comes first: where nobody chooses, the first one is taken.
            left = [
                *(other for other in left if other != name),
                *([name] if self.attempts is not None else []),
            ]
        if self.otherwise is None:
            raise InvalidState(f"step {self.place.number} has no alternative left")
        return (yield from self.otherwise.run(frame, prefix))


def _choice(known: EnumType, left: EnumType) -> Decision:
    """Give what bounds a choice: one of the names that are left, of those that there are."""

    def admissible(value: Value) -> str | None:
        return conforms(value, left)

    return Decision(type=known, sources=(), quote=None, admissible=admissible)


# --- what may be in an alternative ----------------------------------------------------------------


def failing(steps: Iterable[Step]) -> Iterator[Require]:
    """Find the requirements that let the alternative fail which these steps are of."""
    for step in steps:
        match step:
            case Require(otherwise=Next()):
                yield step
            case If(branches=branches):
                for branch in branches:
                    yield from failing(branch.body)
            case For(body=body) | While(body=body) | AnyOrder(body=body):
                yield from failing(body)
            case OneOf(otherwise=branch) if branch is not None:
                yield from failing(branch.body)
            case _:
                pass


def check_alternatives(step: OneOf, faults: Faults) -> None:
    """Report names that do not tell alternatives apart, and an `else` that is missing or never reached."""
    seen: set[str] = set()
    for way in step.alternatives:
        if not way.name.strip():
            faults(way.at, "an alternative has a name", 'say what is tried, such as try "by e-mail"')
        elif way.name in seen:
            faults(way.at, f"there are two alternatives {way.name!r}", "give each a name of its own")
        seen.add(way.name)
    sure = [way for way in step.alternatives if next(failing(way.body), None) is None]
    # Where each is tried once, one that cannot fail is come to in the end; of other attempts none need be it.
    ends = len(sure) == len(step.alternatives) if step.attempts is not None else bool(sure)
    if not ends and step.otherwise is None:
        faults(
            step.at,
            "all attempts may fail, and nothing says what is done then",
            "add else, indented like one of, and below it what is to be done, such as deny",
        )
    if ends and step.otherwise is not None:
        faults(
            step.otherwise.at,
            f"this else is never reached: {sure[0].name!r} cannot fail",
            "leave it out, or let it fail: require ... else next",
        )
    if len(step.alternatives) == 1 and step.attempts is None:
        advice = "leave one of out, or say how often it may be tried: one of at most 3"
        faults.warning(step.at, "a single alternative leaves nothing to choose", advice)

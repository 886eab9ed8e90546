"""The guard's own continuation: the lines that it can write itself from where a trace stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from guard.check.replay import STEPS, Executable, Sent, Walk
from guard.procedure.expected import Ending, Expected
from guard.procedure.model import Value
from guard.trace import render


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """`steps` are known in full, in order. Then `due` is the model's to write, or `ending` the end."""

    steps: tuple[Expected, ...]
    due: Expected | None
    ending: Ending | None

    @property
    def text(self) -> str:
        """The lines of the steps, each with its end."""
        return "".join(f"{render.line(step)}\n" for step in self.steps)


def continuation(
    program: Executable, inputs: Mapping[str, Value], sent: Iterable[Sent], *, most: int = STEPS
) -> Continuation:
    """What the guard can write behind the steps that were `sent` (`Checker.sent`), at most so many lines."""
    walk = Walk.start(program, inputs, sent)
    steps: list[Expected] = []
    while walk.due is not None and walk.due.known and len(steps) < most:
        steps.append(walk.due)
        walk.send(None)
    return Continuation(steps=tuple(steps), due=walk.due, ending=walk.ending)

"""How an execution ends that takes over nothing of a text but what the model had to decide."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from guard.check.findings import STEPS, TURN
from guard.check.replay import Walk
from guard.procedure.execute import Program
from guard.procedure.expected import UNKNOWN, Ending
from guard.procedure.types import Value


def true_ending(
    program: Program, inputs: Mapping[str, Value], decided: Mapping[str, Value]
) -> Generator[None, None, Ending | None]:
    """Say how an execution ends that takes over nothing but the model's decisions, by path."""
    walk, steps = Walk.start(program, inputs), 0
    while walk.due is not None and steps < STEPS:
        walk.send(decided.get(walk.due.path, UNKNOWN) if walk.due.decision is not None else None)
        steps += 1
        if steps % TURN == 0:
            yield
    return walk.ending

"""What a text that nobody forced into a format was found to show of a procedure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from guard.check.verdict import Kind, Verdict, Violation
from guard.procedure.model import StepKind

STEPS: Final = 5_000  # of an execution; one with more is not judged
TURN: Final = 50  # steps that are executed in one go

Class = Literal["verified", "model_decided", "missing"]
AnswerIs = Literal["right", "wrong", "none", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a text shows.

    `classes` has the steps that could be judged, by path, each with its kind; a wrong one is `missing`.
    `answer_at` is where the first answer stands, as a share of the text; None where there is none.
    `answer` compares the last one with the execution's. `unread` are the paths of steps that are there but
    cannot be read: neither right nor wrong. `too_long`: the execution was given up. `supported` counts what
    the model decided and its quotes say.
    """

    reading: Literal["trace", "free"]
    verdict: Verdict
    violations: tuple[Violation, ...] = ()
    classes: Mapping[str, tuple[StepKind, Class]] = field(default_factory=dict)
    answer: AnswerIs = "unknown"
    answer_at: float | None = None
    unread: tuple[str, ...] = ()
    too_long: bool = False
    supported: int = 0


def verdict(violations: Sequence[Violation], *, sure: bool) -> Verdict:
    """Name what a whole text came to; `sure`: all that there is to be known of it is known, and right."""
    if any(violation.kind is not Kind.TRUNCATED for violation in violations):
        return Verdict.FAILED
    return Verdict.PASSED if sure and not violations else Verdict.UNDECIDED

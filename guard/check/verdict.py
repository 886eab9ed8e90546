"""What a checker can say about a trace: verdicts, violations, verified steps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from guard.procedure.model import StepKind
from guard.procedure.types import Value

SHOWN: Final = 200  # characters of what a violation quotes
BEFORE: Final = 40  # of them, before the first difference where that lies further on


class Verdict(StrEnum):
    """What is known of a text: a prefix may be right so far and still go wrong."""

    PENDING = "pending"
    PASSED = "passed"
    FAILED = "failed"  # final: no later text can undo it
    UNDECIDED = "undecided"  # of a whole text: nothing wrong was found, but not all of it could be read


class Kind(StrEnum):
    """How a trace departs from its procedure; metrics, audit, feedback and docs use these strings."""

    SKIPPED_STEP = "skipped_step"
    EXTRA_STEP = "extra_step"
    REPEATED_STEP = "repeated_step"
    SELF_CORRECTION = "self_correction"
    WRONG_EXPRESSION = "wrong_expression"
    WRONG_VALUE = "wrong_value"
    WRONG_BRANCH = "wrong_branch"
    INADMISSIBLE_VALUE = "inadmissible_value"
    UNGROUNDED_VALUE = "ungrounded_value"
    WRONG_CALL = "wrong_call"
    UNCONFIRMED_CALL = "unconfirmed_call"
    PREMATURE_ANSWER = "premature_answer"
    MISSING_ANSWER = "missing_answer"
    WRONG_ANSWER = "wrong_answer"
    MALFORMED = "malformed"
    TRUNCATED = "truncated"
    LIMIT_EXCEEDED = "limit_exceeded"
    RUNAWAY = "runaway"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One departure.

    `step` is the path of the expected step (for an extra step, as written; "" before the first line and
    at the closing line); `step_kind` its kind, None where there is no such step. `at` is the offset of
    the first character of the wrong unit (line, expression, value or quote), in code points from the
    start of the response. `expected` and `found` are for people, each cut to 200 characters.
    `cell` is the index of the wrong cell in the expected line, where one is to blame.
    """

    kind: Kind
    step: str
    at: int
    expected: str
    found: str
    step_kind: StepKind | None = None
    cell: int | None = None

    def to_json(self) -> dict[str, object]:
        """Give it as JSON data, as commands print it."""
        return {
            "kind": self.kind.value,
            "step": self.step,
            "at": self.at,
            "expected": self.expected,
            "found": self.found,
        }


@dataclass(slots=True)  # never changed; not frozen, since one is made for every line
class StepVerified:
    """One line that is right. `text` is the line as written with its end, `end` the offset behind it.

    `value` is the value it carries (the model's, for a decision).
    """

    path: str
    kind: StepKind
    label: str | None
    target: str | None
    value: Value
    text: str
    at: int
    end: int
    decided: bool  # the value was the model's to decide
    supported: bool = False  # ... and stands in the words that it quoted for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """Text that is part of the response but not of the trace: a preamble, a code fence, a repeated line.

    Of thoughts only the `tokens` are known.
    """

    text: str
    at: int
    why: str
    tokens: int = 0


Judgement = StepVerified | Ignored | Violation


def shown(text: str) -> str:
    """A text as a violation quotes it: on one line, printable, cut."""
    cut = text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
    return cut if cut.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in cut)[:SHOWN]


def shown_apart(expected: str, found: str) -> tuple[str, str]:
    """Two texts as a violation quotes them, of which one can see how they differ.

    Where they only do so behind what is shown, both are shown from shortly before there.
    """
    same = next((i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), None)
    at = max(0, (min(len(expected), len(found)) if same is None else same) - BEFORE)
    for one, other in (
        (shown(expected), shown(found)),
        (shown(f"…{expected[at:]}"), shown(f"…{found[at:]}")),
        ("another text", shown(found)),
    ):
        if one != other:
            return one, other
    return "something else", shown(found)

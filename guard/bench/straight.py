"""A straight procedure of so many steps, its right lines, and the wrong ones that a model might write."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Final

from guard.bench.chances import Chances, Decides
from guard.check.verdict import Kind
from guard.procedure.execute import Program, reference
from guard.procedure.expected import Expected, Unknown
from guard.procedure.load import load
from guard.procedure.types import Value
from guard.procedure.values import answer_text
from guard.run.opening import Job
from guard.trace import render

NAME: Final = "straight"
NONCE: Final = "5a3e1d"
FAR: Final = 1_000_000  # wrong values are as many, so that the same one hardly ever comes again

# What a step may be got wrong as; where the beginning of its line is given, only its value is left.
WRONG: Final = (
    Kind.WRONG_VALUE,
    Kind.WRONG_EXPRESSION,
    Kind.SKIPPED_STEP,
    Kind.PREMATURE_ANSWER,
    Kind.MALFORMED,
)
_INPUTS: Final[dict[str, Value]] = {"a": 7, "b": 13, "note": "Decide as you see fit."}
_PROSE: Final = "and so on, as before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Straight:
    """The procedure and what a faithful model writes: one line a step, the last one is the answer."""

    job: Job
    steps: tuple[Expected, ...]
    lines: tuple[str, ...]
    places: dict[str, int]  # path of a step -> its index
    answer: str

    @property
    def frame(self) -> tuple[str, str]:
        """The opening and the closing line, with their ends."""
        return render.begin(NAME, NONCE) + "\n", render.end(NONCE) + "\n"

    def wrong(self, place: int, kind: Kind, tail: str, random: Random) -> str:
        """Write the line of a step wrong. `tail` is what of it was given."""
        expected, line = self.steps[place], self.lines[place]
        if expected.decision is not None:
            return render.line(expected, value=False)
        last = len(self.lines) - 1
        match kind:
            case Kind.SKIPPED_STEP if place < last and not tail:
                return self.lines[place + 1]
            case Kind.PREMATURE_ANSWER if place < last and not tail:
                return self.lines[last]
            case Kind.MALFORMED if len(tail) <= len(expected.path):
                return f"{tail}{' ' if tail else ''}{_PROSE}, {_far(random)}"
            case Kind.WRONG_EXPRESSION if len(tail) <= len(expected.path):
                left, plus, right = line.partition(" + ")
                head, _, _ = left.rpartition(" ")
                return f"{head} {_far(random)}{plus}{right}"
            case _:
                return render.line(expected, value=_far(random))


def _far(random: Random) -> int:
    """Draw a number that stands in no right line."""
    return random.randrange(FAR, 2 * FAR)


def straight(chances: Chances) -> Straight:
    """Make a procedure with a step for each chance; the last one, the answer, is always computed."""
    return _straight(tuple(chance.kind for chance in chances))


@lru_cache(maxsize=4)
def _straight(kinds: tuple[Decides, ...]) -> Straight:
    program = load(_text(kinds)).procedures[NAME]
    steps, ending = reference(program, _INPUTS, dict.fromkeys(program.decisions, True))
    assert ending.value is not None
    assert not isinstance(ending.value, Unknown)
    lines = [render.line(step, value if step.decision is not None else None) for step, value in steps]
    expected = tuple(step for step, _ in steps)
    return Straight(
        job=_job(program),
        steps=expected,
        lines=tuple(lines),
        places={step.path: place for place, step in enumerate(expected)},
        answer=answer_text(ending.value, program.result),
    )


def _job(program: Program) -> Job:
    message: dict[str, object] = {"role": "user", "content": "Carry out the procedure."}
    return Job(program=program, inputs=_INPUTS, messages=(message,), nonce=NONCE)


def _text(kinds: tuple[Decides, ...]) -> str:
    lines = [f"procedure {NAME}(a: int, b: int, note: text) -> int"]
    before = "a"
    for number, kind in enumerate(kinds[:-1], 1):
        if kind is Decides.JUDGE:
            lines.append(f'  judge d{number}: bool from note asking "Is it so?"')
        else:
            lines.append(f"  s{number} = {before} + b")
            before = f"s{number}"
    return "\n".join([*lines, f"  return {before} + b", ""])

"""What is let go unchecked: what a model wrote behind the verified prefix, and the answer in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from guard.check.compare import plain
from guard.check.order import number_of
from guard.check.verdict import Violation
from guard.procedure.execute import Program
from guard.procedure.model import StepKind
from guard.procedure.types import StringType, Type
from guard.procedure.values import answer_text, coerce, conforms
from guard.run.generation import Generation
from guard.run.messages import EndName, Finish
from guard.trace.events import Fields, Items, Line, Scalar, Written
from guard.trace.parser import Parser

LONGEST: Final = 100_000  # characters behind the violation; what is longer is cut

_GOES_ON: Final = (" ", "\t", ".", "[")  # behind the number of a line, or the operands of one

_FRAME: Final = re.compile(r"\s*@(?:begin|end)\b")
_WORDS: Final = "for|if|elif|while|try|require|check|return|deny|escalate"
_STEP: Final = re.compile(rf"\s*([0-9][0-9.\[\]]*)[ \t]+(?:[A-Za-z_]\w*[ \t]*=|(?:{_WORDS})\b)")

_ENDS: Final[dict[str, EndName]] = {"return": "return", "deny": "deny", "escalate": "escalate"}


@dataclass(slots=True, kw_only=True)
class Release:
    """Why a generation is let go: what was wrong with it, and why nothing gentler was done.

    `left` is how many more of its characters are read.
    """

    violation: Violation
    why: str
    left: int = LONGEST

    def take(self, piece: str) -> str:
        """Give as much of a piece as may be kept."""
        kept = piece[: self.left]
        self.left -= len(kept)
        return kept

    def finish(self, finish: Finish, program: Program, text: str) -> Finish:
        """Give the end of a run whose generation wrote a text behind the verified lines."""
        end, said = answer(program, text) or (None, prose(program, text))
        return replace(finish, end=end, answer=said, unverified=text, reason=self._reason)

    @property
    def _reason(self) -> str:
        kind, step = self.violation.kind.value, self.violation.step
        place = f" at step {step}" if step else ""
        why = f" ({self.why})" if self.why else ""
        return f"released without verification, as the policy says, behind {kind}{place}{why}"


def unverified(generation: Generation, verified: str) -> str:
    """Give what a generation wrote behind the verified prefix.

    The line that was begun for it belongs to that where the model went on with it.
    """
    written = generation.text[generation.settled :]
    if generation.alone is not None:
        return generation.alone.begun + written.lstrip() if written.strip() else ""
    said = generation.prefix + written
    if not written.strip() or generation.settled or not said.startswith(verified):
        return written if written.strip() else ""
    begun = len(generation.prefix) > len(verified) and not written.startswith(_GOES_ON)
    return written if begun else said[len(verified) :]


def answer(program: Program, text: str) -> tuple[EndName, str] | None:
    """Find the model's own answer in a trace that need not be right: its last readable answer line."""
    parser = Parser()
    found = None
    for event in [*parser.feed(text), *parser.close()]:
        if isinstance(event, Line):
            found = _answer_of(program, event) or found
    return found


def prose(program: Program, text: str) -> str:
    """Give what of a text is said to people: neither a line of a frame nor one that begins as a step does."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not _is_protocol(program, line)).strip("\n")


def says_something(text: str) -> bool:
    """Whether there is more to a text than lines of a frame."""
    return any(line.strip() and not _FRAME.match(line) for line in text.splitlines())


def _is_protocol(program: Program, line: str) -> bool:
    if _FRAME.match(line):
        return True
    step = _STEP.match(line)
    return step is not None and number_of(step[1]) in program.step_numbers


def _answer_of(program: Program, line: Line) -> tuple[EndName, str] | None:
    end = _ENDS.get(line.head)
    if end is None or program.step_numbers.get(number_of(line.path)) is StepKind.RESULT:
        return None
    text = _text(line.body, program.result if end == "return" else StringType())
    return None if text is None else (end, text)


def _text(written: Written, type_: Type) -> str | None:
    """What a client reads of a value: in canonical spelling if it is of the type, else as it is written."""
    value = plain(written)
    kept = None if value is None else coerce(value, type_)
    if kept is not None and conforms(kept, type_) is None:
        return answer_text(kept, type_)
    match written:
        case Scalar(value=None):
            return None
        case Scalar(value=str(text)):
            return text
        case Scalar(value_text=text):
            return text
        case Items() | Fields():
            return written.text

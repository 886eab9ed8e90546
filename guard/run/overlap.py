"""The joint between what stands and what a model says next: repetitions left out, begun lines completed.

Theory of operation. A generation that goes on from a verified prefix may begin anywhere: with the prefix, or
its last lines, once more; in the middle of a line; with a sentence or a code fence; with the due line whole,
or with what comes behind the beginning that it was given. Up to the first new line each line is held until it
ends and then read in this order:

    1. the due line, as the prefix begins it or whole
    2. a verified line: left out where it says the same, else a violation for the checker to name
    3. the rest of the due line, if what that makes is right
    4. the rest of a verified line, and what is no line of the trace: left out
    5. whatever it is, for the checker to blame

Where all of the due line was given (nothing of it is left, as in `2 y = do doubled(3)`), an answer may go on
behind it: it stands in front of the line of another step.

Where nothing stands yet, since no answer began as it was told, the opening line is put in front of the first
new line unless the model has written it.

Nothing counts that the checker has not accepted: reading 3 puts the beginning in front and hands over a
whole line. A value that is the model's to decide nothing can be computed against, so there the rest of a
verified line goes before, and a bare number decides nothing.

How a generation is cut into pieces changes nothing. What is left out is bounded, each line is read once; past
the bounds every line is the checker's, which blames a repeated step as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from guard.check import runaway
from guard.check.compare import examine, plain, same_step
from guard.check.quotes import Sources
from guard.check.verdict import Ignored
from guard.procedure.expected import Expected
from guard.procedure.types import Value
from guard.run.progress import Progress
from guard.trace import render
from guard.trace.events import Line
from guard.trace.lines import LIMITS, RawLine, looks
from guard.trace.parser import read_line

PASSES: Final = 2  # over the verified lines in one generation: a server may echo what a model repeats
ASIDES: Final = 8  # lines that say nothing of the trace

NO_LINE: Final = "no line of the trace"

_BLANK: Final = " \t\r\n"
_FENCE: Final = re.compile(r"(?:`{3,}|~{3,})[A-Za-z0-9_+-]*")
_PATH: Final = re.compile(r"[0-9]++[\[\].0-9]*+")
_NUMBERED: Final = re.compile(rf"{_PATH.pattern}(?=\s|$)")
_NUMBER: Final = re.compile(r"-?[0-9.]++%?")
_BARE: Final = re.compile(r"true|false|-?[0-9.]++%?")


class Overlap:
    """Reads the first lines of one generation; `open` as long as it has to.

    `tail` is what the prefix says of the due line, "" where there is none. `begun` is the beginning of that
    line that the model was given, in the prefix or in words. `turn`: it answers a turn of a dialogue,
    where a sentence before the line is none of the trace.
    """

    def __init__(self, progress: Progress, *, tail: str, begun: str, turn: bool) -> None:
        due = progress.expected
        assert due is not None, "there is nothing left to write"
        self.open = True
        self._progress, self._due, self._turn = progress, due, turn
        self._paths = {due.path, *(other.path for other in due.others)}  # of the steps that may come next
        self._tail, self._begun = tail, begun
        self._frame = "" if progress.verified else progress.begin  # still to be said, or to be put in front
        self._repeats, self._asides = PASSES * (len(progress.lines) + 1), ASIDES
        self._blanks = self._repeats + self._asides
        self._fresh = True  # no word of the trace has been said yet
        self._joined = False  # the first new line has been handed over
        self._fenced = False
        self._completed = False  # the first new line was: it may follow whole, or what stands in front of it
        self._sources = Sources()
        self._seen = 0  # so much of the line was looked at
        self._running = False  # it runs on
        self._texts: dict[str, str] = {}  # of the verified lines, by path
        self._steps: dict[str, tuple[Expected, Value]] = {}  # the same, once one was said in other words

    def waits(self, line: str) -> bool:
        """Whether a line is still to be held: it has no end, is not too long yet, and does not run on."""
        return not line.endswith("\n") and not self._too_long(line) and not self._runs_on(line)

    def _too_long(self, line: str) -> bool:
        return len(self._tail) + len(line.removesuffix("\n")) > LIMITS.line

    def _runs_on(self, line: str) -> bool:
        """Whether a line, however it begins, has become one that the due step cannot have."""
        whole = self._tail + line.removesuffix("\n")
        seen, self._seen = self._seen, 0 if line.endswith("\n") else len(whole)
        grown = (whole[:length] for length in looks(len(whole), seen))
        self._running = self._running or any(
            runaway.why(text, self._due, self._progress.inputs, lambda: self._progress.verified)
            for text in grown
        )
        return self._running

    def cut(self, line: str) -> str:
        """What the checker is to read of a line that was never ended, or is too long."""
        self.open = False
        return self._tail + line

    def read(self, line: str) -> str | Ignored:
        """Take a line; give what the checker is to read, or what is left out."""
        if self._too_long(line) or self._runs_on(line):
            return self.cut(line)  # which the checker says of it
        said = line.strip(_BLANK)
        if self._joined:
            return self._behind(line, said)
        if self._frame and said.split() == self._frame.split():
            self._frame = ""
            return line
        if not said:
            self._blanks -= 1
            return self._leave_out(line, "a blank line", self._blanks)
        ready = self._whole(line, said)
        if ready is not None:
            return self._join(ready)
        why = self._repeated(said)
        if why is None:
            halved = self._halved(line, said)
            rest = None if halved and self._due.decision is not None else self._rest(said)
            if rest is not None:
                self._completed = True
                return self._join(f"{rest}\n")
            why = "the rest of a verified line, repeated" if halved else None
        if why is not None:
            self._repeats -= 1
            self._fresh = False
            return self._leave_out(line, why, self._repeats)
        why = self._aside(said)
        if why is not None:
            self._asides -= 1
            return self._leave_out(line, why, self._asides)
        if self._goes_on_behind(said):
            self._completed = True
            return self._join(f"{self._begun}\n{line}")
        return self._join(self._to_blame(line, said))

    # --- what comes of a line --------------------------------------------------------------------

    def _join(self, text: str) -> str:
        """Hand over the first new line."""
        if not text.startswith("@"):
            text = f"{self._frame}{text}"
        self._joined, self._tail = True, ""
        self.open = self._fenced or self._completed
        return text

    def _leave_out(self, line: str, why: str, left: int) -> str | Ignored:
        if left < 0:
            return self._join(line)
        self._tail = ""
        return Ignored(text=line, at=len(self._progress.verified), why=why)

    def _behind(self, line: str, said: str) -> str | Ignored:
        """Take a line behind the first new one: where that was completed, old ones may still follow."""
        why = None
        if self._fenced and said and not said.strip("`~"):
            self._fenced, why = False, "a code fence"
        elif self._completed and said:
            why = (self._repeated(said) or self._once_more(said)) if self._repeats > 0 else None
            self._repeats -= 1
            self._completed = why is not None
        self.open = self._fenced or self._completed
        return line if why is None else Ignored(text=line, at=len(self._progress.verified), why=why)

    def _once_more(self, said: str) -> str | None:
        """Why the rest of a line that was completed is only a repetition: what is computed is the same."""
        computed = self._due.decision is None
        return "a verified line, repeated" if computed and self._rest(said) is not None else None

    # --- the due line ----------------------------------------------------------------------------

    def _whole(self, line: str, said: str) -> str | None:
        """Give the due line where it is there, right or wrong."""
        if self._tail:
            text = f"{self._tail}{'' if line[0] in _BLANK else ' '}{line}"  # some servers trim what they give
            if self._fits(text.rstrip(_BLANK)):
                return text
        if _path(said) not in self._paths:
            return None
        if self._fits(said):
            return line
        step = _step(said)
        return line if step is not None and step.path in self._paths else None

    def _fits(self, text: str) -> bool:
        """Whether a text is the due line, and right."""
        due = self._due
        if due.decision is None and text in {due.text, render.canonical(due)}:
            return True
        step = _step(text)
        return step is not None and step.path == due.path and self._fault_at(step) is None

    def _fault_at(self, step: Line) -> int | None:
        """Where a reading of the due line is wrong; None: it is right, as far as that can be told."""
        fault = examine(self._due, step, self._sources).fault
        return fault.at if fault is not None else None

    def _rest(self, said: str) -> str | None:
        """Give the due line that a text is the rest of, if it makes one that is right."""
        return next(filter(self._fits, self._readings(said)), None)

    def _readings(self, said: str) -> Iterator[str]:
        """The lines that a text may be the rest of: behind the number, a ` =`, the given beginning."""
        due = self._due
        if said.startswith(due.head.partition(" ")[0]):
            yield f"{due.path} {said}"
        if due.decision is not None and not self._decides(said):
            return
        head = f"{due.path} {due.head}"
        yield _together(head, said)
        first = due.cells[0] if due.cells else None
        if first is not None and first.symbol is not None:
            yield _together(f"{head} {first.given.rstrip()}", said)
        if self._begun not in {"", due.path}:
            yield _together(self._begun, said)
            yield _together(self._begun, said) + due.tail

    def _decides(self, said: str) -> bool:
        """Whether a text without the step's name may decide it: a bare number may be anything."""
        return self._fresh and _NUMBER.fullmatch(said) is None

    def _goes_on_behind(self, said: str) -> bool:
        """Whether a text is the line of a later step, and the due one was given whole."""
        later = _NUMBERED.match(said) is not None and _path(said) not in {self._due.path, *self._verified}
        return later and self._fits(self._begun)

    def _to_blame(self, line: str, said: str) -> str:
        """Give the reading of a wrong line that goes wrong last."""
        whole = self._tail + line
        step = _step(said)
        if step is not None and step.path in self._verified and not _is_of(self._due, whole.strip(_BLANK)):
            return line  # a verified step with another value
        best, reach = whole, -1
        for text in (whole.rstrip(_BLANK), *self._readings(said)):
            step = _valued(text)
            at = self._fault_at(step) if step is not None and step.path == self._due.path else None
            if at is not None and at > reach:
                best, reach = f"{text}\n", at
        return best

    # --- what stands -----------------------------------------------------------------------------

    def _repeated(self, said: str) -> str | None:
        """Why a text is only a repetition, None where it is none."""
        if said.split() == self._progress.begin.split():
            return "the opening line, repeated"
        if said in {self._begun, self._tail}:
            return "the beginning that was given, repeated"
        path = _path(said)
        text = self._verified.get(path)
        if text is None:
            return None
        same = said == text or _respaced(said, text) or self._says(*self._stood(path), said)
        return "a verified line, repeated" if same else None

    def _says(self, expected: Expected, value: Value, said: str) -> bool:
        """Whether a text says what a verified line says."""
        step = _step(said)
        return (
            step is not None
            and step.path == expected.path
            and same_step(expected, value, step, self._sources)
        )

    @property
    def _verified(self) -> dict[str, str]:
        if len(self._texts) < len(self._progress.lines):
            self._texts = {line.step.path: line.step.text.strip(_BLANK) for line in self._progress.lines}
        return self._texts

    def _stood(self, path: str) -> tuple[Expected, Value]:
        """A verified step and its value: made by one more execution, twice a generation at most."""
        if path not in self._steps:
            self._steps = {step.path: (step, value) for step, value in self._progress.checker.observed}
        return self._steps[path]

    def _halved(self, line: str, said: str) -> bool:
        """Whether a text is the end of a verified line, and nothing that was asked for."""
        if not self._fresh:
            return False
        if self._begun.endswith("=") and _BARE.fullmatch(said):
            return False  # a value was asked for
        if self._tail and line[0] in _BLANK and _is_of(self._due, self._tail + line.rstrip(_BLANK)):
            return False  # the prefix is gone on with
        return any(_ends(text, said) for text in self._verified.values())

    def _aside(self, said: str) -> str | None:
        """Why a text is none of the trace."""
        if _FENCE.fullmatch(said):
            self._fenced = not self._fenced
            return "a code fence"
        if not self._turn or said.startswith("@") or _NUMBERED.match(said):
            return None
        prose = next(filter(None, map(_valued, self._readings(said))), None) is None
        return NO_LINE if prose else None


def _path(text: str) -> str:
    """The number that a text begins with, "" where there is none."""
    number = _PATH.match(text)
    return number[0] if number else ""


def _respaced(said: str, text: str) -> bool:
    """Whether two texts differ by how wide their blanks are: the usual way of saying the same otherwise."""
    return '"' not in text and said.split() == text.split()


def _step(text: str) -> Line | None:
    event = read_line(RawLine(text, 0, len(text) + 1))
    return event if isinstance(event, Line) else None


def _valued(text: str) -> Line | None:
    """A line that a text is, if it carries a value."""
    step = _step(text)
    return step if step is not None and plain(step.body) is not None else None


def _together(begun: str, rest: str) -> str:
    """A line that was begun with its rest, which may begin with the `=` once more."""
    return f"{begun} {rest[1:].lstrip() if begun.endswith('=') and rest.startswith('=') else rest}"


def _is_of(due: Expected, text: str) -> bool:
    step = _step(text)
    return step is not None and step.path == due.path


def _ends(text: str, said: str) -> bool:
    """Whether a text ends in another one that begins with a word of its own."""
    if len(text) <= len(said) or not text.endswith(said):
        return False
    return not (said[0].isalnum() and (text[-len(said) - 1].isalnum() or text[-len(said) - 1] in "._"))

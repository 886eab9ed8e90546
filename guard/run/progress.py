"""How far a run has come: the checker, who wrote which line, and what the client may have by now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from guard.check.checker import Checker
from guard.check.replay import Walk
from guard.check.report import StepCounts
from guard.check.verdict import Judgement, StepVerified, Verdict, Violation
from guard.procedure.execute import Program
from guard.procedure.expected import Ending, EndKind, Expected, Form, Unknown
from guard.procedure.model import ANSWERS
from guard.procedure.types import Value
from guard.procedure.values import answer_text
from guard.run.messages import Emit, EndName, StepClass
from guard.trace import render


@dataclass(frozen=True, slots=True)
class Line:
    """A verified line and who wrote it.

    `by` is the number of the generation that wrote `written` characters of it (the opening line counts with
    the first); 0 where the guard wrote it. `isolated`: it was asked for the step by itself.
    """

    step: StepVerified
    step_class: StepClass
    by: int = 0
    written: int = 0
    isolated: bool = False


class Progress:
    """The verified prefix of a run, over all of its generations."""

    def __init__(
        self, program: Program, inputs: Mapping[str, Value], nonce: str, *, tolerant: bool = False
    ) -> None:
        self._program, self.inputs, self._nonce, self._tolerant = program, inputs, nonce, tolerant
        self.lines: list[Line] = []
        self.delivered = 0  # so many of the lines stand for good
        self._emitted = 0  # so many of the lines the client has
        self.checker = self._checker("")
        self._loose = False  # whether the checker has read more than whole verified lines
        self.writer = 0  # the number of the generation that writes
        self.isolated = False  # whether that was asked for one step by itself
        self._framed = False  # whether the opening line is the guard's, or counted
        self._begun = 0  # characters of the line that is due which the guard wrote
        self._opened = 0  # so much of the text is the opening line, where the model wrote it by itself

    def _checker(self, verified: str) -> Checker:
        return Checker(
            self._program, self.inputs, nonce=self._nonce, verified=verified, tolerant=self._tolerant
        )

    @property
    def verified(self) -> str:
        """The text all of whose lines were verified."""
        return self.checker.verified

    @property
    def expected(self) -> Expected | None:
        """The step that is due; None behind the answer, and where the procedure failed."""
        return self.checker.expected

    @property
    def shown(self) -> Expected:
        """The step that is due, as it is where the trace shows how it is computed."""
        if self._program.form is Form.WORK:
            due = self.expected
        else:
            due = Walk.start(self._worked, self.inputs, self.checker.sent).due
        assert due is not None, "there is nothing left to write"
        return due

    @cached_property
    def _worked(self) -> Program:
        return self._program.in_form(Form.WORK)

    @property
    def due(self) -> str:
        """The path of the step that is due; "" where none is."""
        return "" if self.expected is None else self.expected.path

    @property
    def failed(self) -> Ending | None:
        """How the procedure itself failed, if it did."""
        return self.checker.failed_procedure

    @property
    def answered(self) -> bool:
        """Whether the answer is verified: nothing but the closing line is left."""
        return bool(self.lines) and self.lines[-1].step.kind in ANSWERS

    @property
    def counts(self) -> StepCounts:
        """The steps of the procedure by how they ended so far."""
        classes = Counter(line.step_class for line in self.lines)
        expected = self.checker.steps
        return StepCounts(
            expected=expected,
            missing=None if expected is None else expected - len(self.lines),
            supported=sum(line.step.supported for line in self.lines),
            isolated=sum(line.isolated for line in self.lines),
            **{
                step_class.value: classes[step_class]
                for step_class in StepClass
                if step_class is not StepClass.MISSING
            },
        )

    @property
    def steps(self) -> int:
        """How many steps the trace has; at least, where that hangs on what is not decided."""
        expected = self.checker.steps
        return len(self.lines) + self.fewest_lines(written=False) if expected is None else expected

    def fewest_lines(self, *, written: bool) -> int:
        """How many lines are left to the model at least; `written`: the guard writes all that it can."""
        walk = Walk.start(self._program, self.inputs, self.checker.sent)
        fewest = 0
        while walk.due is not None:
            fewest += walk.due.decision is not None or not written
            walk.skip()
        return fewest

    def can_end(self, may: Callable[[Expected], bool]) -> bool:
        """Whether the guard, which `may` write what fits, can write all that is left, up to an answer."""
        walk = Walk.start(self._program, self.inputs, self.checker.sent)
        while walk.due is not None and may(walk.due):
            walk.skip()
        return walk.ending is not None and walk.ending.kind in {
            EndKind.RETURN,
            EndKind.DENY,
            EndKind.ESCALATE,
        }

    def steps_to(self, path: str) -> int:
        """How many steps come behind the one that is due, up to the one of this path."""
        walk = Walk.start(self._program, self.inputs, self.checker.sent)
        steps = 0
        while walk.due is not None and walk.due.path != path:
            steps += 1
            walk.skip()
        return steps

    @property
    def delivered_lines(self) -> list[Line]:
        """The lines that the client has."""
        return self.lines[: self._emitted]

    @property
    def classes(self) -> dict[str, StepClass]:
        """Step path to who wrote it."""
        return {line.step.path: line.step_class for line in self.lines}

    @property
    def isolated_steps(self) -> frozenset[str]:
        """The paths of the steps that were asked for by themselves."""
        return frozenset(line.step.path for line in self.lines if line.isolated)

    @property
    def begin(self) -> str:
        """The opening line with its end."""
        return render.begin(self._program.name, self._nonce) + "\n"

    @property
    def end(self) -> str:
        """The closing line with its end."""
        return render.end(self._nonce) + "\n"

    @property
    def trace(self) -> str:
        """The verified lines in a frame of the guard's own: what a stream gives, byte for byte."""
        lines = "".join(line.step.text for line in self.lines)
        if self.checker.verdict is Verdict.PASSED:
            return f"{self.begin}{lines}{self.end}"
        return f"{self.begin}{lines}" if self.verified else ""

    @property
    def answer(self) -> tuple[EndName, str]:
        """Which end it came to, and what the client reads: a value's canonical spelling, or the refusal."""
        ending = self.checker.ending
        assert ending is not None
        assert ending.value is not None
        assert not isinstance(ending.value, Unknown)
        if ending.kind is EndKind.DENY:
            return "deny", str(ending.value)
        if ending.kind is EndKind.ESCALATE:
            return "escalate", str(ending.value)
        return "return", answer_text(ending.value, self._program.result)

    def open_frame(self) -> None:
        """Write the opening line unless it is there."""
        if not self.checker.begun:
            self._framed = True
            self.checker.feed(self.begin)

    def close_frame(self) -> None:
        """Write the closing line."""
        self.checker.feed(self.end)

    def lend(self, characters: int) -> None:
        """So many characters of the line that is read next are not the model's."""
        self._begun = characters

    def read(self, text: str, given: frozenset[str]) -> list[Judgement]:
        """Take a piece of what the model wrote, at most one line of it.

        `given` are the paths of the lines whose operands it was given.
        """
        judgements = self._settle(self.checker.feed(text), given)
        self._loose = not (text.endswith("\n") and judgements and isinstance(judgements[-1], StepVerified))
        return judgements

    def close(self, finish_reason: str | None, given: frozenset[str]) -> list[Judgement]:
        """Take the end of a generation."""
        self._loose = True
        return self._settle(self.checker.close(finish_reason), given)

    def _settle(self, judgements: list[Judgement], given: frozenset[str]) -> list[Judgement]:
        """Note what was judged, and give it as it may be told: a number that a model made up stays here."""
        for judgement in judgements:
            if isinstance(judgement, StepVerified):
                step_class, written = _class(judgement, given), self._written(judgement)
                self.lines.append(Line(judgement, step_class, self.writer, written, self.isolated))
        if not self.lines:
            self._opened = len(self.verified)
        return [
            replace(judgement, step=self.checker.own(judgement.step))
            if isinstance(judgement, Violation)
            else judgement
            for judgement in judgements
        ]

    def _written(self, step: StepVerified) -> int:
        """Count the characters that the model wrote to come to a step."""
        frame = 0 if self._framed else step.at
        written = max(0, frame + len(step.text) - self._begun)
        self._framed, self._begun = True, 0
        return written

    def write(self, step_class: StepClass) -> list[Judgement]:
        """Write the line that is due in the guard's own hand. The guard must know all of it."""
        assert self.expected is not None
        assert self.expected.known, f"step {self.expected.path} is the model's to decide"
        self.open_frame()
        judgements = self.checker.feed(render.line(self.expected) + "\n")
        self.lines.extend(
            Line(judgement, step_class) for judgement in judgements if isinstance(judgement, StepVerified)
        )
        return judgements

    def write_on(self, step_class: StepClass, may: Callable[[Expected], bool]) -> Iterator[Judgement]:
        """Write lines in the guard's own hand for as long as the one that is due `may` be written so."""
        while self.expected is not None and may(self.expected):
            yield from self.write(step_class)

    def rewind(self, lines: int | None = None) -> None:
        """Forget what is not verified, and all lines but so many; None keeps them all."""
        if lines is None and not self._loose:
            return
        verified, self._loose, self._begun = self.verified, False, 0
        if lines is not None and lines < len(self.lines):
            verified = verified[: self._end_of(lines)]
            del self.lines[lines:]
        due, self.checker = self.expected, self._checker(verified)
        if due is not None:
            self.checker.choose(due.path)  # of steps in any order, the one that it was about

    def _end_of(self, lines: int) -> int:
        """Where so many lines end. What was left out behind them (a blank line) goes with the next one."""
        if not lines:
            return self._opened or self.lines[0].step.at
        last = self.lines[lines - 1].step
        return last.at + len(last.text)

    def take_back(self) -> Line:
        """Forget the last line; its step is due again."""
        line = self.lines[-1]
        self.rewind(len(self.lines) - 1)
        self.checker.choose(line.step.path)
        return line

    def put(self, line: Line) -> None:
        """Write a line again that was taken back, as it stood."""
        self.open_frame()
        judgements = self.checker.feed(line.step.text)
        self.lines.extend(replace(line, step=j) for j in judgements if isinstance(j, StepVerified))

    def restart(self) -> None:
        """Forget everything. Only as long as nothing was delivered."""
        assert not self.delivered
        self.lines.clear()
        self._loose = self._framed = False
        self._begun = self._opened = 0
        self.checker = self._checker("")

    def last_decided(self) -> int | None:
        """Where the last line stands that the model decided and that may still be changed."""
        for i in range(len(self.lines) - 1, self.delivered - 1, -1):
            if self.lines[i].step.decided:
                return i
        return None

    def settle(self) -> None:
        """Let every verified line stand, as if the client had it."""
        self.delivered = len(self.lines)

    def deliver(self) -> list[Emit]:
        """Give the client every verified line that it does not have."""
        due = self.lines[self._emitted :]
        self.delivered = self._emitted = len(self.lines)
        return [
            Emit(
                step=line.step.path,
                kind=line.step.kind,
                step_class=line.step_class,
                text=line.step.text,
                value=line.step.value,
                isolated=line.isolated,
            )
            for line in due
        ]


def _class(step: StepVerified, given: frozenset[str]) -> StepClass:
    if step.decided:
        return StepClass.MODEL_DECIDED
    return StepClass.SCAFFOLDED if step.path in given else StepClass.VERIFIED

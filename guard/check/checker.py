"""The checker: the text of a response in, judgements out, as soon as they can be known.

Theory of operation. Text is cut into lines; a line is judged when it ends, never before, so that how a
response is cut into pieces changes nothing. The procedure's execution runs alongside: it yields the step
that must come next and is sent what the model wrote, so that branches and loops follow the trace and only
the newly broken is blamed. A line goes through four phases:

    OPENING  --@begin-->  STEPS  --the answer-->  CLOSING  --@end-->  OVER

`failed` is final. `passed` is reached at `@end`; only text behind that can still undo it. The checker
never raises on any text; used after `close` it raises InvalidState.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from guard.check import order, runaway
from guard.check.compare import Fault, Finding, examine
from guard.check.frame import Frame, Phase
from guard.check.misplaced import Misplaced
from guard.check.prefix import Prefix
from guard.check.quotes import Sources
from guard.check.replay import Executable, Sent, Walk, count_steps, look_ahead, retrace
from guard.check.verdict import Ignored, Judgement, Kind, StepVerified, Verdict, Violation, shown_apart
from guard.errors import InvalidState
from guard.procedure.expected import UNKNOWN, Ending, EndKind, Expected
from guard.procedure.model import ANSWERS, Quoting, StepKind
from guard.procedure.types import Value
from guard.trace import render
from guard.trace.events import Begin, Blank, End, Event, Line, TooLong, Unreadable
from guard.trace.lines import LIMITS, Growing, Limits, Lines, RawLine
from guard.trace.parser import read_line
from guard.wire import finish

VIOLATIONS: Final = 100  # listed of one trace where checking goes on behind the first

_UNDECIDED: Final = "it hangs on what was never decided"
_AHEAD: Final = frozenset({Kind.SKIPPED_STEP, Kind.PREMATURE_ANSWER})
# Steps whose value follows from others: how many items a list has, what the answer is.
_NOT_OVERRIDDEN: Final = ANSWERS | {StepKind.LOOP}


class Checker:
    """Checks one response against one execution of a procedure.

    `nonce` is the request's; None takes whichever the opening line has. `verified` is a prefix that a
    checker has verified before: the new one goes on behind it, with offsets from its start. With
    `stop_at_first=False` it goes on after a violation, from the model's own values, to list the rest.
    `tolerant`: what is no line of a trace (a preamble, a code fence, prose between the steps) is left out
    and noted, instead of a violation.
    """

    def __init__(
        self,
        program: Executable,
        inputs: Mapping[str, Value],
        *,
        nonce: str | None,
        verified: str = "",
        stop_at_first: bool = True,
        tolerant: bool = False,
        limits: Limits = LIMITS,
    ) -> None:
        self.verdict = Verdict.PENDING
        self.violations: list[Violation] = []
        self.program, self.inputs = program, inputs
        self._stop_at_first, self._tolerant = stop_at_first, tolerant
        self._lines = Lines(limits)
        self._hold = self._lines.hold
        self._walk = Walk.start(program, inputs)
        self._frame = Frame(program.name, nonce)
        self._sources = Sources()
        self._prefix = Prefix()
        self._blanks = (0, 0)  # how many lines without a word there were last, and where they ended
        self._misplaced = Misplaced(program, inputs, self._prefix, self._sources)
        self._before_answer: Walk | None = None  # what a premature answer was given instead of
        self._deaf = self._walk.due is None  # reads no further
        if self._deaf:
            self._lines.end()
        self._closed = False
        self._resume(verified)

    # --- what is known -----------------------------------------------------------------------------

    @property
    def nonce(self) -> str | None:
        """The request's nonce, or the one that the opening line has; None as long as neither is there."""
        return self._frame.nonce

    @property
    def verified(self) -> str:
        """The text up to and including the last verified line: a prefix of what was fed.

        It ends with a line feed, but for a last line that had none when the response was closed.
        """
        return self._prefix.text

    @property
    def begun(self) -> bool:
        """Whether something is verified, the opening line or more."""
        return self._prefix.begun

    @property
    def observed(self) -> list[tuple[Expected, Value]]:
        """The verified steps and their values, in order: made again by another execution."""
        return [
            (step, self._prefix.value(step))
            for step in retrace(self.program, self.inputs, self._walk.sent)
            if self._prefix.has(step.path)
        ]

    @property
    def paths(self) -> list[tuple[str, bool]]:
        """The paths of the verified steps in order, and whether the model decided their values."""
        return [(path, path in self._prefix.decided) for path in self._prefix.paths]

    @property
    def supported(self) -> frozenset[str]:
        """The paths of the verified steps whose values the model decided and its quotes say."""
        return frozenset(self._prefix.supported)

    @property
    def violation(self) -> Violation | None:
        """The first departure."""
        return self.violations[0] if self.violations else None

    @property
    def expected(self) -> Expected | None:
        """The step that is due; None where none is left."""
        return self._walk.due

    @property
    def ending(self) -> Ending | None:
        """How the procedure ended, once all of its steps are verified."""
        return self._walk.ending

    @property
    def failed_procedure(self) -> Ending | None:
        """Where and why the procedure itself failed, which is not the model's fault.

        From then on the checker reads nothing and the verdict stays pending.
        """
        ending = self._walk.ending
        return ending if ending is not None and ending.kind is EndKind.FAILED else None

    @property
    def sent(self) -> tuple[Sent, ...]:
        """What the execution was sent, step by step: None where it took its computed value, and picks."""
        return tuple(self._walk.sent)

    def own(self, path: str) -> str:
        """Give a path back where it is one of the procedure's own; "" where it is only written like one."""
        due = self._walk.due
        is_own = self._prefix.has(path) or order.known(path, self.program.step_numbers)
        return path if is_own or (due is not None and path == due.path) else ""

    def choose(self, path: str) -> None:
        """Make a step the one that is due, if it may come as well: the guard's choice, or the model's."""
        if self._walk.due is not None and self._walk.due.others:
            self._walk.pick(path)

    @property
    def steps(self) -> int | None:
        """How many steps the whole execution has, those that are still due computed.

        None where that hangs on what was never decided.
        """
        if self._walk.ending is not None:
            return None if self._walk.undetermined else self._walk.passed
        return count_steps(self.program, self.inputs, self._walk.sent)

    # --- what comes in -----------------------------------------------------------------------------

    def feed(self, text: str) -> list[Judgement]:
        """Take a piece of the response, return what it settled."""
        judgements: list[Judgement] = []
        if "\n" not in text and self._hold(text):
            return judgements
        if self._closed:
            raise InvalidState("a checker was fed after it was closed")
        for item in () if self._deaf else self._lines.feed(text):
            self._take(item, judgements)
            if self._deaf:
                self._lines.end()
                break
        return judgements

    def close(self, finish_reason: str | None = "stop") -> list[Judgement]:
        """Take the end of the response. `finish_reason` as on the wire; None: the connection broke.

        A last line without a line feed is judged only where the model ended by itself: any other may go on.
        """
        judgements: list[Judgement] = []
        if not self._closed and not self._deaf:
            last = self._lines.close()
            if not finish.is_own(finish_reason) and not self._is_whole(last):
                self._end_cut(last, judgements)
            else:
                self._end_of_text(last, judgements)
        self._lines.end()
        self._closed = True
        return judgements

    def _resume(self, verified: str) -> None:
        text = verified if verified.endswith("\n") or not verified else f"{verified}\n"
        self.feed(text)
        if self.verified != text:
            raise InvalidState(f"not a verified prefix from offset {len(self.verified)} on")

    # --- the end of the text -----------------------------------------------------------------------

    def _is_whole(self, last: RawLine | TooLong | None) -> bool:
        """Whether a response that was cut lacks nothing: `@end` is there, or all but its line feed."""
        if last is None:
            return self._frame.phase is Phase.OVER
        if isinstance(last, TooLong):
            return True
        closing = self._frame.phase is Phase.CLOSING and last.text.split() == self._frame.end.split()
        return closing or self._frame.phase is Phase.OVER

    def _end_cut(self, last: RawLine | TooLong | None, out: list[Judgement]) -> None:
        at = last.at if last is not None else self._lines.offset
        begun = f"{last.text}, cut off" if isinstance(last, RawLine) and last.text else "the end of the text"
        self._blame(Kind.TRUNCATED, at, self._wanted(), begun, out)

    def _end_of_text(self, last: RawLine | TooLong | None, out: list[Judgement]) -> None:
        if last is not None:
            self._take(last, out)
        if self._deaf or self._frame.phase is Phase.OVER:
            return
        kind = Kind.MALFORMED if self._walk.due is None else Kind.MISSING_ANSWER
        self._blame(kind, self._lines.offset, self._wanted(), "the end of the text", out)

    # --- one line ----------------------------------------------------------------------------------

    def _take(self, line: RawLine | TooLong | Growing, out: list[Judgement]) -> None:
        if not isinstance(line, RawLine):
            self._take_part(line, out)
            return
        due, frame = self._walk.due, self._frame
        if (
            due is not None
            and frame.phase is Phase.STEPS
            and (line.text == due.text or _is_canonical(line, due))
        ):
            self._accept(due, line, None, out)
        elif frame.phase is Phase.OPENING and frame.nonce and line.text == frame.begin:
            self._open(line, frame.nonce)
        elif frame.phase is Phase.CLOSING and line.text == frame.end:
            self._finish(line)
        else:
            self._take_event(read_line(line), line, out)

    def _take_part(self, part: TooLong | Growing, out: list[Judgement]) -> None:
        if isinstance(part, TooLong):
            self._too_long(part, out)
            return
        due = self._walk.due if self._frame.phase is Phase.STEPS else None
        steps = () if due is None else (due, *due.others)
        step = next((step for step in steps if part.text.startswith(f"{step.path} ")), None)
        if self._tolerant and step is None:
            return  # prose, and what is drawn beside it, may be of any form
        why = runaway.why(part.text, step, self.inputs, lambda: self._prefix.text)
        if why:
            self._run_away(part.at, why, out)

    def _run_away(self, at: int, why: str, out: list[Judgement]) -> None:
        self._blame(Kind.RUNAWAY, at, f"at most {why}", "more", out)
        self._deaf = True

    def _take_event(self, event: Event, line: RawLine, out: list[Judgement]) -> None:
        if self._tolerant and self._frame.is_aside(event):
            self._ignore(line, "no line of the trace", out)
            return
        match event:
            case Line() as step:
                self._take_step(step, line, out)
            case Blank():
                self._take_blank(line, out)
            case Begin() as begin:
                self._take_begin(begin, line, out)
            case End() as end:
                self._take_end(end, line, out)
            case Unreadable() as unreadable:
                self._take_unreadable(unreadable, out)
            case TooLong() as limit:
                self.choose(line.text.partition(" ")[0])
                self._too_long(limit, out)

    def _take_blank(self, line: RawLine, out: list[Judgement]) -> None:
        lines, end = self._blanks
        self._blanks = (lines + 1 if end == line.at else 1, line.end)
        if self._blanks[0] > runaway.BLANK_LINES:
            self._run_away(line.at, f"{runaway.BLANK_LINES} blank lines in a row", out)
        else:
            self._ignore(line, "a blank line", out)

    def _too_long(self, limit: TooLong, out: list[Judgement]) -> None:
        self._blame(Kind.LIMIT_EXCEEDED, limit.at, f"at most {limit.limit}", "more", out)
        self._deaf = True

    def _take_begin(self, begin: Begin, line: RawLine, out: list[Judgement]) -> None:
        if self._frame.opens(begin):
            self._open(line, begin.nonce)
        else:
            self._blame(self._alien(), begin.at, self._wanted(), line.text, out)
            self._frame.skip(Phase.OPENING)

    def _open(self, line: RawLine, nonce: str) -> None:
        self._frame.nonce, self._frame.phase = nonce, Phase.STEPS
        self._prefix.keep(line.raw)

    def _take_end(self, end: End, line: RawLine, out: list[Judgement]) -> None:
        mine = self._frame.is_mine(end.nonce)
        if self._frame.phase is Phase.STEPS and mine and self._walk.due is not None:
            self._blame(Kind.MISSING_ANSWER, end.at, self._wanted(), line.text, out)
            self._frame.phase = Phase.OVER
        elif self._frame.phase in {Phase.STEPS, Phase.CLOSING} and mine:
            self._finish(line)
        else:
            self._blame(self._alien(), end.at, self._wanted(), line.text, out)
            self._frame.skip(Phase.CLOSING)

    def _finish(self, line: RawLine) -> None:
        self._frame.phase = Phase.OVER
        self._prefix.keep(line.raw)
        if self.verdict is Verdict.PENDING:
            self.verdict = Verdict.PASSED

    def _take_unreadable(self, line: Unreadable, out: list[Judgement]) -> None:
        self.choose(line.text.partition(" ")[0])
        self._blame(self._alien(), line.at, f"{self._wanted()} ({line.why})", line.text, out)
        due = self._walk.due
        if self._goes_on and due is not None and line.text.startswith(f"{due.path} "):
            self._walk.skip()  # that was the step, however it was written
            self._note_end()

    def _alien(self) -> Kind:
        """What a line is that belongs to no place of a trace."""
        return Kind.EXTRA_STEP if self._frame.phase is Phase.OVER else Kind.MALFORMED

    def _take_step(self, step: Line, line: RawLine, out: list[Judgement]) -> None:
        self._take_back_answer(step.path)
        self.choose(step.path)
        due = self._walk.due
        if self._frame.phase is Phase.STEPS and due is not None and step.path == due.path:
            self._judge(due, step, line, out)
            return
        if self._walk.undetermined:
            self._ignore(line, _UNDECIDED, out)
            return
        kind = self._kind_of(step)
        self._blame(kind, step.at, self._wanted(), line.text, out, step=step.path)
        if self._frame.phase is Phase.OPENING and self._goes_on:
            self._frame.skip(Phase.OPENING)
            self._take_step(step, line, out)
        elif self._goes_on and kind in _AHEAD:
            self._catch_up(kind, step, line, out)

    def _judge(
        self, due: Expected, step: Line, line: RawLine, out: list[Judgement], *, blamed: bool = False
    ) -> None:
        """Compare a line with the step that it stands for. `blamed`: what is wrong with it was said."""
        finding = examine(due, step, self._sources)
        if finding.fault is None and (due.decision is not None or due.known):
            self._accept(due, line, finding.value, out, supported=_is_supported(due, step))
            return
        if finding.fault is None:
            self._ignore(line, _UNDECIDED, out)
        elif not blamed:
            self._blame_fault(finding.fault, out)
        if self._goes_on:
            self._go_past(due, finding)

    def _kind_of(self, step: Line) -> Kind:
        """What a line is that is not the one due."""
        match self._frame.phase:
            case Phase.OPENING:
                return Kind.MALFORMED
            case Phase.OVER:
                return Kind.EXTRA_STEP
            case _:
                return self._misplaced.kind(step, self._walk)

    # --- what is right -----------------------------------------------------------------------------

    def _accept(
        self,
        due: Expected,
        line: RawLine,
        value: Value | None,
        out: list[Judgement],
        *,
        supported: bool = False,
    ) -> None:
        decided = due.decision is not None
        carried = value if value is not None and decided else due.value
        assert carried is not UNKNOWN
        walk, raw = self._walk, line.raw
        walk.send(value if decided else None)
        self._prefix.add(due, carried, raw, supported=supported)
        out.append(
            StepVerified(
                due.path, due.kind, due.label, due.target, carried, raw, line.at, line.end, decided, supported
            )
        )
        if walk.ending is not None:
            self._note_end()

    def _note_end(self) -> None:
        ending = self._walk.ending
        if ending is None:
            return
        self._deaf = ending.kind is EndKind.FAILED
        if ending.kind in {EndKind.RETURN, EndKind.DENY, EndKind.ESCALATE}:
            self._frame.phase = Phase.CLOSING

    def _ignore(self, line: RawLine, why: str, out: list[Judgement]) -> None:
        self._prefix.leave_out(line.raw)
        out.append(Ignored(text=line.raw, at=line.at, why=why))

    # --- what is wrong -----------------------------------------------------------------------------

    def _blame_fault(self, fault: Fault, out: list[Judgement]) -> None:
        self._blame(fault.kind, fault.at, fault.expected, fault.found, out, cell=fault.cell)

    def _blame(
        self,
        kind: Kind,
        at: int,
        expected: str,
        found: str,
        out: list[Judgement],
        *,
        step: str | None = None,
        cell: int | None = None,
    ) -> None:
        due = self._walk.due
        path, step_kind = (due.path, due.kind) if due is not None else ("", None)
        if kind is Kind.MALFORMED and self._frame.phase is Phase.OPENING:
            path, step_kind = "", None
        elif kind is Kind.EXTRA_STEP:
            path = step or ""
            step_kind = self._step_kind(path)
        expected, found = shown_apart(expected, found)
        violation = Violation(
            kind=kind,
            step=path,
            at=at,
            expected=expected,
            found=found,
            step_kind=step_kind,
            cell=cell,
        )
        self.verdict = Verdict.FAILED
        self._prefix.ended = True
        self.violations.append(violation)
        out.append(violation)
        self._deaf = self._stop_at_first or len(self.violations) >= VIOLATIONS

    def _step_kind(self, path: str) -> StepKind | None:
        return order.kind_of(path, self.program.step_numbers)

    def _wanted(self) -> str:
        """The line that is due, for people."""
        return self._frame.wanted(self._walk.due)

    # --- going on behind a violation ---------------------------------------------------------------

    @property
    def _goes_on(self) -> bool:
        return not self._deaf

    def _go_past(self, due: Expected, finding: Finding) -> None:
        """Go past a wrong step with the model's own value, so that what follows from it is not blamed."""
        if finding.value is None or due.kind in _NOT_OVERRIDDEN:
            self._walk.skip()
        else:
            self._walk.send(finding.value)
        self._note_end()

    def _catch_up(self, kind: Kind, step: Line, line: RawLine, out: list[Judgement]) -> None:
        """Go past what was skipped and judge the step that was written, if it is one that comes."""
        walk = look_ahead(self.program, self.inputs, self._walk.sent, step.path)
        if walk.due is not None and walk.due.path == step.path:
            premature = kind is Kind.PREMATURE_ANSWER
            self._before_answer = self._walk if premature else None
            self._walk = walk
            self._judge(walk.due, step, line, out, blamed=premature)
        elif walk.undetermined:
            self._walk = walk

    def _take_back_answer(self, path: str) -> None:
        """Go on where a premature answer stood, if the model does: the one departure was that answer."""
        before = self._before_answer
        if before is not None and before.pick(path):
            answered = self._frame.phase in {Phase.CLOSING, Phase.OVER}
            paths = self._prefix.paths
            if answered and paths and self._step_kind(paths[-1]) in ANSWERS:
                self._prefix.drop_last()
            self._walk, self._frame.phase = before, Phase.STEPS
        self._before_answer = None


def _is_supported(due: Expected, step: Line) -> bool:
    """Whether a right line has the words that its value must be said in."""
    return due.decision is not None and due.decision.quote is Quoting.SUPPORTING and bool(step.quotes)


def _is_canonical(line: RawLine, due: Expected) -> bool:
    """Whether a line is the guard's own spelling of the step that is due: most are, and need no reading."""
    return due.text is None and due.decision is None and line.text == render.canonical(due)

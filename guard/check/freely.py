"""What a text that nobody forced into a format shows of a procedure: judged only as far as it can be read.

A text with an opening line of the procedure is a trace, and the checker's. Any other is read in free-form
mode and set beside an execution, in which the model's decisions, and its wrong values, are carried on.
Lines that prose does not have (branches, loops, conditions) count only where they are written, lists and
records only as answers: what cannot be known is neither right nor wrong, and the verdict stays pending.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from guard.check.answers import as_value, is_scalar, same, says, worded, written_json
from guard.check.checker import VIOLATIONS, Checker
from guard.check.replay import Sent, Walk
from guard.check.verdict import Judgement, Kind, StepVerified, Verdict, Violation, shown
from guard.procedure.execute import Program
from guard.procedure.expected import UNKNOWN, Ending, EndKind, Expected, Pick, Unknown
from guard.procedure.listing import walk
from guard.procedure.model import Return, StepKind
from guard.procedure.nodes import Name
from guard.procedure.types import StringType, Type, Value
from guard.procedure.values import equal, spell
from guard.trace.equations import Part
from guard.trace.freeform import Answer, Reading, Seen, reading_freely

SLICE: Final = 512  # characters that a checker is told in one go
STEPS: Final = 5_000  # of an execution; one with more is not judged
TURN: Final = 50  # steps that are executed in one go
ROUNDS: Final = 3  # readings until the steps that are looked for stay the same

_CUT: Final = frozenset({None, "length", "content_filter", "max_tokens"})
_ENDS: Final = frozenset({StepKind.RETURN, StepKind.DENY, StepKind.ESCALATE})
_CONDITIONS: Final = frozenset({StepKind.BRANCH, StepKind.WHILE, StepKind.REQUIRE, StepKind.CHECK})
_PASS: Final = re.compile(r"\[[0-9]+\]")

Class = Literal["verified", "model_decided", "missing"]
AnswerIs = Literal["right", "wrong", "none", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a text shows.

    `classes` has the steps that could be judged, by path, each with its kind; a wrong one is `missing`.
    `answer_at` is where the first answer stands, as a share of the text; None where there is none.
    `answer` compares the last one with the execution's. `too_long`: the execution was given up.
    """

    reading: Literal["trace", "free"]
    verdict: Verdict
    violations: tuple[Violation, ...] = ()
    classes: Mapping[str, tuple[StepKind, Class]] = field(default_factory=dict)
    answer: AnswerIs = "unknown"
    answer_at: float | None = None
    too_long: bool = False


def findings(
    program: Program, inputs: Mapping[str, Value], text: str, finish_reason: str | None = "stop"
) -> Generator[None, None, Findings]:
    """Judge a whole answer. Yields now and then, so that others get their turn.

    `finish_reason` is as on the wire: an answer that was cut is blamed for nothing it had no room for.
    """
    opening = re.compile(rf"^[ \t]*@begin {re.escape(program.name)} [0-9a-f]{{6}}[ \t\r]*$", re.MULTILINE)
    if opening.search(text):
        return (yield from _check(program, inputs, text, finish_reason))
    return (yield from _Comparison(program, inputs, text, finish_reason).run())


# --- a trace -------------------------------------------------------------------------------------


def _check(
    program: Program, inputs: Mapping[str, Value], text: str, finish_reason: str | None
) -> Generator[None, None, Findings]:
    checker = Checker(program, inputs, nonce=None, stop_at_first=False, tolerant=True)
    heard: list[Judgement] = []
    for at in range(0, len(text), SLICE):
        heard += checker.feed(text[at : at + SLICE])
        yield
    heard += checker.close(finish_reason)
    verifications = [one for one in heard if isinstance(one, StepVerified)]
    ending = yield from _true_ending(
        program, inputs, {one.path: one.value for one in verifications if one.decided}
    )
    answers = list(_answers(heard))
    steps, ended = yield from _all_steps(program, inputs, checker.sent)
    cut = any(violation.kind is Kind.TRUNCATED for violation in checker.violations)
    verified = dict(checker.paths)
    classes: dict[str, tuple[StepKind, Class]] = {}
    for place, (path, kind) in enumerate(steps):
        if path in verified:
            classes[path] = (kind, "model_decided" if verified[path] else "verified")
        elif not cut or place < len(checker.sent):
            classes[path] = (kind, "missing")
    right = [ending is not None and one.value == ending.value for one in verifications if one.kind in _ENDS]
    return Findings(
        reading="trace",
        verdict=_verdict(checker.violations, sure=checker.verdict is Verdict.PASSED),
        violations=tuple(checker.violations),
        classes=classes,
        answer="none" if not answers else "right" if any(right) else "wrong",
        answer_at=answers[0] / len(text) if answers else None,
        too_long=not ended,
    )


def _answers(judgements: Iterable[Judgement]) -> Iterator[int]:
    """Give the places of the answers, right or wrong."""
    for judgement in judgements:
        match judgement:
            case StepVerified(kind=kind, at=at) if kind in _ENDS:
                yield at
            case Violation(kind=Kind.PREMATURE_ANSWER | Kind.WRONG_ANSWER, at=at):
                yield at
            case _:
                pass


def _all_steps(
    program: Program, inputs: Mapping[str, Value], sent: Iterable[Sent]
) -> Generator[None, None, tuple[list[tuple[str, StepKind]], bool]]:
    """Give the steps of an execution, carried on behind what was sent; and whether there are no more."""
    walk, steps = Walk.start(program, inputs), list[tuple[str, StepKind]]()
    rest = iter(sent)
    while walk.due is not None and len(steps) < STEPS:
        value = next(rest, ...)
        if not isinstance(value, Pick):
            steps.append((walk.due.path, walk.due.kind))
        if value is ...:
            walk.skip()
        else:
            walk.send(value)
        if len(steps) % TURN == 0:
            yield
    return steps, walk.due is None


def _true_ending(
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


def _verdict(violations: Sequence[Violation], *, sure: bool) -> Verdict:
    """Name what a text came to; `sure`: all that there is to be known of it is known, and right."""
    if any(violation.kind is not Kind.TRUNCATED for violation in violations):
        return Verdict.FAILED
    return Verdict.PASSED if sure and not violations else Verdict.PENDING


# --- any other text ------------------------------------------------------------------------------


class _Written:
    """What a text says of steps: by path where a reading was told the paths, else by number, in order."""

    def __init__(self, reading: Reading, keys: Sequence[str], *, by_path: bool) -> None:
        self._by_path = by_path
        self._of: dict[str, list[Seen]] = {}
        for seen in reading.seen:
            if seen.step is not None:
                self._of.setdefault(keys[seen.step], []).append(seen)
        self._taken: dict[str, int] = {}

    def of(self, step: Expected) -> list[Seen]:
        """Give what there is of a step; of one in a loop without paths what no pass before it has taken."""
        if self._by_path:
            return self._of.get(step.path, [])
        taken = self._taken.get(step.number, 0)
        self._taken[step.number] = taken + 1
        return self._of.get(step.number, [])[taken:]


class _Comparison:
    """Sets one text beside one execution."""

    def __init__(
        self, program: Program, inputs: Mapping[str, Value], text: str, finish_reason: str | None
    ) -> None:
        self._program, self._inputs, self._text = program, inputs, text
        self._cut = finish_reason in _CUT
        self._whole = len(text.rstrip()) if self._cut else len(text) + 1  # what ends before it is whole
        self._ending: Ending | None = None
        self._violations: list[Violation] = []
        self._classes: dict[str, tuple[StepKind, Class]] = {}
        self._skipped: list[Expected] = []  # since the last step that was seen
        self._decided: dict[str, Value] = {}
        self._words: dict[str, list[Part]] = {}  # by name
        self._json: dict[str, tuple[Value, int] | None] = {}  # by number
        self._names = Counter(getattr(one, "target", None) for one in walk(program.procedure.body))

    def run(self) -> Generator[None, None, Findings]:
        names = yield from reading_freely(self._text, self._program)
        steps = yield from self._walk(_Written(names, list(self._program.step_numbers), by_path=False))
        for _ in range(ROUNDS):
            reading = yield from reading_freely(self._text, steps, given=self._given)
            written = _Written(reading, [step.path for step in steps], by_path=True)
            before, steps = steps, (yield from self._walk(written))
            if [step.path for step in steps] == [step.path for step in before]:
                break
        # A value of the variable that is returned answers only where nothing else does.
        answers = reading.answers or names.answers[-1:] or self._returned(steps, written)
        answer = self._judge(steps, written, answers)
        if self._ending is not None and self._ending.kind is not EndKind.UNDETERMINED:
            self._blame_extra(reading.extra)
        truth = yield from _true_ending(self._program, self._inputs, self._decided)
        self._violations.sort(key=lambda violation: violation.at)
        return Findings(
            reading="free",
            verdict=_verdict(self._violations, sure=answer == "right" and not self._cut),
            violations=tuple(self._violations[:VIOLATIONS]),
            classes=self._classes,
            answer="unknown" if truth is None else self._compared(truth, answers),
            answer_at=answers[0].at / len(self._text) if answers else None,
            too_long=self._ending is None,
        )

    def _returned(self, steps: Sequence[Expected], written: _Written) -> tuple[Answer, ...]:
        """Give the value of the variable that is returned, if a step that has only a number shows it."""
        last = self._program.procedure.body[-1]
        if not isinstance(last, Return) or not isinstance(last.expression, Name):
            return ()
        ours = [step for step in steps if step.target == last.expression.name]
        found = [part for step in ours for part in self._parts(step, written.of(step))]
        return tuple(Answer(text=one.text, value=one.value, at=one.at, end=one.end) for one in found[-1:])

    @property
    def _given(self) -> list[str]:
        return [parameter.name for parameter in self._program.parameters]

    # --- the execution -----------------------------------------------------------------------------

    def _walk(self, written: _Written) -> Generator[None, None, list[Expected]]:
        """Execute with what the text says: the model's decisions, and its own values where they differ."""
        under_way, steps = Walk.start(self._program, self._inputs), list[Expected]()
        self._decided.clear()
        while under_way.due is not None and len(steps) < STEPS:
            due = under_way.due
            steps.append(due)
            under_way.send(self._carried(due, self._parts(due, written.of(due))))
            if len(steps) % TURN == 0:
                yield
        self._ending = under_way.ending
        return steps

    def _carried(self, due: Expected, parts: Sequence[Part]) -> Value | Unknown | None:
        """What an execution goes on with behind a step: what the model wrote, where that can be."""
        type = _type(due)  # noqa: A001
        own = as_value(parts[0].value, type) if parts and type is not None else None
        if due.decision is not None:
            own = self._of_json(due) if own is None else own
            if own is None or due.decision.admissible(own):
                return UNKNOWN
            self._decided[due.path] = own
            return own
        expected = due.value
        if own is None or due.target is None or due.kind in _ENDS:
            return None
        corrected = type is not None and any(_is(part, expected, type) for part in parts)
        return None if corrected else own

    def _parts(self, step: Expected, seen: Sequence[Seen]) -> list[Part]:
        """Give the values that are written of a step; not those of another kind, nor one that was cut."""
        type = _type(step)  # noqa: A001
        if type is None or not is_scalar(type):
            return []
        parts = [one.result for one in seen if one.result is not None]
        if step.target is not None and self._names[step.target] == 1:
            parts += self._worded(step.target, type)
        fitting = {
            part.at: part
            for part in parts
            if part.end < self._whole and as_value(part.value, type) is not None
        }
        return [part for _, part in sorted(fitting.items())]

    def _worded(self, name: str, type: Type) -> list[Part]:  # noqa: A002
        if name not in self._words:
            self._words[name] = worded(self._text, name, type)
        return self._words[name]

    def _of_json(self, step: Expected) -> Value | None:
        """Give a list or record that the model decided and wrote as JSON."""
        type = step.decision.type if step.decision is not None else None  # noqa: A001
        if type is None or is_scalar(type):
            return None
        if step.number not in self._json:
            self._json[step.number] = written_json(self._text, type)
        found = self._json[step.number]
        return found[0] if found is not None else None

    # --- what is right and wrong --------------------------------------------------------------------

    def _judge(self, steps: Sequence[Expected], written: _Written, answers: Sequence[Answer]) -> AnswerIs:
        """Judge every step; gives how the answer compares with what the model's own values come to."""
        last = 0  # where the one of the steps stands that comes last in the text
        for step in steps:
            if step.kind not in _ENDS:
                seen = written.of(step)
                self._take(step, seen)
                last = max(last, seen[0].at if seen and step.target is not None else 0)
        if self._cut:
            self._blame(Kind.TRUNCATED, steps[-1] if steps else None, len(self._text), "more", "its end")
            return "unknown"
        end = steps[-1] if steps and steps[-1].kind in _ENDS else None
        answer: AnswerIs = "unknown" if self._ending is None else self._compared(self._ending, answers)
        if end is not None and answer in {"right", "wrong"}:
            self._classes[end.path] = (end.kind, "verified" if answer == "right" else "missing")
        self._blame_end(end, answer, answers, last)
        for step in self._skipped:
            self._classes[step.path] = (step.kind, "missing")
        return answer

    def _take(self, step: Expected, seen: Sequence[Seen]) -> None:
        """Judge a step by the places where it is written."""
        type = _type(step)  # noqa: A001 (the type of a value is its type)
        if type is None:
            return
        if not is_scalar(type):
            if self._of_json(step) is not None:
                self._classes[step.path] = (step.kind, "model_decided")
            return
        parts = self._parts(step, seen)
        places = [*(one.at for one in seen), *(part.at for part in parts)]
        if step.target is not None and not places:
            self._skipped.append(step)
            return
        if step.target is not None:
            self._pass_over(min(places))
        for part in parts:
            self._take_value(step, part, type)

    def _take_value(self, step: Expected, part: Part, type: Type) -> None:  # noqa: A002
        again = step.path in self._classes
        value = as_value(part.value, type)
        expected = step.value
        if again:
            if self._classes[step.path][1] == "verified" and not _is(part, expected, type):
                self._blame(Kind.SELF_CORRECTION, step, part.at, _spelled(expected, type), part.text)
        elif step.decision is not None and value is not None:
            reason = step.decision.admissible(value)
            self._classes[step.path] = (step.kind, "missing" if reason else "model_decided")
            if reason:
                self._blame(Kind.INADMISSIBLE_VALUE, step, part.at, reason, part.text)
        elif not isinstance(expected, Unknown):
            right = _is(part, expected, type)
            self._classes[step.path] = (step.kind, "verified" if right else "missing")
            if not right:
                kind = Kind.WRONG_BRANCH if step.kind in _CONDITIONS else Kind.WRONG_VALUE
                self._blame(kind, step, part.at, _spelled(expected, type), part.text)

    def _pass_over(self, at: int) -> None:
        """A step is written at a place: those between it and the last one that was are skipped."""
        if self._skipped:
            first = self._skipped[0]
            self._blame(Kind.SKIPPED_STEP, first, at, f"step {first.path}", "a later step")
            for step in self._skipped:
                self._classes[step.path] = (step.kind, "missing")
            self._skipped.clear()

    def _blame_end(
        self, end: Expected | None, answer: AnswerIs, answers: Sequence[Answer], last: int
    ) -> None:
        """Say what is wrong with the end of the text: one departure, however much of it is missing."""
        due = self._skipped[0] if self._skipped else end
        if answers and (self._skipped or answers[0].at < last):
            self._blame(Kind.PREMATURE_ANSWER, due, answers[0].at, "the steps before it", answers[0].text)
        elif answer == "none":
            self._blame(Kind.MISSING_ANSWER, due, len(self._text), "an answer", "the end of the text")
        elif self._skipped:
            self._blame(Kind.SKIPPED_STEP, due, len(self._text), f"step {self._skipped[0].path}", "its end")
        elif answer == "wrong" and self._ending is not None and self._ending.value is not None:
            at, found = (answers[-1].at, answers[-1].text) if answers else (len(self._text), "another one")
            self._blame(Kind.WRONG_ANSWER, end, at, _spelled(self._ending.value, self._result), found)

    @property
    def _result(self) -> Type:
        """The type of what the text must come to."""
        returns = self._ending is None or self._ending.kind is EndKind.RETURN
        return self._program.result if returns else StringType()

    def _compared(self, ending: Ending, answers: Sequence[Answer]) -> AnswerIs:
        """Compare the answer with the end of an execution: the last of several counts."""
        expected = ending.value
        if expected is None or isinstance(expected, Unknown):
            return "unknown"
        if ending.kind is not EndKind.RETURN and says(self._text, expected):
            return "right"
        if ending.kind is EndKind.RETURN and not is_scalar(self._program.result):
            found = written_json(self._text, self._program.result)
            return "unknown" if found is None else "right" if equal(found[0], expected) else "wrong"
        type = self._program.result if ending.kind is EndKind.RETURN else StringType()  # noqa: A001
        if not answers:
            return "none"
        return "right" if same(answers[-1].value, expected, type) else "wrong"

    def _blame_extra(self, extra: Sequence[Seen]) -> None:
        for seen in extra:
            if seen.number is not None and seen.result is not None:
                self._blame(Kind.EXTRA_STEP, None, seen.at, "no such step", seen.number, extra=seen.number)

    def _blame(
        self, kind: Kind, step: Expected | None, at: int, expected: str, found: str, *, extra: str = ""
    ) -> None:
        number = extra and self._program.step_numbers.get(_PASS.sub("", extra))
        self._violations.append(
            Violation(
                kind=kind,
                step=step.path if step is not None else extra,
                at=at,
                expected=shown(expected),
                found=shown(found),
                step_kind=step.kind if step is not None else number or None,
            )
        )


def _type(step: Expected) -> Type | None:
    """Give the type of a step's value where it is one value that a text could show."""
    if step.decision is not None:
        return step.decision.type
    if len(step.cells) != 1 or step.cells[0].key or step.cells[0].bare:
        return None
    return step.cells[0].type


def _is(part: Part, expected: Value | Unknown, type: Type) -> bool:  # noqa: A002
    return not isinstance(expected, Unknown) and same(part.value, expected, type)


def _spelled(value: Value | Unknown, type: Type) -> str:  # noqa: A002
    return "another value" if isinstance(value, Unknown) else spell(value, type)

"""A text in no agreed format set beside an execution of its procedure: its steps, its answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from guard.check.answers import (
    Unfit,
    as_value,
    compared,
    is_scalar,
    same,
    same_json,
    says,
    worded,
    written_json,
)
from guard.check.checker import VIOLATIONS
from guard.check.ended import true_ending
from guard.check.findings import STEPS, TURN, AnswerIs, Class, Findings, verdict
from guard.check.replay import Walk
from guard.check.verdict import Kind, Violation, shown_apart
from guard.procedure.execute import Program
from guard.procedure.expected import UNKNOWN, Ending, EndKind, Expected, Unknown
from guard.procedure.listing import walk
from guard.procedure.model import ANSWERS, Return, StepKind
from guard.procedure.nodes import Name
from guard.procedure.types import StringType, TextType, Type, Value
from guard.procedure.values import equal, spell, wanted
from guard.trace.announced import Answer
from guard.trace.freeform import Reading, Seen, reading_freely
from guard.trace.results import Part
from guard.wire import finish

ROUNDS: Final = 3  # readings until the steps that are looked for stay the same

_CONDITIONS: Final = frozenset({StepKind.BRANCH, StepKind.WHILE, StepKind.REQUIRE, StepKind.CHECK})
_PASS: Final = re.compile(r"\[[0-9]+\]")


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


class Comparison:
    """Sets one text beside one execution."""

    def __init__(
        self, program: Program, inputs: Mapping[str, Value], text: str, finish_reason: str | None
    ) -> None:
        self._program, self._inputs, self._text = program, inputs, text
        self._cut = not finish.is_own(finish_reason)
        # What ends before it is whole: of a text that was cut, not its last line, unless that has an end.
        self._whole = len(text) + 1 if not self._cut or text.endswith("\n") else len(text.rstrip())
        self._ending: Ending | None = None
        self._violations: list[Violation] = []
        self._classes: dict[str, tuple[StepKind, Class]] = {}
        self._skipped: list[Expected] = []  # since the last step that was seen
        self._unread: list[str] = []
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
        truth = yield from true_ending(self._program, self._inputs, self._decided)
        self._violations.sort(key=lambda violation: violation.at)
        sure = answer == "right" and not self._cut and not self._unread
        return Findings(
            reading="free",
            verdict=verdict(self._violations, sure=sure),
            violations=tuple(self._violations[:VIOLATIONS]),
            classes=self._classes,
            answer="unknown" if truth is None else self._compared(truth, answers),
            answer_at=answers[0].at / len(self._text) if answers else None,
            unread=tuple(self._unread),
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
        own = _value(parts[0], type) if parts and type is not None else None
        if due.decision is not None:
            own = self._of_json(due) if own is None else own
            if own is None or due.decision.admissible(own):
                return UNKNOWN
            self._decided[due.path] = own
            return own
        expected = due.value
        if own is None or due.target is None or due.kind in ANSWERS:
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
        whole = {part.at: part for part in parts if part.end < self._whole}
        return [part for _, part in sorted(whole.items())]

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
        callers: dict[str, Expected] = {}
        for step in steps:
            if step.kind is StepKind.DO:
                callers[step.path] = step
            if step.kind not in ANSWERS:
                seen = written.of(step)
                self._take(step, seen)
                if step.kind is StepKind.RESULT:
                    called = callers.get(_caller(step.path, callers))
                    self._take_result(step, called, written.of(called) if called is not None else ())
                last = max(last, seen[0].at if seen and step.target is not None else 0)
        if self._cut:
            self._blame(Kind.TRUNCATED, steps[-1] if steps else None, len(self._text), "more", "its end")
            return "unknown"
        end = steps[-1] if steps and steps[-1].kind in ANSWERS else None
        answer: AnswerIs = "unknown" if self._ending is None else self._compared(self._ending, answers)
        if end is not None and answer in {"right", "wrong"}:
            self._classes[end.path] = (end.kind, "verified" if answer == "right" else "missing")
        elif end is not None and answers and not any(map(self._read, answers[-1:])):
            self._note_unread(end)
        self._blame_end(end, answer, answers, last)
        for step in self._skipped:
            self._classes[step.path] = (step.kind, "missing")
        return answer

    def _take(self, step: Expected, seen: Sequence[Seen]) -> None:
        """Judge a step by the places where it is written."""
        type = _type(step)  # noqa: A001 (the type of a value is its type)
        if type is None or not is_scalar(type):
            self._take_composed(step, seen)
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
        if self._leaves_unread(step, seen, type):
            self._note_unread(step)

    def _take_composed(self, step: Expected, seen: Sequence[Seen]) -> None:
        """Judge a list or record: what the model decided of it, or what stands as JSON after its name."""
        if step.decision is not None:
            if self._of_json(step) is not None:
                self._classes[step.path] = (step.kind, "model_decided")
            elif seen:
                self._note_unread(step)
            return
        value = step.value
        if step.target is None or not isinstance(value, tuple | dict):
            return
        for one in seen:
            end = self._text.find("\n", one.at)
            line = self._text[one.at : end if end >= 0 else len(self._text)]
            found = same_json(line, value)
            if found is None:
                self._note_unread(step)
            elif step.path not in self._classes:
                self._classes[step.path] = (step.kind, "verified" if found[0] else "missing")
                if not found[0]:
                    self._blame(Kind.WRONG_VALUE, step, one.at + found[1], "another value", line[found[1] :])

    def _take_result(self, result: Expected, called: Expected | None, seen: Sequence[Seen]) -> None:
        """Judge what a text says that the step which called a procedure comes to."""
        type = _type(result)  # noqa: A001
        if called is None or called.target is None or type is None or not is_scalar(type):
            return
        step = replace(result, target=called.target)
        for part in self._parts(step, seen):
            self._take_value(step, part, type)
        if any(one.unread for one in seen):
            self._note_unread(step)

    def _leaves_unread(self, step: Expected, seen: Sequence[Seen], type: Type) -> bool:  # noqa: A002
        """Whether a step is written, but not all of it could be read."""
        whole = [one for one in seen if one.end < self._whole]
        if any(one.unread for one in whole):
            return True
        if step.target is None or not whole or step.path in self._classes or isinstance(step.value, Unknown):
            return False
        texts = [self._text[one.parts[-1].at : one.parts[-1].end] for one in whole if one.parts]
        if isinstance(type, StringType | TextType) and any(same(text, step.value, type) for text in texts):
            self._classes[step.path] = (step.kind, "verified")
            return False
        return True

    def _note_unread(self, step: Expected) -> None:
        if step.path not in self._unread:
            self._unread.append(step.path)

    def _take_value(self, step: Expected, part: Part, type: Type) -> None:  # noqa: A002
        expected = step.value
        if step.decision is not None:
            self._take_decision(step, part, type)
            return
        if isinstance(expected, Unknown):
            return
        judged = compared(part, expected, type)
        if judged == "unread":
            self._note_unread(step)
        elif step.path not in self._classes:
            right = judged == "right"
            self._classes[step.path] = (step.kind, "verified" if right else "missing")
            if not right:
                kind = Kind.WRONG_BRANCH if step.kind in _CONDITIONS else Kind.WRONG_VALUE
                self._blame(kind, step, part.at, _spelled(expected, type), part.text)
        elif self._classes[step.path][1] == "verified" and judged == "wrong":
            self._blame(Kind.SELF_CORRECTION, step, part.at, _spelled(expected, type), part.text)

    def _take_decision(self, step: Expected, part: Part, type: Type) -> None:  # noqa: A002
        value = as_value(part.value, type)
        if value is Unfit.UNREAD:
            self._note_unread(step)
        if value is Unfit.UNREAD or step.path in self._classes or step.decision is None:
            return
        reason = wanted(type) if isinstance(value, Unfit) else step.decision.admissible(value)
        self._classes[step.path] = (step.kind, "missing" if reason else "model_decided")
        if reason:
            self._blame(Kind.INADMISSIBLE_VALUE, step, part.at, reason, part.text)

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
        given = [one for one in answers if self._ending is None or self._read(one)]
        if given and (self._skipped or given[0].at < last):
            self._blame(Kind.PREMATURE_ANSWER, due, given[0].at, "the steps before it", given[0].text)
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
        if not answers:
            return "none"
        judged = compared(answers[-1], expected, self._result)
        return "unknown" if judged == "unread" else judged

    def _read(self, answer: Answer) -> bool:
        """Whether an answer could be read as what the text must come to."""
        expected = self._ending.value if self._ending is not None else None
        if expected is None or isinstance(expected, Unknown) or not is_scalar(self._result):
            return answer.value is not None
        return compared(answer, expected, self._result) != "unread"

    def _blame_extra(self, extra: Sequence[Seen]) -> None:
        for seen in extra:
            if seen.number is not None and seen.result is not None:
                self._blame(Kind.EXTRA_STEP, None, seen.at, "no such step", seen.number, extra=seen.number)

    def _blame(
        self, kind: Kind, step: Expected | None, at: int, expected: str, found: str, *, extra: str = ""
    ) -> None:
        expected, found = shown_apart(expected, found)
        number = extra and self._program.step_numbers.get(_PASS.sub("", extra))
        self._violations.append(
            Violation(
                kind=kind,
                step=step.path if step is not None else extra,
                at=at,
                expected=expected,
                found=found,
                step_kind=step.kind if step is not None else number or None,
            )
        )


def _caller(path: str, callers: Mapping[str, Expected]) -> str:
    """Give the path of the innermost step that called the procedure in which a step stands."""
    while path and path not in callers:
        path = path.rpartition(".")[0]
    return path


def _type(step: Expected) -> Type | None:
    """Give the type of a step's value where it is one value that a text could show."""
    if step.decision is not None:
        return step.decision.type
    if len(step.cells) != 1 or step.cells[0].key or step.cells[0].bare:
        return None
    return step.cells[0].type


def _is(part: Part, expected: Value | Unknown, type: Type) -> bool:  # noqa: A002
    return not isinstance(expected, Unknown) and compared(part, expected, type) == "right"


def _value(part: Part, type: Type) -> Value | None:  # noqa: A002
    value = None if part.about else as_value(part.value, type)
    return None if isinstance(value, Unfit) else value


def _spelled(value: Value | Unknown, type: Type) -> str:  # noqa: A002
    return "another value" if isinstance(value, Unknown) else spell(value, type)

"""Free-form mode: which steps a text in no agreed format shows, and every answer in it, with their places.

Reads prose, Markdown, LaTeX and JSON. It says what is written where, never whether that is right, and
keeps what cannot be known apart: a step that may rightly be absent is `undecided`, not `missing`.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from typing import Final

from guard.procedure.execute import Program
from guard.procedure.expected import Expected
from guard.procedure.listing import walk
from guard.procedure.model import AnyOrder, Deny, If, Return, StepKind
from guard.procedure.model import Step as Statement
from guard.procedure.nodes import Name
from guard.trace.equations import Part, Value, chains
from guard.trace.numerals import dated, numeral, plain
from guard.trace.objects import OPENING, PIECE, Object, read_objects
from guard.wire.thinking import without_thoughts

_PASS: Final = re.compile(r"\[[0-9]+\]")
_NUMBER: Final = r"[0-9]{1,9}(?:\[[0-9]{1,9}\])?+(?:\.[0-9]{1,9}(?:\[[0-9]{1,9}\])?+)*+"
# What Markdown puts in front of a line's text; a bullet has a blank behind it, a sign has none.
_DECORATION: Final = re.compile(r"(?:[ \t\r>`|]|#++(?!# ?-?[0-9$])|[-+*•](?=[ \t])|\*\*|__)*+")
_LABEL: Final = re.compile(
    rf"(?:[Ss](?:tep|TEP)[ \t]*+#?+(?P<named>{_NUMBER})|[\[(](?P<bracketed>{_NUMBER})[\])]"
    rf"|(?P<listed>{_NUMBER})(?=[.):][ \t*_`]|[ \t]*+\|)"
    rf"|(?P<traced>{_NUMBER})(?=[ \t]++(?:[A-Za-z_]\w*+[ \t]*+=(?!=)"
    r"|(?:if|elif|require|check|return|deny|for)\b)))"
    r"[ \t]*+(?:\*\*|__)?+[ \t]*+(?:[:.)|]|[-–—](?=[ \t]))?+[ \t]*+(?:\*\*|__)?+[ \t]*+"  # noqa: RUF001
)
_HEADER: Final = re.compile(r"for[ \t]++[A-Za-z_]\w*+[ \t]++in\b[ \t]*+")
_END: Final = re.compile(r"(?P<word>return|deny)\b[ \t]*+(?P<rest>[^\n]*)")
_MARK: Final = re.compile(
    r"(?:####|\b(?:final[ \t]+(?:answer|value|result|number|total|output)|answer)\b)"
    r"(?:[ \t]+(?:of|for|to)[ \t]+\S{1,64})?+[ \t*_`]*+(?P<link>[:=]|is\b:?|equals\b)?+[ \t*_`]*+",
    re.IGNORECASE,
)
_BOXED: Final = re.compile(r"\\boxed[ \t]*+\{(?P<inside>[^{}\n]{0,200})")
_SAID: Final = re.compile(r"(?:true|false|yes|no)\b|\"[^\"\n]{0,200}\"", re.IGNORECASE)
# What may stand in front of a number, and what shows that it is not alone.
_LEAD: Final = re.compile(
    r"(?:[ \t*_`]|\\?\$|[€£]|\\[(\[]|\\boxed\{)*+(?:(?P<minus>-)[ \t]*+|\+[ \t]*+)?+(?:\\?\$|[€£])?+"
)
_GOES_ON: Final = re.compile(r"[ \t]*+(?:[-+/=<>^][ \t]*+[\w(.]|\*(?!\*)[ \t]*+[\w(])|\w")
_TRIM: Final = " \t\r*_`.$"
MARKS: Final = 64  # announcements of an answer in one line
_TEXT: Final = 200  # characters of an answer that is no number
_SURE: Final = frozenset(
    {StepKind.ASSIGN, StepKind.EXTRACT, StepKind.JUDGE, StepKind.BRANCH, StepKind.LOOP, StepKind.RETURN}
)
_HOLDS: Final = frozenset({StepKind.REQUIRE, StepKind.CHECK})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """A step to look for: its number, the variable it gives a value, if any, and whether it must occur."""

    number: str
    name: str | None = None
    sure: bool = True
    answers: bool = False  # its value is an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A step as written. `step` is its index among the steps looked for, None for one not among them.

    `number` and `name` are what the text calls it by. `parts` are what its equals signs divide: the
    last one is the result as far as it has a value. Offsets are in code points.
    """

    step: int | None
    number: str | None
    name: str | None
    parts: tuple[Part, ...]
    at: int
    end: int

    @property
    def result(self) -> Part | None:
        """The part with the value that the step comes to, None where none is written."""
        return self.parts[-1] if self.parts and self.parts[-1].value is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer and where it stands; `value` is None where the text is nothing that has one."""

    text: str
    value: Value | None
    at: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a text shows. `missing` steps do not occur in it, `undecided` ones do not and need not."""

    seen: tuple[Seen, ...]  # in the order of the text; a step may occur several times
    extra: tuple[Seen, ...]
    missing: tuple[Sought, ...]
    undecided: tuple[Sought, ...]
    answers: tuple[Answer, ...]

    @property
    def first_answer(self) -> Answer | None:
        """The answer that stands first, None where there is none."""
        return self.answers[0] if self.answers else None

    @property
    def last_answer(self) -> Answer | None:
        """The answer that stands last, None where there is none."""
        return self.answers[-1] if self.answers else None


def sought(steps: Program | Iterable[Expected | str]) -> tuple[Sought, ...]:
    """Give the steps to look for.

    Of a program, those that do not hang on a condition are sure; the steps that an execution yielded
    all are. Names count as numbered from 1, and the last one's value is the answer.
    """
    if isinstance(steps, Program):
        return _of_program(steps)
    listed = [
        Sought(number=str(place), name=step)
        if isinstance(step, str)
        else Sought(number=step.path, name=step.target, answers=step.kind in (StepKind.RETURN, StepKind.DENY))
        for place, step in enumerate(steps, 1)
    ]
    if listed and not any(step.answers for step in listed):
        listed[-1] = replace(listed[-1], answers=True)
    return tuple(listed)


def _of_program(program: Program) -> tuple[Sought, ...]:
    statements: dict[str, Statement] = {}
    later_arms: set[str] = set()
    straight = set(_straight(program.procedure.body))
    for step in walk(program.procedure.body):
        if isinstance(step, If):
            later_arms.update(branch.number for branch in step.branches[1:])
        else:
            statements[step.number] = step
    found: list[Sought] = []
    certain = True  # until a step that may end the run, or that this module does not know
    for number, kind in program.step_numbers.items():
        sure = certain and number in straight and number not in later_arms and kind in _SURE | _HOLDS
        certain = certain and kind in _SURE and not ("." in number and kind is StepKind.RETURN)
        name = getattr(statements.get(number), "target", None)
        found.append(Sought(number=number, name=name, sure=sure, answers=_ends(statements.get(number))))
    return tuple(found)


def _straight(block: Iterable[Statement]) -> Iterator[str]:
    """Give the numbers of the statements that stand in no arm, loop or other procedure."""
    for step in block:
        match step:
            case AnyOrder(body=body):
                yield from _straight(body)
            case If(branches=branches):
                yield from (branch.number for branch in branches)
            case _:
                yield step.number


def _ends(statement: Statement | None) -> bool:
    return isinstance(statement, Return | Deny)


def read_freely(
    text: str, steps: Program | Sequence[Expected | str], *, given: Iterable[str] = ()
) -> Reading:
    """Read a text in no agreed format; in linear time, and without an error whatever it is.

    `given` are names that stand for inputs: `x = 3` restates one and is no step. A program's are known. What
    stands in tags for thoughts, in front of the first line that begins as a trace does, is not read.
    """
    reading = reading_freely(without_thoughts(text), steps, given=given)
    while True:
        try:
            next(reading)
        except StopIteration as stop:
            found: Reading = stop.value
            return found


def reading_freely(
    text: str, steps: Program | Sequence[Expected | str], *, given: Iterable[str] = ()
) -> Generator[None, None, Reading]:
    """Read as `read_freely` does; yields after each line, so that others get their turn."""
    names = set(given)
    answer = None
    if isinstance(steps, Program):
        names |= {parameter.name for parameter in steps.parameters}
        last = steps.procedure.body[-1]
        if isinstance(last, Return) and isinstance(last.expression, Name):
            answer = last.expression.name
    return (yield from _Reader(text, sought(steps), frozenset(names), answer).read())


_STEP_KEYS: Final = ("step", "number", "id", "n", "index")
_NAME_KEYS: Final = ("var", "name", "variable", "target", "label")
_WORKING_KEYS: Final = ("expr", "expression", "working", "formula", "calculation")
_VALUE_KEYS: Final = ("value", "result", "output")
_ANSWER_KEYS: Final = ("answer", "final_answer", "final answer", "final")


class _Reader:
    """Goes through a text once, line by line, JSON as one piece."""

    def __init__(
        self, text: str, steps: tuple[Sought, ...], given: frozenset[str], answer: str | None
    ) -> None:
        self._original, self._text = text, plain(text)
        self._steps, self._given = steps, given
        self._numbers = {step.number: place for place, step in enumerate(steps)}
        self._names: dict[str, list[int]] = {}  # the steps not yet seen that give the name a value
        for place, step in reversed(list(enumerate(steps))):
            if step.name is not None:
                self._names.setdefault(step.name, []).append(place)
        self._answer = answer
        self._found: set[int] = set()
        self._seen: list[Seen] = []
        self._answers: dict[int, Answer] = {}  # by place
        self._bare: Answer | None = None  # a number alone in its line
        self._awaited = False  # the line before announced an answer

    def read(self) -> Generator[None, None, Reading]:
        at = 0
        while at < len(self._text):
            yield
            start = self._match(_DECORATION, at, len(self._text)).end()
            if OPENING.match(self._text, start):
                at = yield from self._objects(start)
                continue
            end = self._text.find("\n", at)
            end = len(self._text) if end < 0 else end
            self._line(start, end)
            at = end + 1
        if not self._answers and self._bare is not None:
            self._answers[self._bare.at] = self._bare
        unseen = [step for place, step in enumerate(self._steps) if place not in self._found]
        return Reading(
            seen=tuple(seen for seen in self._seen if seen.step is not None),
            extra=tuple(seen for seen in self._seen if seen.step is None),
            missing=tuple(step for step in unseen if step.sure),
            undecided=tuple(step for step in unseen if not step.sure),
            answers=tuple(answer for _, answer in sorted(self._answers.items())),
        )

    def _match(self, pattern: re.Pattern[str], at: int, end: int) -> re.Match[str]:
        match = pattern.match(self._text, at, end)
        assert match is not None  # these patterns take the empty text
        return match

    # --- lines -------------------------------------------------------------------------------------

    def _line(self, start: int, end: int) -> None:
        if start >= end:
            return
        label = _LABEL.match(self._text, start, end)
        number = next(filter(None, label.groups()), None) if label else None
        at = label.end() if label else start
        self._alone(start, end)
        finish = _END.match(self._text, at, end) if number else None
        if finish is not None and number is not None:
            self._finish(number, finish, start)
            return
        self._chains(number, at, start, end)
        self._marks(start, end)

    def _chains(self, number: str | None, at: int, start: int, end: int) -> None:
        if number is not None and (head := _HEADER.match(self._text, at, end)):
            at = head.end()  # the list that a loop goes through is no name that the line gives a value
            found = [replace(chain, name=None) for chain in chains(self._text, at, end, ())]
        else:
            found = list(chains(self._text, at, end, self._names))
        labelled = next((chain for chain in found if chain.name), found[-1] if found else None)
        if number is not None and labelled is None:
            self._take(number, None, (), start, end)
        for chain in found:
            if chain is labelled and number is not None:
                self._take(number, chain.name, chain.parts, start, chain.end)
            elif chain.name is not None:
                self._take(None, chain.name, chain.parts, chain.at, chain.end)

    def _finish(self, number: str, finish: re.Match[str], start: int) -> None:
        """A line of a trace that ends it."""
        at, end = finish.span("rest")
        found = list(chains(self._text, at, end, ()))
        parts = found[0].parts if found and found[0].name is None else ()
        if not parts and (value := self._number(at, end)):
            parts = (Part(text=value.text, value=value.value, at=value.at, end=value.end),)
        self._take(number, None, parts, start, end)
        if not parts or parts[-1].value is None:
            self._say(at, end)
        else:
            self._result(parts[-1])

    def _take(self, number: str | None, name: str | None, parts: tuple[Part, ...], at: int, end: int) -> None:
        step = self._step(number, name)
        if step is None and number is None and name in self._given:
            return
        if step is None and number is None and not parts:
            return
        if step is not None:
            self._found.add(step)
        self._seen.append(Seen(step=step, number=number, name=name, parts=parts, at=at, end=end))
        answers = (step is not None and self._steps[step].answers) or (name and name == self._answer)
        if answers and parts and parts[-1].value is not None:
            self._result(parts[-1])

    def _step(self, number: str | None, name: str | None) -> int | None:
        """Which step is meant: the name counts more than the number, which small models shift."""
        places = self._names.get(name) if name else None
        numbered = self._numbers.get(number, self._numbers.get(_PASS.sub("", number))) if number else None
        if not places:
            return numbered
        if numbered is not None and self._steps[numbered].name == name:
            return numbered
        while len(places) > 1 and places[-1] in self._found:
            places.pop()
        return places[-1]

    # --- answers -----------------------------------------------------------------------------------

    def _marks(self, start: int, end: int) -> None:
        for boxed in _BOXED.finditer(self._text, start, end):
            self._number_or_text(*boxed.span("inside"))
        for mark in islice(_MARK.finditer(self._text, start, end), MARKS):
            if mark["link"] is None and not mark[0].startswith("####"):
                self._awaited = self._awaited or mark.end() >= end
                continue
            at, stop = mark.end(), min(end, mark.end() + _TEXT)
            number = self._number(at, end)
            if number is not None:
                self._answers.setdefault(number.at, number)
            elif not self._text[at:stop].strip(_TRIM):
                self._awaited = True
            elif said := _SAID.match(self._text, at, end):
                self._say(*said.span())
            elif mark["link"] == ":" and not any(
                chain.parts for chain in chains(self._text, at, stop, self._names)
            ):
                self._say(at, end)

    def _alone(self, start: int, end: int) -> None:
        """A line that is nothing but a number or a date."""
        awaited, self._awaited = self._awaited, False
        number = self._number(start, end)
        if number is None or self._text[number.end : end].strip(_TRIM + "\\)]}"):
            return
        self._bare = number
        if awaited:
            self._answers.setdefault(number.at, number)

    def _number(self, at: int, end: int) -> Answer | None:
        """The number at a place, with its sign, or the date, where it is not the start of a working."""
        lead = self._match(_LEAD, at, end)
        start = lead.end()
        day = dated(self._text, start) if start < end else None
        if day is not None and day[1] <= end and not _GOES_ON.match(self._text, day[1], end):
            return Answer(text=self._original[start : day[1]], value=day[0], at=start, end=day[1])
        negative = lead["minus"] is not None
        number = numeral(self._text, start) if start < end else None
        if number is None or number[1] > end or _GOES_ON.match(self._text, number[1], end):
            return None
        value, stop = number
        begin = lead.start("minus") if negative else start
        value = -value if negative and value is not None else value
        return Answer(text=self._original[begin:stop], value=value, at=begin, end=stop)

    def _number_or_text(self, at: int, end: int) -> None:
        number = self._number(at, end)
        if number is None:
            self._say(at, end)
        else:
            self._answers.setdefault(number.at, number)

    def _result(self, part: Part) -> None:
        text = self._original[part.at : part.end]
        self._answers.setdefault(part.at, Answer(text=text, value=part.value, at=part.at, end=part.end))

    def _say(self, at: int, end: int) -> None:
        """An answer that is no number."""
        piece = self._text[at : min(end, at + _TEXT)]
        at += len(piece) - len(piece.lstrip(_TRIM))
        text = piece.strip(_TRIM)
        if text:
            end = at + len(text)
            value = {"true": True, "false": False}.get(text.lower(), text.strip('"'))
            self._answers.setdefault(at, Answer(text=self._original[at:end], value=value, at=at, end=end))

    # --- JSON --------------------------------------------------------------------------------------

    def _objects(self, at: int) -> Generator[None, None, int]:
        objects, end = yield from read_objects(self._text, at)
        for place, found in enumerate(sorted(objects, key=lambda object_: object_.at)):
            if place % PIECE == 0:
                yield
            self._object(found)
        return end

    def _object(self, found: Object) -> None:
        members = found.members
        number, name, working, value, answer = (
            next((members[key] for key in keys if key in members), None)
            for keys in (_STEP_KEYS, _NAME_KEYS, _WORKING_KEYS, _VALUE_KEYS, _ANSWER_KEYS)
        )
        if answer is not None:
            self._answers[answer.at] = Answer(
                text=self._original[answer.at : answer.end],
                value=_scalar(answer.value),
                at=answer.at,
                end=answer.end,
            )
        if (number or name) and (value or working):
            parts = tuple(
                Part(
                    text=member.text,
                    value=_scalar(member.value) if member is value else None,
                    at=member.at,
                    end=member.end,
                )
                for member in (working, value)
                if member is not None
            )
            self._take(
                number.text if number else None, name.text if name else None, parts, found.at, found.end
            )
            return
        named = {known.lower(): known for known in self._names}
        for key, member in members.items():
            if key in named:
                part = Part(text=member.text, value=_scalar(member.value), at=member.at, end=member.end)
                self._take(None, named[key], (part,), member.at, member.end)


def _scalar(value: object) -> Value | None:
    return value if isinstance(value, int | str | Fraction) else None

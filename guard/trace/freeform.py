"""Free-form mode: which steps a text in no agreed format shows, and every answer in it, with their places.

Reads prose, Markdown, LaTeX and JSON. It says what is written where, never whether that is right, and
keeps what cannot be known apart: a step that may rightly be absent is `undecided`, not `missing`, and one
that is there but cannot be read is `unread`.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from guard.procedure.execute import Program
from guard.procedure.expected import Expected
from guard.procedure.model import Return
from guard.procedure.nodes import Name
from guard.trace import rows
from guard.trace.announced import Answer, alone, announced, number
from guard.trace.equations import Chain, Names, chains
from guard.trace.numerals import plain
from guard.trace.objects import AHEAD, OPENING, PIECE, Member, Object, read_objects
from guard.trace.results import Part
from guard.trace.sought import Sought, sought
from guard.trace.tokens import Value, tokens
from guard.wire.thinking import without_thoughts

_PASS: Final = re.compile(r"\[[0-9]+\]")
_NUMBER: Final = r"[0-9]{1,9}(?:\[[0-9]{1,9}\])?+(?:\.[0-9]{1,9}(?:\[[0-9]{1,9}\])?+)*+"
# What Markdown puts before a line's text; a bullet has a blank after it, a sign has none.
_DECORATION: Final = re.compile(r"(?:[ \t\r>`|]|#++(?!# ?-?[0-9$])|[-+*•](?=[ \t])|\*\*|__)*+")
_LABEL: Final = re.compile(
    rf"(?:[Ss](?:tep|TEP)[ \t]*+#?+(?P<named>{_NUMBER})|[\[(](?P<bracketed>{_NUMBER})[\])]"
    rf"|(?P<listed>{_NUMBER})(?=[.):][ \t*_`]|[ \t]*+\|)"
    rf"|(?P<traced>{_NUMBER})(?=[ \t]++(?:[A-Za-z_]\w*+[ \t]*+=(?!=)"
    r"|(?:if|elif|require|check|return|deny|for)\b)))"
    r"[ \t]*+(?:\*\*|__)?+[ \t]*+(?:[:.)|]|-(?=[ \t]))?+[ \t]*+(?:\*\*|__)?+[ \t]*+"
)
_HEADER: Final = re.compile(r"for[ \t]++[A-Za-z_]\w*+[ \t]++in\b[ \t]*+")
_END: Final = re.compile(r"(?P<word>return|deny)\b[ \t]*+(?P<rest>[^\n]*)")
_VALUE_OF: Final = re.compile(r"(?<!\w)(?P<name>[A-Za-z_]\w{0,63})[ \t*_`\"]{0,9}[:=][ \t*_`]{0,9}\Z")
_TAIL: Final = 100  # characters before a list or record that may name it
_NO_NAMES: Final = Names(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A step as written. `step` is its index among the steps looked for, None for one not among them.

    `number` and `name` are what the text calls it by. `parts` are what its equals signs divide: the
    last one is the result as far as it has a value. Offsets are in code points. `firm`: an equals sign says
    it, no word or colon.
    """

    step: int | None
    number: str | None
    name: str | None
    parts: tuple[Part, ...]
    at: int
    end: int
    firm: bool = True

    @property
    def unread(self) -> bool:
        """Whether an equals sign gives the step something with figures in it that cannot be read."""
        return self.firm and bool(self.parts) and self.parts[-1].unread

    @property
    def result(self) -> Part | None:
        """The part with the value that the step comes to, None where none is written."""
        return self.parts[-1] if self.parts and self.parts[-1].value is not None else None


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
        self._places: dict[str, list[int]] = {}  # the steps not yet seen that give the name a value
        for place, step in reversed(list(enumerate(steps))):
            if step.name is not None:
                self._places.setdefault(step.name, []).append(place)
        self._names = Names(self._places)
        self._answer = answer
        self._found: set[int] = set()
        self._seen: list[Seen] = []
        self._answers: dict[int, Answer] = {}  # by place
        self._weak: Answer | None = None  # the last one that counts only where there is no other
        self._unread: Answer | None = None  # the last line, if it begins with a number
        self._awaited = False  # the line before announced an answer
        self._columns: rows.Header | None = None

    def read(self) -> Generator[None, None, Reading]:
        at = 0
        while at < len(self._text):
            yield
            end = self._text.find("\n", at)
            end = len(self._text) if end < 0 else end
            opening = OPENING.search(self._text, at, min(len(self._text), end + AHEAD))
            if opening is not None and opening.start() < end:
                at = yield from self._opened(at, opening.start())
                continue
            self._line(at, end)
            at = end + 1
        self._settle()
        unseen = [step for place, step in enumerate(self._steps) if place not in self._found]
        return Reading(
            seen=tuple(seen for seen in self._seen if seen.step is not None),
            extra=tuple(seen for seen in self._seen if seen.step is None),
            missing=tuple(step for step in unseen if step.sure),
            undecided=tuple(step for step in unseen if not step.sure),
            answers=tuple(answer for _, answer in sorted(self._answers.items())),
        )

    def _settle(self) -> None:
        """Where nothing was announced as an answer, take what may be one."""
        rest = self._weak or self._unread
        if not self._answers and rest is not None:
            self._answers[rest.at] = rest

    # --- lines -------------------------------------------------------------------------------------

    def _line(self, begin: int, end: int) -> None:
        match = _DECORATION.match(self._text, begin, end)
        assert match is not None  # it takes the empty text
        start = match.end()
        if start >= end:
            return
        label = _LABEL.match(self._text, start, end)
        number = next(filter(None, label.groups()), None) if label else None
        at = label.end() if label else start
        if "|" in self._text[begin:end] and self._row(number, begin, end):
            return
        self._alone(start, end, labelled=number is not None)
        finish = _END.match(self._text, at, end) if number else None
        if finish is not None and number is not None:
            self._finish(number, finish, start)
            return
        found = self._chains(number, at, start, end)
        self._announcements(start, end, found)

    def _row(self, number: str | None, begin: int, end: int) -> bool:
        """Read a line with bars; whether it belongs to a table."""
        if rows.DELIMITER.match(self._text, begin, end):
            return True
        if rows.DELIMITER.match(self._text, end + 1):
            self._columns = rows.header(self._text, begin, end)
            return True
        row = rows.row(
            self._text, begin, end, self._names, numbered=number is not None, columns=self._columns
        )
        if row is not None:
            self._take(number, row.name, row.parts, row.at, row.end)
        return row is not None

    def _chains(self, number: str | None, at: int, start: int, end: int) -> list[Chain]:
        head = _HEADER.match(self._text, at, end) if number is not None else None
        if head is not None:  # the list that a loop goes through is no name that the line gives a value
            line = tokens(self._text, head.end(), end)
            found = [replace(chain, name=None) for chain in chains(line, _NO_NAMES)]
        else:
            found = list(chains(tokens(self._text, at, end), self._names))
        labelled = next((chain for chain in found if chain.name), found[-1] if found else None)
        if number is not None and labelled is None:
            self._take(number, None, (), start, end)
        for chain in found:
            if chain is labelled and number is not None:
                self._take(number, chain.name, chain.parts, start, chain.end, firm=chain.firm)
            elif chain.name is not None:
                self._take(None, chain.name, chain.parts, chain.at, chain.end, firm=chain.firm)
        return found

    def _finish(self, number_: str, finish: re.Match[str], start: int) -> None:
        """A line of a trace that ends it, or a procedure that was called."""
        at, end = finish.span("rest")
        value = number(self._text, self._original, at, end)
        parts = (
            () if value is None else (Part(text=value.text, value=value.value, at=value.at, end=value.end),)
        )
        self._take(number_, None, parts, start, end)
        step = self._step(number_, None)
        if step is not None and not self._steps[step].answers:
            return
        if value is not None:
            self._answers.setdefault(value.at, value)
        else:
            self._announcements(start, end, [], said=at)

    def _take(
        self,
        number: str | None,
        name: str | None,
        parts: tuple[Part, ...],
        at: int,
        end: int,
        *,
        firm: bool = True,
    ) -> None:
        step = self._step(number, name)
        if step is None and number is None and (name in self._given or not parts):
            return
        if step is not None:
            self._found.add(step)
        self._seen.append(Seen(step=step, number=number, name=name, parts=parts, at=at, end=end, firm=firm))
        answers = (step is not None and self._steps[step].answers) or (name and name == self._answer)
        if answers and parts and parts[-1].value is not None:
            self._result(parts[-1])

    def _step(self, number: str | None, name: str | None) -> int | None:
        """Which step is meant: the name counts more than the number, which small models shift."""
        places = self._places.get(name) if name else None
        numbered = self._numbers.get(number, self._numbers.get(_PASS.sub("", number))) if number else None
        if not places:
            return numbered
        if numbered is not None and self._steps[numbered].name == name:
            return numbered
        while len(places) > 1 and places[-1] in self._found:
            places.pop()
        return places[-1]

    # --- answers -----------------------------------------------------------------------------------

    def _announcements(self, start: int, end: int, found: Sequence[Chain], said: int | None = None) -> None:
        def equations(at: int, stop: int) -> bool:
            return any(at <= chain.at < stop for chain in found)

        read = announced(self._text, self._original, start, end, equations, said=said)
        for answer in read.answers:
            self._answers.setdefault(answer.at, answer)
        self._weak = read.weak[-1] if read.weak else self._weak
        self._awaited = self._awaited or read.waits

    def _alone(self, start: int, end: int, *, labelled: bool) -> None:
        """A line that is nothing but a number or a date."""
        awaited, self._awaited = self._awaited, False
        found = alone(self._text, self._original, start, end)
        self._unread = None if found is None or labelled else found
        if found is None or (labelled and not awaited):
            return
        if found.value is not None:
            self._weak = found
        if awaited:
            self._answers.setdefault(found.at, found)

    def _result(self, part: Part) -> None:
        text = self._original[part.at : part.end]
        answer = Answer(
            text=text,
            value=part.value,
            at=part.at,
            end=part.end,
            quoted=isinstance(part.value, str),
            about=part.about,
            percent=part.percent,
        )
        self._answers.setdefault(part.at, answer)

    # --- JSON --------------------------------------------------------------------------------------

    def _opened(self, at: int, opening: int) -> Generator[None, None, int]:
        """Read JSON that begins in a line, and what stands before it; gives where that stops."""
        named = _VALUE_OF.search(self._text, max(at, opening - _TAIL), opening)
        name = self._names.known([named["name"]]) if named is not None else None
        if named is not None and name is not None:  # it is the value of a step, and its members are none
            _, stop = yield from read_objects(self._text, opening)
            part = Part(text=self._text[opening:stop], value=None, at=opening, end=stop)
            self._take(None, name, (part,), named.start("name"), stop)
            return stop
        self._line(at, opening)
        return (yield from self._objects(opening))

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
                quoted=True,
            )
        if (number or name) and (value or working):
            parts = [
                _part(member, valued=member is value) for member in (working, value) if member is not None
            ]
            spelled = self._names.known([name.text]) or name.text if name else None
            self._take(number.text if number else None, spelled, tuple(parts), found.at, found.end)
            return
        for key, member in members.items():
            if known := self._names.known(key.split()):
                self._take(None, known, (_part(member, valued=True),), member.at, member.end)


def _part(member: Member, *, valued: bool) -> Part:
    value = _scalar(member.value) if valued else None
    return Part(text=member.text, value=value, at=member.at, end=member.end)


def _scalar(value: object) -> Value | None:
    return value if isinstance(value, int | str | Fraction) else None

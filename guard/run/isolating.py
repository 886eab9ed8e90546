"""One step asked for in a generation of its own: what that is opened with, and its answer as the step's line.

The checker is told the line as the trace has it, up to the value in the guard's hand and from there on in the
model's, piece by piece as it comes. So it is judged as any line is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Final

from guard.check.runaway import BLANK_LINES
from guard.dialect.alone import answer, lead
from guard.dialect.line import Level
from guard.dialect.notation import Dialect, written
from guard.dialect.promise import promised
from guard.dialect.thoughts import behind_thoughts
from guard.procedure.expected import Expected
from guard.run.messages import Message, Target
from guard.run.opening import Job, Opening
from guard.run.progress import Progress
from guard.trace.alone import Named, Question, computed, question
from guard.trace.lines import LIMITS

_ROLES: Final = ("user", "assistant")
_BLANK: Final = " \t\r"
_AS_MEMBERS: Final = "Write it as the value of one JSON object, in quotation marks: {{{begin}: ..."


def isolated(
    job: Job,
    progress: Progress,
    target: Target,
    level: Level,
    *,
    due: Expected,
    shown: Expected,
    values: Named | None = None,
    again: int = 0,
) -> tuple[Opening, Answering]:
    """Make the text of a generation for one step alone, and what reads its answer.

    `shown` is the step as it is where the trace shows how it is computed; `values` are those of the variables
    that it reads, None: it is due. `again` is how often it was asked for alone before. Nothing is prefilled.
    """
    progress.open_frame()
    asked = question(job.program, shown, values, again=again)
    members = target.dialect is Dialect.JSON_SCHEMA and level is not Level.NONE
    grammar = None if level is Level.NONE else answer(due, asked.cells, level, members=members)
    text = None
    if grammar is not None and target.dialect is not None:
        thinks = target.thoughts and not members
        sent = behind_thoughts(grammar, begun=target.thinks) if thinks else grammar
        text = written(sent, target.dialect, target.patterns)
    made = Opening(
        messages=tuple(_messages(asked, text if members else None)),
        prefix="",
        tail="",
        begun="",
        grammar=text,
        given=frozenset({due.path}) if computed(due) else frozenset(),
        stop=due.path,
        turn=False,
        one_line=True,
        bounded=target.prefill and not (target.thoughts or target.thinks),
        loosened=Level.NONE if text is None and grammar is not None and target.dialect is not None else None,
        promised=None
        if text is None or grammar is None or target.dialect is None
        else partial(promised, grammar, target.dialect, text),
    )
    return made, Answering(due, asked)


def _messages(asked: Question, schema: str | None) -> Iterator[Message]:
    """Give what is said in turn. `schema`: the answers are asked for as the members of such an object."""
    *before, last = asked.turns
    if schema is not None:
        first = next(iter(json.loads(schema)["properties"]))
        last += f"\n\n{_AS_MEMBERS.format(begin=json.dumps(first, ensure_ascii=False))}"
    for place, turn in enumerate((*before, last)):
        yield {"role": _ROLES[place % 2], "content": turn}


class Answering:
    """Makes the line of a step of what a model answers.

    `question` is what it was asked, `ours` how many characters of what the checker was told are not its own.
    """

    def __init__(self, due: Expected, asked: Question) -> None:
        self.question, self.ours = asked.turns[-1], 0
        self._before, self._after = _around(due, asked)
        self._repeated = [
            (*forms, lead(place, len(asked.cells)).removesuffix(" ="))
            for place, forms in enumerate(asked.asked)
        ]
        self._place = 0  # of the answer that comes next
        self._held = ""  # of it, as long as it may be the question once more
        self._going = False  # the checker has been told of it
        self._trail = ""  # blanks that nothing has followed yet
        self._blanks = 0

    @property
    def answers(self) -> int:
        """How many lines it takes."""
        return len(self._before)

    @property
    def begun(self) -> str:
        """The beginning of the line, up to its first answer."""
        return self._before[0]

    def read(self, piece: str) -> str:
        """Take a piece of at most one line; give what the checker is to read."""
        if self._place == len(self._before):
            return ""
        ended = piece.endswith("\n")
        if self._going:
            return self._end(piece.rstrip("\n"), ended=ended)
        self._held = (self._held + piece.rstrip("\n")).lstrip(_BLANK)
        if ended and not self._held.strip(_BLANK):
            self._blanks += 1
            if self._blanks <= BLANK_LINES:
                return ""
        if not ended and self._waits(self._held):
            return ""
        return self._begin(ended=ended)

    def flush(self) -> str:
        """Give what is still held of an answer that was broken off."""
        return self._begin(ended=False) if self._held else ""

    def _begin(self, *, ended: bool) -> str:
        said, self._held, self._going = self._without_question(self._held), "", True
        before = self._before[self._place]
        self.ours += len(before)
        return before + self._end(said, ended=ended)

    def _end(self, said: str, *, ended: bool) -> str:
        said = self._trail + said
        kept = said.rstrip(_BLANK)
        self._trail = "" if ended else said[len(kept) :]
        if not ended:
            return kept
        self._place, self._going = self._place + 1, False
        if self._place < len(self._before):
            return kept
        rest = f"{self._after}\n"
        self.ours += len(rest)
        return kept + rest

    def _waits(self, held: str) -> bool:
        """Whether what there is of an answer may be what was asked, repeated."""
        if len(held) > LIMITS.line:
            return False
        return any(form.startswith(held) or _behind(held, form) == "" for form in ("=", *self._forms))

    def _without_question(self, held: str) -> str:
        for form in self._forms:
            rest = _behind(held, form)
            if rest:
                return rest
        return held.removeprefix("=").lstrip(_BLANK)

    @property
    def _forms(self) -> tuple[str, ...]:
        return self._repeated[self._place]


def _behind(held: str, form: str) -> str | None:
    """Give what stands behind a form and its `=`; "": that is not all there; None: there is none."""
    if not held.startswith(form):
        return None
    rest = held[len(form) :].lstrip(_BLANK)
    return rest[1:].lstrip(_BLANK) if rest.startswith("=") else ("" if not rest else None)


def _around(due: Expected, asked: Question) -> tuple[list[str], str]:
    """Give what stands before each of the values of a line that are asked for, and behind the last."""
    before: list[str] = []
    text = f"{due.path} {due.head} "
    for index, cell in enumerate(due.cells):
        text += cell.given
        if cell.working is not None:
            text += "".join(part for part in cell.working if isinstance(part, str))
            text += "" if cell.bare else " = "
        if index in asked.cells:
            before.append(text)
            text = ""
        elif not cell.bare:
            text += cell.spelling or ""
    return before, text + due.tail

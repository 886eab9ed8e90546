"""The scripted model: goes on from what stands, faithfully, but for the mistakes that its plan wants.

It knows what every model could know: the procedure, the inputs and what the request says. What it decides it
remembers by the line that it wrote, so that it keeps to what stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from random import Random
from typing import Any, Final

from guard.check.replay import Walk
from guard.check.verdict import Kind
from guard.dialect.alone import lead
from guard.dialect.notation import Dialect
from guard.errors import InvalidState
from guard.procedure.expected import Ending, EndKind, Expected, Form, Pick
from guard.procedure.types import (
    BoolType,
    DateType,
    DecimalType,
    EnumType,
    IntType,
    ListType,
    PercentType,
    StringType,
    Type,
    Value,
)
from guard.run.messages import Open
from guard.trace.alone import asked, asked_cells, can_be_asked
from guard.trace.render import line, supporting_quotes
from tests.faults.faithful import Mutant, Sample
from tests.fuzz.mistakes import MISTAKES
from tests.fuzz.scenario import NUMBERS, Scenario

MOST_LINES: Final = 400
PLACES: Final = 6  # where a mistake of a form is tried
_TAG: Final = "<think>"


@dataclass(kw_only=True)
class Said:
    """What the model writes in one generation: `text` goes on behind the prefix.

    `mistake` is the one in it, if there is one; `late`: it comes when the answer is there. `fails`: the
    procedure fails behind it. `lines` are those of the trace, with what of the first one was given. `framed`:
    something stood before it, if only the opening line.
    """

    text: str
    mistake: Mutant | None = None
    late: bool = False
    fails: bool = False
    lines: tuple[str, ...] = ()
    framed: bool = False


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a generation goes on: behind so many lines of a trace, and the beginning of the next one."""

    sample: Sample
    stands: int
    framed: bool
    tail: str
    members: bool

    @property
    def at(self) -> int:
        """Where in the trace that is."""
        return self.sample.start(self.stands) if self.stands or self.framed else 0

    def takes(self, mutant: Mutant) -> bool:
        """Whether a trace with a mistake goes on from here; in an object there is no frame, nor an open end."""
        trace = self.sample.trace
        if not mutant.text.startswith(trace[: self.at] + self.tail) or mutant.text == trace:
            return False
        if _TAG in mutant.text:
            return False  # what begins so is a thought
        if not self.members:
            return True
        return mutant.text.endswith("\n") and _framed_by(mutant.text) != _framed_by(trace)


@dataclass
class Model:
    """One model, over all generations of a run. `memory` has the value of each line that it decided."""

    scenario: Scenario
    random: Random
    memory: dict[str, Value] = field(default_factory=dict)
    answers: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)  # by path and question
    made: int = 0  # mistakes
    last: Mutant | None = None

    def answer(self, command: Open) -> Said:
        """Write what is asked for."""
        if command.isolated:
            return self._alone(command)
        framed, stands, tail = _standing(self.scenario, command)
        sample, fails = self._carried_out(stands, command.generation)
        members = command.grammar is not None and _dialect(self.scenario, command) is Dialect.JSON_SCHEMA
        place = Place(sample=sample, stands=len(stands), framed=framed, tail=tail, members=members)
        mistake = None if fails else self._mistake(place)
        right = sample.lines[: len(sample.steps) + 1] if fails else sample.lines
        text = mistake.text if mistake else "".join(f"{line}\n" for line in right)
        text = text[sample.start(len(stands)) if stands or framed else 0 :]
        lines = tuple(text.split("\n"))
        said = Said(text=text.removeprefix(tail), mistake=mistake, fails=fails, lines=lines, framed=framed)
        said.late = mistake is not None and mistake.at >= sample.start(len(sample.steps))
        if members:
            said.text = _as_members(said.text, command.grammar or "")
        elif self.scenario.plan.loose and mistake is None:
            said.text = self._loosely(said.text)
        return said

    # --- one step by itself ----------------------------------------------------------------------

    def _alone(self, command: Open) -> Said:
        """Answer a question as the trace would have it; the mistake is to answer nothing that can be read."""
        path, question = command.resume_from, str(command.messages[-1]["content"])
        if not any(asked in question for asked in self.answers.get(path, ())):
            self._carried_out((), command.generation)
        known = (said for asked, said in self.answers.get(path, {}).items() if asked in question)
        answers = next(known, None)
        mistake = None
        errs = self.made < self.scenario.plan.mistakes and self.random.random() < self.scenario.plan.rate
        if (
            errs or answers is None
        ):  # it may be a step ahead that is never due, which nobody has the answer to
            self.made += errs
            answers = ("I ? it",)
            mistake = Mutant(name="unanswered", text="", kind=Kind.MALFORMED.value, step=path, at=0)
        text = "".join(f"{answer}\n" for answer in answers)
        if command.grammar is not None and _dialect(self.scenario, command) is Dialect.JSON_SCHEMA:
            names = list(json.loads(command.grammar)["properties"])
            lines = (f"{lead(place, len(names))} {one}" for place, one in enumerate(answers))
            text = json.dumps(dict(_member(one, names) for one in lines), ensure_ascii=False)
        return Said(text=text, mistake=mistake, lines=tuple(text.split("\n")), framed=True)

    def _remember_answers(self, due: Expected, walk: Walk, value: Value) -> None:
        """Remember what is answered to the question for a step that is due."""
        if walk.due is None or not can_be_asked(walk.due):
            return
        if due.decision is not None:
            written = line(due, value, supporting_quotes(due, value))
            answers: tuple[str, ...] = (written.removeprefix(f"{due.path} {due.head} "),)
        else:
            answers = tuple(due.cells[index].spelling or "" for index in asked_cells(walk.due))
        self.answers.setdefault(due.path, {})[asked(self.scenario.program, walk.due)] = answers

    # --- the trace as it would be right ----------------------------------------------------------

    def _carried_out(self, stands: Sequence[str], generation: int) -> tuple[Sample, bool]:
        """Carry the procedure out behind what stands; whether it fails."""
        scenario = self.scenario
        execution = scenario.program.execute(scenario.inputs)
        steps: list[tuple[Expected, Value]] = []
        ending: Ending | None = None
        walk = Walk.start(
            scenario.program.in_form(Form.WORK), scenario.inputs
        )  # which shows what is computed
        try:
            due = next(execution)
            while len(steps) < MOST_LINES:
                due = self._picked(execution, due, stands, len(steps))
                value = self._value(due, stands, len(steps), generation)
                steps.append((due, value))
                walk.pick(due.path)
                self._remember_answers(due, walk, value)
                walk.send(None if due.decision is None else value)
                due = execution.send(None if due.decision is None else value)
        except StopIteration as stop:
            ending = stop.value
        assert ending is not None, "a procedure of this size comes to its end"
        sample = Sample(
            text=scenario.text,
            program=scenario.program,
            inputs=scenario.inputs,
            steps=tuple(steps),
            ending=ending,
        )
        for index, (step, value) in enumerate(steps):
            if step.decision is not None:
                self.memory[squeezed(sample.lines[index + 1])] = value
        return sample, ending.kind is EndKind.FAILED

    def _picked(self, execution: Any, due: Expected, stands: Sequence[str], index: int) -> Expected:
        """Choose among several steps that may come."""
        if not due.others:
            return due
        others = [due, *due.others]
        if index < len(stands):
            wanted = stands[index].split()[0]
            chosen = next(step for step in others if step.path == wanted)
        else:
            chosen = self.random.choice(others)
        return chosen if chosen is due else execution.send(Pick(chosen.path))

    def _value(self, due: Expected, stands: Sequence[str], index: int, generation: int) -> Value:
        if due.decision is None:
            return due.value  # type: ignore[return-value]
        if index < len(stands):
            return self.memory[squeezed(stands[index])]
        turn = generation if self.scenario.plan.wavering else 0
        random = Random(f"{self.scenario.seed} {due.path} {turn}")
        able = [v for v in candidates(due.decision.type, random) if due.decision.admissible(v) is None]
        if not able:
            raise InvalidState(f"the model knows no value for {due.path}: {due.decision.type}")
        return random.choice(able)

    # --- mistakes --------------------------------------------------------------------------------

    def _mistake(self, place: Place) -> Mutant | None:
        plan = self.scenario.plan
        if self.made >= plan.mistakes or self.random.random() >= plan.rate:
            return None
        same = self.last if plan.stubborn and self.last is not None and place.takes(self.last) else None
        found = same or self._another(place)
        self.made += found is not None
        self.last = found
        return found

    def _another(self, place: Place) -> Mutant | None:
        for attempt in range(8):
            name = self.scenario.plan.mistakes_of[(self.made + attempt) % len(MISTAKES)]
            left = range(place.stands, len(place.sample.steps))
            for index in self.random.sample(left, min(PLACES, len(left))):
                able = [each for each in MISTAKES[name](place.sample, index) if place.takes(each)]
                if able:
                    return self.random.choice(able)
        return None

    def _loosely(self, text: str) -> str:
        """Write blanks otherwise, which means nothing, where no string is."""
        first, *rest = text.split("\n")
        return "\n".join([first, *(self._loose(line) for line in rest)])

    def _loose(self, line: str) -> str:
        if '"' in line or not line or self.random.random() < 0.5:
            return line
        return self.random.choice(
            [f"{line} ", line.replace(" ", "  "), f"{line}\t", line.replace(" = ", "  =  ")]
        )


def squeezed(line: str) -> str:
    """A line with single blanks."""
    return " ".join(line.split())


def candidates(kind: Type, random: Random) -> list[Value]:
    """Values that the model may decide: those that the note holds."""
    match kind:
        case IntType():
            return list(NUMBERS)
        case BoolType():
            return [True, False]
        case EnumType(options=options):
            return list(options)
        case DateType():
            return [date(2026, 3, 1)]
        case StringType():
            return ["red", "Two red ones", "blue"]
        case ListType(item=item):
            inner = candidates(item, random)
            return [tuple(random.choice(inner) for _ in range(random.randint(1, 3))) for _ in range(3)]
        case DecimalType() | PercentType():
            return [Fraction(7), Fraction(12)]
        case _:
            raise InvalidState(f"the model decides no {kind}")


# --- what a request says -------------------------------------------------------------------------


def _dialect(scenario: Scenario, command: Open) -> Dialect | None:
    return next(
        row.dialect
        for row, target in zip(scenario.rows, scenario.targets, strict=True)
        if target.name == command.upstream
    )


def _standing(scenario: Scenario, command: Open) -> tuple[bool, list[str], str]:
    """Whether the frame stands, the lines that stand, and what is given of the line that is due."""
    if command.prefix:
        *whole, tail = command.prefix.split("\n")
    else:
        said = [str(message["content"]) for message in command.messages if message["role"] == "assistant"]
        whole, tail = said[-1].split("\n") if said else [], ""
    lines = [line.strip() for line in whole if line.strip()]
    framed = bool(lines) or (
        command.grammar is not None and _dialect(scenario, command) is Dialect.JSON_SCHEMA
    )
    return framed, [line for line in lines if re.match(r"\d", line)], tail


def _as_members(text: str, schema: str) -> str:
    """The lines as the members of one object that the schema asks for."""
    names = list(json.loads(schema)["properties"])
    members = [_member(line, names) for line in _framed_by(text)]
    inner = ", ".join(
        f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(rest, ensure_ascii=False)}"
        for name, rest in members
    )
    return f"{{{inner}}}"


def _member(line: str, names: Sequence[str]) -> tuple[str, str]:
    for name in names:
        if line.startswith(name):
            return name, line[len(name) :]
    head, sign, rest = line.partition(" = ")
    return (f"{head} = ", rest) if sign else (line.partition(" ")[0] + " ", line.partition(" ")[2])


def _framed_by(text: str) -> list[str]:
    """The lines of a trace without its frame."""
    return [line for line in text.split("\n") if line and not line.startswith("@")]

"""Small procedures with known answers, which a model is measured on: a few lines for each kind of step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from random import Random
from typing import Final

from guard.procedure.execute import Program, reference
from guard.procedure.expected import Expected
from guard.procedure.load import load
from guard.procedure.model import StepKind
from guard.procedure.types import Value
from guard.run.messages import Message
from guard.run.opening import Job
from guard.trace import prompt, render
from guard.wire.conversation import sent_on

NONCE_BITS: Final = 24


class Skill(StrEnum):
    """What a line asks of a model."""

    ASSIGN = "assign"
    BRANCH = "branch"  # if and elif
    LOOP = "loop"  # the header and the lines of its passes
    LOOKUP = "lookup"  # a value out of a table
    RETURN = "return"
    EXTRACT = "extract"
    JUDGE = "judge"


DECIDED: Final = frozenset({Skill.EXTRACT, Skill.JUDGE})  # a wrong value may stand there, unseen

_BY_KIND: Final = {
    StepKind.BRANCH: Skill.BRANCH,
    StepKind.LOOP: Skill.LOOP,
    StepKind.RETURN: Skill.RETURN,
    StepKind.EXTRACT: Skill.EXTRACT,
    StepKind.JUDGE: Skill.JUDGE,
}

_Drawn = tuple[dict[str, Value], dict[str, Value]]  # inputs, decisions

_SUMS: Final = """\
procedure sums(a: int, b: int) -> int
  x = a + b
  y = x * 3
  z = y - b
  return z + x

example sums
  a = 6
  b = 9
"""
_FEE: Final = """\
procedure fee(amount: int, limit: int) -> int
  part = amount div 10
  if amount > limit
    total = part + 5
  elif part > 4
    total = part + 2
  else
    total = part + 1
  return total

example fee
  amount = 72
  limit = 50
"""
_TOTAL: Final = """\
procedure total(numbers: list of int) -> int
  sum = 0
  for n in numbers at most 10
    sum = sum + n
  return sum

example total
  numbers = [4, 15]
"""
_TARIFF: Final = """\
table rate(weight: int) -> int, first match
  1..9   => 4
  10..29 => 6
  >= 30  => 9

procedure tariff(weight: int, pieces: int) -> int
  one = rate(weight)
  all = one * pieces
  return all

example tariff
  weight = 17
  pieces = 3
"""
_ORDER: Final = """\
procedure order(note: text) -> int
  extract pieces: int from note quote
    where pieces >= 1 and pieces <= 99
  extract price: int from note
    where price >= 1 and price <= 99
  return pieces

example order
  note = "Please send 4 lamps to the office. The price is 35 for each."
  decide pieces = 4
  decide price = 35
"""
_MOOD: Final = """\
procedure mood(note: text) -> bool
  judge angry: bool from note
    asking "Is the writer complaining?"
  return angry

example mood
  note = "The parcel came two weeks late and the box was torn."
  decide angry = true
"""

_GOODS: Final = ("chairs", "lamps", "folders", "cables", "mugs", "boxes")
_MOODS: Final = (
    ("Thank you, everything works and my team is happy with it.", False),
    ("This is the third time that the device broke. I want my money back.", True),
    ("Could you tell me your opening hours on Saturday?", False),
    ("Nobody answers your phone. I have been waiting for a week, this is unacceptable.", True),
    ("The delivery was quick and the driver was very kind.", False),
    ("You charged me twice and nobody is willing to help. I am very disappointed.", True),
    ("Please add two more seats to our booking for Friday.", False),
    ("The soup was cold, the waiter was rude, and we will not come back.", True),
)


def _two(first: str, second: str, low: int, high: int) -> Callable[[Random], _Drawn]:
    return lambda random: ({first: random.randint(low, high), second: random.randint(low, high)}, {})


def _numbers(random: Random) -> _Drawn:
    return {"numbers": tuple(random.randint(2, 60) for _ in range(3))}, {}


def _note(random: Random) -> _Drawn:
    pieces, price = random.sample(range(2, 90), 2)
    goods = random.choice(_GOODS)
    note = f"We would like to order {pieces} {goods} at a price of {price} each, as last year."
    return {"note": note}, {"pieces": pieces, "price": price}


def _mood(random: Random) -> _Drawn:
    note, angry = random.choice(_MOODS)
    return {"note": note}, {"angry": angry}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A procedure, how its inputs are drawn, and what its assignments ask for."""

    text: str
    draw: Callable[[Random], _Drawn]
    assigns: Skill = Skill.ASSIGN


TASKS: Final = (
    Task(text=_SUMS, draw=_two("a", "b", 3, 60)),
    Task(text=_FEE, draw=_two("amount", "limit", 15, 90)),
    Task(text=_TOTAL, draw=_numbers),
    Task(text=_TARIFF, draw=_two("weight", "pieces", 2, 45), assigns=Skill.LOOKUP),
    Task(text=_ORDER, draw=_note),
    Task(text=_MOOD, draw=_mood),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One request: what is asked for and what is right."""

    task: Task
    job: Job
    steps: tuple[tuple[Expected, Value], ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """What a faithful model writes."""
        return tuple(
            render.line(step)
            if step.decision is None
            else render.line(step, value, render.supporting_quotes(step, value))
            for step, value in self.steps
        )

    def skill(self, path: str) -> Skill:
        """Say what the line of a step asks for."""
        if "[" in path:
            return Skill.LOOP
        kind = self.job.program.step_numbers[path]
        return _BY_KIND.get(kind) or (self.task.assigns if path == "1" else Skill.ASSIGN)

    def value(self, path: str) -> Value | None:
        """Give the right value of a step; None where the right trace has no such step."""
        return next((value for step, value in self.steps if step.path == path), None)


@cache
def program_of(task: Task) -> Program:
    """Compile a task's procedure."""
    [program] = load(task.text).procedures.values()
    return program


def instances(tasks: tuple[Task, ...], runs: int, random: Random) -> Iterator[Instance]:
    """Draw so many requests for each task, in turn, so that one may stop after any of them."""
    for _ in range(runs):
        for task in tasks:
            yield _instance(task, random)


def _instance(task: Task, random: Random) -> Instance:
    program = program_of(task)
    inputs, decisions = task.draw(random)
    steps, _ = reference(program, inputs, decisions)
    nonce = f"{random.getrandbits(NONCE_BITS):06x}"
    return Instance(
        task=task,
        job=Job(program=program, inputs=inputs, messages=_messages(program, inputs, nonce), nonce=nonce),
        steps=tuple(steps),
    )


def _messages(program: Program, inputs: Mapping[str, Value], nonce: str) -> tuple[Message, ...]:
    """Ask as the endpoint does."""
    closing = prompt.closing(program, inputs, nonce)
    return sent_on([{"role": "user", "content": closing}], prompt.instructions(program))

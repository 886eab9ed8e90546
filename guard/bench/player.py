"""Plays a run against a scripted model, on a clock that nobody has to wait for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from random import Random
from typing import Protocol

from guard.bench.chances import Chances
from guard.bench.straight import Straight
from guard.check.verdict import Kind
from guard.run.messages import (
    Close,
    Command,
    Ended,
    Finish,
    Open,
    OutOfTime,
    RunEvent,
    Strategy,
    Text,
    Wait,
    Waited,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast a model is and how long its lines are: seconds to its first token, tokens a second, a line."""

    first_s: float = 0.5
    tokens_per_s: float = 50.0
    line_tokens: int = 25

    def seconds(self, generations: float, lines: float) -> float:
        """Give the time for lines that are written one after the other."""
        return generations * self.first_s + lines * self.line_tokens / self.tokens_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """What a model does: its chances at each step, and what it writes where it is wrong, by its share."""

    chances: Chances
    wrong: tuple[tuple[Kind, float], ...] = ((Kind.WRONG_VALUE, 1.0),)


class Machine(Protocol):
    """What is played: a run, or a race of some."""

    def start(self) -> Iterable[Command]: ...

    def handle(self, event: RunEvent, generation: int, /) -> Iterable[Command]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What a run came to. `generated` are the lines that the model wrote, wrong ones included."""

    finish: Finish
    generated: int
    tokens: int
    seconds: float


def play(
    machine: Machine,
    task: Straight,
    models: Mapping[str, Habits],
    pace: Pace,
    random: Random,
    *,
    seconds: float,
) -> Played:
    """Play one run to its end. `models` are by the names of the upstreams; `seconds` is its wall time."""
    return _Player(machine, task, models, pace, random, limit=seconds).play()


class _Player:
    def __init__(
        self,
        machine: Machine,
        task: Straight,
        models: Mapping[str, Habits],
        pace: Pace,
        random: Random,
        *,
        limit: float,
    ) -> None:
        self._machine, self._task, self._models = machine, task, models
        self._pace, self._random, self._limit = pace, random, limit
        self._now = 0.0
        self._generated = self._tokens = 0
        self._due: list[tuple[float, int, RunEvent]] = []  # when what happens, by generation
        self._writers: dict[int, Writer] = {}
        self._stuck: dict[Context, bool] = {}
        self._finish: Finish | None = None

    def play(self) -> Played:
        self._obey(self._machine.start())
        while self._finish is None:
            self._happen()
        return Played(finish=self._finish, generated=self._generated, tokens=self._tokens, seconds=self._now)

    def _obey(self, commands: Iterable[Command]) -> None:
        for command in commands:
            match command:
                case Open(generation=number):
                    habits = self._models[command.upstream]
                    tokens = self._pace.line_tokens
                    self._writers[number] = Writer(
                        self._task, habits, command, self._random, tokens=tokens, stuck=self._stuck
                    )
                    self._schedule(number, self._pace.first_s)
                case Close(generation=number):
                    del self._writers[number]
                    self._due = [due for due in self._due if due[1] != number]
                case Wait(seconds):
                    self._due.append((self._now + seconds, 0, Waited()))
                case Finish():
                    self._finish = command
                case _:
                    pass

    def _schedule(self, generation: int, after: float) -> None:
        event = self._writers[generation].next()
        tokens = event.tokens if isinstance(event, Text) else 0
        self._due.append((self._now + after + tokens / self._pace.tokens_per_s, generation, event))

    def _happen(self) -> None:
        """Tell the run what happens next, and let the time go by until then."""
        due = min(self._due, key=itemgetter(0))
        when, generation, event = due
        if when > self._limit:
            self._now = self._limit
            self._obey(self._machine.handle(OutOfTime(), 0))
            return
        self._now = when
        self._due.remove(due)
        if isinstance(event, Text):
            self._tokens += event.tokens
            self._generated += event.tokens > 0 and event.text.endswith("\n")
        self._obey(self._machine.handle(event, generation))
        if generation in self._writers and not isinstance(event, Ended):
            self._schedule(generation, 0)


Context = tuple[str, int, bool]  # an upstream, the place of a line, and whether it is asked for by itself


class Writer:
    """One generation of the scripted model: whole lines, each right or wrong by its chance.

    `stuck` says of each context in which a line was wrong whether it stays so there.
    """

    def __init__(
        self,
        task: Straight,
        habits: Habits,
        command: Open,
        random: Random,
        *,
        tokens: int,
        stuck: dict[Context, bool],
    ) -> None:
        self._task, self._habits, self._random = task, habits, random
        self._upstream, self._alone, self._stuck = command.upstream, command.isolated, stuck
        self._line_tokens, self._left = tokens, command.max_tokens
        self._strategy: Strategy | None = command.strategy  # of the line that it was opened for
        self._place: int | None = task.places[command.resume_from]  # of the line that comes next
        self._tail = command.prefix.rpartition("\n")[2]
        self._slipped = False
        self._pieces = deque(self._opening(command))

    def next(self) -> Text | Ended:
        """Write the next line, or end."""
        if self._alone and self._place is not None:
            self._pieces.append(Text(f"{self._answer(self._place)}\n", self._line_tokens))
            self._place = None
        if not self._pieces and self._place is not None and self._place <= len(self._task.lines):
            self._pieces.extend(self._line(self._place))
            self._place += 1
        if not self._pieces:
            return Ended("stop")
        piece = self._pieces.popleft()
        if piece.tokens > self._left:
            return Ended("length")
        self._left -= piece.tokens
        return piece

    def _opening(self, command: Open) -> Iterator[Text]:
        """Give the opening line where it is not there; the lines of the frame cost nothing."""
        if command.isolated:
            return
        if not command.prefix and all(message["role"] != "assistant" for message in command.messages):
            yield Text(self._task.frame[0], 0)

    def _answer(self, place: int) -> str:
        """Answer the question for one line: its value is what comes after its last `=`."""
        right = self._is_right(place)
        line = self._task.lines[place]
        return (line if right else self._task.wrong(place, Kind.WRONG_VALUE, "", self._random)).rpartition(
            "= "
        )[2]

    def _line(self, place: int) -> Iterator[Text]:
        task, tail = self._task, self._tail
        if place == len(task.lines):
            yield Text(task.frame[1], 0)
            return
        spoken = f"{self._said(place, tail).removeprefix(tail)}\n"
        self._tail, self._strategy = "", None
        if place and task.steps[place - 1].decision is not None and not tail:
            # A generation may be cut behind a decision, as soon as it goes on: not a whole line later.
            yield Text(spoken[:1], 1)
            yield Text(spoken[1:], max(1, self._line_tokens - 1))
        else:
            yield Text(spoken, self._line_tokens)

    def _said(self, place: int, tail: str) -> str:
        """Draw a line. Once something is wrong in a generation, its answer is, too."""
        last = place == len(self._task.lines) - 1
        if self._is_right(place) and not (self._slipped and last):
            return self._task.lines[place]
        self._slipped = True
        kinds, weights = zip(*self._habits.wrong, strict=True)
        (kind,) = self._random.choices(kinds, weights)
        return self._task.wrong(place, kind, tail, self._random)

    def _is_right(self, place: int) -> bool:
        """Draw whether a line is right; where it is not, whether it stays so."""
        context = (self._upstream, place, self._alone)
        right = self._random.random() < self._chance(place) and not self._stuck.get(context, False)
        if not right and context not in self._stuck:
            self._stuck[context] = self._random.random() < self._habits.chances[place].stuck
        return right

    def _chance(self, place: int) -> float:
        chance = self._habits.chances[place]
        match self._strategy:
            case Strategy.RESUME | Strategy.FEEDBACK:
                return chance.again
            case Strategy.SCAFFOLD:
                return chance.given
            case _ if self._alone:
                return chance.alone
            case _:
                return chance.p

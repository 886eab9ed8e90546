"""Plays a run to its end: the real machine on one side, the scripted model and its servers on the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final

from guard.check.verdict import Ignored, Violation
from guard.run.asked import Asking
from guard.run.messages import (
    Cancelled,
    Close,
    Command,
    Emit,
    Ended,
    Failed,
    Finish,
    Observe,
    Open,
    OutOfTime,
    RunEvent,
    Text,
    Wait,
    Waited,
)
from guard.run.race import machine
from tests.fuzz.model import Model, Said
from tests.fuzz.scenario import Mishap, Scenario
from tests.fuzz.server import Answer, answered, events, stopped

MOST_EVENTS: Final = 200_000
DEAF: Final = 0.1  # servers that do not stop where they are told to


@dataclass(kw_only=True)
class Generation:
    """One generation: how it was asked for, what was to be said, what the run heard of it and what it came to."""

    command: Open
    said: Said
    answer: Answer
    heard: list[RunEvent] = field(default_factory=list)
    found: list[Violation] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)
    close: Close | None = None

    @property
    def ended(self) -> Ended | None:
        """Its end, where the run was told of it."""
        last = self.heard[-1] if self.heard else None
        return last if isinstance(last, Ended) else None

    @property
    def text(self) -> str:
        """What the run was told that it said."""
        return "".join(event.text for event in self.heard if isinstance(event, Text))


@dataclass(kw_only=True)
class Played:
    """What happened in a run. `written` are all lines that models wrote, without their blanks."""

    scenario: Scenario
    model: Model
    asking: Asking
    commands: list[Command] = field(default_factory=list)
    generations: list[Generation] = field(default_factory=list)
    written: set[str] = field(default_factory=set)
    finish: Finish | None = None
    stopped: bool = False  # out of time, or the client has gone

    @property
    def emits(self) -> list[Emit]:
        """What the client got, step by step."""
        return [command for command in self.commands if isinstance(command, Emit)]


def play(scenario: Scenario) -> Played:
    """Play a run to its end."""
    return _Player(scenario).play()


class _Player:
    def __init__(self, scenario: Scenario) -> None:
        self._random = Random(f"play {scenario.seed}")
        model = Model(scenario, Random(f"model {scenario.seed}"))
        self._run = Asking(machine(scenario.job, scenario.policy, scenario.targets))
        self._played = Played(scenario=scenario, model=model, asking=self._run)
        self._open: dict[int, Iterator[RunEvent]] = {}
        self._ended: set[int] = set()
        self._waits = False

    def play(self) -> Played:
        self._perform(self._run.start())
        for _ in range(MOST_EVENTS):
            if self._played.finish is not None:
                return self._played
            self._go_on()
        raise AssertionError("the run never ends")

    def _go_on(self) -> None:
        if self._waits:
            self._waits = False
            self._perform(self._run.handle(Waited(), 0))
            return
        number = self._random.choice([one for one in self._open if one not in self._ended])
        event = next(self._open[number])
        if isinstance(event, Ended | Failed):
            self._ended.add(number)  # though what is not due yet is closed later
        self._played.generations[number - 1].heard.append(event)
        if isinstance(event, OutOfTime | Cancelled):
            self._played.stopped = True
            number = 0
        self._perform(self._run.handle(event, number))

    def _perform(self, commands: list[Command]) -> None:
        for command in commands:
            self._played.commands.append(command)
            match command:
                case Open():
                    self._opened(command)
                case Close(generation=number):
                    self._open.pop(number)
                    self._played.generations[number - 1].close = command
                case Observe(judgement=Violation() as violation, generation=number):
                    at = number or len(self._played.generations)
                    self._played.generations[at - 1].found.append(violation)
                case Observe(judgement=Ignored() as ignored, generation=number):
                    at = number or len(self._played.generations)
                    self._played.generations[at - 1].ignored.append(ignored)
                case Wait():
                    self._waits = True
                case Finish():
                    self._played.finish = command
                case _:
                    pass

    def _opened(self, command: Open) -> None:
        scenario, played = self._played.scenario, self._played
        names = [target.name for target in scenario.targets]
        row = scenario.rows[names.index(command.upstream)]
        said = played.model.answer(command)
        text = said.text if self._random.random() < DEAF else stopped(row, command, said.text)
        ends = "stop" if said.mistake is None or text != said.text else said.mistake.finish_reason
        answer = answered(text, scenario.plan, command.generation, self._random, ends=ends)
        if answer.mishap is Mishap.REFUSED and command.grammar is None:
            answer = answered(text, scenario.plan, len(scenario.plan.mishaps), self._random, ends=ends)
        played.generations.append(Generation(command=command, said=said, answer=answer))
        played.written |= {"".join(line.split()) for line in said.lines}
        self._open[command.generation] = events(row, command, answer, self._random)

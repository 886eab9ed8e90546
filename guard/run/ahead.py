"""Steps that are asked for before they are due, each by itself: those that wait for no other any more.

Their generations write at the same time as the one of the step that is due. What is heard of them is kept,
and told in turn once their step is due; so everything else of a run is as if they had been opened then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from guard.check.replay import Sent, Walk
from guard.procedure.depends import Dependencies
from guard.procedure.execute import Program
from guard.procedure.expected import Expected, Form, Pick
from guard.procedure.types import Value
from guard.run.generation import Generation
from guard.run.messages import Ended, Failed, Text
from guard.trace.alone import Named, can_be_asked

MOST: Final = 400  # steps that are looked at ahead of the one that is due

Happened = Text | Ended | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """A step that comes, and can be asked for by itself.

    `shown` is the same with its working, `values` those of the variables that it reads; it waits for the
    steps of the paths `needs`.
    """

    step: Expected
    shown: Expected
    values: Named
    needs: frozenset[str]


def coming(
    program: Program, worked: Program, inputs: Mapping[str, Value], sent: Sequence[Sent]
) -> Iterator[Coming]:
    """Find the steps that come, up to what hangs on a decision. `worked` is the program in form `work`."""
    walk = Walk.start(program, inputs)
    waiting = Dependencies(program)
    for value in sent:
        if walk.due is not None and not isinstance(value, Pick):
            waiting.take(walk.due, open_=False)
        walk.send(value)
    shown = walk if worked is program else Walk.start(worked, inputs, sent)
    for _ in range(MOST):
        step, work = walk.due, shown.due
        if step is None or work is None:
            return
        able = can_be_asked(work)
        known = step.known or step.decision is not None
        reads = waiting.reads(step)
        needs = waiting.take(step, open_=able or not known)
        if able and known:
            values = {name: work.env[name] for name in reads if name in work.env}
            yield Coming(step=step, shown=work, values=values, needs=needs)
        walk.skip()
        if shown is not walk:
            shown.skip()


@dataclass(slots=True, kw_only=True)
class Kept:
    """A generation that was opened ahead, and what was heard of it."""

    generation: Generation
    heard: list[Happened] = field(default_factory=list)
    tokens: int = 0
    answered: bool = False
    live: bool = True

    def keep(self, event: Happened) -> None:
        """Keep what happened to it."""
        self.heard.append(event)
        match event:
            case Text():
                self.tokens = self.tokens + event.tokens
                self.answered = self.answered or self._is_whole()
            case Ended():
                self.live, self.answered = False, True
            case Failed():
                self.live = False

    def _is_whole(self) -> bool:
        alone = self.generation.alone
        lines = "".join(one.text for one in self.heard if isinstance(one, Text)).split("\n")[:-1]
        return alone is not None and sum(bool(line.strip()) for line in lines) >= alone.answers

    def told(self) -> Generation:
        """Give the generation as if all of that had been told: for its accounts."""
        _count(self.generation, self.heard)
        return self.generation


def _count(generation: Generation, heard: Sequence[Happened]) -> None:
    for event in heard:
        if isinstance(event, Text):
            generation.hear(event)
        elif isinstance(event, Ended):
            generation.usage = event.usage


class Ahead:
    """What one run asks for ahead. `most` generations are open at once, the one of the due step included."""

    def __init__(self, program: Program, inputs: Mapping[str, Value], most: int) -> None:
        self._program, self._inputs, self.most = program, inputs, most
        self._worked = program.in_form(Form.WORK)
        self._plan: list[Coming] = []
        self._since: tuple[int, tuple[object, ...]] = (-1, ("",))  # how far it was, and what was decided
        self._kept: dict[int, Kept] = {}
        self._replayed: list[Happened] = []

    @property
    def tokens(self) -> int:
        """The tokens of the generations that are kept."""
        return sum(one.tokens for one in self._kept.values())

    @property
    def live(self) -> int:
        """How many of them may still write."""
        return sum(one.live for one in self._kept.values())

    def has(self, number: int) -> bool:
        """Whether a generation is kept."""
        return number in self._kept

    def keep(self, number: int, event: Happened) -> None:
        """Keep what happened to a generation."""
        self._kept[number].keep(event)

    def add(self, generation: Generation) -> None:
        """Keep a generation that is opened."""
        self._kept[generation.number] = Kept(generation=generation)

    def take(self, path: str) -> Generation | None:
        """Give the generation of a step that is due now; what was heard of it is to be told."""
        kept = next((one for one in self._kept.values() if one.generation.step == path), None)
        if kept is None:
            return None
        del self._kept[kept.generation.number]
        self._replayed = kept.heard
        return kept.generation

    def replayed(self) -> Happened | None:
        """Give what is to be told next of the generation that was taken; None: nothing is left."""
        return self._replayed.pop(0) if self._replayed else None

    def forget(self, generation: Generation) -> None:
        """Tell no more of the generation that was taken, which is over; what it has cost counts."""
        rest, self._replayed = self._replayed, []
        _count(generation, rest)

    def abandon(self) -> list[Generation]:
        """Give up all that is kept."""
        kept, self._kept = list(self._kept.values()), {}
        return [one.told() for one in kept]

    def next(self, sent: Sequence[Sent], due: str, verified: Collection[str]) -> Coming | None:
        """Find a step to ask for now: one that waits for nothing and has not been asked for."""
        asked = {one.generation.step for one in self._kept.values()} | {due}
        done = {one.generation.step for one in self._kept.values() if one.answered}.union(verified)
        for _ in range(2):
            left = [one for one in self._plan if one.step.path not in asked and one.step.path not in done]
            found = next((one for one in left if one.needs <= done), None)
            if found is not None or not self._looked(sent, again=not left):
                return found
        return None

    def _looked(self, sent: Sequence[Sent], *, again: bool) -> bool:
        """Look ahead where something was decided since, or all that was found is asked for; whether so."""
        since = (len(sent) if again else 0, tuple(value for value in sent if value is not None))
        if since[1] == self._since[1] and since[0] <= self._since[0]:
            return False
        self._since = since
        self._plan = list(coming(self._program, self._worked, self._inputs, sent))
        return True

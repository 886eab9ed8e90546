"""What the models of a run think: never a part of the trace; counted, and dropped or passed on as it is."""

from __future__ import annotations

from typing import Final

from guard.check.verdict import Ignored, Kind, Violation
from guard.run.generation import Generation
from guard.run.messages import Command, Emit, Finish, Observe, Relay, Text
from guard.run.policy import Policy
from guard.run.progress import Progress

LONGEST: Final = 400_000  # characters of one generation; one that thinks on is cut
MOST: Final = (3, 4)  # of the tokens of its run that one generation may think; the rest is for another try
PASSED_ON: Final = 400_000  # characters of all of them that a client gets; the rest is dropped


class Thoughts:
    """The thoughts of one run.

    Where its policy lets them reach the client they leave as they come, or, where nothing leaves before the
    end, in front of that; not where the end is an error, in which no text of a model's has a place.
    """

    def __init__(self, policy: Policy) -> None:
        self._relays = policy.relay_thoughts
        self._holds = policy.deliver == "hold_all"
        self._left = PASSED_ON
        self._held: list[Relay] = []

    def hear(self, generation: Generation, event: Text) -> list[Command]:
        """Take what a generation thought."""
        thought = (event.thought or "")[: self._left]
        if not self._relays or not thought:
            return []
        self._left -= len(thought)
        relay = Relay(generation=generation.number, text=thought)
        if not self._holds:
            return [relay]
        self._hold(relay)
        return []

    def _hold(self, relay: Relay) -> None:
        """Keep a thought, the many small pieces of a generation as one text."""
        self._held.append(relay)
        if len(self._held) > 1024:
            self._held = self._joined()

    def _joined(self) -> list[Relay]:
        joined: dict[int, list[str]] = {}
        for relay in self._held:
            joined.setdefault(relay.generation, []).append(relay.text)
        return [Relay(generation=number, text="".join(texts)) for number, texts in joined.items()]

    def let_go(self) -> list[Relay]:
        """Hold back no longer; give what was held."""
        held, self._held, self._holds = self._joined(), [], False
        return held

    def in_front(self, commands: list[Command]) -> list[Command]:
        """Put what was held in front of the end, if this is one that the client reads."""
        match commands:
            case [*_, Finish(error=None)] if self._held:
                first = next(i for i, c in enumerate(commands) if isinstance(c, Emit | Finish))
                return [*commands[:first], *self.let_go(), *commands[first:]]
            case _:
                return commands


def run_on(generation: Generation, tokens: int) -> bool:
    """Whether a generation thinks and thinks. `tokens`: how many its run has in all."""
    part, whole = MOST
    return generation.thought > LONGEST or generation.thoughts * whole > tokens * part


def runaway(progress: Progress) -> Violation:
    """Say that a generation thought on instead of writing the line that is due."""
    due = progress.expected
    return Violation(
        kind=Kind.RUNAWAY,
        step=progress.due,
        at=len(progress.verified),
        expected="thoughts that come to an end",
        found="more",
        step_kind=None if due is None else due.kind,
    )


def ended(generation: Generation, at: int) -> list[Command]:
    """Tell how much a generation has thought: once, as soon as it says something or is at its end."""
    tokens, generation.musing = generation.musing, 0
    if not tokens:
        return []
    return [Observe(Ignored(text="", at=at, why="thoughts", tokens=tokens))]

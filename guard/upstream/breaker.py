"""When an upstream is left alone: after faults in a row, for longer each time, until one try succeeds.

Pure: the time is data, in seconds on any clock that never goes back.

    closed      faults in a row ------------------> open
    open        its time is over, somebody asks --> half_open, and who asked is the probe
    half_open   the probe fails ------------------> open, for twice as long
                the probe is broken off ----------> half_open, and who asks next is the probe
    any         a request that was begun since the last change succeeds -> closed
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Breaker", "Pass", "State"]


class State(StrEnum):
    """What is let through; the label `state` of metrics."""

    CLOSED = "closed"  # everything
    HALF_OPEN = "half_open"  # one request, to see
    OPEN = "open"  # nothing


@dataclass(frozen=True, slots=True)
class Pass:
    """Leave to send a request; its holder says once how it went. `changes`: of the state, by then."""

    changes: int
    probe: bool = False


class Breaker:
    """Opens after `failures` faults in a row (0: never) for `open_s` seconds, doubled up to `longest_s`.

    What was begun before the last change of the state says nothing about the upstream of now.
    """

    def __init__(self, *, failures: int = 5, open_s: float = 30, longest_s: float = 300) -> None:
        self.failures, self.open_s, self.longest_s = failures, open_s, longest_s
        self.state = State.CLOSED
        self._until = 0.0
        self._faults = 0  # in a row
        self._openings = 0  # since it was last closed
        self._changes = 0
        self._probing = False

    def ask(self, now: float, *, anyway: bool = False) -> Pass | None:
        """Give leave to send a request, None where the upstream is left alone.

        `anyway`: send it whatever the state is, since there is nowhere else to go.
        """
        if self.state is State.OPEN and now >= self._until:
            self._change(State.HALF_OPEN)
        if self.state is State.HALF_OPEN and not self._probing:
            self._probing = True
            return Pass(self._changes, probe=True)
        return Pass(self._changes) if anyway or self.state is State.CLOSED else None

    def left_s(self, now: float) -> float:
        """Seconds until it will be tried again."""
        return max(0.0, self._until - now) if self.state is State.OPEN else 0.0

    def succeeded(self, held: Pass) -> None:
        """Hear that a request was answered."""
        if held.changes != self._changes:
            return
        self._faults = 0
        if self.state is not State.CLOSED:
            self._openings = 0
            self._change(State.CLOSED)

    def failed(self, held: Pass, now: float) -> None:
        """Hear of a fault."""
        if held.changes != self._changes:
            return
        if held.probe:
            self._open(now)
        elif self.state is State.CLOSED:
            self._faults += 1
            if 0 < self.failures <= self._faults:
                self._open(now)

    def abandoned(self, held: Pass) -> None:
        """Hear that nobody will know: it was broken off from our side before there was a word."""
        if held.probe and held.changes == self._changes:
            self._probing = False

    def _open(self, now: float) -> None:
        self._until = now + min(self.longest_s, self.open_s * 2.0 ** min(self._openings, 60))
        self._openings += 1
        self._change(State.OPEN)

    def _change(self, state: State) -> None:
        self.state = state
        self._changes += 1
        self._faults = 0
        self._probing = False

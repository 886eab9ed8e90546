"""The frame of a trace: its opening and closing lines, and which line may come next."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from guard.procedure.expected import Expected
from guard.trace import render
from guard.trace.events import Begin, End, Event, Line, Unreadable

_NUMBERED: Final = re.compile(r"[ \t]*+[0-9]++[\[\].0-9]*+[ \t]")  # begins as a step does, however it goes on


class Phase(Enum):
    """Which line of the frame comes next."""

    OPENING = auto()
    STEPS = auto()
    CLOSING = auto()
    OVER = auto()


class Frame:
    """The frame of one response: how far it has come, and its nonce, None as long as that is not known."""

    __slots__ = ("nonce", "phase", "procedure")

    def __init__(self, procedure: str, nonce: str | None) -> None:
        self.procedure, self.nonce = procedure, nonce
        self.phase = Phase.OPENING

    @property
    def begin(self) -> str:
        """The opening line; without a nonce, as long as that is not known."""
        return render.begin(self.procedure, self.nonce or "")

    @property
    def end(self) -> str:
        """The closing line, likewise."""
        return render.end(self.nonce or "")

    def is_mine(self, nonce: str) -> bool:
        """Whether a nonce may be that of this response."""
        return self.nonce in {None, nonce}

    def opens(self, begin: Begin) -> bool:
        """Whether a line is the opening line, and due."""
        mine = begin.procedure == self.procedure and self.is_mine(begin.nonce)
        return mine and self.phase is Phase.OPENING

    def skip(self, phase: Phase) -> None:
        """Go on as if a line of the frame had been right, if it is the one that is due."""
        if self.phase is phase:
            self.phase = Phase.STEPS if phase is Phase.OPENING else Phase.OVER

    def is_aside(self, event: Event) -> bool:
        """Whether a text says something beside the trace: anything in front of it, prose within it."""
        match event:
            case Begin() as begin:
                return self.phase is Phase.OPENING and not self.opens(begin)
            case Line() | End():
                return self.phase is Phase.OPENING
            case Unreadable() as unreadable:
                return self.phase is Phase.OPENING or not _NUMBERED.match(unreadable.text)
            case _:
                return False

    def wanted(self, due: Expected | None) -> str:
        """Give the line that must come next, for people. `due` is the step, where it is one of those."""
        match self.phase:
            case Phase.OPENING:
                return render.begin(self.procedure, self.nonce or render.HOLE)
            case Phase.STEPS:
                return render.outline(due) if due is not None else "what was never decided"
            case Phase.CLOSING:
                return render.end(self.nonce or render.HOLE)
            case Phase.OVER:
                return "nothing behind the closing line"

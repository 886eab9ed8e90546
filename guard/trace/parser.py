"""The incremental parser: text in, events out, however the text is cut.

Usual lines are read by `usual`, in microseconds; what that leaves, `trace.lark` decides.
"""

from __future__ import annotations

from guard.errors import InvalidState
from guard.trace.events import Blank, Event, TooLong
from guard.trace.grammar import read
from guard.trace.lines import LIMITS, Growing, Limits, Lines, RawLine
from guard.trace.usual import usual
from guard.trace.working import same_working

__all__ = ["Limits", "Parser", "read_line", "same_working"]


class Parser:
    """Reads a trace. `feed` and `close` never raise on any text."""

    __slots__ = ("_closed", "_dead", "_lines")

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._lines = Lines(limits)
        self._closed = False
        self._dead = False  # a limit was exceeded

    def feed(self, text: str) -> list[Event]:
        """Take a piece of text, give the events of the lines it ends."""
        if self._closed:
            raise InvalidState("a parser was fed after it was closed")
        events: list[Event] = []
        for line in () if self._dead else self._lines.feed(text):
            if isinstance(line, Growing):
                continue
            events.append(_event(line))
            if isinstance(events[-1], TooLong):
                self._dead = True
                break
        return events

    def close(self) -> list[Event]:
        """Take the end of the text, give the event of a last line that has no end."""
        self._closed = True
        line = None if self._dead else self._lines.close()
        return [] if line is None else [_event(line)]


def _event(line: RawLine | TooLong) -> Event:
    return line if isinstance(line, TooLong) else read_line(line)


def read_line(line: RawLine) -> Event:
    """What a line is."""
    event = usual(line)
    if event is not None:
        return event
    if not line.text.strip(" \t\r"):
        return Blank(at=line.at, end=line.end)
    return read(line.text, line.at, line.end)

"""Text as it arrives, cut into lines within limits, however it is cut into pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from guard.trace.events import TooLong


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a trace may come to: characters of a line, lines, characters in all."""

    line: int = 16_384
    lines: int = 101_000  # the steps that an execution may have, a frame and some blank ones
    total: int = 8_000_000


LIMITS = Limits()


class RawLine(NamedTuple):
    """A line without its end. `at` is its offset; `end` is behind its line feed, where it has one."""

    text: str
    at: int
    end: int

    @property
    def terminated(self) -> bool:
        """Whether a line feed was read; only the last line of a text can lack it."""
        return self.end > self.at + len(self.text)

    @property
    def raw(self) -> str:
        """The text with its end, where it has one."""
        return f"{self.text}\n" if self.end > self.at + len(self.text) else self.text


class Growing(NamedTuple):
    """So much of a line is there, its beginning; more of it comes. `at` is where the line starts."""

    text: str
    at: int


FIRST_LOOK = 256  # characters of a line until it is said that it grows
NEXT_LOOK = 128


def looks(length: int, seen: int) -> range:
    """Give the lengths at which a line is looked at, up to its own, which are more than what was `seen`."""
    after = max(0, seen - FIRST_LOOK) // NEXT_LOOK * NEXT_LOOK + (NEXT_LOOK if seen >= FIRST_LOOK else 0)
    return range(FIRST_LOOK + after, length + 1, NEXT_LOOK)


class Lines:
    """Cuts text at line feeds. Once a limit is exceeded it says so and reads no further.

    A limit is noticed at the same offset whatever the pieces are: what is too long is too long as soon
    as that much of it is there, whether its end has come or not. So is how a line grows.
    """

    __slots__ = ("_ample", "_at", "_count", "_dead", "_free", "_held", "_limits", "_pieces", "_room", "_seen")

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._pieces: list[str] = []  # of the line that has not ended
        self._held = 0  # characters in them
        self._at = 0  # where that line starts
        self._room = min(limits.line, limits.total)  # characters that it may have; -1: nothing is held
        self._ample = limits.total - limits.line  # up to here a line may be as long as any
        self._free = min(self._room, FIRST_LOOK - 1)  # up to here there is nothing to be looked at
        self._seen = 0  # so much of the line was looked at
        self._count = 0
        self._dead = False

    @property
    def offset(self) -> int:
        """How many characters have been read."""
        return self._at + self._held

    def feed(self, text: str) -> list[RawLine | TooLong | Growing]:
        """The lines that this piece ends, and how long ones grow."""
        if self._dead:
            return []
        if self._pieces:
            self._pieces.append(text)
            text = "".join(self._pieces)
            self._pieces.clear()
        *ended, rest = text.split("\n")
        lines: list[RawLine | TooLong | Growing] = []
        for line in ended:
            self._held = len(line)
            if self._held > self._free:
                lines += self._looked(line)
                self._seen, self._free = 0, min(self._room, FIRST_LOOK - 1)
            if self._held > self._room or self._count >= self._limits.lines:
                return [*lines, self._stop()]
            at, self._at = self._at, self._at + self._held + 1
            self._count += 1
            if self._at > self._ample:
                self._room = min(self._limits.line, self._limits.total - self._at)
                self._free = min(self._room, self._free)
            lines.append(RawLine(line, at, self._at))
        self._held = len(rest)
        if self._held > self._free:
            lines += self._looked(rest)
        if self._held > self._room:
            lines.append(self._stop())
        elif rest:
            self._pieces.append(rest)
        return lines

    def hold(self, text: str) -> bool:
        """Take a piece that has no line feed, if it exceeds no limit: what most pieces of a stream are."""
        held = self._held + len(text)
        if held > self._free:
            return False
        self._pieces.append(text)
        self._held = held
        return True

    def _looked(self, line: str) -> list[Growing]:
        """Say how a line has grown since that was said last."""
        found = [Growing(line[:length], self._at) for length in looks(min(len(line), self._room), self._seen)]
        if found:
            self._seen = len(found[-1].text)
        self._free = min(self._room, max(FIRST_LOOK, self._seen + NEXT_LOOK) - 1)
        return found

    def close(self) -> RawLine | TooLong | None:
        """The last line where it has no end, else None."""
        if self._dead or not self._held:
            return None
        if self._count >= self._limits.lines:
            return self._stop()
        line = RawLine("".join(self._pieces), self._at, self.offset)
        self._at, self._held, self._pieces = line.end, 0, []
        return line

    def end(self) -> None:
        """Read no further."""
        self._dead, self._room, self._free = True, -1, -1
        self._pieces.clear()

    def _stop(self) -> TooLong:
        if self._held <= self._room:
            limit = f"{self._limits.lines} lines"
        elif self._room == self._limits.line:
            limit = f"{self._limits.line} characters in a line"
        else:
            limit = f"{self._limits.total} characters in all"
        self.end()
        return TooLong(limit=limit, at=self._at)

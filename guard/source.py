"""A file's text with locations: offsets to lines and columns, and the caret below a line."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from guard.errors import Problem

LINE_SHOWN: Final = 160  # characters of a line in a message


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of characters: `start` included, `end` excluded."""

    start: int
    end: int


@dataclass(frozen=True)
class Source:
    """The text of one file. `name` is what messages call it."""

    name: str
    text: str

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        starts.extend(i + 1 for i, char in enumerate(self.text) if char == "\n")
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1, the column in characters."""
        line = bisect_right(self._starts, offset) - 1
        return line + 1, offset - self._starts[line] + 1

    def line(self, number: int) -> str:
        """The text of a line, numbered from 1, without its end."""
        start = self._starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")

    def caret(self, span: Span) -> str:
        """The line of a span with a caret below every character of it that is on that line."""
        number, column = self.position(span.start)
        text, column = _window(self.line(number), column)
        width = max(1, min(span.end - span.start, len(text) - column + 1))
        gutter = f"  {number} | "
        # Tabs stay tabs, so that the carets stand below what they mean at any tab width.
        pad = "".join("\t" if char == "\t" else " " for char in text[: column - 1])
        return f"{gutter}{text}\n{' ' * (len(gutter) - 2)}| {pad}{'^' * width}"

    def problem(self, span: Span, message: str, *, help: str = "", severity: str = "error") -> Problem:  # noqa: A002
        """A problem at a span, with its place and caret filled in."""
        line, column = self.position(span.start)
        return Problem(
            file=self.name,
            line=line,
            column=column,
            message=message,
            help=help,
            snippet=self.caret(span),
            severity=severity,
        )


def _window(text: str, column: int) -> tuple[str, int]:
    """Cut a long line to what stands around a column; give that, and the column in it."""
    if len(text) <= LINE_SHOWN:
        return text, column
    start = max(0, min(column - 1 - LINE_SHOWN // 2, len(text) - LINE_SHOWN))
    before, behind = "..." if start else "", "..." if start + LINE_SHOWN < len(text) else ""
    return f"{before}{text[start : start + LINE_SHOWN]}{behind}", column - start + len(before)

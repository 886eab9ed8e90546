"""What people read: 80 columns, coloured only where a terminal shows it."""

from __future__ import annotations

import json
import os
import textwrap
from enum import StrEnum
from typing import TextIO

WIDTH = 80


class Style(StrEnum):
    """What a piece of text means; the value is its colour (ECMA-48, select graphic rendition)."""

    PLAIN = ""
    GOOD = "32"
    BAD = "31"
    DOUBTFUL = "33"
    FAINT = "2"
    STRONG = "1"


class Terminal:
    """Writes lines to a stream. Colours follow https://no-color.org: none where NO_COLOR is set."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.interactive = stream.isatty()
        self._coloured = self.interactive and not os.environ.get("NO_COLOR")

    def line(self, text: str = "") -> None:
        """Write one line."""
        self._stream.write(text + "\n")
        self._stream.flush()

    def json(self, value: object) -> None:
        """Write data for a program to read, in ASCII: no locale can break it."""
        self.line(json.dumps(value, indent=2))

    def heading(self, text: str) -> None:
        """Write a line that starts a section, an empty one before it."""
        self.line()
        self.line(self.styled(text, Style.STRONG))

    def paragraph(self, text: str, indent: str = "") -> None:
        """Write text wrapped to the width."""
        for line in textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent):
            self.line(line)

    def styled(self, text: str, style: Style) -> str:
        """Give the text in a style; as it is where there are no colours."""
        return f"\x1b[{style}m{text}\x1b[0m" if self._coloured and style else text

    def progress(self, label: str, done: int, total: int) -> None:
        """Redraw a progress bar on a terminal (in bytes); elsewhere say it once at the end."""
        if not self.interactive:
            if done >= total:
                self.line(f"{label}: {total / 1e6:.0f} MB")
            return
        width = WIDTH - len(label) - 24
        filled = width * done // max(total, 1)
        bar = "#" * filled + "." * (width - filled)
        end = "\n" if done >= total else ""
        self._stream.write(f"\r{label} [{bar}] {done / 1e6:6.1f} / {total / 1e6:.1f} MB{end}")
        self._stream.flush()

    def count(self, label: str, done: int, total: int) -> None:
        """Redraw on a terminal how many of so many are done; elsewhere say nothing."""
        if self.interactive:
            self._stream.write(f"\r{label} {done} / {total}" + ("\n" if done >= total else ""))
            self._stream.flush()


def cut(text: str, width: int) -> str:
    """Fit text on one line of at most `width` characters, an ellipsis where it was longer."""
    text = text.replace("\n", "\\n")
    return text if len(text) <= width else text[: width - 1] + "…"

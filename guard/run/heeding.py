"""Whether what a generation writes is what its grammar lets a server write that heeds it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final

from guard.dialect.begin import Reading
from guard.dialect.tree import Grammar
from guard.wire import finish

WORK: Final = 10_000  # parts of the grammar that are looked at for a piece, some 7 ms
BLANK: Final = 64  # characters of white space in front


class Heeding:
    """Reads the text of one generation as it comes. `strayed`: no server that heeds the grammar wrote this.

    Where that is doubtful it has not: white space in front is passed over, which servers and templates cut
    off and add, and so is a last line end that is missing; and where it would take too long to know, nothing
    is looked at any more.
    """

    def __init__(self, promised: Callable[[], Grammar]) -> None:
        self._promised = promised
        self._front: str | None = ""  # white space that nothing has followed yet; None: something has
        self.strayed = False

    @cached_property
    def _reading(self) -> Reading:
        """Made when something comes: a server may refuse the grammar, or not answer."""
        return Reading(self._promised())

    def read(self, piece: str) -> None:
        """Take a piece of the text."""
        if self.strayed or not piece:
            return
        if self._front is None:
            self.strayed = not self._reading.feed(piece, work=WORK)
            return
        front, text = self._front + piece, piece.lstrip()
        if text:
            self._front = None
            self.strayed = not self._reading.feed_either(front, text, f" {text}", work=WORK)
        else:
            self._front = front[-BLANK:]

    def end(self, finish_reason: str | None) -> None:
        """Take the end; where the model has come to it by itself, it must be allowed there.

        Not where nothing was written: a refusal has a field of its own, and a grammar may hold only for what
        comes behind thoughts.
        """
        if not finish.is_own(finish_reason) or self.strayed or self._front is not None:
            return
        if self._reading.may_end:
            return
        self.strayed = not (self._reading.feed("\n") and self._reading.may_end)

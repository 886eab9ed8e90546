"""Texts that come in pieces from several places, put into one: each place begins on a line of its own."""

from __future__ import annotations


class Apart:
    """Joins pieces in the order in which they come. Places are told apart by equality."""

    def __init__(self) -> None:
        self._place: object = None
        self._last = ""  # the character that came last

    @property
    def nothing(self) -> bool:
        """Whether there was no text at all."""
        return not self._last

    def join(self, place: object, text: str) -> str:
        """Give a piece as it stands behind what came before it."""
        if not text:
            return ""
        begins = place != self._place and self._last not in {"", "\n"}
        self._place, self._last = place, text[-1]
        return f"\n{text}" if begins else text

"""What a model says in one answer, put into one text: characters joined, calls told apart, echoes gone."""

from __future__ import annotations

from guard.upstream.request import TOOL
from guard.wire.apart import Apart
from guard.wire.chat import Call, Piece
from guard.wire.lenient import Pairs


class Spoken:
    """Puts what is said and what is written into the tool `trace` into one text, each on lines of its own.

    What is written into a tool of another name is no part of it.
    """

    def __init__(self) -> None:
        self.called = False
        self.aside = False  # whether something was said, or another tool was called
        self._places = Apart()  # calls that it was written into, None: it was said
        self._calls: dict[int, tuple[str | None, str | None]] = {}  # id and name of the last one at a place
        self._pairs = Pairs()

    @property
    def nothing(self) -> bool:
        """Whether there was no text at all: a refusal has a field of its own."""
        return self._places.nothing

    def text(self, piece: Piece) -> str:
        """Give what a piece adds."""
        said = self._places.join(None, piece.text)
        self.aside = self.aside or bool(piece.text.strip())
        for call in piece.inputs:
            known, name = self._told_apart(call)
            if name not in (None, TOOL):
                self.aside = True
                continue
            self.called = True
            said += self._places.join((call.place, known), call.text)
        return self._pairs.join(said)

    def close(self) -> str:
        """Give what is left at the end."""
        return self._pairs.close()

    def _told_apart(self, call: Call) -> tuple[str | None, str | None]:
        """Say which call it is, by id and name: servers number different ones alike, and repeat nothing."""
        known, name = self._calls.get(call.place, (None, None))
        if call.id is not None and known is not None and call.id != known:
            name = None  # another call begins
        self._calls[call.place] = (call.id or known, call.name or name)
        return self._calls[call.place]


class Echo:
    """Takes away a prefix that a server repeats before it goes on."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._seen = 0  # so much of it was repeated

    def strip(self, text: str) -> str:
        """Give what a piece adds to the prefix."""
        if not self._prefix:
            return text
        at = self._seen
        if self._prefix.startswith(text, at) and at + len(text) < len(self._prefix):
            self._seen += len(text)
            return ""
        left = len(self._prefix) - at
        repeated = text[:left] == self._prefix[at:]
        said = text[left:] if repeated else self._prefix[:at] + text
        self._prefix, self._seen = "", 0
        return said

    def rest(self) -> str:
        """Give what looked like the beginning of an echo and was none."""
        rest = self._prefix[: self._seen]
        self._prefix, self._seen = "", 0
        return rest

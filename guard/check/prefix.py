"""The verified prefix of a response: its text, and the steps in it by their paths."""

from __future__ import annotations

from guard.procedure.expected import Expected, Unknown
from guard.procedure.model import StepKind
from guard.procedure.types import Value


class Prefix:
    """What was verified of one response.

    Of a step no more is kept than its path: a second execution can give the rest. `decided` is what the
    model decided, by path; `supported` are the paths of what its quotes say. `passes` is how many a loop
    has, by the path of its header. `ended`: a violation has been found, so that no more text belongs to the
    prefix, though steps may be right once more.
    """

    __slots__ = ("_behind", "_places", "_text", "decided", "ended", "passes", "paths", "supported")

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.decided: dict[str, Value] = {}
        self.supported: set[str] = set()
        self.passes: dict[str, int] = {}
        self.ended = False
        self._places: set[str] = set()  # the paths, as far as they were asked for
        self._text: list[str] = []
        self._behind: list[str] = []  # lines since the last verified one

    @property
    def text(self) -> str:
        """The text up to and including the last verified line."""
        if len(self._text) > 1:
            self._text = ["".join(self._text)]
        return self._text[0] if self._text else ""

    @property
    def begun(self) -> bool:
        """Whether there is any text, which takes no joining to know."""
        return bool(self._text)

    def add(self, step: Expected, value: Value, raw: str, *, supported: bool = False) -> None:
        """Add a verified step and its line."""
        path = step.path
        self.paths.append(path)
        if step.decision is not None:
            self.decided[path] = value
        if supported:
            self.supported.add(path)
        if step.kind is StepKind.LOOP and isinstance(value, int):
            self.passes[path] = value
        if self._behind or self.ended:
            self.keep(raw)
        else:
            self._text.append(raw)

    def keep(self, raw: str) -> None:
        """Add a verified line, and what was left out in front of it."""
        if not self.ended:
            self._text += [*self._behind, raw]
            self._behind.clear()

    def leave_out(self, raw: str) -> None:
        """Take a line that says nothing; it belongs to the prefix when a verified one comes behind it."""
        self._behind.append(raw)

    def has(self, path: str) -> bool:
        """Whether a step is verified."""
        if len(self._places) < len(self.paths):
            self._places.update(self.paths[len(self._places) :])
        return path in self._places

    def drop_last(self) -> None:
        """Forget the last step."""
        self._places.discard(self.paths.pop())

    def value(self, step: Expected) -> Value:
        """Give the value of a verified step."""
        value = self.decided[step.path] if step.decision is not None else step.value
        assert not isinstance(value, Unknown)
        return value

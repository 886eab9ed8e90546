"""The verified prefix of a response: its text, and the steps in it by their paths."""

from __future__ import annotations

from guard.procedure.expected import Expected, Unknown
from guard.procedure.model import StepKind
from guard.procedure.types import Value


class Prefix:
    """What was verified of one response.

    Of a step no more is kept than its path: a second execution can give the rest. `decided` is what the
    model decided, by path; `passes` how many a loop has, by the path of its header.
    """

    __slots__ = ("_behind", "_places", "_text", "decided", "passes", "paths")

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.decided: dict[str, Value] = {}
        self.passes: dict[str, int] = {}
        self._places: set[str] = set()  # the paths, as far as they were asked for
        self._text: list[str] = []
        self._behind: list[str] = []  # lines since the last verified one

    @property
    def text(self) -> str:
        """The text up to and including the last verified line."""
        if len(self._text) > 1:
            self._text = ["".join(self._text)]
        return self._text[0] if self._text else ""

    def add(self, step: Expected, value: Value) -> None:
        """Add a verified step."""
        path = step.path
        self.paths.append(path)
        if step.decision is not None:
            self.decided[path] = value
        if step.kind is StepKind.LOOP and isinstance(value, int):
            self.passes[path] = value

    def keep(self, raw: str) -> None:
        """Add a verified line, and what was left out in front of it."""
        if self._behind:
            self._text += self._behind
            self._behind.clear()
        self._text.append(raw)

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

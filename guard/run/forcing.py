"""What becomes of what a run adds to requests: which grammars they had, and what servers refuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from guard.dialect.line import Level
from guard.run.generation import Generation
from guard.run.messages import Ours, Target

_LEVELS: Final = tuple(Level)


class Forcing:
    """The upstreams of one run, and what its generations on them are held to.

    `again` says whether a generation that is refused is asked for once more without its grammar.
    """

    def __init__(self, targets: Sequence[Target], *, again: bool) -> None:
        self.targets, self._again = tuple(targets), again
        self._left_out: set[tuple[Ours, str]] = set()
        self.level: Level | None = None  # the least that a generation was held to

    def opened(self, generation: Generation) -> None:
        """Note what a generation is held to."""
        if self.level is None or _LEVELS.index(generation.level) < _LEVELS.index(self.level):
            self.level = generation.level

    def may_leave_out(self, ours: Ours, upstream: int) -> bool:
        """Say whether something may be left out; each once, so that a run comes to an end."""
        if ours is Ours.GRAMMAR and not self._again:
            return False
        return (ours, self.targets[upstream].name) not in self._left_out

    def leave_out(self, ours: Ours, upstream: int) -> None:
        """Have an upstream be sent something no more, in this run."""
        name, changes = self.targets[upstream].name, _LEFT_OUT[ours]
        self._left_out.add((ours, name))
        self.targets = tuple(
            replace(target, **changes) if target.name == name else target for target in self.targets
        )


_LEFT_OUT: Final[Mapping[Ours, Mapping[str, Any]]] = {
    Ours.GRAMMAR: {"dialect": None},
    Ours.FIELDS: {"plain": True},
    Ours.PREFIX: {"prefill": False},
    Ours.HISTORY: {},  # which the run forgets itself
}

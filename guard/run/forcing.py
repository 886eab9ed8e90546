"""What becomes of the grammars of a run: which generations had one, and what servers refuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from guard.dialect.line import Level
from guard.errors import UpstreamError, UpstreamStatusError
from guard.run.generation import Generation
from guard.run.messages import Target

REFUSALS: Final = frozenset({400, 422})  # statuses of a request that a server does not understand
_LEVELS: Final = tuple(Level)


class Forcing:
    """The upstreams of one run, and what its generations on them are held to.

    `again` says whether a generation that is refused is asked for once more without its grammar.
    """

    def __init__(self, targets: Sequence[Target], *, again: bool) -> None:
        self.targets, self._again = tuple(targets), again
        self.level: Level | None = None  # the least that a generation was held to

    def opened(self, generation: Generation) -> None:
        """Note what a generation is held to."""
        if self.level is None or _LEVELS.index(generation.level) < _LEVELS.index(self.level):
            self.level = generation.level

    def refused(self, generation: Generation, error: UpstreamError) -> bool:
        """Say whether an error may be for the grammar alone; from here on its upstream gets none."""
        if not (
            self._again
            and generation.heeding is not None
            and isinstance(error, UpstreamStatusError)
            and error.upstream_status in REFUSALS
            and not generation.characters
        ):
            return False
        name = self.targets[generation.upstream].name
        self.targets = tuple(
            replace(target, dialect=None) if target.name == name else target for target in self.targets
        )
        return True

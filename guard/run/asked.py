"""Who was asked in a run: the upstream and model of each generation, as configured or as the client says."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from guard.run.messages import Command, Open, RunEvent
from guard.run.race import Race
from guard.run.run import Run


@dataclass(frozen=True, slots=True)
class Asked:
    """What one generation was asked of. Nothing of it is what a server calls itself."""

    upstream: str
    model: str


class Asking:
    """A run or race that remembers whom it asks. To be driven in its place."""

    def __init__(self, run: Run | Race) -> None:
        self._run = run
        self._asked: dict[int, Asked] = {}  # by generation

    def start(self) -> list[Command]:
        """See `Run`."""
        return self._noted(self._run.start())

    def handle(self, event: RunEvent, generation: int = 0) -> list[Command]:
        """See `Run`."""
        return self._noted(self._run.handle(event, generation))

    @property
    def decided(self) -> bool:
        """See `Run`."""
        return self._run.decided

    def of(self, generation: int) -> Asked | None:
        """Say whom a generation was asked of; None: it was not opened."""
        return self._asked.get(generation)

    def last(self, lost: Collection[int] = ()) -> Asked | None:
        """Say whom the last generation was asked of that is none of the `lost` ones; None: there was none."""
        return next((one for number, one in reversed(self._asked.items()) if number not in lost), None)

    def _noted(self, commands: list[Command]) -> list[Command]:
        for command in commands:
            if isinstance(command, Open):
                self._asked[command.generation] = Asked(command.upstream, command.model)
        return commands

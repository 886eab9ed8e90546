"""Which upstreams refuse grammars: remembered for a while, then tried again.

Pure: the time is data, in seconds on any clock that never goes back.
"""

from __future__ import annotations

from typing import Final

KEPT: Final = 1_000  # models come from clients, and there may be any number of them


class Refusals:
    """Remembers for `seconds` by upstream and model; of more than `KEPT` the oldest are forgotten."""

    def __init__(self, *, seconds: float = 600) -> None:
        self.seconds = seconds
        self._until: dict[tuple[str, str], float] = {}

    def remember(self, upstream: str, model: str, now: float) -> bool:
        """Remember a refusal; say whether it is news."""
        news = not self.holds(upstream, model, now)
        self._until.pop((upstream, model), None)  # so that the latest one stands last
        self._until[upstream, model] = now + self.seconds
        while len(self._until) > KEPT:
            del self._until[next(iter(self._until))]
        return news

    def holds(self, upstream: str, model: str, now: float) -> bool:
        """Say whether a grammar would be refused, as far as is known."""
        return now < self._until.get((upstream, model), now)

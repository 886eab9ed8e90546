"""How many retries an upstream is sent: a share of its requests, so that a bad hour does not get worse.

Pure: the time is data, in seconds on any clock that never goes back.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

__all__ = ["Begun", "RetryBudget"]


@dataclass(slots=True, eq=False)
class Begun:
    """A request that was let through, until it is `ended`."""

    at: float
    retry: bool
    running: bool = True


class RetryBudget:
    """Counts what was begun in the last `window_s` seconds, or is still running.

    A retry is let through while there are fewer retries than `percent` of the requests that were none,
    or than `minimum`, whichever is more.
    """

    def __init__(self, *, percent: float = 20, window_s: float = 10, minimum: int = 3) -> None:
        self.percent, self.window_s, self.minimum = percent, window_s, minimum
        self._requests, self._retries = _Tally(window_s), _Tally(window_s)

    def begin(self, now: float, *, retry: bool) -> Begun | None:
        """Count something that is to begin; None: it is a retry, and there were enough of them."""
        if retry and self._retries.count(now) >= self.most(now):
            return None
        begun = Begun(now, retry)
        (self._retries if retry else self._requests).add(begun)
        return begun

    def withdraw(self, begun: Begun) -> None:
        """Count something no longer that was only to begin: it does now, or never will."""
        (self._retries if begun.retry else self._requests).remove(begun)

    def most(self, now: float) -> float:
        """So many retries may there be."""
        return max(self.minimum, self._requests.count(now) * self.percent / 100)

    def end(self, begun: Begun) -> None:
        """Hear that it is over. Only the first time counts."""
        (self._retries if begun.retry else self._requests).end(begun)


class _Tally:
    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._recent: deque[Begun] = deque()
        self._old = 0  # begun before the window, and still running

    def add(self, begun: Begun) -> None:
        self.count(begun.at)  # nobody else may ask for a long time
        self._recent.append(begun)

    def remove(self, begun: Begun) -> None:
        if begun in self._recent:
            self._recent.remove(begun)
        else:
            self.end(begun)

    def end(self, begun: Begun) -> None:
        if begun.running and (not self._recent or begun.at < self._recent[0].at):
            self._old -= 1
        begun.running = False

    def count(self, now: float) -> int:
        while self._recent and self._recent[0].at <= now - self._window_s:
            self._old += self._recent.popleft().running
        return len(self._recent) + self._old

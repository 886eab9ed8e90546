"""What the network did to a run: whether the same is tried again, when, and what to tell at the end."""

from __future__ import annotations

from collections import Counter
from typing import Final

from guard.errors import UpstreamError, UpstreamSpared, UpstreamStatusError
from guard.run import endings
from guard.run import policy as retry
from guard.run.messages import Failed, RunError
from guard.run.policy import Policy

CLIENTS: Final = frozenset({400, 413, 422})  # statuses of a request that is wrong in itself


def is_clients(error: UpstreamError) -> bool:
    """Whether a fault is the client's: another upstream would say the same."""
    return isinstance(error, UpstreamStatusError) and error.upstream_status in CLIENTS


class Faults:
    """The faults of one run. `herd`: what tells it from runs that fail at the same time."""

    def __init__(self, policy: Policy, herd: str) -> None:
        self._policy, self._herd = policy, herd
        self._count: Counter[int] = Counter()  # by upstream
        self._last: UpstreamError | None = None

    def pause(self, failed: Failed, upstream: int, *, further: bool) -> float | None:
        """Count a fault on an upstream; give the seconds until the same is tried there again, None: never.

        That an upstream was not asked is no fault of it.
        """
        if isinstance(failed.error, UpstreamSpared):
            return None
        self._last = failed.error
        self._count[upstream] += 1
        return retry.pause(
            self._policy,
            failed.error,
            self._count[upstream],
            left_s=failed.left_s,
            further=further,
            herd=f"{self._herd} {upstream}",
        )

    def ending(self, error: UpstreamError) -> RunError:
        """Say that an error was the last one that the run could take."""
        return endings.upstream_failed(error, self._last)

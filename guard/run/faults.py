"""What the network did to a run: whether the same is tried again, when, and what to tell at the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final
from zlib import crc32

from guard.errors import UpstreamBusy, UpstreamError, UpstreamSpared, UpstreamStatusError
from guard.run import endings
from guard.run.messages import Failed, RunError
from guard.run.policy import Policy
from guard.wire import finish

BACKOFF_S: Final = 0.5  # before the first retry after a fault of the network; doubled for each further one
LONGEST_BACKOFF_S: Final = 8.0
LONGEST_WAIT_S: Final = 10.0  # that a server may ask for where there is a further one to go to
SPREAD: Final = 0.1  # of a wait that the server asked for
CLIENTS: Final = frozenset({400, 413, 422})  # statuses of a request that is wrong in itself


def is_clients(error: UpstreamError) -> bool:
    """Whether a fault is the client's: another upstream would say the same."""
    return isinstance(error, UpstreamStatusError) and error.upstream_status in CLIENTS


def of_end(reason: str | None) -> UpstreamError | None:
    """Give the fault that a server says a generation ended by; None: its finish reason names none."""
    if finish.end_of(reason) is not finish.End.FAULT:
        return None
    named = finish.plain(reason)  # a word of our own list
    return UpstreamBusy(f"it ended the generation with {named!r}", upstream_status=503)


def pause(
    policy: Policy,
    error: UpstreamError,
    faults: int,
    *,
    left_s: float | None = None,
    further: bool = False,
    herd: str = "",
) -> float | None:
    """Seconds to wait before the same generation is opened again after a fault; None: do not.

    `faults` is how many this upstream has had in this run, the present one included; `left_s` is what is
    left of the run's time (None: all of it), and a wait must fit into it; `further` says that there is
    another upstream to go to. What the server asks for is never cut short. Runs that fail together wait
    for different times, by what is in `herd`: back-off is cut by up to a half of it.
    """
    if not error.retryable or faults > policy.transport_retries:
        return None
    share = crc32(f"{herd} {faults}".encode()) / 2**32
    asked = error.retry_after_s
    if asked is None:
        seconds = min(BACKOFF_S * 2.0 ** (faults - 1), LONGEST_BACKOFF_S) * (1 - share / 2)
    elif further and asked > LONGEST_WAIT_S:
        return None
    else:
        seconds = max(0.0, asked) * (1 + SPREAD * share)
    return seconds if seconds < (policy.seconds if left_s is None else left_s) else None


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
        return pause(
            self._policy,
            failed.error,
            self._count[upstream],
            left_s=failed.left_s,
            further=further,
            herd=f"{self._herd} {upstream}",
        )

    def ending(self, error: UpstreamError, *, ours: bool = False) -> RunError:
        """Say that an error was the last that the run could take. `ours`: it is no mistake of the client."""
        ended = endings.upstream_failed(error, self._last)
        return replace(ended, status=error.status) if ours and is_clients(error) else ended

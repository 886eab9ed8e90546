"""What a run does about a fault: whose it is goes by what of the request was ours alone.

A server may refuse what we added to what the client asked for, or fall silent on it. Then the next request
goes without it, one thing after the other in the order of `Ours`; what is left is the client's own request. A
server that has trouble with the very first one is asked the same once more before that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from guard.errors import (
    UpstreamConnectError,
    UpstreamConnectTimeout,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamSpared,
    UpstreamStatusError,
    UpstreamTimeout,
)
from guard.run import endings
from guard.run import policy as retry
from guard.run.faults import Faults, is_clients
from guard.run.forcing import Forcing
from guard.run.generation import Generation
from guard.run.messages import Failed, Ours, Result, Strategy
from guard.run.policy import Attempt
from guard.run.progress import Progress

LATER: Final = frozenset({503, 529})  # statuses of a server that has too much to do, whatever is asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """What to do next. `strategy`: to open a generation so, None: nothing is left to be asked here.

    `wait_s`: after so many seconds. `upstream`: there, None: where the run is. `restart`: from the beginning.
    `result` is what has become of the generation. `otherwise`: the client's own request was taken before, so
    that the end, if it is one, is none of its making.
    """

    result: Result
    strategy: Strategy | None = None
    wait_s: float | None = None
    upstream: int | None = None
    restart: bool = False
    otherwise: bool = False


@dataclass(slots=True, kw_only=True)
class Blame:
    """Decides what to do about the faults of one run."""

    forcing: Forcing
    faults: Faults
    progress: Progress
    attempts: list[Attempt]

    def react(self, event: Failed, generation: Generation) -> Reaction:
        """Decide about the fault that ended a generation, the last one of the attempts."""
        error, refused = event.error, is_clients(event.error)
        less = self._less(generation, error)
        if refused and less is not None:
            self.forcing.leave_out(less, generation.upstream)
            return Reaction(result=Result.REFUSED, strategy=_WITHOUT[less], restart=less is Ours.HISTORY)
        further = None if refused else retry.further(self.attempts, self.forcing.targets)
        pause = self.faults.pause(event, generation.upstream, further=further is not None)
        result = Result.REFUSED if refused and self._taken(generation) else endings.of_fault(error)
        if pause is None:
            strategy = None if further is None else Strategy.FALLBACK
            otherwise = _is_for_request(error) and not _wrote(generation) and self._taken(generation)
            return Reaction(result=result, strategy=strategy, upstream=further, otherwise=otherwise)
        if less is not None:
            self.forcing.leave_out(less, generation.upstream)
        # That a server is silent under a grammar is to be remembered, as its refusal is.
        silenced = less is Ours.GRAMMAR and isinstance(error, UpstreamTimeout)
        return Reaction(
            result=result,
            strategy=Strategy.UNFORCED if silenced else Strategy.TRANSPORT,
            wait_s=pause,
            restart=less is Ours.HISTORY,
        )

    def _less(self, generation: Generation, error: UpstreamError) -> Ours | None:
        """Say what the next request goes without; None: it would have to be the same, or none."""
        if _wrote(generation) or not _is_for_request(error):
            return None
        able = [
            ours
            for ours in Ours
            if ours in generation.ours
            and (is_clients(error) or ours is not Ours.FIELDS)  # which are refused or do no harm
            and self.forcing.may_leave_out(ours, generation.upstream)
            and not (ours is Ours.HISTORY and self.progress.delivered)
        ]
        if not able:
            return None
        silent = able[0] is Ours.GRAMMAR and isinstance(error, UpstreamTimeout)
        again = any(attempt.upstream == generation.upstream for attempt in self.attempts[:-1])
        return able[0] if is_clients(error) or silent or again else None

    def _taken(self, generation: Generation) -> bool:
        """Whether a request of this run was answered before, so that this one differs from it by us alone."""
        return any(not one.fault for one in self.attempts if one.upstream == generation.upstream)


_WITHOUT: Final = {
    Ours.GRAMMAR: Strategy.UNFORCED,
    Ours.FIELDS: Strategy.LESS,
    Ours.PREFIX: Strategy.LESS,
    Ours.HISTORY: Strategy.RESTART,
}


def _wrote(generation: Generation) -> bool:
    return bool(generation.characters or generation.thought)


def _is_for_request(error: UpstreamError) -> bool:
    """Whether an error may be for what was asked: not where nothing was sent, or the server says "later"."""
    match error:
        case UpstreamSpared() | UpstreamConnectError() | UpstreamConnectTimeout():
            return False
        case UpstreamStatusError(upstream_status=status):
            return is_clients(error) or (status >= endings.SERVERS and status not in LATER)
        case _:
            return isinstance(error, UpstreamTimeout | UpstreamProtocolError)

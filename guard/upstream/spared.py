"""An upstream that is not asked while it fails: its requests pass a circuit breaker, its retries a budget."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Final, Protocol

from guard.errors import UnreadableGrammar, UpstreamError, UpstreamSpared, UpstreamStatusError
from guard.run.messages import Ended, Open, Strategy, Text, Wait
from guard.upstream.base import OUT_OF_TIME, ClientCall, Passage, PassageAnswer, Upstream
from guard.upstream.breaker import Breaker, Pass, State
from guard.upstream.budget import RetryBudget

__all__ = ["REASONS", "Ear", "SparedUpstream", "is_fault"]

log = logging.getLogger(__name__)

REASONS: Final = ("breaker", "budget")  # why an upstream was not asked
SERVERS_FAULT: Final = 500  # statuses from here on are the server's own trouble
SILENT_S: Final = 30.0


class Ear(Protocol):
    """Hears what becomes of an upstream; `guard.telemetry.observer.Observer` does."""

    def upstream_spared(self, upstream: str, reason: str) -> None:
        """Hear that a generation was not opened."""

    def breaker_changed(self, upstream: str, state: str) -> None:
        """Hear of a new state."""


class SparedUpstream:
    """An upstream behind a breaker and a budget of its own.

    Only faults of the network count: no connection, nothing in time, no answer in the protocol, statuses
    from 500 on. What the model writes never does, nor other statuses, nor a client that leaves. Where the
    run's time is over before a word was said, that is the server's fault if it had `silent_s` seconds.

    A generation that cannot go to a further upstream (`Open.last`) passes the breaker whatever its state is.
    A retry is a generation that is opened again on this upstream after a fault; a run that comes from
    another upstream has cost this one nothing before. It is held while it is waited for (`retrying`), so that
    one that will not be made is not waited for.
    """

    def __init__(
        self,
        upstream: Upstream,
        ear: Ear,
        *,
        breaker: Breaker,
        budget: RetryBudget,
        silent_s: float = SILENT_S,
    ) -> None:
        self.target = upstream.target
        self._upstream, self._ear = upstream, ear
        self._breaker, self._budget, self._silent_s = breaker, budget, silent_s

    async def start(self) -> None:
        """See `Upstream`."""
        await self._upstream.start()

    async def close(self) -> None:
        """See `Upstream`."""
        await self._upstream.close()

    async def stream(self, command: Open, *, client: ClientCall) -> AsyncGenerator[Text | Ended]:
        """Open a generation; raises `UpstreamSpared` where that is not to be done now."""
        asked = self._now
        held = self._passed(asked, anyway=command.last)
        begun = self._budget.begin(asked, retry=command.strategy is Strategy.TRANSPORT)
        if begun is None:
            self._breaker.abandoned(held)
            raise self._spared("budget", f"the retries of the last {self._budget.window_s:g} s are spent")
        went_well: bool | None = None  # not known
        try:
            async with aclosing(self._upstream.stream(command, client=client)) as pieces:
                async for piece in pieces:
                    went_well = True
                    yield piece
        except UnreadableGrammar:
            raise  # which says nothing about the server
        except UpstreamError as error:
            went_well = not is_fault(error)
            raise
        except asyncio.CancelledError as error:
            if went_well is None and OUT_OF_TIME in error.args and self._now - asked >= self._silent_s:
                went_well = False
            raise
        finally:
            self._budget.end(begun)
            self._hear(held, went_well)

    @contextmanager
    def retrying(self, wait: Wait) -> Iterator[bool]:
        """See `Sparing`. A retry counts from here on: of many that fail together only so many wait."""
        if self._breaker.left_s(self._now) > wait.seconds and not wait.last:
            yield False
            return
        held = self._budget.begin(self._now, retry=True)
        try:
            yield held is not None
        finally:
            if held is not None:
                self._budget.withdraw(held)

    @asynccontextmanager
    async def forward(self, request: Passage, *, client: ClientCall) -> AsyncIterator[PassageAnswer]:
        """Pass a request on, always. It is heard how chat completions go; other paths are other matters."""
        if request.method != "POST" or request.path.partition("?")[0] != "/chat/completions":
            async with self._upstream.forward(request, client=client) as answer:
                yield answer
            return
        held = self._passed(self._now, anyway=True)
        begun = self._budget.begin(self._now, retry=False)
        assert begun is not None, "it is no retry"
        went_well: bool | None = None
        try:
            async with self._upstream.forward(request, client=client) as answer:
                went_well = answer.status < SERVERS_FAULT
                yield answer
        except UpstreamError as error:
            went_well = not is_fault(error)
            raise
        finally:
            self._budget.end(begun)
            self._hear(held, went_well)

    @property
    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _passed(self, now: float, *, anyway: bool) -> Pass:
        before = self._breaker.state
        held = self._breaker.ask(now, anyway=anyway)
        self._notice(before)
        if held is None:
            left_s = self._breaker.left_s(now)
            message = "it is left alone after its last faults, while a request tries it"
            if left_s:
                message = f"it is left alone for {left_s:.3g} s after its last faults"
            raise self._spared("breaker", message)
        return held

    def _spared(self, reason: str, message: str) -> UpstreamSpared:
        self._ear.upstream_spared(self.target.name, reason)
        return UpstreamSpared(f"upstream {self.target.name!r}: {message}", reason=reason)

    def _hear(self, held: Pass, went_well: bool | None) -> None:
        before = self._breaker.state
        match went_well:
            case None:
                self._breaker.abandoned(held)
            case True:
                self._breaker.succeeded(held)
            case False:
                self._breaker.failed(held, self._now)
        self._notice(before)

    def _notice(self, before: State) -> None:
        """Tell of a change of the breaker's state."""
        state = self._breaker.state
        if state is before:
            return
        self._ear.breaker_changed(self.target.name, state)
        match state:
            case State.OPEN:
                left_s = self._breaker.left_s(self._now)
                log.warning("upstream %s fails: it is left alone for %.3g s", self.target.name, left_s)
            case State.HALF_OPEN:
                log.info("upstream %s is tried again", self.target.name)
            case State.CLOSED:
                log.warning("upstream %s is there again", self.target.name)


def is_fault(error: UpstreamError) -> bool:
    """Whether an error is a fault of the network or of the server, and not its answer to a request."""
    return not isinstance(error, UpstreamStatusError) or error.upstream_status >= SERVERS_FAULT

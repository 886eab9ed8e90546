"""An upstream that may refuse grammars, and what it does is remembered."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from time import monotonic
from typing import Protocol

from guard.run.messages import Ended, Open, Strategy, Text
from guard.upstream.base import ClientCall, Passage, PassageAnswer, Upstream
from guard.upstream.refusals import Refusals

log = logging.getLogger(__name__)


class Ear(Protocol):
    """Hears what becomes of grammars; `guard.telemetry.observer.Observer` does."""

    def grammar_refused(self, upstream: str) -> None:
        """Hear that an upstream took a request only without its grammar."""


class UnforcedUpstream:
    """An upstream whose refusals of grammars go into `refusals`.

    A refused request counts as a refused grammar once the same request without one is answered: otherwise
    it was refused for another reason.
    """

    def __init__(
        self,
        upstream: Upstream,
        ear: Ear,
        refusals: Refusals,
        *,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self.target = upstream.target
        self._upstream, self._ear, self._refusals = upstream, ear, refusals
        self._now = now

    async def start(self) -> None:
        """See `Upstream`."""
        await self._upstream.start()

    async def close(self) -> None:
        """See `Upstream`."""
        await self._upstream.close()

    async def stream(self, command: Open, *, client: ClientCall) -> AsyncGenerator[Text | Ended]:
        """Open a generation, and hear whether it is answered only without its grammar."""
        async with aclosing(self._upstream.stream(command, client=client)) as pieces:
            answered = command.strategy is not Strategy.UNFORCED
            async for piece in pieces:
                if not answered:
                    answered = True
                    self._remember(command)
                yield piece

    def forward(self, request: Passage, *, client: ClientCall) -> AbstractAsyncContextManager[PassageAnswer]:
        """See `Upstream`."""
        return self._upstream.forward(request, client=client)

    def _remember(self, command: Open) -> None:
        self._ear.grammar_refused(self.target.name)
        if self._refusals.remember(self.target.name, command.model, self._now()):
            log.warning(
                "upstream %s refuses the grammar for model %r: it gets none for %.3g s",
                self.target.name,
                command.model,
                self._refusals.seconds,
            )

"""How long a model may be silent: a watch that costs nothing while it talks."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

import aiohttp


class Patience:
    """Closes a response on which nothing has been said by a deadline; whoever reads it then fails.

    Bytes that say nothing (comments, empty chunks) do not move the deadline. While the reader is busy
    elsewhere (`pause`) the server is not to blame. One timer a stream, not one a read: it looks from time
    to time whether the deadline has moved.
    """

    def __init__(self, response: aiohttp.ClientResponse, deadline: float) -> None:
        self.lost = False
        self._response = response
        self._deadline = deadline
        self._paused_at: float | None = None
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_at(deadline, self._look)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._timer.cancel()

    def pause(self) -> None:
        """Stop the clock."""
        self._paused_at = self._loop.time()

    def resume(self, limit_s: float | None) -> None:
        """Go on; something was said where there is a limit for the next silence, else time runs on."""
        now = self._loop.time()
        if limit_s is None:
            self._deadline += now - (self._paused_at or now)
        else:
            self._expect(now + limit_s)
        self._paused_at = None

    def _expect(self, deadline: float) -> None:
        earlier = deadline < self._timer.when()
        self._deadline = deadline
        if earlier:
            self._timer.cancel()
            self._timer = self._loop.call_at(deadline, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        if self._paused_at is not None:
            self._timer = self._loop.call_at(now + max(0.0, self._deadline - self._paused_at), self._look)
        elif now < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._look)
        else:
            self.lost = True
            self._response.close()

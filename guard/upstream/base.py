"""The seam between the engine and a model server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from guard.run.messages import Ended, Open, Target, Text


class Upstream(Protocol):
    """A model server that generations can be opened on.

    `target` says what it can do. `stream` yields the pieces of the answer as they arrive (never the
    prefix) and exactly one `Ended` last; it raises `UpstreamError` where there is no answer to be had.
    Closing the generator early closes the connection (within 100 ms), which is how a generation is cut.
    """

    target: Target

    def stream(self, command: Open, *, client: ClientCall) -> AsyncGenerator[Text | Ended]: ...

    async def start(self) -> None:
        """Get ready to serve: start a child process, open a pool. Idempotent."""

    async def close(self) -> None:
        """Release everything. Idempotent."""


class ClientCall(Protocol):
    """What travels unchanged from the client's request to the upstream's."""

    @property
    def extra(self) -> dict[str, object]:
        """Body fields that are forwarded as they came: `user`, `metadata`, ..."""

    @property
    def authorization(self) -> str | None:
        """The client's Authorization header where the upstream is configured with `pass_key`."""

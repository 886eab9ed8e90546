"""The seam between the engine and a model server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from guard.run.messages import Ended, Open, Target, Text, Wait
from guard.wire.headers import Headers

OUT_OF_TIME: Final = "the time of the run is over"  # with what a stream is cancelled then


class Upstream(Protocol):
    """A model server that generations can be opened on.

    `target` says what it can do. `stream` yields the pieces of the answer as they arrive (never the
    prefix) and exactly one `Ended` last; it raises `UpstreamError` where there is no answer to be had.
    Closing the generator early closes the connection (within 100 ms), which is how a generation is cut.
    """

    target: Target

    def stream(self, command: Open, *, client: ClientCall) -> AsyncGenerator[Text | Ended]: ...

    def forward(self, request: Passage, *, client: ClientCall) -> AbstractAsyncContextManager[PassageAnswer]:
        """Pass a request on untouched and give the answer as it comes; leaving the context closes it.

        Raises `UpstreamError` where there is no answer, also from the body where it breaks off.
        """

    async def start(self) -> None:
        """Get ready to serve: start a child process, open a pool. Idempotent."""

    async def close(self) -> None:
        """Release everything. Idempotent."""


@runtime_checkable
class Sparing(Protocol):
    """An upstream that says whether it may be asked again after a fault before anybody waits for that."""

    def retrying(self, wait: Wait) -> AbstractContextManager[bool]:
        """Hold a retry while it is waited for. False: it would not be made, so that waiting is of no use."""


class ClientCall(Protocol):
    """What travels unchanged from the client's request to the upstream's."""

    @property
    def extra(self) -> dict[str, object]:
        """Body fields that are forwarded as they came: `user`, `metadata`, ..."""

    @property
    def authorization(self) -> str | None:
        """The client's Authorization header where the upstream is configured with `pass_key`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A request that is passed on untouched.

    `path` is what stands behind `/v1`, as the client wrote it (escapes kept), with the query:
    `/embeddings`, `/files?limit=2`.
    """

    method: str
    path: str
    headers: Headers
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageAnswer:
    """The answer to it. `body` gives the bytes as they arrive, encoded as the headers say."""

    status: int
    headers: Headers
    body: AsyncIterator[bytes]

"""The endpoint in one process with the servers behind it, under a clock that is moved by hand.

with Stage(service, lanes) as stage:      a request for each lane
    lane.upstream.say(b"data: ...")       what its model server sends next
    stage.settle()                        until everybody waits
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from guard.config import Service
from guard.proxy import routes
from guard.proxy.admission import Admission
from guard.proxy.observe import Watch
from guard.proxy.routes import Endpoint
from guard.run.messages import Ended, Open, Target, Text
from guard.upstream.backends import BACKENDS
from guard.upstream.base import ClientCall, Passage, PassageAnswer, Upstream
from guard.upstream.reading import AnswerReader

PATIENCE_S: Final = 15  # of the clock, in which whoever waits for it must come to something


class Clock(asyncio.SelectorEventLoop):
    """An event loop whose time stands still unless it is told to go on."""

    now = 0.0

    def time(self) -> float:
        return self.now


class Played:
    """A model server whose bytes are put in by hand; what reads them is what reads the real ones."""

    def __init__(self, name: str, kind: str) -> None:
        self.backend = BACKENDS[kind]
        self.target: Target = self.backend.target(name, "m")
        self.lane: Lane | None = None

    async def stream(self, command: Open, *, client: ClientCall) -> AsyncGenerator[Text | Ended]:  # noqa: ARG002
        assert self.lane is not None
        assert self.lane.open is None, "one generation at a time"
        said: asyncio.Queue[bytes | Exception] = asyncio.Queue()
        self.lane.opened.append(command)
        self.lane.open, self.lane.said = command, said
        reader = AnswerReader(
            prefix=command.prefix, prompt_tokens=7, token_per_chunk=self.backend.token_per_chunk
        )
        try:
            while not reader.over:
                data = await said.get()
                if isinstance(data, Exception) and not reader.finished:
                    raise data
                for piece in reader.feed(data) if isinstance(data, bytes) and data else reader.close():
                    yield piece
            if reader.fault is not None:
                raise reader.fault
            yield reader.ended()
        finally:
            self.lane.open = self.lane.said = None

    def forward(self, request: Passage, *, client: ClientCall) -> AbstractAsyncContextManager[PassageAnswer]:
        raise NotImplementedError

    async def start(self) -> None:
        """There is nothing to start."""

    async def close(self) -> None:
        """There is nothing to release."""


@dataclass
class Lane:
    """One client and its own model servers.

    `open` is the generation that is read, `said` what is to be read of it. `status`, `headers` and `body`
    are what the client has by now, `whole` whether that is all.
    """

    request: dict[str, Any]
    upstreams: dict[str, Played]
    opened: list[Open] = field(default_factory=list)
    open: Open | None = None
    said: asyncio.Queue[bytes | Exception] | None = None
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    whole: bool = False
    leave: asyncio.Event = field(default_factory=asyncio.Event)

    def say(self, data: bytes | Exception) -> None:
        """Let the model server send some bytes, its end (none) or break off."""
        if self.said is not None:
            self.said.put_nowait(data)

    @property
    def heard(self) -> bool:
        """Whether all that was said has been read."""
        return self.said is None or self.said.empty()

    async def ask(self, service: Service) -> None:
        """Make the request and take the answer."""
        upstreams: dict[str, Upstream] = dict(self.upstreams)
        for upstream in self.upstreams.values():
            upstream.lane = self
        endpoint = Endpoint(replace(service, upstreams=upstreams), Admission(10), Watch(), routes.chat)
        parts = [{"type": "http.request", "body": json.dumps(self.request).encode(), "more_body": False}]
        path = "/v1/chat/completions"
        scope: dict[str, Any] = {"type": "http", "http_version": "1.1", "method": "POST", "path": path}
        scope |= {"raw_path": path.encode(), "headers": [(b"host", b"x")]}

        async def receive() -> MutableMapping[str, Any]:
            if parts:
                return parts.pop()
            await self.leave.wait()
            return {"type": "http.disconnect"}

        await endpoint({**scope, "query_string": b"", "path_params": {}}, receive, self.take)

    async def take(self, message: MutableMapping[str, Any]) -> None:
        """Be sent a message of ASGI."""
        assert not self.whole, "nothing comes behind the end"
        if message["type"] == "http.response.start":
            assert self.status is None, "there is one status"
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            assert self.status is not None, "the status comes first"
            self.body += message["body"]
            self.whole = not message.get("more_body", False)


class Stage:
    """Some lanes on one clock."""

    def __init__(self, service: Service, *lanes: Lane) -> None:
        self._loop = Clock()
        self._lanes = lanes
        self._tasks = [self._loop.create_task(lane.ask(service)) for lane in lanes]

    def __enter__(self) -> Self:
        self.settle()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def settle(self) -> None:
        """Go on until every lane waits for its server, or is through."""
        self._spin()
        for _ in range(PATIENCE_S):
            if all(task.done() or lane.said for task, lane in zip(self._tasks, self._lanes, strict=True)):
                break
            self.wait(1)
        for task in self._tasks:
            if task.done():
                task.result()

    def wait(self, seconds: int) -> None:
        """Let time pass."""
        for _ in range(seconds):
            self._loop.now += 1
            self._spin()

    def _spin(self) -> None:
        async def others_first() -> None:
            turns = 0
            while turns < 8 or not all(lane.heard for lane in self._lanes):
                await asyncio.sleep(0)
                turns += 1
                assert turns < 10_000, "what was said is not read"

        self._loop.run_until_complete(others_first())

    def done(self, lane: Lane) -> bool:
        """Whether a lane's request is through."""
        return self._tasks[self._lanes.index(lane)].done()

    def close(self) -> None:
        """End what is still running."""
        for task in self._tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        self._loop.close()

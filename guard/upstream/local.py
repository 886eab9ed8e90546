"""A local upstream: llama.cpp in a child process that we start, watch and stop."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from guard.errors import ConfigError, UpstreamConnectError
from guard.foreign import Said
from guard.run.messages import Ended, Open, Text
from guard.upstream.backends import target_for
from guard.upstream.base import ClientCall, Passage, PassageAnswer
from guard.upstream.http import HttpUpstream, Timeouts

HOW_TO_INSTALL: Final = "pip install 'stepguard[local]'"
START_S: Final = 120.0  # a large model is read from a slow disk
STOP_S: Final = 3.0
LOG_LINES: Final = 50
PATIENT: Final = Timeouts(first_s=600)  # a long prompt on a slow processor, behind others in the queue

_KIND: Final = "local"
_ERROR: Final = " E "  # how llama.cpp marks an error in its log


def require_runtime() -> None:
    """Raise `ConfigError` where the model runtime is not installed."""
    if find_spec("xllamacpp") is None:
        message = f"the local model runtime is not installed; install it with {HOW_TO_INSTALL}"
        raise ConfigError([("upstreams", message)])


def default_threads() -> int:
    """One core less than we may use, at most 8: llama.cpp waits in a loop when it has to share."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
    return max(1, min(8, usable - 1))


class LocalUpstream:
    """A model file served by llama.cpp. The child starts with `start` or the first request."""

    def __init__(
        self,
        name: str,
        model: Path,
        *,
        threads: int | None = None,
        context: int = 8192,
        slots: int = 2,
        timeouts: Timeouts | None = None,
        capabilities: Mapping[str, Any] | None = None,
    ) -> None:
        self.target = target_for(_KIND, name, model.stem, capabilities)
        self._capabilities = capabilities
        self._model = model
        self._settings = {"threads": threads or default_threads(), "context": context, "slots": slots}
        self._timeouts = timeouts or PATIENT
        self._starting = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self._log_reader: asyncio.Task[None] | None = None
        self._server: HttpUpstream | None = None

    @property
    def pid(self) -> int | None:
        """The child's process id, None where there is none."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def start(self) -> None:
        """Start the child and wait until it serves; again, where it has died. Idempotent."""
        await self._serving()

    async def close(self) -> None:
        """Stop the child. Idempotent."""
        async with self._starting:
            await self._stop()

    async def stream(self, command: Open, *, client: ClientCall) -> AsyncGenerator[Text | Ended]:
        """Open a generation on the child."""
        server = await self._serving()
        async with aclosing(server.stream(command, client=client)) as pieces:
            async for piece in pieces:
                yield piece

    @asynccontextmanager
    async def forward(self, request: Passage, *, client: ClientCall) -> AsyncIterator[PassageAnswer]:
        """Pass a request on to the child."""
        server = await self._serving()
        async with server.forward(request, client=client) as answer:
            yield answer

    async def _serving(self) -> HttpUpstream:
        if self._server is not None and self.pid is not None:
            return self._server
        async with self._starting:
            if self._server is None or self.pid is None:
                await self._stop()
                self._server = await self._launch()
            return self._server

    async def _launch(self) -> HttpUpstream:
        require_runtime()
        key = secrets.token_hex(16)
        process = self._process = await self._spawn()
        assert process.stdin is not None
        assert process.stderr is not None
        self._log_reader = asyncio.create_task(self._keep_log(process.stderr))
        try:
            process.stdin.write(f"{key}\n".encode())
            async with asyncio.timeout(START_S):
                url = await self._address(process)
        except BaseException:
            await self._stop()
            raise
        return HttpUpstream(
            self.target.name,
            f"{url}/v1",
            kind=_KIND,
            model=self.target.model,
            api_key=key,
            timeouts=self._timeouts,
            capabilities=self._capabilities,
        )

    async def _spawn(self) -> asyncio.subprocess.Process:
        options = [text for name, value in self._settings.items() for text in (f"--{name}", str(value))]
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # not from the folder that the service happens to run in
            "-m",
            "guard.upstream.llama",
            "--model",
            str(self._model),
            *options,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for us: running requests may still need the model
            env={**os.environ, "OMP_WAIT_POLICY": "passive"},
        )

    async def _address(self, process: asyncio.subprocess.Process) -> str:
        assert process.stdout is not None
        try:
            async for line in process.stdout:
                if line.startswith(b'{"url"'):
                    return str(json.loads(line)["url"])
        except TimeoutError:
            pass
        assert self._log_reader is not None
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._log_reader), 1)
        raise UpstreamConnectError(
            f"the local model did not start: {self._model.name}", said=Said.of(self._complaint())
        )

    async def _keep_log(self, stream: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # longer than the reader's limit, and dropped by it
                continue
            if not line:
                return
            self._log.append(line.decode("utf-8", "replace").strip())

    def _complaint(self) -> str:
        """What the child says is wrong: its first error, or the last thing it said."""
        errors = [line.partition(_ERROR)[2] for line in self._log if _ERROR in line]
        return (errors[:1] or list(self._log)[-1:] or ["it said nothing"])[0][:500]

    async def _stop(self) -> None:
        server, self._server = self._server, None
        process, self._process = self._process, None
        reader, self._log_reader = self._log_reader, None
        if server is not None:
            await server.close()
        if process is not None:
            await _end(process)
        if reader is not None:
            reader.cancel()
            with suppress(asyncio.CancelledError):
                await reader


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close the child's input, which ends it; kill it where that does not."""
    if process.returncode is None:
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(STOP_S):
                await process.wait()
        except TimeoutError:
            process.kill()
    await process.wait()

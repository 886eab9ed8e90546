"""Model servers over HTTP: always read as a stream, cut by closing the connection, every fault named.

A request for a generation is sent once: neither aiohttp nor this module repeats a POST, not even where a kept
connection turns out to be closed. The server may have read it, and what is sent again has to be counted.
A server that closes what it promised to keep costs one fault: for some time each request gets a connection of
its own then.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import unquote

import aiohttp
import orjson
from yarl import URL

from guard.dialect.notation import Dialect
from guard.errors import RequestError, UpstreamConnectError, UpstreamError, UpstreamTimeout
from guard.foreign import Sink
from guard.run.messages import Ended, Open, Text
from guard.upstream.backends import backend_for, target_for
from guard.upstream.base import ClientCall, Passage, PassageAnswer
from guard.upstream.bodies import PLAIN, Farewell, Turns, beginning, decoding
from guard.upstream.capabilities import Backend, Place, Thinking
from guard.upstream.faults import of_exception, of_status
from guard.upstream.patience import Patience
from guard.upstream.reading import AnswerReader
from guard.upstream.request import body
from guard.wire.body import encode
from guard.wire.chat import text_of
from guard.wire.headers import Headers, end_to_end, without_credentials

MAX_CONNECTIONS: Final = 1024
KEPT_S: Final = 4.0  # of an idle connection: most servers close theirs after 5 s or more
SHORT_BYTES: Final = 64 * 1024  # of an error that is looked at before it is passed on
REFUSING: Final = 400  # statuses from here on say why there is no answer
APART_S: Final = 600.0  # that none is kept for where one turned out to be closed
MAX_ROWS: Final = 256  # of the table, kept for models that were asked for
LONG_BODY_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """In seconds. `connect_s`: until there is a connection. `first_s`: until the model says something.

    `idle_s`: between two things it says. `linger_s`: for the usage, when it has ended. `passage_s`:
    between two reads of a request that is passed on.
    """

    connect_s: float = 5.0
    first_s: float = 120.0
    idle_s: float = 30.0
    linger_s: float = 2.0
    passage_s: float = 600.0


class HttpUpstream:
    """A server with an OpenAI-compatible API below `base_url` (`http://host:port/v1`).

    `capabilities` are columns of the table of kinds that are otherwise here. `api_version` goes into the
    query of every request. `forward_headers` are headers of clients that are passed on besides those of
    `guard.wire.headers.FORWARDED`.
    """

    def __init__(
        self,
        name: str,
        base_url: str,
        *,
        kind: str = "generic",
        model: str = "",
        api_key: str | None = None,
        pass_key: bool = False,
        timeouts: Timeouts | None = None,
        capabilities: Mapping[str, Any] | None = None,
        api_version: str | None = None,
        forward_headers: tuple[str, ...] = (),
    ) -> None:
        self._row = lru_cache(MAX_ROWS)(partial(backend_for, kind, changes=capabilities))
        self.target = target_for(kind, name, model, capabilities)
        self._base = base_url.rstrip("/")
        self._api_version = api_version
        self._api_key, self._sink = api_key, Sink([api_key] if api_key else ())
        self._pass_key = pass_key
        self._forward_headers = forward_headers
        self._timeouts = timeouts or Timeouts()
        self._sessions: dict[bool, aiohttp.ClientSession] = {}  # by whether connections are kept
        self._apart_until = 0.0

    def backend_for(self, model: str) -> Backend:
        """Give what holds where this model is asked for; empty: the one that is configured."""
        return self._row(model or self.target.model)

    async def start(self) -> None:
        """Open the pool. Idempotent."""
        self._pool(kept=True)

    async def close(self) -> None:
        """Close the pool. Idempotent."""
        while self._sessions:
            await self._sessions.popitem()[1].close()

    async def stream(self, command: Open, *, client: ClientCall) -> AsyncGenerator[Text | Ended]:
        """Open a generation and give what the model says; close the generator to cut it."""
        backend = self.backend_for(command.model)
        forced = command.grammar is not None
        members = forced and backend.dialect is Dialect.JSON_SCHEMA
        reader = AnswerReader(
            api=backend.api,
            most=command.max_tokens,
            prefix=command.prefix,
            prompt_tokens=sum(len(text_of(message)) for message in command.messages) // 4,
            token_per_chunk=backend.token_per_chunk,
            reasoning=backend.reasoning_fields,
            thinks=backend.thinks,
            members=members,
            required=len(orjson.loads(command.grammar or "{}").get("required", ())) if members else 0,
            tool=forced and backend.grammar is Place.CUSTOM_TOOL,
            thoughtless=forced and backend.thinking is Thinking.FORBIDDEN,
        )
        response: aiohttp.ClientResponse | None = None
        deadline = asyncio.get_running_loop().time() + self._timeouts.first_s
        try:
            async with asyncio.timeout_at(deadline):
                response = await self._ask(backend, command, client)
            turns, decode = Turns(), decoding(response.headers)
            with Patience(response, deadline) as patience:
                while not reader.over:
                    data = await _read(response, reader, patience)
                    said = reader.said
                    patience.pause()
                    for plain in decode(data) if data else (None,):
                        for piece in reader.turns(plain):
                            if piece is not None:
                                yield piece
                            await turns.give_way()
                        await turns.give_way()
                    patience.resume(self._limit(reader) if reader.said != said else None)
            if reader.fault is not None:
                raise reader.fault
            await _settle(response)
            yield reader.ended()
        except (aiohttp.ClientError, OSError, UpstreamError) as error:
            raise self._named(error, client) from error
        finally:
            if response is not None:
                response.close()

    @asynccontextmanager
    async def forward(self, request: Passage, *, client: ClientCall) -> AsyncIterator[PassageAnswer]:
        """Pass a request on as it is; the key is the only thing that is changed."""
        headers = self._forwarded(request.headers, client)
        timeout = aiohttp.ClientTimeout(connect=self._timeouts.connect_s, sock_read=self._timeouts.passage_s)
        response: aiohttp.ClientResponse | None = None
        try:
            response = await self._send(
                self.backend_for(""),
                request.method,
                request.path,
                headers=headers,
                data=_payload(request.body),
                timeout=timeout,
                skip_auto_headers=("accept", "content-type", "user-agent"),
            )
        except (aiohttp.ClientError, OSError, UpstreamError) as error:
            raise self._named(error, client) from error
        try:
            shown = end_to_end(response.headers.items(), _no_length(response.status))
            answer = self._body(response, client, Farewell(response))
            if self._api_key is not None and _is_error(response):
                shown, answer = await self._without_key(shown, answer)
            yield PassageAnswer(status=response.status, headers=shown, body=answer)
        finally:
            response.close()

    async def _without_key(
        self, headers: Headers, body: AsyncIterator[bytes]
    ) -> tuple[Headers, AsyncIterator[bytes]]:
        """Take our key out of an error that is passed on: some servers repeat what they refuse."""
        found = b"".join([piece async for piece in body])
        # Of the longest that is looked at this takes a tenth of a second.
        plain = await asyncio.to_thread(self._sink.redacted, found.decode("utf-8", "surrogateescape"))
        clean = plain.encode("utf-8", "surrogateescape")
        told = [
            (name, self._sink.redacted(value)) for name, value in headers if name.lower() != "content-length"
        ]
        return (*told, ("content-length", str(len(clean)))), _pieces(clean)

    async def _body(
        self, response: aiohttp.ClientResponse, client: ClientCall, farewell: Farewell
    ) -> AsyncIterator[bytes]:
        try:
            async for data in response.content.iter_any():
                yield data
            farewell.check()
        except (aiohttp.ClientError, OSError) as error:
            raise self._named(error, client) from error

    async def _ask(self, backend: Backend, command: Open, client: ClientCall) -> aiohttp.ClientResponse:
        """Send the request; give the response where its status is 200."""
        model = command.model or self.target.model
        asked = encode(body(backend, command, model=model, extra=client.extra))
        headers = [("content-type", "application/json"), ("accept", "text/event-stream"), PLAIN]
        headers += self._authorization(client)
        response = await self._send(
            backend,
            "POST",
            backend.api.path,
            data=_payload(asked),
            headers=headers,
            timeout=aiohttp.ClientTimeout(connect=self._timeouts.connect_s),
        )
        if response.status == 200:
            return response
        try:
            found = await beginning(response)
        finally:
            response.close()
        clients_key = self._pass_key and client.authorization is not None
        raise of_status(response.status, response.headers, found, clients_key=clients_key)

    async def _send(
        self, backend: Backend, method: str, path: str, **settings: Any
    ) -> aiohttp.ClientResponse:
        """Send a request, on a kept connection if there is one; give the beginning of its answer."""
        loop, connection = asyncio.get_running_loop(), SimpleNamespace(reused=False)
        kept = not backend.closes_after_stream and loop.time() >= self._apart_until
        try:
            return await self._pool(kept=kept).request(
                method, self.url(path), allow_redirects=False, trace_request_ctx=connection, **settings
            )
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionError) as error:
            if not connection.reused:
                raise
            self._apart_until = loop.time() + APART_S
            raise UpstreamConnectError("it closed the connection that was kept") from error

    def _limit(self, reader: AnswerReader) -> float:
        """How long the model may be silent now."""
        return self._timeouts.linger_s if reader.finished else self._timeouts.idle_s

    def _pool(self, *, kept: bool) -> aiohttp.ClientSession:
        if kept not in self._sessions:
            trace = aiohttp.TraceConfig()
            trace.on_connection_reuseconn.append(_note_reuse)
            held: dict[str, Any] = {"keepalive_timeout": KEPT_S} if kept else {"force_close": True}
            self._sessions[kept] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=MAX_CONNECTIONS, **held),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"user-agent": f"stepguard/{version('stepguard')}"},
                skip_auto_headers=("accept-encoding",),
                trace_configs=[trace],
            )
        return self._sessions[kept]

    def url(self, path: str) -> URL:
        """An address below `base_url`, escapes kept as they are."""
        segments = unquote(path.partition("?")[0]).replace("\\", "/").split("/")
        if ".." in segments or "." in segments:
            raise RequestError("the path must not have '.' or '..' in it", code="invalid_path")
        if self._api_version is not None:
            path += f"{'&' if '?' in path else '?'}api-version={self._api_version}"
        return URL(self._base + path, encoded=True)

    def _authorization(self, client: ClientCall) -> list[tuple[str, str]]:
        header = self.backend_for("").key_header
        if self._pass_key and client.authorization:
            bearer = header == "authorization"
            return [
                (header, client.authorization if bearer else client.authorization.removeprefix("Bearer "))
            ]
        if not self._api_key:
            return []
        return [(header, f"Bearer {self._api_key}" if header == "authorization" else self._api_key)]

    def _forwarded(self, headers: Headers, client: ClientCall) -> Headers:
        """The client's headers as this upstream may see them, with the key that opens it."""
        ours = self._authorization(client)
        told = end_to_end(headers, *(name for name, _ in ours), *(("authorization",) if ours else ()))
        return (*(told if self._pass_key else without_credentials(told, self._forward_headers)), *ours)

    def _named(self, error: Exception, client: ClientCall) -> UpstreamError:
        """The exception for an error, its message with this upstream's name before it.

        Some servers repeat the key that they were sent.
        """
        known = of_exception(error)
        known.message = f"upstream {self.target.name!r}: {known.message}"
        known.args = (known.message,)
        known.said = replace(known.said, text=known.said.text.hiding(self._api_key, client.authorization))
        return known


def _payload(body: bytes) -> bytes | io.BytesIO | None:
    """A body as aiohttp wants it: a long one is sent in pieces, so that it does not hold up others."""
    return io.BytesIO(body) if len(body) > LONG_BODY_BYTES else body or None


async def _note_reuse(
    _session: aiohttp.ClientSession,
    context: SimpleNamespace,
    _params: aiohttp.TraceConnectionReuseconnParams,
) -> None:
    context.trace_request_ctx.reused = True


async def _read(response: aiohttp.ClientResponse, reader: AnswerReader, patience: Patience) -> bytes:
    """Read the next bytes, empty at the end of the answer or where no more is worth waiting for."""
    try:
        return await response.content.readany()
    except (aiohttp.ClientError, OSError):
        if reader.finished:
            return b""
        if patience.lost:
            raise UpstreamTimeout("nothing was said in time") from None
        raise


async def _settle(response: aiohttp.ClientResponse) -> None:
    """Read what little is left behind `[DONE]`, so that the connection can serve again."""
    try:
        async with asyncio.timeout(0.05):
            while not response.content.at_eof():
                await response.content.readany()
    except (aiohttp.ClientError, OSError):
        return


async def _pieces(*data: bytes) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece


def _is_error(response: aiohttp.ClientResponse) -> bool:
    """Whether an answer says why there is none, and is short and plain enough to be looked at."""
    length, plain = response.content_length, "content-encoding" not in response.headers
    short = length is not None and length <= SHORT_BYTES and response.method != "HEAD"
    return response.status >= REFUSING and short and plain


def _no_length(status: int) -> str:
    """The header that an answer without a body must not have here: a length would promise one."""
    return "content-length" if status in {204, 304} else ""

"""Who may come in, and who is inside: keys, the number of requests at once, and the end of it all."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256

from guard.errors import RequestError
from guard.proxy.binding import MODE_HEADER, POLICY_HEADER, PROCEDURE_HEADER, Caller
from guard.proxy.exchange import Exchange

KEY_HEADER = "x-stepguard-key"
RETRY_HEADER = "x-stainless-retry-count"  # which OpenAI's clients send
BEARER = "bearer "
FAREWELL_S = 2.0  # for what those inside are told when they are interrupted


class Keys:
    """The keys of the clients. Comparing takes the same time whatever is presented."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = [(sha256(key.encode()).digest(), key) for key in keys]

    def find(self, presented: str) -> str | None:
        """Give the key that was presented, None where it is none of ours."""
        digest = sha256(presented.encode("utf-8", "surrogateescape")).digest()
        found = [key for known, key in self._keys if hmac.compare_digest(known, digest)]
        return found[0] if found else None

    def held_by(self, text: str) -> bool:
        """Whether one of our keys stands somewhere in a text that is to leave."""
        return any(key in text for _, key in self._keys)

    def caller(self, exchange: Exchange, procedure: str | None) -> Caller:
        """Who asks.

        Raises `RequestError`: 401 where a key is needed and none of ours is there, 400 where a header of ours
        says two things. A key of ours is never passed on. A client that has to send its upstream's key in
        `authorization` gives ours in `x-stepguard-key`.
        """
        authorization, own = exchange.told("authorization"), exchange.told(KEY_HEADER)
        key = None
        if self._keys:
            if own is None:
                own, authorization = authorization or "", None
                own = own[len(BEARER) :].strip() if own.lower().startswith(BEARER) else ""
            key = self.find(own)
            if key is None:
                raise RequestError(
                    "expected an API key of this server as a bearer token, found "
                    + ("another one" if own else "none"),
                    code="invalid_api_key",
                    status=401,
                )
        return Caller(
            key=key,
            authorization=authorization,
            header=exchange.told(PROCEDURE_HEADER),
            path=procedure,
            traceparent=exchange.headers.get("traceparent"),
            policy=exchange.told(POLICY_HEADER),
            mode=exchange.told(MODE_HEADER),
            retried=_count(exchange.headers.get(RETRY_HEADER, "")),
        )


def _count(text: str) -> int:
    """Read a small number; 0 for whatever else is there."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 0


class Admission:
    """The requests that are being served."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._inside: set[Exchange] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self.draining = False

    @contextmanager
    def admit(self, exchange: Exchange) -> Iterator[None]:
        """Count a request in and out. Raises `RequestError` with 503 where there is no room."""
        if self.draining:
            raise RequestError("the server is stopping", code="stopping", status=503, type="server_error")
        if len(self._inside) >= self._limit:
            raise RequestError(
                f"{self._limit} requests are being served, which is all this server takes",
                code="overloaded",
                status=503,
                type="server_error",
            )
        self._inside.add(exchange)
        self._empty.clear()
        try:
            yield
        finally:
            self._inside.discard(exchange)
            if not self._inside:
                self._empty.set()

    async def drain(self, seconds: float) -> None:
        """Let nobody in, give those inside some time, then interrupt them."""
        self.draining = True
        try:
            await asyncio.wait_for(self._empty.wait(), seconds)
        except TimeoutError:
            for exchange in list(self._inside):
                exchange.interrupt()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), FAREWELL_S)

"""Whether a grammar can be read, by llguidance: some servers answer to a bad one as if all were well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from hashlib import blake2b
from typing import Final, assert_never
from weakref import WeakValueDictionary

from llguidance import LLMatcher
from llguidance.gbnf_to_lark import gbnf_to_lark

from guard.dialect.notation import Dialect
from guard.errors import UnreadableGrammar
from guard.foreign import Said
from guard.run.messages import Ended, Open, Text
from guard.upstream.base import ClientCall, Passage, PassageAnswer, Upstream
from guard.upstream.skeleton import skeleton

MAX_KEPT: Final = 4_096  # of some 150 bytes each


def refused(dialect: Dialect, grammar: str) -> str:
    """Say why a grammar cannot be read; "" where it can."""
    try:
        return LLMatcher.validate_grammar(_definition(dialect, grammar))
    except Exception as error:  # noqa: BLE001 (GBNF, schemas and half characters fail in translation, each in its own way)
        return str(error) or repr(error)


def _definition(dialect: Dialect, grammar: str) -> str:
    match dialect:
        case Dialect.LARK:
            return LLMatcher.grammar_from_lark(grammar)
        case Dialect.LLGUIDANCE:
            return grammar
        case Dialect.GBNF | Dialect.XGRAMMAR:
            return LLMatcher.grammar_from_lark(gbnf_to_lark(grammar))
        case Dialect.JSON_SCHEMA:
            return LLMatcher.grammar_from_json_schema(grammar)
        case Dialect.REGEX:
            return LLMatcher.grammar_from_regex(grammar)
        case _:
            assert_never(dialect)


class Proofs:
    """Reads grammars, but not again what differs from one that could be read in its literals only.

    Reading takes milliseconds. That is for another thread: llguidance needs no lock of the interpreter, and
    the translation of GBNF gives way to others. Of many requests that come at once with the like one reads.
    """

    def __init__(self, *, most: int = MAX_KEPT, read: Callable[[Dialect, str], str] = refused) -> None:
        self._most, self._reader = most, read
        self._read: dict[bytes, None] = {}
        self._reading: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()

    async def refused(self, dialect: Dialect, grammar: str) -> str:
        """Say why a grammar cannot be read; "" where it can."""
        key = _key(dialect, grammar)
        if key is None:
            return await asyncio.to_thread(self._reader, dialect, grammar)
        if key in self._read:
            self._remember(key)
            return ""
        async with self._reading.setdefault(key, asyncio.Lock()):
            known = key in self._read  # another request has read it meanwhile
            why = "" if known else await asyncio.to_thread(self._reader, dialect, grammar)
        if not why:
            self._remember(key)
        return why

    def _remember(self, key: bytes) -> None:
        self._read.pop(key, None)  # so that the latest one stands last
        self._read[key] = None
        if len(self._read) > self._most:
            del self._read[next(iter(self._read))]


def _key(dialect: Dialect, grammar: str) -> bytes | None:
    kept = skeleton(dialect, grammar)
    return None if kept is None else blake2b(f"{dialect}\n{kept}".encode(), digest_size=16).digest()


class ProvenUpstream:
    """An upstream that is sent no grammar that cannot be read: it is refused in its place."""

    def __init__(self, upstream: Upstream) -> None:
        self.target = upstream.target
        self._upstream, self._proofs = upstream, Proofs()

    async def start(self) -> None:
        """See `Upstream`."""
        await self._upstream.start()

    async def close(self) -> None:
        """See `Upstream`."""
        await self._upstream.close()

    async def stream(self, command: Open, *, client: ClientCall) -> AsyncGenerator[Text | Ended]:
        """Open a generation; raises `UnreadableGrammar`, too, where its grammar cannot be read."""
        await self._prove(command)
        async with aclosing(self._upstream.stream(command, client=client)) as pieces:
            async for piece in pieces:
                yield piece

    def forward(self, request: Passage, *, client: ClientCall) -> AbstractAsyncContextManager[PassageAnswer]:
        """See `Upstream`."""
        return self._upstream.forward(request, client=client)

    async def _prove(self, command: Open) -> None:
        target = self.target.asked_for(command.model)
        if command.grammar is None or target.dialect is None:
            return
        why = await self._proofs.refused(target.dialect, command.grammar)
        if why:
            raise UnreadableGrammar(
                f"upstream {target.name!r}: the grammar was not sent, it cannot be read",
                upstream_status=400,
                said=Said.of(why),
            )

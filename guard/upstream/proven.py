"""Whether a grammar can be read at all, by llguidance: some servers answer to a bad one as if all were well."""

from __future__ import annotations

import asyncio
from hashlib import blake2b
from typing import Final, assert_never

from llguidance import LLMatcher
from llguidance.gbnf_to_lark import gbnf_to_lark

from guard.dialect.notation import Dialect
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

    Reading takes milliseconds. That is for another thread: most of it needs no lock of the interpreter.
    """

    def __init__(self) -> None:
        self._read: dict[bytes, None] = {}

    async def refused(self, dialect: Dialect, grammar: str) -> str:
        """Say why a grammar cannot be read; "" where it can."""
        key = _key(dialect, grammar)
        if key is not None and key in self._read:
            self._read[key] = self._read.pop(key)  # so that the latest one stands last
            return ""
        why = await asyncio.to_thread(refused, dialect, grammar)
        if key is not None and not why:
            self._read[key] = None
            if len(self._read) > MAX_KEPT:
                del self._read[next(iter(self._read))]
        return why


def _key(dialect: Dialect, grammar: str) -> bytes | None:
    kept = skeleton(dialect, grammar)
    return None if kept is None else blake2b(f"{dialect}\n{kept}".encode(), digest_size=16).digest()

"""Whether a grammar can be read at all, by llguidance: some servers answer to a bad one as if all were well.

The library comes with the extra `grammar`; without it nothing is known.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from guard.dialect.notation import Dialect

if TYPE_CHECKING:
    from types import ModuleType

_FORMATS: Final = {
    Dialect.LARK: "lark",
    Dialect.GBNF: "gbnf",
    Dialect.XGRAMMAR: "gbnf",
    Dialect.JSON_SCHEMA: "json_schema",
    Dialect.REGEX: "regex",
}


@cache
def _library() -> ModuleType | None:
    try:
        import llguidance  # noqa: PLC0415 (an extra)
    except ImportError:
        return None
    return llguidance


def refused(dialect: Dialect, grammar: str) -> str:
    """Say why a grammar cannot be read; "" where it can, and where the library is not there."""
    library = _library()
    if library is None:
        return ""
    try:
        definition = (
            grammar if dialect is Dialect.LLGUIDANCE else library.grammar_from(_FORMATS[dialect], grammar)
        )
        return str(library.LLMatcher.validate_grammar(definition))
    except ValueError as error:  # translating it is where GBNF and schemas are read first
        return str(error)

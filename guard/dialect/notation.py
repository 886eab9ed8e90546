"""The notations that a narrowed grammar can be written in."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Final, assert_never

from guard.dialect.gbnf import gbnf
from guard.dialect.json_schema import Patterns, json_schema
from guard.dialect.lark import lark_text
from guard.dialect.regex import regex
from guard.dialect.tree import Grammar

MAX_CHARACTERS: Final = 200_000  # what is longer no server need take


class Dialect(StrEnum):
    """How a backend is told what may be written."""

    LARK = "lark"  # OpenAI's custom tools, XGrammar's reader of Lark
    LLGUIDANCE = "llguidance"  # the same with the header by which servers know it
    GBNF = "gbnf"  # llama.cpp, Fireworks
    XGRAMMAR = "xgrammar"  # EBNF with the start rule `root`
    JSON_SCHEMA = "json_schema"
    REGEX = "regex"


def written(grammar: Grammar, dialect: Dialect, patterns: Patterns = Patterns.PLAIN) -> str | None:
    """Write a grammar in a notation; None where the notation cannot say it, or not in `MAX_CHARACTERS`.

    `patterns` says which a JSON schema may have.
    """
    text = _text(grammar, dialect, patterns)
    return None if text is None or len(text) > MAX_CHARACTERS else text


def _text(grammar: Grammar, dialect: Dialect, patterns: Patterns) -> str | None:
    match dialect:
        case Dialect.LARK:
            return lark_text(grammar)
        case Dialect.LLGUIDANCE:
            return f"%llguidance {{}}\n{lark_text(grammar)}"
        case Dialect.GBNF | Dialect.XGRAMMAR:  # what we use of GBNF is EBNF as XGrammar reads it
            return gbnf(grammar)
        case Dialect.REGEX:
            return regex(grammar)
        case Dialect.JSON_SCHEMA:
            schema = json_schema(grammar, patterns)
            return None if schema is None else json.dumps(schema, ensure_ascii=False)
        case _:
            assert_never(dialect)

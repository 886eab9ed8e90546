"""The notations that a narrowed grammar can be written in."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import assert_never

from guard.dialect.gbnf import gbnf
from guard.dialect.json_schema import beginnings, json_schema
from guard.dialect.lark import lark_text
from guard.dialect.regex import regex
from guard.dialect.tree import Chars, Grammar, Literal, Repeat, choice, sequence


class Dialect(StrEnum):
    """How a backend is told what may be written."""

    LARK = "lark"  # OpenAI's custom tools, XGrammar's reader of Lark
    LLGUIDANCE = "llguidance"  # the same with the header by which servers know it
    GBNF = "gbnf"  # llama.cpp, Fireworks
    XGRAMMAR = "xgrammar"  # EBNF with the start rule `root`
    JSON_SCHEMA = "json_schema"
    REGEX = "regex"


def written(grammar: Grammar, dialect: Dialect) -> str | None:
    """Write a grammar in a notation; None where the notation cannot say it."""
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
            schema = json_schema(grammar)
            return None if schema is None else json.dumps(schema, ensure_ascii=False)
        case _:
            assert_never(dialect)


def promised(grammar: Grammar, dialect: Dialect) -> Grammar:
    """Give what a backend that is held to a grammar can write at all, read back as lines.

    JSON schemas promise little: members may come in any order, patterns are not heeded everywhere, and a
    string may hold the end of a line.
    """
    if dialect is not Dialect.JSON_SCHEMA:
        return grammar
    begun = choice(*map(Literal, beginnings(grammar)))
    return Grammar(sequence(begun, Repeat(Chars((), negated=True), 0, None)), {})

"""The notations that a narrowed grammar can be written in."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from typing import Final, assert_never

from guard.dialect.gbnf import gbnf
from guard.dialect.json_schema import Patterns, beginnings, json_schema
from guard.dialect.lark import lark_text
from guard.dialect.regex import regex
from guard.dialect.tree import (
    Chars,
    Choice,
    Grammar,
    Literal,
    Node,
    Repeat,
    Sequence,
    Terminal,
    choice,
    sequence,
)
from guard.dialect.workings import EXPRESSION, ROUGH

_WORKING: Final = re.compile(r"expression[0-9]+")  # rules of workings
_LOOSE: Final = re.compile(r"expression[0-9]+|q[0-9a-f]{8}")  # and of quotes
_TEXT: Final = Chars((("\x00", "\x1f"),), negated=True)

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


def promised(grammar: Grammar, dialect: Dialect) -> Grammar:
    """Give what a backend that is held to a grammar can write at all, read back as lines.

    Where workings are left open it is a little more, so that reading it takes no time to speak of: what has
    the words and signs of one.

    JSON schemas promise little: members may come in any order, patterns are not heeded everywhere, and a
    string may hold the end of a line. Regular expressions have no bounds, and any text for a working.
    """
    match dialect:
        case Dialect.JSON_SCHEMA:
            begun = choice(*map(Literal, beginnings(grammar)))
            return Grammar(sequence(begun, Repeat(Chars((), negated=True), 0, None)), {})
        case Dialect.REGEX:
            rules = {name: _loose(name, node) for name, node in grammar.rules.items()}
            return Grammar(_unbounded(grammar.start), rules)
        case _ if EXPRESSION.name in grammar.rules:
            rough = {name: ROUGH if _WORKING.fullmatch(name) else node for name, node in grammar.rules.items()}
            return Grammar(grammar.start, rough)
        case _:
            return grammar


def _loose(name: str, node: Node) -> Node:
    return Repeat(_TEXT, 1, None) if _LOOSE.fullmatch(name) else _unbounded(node)


def _unbounded(node: Node) -> Node:
    match node:
        case Repeat(item=item, least=least, most=most):
            bounds = (least, most) if most in (0, 1) else (min(least, 1), None)
            return Repeat(_unbounded(item), *bounds)
        case Sequence(parts=parts):
            return Sequence(tuple(map(_unbounded, parts)))
        case Choice(options=options):
            return Choice(tuple(map(_unbounded, options)))
        case Terminal(name=name, node=item):
            return Terminal(name, _unbounded(item))
        case _:
            return node

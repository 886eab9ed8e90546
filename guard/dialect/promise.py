"""What a server that is held to a grammar can write at all, as the lines that it is read back as."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from guard.dialect.json_schema import values
from guard.dialect.notation import Dialect
from guard.dialect.quotes import is_quote
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
from guard.dialect.workings import EXPRESSION, ROUGH, all_kept, is_working

_TEXT: Final = Chars((("\x00", "\x1f"),), negated=True)
_ANY: Final = Repeat(Chars((), negated=True), 0, None)
_END: Final = Literal("\n")


def promised(grammar: Grammar, dialect: Dialect, text: str) -> Grammar:
    """Give what a server can write that is sent a grammar as this `text`.

    It may be a little more, never less. Workings that are left open have the words and signs of one, so that
    they are read in no time to speak of. Regular expressions have no bounds here, and any text for a working.
    Of a JSON schema the members may come in any order, and as often as they like: who reads the object knows
    of that. A value of which the schema says nothing may hold line ends.
    """
    match dialect:
        case Dialect.JSON_SCHEMA:
            lines = list(_members(grammar, json.loads(text)["properties"]))
            return Grammar(Repeat(choice(*lines), 1, None), _loosened(grammar))
        case Dialect.REGEX:
            return Grammar(_unbounded(grammar.start), _loosened(grammar))
        case _ if EXPRESSION.name in grammar.rules:
            rough = {name: ROUGH if is_working(name) else node for name, node in grammar.rules.items()}
            return Grammar(grammar.start, rough)
        case _:
            return grammar


def _members(grammar: Grammar, properties: Mapping[str, Mapping[str, Any]]) -> Iterator[Node]:
    """Give the line that each member of an object makes."""
    for (lead, value), rest in zip(properties.items(), values(grammar), strict=True):
        match value:
            case {"enum": listed}:
                yield sequence(Literal(lead), choice(*map(Literal, listed)), _END)
            case {"pattern": _}:
                yield sequence(Literal(lead), _unbounded(rest))
            case _:
                yield sequence(Literal(lead), _ANY, _END)


def _loosened(grammar: Grammar) -> dict[str, Node]:
    known = {name: node for block in all_kept(grammar) for name, node in block.made(_all_loose).items()}
    return {name: known.get(name) or _loose(name, node) for name, node in grammar.rules.items()}


def _all_loose(rules: Mapping[str, Node]) -> dict[str, Node]:
    return {name: _loose(name, node) for name, node in rules.items()}


def _loose(name: str, node: Node) -> Node:
    return Repeat(_TEXT, 1, None) if is_working(name) or is_quote(name) else _unbounded(node)


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

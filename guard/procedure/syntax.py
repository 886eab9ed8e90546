"""A procedure's text as a syntax tree, and everything in it that is no procedure."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedToken

from guard.errors import Problem
from guard.procedure.layout import Layout
from guard.source import Source, Span


@cache
def grammar() -> Lark:
    """The grammar of procedures, compiled once. Lark in strict mode takes it too; a test sees to that."""
    text = files("guard.grammars").joinpath("procedure.lark").read_text(encoding="utf-8")
    return Lark(
        text,
        parser="lalr",
        lexer="basic",
        postlex=Layout(),
        propagate_positions=True,
        maybe_placeholders=True,
    )


def read(source: Source) -> tuple[Tree[Token] | None, list[Problem]]:
    """The tree of a text, None where it has none, and what is wrong with it."""
    lark = grammar()
    tokens = list(lark.lex(source.text + "\n"))
    parser = lark.parse_interactive("")
    for token in tokens:
        try:
            parser.feed_token(token)
        except UnexpectedToken:
            span = Span(token.start_pos or 0, token.end_pos or 0)
            return None, [source.problem(span, f"{token.value!r} cannot stand here")]
    return parser.feed_eof(), []

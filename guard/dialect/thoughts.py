"""Room for thoughts in front of a trace, where a grammar holds from the first token on."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from guard.dialect.tree import Chars, Grammar, Literal, Node, Repeat, Terminal, choice, optional, sequence

OPENING: Final = "<think>"
CLOSING: Final = "</think>"

# A text without `</`: no closing tag ends before its end, whichever way it is read.
_FREE: Final = choice(
    Chars((("<", "<"),), negated=True), sequence(Literal("<"), Chars((("/", "/"), ("<", "<")), negated=True))
)
_BLANK: Final = Chars(((" ", " "), ("\n", "\n")))


def behind_thoughts(grammar: Grammar, *, begun: bool = False) -> Grammar:
    """Let thoughts in tags stand in front of all that a grammar takes; `begun`: they have to be ended.

    Their length is left to the limit of tokens: readers of grammars count a long repetition out.
    """
    rest: Node = sequence(Repeat(_FREE, 0, None), Literal(CLOSING), Repeat(_BLANK, 0, 4))
    thoughts = rest if begun else optional(Literal(OPENING), rest)
    return replace(grammar, start=sequence(Terminal("thoughts", thoughts), grammar.start))

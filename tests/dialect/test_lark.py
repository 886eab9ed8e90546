"""Lark's notation of what no procedure happens to have."""

from __future__ import annotations

import pytest

from guard.dialect.tree import Grammar, Literal, Node, Repeat, Rule, choice, optional, sequence
from tests.dialect.readers import under_gbnf, under_lark

BOTH = sequence(optional(Literal("x")), optional(Literal("y")))


@pytest.mark.parametrize("part", [choice(Literal(""), Literal("x"), Literal("y")), BOTH, Repeat(BOTH, 0, 2)])
def test_a_part_that_may_be_nothing_is_no_terminal_of_its_own(part: Node) -> None:
    grammar = Grammar(sequence(Rule("s"), part, Rule("s")), {"s": Literal("a")})
    for text in ("aa", "axa", "aya"):
        assert under_lark(grammar, text) == under_gbnf(grammar, text) == (len(text), True)
    assert under_lark(grammar, "aba") == under_gbnf(grammar, "aba") == (1, False)

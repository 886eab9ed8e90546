"""A grammar as one regular expression, for backends that take nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

from guard.dialect.lark import regex_text
from guard.dialect.tree import (
    Chars,
    Choice,
    Grammar,
    Literal,
    Node,
    Repeat,
    Rule,
    Sequence,
    Terminal,
    sequence,
)

MAX_CHARACTERS: Final = 100_000


def regex(grammar: Grammar, *, most: int = MAX_CHARACTERS) -> str | None:
    """Write a grammar without lookaround and back references, to be matched as a whole.

    None where it takes more than that (its rules refer to themselves, as those of loops of an unknown
    number of passes do) or would be longer than `most` characters.
    """
    inlined = _Inlined(grammar.rules, most)
    whole = inlined.node(grammar.start)
    if whole is None or inlined.characters(whole) > most:
        return None
    text = regex_text(whole)
    return text if len(text) <= most else None


class _Inlined:
    """Puts rules where they are referred to."""

    def __init__(self, rules: Mapping[str, Node], most: int) -> None:
        self._rules, self._most = rules, most
        self._around: list[str] = []  # the rules that are being put in
        self._done: dict[str, Node | None] = {}
        self._counted: dict[int, tuple[Node, int]] = {}  # by identity, which lasts as long as the node

    def node(self, node: Node) -> Node | None:
        """Give a node without rules; None where there is no such."""
        match node:
            case Rule(name=name):
                return self._rule(name)
            case Sequence(parts=parts):
                inner = self._all(parts)
                return None if inner is None else sequence(*inner)
            case Choice(options=options):
                inner = self._all(options)
                return None if inner is None else Choice(inner)
            case Repeat(item=item, least=least, most=most):
                repeated = self.node(item)
                return None if repeated is None else Repeat(repeated, least, most)
            case Terminal(node=item):
                return self.node(item)
            case _:
                return node

    def _all(self, nodes: tuple[Node, ...]) -> tuple[Node, ...] | None:
        inner = [self.node(node) for node in nodes]
        return None if None in inner else tuple(node for node in inner if node is not None)

    def _rule(self, name: str) -> Node | None:
        if name in self._around:
            return None
        if name not in self._done:
            self._around.append(name)
            inner = self.node(self._rules[name])
            self._around.pop()
            # Rules that refer to rules several times grow with every level: stop where it is too much.
            self._done[name] = None if inner is None or self.characters(inner) > self._most else inner
        return self._done[name]

    def characters(self, node: Node) -> int:
        """Count about how many a node takes. What stands in several places is looked at once."""
        if id(node) not in self._counted:
            match node:
                case Sequence(parts=inner) | Choice(options=inner):
                    count = sum(map(self.characters, inner)) + len(inner)
                case Repeat(item=item) | Terminal(node=item):
                    count = self.characters(item) + 2
                case Literal(text=text):
                    count = len(text)
                case Chars(ranges=ranges):
                    count = 2 * len(ranges) + 2
                case Rule():
                    raise AssertionError(node)
                case _:
                    assert_never(node)
            self._counted[id(node)] = node, count
        return self._counted[id(node)][1]

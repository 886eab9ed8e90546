"""A grammar as one regular expression, for backends that take nothing else.

It has neither lookaround nor references to what was matched, and no repetition that RE2 would refuse: one of
more than `MAX_TIMES`, counted with those inside it, is without end, as is one of more than `MAX_SIZE`. What
would make the expression too long is written looser: workings and quotes as any text, which is for the
checker to read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, assert_never

from guard.dialect.holes import QUOTE
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
    has_rule,
    sequence,
)
from guard.dialect.workings import FREE

MAX_CHARACTERS: Final = 100_000
MAX_QUOTE: Final = 5_000  # characters for the words of a source
MAX_TIMES: Final = 1_000
MAX_SIZE: Final = 100_000  # of what is repeated, written out
MAX_DEPTH: Final = 60  # of rules that refer to rules; of a quote, words

_WORKING = re.compile(r"expression[0-9]+")
_QUOTE = re.compile(r"q[0-9a-f]{8}")


def regex(grammar: Grammar, *, most: int = MAX_CHARACTERS) -> str | None:
    """Write a grammar as an expression that is to be matched as a whole.

    None where it takes more than that (its rules refer to themselves, as those of loops of an unknown
    number of passes do) or would be longer than `most` characters.
    """
    inlined = _Inlined(grammar.rules, most)
    whole = inlined.node(grammar.start)
    if whole is None or inlined.characters(whole) > most:
        return None
    text = regex_text(_bounded(whole)[0])
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
                return self.node(item) if has_rule(node) else node
            case _:
                return node

    def _all(self, nodes: tuple[Node, ...]) -> tuple[Node, ...] | None:
        inner = [self.node(node) for node in nodes]
        return None if None in inner else tuple(node for node in inner if node is not None)

    def _rule(self, name: str) -> Node | None:
        if name in self._around or len(self._around) == MAX_DEPTH:
            return None
        if name not in self._done:
            self._around.append(name)
            self._done[name] = self._inside(name)
            self._around.pop()
        return self._done[name]

    def _inside(self, name: str) -> Node | None:
        if _WORKING.fullmatch(name):
            return FREE
        inner = self.node(self._rules[name])
        if _QUOTE.fullmatch(name) and (inner is None or self.characters(inner) > MAX_QUOTE):
            return QUOTE.node
        # Rules that refer to rules several times grow with every level: stop where it is too much.
        return None if inner is None or self.characters(inner) > self._most else inner

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


def _bounded(node: Node) -> tuple[Node, int, int]:
    """Take the bounds off repetitions that are too many.

    Give also how many times over a part is repeated, and how long all would be if written that often.
    """
    match node:
        case Repeat(item=item, least=least, most=most):
            inner, times, size = _bounded(item)
            count = max(least, 1) if most is None else most
            if times * count <= MAX_TIMES and size * count <= MAX_SIZE:
                return Repeat(inner, least, most), max(1, times * count), size * count
            return Repeat(inner, min(least, 1), None), times, size
        case Sequence(parts=parts):
            each = [_bounded(part) for part in parts]
            times = max((times for _, times, _ in each), default=1)
            return Sequence(tuple(part for part, _, _ in each)), times, sum(size for _, _, size in each)
        case Choice(options=options):
            each = [_bounded(option) for option in options]
            times = max(times for _, times, _ in each)
            return Choice(tuple(option for option, _, _ in each)), times, sum(size for _, _, size in each)
        case Terminal():
            return _bounded_terminal(node)
        case Literal(text=text):
            return node, 1, len(text)
        case _:
            return node, 1, 1


@lru_cache(maxsize=1024)
def _bounded_terminal(terminal: Terminal) -> tuple[Node, int, int]:
    inner, times, size = _bounded(terminal.node)
    return Terminal(terminal.name, inner), times, size

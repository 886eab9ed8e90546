"""Texts that a grammar writes, found by walking through it at random."""

from __future__ import annotations

from random import Random
from typing import Final

from guard.dialect.tree import Chars, Choice, Grammar, Literal, Node, Repeat, Rule, Sequence, Terminal

FAR: Final = 10**6
DEEP: Final = 60  # rules in rules, from where on the shortest way out is taken
LONG: Final = 1_500  # characters, from where on it is
CHARS: Final = '0 7a.Z-=("\\/é%)]{}t,:~^&|\u2028😀\x7f\n'


class Walk:
    """One grammar, to be walked through."""

    def __init__(self, grammar: Grammar, random: Random) -> None:
        self._grammar, self._random = grammar, random
        self._heights = dict.fromkeys(grammar.rules, FAR)
        while True:
            found = {name: 1 + self._height(node) for name, node in grammar.rules.items()}
            if found == self._heights:
                break
            self._heights = found
        self._known: dict[int, int] = {}
        self._length = 0

    def text(self, node: Node | None = None) -> str:
        """Write something of a node, else of the whole."""
        return "".join(self._walk(self._grammar.start if node is None else node, 0))

    def _height(self, node: Node) -> int:
        match node:
            case Rule(name=name):
                return self._heights[name]
            case Sequence(parts=parts):
                return max(map(self._height, parts), default=0)
            case Choice(options=options):
                return min(map(self._height, options))
            case Repeat(item=item, least=least):
                return self._height(item) if least else 0
            case Terminal(node=inner):
                return self._height(inner)
            case Literal() | Chars():
                return 0

    def _walk(self, node: Node, depth: int) -> list[str]:
        match node:
            case Literal(text=text):
                self._length += len(text)
                return [text]
            case Chars():
                return [self._char(node)]
            case Rule(name=name):
                return self._walk(self._grammar.rules[name], depth + 1)
            case Terminal(node=inner):
                return self._walk(inner, depth)
            case Sequence(parts=parts):
                return [text for part in parts for text in self._walk(part, depth)]
            case Choice(options=options):
                near = options
                if self._far(depth):
                    least = min(map(self._near, options))
                    near = tuple(option for option in options if self._near(option) == least)
                return self._walk(self._random.choice(near), depth)
            case Repeat(item=item, least=least, most=most):
                more = 0 if self._far(depth) else self._random.choice((0, 0, 1, 2, 3))
                count = least + more if most is None else min(most, least + more)
                return [text for _ in range(count) for text in self._walk(item, depth)]

    def _near(self, node: Node) -> int:
        """How many rules stand in rules on the shortest way; of parts that last as long as the grammar."""
        if id(node) not in self._known:
            self._known[id(node)] = self._height(node)
        return self._known[id(node)]

    def _far(self, depth: int) -> bool:
        return depth > DEEP or self._length > LONG

    def _char(self, chars: Chars) -> str:
        self._length += 1
        if not chars.negated:
            low, high = self._random.choice(chars.ranges)
            return chr(self._random.randint(ord(low), ord(high)))
        able = [char for char in CHARS if not any(low <= char <= high for low, high in chars.ranges)]
        return self._random.choice(able)

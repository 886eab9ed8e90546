"""Whether a text could be the beginning of what a grammar writes.

All ways to read it are followed at once, one position after the other. What is still to come at a position
is a chain of parts; equal chains are one object, so that a rule that ends in itself makes no longer ones.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final, assert_never

from guard.dialect.tree import Chars, Choice, Grammar, Literal, Node, Repeat, Rule, Sequence, Terminal

MAX_WORK: Final = 30_000  # parts that are looked at, some 20 ms


def begins(grammar: Grammar, text: str, *, work: int = MAX_WORK) -> bool:
    """Say whether something that may be written under the grammar begins with the text, or is it.

    Where it would take more than so much `work` to know, it is taken to.
    """
    return not text or _Reading(grammar, text, work).run()


class _Chain:
    """A part, and what comes behind it. Of a repetition, `least` and `most` are what is left of it."""

    __slots__ = ("least", "most", "node", "rest")

    def __init__(self, node: Node, least: int, most: int | None, rest: _Chain | None) -> None:
        self.node, self.least, self.most, self.rest = node, least, most, rest


class _Reading:
    def __init__(self, grammar: Grammar, text: str, work: int) -> None:
        self._left = work
        self._rules, self._text, self._size = grammar.rules, text, len(text)
        self._chains: dict[tuple[int, int, int | None, int], _Chain] = {}
        self._positions: list[int] = []  # a heap
        self._reached: dict[int, set[_Chain | None]] = {}  # by position
        self._reach(0, self._chain(grammar.start, None))

    def run(self) -> bool:
        while self._positions:
            position = heappop(self._positions)
            if position == self._size or self._left <= 0 or self._read(position):
                return True
        return False

    def _chain(self, node: Node, rest: _Chain | None) -> _Chain:
        match node:
            case Repeat(least=least, most=most):
                return self._repeated(node, least, most, rest)
            case _:
                return self._repeated(node, 0, 0, rest)

    def _repeated(self, node: Node, least: int, most: int | None, rest: _Chain | None) -> _Chain:
        key = (id(node), least, most, id(rest))
        found = self._chains.get(key)
        if found is None:
            found = self._chains[key] = _Chain(node, least, most, rest)
        return found

    def _reach(self, position: int, chain: _Chain | None) -> None:
        if position not in self._reached:
            self._reached[position] = set()
            heappush(self._positions, position)
        self._reached[position].add(chain)

    def _read(self, position: int) -> bool:
        """Go on from all that may come at a position; say whether the end of the text cuts some of it."""
        seen: set[_Chain] = set()
        waiting = list(self._reached.pop(position))
        while waiting:
            chain = waiting.pop()
            if chain is None or chain in seen:  # None: it is all written, and the text goes on
                continue
            seen.add(chain)
            self._left -= 1
            node = chain.node
            match node:
                case Literal(text=""):
                    waiting.append(chain.rest)
                case Literal(text=literal):
                    if self._text.startswith(literal, position):
                        self._reach(position + len(literal), chain.rest)
                    elif literal.startswith(self._text[position : position + len(literal)]):
                        return True
                case Chars():
                    if _fits(node, self._text[position]):
                        self._reach(position + 1, chain.rest)
                case Rule(name=name):
                    waiting.append(self._chain(self._rules[name], chain.rest))
                case Terminal(node=inner):
                    waiting.append(self._chain(inner, chain.rest))
                case Choice(options=options):
                    waiting += [self._chain(option, chain.rest) for option in options]
                case Sequence(parts=parts):
                    rest = chain.rest
                    for part in reversed(parts):
                        rest = self._chain(part, rest)
                    waiting.append(rest)
                case Repeat(item=Chars() as chars):
                    if self._run_of(chars, chain, position, waiting):
                        return True
                case Repeat(item=item):
                    waiting += self._once_more(node, item, chain)
                case _:
                    assert_never(node)
        return False

    def _run_of(self, chars: Chars, chain: _Chain, position: int, waiting: list[_Chain | None]) -> bool:
        """Repeat a character as often as the text does; say whether the text ends so."""
        end = position
        last = self._size if chain.most is None else min(self._size, position + chain.most)
        if chain.least == 0:
            waiting.append(chain.rest)
        while end < last and _fits(chars, self._text[end]):
            end += 1
            if end - position >= chain.least and end < self._size:
                self._reach(end, chain.rest)
        return end == self._size

    def _once_more(self, node: Node, item: Node, chain: _Chain) -> list[_Chain | None]:
        least, most, rest = chain.least, chain.most, chain.rest
        further = rest
        if most != 1:
            further = self._repeated(node, max(0, least - 1), None if most is None else most - 1, rest)
        return [self._chain(item, further), *([rest] if least == 0 else [])]


def _fits(chars: Chars, char: str) -> bool:
    return any(low <= char <= high for low, high in chars.ranges) is not chars.negated

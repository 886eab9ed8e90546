"""Whether a text could be the beginning of what a grammar writes, read as it comes.

All ways to read it are followed at once, one position after the other. What is still to come at a position
is a chain of parts; equal chains are one object, so that a rule that ends in itself makes no longer ones.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final, assert_never

from guard.dialect.tree import Chars, Choice, Grammar, Literal, Node, Repeat, Rule, Sequence, Terminal

MAX_WORK: Final = 30_000  # parts that are looked at, some 20 ms
MAX_CHAINS: Final = 2_000  # from which on those are forgotten that lie on ways that were left


class _Chain:
    """A part, and what comes behind it. Of a repetition, `least` and `most` are what is left of it."""

    __slots__ = ("least", "most", "node", "rest")

    def __init__(self, node: Node, least: int, most: int | None, rest: _Chain | None) -> None:
        self.node, self.least, self.most, self.rest = node, least, most, rest


class Reading:
    """Reads one text under a grammar, piece by piece."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._chains: dict[tuple[int, int, int | None, int], _Chain] = {}
        self._most = MAX_CHAINS
        self._open: set[_Chain | None] = {self._chain(grammar.start, None)}  # what may come now
        self._text, self._left = "", 0
        self._runs: dict[
            tuple[int, int], tuple[int, int]
        ] = {}  # of a character without end: from where to where
        self._ways: dict[int, dict[str, list[Node]]] = {}  # of a choice: by what they begin with
        self._positions: list[int] = []  # a heap
        self._reached: dict[int, set[_Chain | None]] = {}  # by position
        self.lost = False  # whether it would have taken too long to know

    def feed(self, text: str, *, work: int = MAX_WORK) -> bool:
        """Go on by a piece; say whether all so far begins as the grammar writes.

        Where it would take more than so much `work` to know, it is taken to, and so is all that follows.
        """
        if not text or self.lost or not self._open:
            return bool(self._open)
        self._open, self.lost = self._behind(text, self._open, work)
        return bool(self._open)

    def feed_either(self, *texts: str, work: int = MAX_WORK) -> bool:
        """Go on by one of some pieces, whichever may come; as `feed`."""
        before = self._open
        found = [self._behind(text, before, work) for text in dict.fromkeys(texts)]
        self._open = set().union(*(chains for chains, _ in found))
        self.lost = any(lost for _, lost in found)
        return bool(self._open)

    @property
    def may_end(self) -> bool:
        """Whether the text may be all that is written."""
        waiting, seen = list(self._open), set[_Chain]()
        while waiting and not self.lost:
            chain = waiting.pop()
            if chain is None:
                return True
            if chain not in seen:
                seen.add(chain)
                waiting += self._without(chain)
        return self.lost

    def _without(self, chain: _Chain) -> list[_Chain | None]:
        """Go on past a part where it may be nothing at all."""
        match chain.node:
            case Literal(text=text):
                return [] if text else [chain.rest]
            case Chars():
                return []
            case Repeat(item=item) if chain.least:
                return [self._chain(item, chain.rest)]
            case Repeat():
                return [chain.rest]
            case _:
                return self._opened(chain)

    # --- one piece -------------------------------------------------------------------------------

    def _behind(self, text: str, chains: set[_Chain | None], work: int) -> tuple[set[_Chain | None], bool]:
        """Give what may come behind a piece, and whether it takes too long to know."""
        self._text, self._left = text, work
        self._positions, self._reached, self._runs = [0], {0: set(chains)}, {}
        while self._positions:
            position = heappop(self._positions)
            if position == len(text) or self._left <= 0:
                break
            self._read(position)
        lost = self._left <= 0
        found = chains if lost else self._reached.get(len(text), set())
        self._reached = {}
        if len(self._chains) > self._most:
            self._forget(found)
            self._most = max(MAX_CHAINS, 2 * len(self._chains))
        return found, lost

    def _forget(self, chains: set[_Chain | None]) -> None:
        """Remember those chains only that may still be met."""
        self._chains.clear()
        waiting = list(chains)
        while waiting:
            chain = waiting.pop()
            if chain is not None:
                key = (id(chain.node), chain.least, chain.most, id(chain.rest))
                if self._chains.setdefault(key, chain) is chain:
                    waiting.append(chain.rest)

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

    def _read(self, position: int) -> None:
        """Go on from all that may come at a position."""
        seen: set[_Chain] = set()
        waiting = list(self._reached.pop(position))
        while waiting and self._left > 0:
            chain = waiting.pop()
            if chain is None or chain in seen:  # None: it is all written, and the text goes on
                continue
            seen.add(chain)
            self._left -= 1
            match chain.node:
                case Literal(text=literal):
                    self._literal(literal, chain, position, waiting)
                case Chars() as chars:
                    if _fits(chars, self._text[position]):
                        self._reach(position + 1, chain.rest)
                case Repeat(item=Chars() as chars):
                    self._run_of(chars, chain, position, waiting)
                case Choice() as ways:
                    waiting += [
                        self._chain(way, chain.rest) for way in self._that_fit(ways, self._text[position])
                    ]
                case _:
                    waiting += self._opened(chain)

    def _opened(self, chain: _Chain) -> list[_Chain | None]:
        """Give what a part is made of, each with what comes behind it."""
        node = chain.node
        match node:
            case Rule(name=name):
                return [self._chain(self._grammar.rules[name], chain.rest)]
            case Terminal(node=inner):
                return [self._chain(inner, chain.rest)]
            case Choice(options=options):
                return [self._chain(option, chain.rest) for option in options]
            case Sequence(parts=parts):
                rest = chain.rest
                for part in reversed(parts):
                    rest = self._chain(part, rest)
                return [rest]
            case Repeat(item=item):
                return self._once_more(node, item, chain)
            case Literal() | Chars():
                return [chain]
            case _:
                assert_never(node)

    def _that_fit(self, choice: Choice, char: str) -> list[Node]:
        """Give the options that may begin with a character: most of many begin with another one."""
        ways = self._ways.get(id(choice))
        if ways is None:
            ways = self._ways[id(choice)] = {}
            for option in choice.options:
                ways.setdefault(_first(option), []).append(option)
        return [*ways.get(char, ()), *ways.get("", ())]

    def _literal(self, literal: str, chain: _Chain, position: int, waiting: list[_Chain | None]) -> None:
        if not literal:
            waiting.append(chain.rest)
        elif self._text.startswith(literal, position):
            self._reach(position + len(literal), chain.rest)
        elif literal.startswith(self._text[position:]):  # the piece ends within it
            rest = Literal(literal[len(self._text) - position :])
            self._reach(len(self._text), self._chain(rest, chain.rest))

    def _run_of(self, chars: Chars, chain: _Chain, position: int, waiting: list[_Chain | None]) -> None:
        """Repeat a character as often as the text does."""
        size = len(self._text)
        end, last = position, size if chain.most is None else min(size, position + chain.most)
        if chain.least == 0:
            waiting.append(chain.rest)
        if chain.most is None:
            key, first = (id(chain.node), id(chain.rest)), position + chain.least
            since, until = self._runs.get(key, (size + 1, 0))
            if since <= first and position <= until:
                return  # one that began further in front has come to the same
        while end < last and _fits(chars, self._text[end]):
            end += 1
            if end - position >= chain.least and end < size:
                self._reach(end, chain.rest)
        self._left -= (end - position) // 4
        if chain.most is None:
            self._runs[key] = first, end
        if end == size:
            done = end - position
            most = None if chain.most is None else chain.most - done
            self._reach(end, self._repeated(chain.node, max(0, chain.least - done), most, chain.rest))

    def _once_more(self, node: Node, item: Node, chain: _Chain) -> list[_Chain | None]:
        least, most, rest = chain.least, chain.most, chain.rest
        if most == 0:
            return [rest]
        further = rest
        if most != 1:
            further = self._repeated(node, max(0, least - 1), None if most is None else most - 1, rest)
        return [self._chain(item, further), *([rest] if least == 0 else [])]


def _first(node: Node) -> str:
    """Give the character that a part begins with; "" where it may be one or another, or none."""
    match node:
        case Literal(text=text):
            return text[:1]
        case Sequence(parts=(first, *_)) | Terminal(node=first):
            return _first(first)
        case _:
            return ""


def _fits(chars: Chars, char: str) -> bool:
    return any(low <= char <= high for low, high in chars.ranges) is not chars.negated

"""A grammar as one regular expression, for backends that take nothing else.

It has neither lookaround nor references to what was matched, and no repetition that RE2 would refuse: one of
more than `MAX_TIMES`, counted with those inside it, is without end, as is one of more than `MAX_SIZE`. What
would make the expression too long is written looser: workings and quotes as any text, which is for the
checker to read. Each rule is written once, and its text put wherever it is referred to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple, assert_never

from guard.dialect.holes import QUOTE
from guard.dialect.patterns import escaped, of_class, settled, times
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
)
from guard.dialect.workings import FREE

MAX_CHARACTERS: Final = 100_000
MAX_QUOTE: Final = 5_000  # characters for the words of a source
MAX_TIMES: Final = 1_000
MAX_SIZE: Final = 100_000  # of what is repeated, written out

_WORKING = re.compile(r"expression[0-9]+")
_QUOTE = re.compile(r"q[0-9a-f]{8}")


def regex(grammar: Grammar, *, most: int = MAX_CHARACTERS) -> str | None:
    """Write a grammar as an expression that is to be matched as a whole.

    None where it takes more than that (its rules refer to themselves, as those of loops of an unknown
    number of passes do) or would be longer than `most` characters.
    """
    rules = _Rules(grammar.rules, most)
    whole = rules.expression(grammar.start)
    text = None if whole is None else settled(whole.text)
    return text if text is not None and len(text) <= most else None


class _Expression(NamedTuple):
    """What was written, and whether it is several `ways`, or one character, which need no brackets.

    `times` is how many times over a part of it is repeated, `size` how long all would be if written so often.
    """

    text: str
    times: int
    size: int
    ways: bool = False
    one: bool = False


class _Rules:
    """Writes rules, inner ones first: where each refers to the next, calls cannot be nested as deep."""

    def __init__(self, rules: Mapping[str, Node], most: int) -> None:
        self._rules, self._most = rules, most
        self._written: dict[str, _Expression | None] = {}

    def expression(self, node: Node) -> _Expression | None:
        """Write a node with all that it refers to; None where there is no such expression."""
        begun: set[str] = set()
        waiting = list(_references(node))
        while waiting:
            name = waiting[-1]
            inner = [] if name in begun else [one for one in self._inner(name) if one not in self._written]
            begun.add(name)
            waiting += inner
            if not inner:
                self._written.setdefault(name, self._rule(name))
                waiting.pop()
        return self._node(node)

    def _inner(self, name: str) -> Iterator[str]:
        return iter(()) if _WORKING.fullmatch(name) else _references(self._rules[name])

    def _rule(self, name: str) -> _Expression | None:
        if _WORKING.fullmatch(name):
            return self._node(FREE)
        inner = self._node(self._rules[name])
        if _QUOTE.fullmatch(name) and (inner is None or len(inner.text) > MAX_QUOTE):
            return self._node(QUOTE.node)
        # Rules that refer to rules several times grow with every level: stop where it is too much.
        return None if inner is None or len(inner.text) > self._most else inner

    def _node(self, node: Node) -> _Expression | None:
        match node:
            case Literal(text=text):
                return _Expression(escaped(text), 1, len(text))
            case Rule(name=name):
                return self._written.get(name)  # None as well where it is one around this one
            case Terminal(node=item):
                return self._node(item) if has_rule(node) else _terminal(node)
            case Sequence(parts=parts):
                return _joined(map(self._node, parts))
            case Chars():
                return _Expression(of_class(node), 1, 1, one=True)
            case Choice(options=options):
                return _chosen([self._node(option) for option in options])
            case Repeat(item=item, least=least, most=most):
                return _repeated(self._node(item), least, most)
            case _:
                assert_never(node)


@lru_cache(maxsize=1024)
def _terminal(terminal: Terminal) -> _Expression | None:
    inner = _Rules({}, MAX_CHARACTERS).expression(terminal.node)
    return None if inner is None else _Expression(f"({inner.text})", inner.times, inner.size)


def _references(node: Node) -> Iterator[str]:
    match node:
        case Rule(name=name):
            yield name
        case Sequence(parts=inner) | Choice(options=inner):
            for part in inner:
                yield from _references(part)
        case Repeat(item=item):
            yield from _references(item)
        case Terminal(node=item) if has_rule(node):
            yield from _references(item)
        case _:
            pass


def _joined(parts: Iterable[_Expression | None]) -> _Expression | None:
    some: list[_Expression] = []
    for part in parts:
        if part is None:
            return None
        if part.text:
            some.append(part)
    if len(some) == 1:
        return some[0]
    text = "".join([f"({part.text})" if part.ways else part.text for part in some])
    return _Expression(text, max([1, *(part.times for part in some)]), sum([part.size for part in some]))


def _chosen(options: list[_Expression | None]) -> _Expression | None:
    some = [option for option in options if option is not None]
    if len(some) < len(options):
        return None
    text = "|".join([option.text for option in some])
    times_over = max(option.times for option in some)
    return _Expression(text, times_over, sum([option.size for option in some]), ways=True)


def _repeated(item: _Expression | None, least: int, most: int | None) -> _Expression | None:
    """Repeat an expression. Bounds that are too many are taken off."""
    if item is None:
        return None
    count = max(least, 1) if most is None else most
    bounded = item.times * count <= MAX_TIMES and item.size * count <= MAX_SIZE
    often = times(least, most) if bounded else times(min(least, 1), None)
    text = f"{item.text if item.one else f'({item.text})'}{often}"
    if bounded:
        return _Expression(text, max(1, item.times * count), item.size * count)
    return _Expression(text, item.times, item.size)

"""A grammar as one regular expression, for backends that take nothing else.

It has neither lookaround nor references to what was matched, and no repetition that RE2 would refuse: one of
more than `MAX_TIMES`, counted with those inside it, is without end, as is one of more than `MAX_SIZE`. What
would make the expression too long is written looser: workings and quotes as any text, which is for the
checker to read. Each rule is written once, and its text put wherever it is referred to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple, assert_never

from guard.dialect.holes import QUOTE
from guard.dialect.patterns import escaped, of_class, settled, times
from guard.dialect.quotes import is_quote
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
)
from guard.dialect.workings import FREE, is_working

MAX_CHARACTERS: Final = 100_000
MAX_QUOTE: Final = 5_000  # characters for the words of a source
MAX_TIMES: Final = 1_000
MAX_SIZE: Final = 100_000  # of what is repeated, written out
MAX_DEPTH: Final = 60  # brackets in brackets; each is three levels to Rust's reader, which takes 250

_END: Final = "\ufdd0" * 12  # as long as a closing line, and no text
_MOST_WORDS: Final = 50  # more cannot be said in `MAX_QUOTE`: behind each stand all others, of 4 or more each


def regex(grammar: Grammar, *, most: int = MAX_CHARACTERS) -> str | None:
    """Write a grammar as an expression that is to be matched as a whole.

    None where it takes more than that (its rules refer to themselves, as those of loops of an unknown
    number of passes do) or would be longer than `most` characters, even with quotes as any text.
    """
    found = _whole(grammar, most, _rest)
    if found is None and any(map(is_quote, grammar.rules)):
        found = _whole(_unquoted(grammar), most, _unquoted_rest)
    return found


def _whole(
    grammar: Grammar, most: int, made: Callable[[Mapping[str, Node]], _Expression | None]
) -> str | None:
    rules = _Rules(grammar.rules, most)
    for block in grammar.kept:
        if not block.made(_is_whole):
            continue  # it says something else in each request, and is written with the others
        rest = block.made(made)
        if rest is None:
            return None
        rules.written["rest"] = _ended(rest, grammar.rules["end"])
    whole = rules.expression(grammar.start)
    if whole is None or whole.depth > MAX_DEPTH:
        return None
    text = settled(whole.text)
    return text if len(text) <= most else None


class _Expression(NamedTuple):
    """What was written, and whether it is several `ways`, or one character, which need no brackets.

    `times` is how many times over a part of it is repeated, `size` how long all would be if written so often,
    `depth` how many brackets stand in each other.
    """

    text: str
    times: int
    size: int
    depth: int = 0
    ways: bool = False
    one: bool = False


def _is_whole(rules: Mapping[str, Node]) -> bool:
    """Whether rules refer to no other ones, but for the end and workings; those of an open group may."""
    named = {name for node in rules.values() for name in _references(node)}
    return all(name in rules or name == "end" or is_working(name) for name in named)


def _rest(rules: Mapping[str, Node]) -> _Expression | None:
    """Write what may follow, up to the closing line, which is another one in each request."""
    return _Rules({**rules, "end": Literal(_END)}, MAX_CHARACTERS).expression(rules["rest"])


def _unquoted(grammar: Grammar) -> Grammar:
    """Let quotes be any text."""
    return Grammar(grammar.start, _free(grammar.rules), grammar.kept)


def _free(rules: Mapping[str, Node]) -> dict[str, Node]:
    return {name: QUOTE.node if is_quote(name) else node for name, node in rules.items()}


def _unquoted_rest(rules: Mapping[str, Node]) -> _Expression | None:
    return _rest(_free(rules))


def _ended(rest: _Expression, end: Node) -> _Expression:
    assert isinstance(end, Literal)
    return rest._replace(text=rest.text.replace(_END, escaped(end.text)))


class _Rules:
    """Writes rules, inner ones first: where each refers to the next, calls cannot be nested as deep."""

    def __init__(self, rules: Mapping[str, Node], most: int) -> None:
        self._rules, self._most = rules, most
        self.written: dict[str, _Expression | None] = {}

    def expression(self, node: Node) -> _Expression | None:
        """Write a node with all that it refers to; None where there is no such expression."""
        begun: set[str] = set()
        waiting = list(_references(node))
        while waiting:
            name = waiting.pop()
            if name in self.written:
                continue
            rule = self._loose(name)
            inner = [] if name in begun else [one for one in _references(rule) if one not in self.written]
            if inner:
                begun.add(name)
                waiting += [name, *inner]
            else:
                self.written[name] = self._rule(name, rule)
        return self._node(node)

    def _loose(self, name: str) -> Node:
        """Give what is written for a rule."""
        if is_working(name):
            return FREE
        match self._rules[name]:
            case Sequence(parts=(_, Choice(options=words), _)) if len(words) > _MOST_WORDS and is_quote(name):
                return QUOTE.node
            case node:
                return node

    def _rule(self, name: str, node: Node) -> _Expression | None:
        inner = self._node(node)
        if is_quote(name) and (inner is None or len(inner.text) > MAX_QUOTE):
            return self._node(QUOTE.node)
        # Rules that refer to rules several times grow with every level: stop where it is too much.
        return None if inner is None or len(inner.text) > self._most else inner

    def _node(self, node: Node) -> _Expression | None:
        match node:
            case Literal(text=text):
                return _Expression(escaped(text), 1, len(text))
            case Rule(name=name):
                return self.written.get(name)  # None as well where it is one around this one
            case Terminal():
                return _terminal(node)
            case Sequence(parts=parts):
                return self._row(parts)
            case Chars():
                return _Expression(of_class(node), 1, 1, one=True)
            case Choice(options=options):
                return _chosen(map(self._node, options))
            case Repeat(item=item, least=least, most=most):
                return _repeated(self._node(item), least, most)
            case _:
                assert_never(node)

    def _row(self, parts: Iterable[Node]) -> _Expression | None:
        texts: list[str] = []
        times_over, size, depth = 1, 0, 0
        only: _Expression | None = None
        for part in parts:
            if isinstance(part, Literal):  # half of all parts
                texts += [escaped(part.text)] if part.text else []
                size += len(part.text)
                continue
            inner = self._node(part)
            if inner is None:
                return None
            if inner.text:
                only = None if texts else inner
                texts.append(f"({inner.text})" if inner.ways else inner.text)
                times_over, size = max(times_over, inner.times), size + inner.size
                depth = max(depth, inner.depth + inner.ways)
        if only is not None and len(texts) == 1:
            return only
        return _Expression("".join(texts), times_over, size, depth)


@lru_cache(maxsize=1024)
def _terminal(terminal: Terminal) -> _Expression | None:
    inner = _Rules({}, MAX_CHARACTERS).expression(terminal.node)
    return None if inner is None else _Expression(f"({inner.text})", inner.times, inner.size, inner.depth + 1)


def _references(node: Node) -> Iterator[str]:
    match node:
        case Rule(name=name):
            yield name
        case Sequence(parts=inner) | Choice(options=inner):
            for part in inner:
                yield from _references(part)
        case Repeat(item=item):
            yield from _references(item)
        case _:
            pass


def _chosen(options: Iterable[_Expression | None]) -> _Expression | None:
    some: list[_Expression] = []
    for option in options:
        if option is None:
            return None
        some.append(option)
    text = "|".join([option.text for option in some])
    times_over = max(option.times for option in some)
    depth = max(option.depth for option in some)
    return _Expression(text, times_over, sum([option.size for option in some]), depth, ways=True)


def _repeated(item: _Expression | None, least: int, most: int | None) -> _Expression | None:
    """Repeat an expression. Bounds that are too many are taken off."""
    if item is None:
        return None
    count = max(least, 1) if most is None else most
    bounded = item.times * count <= MAX_TIMES and item.size * count <= MAX_SIZE
    often = times(least, most) if bounded else times(min(least, 1), None)
    text = f"{item.text if item.one else f'({item.text})'}{often}"
    depth = item.depth + (not item.one)
    if bounded:
        return _Expression(text, max(1, item.times * count), item.size * count, depth)
    return _Expression(text, item.times, item.size, depth)

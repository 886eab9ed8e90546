"""A grammar as a small tree that every dialect is written from.

A `Terminal` is a part without inner structure that matters (a string, a number, a working): dialects with
a lexer write it, and all text around it, as one regular expression. A `Rule` refers to `Grammar.rules`
and stays a rule in every dialect. No rule is recursive on its left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Literal:
    """A fixed text."""

    text: str


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of `ranges` (both ends included), or, negated, one of no range."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    """One part after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the options."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The item, `least` to `most` times; None: without end."""

    item: Node
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Terminal:
    """A part with a name, to be written once. Names are lower case letters and digits."""

    name: str
    node: Node


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule of that name. Names are lower case letters and digits."""

    name: str


Node = Literal | Chars | Sequence | Choice | Repeat | Terminal | Rule


EMPTY = Sequence(())


@dataclass(frozen=True, slots=True)
class Grammar:
    """What may be written: `start`, and the rules that it refers to."""

    start: Node
    rules: dict[str, Node]


def sequence(*parts: Node) -> Node:
    """Put parts in order, flat, with literals that adjoin made one."""
    flat: list[Node] = []
    for part in _flatten(parts):
        match flat, part:
            case [*_, Literal(text=left)], Literal(text=right):
                flat[-1] = Literal(left + right)
            case _:
                flat.append(part)
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def _flatten(parts: Iterable[Node]) -> Iterator[Node]:
    for part in parts:
        match part:
            case Sequence(parts=inner):
                yield from _flatten(inner)
            case Literal(text=""):
                pass
            case _:
                yield part


def choice(*options: Node) -> Node:
    """One of the options, each counted once."""
    distinct = tuple(dict.fromkeys(options))
    return distinct[0] if len(distinct) == 1 else Choice(distinct)


def optional(*parts: Node) -> Node:
    """Allow the parts, or nothing."""
    return Repeat(sequence(*parts), 0, 1)


def has_rule(node: Node) -> bool:
    """Whether a rule is referred to anywhere inside."""
    match node:
        case Rule():
            return True
        case Sequence(parts=inner) | Choice(options=inner):
            return any(has_rule(part) for part in inner)
        case Repeat(item=item) | Terminal(node=item):
            return has_rule(item)
        case Literal() | Chars():
            return False


def nullable(node: Node) -> bool:
    """Whether a part without rules may be nothing at all."""
    match node:
        case Literal(text=text):
            return not text
        case Chars() | Rule():
            return False
        case Sequence(parts=parts):
            return all(map(nullable, parts))
        case Choice(options=options):
            return any(map(nullable, options))
        case Repeat(item=item, least=least):
            return least == 0 or nullable(item)
        case Terminal(node=item):
            return nullable(item)


def terminals(node: Node) -> Iterator[Terminal]:
    """Every terminal inside, inner ones first, possibly more than once."""
    match node:
        case Terminal(node=item):
            yield from terminals(item)
            yield node
        case Sequence(parts=inner) | Choice(options=inner):
            for part in inner:
                yield from terminals(part)
        case Repeat(item=item):
            yield from terminals(item)
        case Literal() | Chars() | Rule():
            pass

"""A grammar as a small tree that every dialect is written from.

A `Terminal` is a part without inner structure that matters (a string, a number, a working), and holds no
rule: dialects with a lexer write it, and all text around it, as one regular expression. A `Rule` refers to
`Grammar.rules` and stays a rule in every dialect. No rule is recursive on its left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar


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

    def __hash__(self) -> int:
        """The name's: what is inside may be long, and equal names seldom stand for different parts."""
        return hash(self.name)


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule of that name. Names are lower case letters and digits."""

    name: str


Node = Literal | Chars | Sequence | Choice | Repeat | Terminal | Rule


EMPTY = Sequence(())


Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Rules that stand in many grammars as they are, with what the notations have made of them so far."""

    rules: Mapping[str, Node]
    _made: dict[Callable[..., Any], Any] = field(default_factory=dict)

    def made(self, make: Callable[[Mapping[str, Node]], Made]) -> Made:
        """Give what a function makes of the rules. It is made once."""
        if make not in self._made:
            self._made[make] = make(self.rules)
        found: Made = self._made[make]
        return found


@dataclass(frozen=True, slots=True)
class Grammar:
    """What may be written: `start`, and the rules that it refers to, some of which are `kept`."""

    start: Node
    rules: dict[str, Node]
    kept: tuple[Kept, ...] = field(default=(), compare=False)


def sequence(*parts: Node) -> Node:
    """Put parts in order, flat, with literals that adjoin made one."""
    flat: list[Node] = []
    _flatten(parts, flat)
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def _flatten(parts: Iterable[Node], flat: list[Node]) -> None:
    for part in parts:
        kind = type(part)  # a match takes twice the time, and this is done for every line
        if kind is Sequence:
            _flatten(part.parts, flat)  # type: ignore[union-attr]
        elif kind is not Literal:
            flat.append(part)
        elif part.text:  # type: ignore[union-attr]
            if flat and type(flat[-1]) is Literal:
                part = Literal(flat.pop().text + part.text)  # type: ignore[union-attr]  # noqa: PLW2901
            flat.append(part)


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
            return any(map(has_rule, inner))
        case Repeat(item=item):
            return has_rule(item)
        case Terminal() | Literal() | Chars():
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
        case Terminal():
            return _nullable(node)


@lru_cache(maxsize=1024)
def _nullable(terminal: Terminal) -> bool:
    return nullable(terminal.node)


def terminals(node: Node) -> Iterator[Terminal]:
    """Every terminal inside, inner ones first, possibly more than once."""
    match node:
        case Terminal():
            yield from _inside(node)
            yield node
        case Sequence(parts=inner) | Choice(options=inner):
            for part in inner:
                yield from terminals(part)
        case Repeat(item=item):
            yield from terminals(item)
        case Literal() | Chars() | Rule():
            pass


@lru_cache(maxsize=1024)
def _inside(terminal: Terminal) -> tuple[Terminal, ...]:
    return tuple(terminals(terminal.node))

r"""A grammar in llama.cpp's notation, GBNF.

llama.cpp takes no `_` in names, no left recursion, no `{,m}`, and no `|` at the start of a line; escapes
are `\n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH`, and any other backslash is an error. Of the last three only
`\x` is written, for what is in ASCII, and never with a digit behind it: XGrammar, which reads the same text
as EBNF, takes all hexadecimal digits that follow, and llguidance loses zeros behind `\u`.
llama.cpp counts what a repetition repeats, with all repetitions inside, and takes no more than 2,000: what is
repeated is the name of a rule here, which counts as one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import assert_never

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
    terminals,
)
from guard.dialect.workings import EXPRESSION, all_shared

_HEXADECIMAL = re.compile(r"(\\x[0-9A-F]{2})([0-9A-Fa-f])")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"'}
_TABLE = str.maketrans(_ESCAPES)
_CLASS_ESCAPES = {**_ESCAPES, "[": "\\[", "]": "\\]", "-": "\\x2D", "^": "\\x5E"}


def gbnf(grammar: Grammar) -> str:
    """Write a grammar for llama.cpp; its start rule is `root`, and no other rule may have that name."""
    known = _shared() if EXPRESSION.name in grammar.rules else _NOTHING
    repeated = dict(known.repeated)
    own = {name: node for name, node in grammar.rules.items() if name not in known.texts}
    starting = {"root": grammar.start, **own}
    named = {terminal.name: terminal.node for body in starting.values() for terminal in terminals(body)}
    bodies = {name: _body(_simple(node, repeated)) for name, node in starting.items()}
    for name, node in {**known.named, **named}.items():
        bodies[name] = known.texts.get(name) or _body(_simple(node, repeated))
    texts = bodies | {name: known.texts[name] for name in grammar.rules if name in known.texts}
    texts |= {name: _body(node) for node, name in repeated.items()}
    return "".join(f"{name} ::= {text}\n" for name, text in texts.items())


@dataclass(frozen=True, slots=True)
class _Shared:
    """The texts of rules that are the same in every grammar, the terminals in them, and what they repeat."""

    texts: Mapping[str, str]
    named: Mapping[str, Node]
    repeated: Mapping[Node, str]


_NOTHING = _Shared({}, {}, {})


@cache
def _shared() -> _Shared:
    rules, repeated = all_shared(), dict[Node, str]()
    named = {terminal.name: terminal.node for body in rules.values() for terminal in terminals(body)}
    texts = {name: _body(_simple(node, repeated)) for name, node in {**rules, **named}.items()}
    return _Shared(texts, named, repeated)


def _simple(node: Node, repeated: dict[Node, str]) -> Node:
    """Give what is repeated more than once a rule of its own, unless it has one or is one character.

    A repetition of a repetition is one of a rule, too: llguidance's reader loses the brackets between them.
    """
    match node:
        case Repeat(item=item, least=least, most=most):
            inner = _simple(item, repeated)
            if isinstance(inner, Repeat) or (most not in (0, 1) and not _is_one(inner)):
                inner = Rule(repeated.setdefault(inner, f"again{len(repeated) + 1}"))
            return Repeat(inner, least, most)
        case Sequence(parts=parts):
            return Sequence(tuple(_simple(part, repeated) for part in parts))
        case Choice(options=options):
            return Choice(tuple(_simple(option, repeated) for option in options))
        case _:
            return node


def _is_one(node: Node) -> bool:
    match node:
        case Literal(text=text):
            return len(text) == 1
        case _:
            return isinstance(node, Chars | Rule | Terminal)


def _body(node: Node) -> str:
    match node:
        case Choice(options=options):
            return " | ".join(_body(option) for option in options)
        case Sequence(parts=()):
            return '""'
        case Sequence(parts=parts):
            return " ".join(_atom(part) for part in parts)
        case _:
            return _atom(node)


def _atom(node: Node) -> str:
    match node:
        case Literal(text=text):
            written = _string(text)
            apart = _HEXADECIMAL.sub(r'\1" "\2', written)
            return f'"{written}"' if apart == written else f'("{apart}")'
        case Chars(ranges=ranges, negated=negated):
            return f"[{'^' if negated else ''}{_inside(ranges)}]"
        case Rule(name=name) | Terminal(name=name):
            return name
        case Repeat(item=item, least=least, most=most):
            return _atom(item) + _times(least, most)
        case Sequence() | Choice():
            return f"({_body(node)})"
        case _:
            assert_never(node)


def _inside(ranges: tuple[tuple[str, str], ...]) -> str:
    return "".join(sorted((_range(low, high) for low, high in ranges), key=lambda text: "\\x" in text))


def _range(low: str, high: str) -> str:
    start = _escape(low, _CLASS_ESCAPES)
    return start if low == high else f"{start}-{_escape(high, _CLASS_ESCAPES)}"


def _string(text: str) -> str:
    escaped = text.translate(_TABLE)
    if not escaped.isprintable():
        escaped = "".join(_escape(char, _ESCAPES) for char in text)
    return escaped


def _escape(char: str, escapes: dict[str, str]) -> str:
    if char in escapes:
        return escapes[char]
    return f"\\x{ord(char):02X}" if char < " " or char == "\x7f" else char


def _times(least: int, most: int | None) -> str:
    match least, most:
        case 0, 1:
            return "?"
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case _, None:
            return f"{{{least},}}"
        case _:
            return f"{{{least}}}" if least == most else f"{{{least},{most}}}"

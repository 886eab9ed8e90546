r"""A grammar in llama.cpp's notation, GBNF.

llama.cpp takes no `_` in names, no left recursion, no `{,m}`, and no `|` at the start of a line; escapes
are `\n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH`, and any other backslash is an error.
"""

from __future__ import annotations

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

_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"'}
_TABLE = str.maketrans(_ESCAPES)
_CLASS_ESCAPES = {**_ESCAPES, "[": "\\[", "]": "\\]", "-": "\\x2D", "^": "\\x5E"}


def gbnf(grammar: Grammar) -> str:
    """Write a grammar for llama.cpp; its start rule is `root`, and no other rule may have that name."""
    bodies = [grammar.start, *grammar.rules.values()]
    named = {terminal.name: terminal.node for body in bodies for terminal in terminals(body)}
    rules = {"root": grammar.start, **grammar.rules, **named}
    return "".join(f"{name} ::= {_body(node)}\n" for name, node in rules.items())


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
            return _string(text)
        case Chars(ranges=ranges, negated=negated):
            return f"[{'^' if negated else ''}{''.join(_range(low, high) for low, high in ranges)}]"
        case Rule(name=name) | Terminal(name=name):
            return name
        case Repeat(item=Repeat() as item, least=least, most=most):
            return f"({_atom(item)}){_times(least, most)}"
        case Repeat(item=item, least=least, most=most):
            return _atom(item) + _times(least, most)
        case Sequence() | Choice():
            return f"({_body(node)})"
        case _:
            assert_never(node)


def _range(low: str, high: str) -> str:
    start = _escape(low, _CLASS_ESCAPES)
    return start if low == high else f"{start}-{_escape(high, _CLASS_ESCAPES)}"


def _string(text: str) -> str:
    escaped = text.translate(_TABLE)
    if not escaped.isprintable():
        escaped = "".join(_escape(char, _ESCAPES) for char in text)
    return f'"{escaped}"'


def _escape(char: str, escapes: dict[str, str]) -> str:
    if char in escapes:
        return escapes[char]
    return char if char.isprintable() else _hexadecimal(ord(char))


def _hexadecimal(code: int) -> str:
    if code <= 0xFF:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


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

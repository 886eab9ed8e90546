"""A part of a grammar that holds no rule, as a regular expression that all engines read the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Listing
from functools import lru_cache
from typing import Final, assert_never

from guard.dialect.tree import Chars, Choice, Literal, Node, Repeat, Rule, Sequence, Terminal

_BLANKS = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# What has to be escaped, so that the engines of Rust, RE2, ECMAScript and Python all read the same: in the
# text of an expression, and in its classes, where two of `&`, `~` or `-` are operators to some. To XGrammar a
# `^` that comes first is one, however it is written, and all hexadecimal digits behind `\x` belong to it.
_REGEX_SPECIAL = {char: f"\\{char}" for char in "\\^$.|?*+()[]{}/"}
_CLASS_SPECIAL = {
    **{char: f"\\{char}" for char in "\\[]/|-"},
    **{char: f"\\x{ord(char):02x}" for char in "^&~"},
}
# An old reader takes a text for EBNF by this sign; it never stands in ours.
DEFINES: Final = "::="
_HEXADECIMAL = re.compile(r"(\\x[0-9a-f]{2})([0-9A-Fa-f])")


def pattern(parts: Listing[Node]) -> str:
    """Write parts without rules as a regular expression, in what all engines share."""
    return settled(_node(parts[0]) if len(parts) == 1 else _row(parts))


def _row(parts: Iterable[Node]) -> str:
    return "".join([f"({_node(part)})" if isinstance(part, Choice) else _node(part) for part in parts])


def _node(node: Node) -> str:
    match node:
        case Literal(text=text):
            return escaped(text)
        case Terminal():
            return _in_brackets(node)
        case Chars():
            return of_class(node)
        case Sequence(parts=parts):
            return _row(parts)
        case Choice(options=options):
            return "|".join(map(_node, options))
        case Repeat(item=Chars() as item, least=least, most=most):
            return of_class(item) + times(least, most)
        case Repeat(item=item, least=least, most=most):
            return f"({_node(item)}){times(least, most)}"
        case Rule():
            raise AssertionError(node)
        case _:
            assert_never(node)


@lru_cache(maxsize=1024)
def _in_brackets(terminal: Terminal) -> str:
    return f"({_node(terminal.node)})"


def escaped(text: str) -> str:
    """Write a fixed text; what stands in a row of such texts has to be `settled` when it is complete."""
    return text.translate(_IN_REGEX)


def settled(written: str) -> str:
    """Keep texts apart that would be read as one behind each other."""
    if DEFINES in written:
        written = written.replace(DEFINES, "::\\x3d")
    return _HEXADECIMAL.sub(r"\1[\2]", written) if "\\x" in written else written


def of_class(chars: Chars) -> str:
    """Write a class of characters."""
    if chars.ranges == (("^", "^"),) and not chars.negated:
        return "\\^"
    # Those with a hexadecimal number stand last, where no digit follows, and `^` behind them. Each stands
    # once, so that nothing in a class has to be `settled`.
    ranges = dict.fromkeys(_class_range(low, high) for low, high in chars.ranges)
    inner = "".join(sorted(ranges, key=_late))
    return f"[{'^' if chars.negated else ''}{inner}]"


def _class_range(low: str, high: str) -> str:
    start = _escape(low, _CLASS_SPECIAL)
    return start if low == high else f"{start}-{_escape(high, _CLASS_SPECIAL)}"


def _late(written: str) -> tuple[bool, bool]:
    return "\\x" in written, written.startswith("\\x5e")


def _escape(char: str, special: Mapping[str, str]) -> str:
    """Write a character in a regular expression. Beyond ASCII no escape is common to all."""
    if char in _BLANKS:
        return _BLANKS[char]
    if char in special:
        return special[char]
    return f"\\x{ord(char):02x}" if char < " " or char == "\x7f" else char


CONTROLS: Final = (*map(chr, range(0x20)), "\x7f")
_IN_REGEX = str.maketrans({char: _escape(char, _REGEX_SPECIAL) for char in (*CONTROLS, *_REGEX_SPECIAL)})


def times(least: int, most: int | None, many: str = "") -> str:
    """Write how often something is repeated; `many` is the sign for a number of times, "" for braces."""
    match least, most:
        case 0, 1:
            return "?"
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case _ if many:
            return f"{many}{least}..{most}" if least != most else f"{many}{least}"
        case _:
            return f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"

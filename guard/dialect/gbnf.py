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
from typing import assert_never

from guard.dialect.patterns import times
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
from guard.dialect.workings import EXPRESSION, WORKINGS

_HEXADECIMAL = re.compile(r"(\\x[0-9A-F]{2})([0-9A-Fa-f])")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"'}
_TABLE = str.maketrans(_ESCAPES)
_CLASS_ESCAPES = {**_ESCAPES, "[": "\\[", "]": "\\]", "-": "\\x2D", "^": "\\x5E"}


def gbnf(grammar: Grammar) -> str:
    """Write a grammar for llama.cpp; its start rule is `root`, and no other rule may have that name."""
    workings = WORKINGS.made(_all) if EXPRESSION.name in grammar.rules else _NOTHING
    settled = {name: rule for block in grammar.kept for name, rule in block.made(_settled).items()}
    writer = _Writer(dict(workings.named), dict(workings.repeated))
    bodies = {"root": writer.body(grammar.start)}
    for name, node in grammar.rules.items():
        if name not in workings.texts:
            bodies[name], inside = settled.get(name) or (writer.body(node), {})
            writer.named |= inside
    bodies |= writer.terminals(workings.texts)
    bodies |= {name: workings.texts[name] for name in grammar.rules if name in workings.texts}
    bodies |= {name: text for text, name in writer.repeated.items()}
    return "".join([f"{name} ::= {text}\n" for name, text in bodies.items()])


@dataclass(frozen=True, slots=True)
class _Written:
    """The texts of rules and of the terminals in them, the terminals, and the names of what is repeated."""

    texts: Mapping[str, str]
    named: Mapping[str, Terminal]
    repeated: Mapping[str, str]


_NOTHING = _Written({}, {}, {})


def _all(rules: Mapping[str, Node]) -> _Written:
    writer = _Writer({}, {})
    texts = {name: writer.body(node) for name, node in rules.items()}
    return _Written(texts | writer.terminals({}), writer.named, writer.repeated)


def _settled(rules: Mapping[str, Node]) -> dict[str, tuple[str, Mapping[str, Terminal]]]:
    """Write the rules whose text is the same in every grammar: nothing they repeat needs a name.

    Gives the terminals in each as well.
    """
    written: dict[str, tuple[str, Mapping[str, Terminal]]] = {}
    for name, node in rules.items():
        writer = _Writer({}, {})
        text = writer.body(node)
        if not writer.repeated:
            written[name] = text, writer.named
    return written


@dataclass(slots=True)
class _Writer:
    """Writes nodes; notes the terminals in them, inner ones first, and the texts of what needs a name."""

    named: dict[str, Terminal]
    repeated: dict[str, str]

    def terminals(self, known: Mapping[str, str]) -> dict[str, str]:
        """Give the texts of all terminals that were noted, some of which are known."""
        return {name: known.get(name) or self.body(one.node) for name, one in list(self.named.items())}

    def body(self, node: Node) -> str:
        """Write a node where it stands alone."""
        match node:
            case Choice(options=options):
                return " | ".join(map(self.body, options))
            case Sequence(parts=()):
                return '""'
            case Sequence(parts=parts):
                return " ".join(map(self._atom, parts))
            case _:
                return self._atom(node)

    def _atom(self, node: Node) -> str:
        match node:
            case Literal(text=text):
                written = _string(text)
                if "\\x" not in written:
                    return f'"{written}"'
                apart = _HEXADECIMAL.sub(r'\1" "\2', written)
                return f'"{written}"' if apart == written else f'("{apart}")'
            case Terminal(name=name):
                if self.named.get(name) is not node:
                    self.named |= {one.name: one for one in terminals(node)}
                return name
            case Rule(name=name):
                return name
            case Repeat(item=item, least=least, most=most):
                return self._repeated(item, most) + times(least, most)
            case Chars(ranges=ranges, negated=negated):
                return f"[{'^' if negated else ''}{_inside(ranges)}]"
            case Sequence() | Choice():
                return f"({self.body(node)})"
            case _:
                assert_never(node)

    def _repeated(self, item: Node, most: int | None) -> str:
        """Give what is repeated more than once a rule of its own, unless it has one or is one character.

        A repetition of a repetition is one of a rule, too: llguidance's reader loses the brackets between
        them.
        """
        if not isinstance(item, Repeat) and (most in (0, 1) or _is_one(item)):
            return self._atom(item)
        return self.repeated.setdefault(self.body(item), f"again{len(self.repeated) + 1}")


def _is_one(node: Node) -> bool:
    match node:
        case Literal(text=text):
            return len(text) == 1
        case _:
            return isinstance(node, Chars | Rule | Terminal)


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

r"""The lines of a grammar as a JSON schema, for backends that can only be held to one.

Each line is a member of one object, in order: its name is what the line begins with and what nobody may
change (`3 net = 4 * 61.20 = `), its value, a string, all that comes behind that up to the end of the
line. What a model writes so is read back as lines by `guard.wire.steps`. An object has one order: steps that
may come in any order are asked for in the one that they stand in.

Strict modes take a closed object whose members are all required, in one level, with `type`, `enum` and
`pattern` of strings; the limits are those of OpenAI's guide to structured outputs (supported schemas). What
can be listed is an `enum`, which all servers heed and read alike, anything else a `pattern`. To llguidance,
and so to OpenAI, that is one of the text; XGrammar and llama.cpp put it between the quotes as it is, so that
of a text that JSON escapes what it let through there would not be JSON. `Patterns` tells them apart. A value
for which there is no pattern is any string, and the checker's to judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import chain, product
from typing import Any, Final, assert_never

from guard.dialect.regex import regex
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
    sequence,
)

MAX_MEMBERS: Final = 1_000  # of all properties 5,000, but of all enum values 1,000, and a line may be one
MAX_VALUES: Final = 40  # that a member lists
MAX_CHARACTERS: Final = 120_000  # of all names and enum values together
MAX_PATTERN: Final = 2_000  # characters; a longer one is left to the checker

_FRAME: Final = frozenset({"begin", "end"})
_ESCAPED: Final = frozenset(map(chr, range(0x20))) | {'"', "\\", "\x7f"}


class Patterns(StrEnum):
    """What a server makes of a `pattern`."""

    NONE = "none"  # nothing, or an error: there is none
    PLAIN = "plain"  # it holds for the string as JSON spells it, or that is not known: none that it escapes
    TEXT = "text"  # it holds for the text, however that is spelled


def json_schema(grammar: Grammar, patterns: Patterns = Patterns.PLAIN) -> dict[str, Any] | None:
    """Give the schema of what may be written; None where a grammar is more than lines in one order.

    None as well where it is more than strict modes take. The lines of the frame are left out: they are the
    guard's to write.
    """
    names = _lines(grammar.start)
    if names is None or not 0 < len(names) <= MAX_MEMBERS:
        return None
    members: dict[str, Any] = {}
    values: dict[tuple[Node, ...], dict[str, Any]] = {}  # many lines go on alike
    most = min(MAX_VALUES, MAX_MEMBERS // len(names))
    for name in names:
        lead, behind = _cut(grammar.rules[name])
        if not lead or lead in members:
            return None
        if behind not in values:
            values[behind] = _value(behind, grammar.rules, patterns, most)
        members[lead] = values[behind]
    if _characters(members) > MAX_CHARACTERS:
        return None
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def values(grammar: Grammar) -> list[Node]:
    """Give what stands behind the names of the members that the schema of a grammar has, with its end."""
    return [sequence(*_cut(grammar.rules[name])[1]) for name in _lines(grammar.start) or ()]


def _characters(members: Mapping[str, Any]) -> int:
    return sum(len(lead) + sum(map(len, value.get("enum", ()))) for lead, value in members.items())


def _lines(start: Node) -> list[str] | None:
    parts = list(_in_order(start))
    names = [part.name for part in parts if isinstance(part, Rule)]
    if len(names) < len(parts) or "rest" in names:
        return None
    return [name for name in names if name not in _FRAME]


def _in_order(node: Node) -> Iterator[Node]:
    """Give the lines one after the other, those that may come in any order in the procedure's."""
    match node:
        case Sequence(parts=inner):
            for part in inner:
                yield from _in_order(part)
        case Repeat(item=Choice(options=members), least=least, most=most) if least == most == len(members):
            for member in members:
                yield from _in_order(member)
        case _:
            yield node


def _cut(line: Node) -> tuple[str, tuple[Node, ...]]:
    """Cut a line behind the text that it begins with; of a line that is one text, in front of its value."""
    match line:
        case Sequence(parts=parts) if parts and isinstance(parts[0], Literal):
            return parts[0].text, parts[1:]
        case Literal(text=text):
            at = text.rfind(" ", 0, len(text.rstrip("\n"))) + 1
            return text[:at], (Literal(text[at:]),)
        case _:
            return "", (line,)


def _value(behind: tuple[Node, ...], rules: dict[str, Node], patterns: Patterns, most: int) -> dict[str, Any]:
    """Give the schema of what stands behind a line's beginning, without its end."""
    match behind:
        case (Literal(text=text),):
            return {"type": "string", "enum": [text.removesuffix("\n")]}
        case (*before, Literal(text=last)):
            held = _held(sequence(*before, Literal(last.removesuffix("\n"))), rules, patterns, most)
        case _:
            held = _held(sequence(*behind), rules, patterns, most)
    return {"type": "string", **held}


def _held(node: Node, rules: dict[str, Node], patterns: Patterns, most: int) -> Mapping[str, Any]:
    """Say what a string must be, as far as a server can be told."""
    values = _listed(node, most)
    if values is not None:
        return {"enum": values}
    if patterns is Patterns.NONE or (patterns is Patterns.PLAIN and _escaped(node)):
        return {}
    pattern = regex(Grammar(node, rules), most=MAX_PATTERN)
    return {} if pattern is None else {"pattern": f"^({pattern})$"}


def _listed(node: Node, most: int) -> list[str] | None:
    """List all that a node may be; None where that is more than so many texts, or hangs on a rule."""
    match node:
        case Literal(text=text):
            return [text]
        case Terminal(node=inner):
            return _listed(inner, most)
        case Repeat(item=item, least=0, most=1):
            once = _listed(item, most)
            return None if once is None else _few(["", *once], most)
        case Choice(options=options):
            ways = _each(options, most)
            return None if ways is None else _few(chain.from_iterable(ways), most)
        case Sequence(parts=parts):
            texts = _each(parts, most)
            return None if texts is None else _few(map("".join, product(*texts)), most)
        case _:
            return None


def _each(nodes: Iterable[Node], most: int) -> list[list[str]] | None:
    found: list[list[str]] = []
    for node in nodes:
        texts = _listed(node, most)
        if texts is None:
            return None
        found.append(texts)
    return found


def _few(texts: Iterable[str], most: int) -> list[str] | None:
    listed: dict[str, None] = {}
    for text in texts:
        listed[text] = None
        if len(listed) > most:
            return None
    return list(listed)


def _escaped(node: Node) -> bool:
    """Whether a node may be something that JSON escapes in strings; of a rule that is assumed."""
    match node:
        case Literal(text=text):
            return any(char in _ESCAPED for char in text)
        case Chars(ranges=ranges, negated=False):
            return any(low <= char <= high for low, high in ranges for char in _ESCAPED)
        case Chars(ranges=ranges):
            return not all(any(low <= char <= high for low, high in ranges) for char in _ESCAPED)
        case Sequence(parts=inner) | Choice(options=inner):
            return any(map(_escaped, inner))
        case Repeat(item=item) | Terminal(node=item):
            return _escaped(item)
        case Rule():
            return True
        case _:
            assert_never(node)

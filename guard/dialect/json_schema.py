r"""The lines of a grammar as a JSON schema, for backends that can only be held to one.

Each line is a member of one object, in order: its name is what the line begins with and what nobody may
change (`3 net = 4 * 61.20 = `), its value, a string, all that comes behind that up to the end of the
line. What a model writes so is read back as lines by `guard.wire.steps`. An object has one order: steps that
may come in any order are asked for in the one that they stand in.

Strict modes take a closed object whose members are all required, in one level, with `type`, `enum` and
`pattern` of strings; the limits are those of OpenAI's guide to structured outputs (supported schemas). A
pattern says nothing that JSON escapes: XGrammar and llama.cpp put it between the quotes as it is, so what it
let through there would not be JSON. Such a value is any string, and the checker's to judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
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
MAX_CHARACTERS: Final = 120_000  # of all names and enum values together
MAX_PATTERN: Final = 2_000  # characters; a longer one is left to the checker

_FRAME: Final = frozenset({"begin", "end"})
_ESCAPED: Final = frozenset(map(chr, range(0x20))) | {'"', "\\", "\x7f"}


def json_schema(grammar: Grammar) -> dict[str, Any] | None:
    """Give the schema of what may be written; None where a grammar is more than lines in one order.

    None as well where it is more than strict modes take. The lines of the frame are left out: they are the
    guard's to write.
    """
    names = _lines(grammar.start)
    if names is None or not 0 < len(names) <= MAX_MEMBERS:
        return None
    members: dict[str, Any] = {}
    for name in names:
        lead, behind = _cut(grammar.rules[name])
        if not lead or lead in members:
            return None
        members[lead] = _value(behind)
    if _characters(members) > MAX_CHARACTERS:
        return None
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def beginnings(grammar: Grammar) -> list[str]:
    """Give the names of the members that the schema of a grammar has, in order."""
    return [_cut(grammar.rules[name])[0] for name in _lines(grammar.start) or ()]


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


def _value(behind: tuple[Node, ...]) -> dict[str, Any]:
    """Give the schema of what stands behind a line's beginning, without its end."""
    match behind:
        case (Literal(text=text),):
            return {"type": "string", "enum": [text.removesuffix("\n")]}
        case (Terminal() as value, Literal(text="\n")):
            pattern = _pattern(value)
        case (*before, Literal(text=last)):
            pattern = _pattern_of(*before, Literal(last.removesuffix("\n")))
        case _:
            pattern = _pattern_of(*behind)
    if pattern is None:
        return {"type": "string"}
    return {"type": "string", "pattern": f"^({pattern})$"}


@lru_cache(maxsize=1024)
def _pattern(value: Terminal) -> str | None:
    return _pattern_of(value)


def _pattern_of(*parts: Node) -> str | None:
    return None if any(map(_escaped, parts)) else regex(Grammar(sequence(*parts), {}), most=MAX_PATTERN)


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

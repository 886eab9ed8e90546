r"""The lines of a grammar as a JSON schema, for backends that can only be held to one.

Each line is a member of one object, in order: its name is what the line begins with and what nobody may
change (`3 net = 4 * 61.20 = `), its value, a string, all that comes behind that up to the end of the
line. What a model writes so is read back as lines by `guard.wire.steps`. An object has one order: steps that
may come in any order are asked for in the one that they stand in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from guard.dialect.regex import regex
from guard.dialect.tree import Choice, Grammar, Literal, Node, Repeat, Rule, Sequence, sequence

MAX_LINES: Final = 400
MAX_PATTERN: Final = 2_000  # characters; a longer one is left to the checker

_FRAME: Final = frozenset({"begin", "end"})


def json_schema(grammar: Grammar) -> dict[str, Any] | None:
    """Give the schema of what may be written; None where a grammar is more than lines in one order.

    Every object is closed and all of its members are required, as strict modes want it. The lines of the
    frame are left out: they are the guard's to write.
    """
    names = _lines(grammar.start)
    if names is None or not names or len(names) > MAX_LINES:
        return None
    members: dict[str, Any] = {}
    for name in names:
        lead, rest = _cut(grammar.rules[name])
        if not lead or lead in members:
            return None
        members[lead] = _value(rest, grammar.rules)
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def beginnings(grammar: Grammar) -> list[str]:
    """Give the names of the members that the schema of a grammar has, in order."""
    return [_cut(grammar.rules[name])[0] for name in _lines(grammar.start) or ()]


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


def _cut(line: Node) -> tuple[str, Node]:
    """Cut a line behind the text that it begins with; of a line that is one text, in front of its value."""
    match line:
        case Sequence(parts=(Literal(text=lead), *rest)):
            return lead, sequence(*rest)
        case Literal(text=text):
            at = text.rfind(" ", 0, len(text.rstrip("\n"))) + 1
            return text[:at], Literal(text[at:])
        case _:
            return "", line


def _value(rest: Node, rules: Mapping[str, Node]) -> dict[str, Any]:
    """Give the schema of what stands behind a line's beginning, without its end."""
    match rest:
        case Literal(text=text):
            return {"type": "string", "enum": [text.removesuffix("\n")]}
        case Sequence(parts=(*before, Literal(text=last))) if last.endswith("\n"):
            rest = sequence(*before, Literal(last.removesuffix("\n")))
    pattern = regex(Grammar(rest, dict(rules)), most=MAX_PATTERN)
    if pattern is None:
        return {"type": "string"}
    return {"type": "string", "pattern": f"^({pattern})$"}

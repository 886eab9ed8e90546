"""A reader of GBNF of our own: what llama.cpp does with a grammar, one character at a time.

It takes only what llama.cpp is known to take: names without `_`, no left recursion, `{n}`, `{n,}` and
`{n,m}`, the escapes of its parser.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

# "lit" text, "set" (negated, ranges), "ref" name, "alt" nodes, "seq" nodes, "rep" (node, least, most)
Node = tuple[str, Any]
Stack = tuple[Any, ...]  # () or (node, stack)

_TOKEN: Final = re.compile(
    r"""(?P<name>[a-z][a-zA-Z0-9-]*)(?P<define>[ ]::=[ ])?
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<set>\[(?:[^\]\\\n]|\\.)+\])
      | (?P<mark>[()|?*+])
      | (?P<times>\{(?P<least>[0-9]+)(?P<comma>,)?(?P<most>[0-9]+)?\})
      | (?P<end>\n) | [ ]""",
    re.VERBOSE,
)
_CHAR: Final = re.compile(r"\\(?:([nrt\\\"\[\]])|x([0-9A-F]{2})|u([0-9A-F]{4})|U([0-9A-F]{8}))|([^\\])")
_ONE: Final = r"\\x[0-9A-F]{2}|\\u[0-9A-F]{4}|\\U[0-9A-F]{8}|\\.|[^\\]"
_NAMED: Final = {"n": "\n", "r": "\r", "t": "\t"}
LIMIT: Final = 2_000  # llama.cpp: elements that a repetition may make


def _chars(text: str) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(text):
        match = _CHAR.match(text, at)
        assert match, f"llama.cpp knows no such escape: {text[at : at + 6]!r}"
        short, *codes, plain = match.groups()
        code = next(filter(None, codes), None)
        found.append(_NAMED.get(short, short) if short else chr(int(code, 16)) if code else plain)
        at = match.end()
    return found


def _set(text: str) -> Node:
    negated, inner = text.startswith("[^"), text[2:-1] if text.startswith("[^") else text[1:-1]
    # A range is written with a bare `-`; one that stands for itself is escaped.
    parts = re.findall(f"({_ONE})(?:-({_ONE}))?", inner, re.DOTALL)
    ranges = tuple((_chars(low)[0], _chars(high or low)[0]) for low, high in parts)
    return ("set", (negated, ranges))


@dataclass
class Gbnf:
    """A grammar that was read."""

    text: str
    rules: dict[str, Node] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._tokens: list[tuple[str, re.Match[str]]] = []
        at = 0
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            assert match, f"not GBNF: {self.text[at : at + 40]!r}"
            if match.lastgroup is not None and match[0] != " ":
                kind = next(name for name in ("name", "string", "set", "mark", "times", "end") if match[name])
                self._tokens.append((kind, match))
            at = match.end()
        while self._tokens:
            kind, match = self._tokens.pop(0)
            assert kind == "name", f"a rule begins with its name: {match[0]!r}"
            assert match["define"], f"a name is followed by ::= where a rule begins: {match[0]!r}"
            assert match["name"] not in self.rules, f"two rules {match['name']!r}"
            self.rules[match["name"]] = self._alternatives()
            assert self._tokens.pop(0)[0] == "end"
        for name in self.named:
            assert name in self.rules, f"no rule {name!r}"

    def _next(self) -> str:
        return self._tokens[0][1][0]

    def _alternatives(self) -> Node:
        options = [self._sequence()]
        while self._next() == "|":
            self._tokens.pop(0)
            options.append(self._sequence())
        return options[0] if len(options) == 1 else ("alt", tuple(options))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._tokens[0][0] != "end" and self._next() not in ("|", ")"):
            parts.append(self._item())
        assert parts, "an empty alternative"
        return ("seq", tuple(parts))

    def _item(self) -> Node:
        kind, match = self._tokens.pop(0)
        node: Node
        match kind, match[0]:
            case "name", name:
                node = ("ref", name)
                self.named.add(name)
            case "string", text:
                node = ("lit", "".join(_chars(text[1:-1])))
            case "set", text:
                node = _set(text)
            case _, "(":
                node = self._alternatives()
                assert self._tokens.pop(0)[1][0] == ")"
            case _, other:
                raise AssertionError(f"a postfix that stands behind nothing: {other!r}")
        return self._postfix(node)

    def _postfix(self, node: Node) -> Node:
        kind, match = self._tokens[0]
        if kind == "times":
            self._tokens.pop(0)
            least = int(match["least"])
            most = int(match["most"]) if match["most"] else None if match["comma"] else least
            assert (most or least) <= LIMIT, "llama.cpp takes no repetition over 2,000"
            return ("rep", (node, least, most))
        if kind == "mark" and match[0] in "?*+":
            self._tokens.pop(0)
            return ("rep", (node, int(match[0] == "+"), 1 if match[0] == "?" else None))
        return node

    # --- matching

    def matches(self, text: str) -> tuple[int, bool]:
        """How many characters can be written, and whether the grammar may end behind the last of them."""
        stacks = self._ready({(("ref", "root"), ())})
        for index, char in enumerate(text):
            stacks = self._ready({after for stack in stacks for after in _after(stack, char)})
            if not stacks:
                return index, False
        return len(text), () in stacks

    def _ready(self, stacks: set[Stack]) -> set[Stack]:
        """Expand until every stack is at its end or in front of a character."""
        done: set[Stack] = set()
        seen: set[Stack] = set()
        todo = list(stacks)
        while todo:
            stack = todo.pop()
            if stack in seen:
                continue
            seen.add(stack)
            if not stack:
                done.add(stack)
                continue
            (kind, what), rest = stack
            match kind:
                case "lit" if what == "":
                    todo.append(rest)
                case "lit" | "set":
                    done.add(stack)
                case "ref":
                    todo.append((self.rules[what], rest))
                case "alt":
                    todo += [(option, rest) for option in what]
                case "seq":
                    for part in reversed(what):
                        rest = (part, rest)
                    todo.append(rest)
                case _:
                    node, least, most = what
                    if least == 0:
                        todo.append(rest)
                    if most != 0:
                        again = ("rep", (node, max(0, least - 1), None if most is None else most - 1))
                        todo.append((node, (again, rest)))
        return done


def _after(stack: Stack, char: str) -> list[Stack]:
    if not stack:
        return []
    (kind, what), rest = stack
    if kind == "lit":
        return [(("lit", what[1:]), rest)] if what[0] == char else []
    negated, ranges = what
    return [rest] if any(low <= char <= high for low, high in ranges) is not negated else []

"""What a working may look like where its operands are left to the model: an expression, bounded.

Its rules are those of `trace.lark`, once a level of brackets, which keeps a weak model from opening brackets
without end; what is written by them can be read.
"""

from __future__ import annotations

import re
from typing import Final

from guard.dialect.holes import DATE, MOMENT, STRING
from guard.dialect.tree import (
    Chars,
    Grammar,
    Kept,
    Literal,
    Node,
    Repeat,
    Rule,
    Terminal,
    choice,
    optional,
    sequence,
)
from guard.procedure.dates import CALENDAR_UNITS, MODES, UNITS

DEPTH: Final = 5  # brackets in brackets
TERMS: Final = 60  # of one sum, product or comparison
ARGUMENTS: Final = 40
DIGITS: Final = 20  # of an operand
NAME_CHARS: Final = 60
CHARS: Final = 600
FREE_CHARS: Final = 1_900  # of a working that is no such expression; llama.cpp takes no repetition over 2,000

_DIGIT = Chars((("0", "9"),))
# With its sign, so that a lexer need not choose between a sign alone and the beginning of a number.
_NUMBER = sequence(
    optional(Literal("-")),
    choice(Literal("0"), sequence(Chars((("1", "9"),)), Repeat(_DIGIT, 0, DIGITS - 1))),
    optional(Literal("."), Repeat(_DIGIT, 1, DIGITS)),
    optional(Literal("%")),
)
_OPERAND = Terminal("operand", choice(MOMENT, DATE, _NUMBER))
# What may stand behind an amount that is added to a date. None is the beginning of another one.
_MODED = (f"{unit} {mode}" for unit in UNITS if unit in CALENDAR_UNITS for mode in MODES)
_EVEN = (unit for unit in UNITS if unit not in CALENDAR_UNITS)
_SHIFT = Terminal("shift", choice(*(Literal(f" {by}") for by in (*_EVEN, *_MODED))))


def _member(node: Node) -> Node:
    return sequence(node, Repeat(sequence(Literal("."), NAME), 0, 8))


_WORKING = re.compile(r"expression[0-9]+")


def is_working(name: str) -> bool:
    """Whether a rule of that name is a working at some level of brackets."""
    return _WORKING.fullmatch(name) is not None


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
_REST = Chars((("a", "z"), ("A", "Z"), ("_", "_"), ("0", "9")))
# Words that begin something else where a name may stand, and those that are no name of a function.
_WORDS = frozenset({"if", "not", "do"})
_NO_FUNCTIONS = _WORDS | {"true", "false", "null"}


def _name_but(words: frozenset[str], begun: str = "") -> Node:
    """Give the rest of a name that has begun so and is none of some words."""
    ways = sorted({word[len(begun)] for word in words if word.startswith(begun) and word != begun})
    others = [letter for letter in _LETTERS + "0123456789" * bool(begun) if letter not in ways]
    rest = Repeat(_REST, 0, NAME_CHARS - 1 - len(begun))
    on = choice(
        sequence(Chars(_ranges(others)), rest),
        *(sequence(Literal(way), _name_but(words, begun + way)) for way in ways),
    )
    return optional(on) if begun and begun not in words else on


def _ranges(letters: list[str]) -> tuple[tuple[str, str], ...]:
    """Put letters that follow each other together."""
    found: list[tuple[str, str]] = []
    for letter in sorted(letters):
        if found and ord(found[-1][1]) + 1 == ord(letter):
            found[-1] = found[-1][0], letter
        else:
            found.append((letter, letter))
    return tuple(found)


NAME = Terminal("name", _name_but(_WORDS))
MEMBER = Terminal("member", _member(NAME))
_FUNCTION = Terminal("function", _name_but(_NO_FUNCTIONS))


def _operators(name: str, *signs: str) -> Terminal:
    return Terminal(name, choice(*(Literal(f" {sign} ") for sign in signs)))


_TIMES = _operators("times", "*", "/", "div", "mod")
_PLUS = _operators("plus", "+", "-")
_IS = _operators("compare", "==", "!=", "<", "<=", ">", ">=", "in", "not in")
_NULL_TEST = Terminal("nulltest", choice(Literal(" is null"), Literal(" is not null")))
FREE: Final = Terminal("free", Repeat(Chars((("\x00", "\x1f"),), negated=True), 1, FREE_CHARS))
_OPENING: Final = ("(", "[", "{", " then ")
_TOO_MANY_DIGITS = re.compile(rf"[0-9]{{{DIGITS + 1}}}")


def _rules() -> dict[str, Node]:
    rules: dict[str, Node] = {"atom0": choice(_OPERAND, STRING, MEMBER)}
    for depth in range(DEPTH + 1):
        if depth:
            rules[f"atom{depth}"] = choice(Rule("atom0"), *_bracketed(depth - 1))
        atom, product, total = Rule(f"atom{depth}"), Rule(f"product{depth}"), Rule(f"sum{depth}")
        truth, both, either = Rule(f"truth{depth}"), Rule(f"both{depth}"), Rule(f"either{depth}")
        factor = sequence(optional(Literal("-")), atom)
        rules[product.name] = sequence(factor, _further(_TIMES, factor))
        rules[total.name] = sequence(product, _further(_PLUS, product, optional(_SHIFT)))
        compared = sequence(total, optional(choice(_NULL_TEST, sequence(_IS, total))))
        rules[truth.name] = sequence(optional(Literal("not ")), compared)
        rules[both.name] = sequence(truth, _further(Literal(" and "), truth))
        rules[either.name] = sequence(both, _further(Literal(" or "), both))
        alone = sequence(either, _further(Literal(" else "), either))
        rules[f"expression{depth}"] = choice(*_conditional(depth), alone)
    return rules


def _further(*parts: Node) -> Node:
    return Repeat(sequence(*parts), 0, TERMS - 1)


def _conditional(depth: int) -> list[Node]:
    if depth == 0:
        return []
    inner = Rule(f"expression{depth - 1}")
    return [sequence(Literal("if "), inner, Literal(" then "), inner, Literal(" else "), inner)]


def _bracketed(inner: int) -> list[Node]:
    expression = Rule(f"expression{inner}")
    each = sequence(
        Literal(" for "),
        NAME,
        Literal(" in "),
        Rule(f"either{inner}"),
        optional(Literal(" if "), expression),
    )
    ordered = sequence(each, optional(Literal(" by "), expression), optional(Literal(" desc")))
    further = Repeat(sequence(Literal(", "), expression), 0, ARGUMENTS)
    arguments = sequence(expression, choice(ordered, further))
    return [
        _member(sequence(Literal("("), expression, Literal(")"))),
        sequence(_FUNCTION, Literal("("), optional(arguments), Literal(")")),
        sequence(Literal("["), expression, each, Literal("]")),
        *_items(expression),
    ]


def _series(item: Node) -> Node:
    return sequence(item, Repeat(sequence(Literal(", "), item), 0, ARGUMENTS))


def _listings() -> dict[str, Node]:
    """Rules for lists and records that show how their parts came about: only a line's value does."""
    rules: dict[str, Node] = {"value0": choice(*map(Literal, ("true", "false", "null")), STRING, _OPERAND)}
    for depth in range(1, DEPTH + 1):
        expression, value = Rule(f"expression{depth - 1}"), Rule(f"value{depth - 1}")
        rules[f"value{depth}"] = choice(*_items(value), Rule("value0"))
        cells = [sequence(Repeat(sequence(expression, Literal(" = ")), 1, 2), value), expression]
        cells += [Rule(f"listing{depth - 1}")] if depth > 1 else []
        rules[f"listing{depth}"] = choice(*_items(choice(*cells)))
    return rules


def _items(item: Node) -> tuple[Node, Node]:
    """Give a list and a record of such items."""
    field = sequence(STRING, Literal(": "), item)
    return (
        sequence(Literal("["), optional(_series(item)), Literal("]")),
        sequence(Literal("{"), optional(_series(field)), Literal("}")),
    )


# What is put together of the same words and signs, in whichever order.
_SIGNS = (
    "*",
    "/",
    "+",
    "-",
    "==",
    "!=",
    "<",
    ">",
    "div",
    "mod",
    "in",
    "not",
    "is",
    "and",
    "or",
    "then",
    "else",
)
ROUGH: Final = Terminal(
    "rough",
    Repeat(
        choice(
            Chars((*_ranges([*_LETTERS]), ("0", "9"), *((sign, sign) for sign in ".%-:+()[]{}"))),
            sequence(
                Literal(" "),
                choice(*map(Literal, (*_SIGNS, "for", "if", "by", "desc", *UNITS, *MODES))),
                Repeat(Literal("="), 0, 1),
                Repeat(Literal(" "), 0, 1),
            ),
            *map(Literal, (", ", ": ", "if ", "not ", " null")),
            STRING,
        ),
        1,
        None,
    ),
)
_RULES: Final = _rules()
_LISTINGS: Final = _listings()
EXPRESSION: Final = Rule(f"expression{DEPTH}")
WORKINGS: Final = Kept(_RULES)  # a grammar has all of them or none


def all_kept(grammar: Grammar) -> tuple[Kept, ...]:
    """Give the rules of a grammar that many have, those of workings first."""
    return (WORKINGS, *grammar.kept) if EXPRESSION.name in grammar.rules else grammar.kept


def working(text: str | None, rules: dict[str, Node]) -> Node:
    """Give what may stand as a working; `text` is the right one where it is known.

    The rules it refers to are added to `rules`. A right one that is beyond the bounds makes it free text.
    """
    if text is not None and _beyond(text):
        return FREE
    if EXPRESSION.name not in rules:
        rules |= _RULES
    return EXPRESSION


def listing(rules: dict[str, Node]) -> Node:
    """Give what may stand as a list or record whose parts may have workings of their own."""
    rules |= _RULES | _LISTINGS
    return choice(Rule(f"listing{DEPTH}"), EXPRESSION)


def call(name: str, text: str | None, rules: dict[str, Node]) -> Node:
    """Give what may stand where a sub-procedure is carried out; as `working`, but of one shape."""
    if text is not None and _beyond(text):
        return FREE
    if EXPRESSION.name not in rules:
        rules |= _RULES
    return sequence(Literal(f"{name}("), optional(_series(EXPRESSION)), Literal(")"))


def _beyond(text: str) -> bool:
    # A record in an expression that stands as written has bare names.
    if len(text) > CHARS or "{ " in text or _TOO_MANY_DIGITS.search(text):
        return True
    # Few have more brackets than may stand in each other.
    return sum(map(text.count, _OPENING)) > DEPTH and _depth(text) > DEPTH


def _depth(text: str) -> int:
    depth = deepest = 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        deepest = max(deepest, depth)
    return deepest + text.count(" then ")

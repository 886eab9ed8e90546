"""Short questions that show whether a server does what a request asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from guard.dialect.notation import Dialect, written
from guard.dialect.thoughts import behind_thoughts
from guard.dialect.tree import Grammar, Literal

SHORT: Final = 24  # tokens of an answer that only shows whether something works

ODD: Final = "xylophone-42"
_BNF: Final = (f'root ::= "{ODD}"\n', 'root ::= ( "a" | \n')
_LARK: Final = (f'start: "{ODD}"\n', 'start: ( "a" |\n')
_LL: Final = "%llguidance {}\n"
_WORD: Final = f'{{"word": {{"type": "string", "enum": ["{ODD}"]}}}}'
_SCHEMA: Final = (
    f'{{"type": "object", "properties": {_WORD}, "required": ["word"], "additionalProperties": false}}',
    '{"type": "nonsense"}',
)
# A grammar that allows a word only that nobody would say, and one that is none.
GRAMMARS: Final[Mapping[Dialect, tuple[str, str]]] = {
    Dialect.LARK: _LARK,
    Dialect.LLGUIDANCE: (_LL + _LARK[0], _LL + _LARK[1]),
    Dialect.GBNF: _BNF,
    Dialect.XGRAMMAR: _BNF,
    Dialect.JSON_SCHEMA: _SCHEMA,
    Dialect.REGEX: (ODD, "(xylophone"),
}
# The same behind thoughts that have begun, in the notations that have room for them.
ROOMS: Final[Mapping[Dialect, str | None]] = {
    dialect: written(behind_thoughts(Grammar(Literal(ODD), {}), begun=True), dialect)
    for dialect in Dialect
    if dialect is not Dialect.JSON_SCHEMA
}
# What was said, and how it goes on.
CONTINUATIONS: Final = (
    ("Count from one to twelve in words.", "one two three four five six", "seven"),
    ("Name the days of the week in order.", "Monday, Tuesday, Wednesday,", "thursday"),
)


class Ability(StrEnum):
    """Whether a server does what a request asks for."""

    WORKS = "works"
    IGNORED = "ignored"  # answered as if it had not been asked for
    REFUSED = "refused"  # answered with an error
    UNTRIED = "not offered"  # by servers of this kind, so it was not asked for


@dataclass(frozen=True, slots=True)
class NoClient:
    """There is no client whose fields or key could be passed on."""

    extra: dict[str, object] = field(default_factory=dict)
    authorization: str | None = None


def goes_on(text: str, then: str) -> bool:
    """Whether an answer is how a continuation goes on."""
    return text.lower().lstrip(" ,.\n").startswith(then)

"""The word at which reading a line failed, and what is known around it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from lark import Token

from guard.procedure.faults import quoted
from guard.procedure.layout import CLOSERS, OPENERS
from guard.source import Source, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# What begins a declaration, and what people begin one with who think of another language.
DECLARATIONS: Final = {
    "import": "import",
    "version": "version",
    "numbers": "numbers",
    "now": "now",
    "record": "record",
    "enum": "enum",
    "table": "table",
    "tool": "tool",
    "always": "always",
    "procedure": "procedure",
    "example": "example",
    "unit": "unit",
    "scale": "scale",
    "const": "const",
    "constant": "const",
    "define": "const",
    "let": "const",
    "def": "procedure",
    "fn": "procedure",
    "func": "procedure",
    "function": "procedure",
    "proc": "procedure",
    "api": "tool",
    "never": "always",
    "rule": "always",
    "class": "record",
    "struct": "record",
    "type": "record",
    "include": "import",
    "use": "import",
    "using": "import",
}
STEPS: Final = frozenset(
    {
        "EXTRACT",
        "JUDGE",
        "IF",
        "ELIF",
        "ELSE",
        "FOR",
        "WHILE",
        "REQUIRE",
        "CHECK",
        "RETURN",
        "CALL",
        "CONFIRM",
        "SAY",
        "DENY",
        "ESCALATE",
        "TRY",
    }
)
RESERVED: Final = STEPS | {"DO", "IN", "THEN", "OR", "AND", "NOT", "DIV", "MOD", "TRUE", "FALSE", "NULL"}
_LINE_ENDS: Final = frozenset({"_NL", "_INDENT", "_DEDENT", "$END"})


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, where, and how to mend it."""

    span: Span
    message: str
    help: str = ""


@dataclass(frozen=True)
class Stumble:
    """A word that fits nowhere: the text's words, which one of them, and what would have fitted."""

    source: Source
    tokens: Sequence[Token]
    index: int
    accepts: frozenset[str]

    @cached_property
    def token(self) -> Token:
        """The word itself; behind the last one there is an empty one."""
        if self.index < len(self.tokens):
            return self.tokens[self.index]
        end = len(self.source.text)
        return Token("$END", "", end, end_pos=end)

    @cached_property
    def line(self) -> Sequence[Token]:
        """The words of its line before it."""
        start = self.index
        while start > 0 and self.tokens[start - 1].type not in _LINE_ENDS:
            start -= 1
        return self.tokens[start : self.index]

    @cached_property
    def rest(self) -> Sequence[Token]:
        """The words of its line behind it."""
        end = self.index + 1
        while end < len(self.tokens) and self.tokens[end].type not in _LINE_ENDS:
            end += 1
        return self.tokens[self.index + 1 : end]

    @property
    def kind(self) -> str:
        """The word's type."""
        return self.token.type

    @property
    def first(self) -> str:
        """The type of the line's first word."""
        return self.line[0].type if self.line else self.kind

    @property
    def before(self) -> str:
        """The type of the word before it in the line."""
        return self.line[-1].type if self.line else ""

    @property
    def after(self) -> str:
        """The type of the word behind it in the line."""
        return self.rest[0].type if self.rest else "_NL"

    @property
    def ends(self) -> bool:
        """Whether it is the end of the line that comes too early."""
        return self.kind in _LINE_ENDS

    @property
    def adjoins(self) -> bool:
        """Whether nothing stands between it and the word before."""
        return bool(self.line) and self.line[-1].end_pos == self.token.start_pos

    @property
    def wants_value(self) -> bool:
        """Whether an expression should begin here."""
        return {"NUMBER", "LSQB", "NAME"} <= self.accepts

    @property
    def starts_step(self) -> bool:
        """Whether it is the first word of a line where a step should begin."""
        return not self.line and "EXTRACT" in self.accepts

    @cached_property
    def span(self) -> Span:
        """The word's place; for the end of a line, the place right behind its last word."""
        if self.ends and self.line:
            end = self.line[-1].end_pos or 0
            return Span(end, end + 1)
        return place(self.token)

    @cached_property
    def open(self) -> Token | None:
        """The innermost bracket that is open here."""
        stack: list[Token] = []
        for token in self.line:
            if token.type in CLOSERS:
                stack.append(token)
            elif token.type in OPENERS and stack:
                stack.pop()
        return stack[-1] if stack else None

    @property
    def found(self) -> str:
        """The word, for a message."""
        return "the end of the line" if self.ends else quoted(self.token.value)

    def written(self, start: int = 0) -> str:
        """Give the line before this word as it is written, from one of its words on."""
        if len(self.line) <= start:
            return ""
        return self.source.text[self.line[start].start_pos or 0 : self.line[-1].end_pos or 0]


if TYPE_CHECKING:
    Rule = Callable[[Stumble], Finding | None]


def context(accepts: frozenset[str]) -> str:
    """Say which kind of line may begin where these words are taken."""
    if "$END" in accepts:
        return "file"
    if "EXTRACT" in accepts:
        return "statement"
    if "TRY" in accepts:
        return "alternative"
    if "COMPARE" in accepts and "PERCENT" in accepts:
        return "row"
    if "WHERE" in accepts and "NAME" not in accepts:
        return "clause"
    return "entry" if "DECIDE" in accepts else ""


def place(token: Token) -> Span:
    """Give the place of a word."""
    return Span(token.start_pos or 0, token.end_pos or 0)


def across(first: Token, last: Token) -> Span:
    """Give the place from one word to another."""
    return Span(first.start_pos or 0, last.end_pos or 0)

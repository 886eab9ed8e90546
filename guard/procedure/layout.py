"""Where blocks begin and end: Lark's Indenter, but for a text that may be badly laid out.

Lark's own raises at the first fault. This one goes on, and puts a token of a type that no rule takes
where something is wrong, so that bad layout is reported like every other fault, all at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lark import Token
from lark.indenter import Indenter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CLOSERS: Final = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
OPENERS: Final = {closer: opener for opener, closer in CLOSERS.items()}

UNEVEN: Final = "UNEVEN"  # a line that is indented like no block around it
TABS: Final = "TABS"  # the first line that is indented by tabs where others are by spaces, or both
UNCLOSED: Final = "UNCLOSED"  # a bracket that the next statement runs into; the token is that bracket
UNOPENED: Final = "UNOPENED"  # a closing bracket with none to close


class Layout(Indenter):
    """Stateless between texts: `process` starts afresh each time, so one may serve many threads."""

    NL_type = "_NL"
    OPEN_PAREN_types = list(CLOSERS)  # noqa: RUF012 (Lark's declaration)
    CLOSE_PAREN_types = list(CLOSERS.values())  # noqa: RUF012
    INDENT_type = "_INDENT"
    DEDENT_type = "_DEDENT"
    tab_len = 8
    always_accept = ("_NL", "UNREADABLE")

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """Add `_INDENT` and `_DEDENT` where blocks begin and end."""
        return _Blocks().arrange(stream)


class _Blocks:
    def __init__(self) -> None:
        self.levels = [0]
        self.blanks: set[str] = set()
        self.open: list[tuple[Token, int]] = []  # brackets, with the indentation of their line

    def arrange(self, stream: Iterable[Token]) -> Iterator[Token]:
        indent = 0
        broken: Token | None = None  # a line break inside brackets, kept until the next token shows
        last: Token | None = None
        for token in stream:
            if token.type == "_NL":
                if self.open:
                    broken = token
                else:
                    yield from self._line(token)
                indent = _width(token)
                last = token
                continue
            if broken is not None:
                yield from self._within(broken, token)
                broken = None
            yield from self._bracket(token, indent)
            last = token
        if last is not None:
            yield from self._finish(last)

    def _within(self, broken: Token, token: Token) -> Iterator[Token]:
        """Brackets reach no further than to the next line that is indented no deeper than theirs."""
        width = _width(broken)
        bracket, outer = self.open[0]
        closes = token.type in CLOSERS.values()
        if width > outer or (closes and width == outer):
            return
        bracket = self.open[-1][0]
        self.open.clear()
        yield Token.new_borrow_pos(UNCLOSED, bracket.value, bracket)
        yield from self._line(broken)

    def _bracket(self, token: Token, indent: int) -> Iterator[Token]:
        if token.type in CLOSERS:
            self.open.append((token, indent))
        elif token.type in CLOSERS.values():
            if not self.open:
                yield Token.new_borrow_pos(UNOPENED, token.value, token)
                return
            if CLOSERS[self.open[-1][0].type] == token.type:
                self.open.pop()
        yield token

    def _line(self, token: Token) -> Iterator[Token]:
        yield token
        width, where = _width(token), _indentation(token)
        if self._mixes(where):
            yield Token.new_borrow_pos(TABS, where.value, where)
        if width > self.levels[-1]:
            self.levels.append(width)
            yield Token.new_borrow_pos("_INDENT", where.value, where)
            return
        while width < self.levels[-1]:
            if width > self.levels[-2]:
                # The line stays in the block that it is closest to the inside of.
                yield Token.new_borrow_pos(UNEVEN, where.value, where)
                return
            self.levels.pop()
            yield Token.new_borrow_pos("_DEDENT", "", where)

    def _mixes(self, where: Token) -> bool:
        """Whether the text is indented by tabs and by spaces, said once."""
        before = len(self.blanks)
        self.blanks.update(where.value)
        return before < 2 <= len(self.blanks)

    def _finish(self, last: Token) -> Iterator[Token]:
        if self.open:
            bracket = self.open[-1][0]
            self.open.clear()
            yield Token.new_borrow_pos(UNCLOSED, bracket.value, bracket)
            yield Token.new_borrow_pos("_NL", "\n", last)
        for _ in self.levels[1:]:
            yield Token.new_borrow_pos("_DEDENT", "", last)


def _indentation(newline: Token) -> Token:
    """Give the blanks at the start of the line that a line break leads to, as a token."""
    text = newline.value.rpartition("\n")[2]
    end = newline.end_pos or 0
    return Token("_BLANK", text, start_pos=end - len(text), end_pos=end)


def _width(newline: Token) -> int:
    text: str = newline.value.rpartition("\n")[2]
    return len(text.expandtabs(Layout.tab_len))

"""How far tokens fit the grammar: what did not change since it was asked before is not gone through again."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lark.exceptions import UnexpectedToken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lark import Lark, Token
    from lark.parsers.lalr_interactive_parser import InteractiveParser


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether all tokens fit; `index`: of the first that does not; `accepts`: what would have fitted."""

    whole: bool
    index: int
    accepts: frozenset[str]


class Fitting:
    """Holds tokens against a grammar without making a tree of them.

    The parser is kept as it was after each line, so a text in which one line after the other is mended is
    gone through about once.
    """

    def __init__(self, grammar: Lark) -> None:
        parser = grammar.parse_interactive("")
        state = parser.parser_state
        state.parse_conf = copy(state.parse_conf)
        state.parse_conf.callbacks = {}  # which make the tree
        self._fed: Sequence[Token] = ()
        self._kept: list[tuple[int, InteractiveParser]] = [(0, parser)]

    def fit(self, tokens: Sequence[Token], *, ended: bool = True) -> Fit:
        """Say how far tokens fit; `ended`: nothing follows them."""
        index, parser = self._before_change(tokens)
        whole = True
        try:
            for token in tokens[index:]:
                parser.feed_token(token)
                index += 1
                if token.type == "_NL":
                    self._kept.append((index, _copied(parser)))
            if ended:
                parser.feed_eof(tokens[-1] if tokens else None)  # type: ignore[no-untyped-call]
        except UnexpectedToken:
            whole = False
        self._fed = tokens[:index]
        accepts: set[str] = set() if whole and ended else parser.accepts()  # type: ignore[no-untyped-call]
        return Fit(whole, index, frozenset(accepts))

    def _before_change(self, tokens: Sequence[Token]) -> tuple[int, InteractiveParser]:
        """Give the end of the last line up to which the tokens are those of before, and the parser there."""
        pairs = enumerate(zip(self._fed, tokens, strict=False))
        shorter = min(len(self._fed), len(tokens))
        same = next((place for place, (one, other) in pairs if one is not other), shorter)
        while self._kept[-1][0] > same:
            self._kept.pop()
        index, parser = self._kept[-1]
        return index, _copied(parser)


def _copied(parser: InteractiveParser) -> InteractiveParser:
    return parser.copy(deepcopy_values=False)  # type: ignore[no-untyped-call, no-any-return]

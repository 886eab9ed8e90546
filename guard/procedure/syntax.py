"""A procedure's text as a syntax tree, and everything in it that breaks the syntax.

A line that breaks it is reported and replaced by one that cannot be wrong, then the text is read again: so
all faults come at once, each in its own line, and what depends on a faulty line is not blamed for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedToken

from guard.procedure.diagnose import explain
from guard.procedure.faults import MENDED, nearest
from guard.procedure.fitting import Fitting
from guard.procedure.layout import CLOSERS, OPENERS, TABS, UNCLOSED, UNEVEN, UNOPENED, Layout
from guard.procedure.slips import meant
from guard.procedure.stumble import DECLARATIONS, RESERVED, Stumble, context, place
from guard.source import Source, Span

if TYPE_CHECKING:
    from guard.errors import Problem

MAX_SIZE: Final = 1_000_000  # characters
MAX_LINES: Final = 20_000
MAX_WORDS: Final = 50_000
MAX_DEPTH: Final = 50  # blocks and brackets one within the other
MAX_PROBLEMS: Final = 20

_LAYOUT: Final = frozenset({"_NL", "_INDENT", "_DEDENT", UNEVEN, TABS})

# What a faulty line is replaced by, as (type, text) pairs.
_Line = Sequence[tuple[str, str]]
_CHECK: Final[_Line] = (("CHECK", "check"), ("TRUE", "true"))
_IF: Final[_Line] = (("IF", "if"), ("TRUE", "true"))
_ELIF: Final[_Line] = (("ELIF", "elif"), ("TRUE", "true"))
_ELSE: Final[_Line] = (("ELSE", "else"),)
_ROW: Final[_Line] = (("NAME", MENDED), ("__ANON_1", "=>"), ("TRUE", "true"))
_ENTRY: Final[_Line] = (("NAME", MENDED), ("EQUAL", "="), ("TRUE", "true"))
_CLAUSE: Final[_Line] = (("WHERE", "where"), ("NAME", MENDED))
_EXTRACT: Final[_Line] = (
    ("EXTRACT", "extract"),
    ("NAME", MENDED),
    ("COLON", ":"),
    ("NAME", "int"),
    ("FROM", "from"),
    ("NAME", MENDED),
)
_SIGNATURE: Final[_Line] = (
    ("NAME", MENDED),
    ("LPAR", "("),
    ("NAME", MENDED),
    ("COLON", ":"),
    ("NAME", "int"),
    ("RPAR", ")"),
    ("__ANON_0", "->"),
    ("NAME", "int"),
)
_TRY: Final[_Line] = (("TRY", "try"), ("STRING", '"..."'))
_HEADERS: Final[dict[str, _Line]] = {
    "procedure": (("PROCEDURE", "procedure"), *_SIGNATURE),
    "table": (
        ("TABLE", "table"),
        *_SIGNATURE,
        ("COMMA", ","),
        ("NAME", "first"),
        ("NAME", "match"),
    ),
    "example": (("EXAMPLE", "example"), ("NAME", MENDED)),
}
_LINES: Final[dict[str, _Line]] = {
    "statement": _CHECK,
    "alternative": _TRY,
    "row": _ROW,
    "entry": _ENTRY,
    "clause": _CLAUSE,
}
_BLOCKS: Final[dict[str, _Line]] = {
    "ELIF": _ELIF,
    "ELSE": _ELSE,
    "EXTRACT": _EXTRACT,
    "JUDGE": _EXTRACT,
    "ANY": (("ANY", "any"), ("ORDER", "order")),
    "ONE": (("ONE", "one"), ("OF", "of")),
}


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read: `tree` is None where nothing could be.

    `mended` are the lines that were replaced in it because of a problem, and `doubtful` the names in
    them: what these lines would have said of those names is not known.
    """

    tree: Tree[Token] | None
    problems: list[Problem]
    mended: list[Span]
    doubtful: frozenset[str]


@cache
def grammar() -> Lark:
    """Compile the grammar of procedures, once."""
    # Lark's strict mode takes it too, which needs another distribution and is for a test to see to.
    return Lark(
        _text(),
        parser="lalr",
        lexer="basic",
        postlex=Layout(),
        propagate_positions=True,
        maybe_placeholders=True,
    )


@cache
def _lexer() -> Lark:
    """Compile the words of the grammar, once: a Lark with a parser would compile them anew for each text."""
    return Lark(_text(), parser=None, lexer="basic", postlex=Layout())


def words(text: str) -> Iterator[Token]:
    """Give the words and signs of a text, its line breaks and indentation; what is none, as `UNREADABLE`."""
    return _lexer().lex(text)


def _text() -> str:
    return files("guard.grammars").joinpath("procedure.lark").read_text(encoding="utf-8")


def read(source: Source) -> Reading:
    """Read a text, mending it wherever it breaks the syntax."""
    if len(source.text) > MAX_SIZE:
        problem = source.problem(
            Span(0, 0),
            f"a file has at most {MAX_SIZE:,} characters, this one has {len(source.text):,}",
            help="split it into several files",
        )
        return Reading(None, [problem], [], frozenset())
    lines = source.text.count("\n")
    if lines > MAX_LINES:
        limit = f"a file has at most {MAX_LINES:,} lines, this one has {lines:,}"
        return Reading(
            None, [source.problem(Span(0, 0), limit, help="split it into several files")], [], frozenset()
        )
    tokens, excess = _words(source.text + "\n")
    if excess is not None:
        return Reading(None, [source.problem(*excess[:2], help=excess[2])], [], frozenset())
    return _Reader(source, tokens).read()


def _words(text: str) -> tuple[list[Token], tuple[Span, str, str] | None]:
    """Give the tokens of a text, and what exceeds a limit: its place, the limit, what to do."""
    tokens: list[Token] = []
    depth = 0
    for token in words(text):
        tokens.append(token)
        if token.type in CLOSERS or token.type == "_INDENT":
            depth += 1
        elif token.type in OPENERS or token.type == "_DEDENT":
            depth -= 1
        if depth > MAX_DEPTH:
            limit = f"blocks and brackets stand at most {MAX_DEPTH} one within the other"
            return tokens, (place(token), limit, "give inner parts steps of their own")
        if len(tokens) > MAX_WORDS:
            limit = f"a file has at most {MAX_WORDS:,} words and signs"
            return tokens, (place(token), limit, "split it into several files")
    return tokens, None


class _Reader:
    def __init__(self, source: Source, tokens: list[Token]) -> None:
        self.source, self.tokens = source, tokens
        self.fitting = Fitting(grammar())
        self.problems: list[Problem] = []
        self.mended: list[Span] = []
        self.doubtful: set[str] = set()

    def read(self) -> Reading:
        tree = _tree(self.tokens)
        if tree is None and self._all_mended():
            tree = _tree(self.tokens)
        return Reading(tree, self.problems, self.mended, frozenset(self.doubtful))

    def _all_mended(self) -> bool:
        """Report and mend one fault after the other; whether none is left."""
        last = -1
        for _ in range(4 * MAX_PROBLEMS):
            if len(self.problems) == MAX_PROBLEMS:
                return False
            fit = self.fitting.fit(self.tokens)
            if fit.whole:
                return True
            stumble = Stumble(self.source, self.tokens, fit.index, fit.accepts)
            if fit.index > last:  # what mending made worse is not the author's fault
                self._report(stumble)
            last = max(last, self._mend(stumble))
        return False

    def _report(self, stumble: Stumble) -> None:
        found = explain(stumble)
        self.problems.append(self.source.problem(found.span, found.message, help=found.help))

    # --- mending ----------------------------------------------------------------------------------

    def _mend(self, stumble: Stumble) -> int:
        """Change the tokens so that this fault is gone; up to which token nothing more is reported."""
        index, token = stumble.index, stumble.token
        match token.type:
            case kind if kind in (UNEVEN, TABS, UNOPENED):
                del self.tokens[index]
                return index - 1
            case "_INDENT":
                self._outdent(index)
                return index - 1
            case kind if kind == UNCLOSED and self._closes(index):
                return index - 1
        if stumble.accepts == {"_INDENT"}:
            return self._fill(index)
        slip = meant(stumble)
        if slip is not None:
            start, end, tokens = slip
            self.tokens[start:end] = tokens
            return start + len(tokens) - 1
        return self._replace(stumble)

    def _closes(self, index: int) -> bool:
        """Put the brackets that are missing where the text goes on without them, if that helps."""
        start, bracket = self._start(index), self.tokens[index]
        missing: list[str] = []
        for token in self.tokens[start:index]:
            if token.type in CLOSERS:
                missing.append(CLOSERS[token.type])
            elif token.type in OPENERS and missing:
                missing.pop()
        closers = [_token(closer, "", bracket) for closer in reversed(missing)]
        tokens = [*self.tokens[:index], *closers, *self.tokens[index + 1 :]]
        if self.fitting.fit(tokens).index < index + len(closers):
            return False
        self._doubt(self.tokens[start:index])
        self.tokens = tokens
        return True

    def _outdent(self, index: int) -> None:
        """Let a block that belongs to nothing be part of the one around it."""
        depth = 0
        for end in range(index, len(self.tokens)):
            depth += {"_INDENT": 1, "_DEDENT": -1}.get(self.tokens[end].type, 0)
            if depth == 0:
                del self.tokens[end], self.tokens[index]
                return

    def _fill(self, index: int) -> int:
        """Give a header the block that it lacks."""
        start = self._start(index - 1)
        kind = str(self.tokens[start])
        line = {"table": _ROW, "example": _ENTRY}.get(kind, _CHECK)
        at = self.tokens[index - 1]
        made = _alternative(at) if kind == "one" else [*_made(line, at), _token("_NL", "\n", at)]
        made = [_token("_INDENT", "", at), *made, _token("_DEDENT", "", at)]
        self._doubt(self.tokens[start:index])
        self.tokens[index:index] = made
        return index + len(made) - 1

    def _replace(self, stumble: Stumble) -> int:
        """Put a line in the place of a faulty one; without one that fits, it goes with all its block."""
        start = self._start(stumble.index)
        if stumble.ends and start == stumble.index:
            return self._insert(stumble)
        end = next((i for i in range(stumble.index, len(self.tokens)) if self.tokens[i].type == "_NL"), None)
        if end is None:
            end = len(self.tokens) - 1
        self._doubt(self.tokens[start : end + 1])
        block = end + 1 < len(self.tokens) and self.tokens[end + 1].type == "_INDENT"
        line = self._stand_in(start, block=block)
        if line is None:
            end = self._block_end(end + 1) if block else end
            self._doubt(self.tokens[start : end + 1])
            del self.tokens[start : end + 1]
            return start - 1
        if line is _TRY and not block:
            self.tokens[start : end + 1] = made = _alternative(self.tokens[start])
            return start + len(made) - 1
        self.tokens[start:end] = _made(line, self.tokens[start])
        return start + len(line)

    def _insert(self, stumble: Stumble) -> int:
        """Put a line where a block came out empty."""
        where = context(stumble.accepts)
        line = _LINES.get(where)
        at = self.tokens[stumble.index - 1]
        made = [] if line is None else [*_made(line, at), _token("_NL", "\n", at)]
        made = _alternative(at) if line is _TRY else made
        self.tokens[stumble.index : stumble.index] = made
        return stumble.index + len(made)

    def _stand_in(self, start: int, *, block: bool) -> _Line | None:
        where = context(self.fitting.fit(self.tokens[:start], ended=False).accepts)
        if not block:
            return _LINES.get(where)
        if where in ("row", "entry", "clause"):
            return _LINES[where]  # the block below is a fault of its own
        if where == "alternative":
            return _TRY
        if where == "statement":
            return _BLOCKS.get(self.tokens[start].type, _IF)
        if where == "file":
            word = str(self.tokens[start])
            return _HEADERS.get(DECLARATIONS.get(word) or nearest(word, _HEADERS) or "")
        return None

    def _start(self, index: int) -> int:
        """Find the first token of the logical line that a token is in."""
        while index > 0 and self.tokens[index - 1].type not in _LAYOUT:
            index -= 1
        return index

    def _block_end(self, index: int) -> int:
        depth = 0
        for end in range(index, len(self.tokens)):
            depth += {"_INDENT": 1, "_DEDENT": -1}.get(self.tokens[end].type, 0)
            if depth == 0:
                return end
        return len(self.tokens) - 1

    def _doubt(self, tokens: Sequence[Token]) -> None:
        written = [token for token in tokens if token.type not in _LAYOUT]
        if written:
            self.mended.append(Span(written[0].start_pos or 0, written[-1].end_pos or 0))
        self.doubtful.update(
            [MENDED],
            (str(token) for token in written if token.value.isidentifier() and token.type not in RESERVED),
        )


def _tree(tokens: Sequence[Token]) -> Tree[Token] | None:
    """Give the tree of tokens, None where they break the syntax."""
    parser = grammar().parse_interactive("")
    try:
        for token in tokens:
            parser.feed_token(token)
        tree = parser.feed_eof(tokens[-1] if tokens else None)  # type: ignore[no-untyped-call]
    except UnexpectedToken:
        return None
    assert isinstance(tree, Tree)
    return tree


def _token(type_: str, value: str, at: Token) -> Token:
    return Token.new_borrow_pos(type_, value, at)


def _made(line: _Line, at: Token) -> list[Token]:
    return list(_making(line, at))


def _alternative(at: Token) -> list[Token]:
    block = [
        _token("_INDENT", "", at),
        *_made(_CHECK, at),
        _token("_NL", "\n", at),
        _token("_DEDENT", "", at),
    ]
    return [*_made(_TRY, at), _token("_NL", "\n", at), *block]


def _making(line: _Line, at: Token) -> Iterator[Token]:
    for type_, value in line:
        yield Token(type_, value, at.start_pos, at.line, at.column, at.line, at.column, at.start_pos)

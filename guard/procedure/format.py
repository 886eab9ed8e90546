"""The canonical layout of a procedure's text: the same words in the same order, laid out anew.

Only white space changes. Blocks are indented by two blanks, words stand one blank apart, the `=>` of a
table stand below each other, and a line that is too long is broken inside its brackets. Comments stay
where they are: behind their word, or above their line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from lark import Token, Tree

from guard.errors import ProcedureError
from guard.procedure.layout import CLOSERS, OPENERS, Layout
from guard.procedure.syntax import read, words
from guard.source import Source

WIDTH: Final = 100  # columns that a line of several bracketed parts is kept within
INDENT: Final = "  "

_BREAKS: Final = 8  # brackets side by side that one line is broken at for its length
_ROW: Final = "=>"
_GLUED: Final = frozenset({".", ".."})
_TIGHT_BEFORE: Final = frozenset({")", "]", ",", ":", "?"})
_TIGHT_BEHIND: Final = frozenset({"(", "["})
_SIGNED: Final = frozenset({"negate", "minus_number", "minus_percent", "places_left"})
_CALLED: Final = frozenset({"call", "aggregate"})


@dataclass(slots=True)
class _Word:
    """A word or sign, with the comments above its line and the one behind it."""

    text: str
    kind: str
    signs: bool = False  # a minus that belongs to what follows
    glued: bool = False  # stands close to its neighbours
    called: bool = False  # a name in front of the brackets of its arguments
    above: list[str] = field(default_factory=list)
    behind: str = ""


@dataclass(slots=True)
class _Line:
    """A logical line. `above` has the comments above it, each with its level; None is a blank line."""

    level: int
    words: list[_Word]
    above: list[tuple[int, str] | None]


def formatted(text: str, name: str = "<string>") -> str:
    """Lay a text out. `name` is what messages call it.

    Raises `ProcedureError` with all that breaks the syntax; what else may be wrong is for `load` to say.
    """
    source = Source(name, text)
    reading = read(source)
    if reading.problems or reading.tree is None:
        raise ProcedureError(reading.problems)
    lines, rest = _Reader(text, reading.tree).read()
    written = [*_written(lines), *_own(_squeezed(rest, top=not lines, end=True))]
    return "".join(f"{line}\n" for line in written)


# --- reading --------------------------------------------------------------------------------------


class _Reader:
    """Cuts a text into logical lines, with the comments that stand between its words."""

    def __init__(self, text: str, tree: Tree[Token]) -> None:
        self._text = text
        self._signs = _starts(tree, _SIGNED)
        self._calls = _starts(tree, _CALLED)
        self._below = frozenset(
            name.start_pos
            for node in tree.iter_subtrees()
            if node.data == "measure"
            for name in node.children[1:]
            if isinstance(name, Token)
        )
        self._widths = [0]  # of the blocks that are open, as they are indented in the text
        self._level = 0
        self._lines: list[_Line] = []
        self._last = 0  # where the last word ends

    def read(self) -> tuple[list[_Line], list[tuple[int, str] | None]]:
        """Give the lines, and what stands below the last one."""
        starts, deeper = True, 0
        for token in words(f"{self._text}\n"):
            match token.type:
                case "_NL":
                    starts = True
                case "_INDENT":
                    deeper += 1
                case "_DEDENT":
                    deeper -= 1
                case _ if starts:
                    self._start(token, deeper)
                    starts, deeper = False, 0
                case _:
                    self._go_on(token)
        return self._lines, self._between(self._text[self._last :] + "\n", 0)

    def _start(self, token: Token, deeper: int) -> None:
        start = token.start_pos or 0
        above = self._between(self._text[self._last : start], self._level + deeper)
        self._level += deeper
        del self._widths[self._level :]
        self._widths.append(_width(self._text[self._text.rfind("\n", 0, start) + 1 : start]))
        self._lines.append(_Line(self._level, [self._word(token)], above))

    def _go_on(self, token: Token) -> None:
        words = self._lines[-1].words
        first, *others = self._text[self._last : token.start_pos].split("\n")
        words[-1].behind = _comment(first)
        if token.start_pos in self._below:
            words[-1].glued = True  # the stroke of EUR/kg
        words.append(self._word(token))
        words[-1].above = [comment for line in others if (comment := _comment(line))]
        self._glue(*words[-2:])

    def _glue(self, left: _Word, right: _Word) -> None:
        """Keep the signs of a range together: `1..9`, `0<..<10`."""
        for word, sign in ((left, right), (right, left)):
            word.glued |= word.text in _GLUED or (word.kind == "COMPARE" and sign.text == "..")

    def _word(self, token: Token) -> _Word:
        self._last = token.end_pos or 0
        return _Word(
            str(token),
            token.type,
            signs=token.start_pos in self._signs,
            called=token.start_pos in self._calls,
        )

    def _between(self, gap: str, level: int) -> list[tuple[int, str] | None]:
        """Read what stands between two lines, the second one at a level."""
        first, *others = gap.split("\n")
        if not self._lines:
            others.insert(0, first)
        else:
            self._lines[-1].words[-1].behind = _comment(first)
        found: list[tuple[int, str] | None] = []
        for line in others[:-1]:
            comment = _comment(line)
            found.append((self._level_of(line, level), comment) if comment else None)
        return found

    def _level_of(self, line: str, level: int) -> int:
        """Find the block that a comment is in: the one that is indented like it, of those that may be."""
        width = _width(line[: line.index("#")])
        inside = (at for at in range(self._level, level, -1) if self._widths[at] <= width)
        return next(inside, level)


def _starts(tree: Tree[Token], kinds: frozenset[str]) -> frozenset[int]:
    return frozenset(node.meta.start_pos for node in tree.iter_subtrees() if node.data in kinds)


def _comment(line: str) -> str:
    _, sign, comment = line.partition("#")
    return f"{sign}{comment}".rstrip()


def _width(blanks: str) -> int:
    return len(blanks.lstrip("\ufeff").expandtabs(Layout.tab_len))


# --- lines ----------------------------------------------------------------------------------------


def _written(lines: Sequence[_Line]) -> Iterator[str]:
    columns = _columns(lines)
    before: _Line | None = None
    for index, line in enumerate(lines):
        opens = index + 1 < len(lines) and lines[index + 1].level > line.level
        apart = line.level == 0 and before is not None and (opens or before.level > 0)
        entered = before is None or line.level > before.level
        yield from _own(_squeezed(line.above, top=entered, apart=apart))
        yield from _laid_out(line.words, line.level, columns.get(index, 0))
        before = line


def _squeezed(
    above: Sequence[tuple[int, str] | None], *, top: bool, apart: bool = False, end: bool = False
) -> list[tuple[int, str] | None]:
    """Keep one blank line of several, none at the start of a block or the end, and one between blocks."""
    found: list[tuple[int, str] | None] = []
    for item in above:
        if item is not None or ((found or not top) and found[-1:] != [None]):
            found.append(item)
    if end and found[-1:] == [None]:
        found.pop()
    if apart and None not in found:
        inside = [index for index, item in enumerate(found) if item is not None and item[0] > 0]
        found.insert(inside[-1] + 1 if inside else 0, None)
    return found


def _own(above: Iterable[tuple[int, str] | None]) -> Iterator[str]:
    for item in above:
        yield "" if item is None else f"{INDENT * item[0]}{item[1]}"


def _columns(lines: Sequence[_Line]) -> dict[int, int]:
    """Find where the `=>` of each row stands: all rows of a table have it at one column."""
    found: dict[int, int] = {}
    table: dict[int, int] = {}
    for index, line in enumerate(lines):
        if not table or line.level != lines[index - 1].level:
            table = {}
        row = next((at for at, word in enumerate(line.words) if word.text == _ROW), 0)
        if row and _fits(line.words, line.level):
            table[index] = len(_joined(line.words[:row]))
            found |= dict.fromkeys(table, max(table.values()))
    return found


# --- words ----------------------------------------------------------------------------------------


def _laid_out(words: Sequence[_Word], level: int, column: int = 0) -> list[str]:
    """Write words as lines of a level; more than one where brackets are broken."""
    if _fits(words, level):
        return [INDENT * level + _joined(words, column) + _behind(words[-1])]
    lines: list[str] = []
    start = 0
    for opening, closing in _broken(words, level):
        lines += _plain(words[start : opening + 1], level, closes=start > 0)
        for item in _items(words[opening + 1 : closing]):
            lines += _laid_out(item, level + 1)
        start = closing
    return [*lines, *_plain(words[start:], level, closes=start > 0)]


def _fits(words: Sequence[_Word], level: int) -> bool:
    inner = any(word.above for word in words) or any(word.behind for word in words[:-1])
    return not inner and len(INDENT) * level + len(_joined(words)) <= WIDTH


def _broken(words: Sequence[_Word], level: int) -> list[tuple[int, int]]:
    """Choose the brackets to break: those with comments in them, then long ones until all fits."""
    pairs = [pair for pair in _pairs(words) if pair[1] - pair[0] > 1]
    chosen = [pair for pair in pairs if _commented(words, *pair)]
    for _ in range(_BREAKS):
        marks = [0, *(at for pair in sorted(chosen) for at in pair), len(words)]
        long = [
            (start, end)
            for start, end in zip(marks[::2], marks[1::2], strict=True)
            if len(INDENT) * level + len(_joined(words[start : end + 1])) > WIDTH
        ]
        left = [pair for start, end in long for pair in pairs if start <= pair[0] and pair[1] <= end]
        left = [pair for pair in left if pair not in chosen]
        if not left:
            break
        chosen.append(max(left, key=lambda pair: len(_joined(words[pair[0] : pair[1]]))))
    return sorted(chosen)


def _commented(words: Sequence[_Word], opening: int, closing: int) -> bool:
    above = any(word.above for word in words[opening + 1 : closing + 1])
    return above or any(word.behind for word in words[opening:closing])


def _pairs(words: Sequence[_Word]) -> list[tuple[int, int]]:
    """Find the brackets that are in no others."""
    found: list[tuple[int, int]] = []
    depth = start = 0
    for index, word in enumerate(words):
        if word.kind in CLOSERS:
            start = start if depth else index
            depth += 1
        elif word.kind in OPENERS and depth:
            depth -= 1
            if depth == 0:
                found.append((start, index))
    return found


def _items(words: Sequence[_Word]) -> Iterator[Sequence[_Word]]:
    """Cut what stands in brackets behind its commas."""
    depth = start = 0
    for index, word in enumerate(words):
        depth += (word.kind in CLOSERS) - (word.kind in OPENERS)
        if word.text == "," and depth == 0:
            yield words[start : index + 1]
            start = index + 1
    if start < len(words):
        yield words[start:]


def _plain(words: Sequence[_Word], level: int, *, closes: bool) -> Iterator[str]:
    """Write words on one line, or on as many as the comments between them need.

    `closes`: the first one is a bracket, and what stands above it is inside that.
    """
    start = 0
    for index, word in enumerate(words):
        inner = level + 1 if closes and index == 0 else level
        yield from (f"{INDENT * inner}{comment}" for comment in word.above)
        following = words[index + 1 : index + 2]
        if word.behind or not following or following[0].above:
            yield INDENT * level + _joined(words[start : index + 1]) + _behind(word)
            start = index + 1


def _behind(word: _Word) -> str:
    return f"  {word.behind}" if word.behind else ""


def _joined(words: Sequence[_Word], column: int = 0) -> str:
    pieces: list[str] = []
    length = 0
    before: _Word | None = None
    for word in words:
        gap = "" if before is None or _tight(before, word) else " "
        if column and word.text == _ROW:
            gap = " " * (column - length + 1)
        pieces += (gap, word.text)
        length += len(gap) + len(word.text)
        before = word
    return "".join(pieces)


def _tight(left: _Word, right: _Word) -> bool:
    """Whether two words stand without a blank between them."""
    if left.glued or right.glued or (left.signs and left.text == "-"):
        return True
    if right.text == "(":
        return left.kind in ("NAME", "ENUM") or left.called or left.text in _TIGHT_BEHIND
    return right.text in _TIGHT_BEFORE or left.text in _TIGHT_BEHIND

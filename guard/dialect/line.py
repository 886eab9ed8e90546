"""What may be written in one line of a trace, piece by piece, at a level of forcing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from guard.dialect.holes import LIST_ITEMS, QUOTES, hole, nothing_known
from guard.dialect.quotes import are_short, quotes, unquoted
from guard.dialect.said import Said
from guard.dialect.tree import Literal, Node, choice, optional, sequence
from guard.dialect.workings import MEMBER, call, working
from guard.errors import InvalidState
from guard.procedure.expected import Cell, Decision, Expected, Hole, Working
from guard.procedure.lattice import may_be_null, required
from guard.procedure.model import Quoting, StepKind
from guard.procedure.types import EnumType, ListType, RecordType, StringType, TextType


class Level(StrEnum):
    """How much of a line the grammar writes out."""

    NONE = "none"  # nothing
    SHAPE = "shape"  # step numbers, names, punctuation, order
    OPERANDS = "operands"  # also the substituted operands, wherever the guard knows them
    VALUES = "values"  # also every value that the guard knows


@dataclass(slots=True)  # never changed; not frozen, since one is made for every line
class Line:
    """What may follow what has been written of a line; `given`: its operands were not the model's."""

    node: Node
    given: bool


@dataclass(slots=True, eq=False)  # never changed; not frozen, since several are made for every line
class _Piece:
    """A part of a line. `text` is its canonical text, None where the guard does not know it.

    `node` is None where nothing but the text may stand there.
    """

    node: Node | None
    text: str | None
    operand: bool = False

    @property
    def fixed(self) -> bool:
        return self.node is None or isinstance(self.node, Literal)


def rule_name(path: str) -> str:
    """Give the name of a line's rule: `5[2].1` is `s5x2d1`. No two paths share one."""
    return "s" + path.replace("[", "x").replace("].", "d").replace(".", "d").replace("]", "")


def line(
    expected: Expected,
    level: Level,
    rules: dict[str, Node],
    written: str = "",
    *,
    valued: bool = True,
) -> Line:
    """Give what may follow `written`, which is "" or a beginning of the step's canonical line.

    With `valued` False the line ends in front of its last value. What it refers to goes into `rules`.
    Raises InvalidState where `written` is no beginning of the line.
    """
    if valued and not written and expected.decision is None:
        plain = _plain(expected, level, rules)
        if plain is not None:
            return plain
    pieces = list(_pieces(expected, level, rules))
    if not valued:
        pieces = pieces[:-3]  # the value, the tail and the line's end
    rest = _behind(pieces, written)
    settled = pieces[: len(pieces) - len(rest)] + [piece for piece in rest if piece.fixed]
    return Line(sequence(*_nodes(rest)), any(piece.operand for piece in settled))


def _plain(expected: Expected, level: Level, rules: dict[str, Node]) -> Line | None:
    """Give a line all of which is known, as most are, without its pieces, which take twice the time."""
    if level is Level.SHAPE and expected.kind is StepKind.DO:
        return None
    nodes: list[Node] = []
    text, given = f"{expected.path} {expected.head} ", False
    for cell in expected.cells:
        spelling, parts = cell.spelling, cell.working
        if spelling is None or cell.bare or cell.symbol is not None:
            return None
        text += cell.lead
        copied = False
        if parts is None:
            copied = level is not Level.SHAPE and not cell.unwritten and expected.kind is not StepKind.LOOP
            given = given or copied
        elif len(parts) > 1 or not isinstance(parts[0], str):
            return None
        elif level is Level.SHAPE:
            nodes += (Literal(text), working(parts[0], rules))
            text = " = "
        else:
            text += f"{parts[0]} = "
            given = True
        if copied or level is Level.VALUES:
            text += spelling
        else:
            nodes += (Literal(text), hole(cell.type, spelling))
            text = ""
    whole = Literal(f"{text}{expected.tail}\n")
    return Line(sequence(*nodes, whole) if nodes else whole, given)


def _nodes(pieces: Sequence[_Piece]) -> Iterator[Node]:
    """Give the nodes of pieces, one for all texts that adjoin."""
    texts: list[str] = []
    for piece in pieces:
        if piece.node is None:
            texts.append(piece.text or "")
            continue
        if texts:
            yield Literal("".join(texts))
            texts.clear()
        yield piece.node
    yield Literal("".join(texts))


def _behind(pieces: Sequence[_Piece], written: str) -> list[_Piece]:
    for index, piece in enumerate(pieces):
        if not written:
            return list(pieces[index:])
        if piece.text is None or not (piece.text.startswith(written) or written.startswith(piece.text)):
            raise InvalidState(f"the line that is due cannot go on so: {written!r}, expected {piece.text!r}")
        if len(piece.text) > len(written):
            return [_fixed(piece.text[len(written) :], operand=piece.operand), *pieces[index + 1 :]]
        written = written[len(piece.text) :]
    raise InvalidState("the line that is due has been written whole")


def _pieces(expected: Expected, level: Level, rules: dict[str, Node]) -> Iterator[_Piece]:
    yield _fixed(f"{expected.path} {expected.head} ")
    for cell in expected.cells:
        yield _fixed(cell.lead)
        if cell.working is not None:
            if cell.symbol is not None:
                yield from _symbol(cell.symbol, level, rules)
            if level is Level.SHAPE and expected.kind is StepKind.DO:
                yield _call(cell.working, rules)
            else:
                yield from _working(cell, cell.working, level, rules)
        if expected.decision is not None:
            yield _Piece(decided(expected.decision, cell, level, rules), None)
        elif not cell.bare:
            yield _value(expected, cell, level)
    yield _fixed(expected.tail)
    yield _fixed("\n")


def _fixed(text: str, *, operand: bool = False) -> _Piece:
    return _Piece(None, text, operand)


def _symbol(text: str, level: Level, rules: dict[str, Node]) -> Iterator[_Piece]:
    yield _Piece(working(text, rules), text) if level is Level.SHAPE else _fixed(text)
    yield _fixed(" = ")


def _working(cell: Cell, parts: Working, level: Level, rules: dict[str, Node]) -> Iterator[_Piece]:
    ends = _fixed("" if cell.bare else " = ")
    match parts:
        case (str(text),) if level is Level.SHAPE:
            yield _Piece(working(text, rules), text, operand=True)
            yield ends
        case (str(text),):
            yield _fixed(text, operand=True)
            yield ends
        case (_,):  # one operand, whose spelling may be the value's
            yield _Piece(optional(working(None, rules), Literal(ends.text or "")), None)
        case _ if level is Level.SHAPE:
            yield _Piece(working(None, rules), None)
            yield ends
        case _:
            before = ("", *parts)
            for left, part in zip(before, parts, strict=False):
                yield _fixed(part, operand=True) if isinstance(part, str) else _filled(left, part, rules)
            yield ends


def _call(parts: Working, rules: dict[str, Node]) -> _Piece:
    first, text = str(parts[0]), parts[0] if len(parts) == 1 and isinstance(parts[0], str) else None
    return _Piece(call(first.partition("(")[0], text, rules), text, operand=True)


def _filled(left: str | Hole, place: Hole, rules: dict[str, Node]) -> _Piece:
    """Give what may stand in a hole behind `left`."""
    if place.free:
        return _Piece(working(None, rules), None)
    node = hole(place.type)
    match required(place.type):
        case ListType() | RecordType() | TextType() if may_be_null(place.type):
            node = MEMBER  # the word, or its name
        case StringType() | EnumType() | TextType():
            node = choice(node, MEMBER)  # a long one stands by name
        case _ if isinstance(left, str) and left.endswith("-"):
            node = choice(node, sequence(Literal("("), node, Literal(")")))  # a sign behind a sign
    return _Piece(node, None)


def _value(expected: Expected, cell: Cell, level: Level) -> _Piece:
    if cell.spelling is None:
        return _Piece(hole(cell.type), None)
    copied = cell.working is None and not cell.unwritten and expected.kind is not StepKind.LOOP
    if level is Level.VALUES or (copied and level is Level.OPERANDS):
        return _fixed(cell.spelling, operand=copied)
    return _Piece(hole(cell.type, cell.spelling), cell.spelling, operand=copied)


def decided(decision: Decision, cell: Cell, level: Level, rules: dict[str, Node]) -> Node:
    """Give what may stand for a decided value, with its quotes; the cell knows which ways are left."""
    texts = [text for _, text in decision.sources]
    kind, most = required(decision.type), decision.at_most
    if not texts:
        return hole(cell.type, at_most=most)
    behind = quotes(texts if level is not Level.SHAPE else None, rules, most=_quotes(decision))
    if decision.quote is None:
        return sequence(hole(decision.type, at_most=most), optional(behind))
    readable = decision.quote is Quoting.SUPPORTING and level is not Level.SHAPE and are_short(texts)
    whole = not isinstance(kind, ListType | RecordType)
    leaf = Said(texts, decision.admissible if whole else None) if readable else nothing_known
    value = hole(kind, at_most=most, at_least=1, leaf=leaf)
    return choice(*unquoted(decision.type), *([] if most == 0 else [sequence(value, behind)]))


def _quotes(decision: Decision) -> int:
    """Give how many quotes there may be.

    A single value has a single place: given room for more, a small model repeats its quote until the cap.
    """
    match required(decision.type):
        case ListType() if decision.quote is Quoting.SUPPORTING:
            return max(1, LIST_ITEMS if decision.at_most is None else decision.at_most)
        case ListType() | RecordType():
            return QUOTES
        case _:
            return 1

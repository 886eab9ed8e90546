"""What may be written in one line of a trace, piece by piece, at a level of forcing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from guard.dialect.holes import QUOTED, WORKING, hole
from guard.dialect.tree import Literal, Node, optional, sequence
from guard.errors import InvalidState
from guard.procedure.expected import Cell, Expected, Working
from guard.procedure.model import StepKind


class Level(StrEnum):
    """How much of a line the grammar writes out."""

    NONE = "none"  # nothing
    SHAPE = "shape"  # step numbers, names, punctuation, order
    OPERANDS = "operands"  # also the substituted operands, wherever the guard knows them
    VALUES = "values"  # also every value that the guard knows


@dataclass(frozen=True, slots=True)
class Line:
    """What may follow what has been written of a line; `given`: its operands were not the model's."""

    node: Node
    given: bool


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a line. `text` is its canonical text, None where the guard does not know it."""

    node: Node
    text: str | None
    operand: bool = False

    @property
    def fixed(self) -> bool:
        return isinstance(self.node, Literal)


def line(expected: Expected, level: Level, written: str = "") -> Line:
    """The line of a step behind `written`, which is "" or a beginning of its canonical text.

    Raises InvalidState where it is neither.
    """
    pieces = list(_pieces(expected, level))
    rest = _behind(pieces, written)
    given = pieces[: len(pieces) - len(rest)] + [piece for piece in rest if piece.fixed]
    return Line(sequence(*(piece.node for piece in rest)), any(piece.operand for piece in given))


def _behind(pieces: Sequence[_Piece], written: str) -> list[_Piece]:
    for index, piece in enumerate(pieces):
        if not written:
            return list(pieces[index:])
        if piece.text is None or not (piece.text.startswith(written) or written.startswith(piece.text)):
            raise InvalidState(f"the line that is due cannot begin so: {written!r} stands for {piece.text!r}")
        if len(piece.text) > len(written):
            return [_Piece(Literal(piece.text[len(written) :]), None), *pieces[index + 1 :]]
        written = written[len(piece.text) :]
    return []


def _pieces(expected: Expected, level: Level) -> Iterator[_Piece]:
    yield _fixed(f"{expected.path} {expected.head} ")
    for cell in expected.cells:
        yield _fixed(cell.lead)
        if cell.working is not None:
            yield from _working(cell.working, level)
        yield _value(expected, cell, level)
    yield _fixed(expected.tail)
    if expected.decision is not None and expected.decision.sources:
        yield _Piece(QUOTED if expected.decision.quote else optional(QUOTED), None)
    yield _fixed("\n")


def _fixed(text: str, *, operand: bool = False) -> _Piece:
    return _Piece(Literal(text), text, operand)


def _working(working: Working, level: Level) -> Iterator[_Piece]:
    match working:
        case (str(text),) if level is Level.SHAPE:
            yield _Piece(WORKING, text, operand=True)
            yield _fixed(" = ")
        case (str(text),):
            yield _fixed(text, operand=True)
            yield _fixed(" = ")
        case (_,):  # one operand, whose spelling may be the value's
            yield _Piece(optional(WORKING, Literal(" = ")), None)
        case _:
            yield _Piece(sequence(WORKING, Literal(" = ")), None)


def _value(expected: Expected, cell: Cell, level: Level) -> _Piece:
    if cell.spelling is None:
        return _Piece(hole(cell.type), None)
    copied = cell.working is None and expected.kind is not StepKind.LOOP
    if level is Level.VALUES or (copied and level is Level.OPERANDS):
        return _fixed(cell.spelling, operand=copied)
    return _Piece(hole(cell.type, cell.spelling), cell.spelling, operand=copied)

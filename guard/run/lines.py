"""One line a generation: begun for the model with all that stands in front of its value, over with its end.

For servers that continue a prefix and take no grammar. What is asked for is short and its context grows by a
line each time, so that all but the last line is in the server's prefix cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from guard.dialect.lark import Level
from guard.procedure.expected import Cell, Expected, Hole
from guard.procedure.model import StepKind
from guard.run.messages import Strategy, Target
from guard.run.policy import ForceBy, Policy
from guard.trace import render

ENDS: Final = ("\n",)  # where the server can be told
SPARE: Final = 16  # tokens that a line may have beyond what it needs
WORDY: Final = 2  # times what it needs that it may have beside them

_LEVELS: Final = frozenset({Level.OPERANDS, Level.VALUES})
_TURNS: Final = frozenset(
    {StepKind.BRANCH, StepKind.LOOP, StepKind.WHILE, StepKind.CHOICE, StepKind.REQUIRE, StepKind.CHECK}
)


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a line is begun. `cell` is the one whose operands are in the text, None where there are none."""

    text: str
    cell: int | None


def can(target: Target, level: Level, by: ForceBy) -> bool:
    """Whether lines may be asked for one by one."""
    wanted = by is ForceBy.LINES or (by is ForceBy.AUTO and not target.replays)
    return wanted and target.prefill and level in _LEVELS


def must(target: Target, level: Level, by: ForceBy) -> bool:
    """Whether they have to be: the policy says so, or there is no grammar to try first."""
    return can(target, level, by) and (by is ForceBy.LINES or target.dialect is None)


def comes_alone(target: Target, policy: Policy, strategy: Strategy) -> bool:
    """Whether the next generation is for one line, as far as that is known before it is opened."""
    decide = can if strategy is Strategy.LINE else must
    return decide(target, policy.force, policy.force_by)


def is_given(due: Expected) -> bool:
    """Whether a line is all operands: what is copied, with nothing left to be computed or decided.

    A small model would write `return total`. Where the procedure turns is the model's to say all the same.
    """
    return (
        due.decision is None
        and due.known
        and due.kind not in _TURNS
        and all(cell.bare or (cell.working is None and not cell.unwritten) for cell in due.cells)
    )


def begin(due: Expected, level: Level) -> Beginning:
    """Begin a line: up to the value of the first cell that has an expression, or whose value is decided.

    Never all of it, never ending in white space.
    """
    if not due.cells:
        return Beginning(render.stub(due), None)
    cell = scaffold_cell(due, None) if level is not Level.VALUES else None
    if cell is not None and due.cells[cell].bare:  # the expression is all there is: its last word is left
        return Beginning(render.scaffold(due, cell).rpartition(" ")[0], None)
    return Beginning(render.scaffold(due, cell or 0), cell)


def room(due: Expected) -> int | None:
    """So many tokens are more than the line that is due needs, even from its start; None: it is decided.

    No tokenizer makes more tokens than there are bytes.
    """
    if due.decision is not None:
        return None
    text = render.canonical(due)
    return None if text is None else WORDY * len(text.encode()) + SPARE


def scaffold_cell(due: Expected, blamed: int | None) -> int | None:
    """Find the cell of a line whose operands can be given: the blamed one, else the first.

    None where there is none: the line has no expression, or hangs on what is not decided.
    """
    if due.decision is not None:
        return None
    able = list(_able(due.cells))
    return blamed if blamed in able else next(iter(able), None)


def _able(cells: Iterable[Cell]) -> Iterable[int]:
    return (
        i
        for i, cell in enumerate(cells)
        if cell.working is not None and not any(isinstance(part, Hole) for part in cell.working)
    )

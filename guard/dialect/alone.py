"""The grammar of an answer to one step that is asked for by itself: its values, a line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from guard.dialect.holes import hole
from guard.dialect.line import Level, decided
from guard.dialect.tree import Grammar, Literal, Node, Rule, optional, sequence
from guard.procedure.expected import Expected

_LEAD: Final = "value"


def lead(place: int, of: int) -> str:
    """Give what an answer's line begins with where lines are members of an object, which have names."""
    return f"{_LEAD} =" if of == 1 else f"{_LEAD} {place + 1} ="


def answer(due: Expected, cells: Sequence[int], level: Level, *, members: bool = False) -> Grammar:
    """Give what may be answered for some cells of a step. `members`: each line has a name."""
    rules: dict[str, Node] = {}
    lines: dict[str, Node] = {}
    for place, index in enumerate(cells):
        cell = due.cells[index]
        if due.decision is not None:
            value = decided(due.decision, cell, level, rules)
        else:
            value = hole(cell.type, cell.spelling)
        name = Literal(f"{lead(place, len(cells))} " if members else "")
        # A model ends its answer where it would end any: one that may not stop before a line end writes more
        # digits instead (`126 + 140 =` came to 266200000).
        last = place == len(cells) - 1 and not members
        end = optional(Literal("\n")) if last else Literal("\n")
        lines[f"answer{place + 1}"] = sequence(*([name] if members else []), value, end)
    return Grammar(sequence(*map(Rule, lines)), {**lines, **rules})

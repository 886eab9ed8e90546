"""Step paths: where they stand in their procedure, and whether one can still come after another."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from guard.procedure.groups import around
from guard.procedure.model import StepKind

_PART: Final = re.compile(r"(\d+)(?:\[(\d+)\])?")


def number_of(path: str) -> str:
    """The number of the statement that a path belongs to: `5.1` for `5[2].1`."""
    return re.sub(r"\[\d+\]", "", path)


def kind_of(path: str, kinds: Mapping[str, StepKind]) -> StepKind | None:
    """The kind of the statement that a path belongs to, in a procedure with these step numbers."""
    return kinds.get(number_of(path))


def place(path: str) -> tuple[tuple[int, int], ...]:
    """A key that sorts paths as their steps are executed: a header before its passes and arms."""
    return tuple((int(number), int(turn or 0)) for number, turn in _PART.findall(path))


def can_follow(
    path: str,
    due: str,
    kinds: Mapping[str, StepKind],
    passes: Mapping[str, int],
    members: Mapping[str, int] | None = None,
) -> bool:
    """Whether a path belongs to a step that comes after the one that is due.

    `kinds` are the procedure's step numbers, `passes` how many the loops known so far have, by path.
    `members` are the numbers of the statements of groups: of two members either may come first.
    """
    if number_of(path) not in kinds or not _well_formed(path, kinds, passes):
        return False
    return place(path) > place(due) or _beside(path, due, members or {})


def known(path: str, kinds: Mapping[str, StepKind]) -> bool:
    """Whether a path is that of a statement outside all loops and choices: the same in every execution."""
    return path in kinds and _well_formed(path, kinds, {})


def _beside(path: str, due: str, members: Mapping[str, int]) -> bool:
    """Whether two steps belong to different members of one group."""
    pairs = zip(around(path, members), around(due, members), strict=False)
    return any(one[0] == other[0] and one[1] != other[1] for one, other in pairs)


def _well_formed(path: str, kinds: Mapping[str, StepKind], passes: Mapping[str, int]) -> bool:
    """Whether exactly loops above a step, tests of a `while` and choices have a pass, none too high a one."""
    parts = path.split(".")
    for index, part in enumerate(parts):
        number, _, turn = part.rstrip("]").partition("[")
        above = ".".join([*parts[:index], number])
        inside = index + 1 < len(parts)
        kind = kinds.get(number_of(above))
        if bool(turn) != (kind in {StepKind.WHILE, StepKind.CHOICE} or (kind is StepKind.LOOP and inside)):
            return False
        if turn and int(turn) > passes.get(above, int(turn)):
            return False
    return True

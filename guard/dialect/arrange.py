"""Lines in the orders that they may have: one after the other, but for the members of groups of any order.

A grammar that listed all orders would be as long as there are orders. This one takes any member as often as
there are members left; that each comes once is for a checker to see to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from guard.dialect.tree import Node, Repeat, choice, sequence

Place = tuple[str, int]  # the path of a group, and which of its members


@dataclass(slots=True)  # never changed; not frozen, since one is made for every line
class Placed:
    """The node of a line, or of several, and the members of groups around it, the outermost first."""

    node: Node
    around: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Open:
    """A group of which it is not known what its members come to.

    `known` are those of which it is, by index; `untold` says how many lines stand behind them.
    """

    group: str
    known: Mapping[int, Node]
    untold: int

    @property
    def key(self) -> tuple[str, tuple[tuple[int, Node], ...]]:
        """What follows hangs on: the same for the same group with the same members."""
        return self.group, tuple(self.known.items())


def any_of(members: Sequence[Node]) -> Node:
    """Give members of a group in any order."""
    if len(members) < 2:
        return sequence(*members)
    return Repeat(choice(*members), len(members), len(members))


def arranged(
    lines: Sequence[Placed], begun: Collection[Place], *, last: bool = False, depth: int = 0
) -> Node:
    """Give lines in the orders that they may have.

    `begun` are the members that must be gone on with before another one may come; with `last` the line that
    stands last comes last. `depth` is how many groups around the lines are left out of account.
    """
    if not any(len(line.around) > depth for line in lines):
        return sequence(*[line.node for line in lines])
    nodes: list[Node] = []
    for group, found in groupby(lines, lambda line: line.around[depth : depth + 1] and line.around[depth][0]):
        run = list(found)
        if not group:
            nodes += [line.node for line in run]
            continue
        ends = last and run[-1] is lines[-1]
        members = [list(member) for _, member in groupby(run, lambda line: line.around[depth])]
        bodies = [
            arranged(member, begun, last=ends and member is members[-1], depth=depth + 1)
            for member in members
        ]
        first = 1 if run[0].around[depth] in begun else 0
        behind = len(bodies) - 1 if ends and len(bodies) > first else len(bodies)
        nodes += [*bodies[:first], any_of(bodies[first:behind]), *bodies[behind:]]
    return sequence(*nodes)


def opened(lines: Sequence[Placed], begun: Collection[Place]) -> tuple[Sequence[Placed], Open | None]:
    """Cut lines, what follows the last of which is not known, in front of the group that leaves that open.

    That is the outermost one around the last line in which another member may still come first.
    """
    around = lines[-1].around
    depth = next((depth for depth, place in enumerate(around) if place not in begun), None)
    if depth is None:
        return lines, None
    group, last = around[depth]
    inside = [line for line in lines if line.around[depth : depth + 1] and line.around[depth][0] == group]
    free = [line for line in inside if line.around[depth] not in begun]
    members = {index: list(member) for (_, index), member in groupby(free, lambda line: line.around[depth])}
    untold = len(members.pop(last))
    known = {index: arranged(member, begun, depth=depth + 1) for index, member in members.items()}
    return lines[: len(lines) - len(free)], Open(group, known, untold)

"""What the model decides, put to the vote: it is asked until one value is far enough ahead.

A line that is right in itself is a vote, whichever generation wrote it; one that violates is a violation
and no vote. Values are compared, not spellings or quotes; the line that stands is the first one that was
cast for the value that won, as it was written. A value with which the procedure came to fail later on
stands no longer: the other votes still count, and so do the ones that were cast for it against the cap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from guard.procedure.model import StepKind
from guard.procedure.types import Value
from guard.procedure.values import equal
from guard.run.messages import Margin, Voted
from guard.run.policy import Votes
from guard.run.progress import Line, Progress

VOTED_ON: Final = frozenset({StepKind.EXTRACT, StepKind.JUDGE})


@dataclass(frozen=True, slots=True)
class Count:
    """How a vote stands: the place of the first vote for the value that leads, its votes, and whether it won.

    `live` is False where every vote was cast for a value that may not stand.
    """

    first: int
    agreed: int
    margin: Margin
    live: bool


def count(votes: Sequence[Value], rules: Votes, failed: Sequence[Value] = ()) -> Count:
    """Count votes, in the order in which they were cast; there is at least one.

    `failed` are the values that may not stand. Of several values with the most votes, the one that was
    said first leads.
    """
    groups: list[list[int]] = []  # the places of equal votes
    for place, value in enumerate(votes):
        group = next((group for group in groups if equal(votes[group[0]], value)), None)
        if group is None:
            groups.append([place])
        else:
            group.append(place)
    able = [g for g in groups if not any(equal(votes[g[0]], value) for value in failed)]
    leading, *others = sorted(able or groups, key=len, reverse=True)  # stable: the first said comes first
    lead = len(leading) - max(map(len, others), default=0)
    if able and lead >= rules.ahead:
        margin = Margin.REACHED
    else:
        margin = Margin.CAPPED if len(votes) >= rules.most else Margin.OPEN
    return Count(leading[0], len(leading), margin, live=bool(able))


@dataclass(slots=True)
class _Poll:
    """The votes on one step."""

    cast: list[Line] = field(default_factory=list)
    failed: list[Value] = field(default_factory=list)
    settled: bool = False

    def count(self, rules: Votes) -> Count:
        return count([line.step.value for line in self.cast], rules, self.failed)


class Polls:
    """All votes of a run, by the path of the step. Without rules nothing is put to the vote."""

    def __init__(self, rules: Votes | None) -> None:
        self._rules = rules
        self._polls: dict[str, _Poll] = {}

    def wants(self, progress: Progress) -> bool:
        """Whether the last verified line is a vote that has not been counted."""
        if self._rules is None or not progress.lines:
            return False
        step = progress.lines[-1].step
        if not step.decided or step.kind not in VOTED_ON:
            return False
        poll = self._polls.get(step.path)
        return poll is None or not poll.settled

    def count(self, progress: Progress) -> bool:
        """Take the last line back and count it; whether the step is settled by now, and its line written."""
        line = progress.take_back()
        self._polls.setdefault(line.step.path, _Poll()).cast.append(line)
        return self.settle(progress)

    def settle(self, progress: Progress) -> bool:
        """Write the line of the step that is due where the votes on it suffice; whether it was written."""
        due = progress.expected
        poll = None if due is None else self._polls.get(due.path)
        if self._rules is None or poll is None or poll.settled:
            return False
        counted = poll.count(self._rules)
        if counted.margin is Margin.OPEN:
            return False
        poll.settled = True
        progress.put(poll.cast[counted.first])
        return True

    def strike(self, line: Line) -> str | None:
        """Let the value of a line stand no longer, since the procedure failed with it.

        Says why there is no other one to be had; None: there may be, or it was not put to the vote.
        """
        poll = self._polls.get(line.step.path)
        if self._rules is None or poll is None or not poll.settled:
            return None
        poll.settled = False
        poll.failed.append(line.step.value)
        counted = poll.count(self._rules)
        if counted.live or counted.margin is Margin.OPEN:
            return None
        return f"all {len(poll.cast)} votes on step {line.step.path} were for values with which it fails"

    def forget(self) -> None:
        """Begin anew, as the trace does."""
        self._polls.clear()

    @property
    def report(self) -> tuple[Voted, ...]:
        """What was put to the vote and how it went, in the order of the first votes."""
        return tuple(_voted(poll, poll.count(self._rules)) for poll in self._polls.values() if self._rules)


def _voted(poll: _Poll, counted: Count) -> Voted:
    step = poll.cast[0].step
    return Voted(
        step=step.path, kind=step.kind, cast=len(poll.cast), agreed=counted.agreed, margin=counted.margin
    )

"""What a run's generations cost, what of it served the client, and what cutting them early saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from guard.errors import UpstreamError
from guard.run.generation import Cut, Generation
from guard.run.messages import Close, Result, Usage
from guard.run.progress import Line, Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One closed generation.

    It wrote so many `characters` in so many `rows`, of which `closing` are the closing line. `ahead`: tokens
    of `usage` that were written and never read.
    """

    generation: int
    usage: Usage
    characters: int
    rows: int
    closing: int
    ahead: int
    cut: Cut | None

    def discarded(self, kept: int, *, closed: bool) -> int:
        """Its completion tokens that served nobody where so many of its characters did.

        `closed`: and the closing line, which serves whoever has the answer in front of it.
        """
        read = max(0, self.usage.completion - self.ahead)  # servers may report fewer than were seen
        kept += self.closing if closed else 0
        share = min(kept, self.characters) / self.characters if self.characters else 0
        return self.usage.completion - round(read * share)


class Accounts:
    """The accounts of one run: an entry for each generation, in order.

    `limit` is how many tokens all of them may write, with those that are spent `elsewhere`.
    """

    def __init__(self, limit: int) -> None:
        self._entries: list[Entry] = []
        self.completion = 0  # tokens, of all of them
        self.limit, self.elsewhere = limit, 0
        self.ahead = 0  # tokens of generations for steps that are not due yet

    @property
    def left(self) -> int:
        """The tokens that may still be written."""
        return self.limit - self.elsewhere - self.ahead - self.completion

    @property
    def usage(self) -> tuple[Usage, ...]:
        """What each generation cost."""
        return tuple(entry.usage for entry in self._in_order)

    @property
    def _in_order(self) -> list[Entry]:
        """The entries as their generations were opened."""
        return sorted(self._entries, key=lambda entry: entry.generation)

    def close(
        self,
        generation: Generation,
        result: Result,
        lines: Sequence[Line],
        *,
        error: UpstreamError | None = None,
        kept: int | None = None,
    ) -> Close:
        """Enter a generation that is closed, and tell what of it was for nothing.

        That is by the lines that stand, unless so many characters of it are `kept`.
        """
        entry = Entry(
            generation=generation.number,
            usage=generation.cost,
            characters=generation.characters,
            rows=generation.rows + bool(generation.line),
            closing=generation.closing,
            ahead=generation.ahead,
            cut=generation.cut_short,
        )
        self._entries.append(entry)
        self.completion += entry.usage.completion
        if result is Result.VIOLATION and self.left <= 0:
            result = Result.BUDGET_EXHAUSTED
        kept = _last_of(generation.number, lines) if kept is None else kept
        return Close(
            generation=generation.number,
            result=result,
            usage=entry.usage,
            discarded=entry.discarded(kept, closed=True),
            error=error,
            ignored=generation.ignored,
        )

    def discarded(self, lines: Iterable[Line], *, answered: bool, released: bool) -> tuple[int, ...]:
        """Of each generation, the completion tokens that served nobody, where the client got these lines.

        `answered`: and the answer behind them. `released`: and all that the last one wrote.
        """
        kept: Counter[int] = Counter()
        for line in lines:
            kept[line.by] += line.written
        last = self._entries[-1] if released and self._entries else None
        return tuple(
            0 if entry is last else entry.discarded(kept[entry.generation], closed=answered)
            for entry in self._in_order
        )

    def saved(self, progress: Progress) -> int:
        """Estimate the completion tokens that cutting at violations saved, at the end of a run.

        For each generation that a violation cut while it was still writing, the steps that it had not come
        to (up to where it was to stop), times the mean tokens a line of this run: all completion tokens but
        thoughts, over all lines that the model wrote, wrong ones included. Tokens that were written already
        when it was cut, and not read, are taken off.
        """
        rows = sum(entry.rows for entry in self._entries)
        cuts = [(entry.cut, entry.ahead) for entry in self._entries if entry.cut is not None]
        if not rows or not cuts:
            return 0
        steps = progress.steps
        mean = (
            sum(
                max(0, entry.usage.completion - entry.ahead - entry.usage.reasoning)
                for entry in self._entries
            )
            / rows
        )
        return sum(max(0, round(_left(cut, steps) * mean) - ahead) for cut, ahead in cuts)


def _left(cut: Cut, steps: int) -> int:
    """How many of the trace's steps a cut generation had not come to."""
    return max(0, steps - cut.lines - 1) if cut.left is None else cut.left


def _last_of(generation: int, lines: Sequence[Line]) -> int:
    """How many characters of the last lines, as long as they are its own, a generation wrote."""
    kept = 0
    for line in reversed(lines):
        if line.by != generation:
            break
        kept += line.written
    return kept

"""The generation that is open: why it was opened, what it has written and what that costs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from guard.check.verdict import Violation
from guard.errors import UpstreamError
from guard.procedure.expected import Expected
from guard.run.messages import Close, Result, Strategy, Usage
from guard.run.overlap import Overlap
from guard.run.policy import Attempt


@dataclass(slots=True, kw_only=True)
class Generation:
    """One upstream generation.

    `step` is the path of the step that it was opened at, `prefix` what had been said by then, the
    scaffold or number of the due line included. `given` are the paths whose operands the model was given,
    `scaffold` says that the due line was begun for it. It was opened for all that comes up to the step
    `stop` ("": up to the answer); `cut`: and for not a word more. `asked` is about how many tokens it was
    given to read. `overlap` reads its first lines, where it goes on from something; `settled` is how much of
    its text is verified or repeats what is. `done`: all that it was opened for is there, and `tail` is what
    came behind that. `ended` is the finish reason with which it ended, "" as long as it writes.
    """

    number: int
    upstream: int
    strategy: Strategy
    counted: bool
    step: str
    prefix: str
    given: frozenset[str]
    scaffold: bool
    stop: str
    cut: bool
    overlap: Overlap | None
    asked: int = 0
    pieces: list[str] = field(default_factory=list)  # of all that it has written
    line: str = ""  # what has been written of the line that is not yet ended
    done: bool = False
    vote: bool = False  # whether it came to a line that was put to the vote
    tail: str = ""
    settled: int = 0
    ended: str = ""
    tokens: int = 0
    usage: Usage | None = None

    def take(self, piece: str) -> None:
        """Remember a piece of what was written, at most one line of it."""
        self.pieces.append(piece)
        self.line = "" if piece.endswith("\n") else self.line + piece

    @property
    def text(self) -> str:
        """All that it has written."""
        self.pieces = ["".join(self.pieces)]
        return self.pieces[0]

    @property
    def cost(self) -> Usage:
        """What it has cost: as reported, else as counted; servers tell nothing of what was cut.

        A generation that wrote nothing may not have been read either, and counts for nothing.
        """
        return self.usage or Usage(
            prompt=self.asked if self.tokens else 0, completion=self.tokens, estimated=True
        )

    def close(self, result: Result, *, kept: int, error: UpstreamError | None = None) -> Close:
        """Close it. `kept` of the characters that it wrote stand; the other ones were for nothing."""
        written = len(self.text)
        cost = self.cost
        share = 1 - min(kept, written) / written if written else 1
        discarded = round(cost.completion * share)
        return Close(generation=self.number, result=result, usage=cost, discarded=discarded, error=error)

    def failed(self, violation: Violation, due: Expected, *, delivered: bool, scaffoldable: bool) -> Attempt:
        """Give what the policy remembers of it, where a violation ended it at the step that is due."""
        return replace(
            self.attempt(),
            kind=violation.kind,
            failed_at=due.path,
            step_kind=due.kind,
            found=violation.found,
            delivered=delivered,
            scaffoldable=scaffoldable and (self.scaffold or due.path not in self.given),
            repairable=due.known,
        )

    def attempt(self) -> Attempt:
        """Give what the policy remembers of it, where no violation ended it."""
        return Attempt(
            upstream=self.upstream,
            strategy=self.strategy,
            step=self.step,
            counted=self.counted,
            prefix=self.prefix,
            text=self.text,
            vote=self.vote,
        )

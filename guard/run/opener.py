"""Opens the generations of one run: of the due step, and of those ahead that wait for nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from guard.run.accounts import Accounts
from guard.run.ahead import Ahead, Coming, Happened
from guard.run.asking import Next, ask
from guard.run.forcing import Forcing
from guard.run.generation import Generation
from guard.run.history import History
from guard.run.messages import Command, Open, Result, Strategy
from guard.run.opening import NO_REASON, Job, Reason
from guard.run.policy import Policy
from guard.run.progress import Progress


@dataclass(slots=True, kw_only=True)
class Opener:
    """What generations are opened with. `closed` are the commands for those ahead that were given up."""

    job: Job
    policy: Policy
    progress: Progress
    forcing: Forcing
    history: History
    accounts: Accounts
    ahead: Ahead
    closed: list[Command] = field(default_factory=list)

    def open(
        self, upstream: int, strategy: Strategy, *, counted: bool, reason: Reason
    ) -> tuple[Generation, list[Command]]:
        """Open a generation for what is due, unless one was opened ahead: what was heard of it comes next."""
        progress = self.progress
        if self.policy.isolates:
            progress.open_frame()  # which no answer to a question begins with
        kept = self.ahead.take(progress.due)
        self.accounts.ahead = self.ahead.tokens
        if kept is not None:
            kept.since = len(progress.lines)
            progress.writer, progress.isolated = kept.number, True
            return kept, []
        progress.writer = self.history.opens(counted=counted)
        generation, command = self._ask(upstream, strategy, reason, self.accounts.left, counted=counted)
        progress.isolated = command.isolated
        return generation, [command]

    def open_ahead(self, upstream: int, current: Generation | None) -> list[Command]:
        """Open generations for steps that are not due yet, as many as may be open with the `current` one."""
        opened: list[Command] = []
        verified = {line.step.path for line in self.progress.lines}
        left = self.accounts.left - self.tokens(current)
        while self.ahead.live + 1 < self.ahead.most and left > 0:
            coming = self.ahead.next(self.progress.checker.sent, self.progress.due, verified)
            if coming is None:
                break
            self.history.opens(counted=False)
            generation, command = self._ask(upstream, Strategy.LINE, NO_REASON, left, coming=coming)
            self.ahead.add(generation)
            opened.append(command)
        return opened

    @staticmethod
    def tokens(current: Generation | None) -> int:
        """Give the tokens that the open generation, if there is one, has written."""
        return 0 if current is None else current.tokens

    def _ask(
        self,
        upstream: int,
        strategy: Strategy,
        reason: Reason,
        left: int,
        *,
        counted: bool = False,
        coming: Coming | None = None,
    ) -> tuple[Generation, Open]:
        generation, command = ask(
            self.job,
            self.policy,
            self.progress,
            self.forcing.targets,
            history=self.history,
            following=Next(
                upstream=upstream, strategy=strategy, counted=counted, reason=reason, max_tokens=left
            ),
            coming=coming,
        )
        self.forcing.opened(generation)
        return generation, command

    def hear(self, event: Happened, number: int) -> None:
        """Keep what happened to a generation ahead; where no tokens are left, all are given up."""
        self.ahead.keep(number, event)
        self.accounts.ahead = self.ahead.tokens
        if self.accounts.left < 0:
            self.give_up()

    def give_up(self) -> None:
        """Close what was opened ahead: it is for nothing."""
        for generation in self.ahead.abandon():
            self.closed.append(self.accounts.close(generation, Result.CANCELLED, self.progress.lines))
        self.accounts.ahead = 0

    def given_up(self) -> list[Command]:
        """Give the commands that close what was given up, each once."""
        closed, self.closed = self.closed, []
        return closed

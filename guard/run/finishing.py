"""The end of a run, whichever it comes to, told with all that is known of the way there."""

from __future__ import annotations

from dataclasses import dataclass

from guard.check.verdict import Violation
from guard.errors import UpstreamError
from guard.procedure.expected import Ending
from guard.run import endings
from guard.run.faults import Faults
from guard.run.messages import Finish, Outcome, RunError
from guard.run.opener import Opener
from guard.run.release import Release
from guard.run.votes import Polls


@dataclass(slots=True, kw_only=True)
class Finishing:
    """What the end of one run is made of. `over`: it has been made."""

    opener: Opener
    polls: Polls
    faults: Faults
    over: bool = False

    def answered(self, *, fallen_back: bool) -> Finish:
        """End with the answer, which is verified."""
        classes = {line.step_class for line in self.opener.progress.lines}
        return self._finish(
            endings.of_answer(classes, retried=self.opener.history.retried, fallen_back=fallen_back)
        )

    def released(self, release: Release, text: str, finish_reason: str) -> Finish:
        """End with a text of the model's that nobody checked."""
        finish = self._finish(Outcome.RELEASED, finish_reason=finish_reason)
        return release.finish(finish, self.opener.job.program, text)

    def rejected(self, violation: Violation, why: str) -> Finish:
        """End because of a violation, when the policy has nothing left to try."""
        error = endings.rejected(self._procedure, violation.kind, violation.step, why)
        return self._finish(Outcome.REJECTED, error=error)

    def procedure_failed(self, failed: Ending, why: str) -> Finish:
        """End because the procedure itself could not be carried out."""
        return self._finish(Outcome.REJECTED, error=endings.procedure_failed(self._procedure, failed, why))

    def too_few_tokens(self, fewest: int) -> Finish:
        """End before anything was asked for: the lines that are due take more tokens than there are."""
        error = endings.too_few_tokens(
            self._procedure, self.opener.accounts.limit, fewest, field=self.opener.job.budget_field
        )
        return self._finish(Outcome.ERROR, error=error)

    def out_of_tokens(self) -> Finish:
        """End because all tokens are spent."""
        clients = self.opener.accounts.limit < self.opener.policy.output_tokens
        error = endings.out_of_tokens(
            self._procedure,
            self.opener.progress.due,
            self.opener.accounts.limit,
            field=self.opener.job.budget_field if clients else None,
        )
        return self._finish(Outcome.REJECTED, error=error, finish_reason="length")

    def out_of_time(self) -> Finish:
        """End because the time is over."""
        error = endings.out_of_time(self._procedure, self.opener.progress.due, self.opener.policy.seconds)
        return self._finish(Outcome.ERROR, error=error)

    def failed(self, error: UpstreamError, *, ours: bool = False) -> Finish:
        """End because no upstream is left that could be asked. `ours`: that is not the client's mistake."""
        return self._finish(Outcome.ERROR, error=self.faults.ending(error, ours=ours))

    def cancelled(self) -> Finish:
        """End because the client has gone."""
        return self._finish(Outcome.CANCELLED)

    @property
    def _procedure(self) -> str:
        return self.opener.job.program.name

    def _finish(
        self, outcome: Outcome, *, error: RunError | None = None, finish_reason: str = "stop"
    ) -> Finish:
        self.opener.give_up()
        self.over = True
        progress, history = self.opener.progress, self.opener.history
        end, answer = progress.answer if outcome in endings.ACCEPTED else (None, None)
        served = progress.delivered_lines if answer is None else progress.lines
        return Finish(
            outcome=outcome,
            end=end,
            answer=answer,
            trace=progress.trace,
            attempts=1 + history.retries if history.generations else 0,
            generations=history.generations,
            violations=tuple(history.violations),
            steps=progress.counts,
            usage=self.opener.accounts.usage,
            error=error,
            reason=endings.reason(outcome, error),
            finish_reason=finish_reason,
            classes=progress.classes,
            isolated=progress.isolated_steps,
            votes=self.polls.report,
            discarded=self.opener.accounts.discarded(
                served, answered=answer is not None, released=outcome is Outcome.RELEASED
            ),
            saved=self.opener.accounts.saved(progress),
            forced=self.opener.forcing.level,
        )

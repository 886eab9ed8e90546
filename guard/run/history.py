"""What happened in a run so far: as its policy looks at it, and as its end tells it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from guard.check.verdict import Kind, StepVerified, Violation
from guard.run import policy as retry
from guard.run.generation import Cut, Generation
from guard.run.lines import scaffold_cell
from guard.run.policy import Attempt
from guard.run.progress import Progress
from guard.run.release import says_something, unverified
from guard.trace.alone import can_be_asked


@dataclass(slots=True, kw_only=True)
class History:
    """The history of one run.

    `generations` is how many were opened, `retries` how many of them because of a violation. `attempts` are
    the ones that are over, as the policy remembers them.
    """

    generations: int = 0
    retries: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)

    @property
    def retried(self) -> bool:
        """Whether a step was asked for again because of what the model wrote.

        A line that was repaired may be gone: after a fault the trace can be begun anew, which is no retry.
        """
        return self.retries > 0 or any(one.kind is not Kind.TRUNCATED for one in self.violations)

    def opens(self, *, counted: bool) -> int:
        """Count a generation that is opened; give its number."""
        self.generations += 1
        self.retries += counted
        return self.generations

    def remember(self, attempt: Attempt) -> None:
        """Remember a generation that did what it was opened for; of lines in a row the last one will do."""
        if self.attempts and self.attempts[-1].is_plain and attempt.is_plain:
            self.attempts.pop()
        self.attempts.append(attempt)

    def depart(self, generation: Generation, violation: Violation, progress: Progress) -> int | None:
        """Remember a generation that departed from the step that is due; give the cell to scaffold there."""
        due = progress.expected
        assert due is not None, "a violation behind the answer is none"
        cell = scaffold_cell(due, violation.cell)
        attempt = generation.failed(violation, due, delivered=progress.delivered > 0, cell=cell)
        attempt = replace(attempt, isolable=can_be_asked(progress.shown))
        if generation.alone is not None:
            attempt = replace(attempt, scaffoldable=self._scaffoldable(attempt))
        written = progress.lines or says_something(unverified(generation, progress.verified))
        self.attempts.append(replace(attempt, written=bool(written)))
        self.violations.append(violation)
        if not generation.ended:
            left = progress.steps_to(generation.stop) if generation.stop else None
            generation.cut_short = Cut(lines=len(progress.lines), left=left)
        return cell

    def _scaffoldable(self, failed: Attempt) -> bool:
        """Whether the line had operands to be given when it was asked for with the trace."""
        place = (failed.upstream, failed.failed_at)
        before = (one for one in reversed(self.attempts) if (one.upstream, one.failed_at) == place)
        return next((one.scaffoldable for one in before), False)

    def fail(self, generation: Generation) -> None:
        """Remember a generation that was ended by no fault of the model's."""
        self.attempts.append(replace(generation.attempt(), fault=True))

    def give_up(self, progress: Progress) -> Violation | None:
        """Blame what is due on the last generation, which an upstream does not take.

        What is given is the last violation, if its step was not verified since. Else it counts as cut off.
        """
        due, last = progress.expected, self.attempts[-1]
        assert due is not None, "there is something left to ask for"
        verified = {line.step.path for line in progress.lines}
        violation = next((one for one in self.violations[-1:] if one.step not in verified), None)
        self.attempts[-1] = replace(
            last,
            kind=Kind.TRUNCATED if violation is None else violation.kind,
            failed_at=due.path,
            step_kind=due.kind,
            delivered=progress.delivered > 0,
            isolable=can_be_asked(progress.shown),
            repairable=due.known,
            written=False,
        )
        return violation

    def blame(self, step: StepVerified, *, delivered: bool) -> None:
        """Blame a step that the model decided for what came of it."""
        self.attempts[-1] = retry.blamed(
            self.attempts[-1], step=step.path, kind=step.kind, value=repr(step.value), delivered=delivered
        )

"""What the guard writes in its own hand before the model is asked for what comes behind it."""

from __future__ import annotations

from collections.abc import Iterator

from guard.check.verdict import Judgement
from guard.dialect.line import Level
from guard.procedure.expected import Expected
from guard.run.lines import comes_alone, is_given
from guard.run.messages import StepClass, Strategy
from guard.run.opener import Opener
from guard.trace.alone import can_be_asked


def before(opener: Opener, upstream: int, strategy: Strategy) -> Iterator[Judgement]:
    """Write the lines that are not asked for: what can be computed or is all operands, as the policy says.

    Where no tokens are left that is all that may be repaired.
    """
    progress, policy = opener.progress, opener.policy

    def is_copied(due: Expected) -> bool:
        return due.known and not can_be_asked(progress.shown)

    if policy.force is Level.VALUES:
        yield from progress.write_on(StepClass.COMPUTED, lambda due: due.known)
    elif policy.isolates:
        yield from progress.write_on(StepClass.SCAFFOLDED, is_copied)
    elif comes_alone(opener.forcing.targets[upstream], policy, strategy):
        yield from progress.write_on(StepClass.SCAFFOLDED, is_given)
    if opener.accounts.left <= 0:
        yield from progress.write_on(StepClass.REPAIRED, policy.repairs)

"""Attempts as a policy remembers them."""

from __future__ import annotations

from guard.check.verdict import Kind
from guard.procedure.model import StepKind
from guard.run.messages import Strategy
from guard.run.policy import Attempt


def failed(
    kind: Kind,
    strategy: Strategy = Strategy.INITIAL,
    *,
    at: str = "3",
    opened_at: str | None = None,
    upstream: int = 0,
    number: int = 0,
    counted: bool | None = None,
    scaffoldable: bool = True,
    isolable: bool = False,
    repairable: bool = True,
    delivered: bool = True,
    step_kind: StepKind | None = None,
) -> Attempt:
    """A generation that a violation ended; by default opened at the step where it failed."""
    opened = "1" if strategy in {Strategy.INITIAL, Strategy.RESTART} else at
    return Attempt(
        upstream=upstream,
        strategy=strategy,
        step=opened_at or opened,
        counted=strategy is not Strategy.INITIAL if counted is None else counted,
        prefix=f"up to {opened_at or opened}",
        kind=kind,
        failed_at=at,
        step_kind=step_kind,
        text=f"text {number}",
        found=f"found {number}",
        delivered=delivered,
        scaffoldable=scaffoldable,
        isolable=isolable,
        repairable=repairable,
    )

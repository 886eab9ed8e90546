"""State machines about runs, as test cases: one for each procedure that they play."""

from __future__ import annotations

from unittest import TestCase

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine


def played(machine: type[RuleBasedStateMachine], text: str) -> type[TestCase]:
    """Let a machine play on the procedure of a text, which it finds as its `text`."""
    case: type[TestCase] = type(machine.__name__, (machine,), {"text": text}).TestCase  # type: ignore[attr-defined]
    case.settings = settings(  # type: ignore[attr-defined]
        max_examples=60,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    return case

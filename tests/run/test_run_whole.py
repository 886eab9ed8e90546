"""A run comes to the same whether its client reads a stream or the whole at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from guard.check.verdict import Kind
from guard.procedure.types import Value
from guard.run.ladders import Action, Rung, always
from guard.run.messages import Command, Emit, Ended, Finish, Open, Outcome, Text, Wait, Waited
from guard.run.policy import Policy
from guard.run.run import Run
from tests.run.procedures import DIALOGUE, NOTE, ORDER, PREFILL, SHARES, SUMS, job

JOBS: Final[dict[str, dict[str, Value]]] = {
    SUMS: {"x": 3, "y": 4},
    ORDER: {"note": NOTE},
    SHARES: {"note": NOTE},
}
LINES: Final = (
    "@begin sums 3fa92c\n", "@begin order 3fa92c\n", "@begin shares 3fa92c\n", "@end 3fa92c\n",
    "1 a = 3 + 4 = 7\n", " a = 3 + 4 = 7\n", "2 b = 7 * 2 = 14\n", " b = 7 * 2 = 14\n", " b = 7 * 2 = 15\n",
    "3 c = 14 - 3 = 11\n", " c = 14 - 3 = 11\n", "4 return 11\n", " return 11\n",
    "1 qty = 6\n", " qty = 6\n", "2 loyal = true\n", " loyal = true\n", "1 people = 10\n", " people = 10\n",
    " people = 4\n", "2 check 10 < 100 = true\n", " check 10 < 100 = true\n", " rest = 10 - 10 = 0\n", "?\n",
)  # fmt: skip
POLICIES: Final = st.builds(
    Policy,
    rules=st.just(()) | st.lists(st.sampled_from(Action), min_size=1, max_size=4, unique=True).map(always),
    attempts=st.integers(0, 5),
    deliver=st.sampled_from(["hold_step", "hold_all"]),
)


def commands(run: Run, pieces: Sequence[str]) -> list[Command]:
    """All that a run wants while an upstream writes these pieces, and nothing behind them."""
    found = run.start()
    for piece in [*pieces, *[""] * 30]:
        if isinstance(found[-1], Finish):
            break
        happened = Waited() if isinstance(found[-1], Wait) else Text(piece) if piece else Ended("stop")
        found += run.handle(happened)
    return found


def told(found: list[Command]) -> list[Command]:
    """All but what leaves when; where there is no answer, a stream may still have delivered something."""
    *others, finish = (command for command in found if not isinstance(command, Emit))
    assert isinstance(finish, Finish)
    return [*others, replace(finish, discarded=()) if finish.answer is None else finish]


@given(
    text=st.sampled_from([SUMS, ORDER, SHARES]),
    target=st.sampled_from([PREFILL, DIALOGUE]),
    policy=POLICIES,
    pieces=st.lists(st.sampled_from(LINES), max_size=14),
)
@settings(max_examples=150, deadline=None)
def test_both_kinds_of_client_are_served_alike(
    text: str, target: object, policy: Policy, pieces: list[str]
) -> None:
    streamed, whole = (
        commands(Run(job(text, JOBS[text], whole=whole), policy, [target]), pieces)  # type: ignore[list-item]
        for whole in (False, True)
    )
    finish = whole[-1]
    assert isinstance(finish, Finish)
    assert told(streamed) == told(whole)
    if finish.answer is None:
        assert not any(isinstance(c, Emit) for c in whole)
    else:
        assert [c for c in streamed if isinstance(c, Emit)] == [c for c in whole if isinstance(c, Emit)]
        assert all(isinstance(c, Emit) for c in whole[-1 - len(finish.classes) : -1])


@pytest.mark.parametrize("whole", [False, True])
def test_a_restart_is_passed_over_behind_a_step_for_either(whole: bool) -> None:
    policy = Policy(rules=always([Rung(Action.RESTART, 1), Action.REJECT]))
    run = Run(job(SUMS, {"x": 3, "y": 4}, whole=whole), policy, [PREFILL])
    found = commands(run, [" a = 3 + 4 = 7\n", "nonsense\n"])
    finish = found[-1]
    assert isinstance(finish, Finish)
    assert sum(isinstance(command, Open) for command in found) == 1
    assert finish.outcome is Outcome.REJECTED
    assert finish.error is not None
    assert finish.error.code == Kind.MALFORMED.value
    assert "steps were delivered, which forbids a restart" in finish.error.message


@pytest.mark.parametrize("whole", [False, True])
def test_where_all_is_held_a_restart_is_possible_for_either(whole: bool) -> None:
    policy = Policy(rules=always([Rung(Action.RESTART, 1), Action.REJECT]), deliver="hold_all")
    run = Run(job(SUMS, {"x": 3, "y": 4}, whole=whole), policy, [PREFILL])
    found = commands(run, [" a = 3 + 4 = 7\n", "nonsense\n"])
    assert sum(isinstance(command, Open) for command in found) == 3, "for nonsense, and for no answer"

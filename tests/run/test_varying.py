"""Temperatures and seeds of one try after the other."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Final

import pytest

from guard.check.verdict import Kind
from guard.run.messages import Strategy
from guard.run.policy import Attempt, Policy, Vary
from guard.run.varying import draws, seed, temperature, tries
from tests.run.attempts import failed

POLICY: Final = Policy()


def test_retries_raise_the_temperature_to_a_ceiling() -> None:
    assert [temperature(POLICY, 0.0, n) for n in range(8)] == [0.0, 0.5, 0.65, 0.8, 0.95, 1.1, 1.2, 1.2]
    assert temperature(POLICY, 1.5, 3) == 1.5, "never lowered"


def test_the_temperature_is_left_alone_where_nobody_asked_for_one_or_it_may_not_vary() -> None:
    assert temperature(POLICY, None, 3) is None
    assert temperature(Policy(vary=frozenset()), 0.2, 3) == 0.2


def test_each_retry_has_a_seed_of_its_own() -> None:
    assert [seed(POLICY, 7, n) for n in range(3)] == [7, 8, 9]
    assert seed(POLICY, None, 3) is None
    assert seed(Policy(vary=frozenset()), 7, 3) == 7
    assert [seed(POLICY, 2**63 - 1, n) for n in range(2)] == [2**63 - 1, 2**63 - 2], "64 bits hold no more"


def test_a_resume_is_like_what_failed_before_it_and_a_scaffold_is_not() -> None:
    history = [
        failed(Kind.WRONG_VALUE),
        failed(Kind.WRONG_VALUE, Strategy.RESUME, number=1),
        failed(Kind.WRONG_VALUE, Strategy.SCAFFOLD, number=2),
    ]
    assert tries(history, Strategy.RESUME, "3", 0) == 2
    assert tries(history, Strategy.SCAFFOLD, "3", 0) == 1
    assert tries(history, Strategy.SCAFFOLD, "4", 0) == 0
    assert tries(history, Strategy.RESUME, "3", 1) == 1
    assert tries(history, Strategy.FALLBACK, "3", 1) == 0
    assert tries(history, Strategy.DECISION, "3", 0) == 0


TRIED: Final = (Strategy.RESUME, Strategy.FEEDBACK, Strategy.SCAFFOLD, Strategy.RESTART)


@pytest.mark.parametrize(("last", "then"), list(product(TRIED, repeat=2)))
@pytest.mark.parametrize("before", [[], [Strategy.RESUME], [Strategy.SCAFFOLD, Strategy.FEEDBACK]])
def test_behind_an_equal_answer_it_only_gets_hotter(
    last: Strategy, then: Strategy, before: list[Strategy]
) -> None:
    history = [failed(Kind.WRONG_VALUE, opened_at="3")]
    for number, strategy in enumerate([*before, last], 1):
        asked = tries(history, strategy, "3", 0)
        history.append(failed(Kind.WRONG_VALUE, strategy, number=number, opened_at="3"))
    history[-2] = replace(history[-2], text=history[-1].text)
    assert tries(history, then, "3", 0) > asked


def test_feedback_goes_on_where_a_resume_has_come_to() -> None:
    history = [failed(Kind.WRONG_VALUE), failed(Kind.WRONG_VALUE, Strategy.RESUME)]
    assert tries(history, Strategy.FEEDBACK, "3", 0) == tries(history, Strategy.RESUME, "3", 0) == 2
    history.append(failed(Kind.WRONG_VALUE, Strategy.FEEDBACK))
    assert tries(history, Strategy.RESUME, "3", 0) == 3


def test_what_a_fault_ended_is_asked_for_once_more_as_it_was() -> None:
    history = [failed(Kind.WRONG_VALUE), failed(Kind.WRONG_VALUE, Strategy.RESUME)]
    for strategy in (Strategy.RESUME, Strategy.TRANSPORT, Strategy.TRANSPORT):
        asked = tries(history, strategy, "3", 0)
        fault = Attempt(upstream=0, strategy=strategy, step="3", counted=False, prefix="", fault=True)
        history.append(fault)
        assert tries(history, Strategy.TRANSPORT, "3", 0) == asked == 2
        assert draws(history, Strategy.TRANSPORT) == 2
    assert tries(history, Strategy.TRANSPORT, "4", 0) == 0


def test_a_fault_behind_another_step_ended_no_further_try() -> None:
    history = [failed(Kind.WRONG_VALUE, Strategy.RESUME), failed(Kind.WRONG_VALUE, at="4")]
    history.append(
        Attempt(upstream=0, strategy=Strategy.TRANSPORT, step="3", counted=False, prefix="", fault=True)
    )
    assert tries(history, Strategy.TRANSPORT, "3", 0) == 0


SCHEDULE: Final = [Strategy.INITIAL, Strategy.RESUME, Strategy.FEEDBACK, Strategy.SCAFFOLD, Strategy.SCAFFOLD]


@pytest.mark.parametrize(
    ("policy", "temperatures", "seeds"),
    [
        (Policy(), [0.2, 0.5, 0.65, 0.2, 0.5], [None] * 5),
        (Policy(seed=40), [0.2, 0.5, 0.65, 0.2, 0.5], [40, 41, 42, 43, 44]),
        (Policy(seed=40, temperatures=(0.1, 0.9)), [0.2, 0.9, 0.9, 0.2, 0.9], [40, 41, 42, 43, 44]),
        (Policy(seed=40, temperatures=(None,)), [0.2] * 5, [40, 41, 42, 43, 44]),
        (Policy(seed=40, temperatures=(0.3,)), [0.3] * 5, [40, 41, 42, 43, 44]),
        (Policy(seed=40, vary=frozenset({Vary.TEMPERATURE})), [0.2, 0.5, 0.65, 0.2, 0.5], [40] * 5),
        (Policy(seed=40, vary=frozenset({Vary.SEED})), [0.2] * 5, [40, 41, 42, 43, 44]),
        (Policy(seed=40, vary=frozenset()), [0.2] * 5, [40] * 5),
    ],
)
def test_a_schedule_says_temperature_and_seed_of_each_try(
    policy: Policy, temperatures: list[float], seeds: list[int | None]
) -> None:
    history: list[Attempt] = []
    asked: list[tuple[float | None, int | None]] = []
    for strategy in SCHEDULE:
        number = tries(history, strategy, "3", 0)
        drawn = draws(history, strategy)
        asked.append((temperature(policy, 0.2, number), seed(policy, None, drawn)))
        history.append(failed(Kind.WRONG_VALUE, strategy, number=len(history)))
    assert asked == list(zip(temperatures, seeds, strict=True))
    assert seed(replace(policy, vary=frozenset(Vary)), 7, 2) == 9, "the client's comes before the policy's"

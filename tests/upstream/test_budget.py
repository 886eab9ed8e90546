"""However requests, retries and their ends come, retries stay a share of what there was."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from guard.upstream.budget import Begun, RetryBudget

# What happens: how much later, whether it is a retry, how long it runs, and whether it never begins after all.
HAPPENING = st.tuples(st.floats(0, 3), st.booleans(), st.floats(0, 40), st.booleans())


@settings(max_examples=200)
@given(
    st.lists(HAPPENING, max_size=60),
    st.floats(0, 100),
    st.floats(0.5, 20),
    st.integers(0, 5),
)
def test_a_retry_begins_exactly_where_there_is_room_for_it(
    happenings: list[tuple[float, bool, float, bool]], percent: float, window_s: float, minimum: int
) -> None:
    budget = RetryBudget(percent=percent, window_s=window_s, minimum=minimum)
    now = 0.0
    running: list[tuple[float, Begun, bool]] = []
    counted: list[tuple[float, float, bool]] = []  # begun, ended, whether it is a retry
    for later, retry, takes, withdrawn in happenings:
        now += later
        for entry in [entry for entry in running if entry[0] <= now]:
            over, begun, gone = entry
            running.remove(entry)
            if gone:
                budget.withdraw(begun)
                counted.remove((begun.at, over, begun.retry))
            else:
                budget.end(begun)
        there = [r for begun_at, ended_at, r in counted if begun_at > now - window_s or ended_at > now]
        room = sum(there) < max(minimum, (len(there) - sum(there)) * percent / 100)
        started = budget.begin(now, retry=retry)
        assert (started is not None) is (not retry or room)
        if started is not None:
            running.append((now + takes, started, withdrawn))
            counted.append((now, now + takes, retry))


def test_of_a_hundred_requests_a_second_that_all_fail_a_fifth_is_tried_again() -> None:
    budget = RetryBudget()
    retried = 0
    for number in range(3000):  # 30 seconds
        now = number / 100
        first = budget.begin(now, retry=False)
        assert first is not None
        budget.end(first)
        again = budget.begin(now, retry=True)
        if again is not None:
            retried += 1
            budget.end(again)
    assert 550 <= retried <= 3000 * 0.2 + 3


def test_the_first_three_retries_are_free_and_the_window_moves() -> None:
    budget = RetryBudget()
    assert [budget.begin(0.0, retry=True) is not None for _ in range(4)] == [True, True, True, False]
    assert budget.begin(9.9, retry=True) is None
    assert budget.begin(60.0, retry=True) is None, "those three are still running"


def test_what_is_over_counts_until_the_window_has_passed_it() -> None:
    budget = RetryBudget(minimum=1)
    begun = budget.begin(0.0, retry=True)
    assert begun is not None
    budget.end(begun)
    budget.end(begun)
    assert budget.begin(9.9, retry=True) is None
    again = budget.begin(10.0, retry=True)
    assert again is not None
    assert budget.begin(25.0, retry=True) is None
    budget.end(again)
    budget.end(again)
    assert budget.begin(25.0, retry=True) is not None


@pytest.mark.parametrize("percent", [0, 100])
def test_a_budget_may_be_nothing_or_everything(percent: float) -> None:
    budget = RetryBudget(percent=percent, minimum=0)
    for _ in range(5):
        budget.begin(0.0, retry=False)
    assert sum(budget.begin(1.0, retry=True) is not None for _ in range(10)) == (5 if percent else 0)


def test_nothing_is_kept_of_what_is_long_over() -> None:
    budget = RetryBudget()
    for number in range(10_000):
        begun = budget.begin(number / 10, retry=False)
        assert begun is not None
        budget.end(begun)
    assert len(budget._requests._recent) <= 101

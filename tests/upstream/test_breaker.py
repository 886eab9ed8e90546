"""The breaker under any order of requests and results, and its times told one by one."""

from __future__ import annotations

from unittest import TestCase

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from guard.upstream.breaker import Breaker, Pass, State


class Requests(RuleBasedStateMachine):
    """Requests that overlap as they like."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker(failures=3, open_s=10, longest_s=40)
        self.now = 0.0
        self.held: list[Pass] = []
        self.opened_at: float | None = None

    @rule(later=st.sampled_from([0.0, 1.0, 9.0, 40.0]))
    def time_passes(self, later: float) -> None:
        self.now += later

    @rule(anyway=st.booleans())
    def asks(self, anyway: bool) -> None:
        before = self.breaker.state
        held = self.breaker.ask(self.now, anyway=anyway)
        assert held is not None or not (anyway or before is State.CLOSED)
        if before is State.OPEN and held is not None and not anyway:
            assert held.probe
            assert self.opened_at is not None
            assert self.now >= self.opened_at + 10
        if held is not None:
            self.held.append(held)

    @rule(data=st.data(), how=st.sampled_from(["well", "ill", "nobody knows"]))
    def ends(self, data: st.DataObject, how: str) -> None:
        if not self.held:
            return
        held = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        before = self.breaker.state
        match how:
            case "well":
                self.breaker.succeeded(held)
                assert self.breaker.state in {before, State.CLOSED}
            case "ill":
                self.breaker.failed(held, self.now)
                assert self.breaker.state in {before, State.OPEN}
            case _:
                self.breaker.abandoned(held)
                assert self.breaker.state is before
        if self.breaker.state is State.OPEN is not before:
            self.opened_at = self.now

    @invariant()
    def there_is_one_probe_at_most(self) -> None:
        probes = [held for held in self.held if held.probe and held.changes == self.breaker._changes]
        assert len(probes) <= 1
        assert not probes or self.breaker.state is State.HALF_OPEN

    @invariant()
    def it_is_never_left_alone_for_longer_than_the_longest(self) -> None:
        assert self.breaker.left_s(self.now) <= 40


class TestRequests(TestCase):
    runTest = Requests.TestCase.runTest  # noqa: N815 (unittest's name)
    settings = Requests.TestCase.settings = settings(max_examples=60, stateful_step_count=40)


def is_in(breaker: Breaker, state: State) -> bool:
    return breaker.state is state


def asked(breaker: Breaker, now: float = 0.0, *, anyway: bool = False) -> Pass:
    held = breaker.ask(now, anyway=anyway)
    assert held is not None
    return held


def fails(breaker: Breaker, times: int, now: float = 0.0) -> None:
    for _ in range(times):
        breaker.failed(asked(breaker, now), now)


def test_faults_in_a_row_open_it_and_one_success_between_them_does_not() -> None:
    breaker = Breaker()
    fails(breaker, 4)
    breaker.succeeded(asked(breaker))
    fails(breaker, 4)
    assert is_in(breaker, State.CLOSED)
    fails(breaker, 1)
    assert is_in(breaker, State.OPEN)
    assert breaker.ask(29.9) is None


def test_each_failed_probe_doubles_the_time_up_to_the_longest_and_a_success_forgets_it() -> None:
    breaker = Breaker(failures=1)
    fails(breaker, 1)
    now, times = 0.0, []
    for _ in range(7):
        times.append(breaker.left_s(now))
        now += breaker.left_s(now)
        fails(breaker, 1, now)
    assert times == [30, 60, 120, 240, 300, 300, 300]
    now += 300
    breaker.succeeded(asked(breaker, now))
    assert is_in(breaker, State.CLOSED)
    fails(breaker, 1, now)
    assert breaker.left_s(now) == 30


def test_one_request_tries_it_again_while_the_others_keep_away() -> None:
    breaker = Breaker(failures=1)
    fails(breaker, 1)
    probe = asked(breaker, 30)
    assert probe.probe
    assert [breaker.ask(30 + n) for n in range(5)] == [None] * 5
    breaker.succeeded(probe)
    assert not asked(breaker, 31).probe


def test_a_probe_that_was_broken_off_leaves_its_place_to_the_next() -> None:
    breaker = Breaker(failures=1)
    fails(breaker, 1)
    breaker.abandoned(asked(breaker, 30))
    assert is_in(breaker, State.HALF_OPEN)
    assert asked(breaker, 30).probe


def test_who_has_nowhere_else_to_go_is_let_through_and_can_close_it_but_not_lengthen_it() -> None:
    breaker = Breaker(failures=1)
    fails(breaker, 1)
    breaker.failed(asked(breaker, 5, anyway=True), 5)
    assert breaker.left_s(5) == 25
    breaker.succeeded(asked(breaker, 6, anyway=True))
    assert is_in(breaker, State.CLOSED)


def test_what_began_before_it_changed_says_nothing_any_more() -> None:
    breaker = Breaker(failures=1)
    early = [asked(breaker) for _ in range(3)]
    fails(breaker, 1)
    breaker.succeeded(early[0])
    assert is_in(breaker, State.OPEN)
    breaker.succeeded(asked(breaker, 30))
    breaker.failed(early[1], 31)
    breaker.abandoned(early[2])
    assert is_in(breaker, State.CLOSED)


@pytest.mark.parametrize("faults", [1, 100])
def test_it_can_be_told_never_to_open(faults: int) -> None:
    breaker = Breaker(failures=0)
    fails(breaker, faults)
    assert is_in(breaker, State.CLOSED)

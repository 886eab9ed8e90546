"""No policy can go on for ever, whatever the upstreams do: every loop of decisions has a bound."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

import hypothesis.strategies as st
from hypothesis import given, settings

from guard.check.verdict import Kind
from guard.procedure.model import StepKind
from guard.run.ladders import LADDERS, Action, Rule, Rung
from guard.run.messages import Strategy, Target
from guard.run.policy import Attempt, Choice, Policy, decide

STEPS: Final = 5
NAMES: Final = ["a", "b", "c"]
KINDS: Final = [Kind.WRONG_VALUE, Kind.MALFORMED, Kind.TRUNCATED, Kind.TRUNCATED, Kind.MISSING_ANSWER]
RUNGS: Final = st.builds(
    Rung,
    st.sampled_from(Action),
    st.sampled_from([None, 1, 2, 4, "all"]),
    st.none() | st.sampled_from([*NAMES, "z"]),
)
RULES: Final = st.builds(
    Rule,
    ladder=st.lists(RUNGS, min_size=1, max_size=6).map(tuple),
    kinds=st.frozensets(st.sampled_from(KINDS), max_size=2),
    steps=st.frozensets(st.sampled_from([StepKind.ASSIGN, StepKind.EXTRACT]), max_size=1),
)
POLICIES: Final = st.builds(
    Policy,
    attempts=st.integers(0, 30),
    attempts_per_step=st.integers(1, 5),
    attempts_per_upstream=st.dictionaries(st.sampled_from(NAMES), st.integers(1, 9)),
    rules=st.lists(RULES, max_size=4).map(tuple),
)


@dataclass
class Loop:
    """A run as the policy sees it, and upstreams that do the worst that they can."""

    policy: Policy
    upstreams: list[Target]
    random: Random
    history: list[Attempt] = field(default_factory=list)
    at: int = 1  # the step that is due
    upstream: int = 0
    delivered: bool = False
    restarts: int = 0
    free: int = 0  # generations that no policy decided on
    strategy: Strategy = Strategy.INITIAL
    counted: bool = False

    def goes_on(self) -> bool:
        """Let a generation fail; whether there is another one."""
        opened, advances = self.at, self.random.choice([0, 0, 0, 1, 2])
        self.at += advances
        if self.at > STEPS:
            return False
        self.delivered |= self.random.random() < 0.1
        self.history.append(self.failed(opened, advances))
        choice = decide(self.policy, self.history, upstreams=self.upstreams)
        return self.take(choice)

    def failed(self, opened: int, advances: int) -> Attempt:
        last = self.history[-1] if self.history else None
        repeats = last is not None and self.random.random() < 0.2
        return Attempt(
            upstream=self.upstream,
            strategy=self.strategy,
            step=str(opened),
            counted=self.counted,
            prefix=f"up to {opened}",
            kind=self.random.choice(KINDS),
            failed_at=str(self.at),
            step_kind=self.random.choice([StepKind.ASSIGN, StepKind.EXTRACT, None]),
            found=str(self.random.randrange(3)) if repeats else f"{len(self.history)}",
            text=last.text if last is not None and repeats and not advances else f"text {len(self.history)}",
            delivered=self.delivered,
            scaffoldable=self.random.random() < 0.7,
            repairable=self.random.random() < 0.5,
            written=self.random.random() < 0.5,
        )

    def take(self, choice: Choice) -> bool:
        if choice.action in {Action.REJECT, Action.RELEASE}:
            return False
        self.strategy, self.counted = Strategy(choice.action.value), choice.counted
        if choice.action is Action.RESTART:
            assert not self.delivered
            self.at, self.restarts = 1, self.restarts + 1
        elif choice.action is Action.REPAIR:
            self.at, self.free = self.at + 1, self.free + 1
        elif choice.upstream is not None:
            assert choice.upstream not in {attempt.upstream for attempt in self.history}
            self.upstream = choice.upstream
        return self.at <= STEPS

    @property
    def bound(self) -> int:
        """The most generations that there can be."""
        ladders = [rule.ladder for rule in self.policy.rules] + list(LADDERS.values())
        cap = self.policy.attempts_per_step
        most = max(
            sum(rung.times if isinstance(rung.times, int) else cap for rung in ladder) for ladder in ladders
        )
        uncounted = len(self.upstreams) * (STEPS * most + most + 1)  # at each step; restarts; the fallback
        restarts = self.policy.attempts + len(self.upstreams) * most
        return 1 + self.policy.attempts + uncounted + STEPS * (restarts + 1)


@settings(max_examples=300, deadline=None)
@given(policy=POLICIES, standby=st.lists(st.booleans(), min_size=1, max_size=3), random=st.randoms())
def test_every_loop_of_decisions_ends(policy: Policy, standby: list[bool], random: Random) -> None:
    upstreams = [
        Target(name=name, model="m", prefill=True, dialect=None, standby=waits)
        for name, waits in zip(NAMES, standby, strict=False)
    ]
    loop = Loop(policy, upstreams, random)
    while loop.goes_on():
        assert len(loop.history) <= loop.bound
    counted = [attempt for attempt in loop.history if attempt.counted]
    assert len(counted) <= policy.attempts
    assert loop.free <= STEPS * (loop.restarts + 1)
    for name, cap in policy.attempts_per_upstream.items():
        on = sum(upstreams[attempt.upstream].name == name for attempt in counted)
        assert on <= cap


def test_a_choice_hangs_on_nothing_but_the_history() -> None:
    loop = Loop(Policy(), [Target(name="a", model="m", prefill=True, dialect=None)], Random(7))
    while loop.goes_on():
        again = [decide(loop.policy, list(loop.history), upstreams=list(loop.upstreams)) for _ in range(2)]
        assert again[0] == again[1]
    assert len(loop.history) > 1

"""Whatever the upstreams of a race do, and in whichever order: one lane is shown, and nothing unverified."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from guard.check.checker import Checker
from guard.check.verdict import Verdict
from guard.errors import UpstreamError
from guard.run.endings import ACCEPTED
from guard.run.messages import (
    Cancelled,
    Close,
    Command,
    Emit,
    Ended,
    Failed,
    Finish,
    Observe,
    Open,
    Outcome,
    OutOfTime,
    Relay,
    Result,
    RunEvent,
    Strategy,
    Target,
    Text,
    Wait,
    Waited,
)
from guard.run.policy import Policy
from guard.run.race import STRAIGHT_ON, Race
from guard.trace import render
from tests.run.machines import played
from tests.run.procedures import NONCE, ORDER, SHARES, SUMS, job, program
from tests.run.test_run_machine import FAULTS, JOBS, POLICIES, TARGETS, fitting

MOST_TOKENS = 9  # of a piece
STOPS = (OutOfTime(), Cancelled())


class Upstreams(RuleBasedStateMachine):
    """Upstreams of several lanes, each of which answers as it likes."""

    text: str

    @initialize(
        policy=POLICIES,
        lanes=st.integers(2, 4),
        upstreams=st.lists(TARGETS, min_size=1, max_size=2),
        max_tokens=st.none() | st.integers(1, 100),
    )
    def begin(self, policy: Policy, lanes: int, upstreams: list[Target], max_tokens: int | None) -> None:
        self.policy = replace(policy, race=lanes)
        self.program, self.inputs = program(self.text), JOBS[self.text]
        self.limit = min(policy.output_tokens, max_tokens or policy.output_tokens)
        self.race = Race(job(self.text, self.inputs, max_tokens=max_tokens), self.policy, upstreams)
        self.opens: list[Open] = []
        self.closes: dict[int, Close] = {}
        self.open: list[int] = []
        self.lines: dict[int, str] = {}  # of each open generation, what was said of its last line
        self.finish: Finish | None = None
        self.waiting = False
        self.emitted = ""
        self.counted = 0  # tokens
        self.perform(self.race.start())

    def perform(self, commands: list[Command]) -> None:
        for command in commands:
            assert self.finish is None, "nothing comes behind the end"
            assert not self.waiting, "a wait is the last of its commands"
            match command:
                case Open():
                    self.opens.append(command)
                    assert command.generation == len(self.opens), "numbered as they are opened"
                    assert 1 <= command.max_tokens <= self.limit
                    self.open.append(command.generation)
                    self.lines[command.generation] = command.prefix.rpartition("\n")[2]
                    assert not (self.emitted and len(self.open) > 1), "the race was over"
                    straight = command.strategy in STRAIGHT_ON | {Strategy.RACE}
                    assert straight or len(self.open) == 1, "who tries again is alone"
                case Close(generation=generation):
                    self.open.remove(generation)
                    self.closes[generation] = command
                case Relay():
                    raise AssertionError("no thought leaves unless the policy lets it")
                case Emit(text=text):
                    assert len(self.open) <= 1, "nothing leaves as long as lanes race"
                    self.emitted += text
                case Wait():
                    assert not self.open
                    self.waiting = True
                case Observe(generation=generation):
                    assert 0 < generation <= len(self.opens) or not self.opens
                case Finish():
                    self.finish = command

    def tell(self, event: RunEvent, generation: int) -> None:
        if isinstance(event, Text):
            self.counted += event.tokens
            self.lines[generation] = (self.lines[generation] + event.text).rpartition("\n")[2]
        self.perform(self.race.handle(event, generation))

    # --- what they may answer --------------------------------------------------------------------

    def right(self, generation: int, value: int, *, wrong: bool = False) -> str:
        """The line that is due in a lane; or the rest of it."""
        progress = self.race._owners[generation - 1].run._progress
        if not self.opens[generation - 1].prefix and not progress.verified:
            return f"@begin {self.program.name} {NONCE}\n"
        due = progress.expected
        if due is None:
            return f"@end {NONCE}\n"
        whole = render.line(due, fitting(due, value), ("Six panels",) if due.decision else ()) + "\n"
        if wrong:
            whole = whole.replace("1", "7").replace("true", "false") + "x" * (whole.find("1") < 0)
        said = self.lines[generation]
        return whole.removeprefix(said) if whole.startswith(said) else "\n"

    def pick(self, which: int) -> int:
        return self.open[which % len(self.open)]

    def writing(self) -> bool:
        return self.finish is None and bool(self.open)

    @precondition(writing)
    @rule(
        which=st.integers(0, 3),
        lines=st.integers(1, 8),
        value=st.sampled_from([6, 6, 10, 60]),
        tokens=st.integers(0, MOST_TOKENS),
        ends=st.booleans(),
    )
    def writes_on(self, which: int, lines: int, value: int, tokens: int, *, ends: bool) -> None:
        generation = self.pick(which)
        for _ in range(lines):
            if generation in self.open:
                self.tell(Text(self.right(generation, value), tokens), generation)
        if ends and generation in self.open:
            self.tell(Ended("stop"), generation)

    @precondition(writing)
    @rule(which=st.integers(0, 3), value=st.integers(1, 60))
    def writes_something_wrong(self, which: int, value: int) -> None:
        generation = self.pick(which)
        self.tell(Text(self.right(generation, value, wrong=True)), generation)

    @precondition(writing)
    @rule(which=st.integers(0, 3), text=st.text(alphabet='1234 abc=+{}"<-\n@.', max_size=20))
    def writes_anything(self, which: int, text: str) -> None:
        self.tell(Text(text), self.pick(which))

    @precondition(writing)
    @rule(which=st.integers(0, 3), finish_reason=st.sampled_from(["stop", "length", None]))
    def ends(self, which: int, finish_reason: str | None) -> None:
        self.tell(Ended(finish_reason), self.pick(which))

    @precondition(writing)
    @rule(which=st.integers(0, 3), fault=st.sampled_from(FAULTS), rare=st.integers(0, 2))
    def fails(self, which: int, fault: UpstreamError, rare: int) -> None:
        if rare == 0:
            self.tell(Failed(fault), self.pick(which))

    @precondition(lambda self: self.waiting)
    @rule()
    def waited(self) -> None:
        self.waiting = False
        self.tell(Waited(), 0)

    @precondition(lambda self: self.finish is None)
    @rule(event=st.sampled_from(STOPS), rare=st.integers(0, 9))
    def breaks_off(self, event: OutOfTime | Cancelled, rare: int) -> None:
        if rare == 0:
            self.waiting = False
            self.tell(event, 0)

    @precondition(lambda self: self.finish is not None)
    @rule()
    def is_over(self) -> None:
        """Nothing can happen any more."""

    # --- what must hold --------------------------------------------------------------------------

    @invariant()
    def it_goes_on_or_is_over(self) -> None:
        if hasattr(self, "race"):
            assert bool(self.open) + self.waiting + (self.finish is not None) == 1

    @invariant()
    def what_was_emitted_is_verified(self) -> None:
        if self.emitted:
            text = f"@begin {self.program.name} {NONCE}\n{self.emitted}"
            assert Checker(self.program, self.inputs, nonce=NONCE, verified=text).verified == text

    @invariant()
    def the_budget_is_for_all(self) -> None:
        # One piece too many in each lane; and an answer may still be closed, in two pieces.
        assert self.counted <= self.limit + MOST_TOKENS * (3 + self.policy.race)

    @invariant()
    def the_end_is_right(self) -> None:
        finish = self.finish
        if finish is None:
            return
        assert not self.open, "no generation is left open"
        assert finish.generations == len(self.opens) == len(finish.usage)
        assert finish.usage == tuple(self.closes[number].usage for number in sorted(self.closes))
        assert finish.raced is not None
        assert finish.raced.lanes == self.policy.race
        assert all(lane != finish.raced.lane for lane, _ in finish.raced.lost)
        if finish.outcome in ACCEPTED:
            assert finish.trace == f"@begin {self.program.name} {NONCE}\n{self.emitted}@end {NONCE}\n"
            checker = Checker(self.program, self.inputs, nonce=NONCE)
            checker.feed(finish.trace)
            assert checker.verdict is Verdict.PASSED
        elif finish.outcome is Outcome.RELEASED:
            assert finish.answer is not None  # empty where the model wrote nothing but lines
        else:
            assert finish.answer is None
            assert not (self.emitted and self.policy.deliver == "hold_all")
        lost = [close for close in self.closes.values() if close.result is Result.LOST]
        assert len(lost) < self.policy.race

    def teardown(self) -> None:
        """However stubborn they are, the race comes to an end."""
        if not hasattr(self, "race"):
            return
        for number in range(800):
            if self.finish is not None:
                break
            if self.waiting:
                self.waited()
            else:
                self.tell(Text(f"nonsense {number}\n", 1), self.pick(number))  # what is released is read on
        assert self.finish is not None, "the race never ends"
        self.the_end_is_right()


TestSums = played(Upstreams, SUMS)
TestOrder = played(Upstreams, ORDER)
TestShares = played(Upstreams, SHARES)

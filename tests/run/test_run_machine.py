"""Whatever an upstream does, a run ends once, within its budgets, and shows nothing unverified."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Final

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from guard.check.checker import Checker
from guard.check.verdict import Kind, Verdict
from guard.dialect.lark import Level
from guard.dialect.notation import Dialect
from guard.errors import (
    UpstreamBusy,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamSpared,
    UpstreamStatusError,
    UpstreamTimeout,
)
from guard.procedure.expected import Expected
from guard.procedure.model import StepKind
from guard.procedure.types import EnumType, Value
from guard.run.endings import ACCEPTED
from guard.run.ladders import Action, Rule, Rung, always
from guard.run.messages import (
    Cancelled,
    Close,
    Command,
    Emit,
    Ended,
    Failed,
    Finish,
    Margin,
    Observe,
    Open,
    Outcome,
    OutOfTime,
    Relay,
    RunEvent,
    StepClass,
    Strategy,
    Target,
    Text,
    Usage,
    Wait,
    Waited,
)
from guard.run.policy import ForceBy, Policy, Vary, Votes
from guard.run.run import Run
from guard.trace import render
from tests.run.machines import played
from tests.run.procedures import NONCE, NOTE, ORDER, SHARES, STOCK, SUMS, job, program

JOBS: Final[dict[str, dict[str, Value]]] = {
    SUMS: {"x": 3, "y": 4},
    ORDER: {"note": NOTE},
    SHARES: {"note": NOTE},
    STOCK: {"counts": (3, 4), "least": 5},
}
FAULTS: Final = (
    UpstreamTimeout("nothing came"),
    UpstreamProtocolError("HTML"),
    UpstreamBusy("busy", upstream_status=503, retry_after_s=1),
    UpstreamBusy("busy", upstream_status=429, retry_after_s=99),
    UpstreamStatusError("no", upstream_status=404),
    UpstreamSpared("it fails", reason="breaker"),
)
TARGETS: Final = st.builds(
    Target,
    name=st.sampled_from(["x", "y", "z"]),
    model=st.just("m"),
    prefill=st.booleans(),
    dialect=st.sampled_from([None, Dialect.GBNF, Dialect.JSON_SCHEMA]),
    temperature=st.sampled_from([None, 0.0]),
    standby=st.booleans(),
)
RUNGS: Final = st.builds(
    Rung,
    st.sampled_from(Action),
    st.none() | st.integers(1, 3),
    st.sampled_from([None, None, "x", "y", "nobody"]),
)
RULES: Final = st.builds(
    Rule,
    ladder=st.lists(RUNGS, min_size=1, max_size=5).map(tuple),
    kinds=st.frozensets(st.sampled_from(Kind), max_size=2),
    steps=st.frozensets(st.sampled_from([StepKind.ASSIGN, StepKind.EXTRACT]), max_size=1),
)
POLICIES: Final = st.builds(
    Policy,
    attempts=st.integers(0, 4),
    attempts_per_step=st.integers(1, 3),
    attempts_per_upstream=st.dictionaries(st.sampled_from(["x", "y"]), st.integers(0, 2)),
    transport_retries=st.integers(0, 2),
    rules=st.one_of(
        st.just(()),
        st.lists(st.sampled_from(Action), max_size=5, unique=True).map(always),
        st.lists(RULES, max_size=3).map(tuple),
    ),
    force=st.sampled_from(Level),
    force_by=st.sampled_from(ForceBy),
    parallel=st.just(1),  # several at once are played elsewhere
    output_tokens=st.integers(20, 400),
    deliver=st.sampled_from(["hold_step", "hold_all"]),
    vary=st.frozensets(st.sampled_from(Vary)),
    votes=st.none() | st.builds(Votes, ahead=st.integers(1, 3), most=st.integers(1, 4)),
)
MOST_STEPS: Final = 12  # of the procedures above


class Upstream(RuleBasedStateMachine):
    """An upstream that answers as it likes."""

    text: str

    @initialize(
        policy=POLICIES,
        upstreams=st.lists(TARGETS, min_size=1, max_size=3),
        max_tokens=st.none() | st.integers(1, 100),
    )
    def begin(self, policy: Policy, upstreams: list[Target], max_tokens: int | None) -> None:
        self.policy, self.targets = policy, upstreams
        self.program, self.inputs = program(self.text), JOBS[self.text]
        self.limit = min(policy.output_tokens, max_tokens or policy.output_tokens)
        self.run = Run(job(self.text, self.inputs, max_tokens=max_tokens), policy, upstreams)
        self.commands: list[Command] = []
        self.open: Open | None = None
        self.finish: Finish | None = None
        self.waiting = False
        self.line = ""  # of the answer, so far
        self.emitted = ""
        self.perform(self.run.start())

    # --- what the engine would do ----------------------------------------------------------------

    def tell(self, event: RunEvent) -> None:
        if isinstance(event, Text):
            self.line = (self.line + event.text).rpartition("\n")[2]
            self.said += event.text
        self.perform(self.run.handle(event))

    def perform(self, commands: list[Command]) -> None:
        for command in commands:
            assert self.finish is None, "nothing comes behind the end"
            assert not self.waiting, "a wait is the last of its commands"
            self.commands.append(command)
            match command:
                case Open():
                    self.opened(command)
                case Close(generation=number, usage=usage, discarded=discarded):
                    assert self.open is not None
                    assert number == self.open.generation
                    assert 0 <= discarded <= max(usage.completion, 0)
                    self.open = None
                case Wait(seconds):
                    assert 0 <= seconds < self.left_s
                    self.waiting = True
                case Relay():
                    raise AssertionError("no thought leaves unless the policy lets it")
                case Emit(text=text):
                    self.emitted += text
                case Finish():
                    self.finish = command
                case Observe():
                    pass

    def opened(self, command: Open) -> None:
        assert self.open is None, "one generation at a time"
        before = [c for c in self.commands if isinstance(c, Open)]
        assert command.generation == len(before)
        assert command.prefix == command.prefix.rstrip()
        said = [str(m["content"]) for m in command.messages if m["role"] == "assistant"]
        assert said == [content.rstrip() for content in said]
        assert 1 <= command.max_tokens <= self.limit
        assert command.resume_from
        assert not command.prefix or any(target.prefill for target in self.targets)
        roles = [message["role"] for message in command.messages]
        if command.isolated:
            assert roles == ["user", *["assistant", "user"] * (len(roles) // 2)]
        else:
            assert roles in (["user"], ["user", "assistant", "user"])
        self.open = command
        self.line = command.prefix.rpartition("\n")[2]
        self.said = ""  # by this generation

    # --- what it may answer ----------------------------------------------------------------------

    def right(self, value: Value, *, wrong: bool = False) -> str:
        """The line that is due; or the rest of it."""
        if self.open is not None and not self.open.prefix and not self.run._progress.verified:
            return f"@begin {self.program.name} {NONCE}\n"
        due = self.run._progress.expected
        if due is None:
            return f"@end {NONCE}\n"
        whole = render.line(due, fitting(due, value), ("Six panels",) if due.decision else ()) + "\n"
        if wrong:
            whole = whole.replace("1", "7").replace("true", "false") + "x" * (whole.find("1") < 0)
        if self.open is not None and self.open.isolated:  # only what comes behind its name, or its last `=`
            return (
                whole.removeprefix(f"{due.path} {due.head} ") if due.decision else whole.rpartition("= ")[2]
            )
        return whole.removeprefix(self.line) if whole.startswith(self.line) else "\n"

    def writing(self) -> bool:
        return self.finish is None and self.open is not None

    @precondition(writing)
    @rule(value=st.sampled_from([6, 10, 60, 120, 0]), cut=st.integers(0, 20), tokens=st.integers(0, 9))
    def writes_a_line(self, value: int, cut: int, tokens: int) -> None:
        text = self.right(value)
        generation = self.open
        self.tell(Text(text[:cut], tokens))
        if self.open is generation and text[cut:]:
            self.tell(Text(text[cut:], tokens))

    @precondition(writing)
    @rule(lines=st.integers(1, 12), tokens=st.integers(1, 20))
    def writes_on(self, lines: int, tokens: int) -> None:
        generation = self.open
        for _ in range(lines):
            if self.open is generation and self.writing():
                self.tell(Text(self.right(6), tokens))

    @precondition(writing)
    @rule(lines=st.integers(0, 12))
    def writes_all_that_it_was_opened_for(self, lines: int) -> None:
        self.writes_on(lines, 3)
        if self.writing():
            self.tell(Ended("stop"))

    @precondition(writing)
    @rule(value=st.integers(1, 120), rare=st.integers(0, 2))
    def writes_something_wrong(self, value: int, rare: int) -> None:
        if rare == 0:
            self.tell(Text(self.right(value, wrong=True)))

    @precondition(writing)
    @rule(
        text=st.text(alphabet='1234 abc=+{}"<-\n@.\r\u2028é', max_size=30),
        tokens=st.integers(0, 50),
        rare=st.integers(0, 5),
    )
    def writes_anything(self, text: str, tokens: int, rare: int) -> None:
        if rare == 0:
            self.tell(Text(text, tokens))

    @precondition(writing)
    @rule(whole=st.booleans(), rare=st.integers(0, 2))
    def repeats_what_stands(self, whole: bool, rare: int) -> None:
        if rare == 0:
            stands = self.run._progress.verified
            self.tell(Text(stands if whole else stands.partition("\n")[2]))

    @precondition(writing)
    @rule(
        finish_reason=st.sampled_from(["stop", "length", "content_filter", None]),
        usage=st.none() | st.builds(Usage, prompt=st.integers(0, 99), completion=st.integers(0, 99)),
        rare=st.integers(0, 2),
    )
    def ends(self, finish_reason: str | None, usage: Usage | None, rare: int) -> None:
        if rare == 0:
            self.tell(Ended(finish_reason, usage))

    @precondition(writing)
    @rule(fault=st.sampled_from(FAULTS), left_s=st.none() | st.floats(-1, 200), rare=st.integers(0, 3))
    def fails(self, fault: UpstreamError, left_s: float | None, rare: int) -> None:
        if rare == 0:
            self.left_s = self.policy.seconds if left_s is None else left_s
            self.tell(Failed(fault, left_s))

    @precondition(lambda self: self.waiting)
    @rule()
    def waited(self) -> None:
        self.waiting = False
        self.tell(Waited())

    @precondition(lambda self: self.finish is None)
    @rule(event=st.sampled_from([OutOfTime(), Cancelled()]), rare=st.integers(0, 9))
    def breaks_off(self, event: OutOfTime | Cancelled, rare: int) -> None:
        if rare == 0:
            self.waiting = False
            self.tell(event)

    @precondition(lambda self: self.finish is not None)
    @rule()
    def is_over(self) -> None:
        """Nothing can happen any more."""

    # --- what must hold --------------------------------------------------------------------------

    @invariant()
    def the_budgets_hold(self) -> None:
        opens = [command for command in self.commands if isinstance(command, Open)]
        assert all(command.attempt <= 1 + self.policy.attempts for command in opens)
        free = [c for c in opens if c.strategy in {Strategy.DECISION, Strategy.LINE, Strategy.REPAIR}]
        restarts = 1 + sum(command.attempt for command in opens[-1:])
        assert len(free) <= MOST_STEPS * restarts
        faults = sum(command.strategy is Strategy.TRANSPORT for command in opens)
        assert faults <= self.policy.transport_retries * len(self.targets)
        asked = Counter(c.resume_from for c in opens if c.strategy is Strategy.VOTE)
        most = 0 if self.policy.votes is None else self.policy.votes.most - 1
        assert all(times <= most * restarts for times in asked.values())

    @invariant()
    def no_upstream_is_gone_back_to(self) -> None:
        opens = [command for command in self.commands if isinstance(command, Open)]
        falls = [command for command in opens if command.strategy is Strategy.FALLBACK]
        assert len(falls) < len(self.targets)
        for name, cap in self.policy.attempts_per_upstream.items():
            counted = sum(
                after.upstream == name and after.attempt > before.attempt for before, after in pairwise(opens)
            )
            arrivals = sum(command.upstream == name for command in falls)  # which no cap of its own forbids
            assert counted <= cap + arrivals

    @invariant()
    def what_was_emitted_is_verified(self) -> None:
        if self.emitted:
            text = f"@begin {self.program.name} {NONCE}\n{self.emitted}"
            assert Checker(self.program, self.inputs, nonce=NONCE, verified=text).verified == text

    @invariant()
    def the_end_is_right(self) -> None:
        if self.finish is None:
            return
        assert self.open is None, "no generation is left open"
        finish = self.finish
        lines = [f"{path} " for path in finish.classes]
        body = [line.lstrip() for line in finish.trace.splitlines()[1:]]  # a line is kept as written
        assert all(line.startswith(path) for path, line in zip(lines, body, strict=False))
        assert finish.generations == len(finish.usage)
        self.the_votes_are_right(finish)
        if finish.outcome in ACCEPTED:
            assert (finish.error, finish.trace) == (
                None,
                f"@begin {self.program.name} {NONCE}\n{self.emitted}@end {NONCE}\n",
            )
            checker = Checker(self.program, self.inputs, nonce=NONCE)
            checker.feed(finish.trace)
            assert checker.verdict is Verdict.PASSED
            assert finish.answer is not None
            assert finish.steps.missing == 0
        elif finish.outcome is Outcome.RELEASED:
            self.what_was_released_is_what_was_written(finish)
        else:
            assert (finish.answer, finish.end, finish.unverified) == (None, None, "")
            assert not (self.emitted and self.policy.deliver == "hold_all")
        if self.policy.force is Level.VALUES and finish.outcome in ACCEPTED:
            assert StepClass.SCAFFOLDED not in finish.classes.values()

    def the_votes_are_right(self, finish: Finish) -> None:
        rules = self.policy.votes
        if rules is None:
            assert not finish.votes
            return
        for voted in finish.votes:
            assert 1 <= voted.agreed <= voted.cast <= rules.most
            assert (voted.margin is Margin.CAPPED) <= (voted.cast == rules.most)
            assert (voted.margin is Margin.REACHED) <= (voted.agreed >= rules.ahead)
        if finish.outcome in ACCEPTED:
            decided = {path for path, how in finish.classes.items() if how is StepClass.MODEL_DECIDED}
            assert decided == {voted.step for voted in finish.votes if voted.margin is not Margin.OPEN}

    def what_was_released_is_what_was_written(self, finish: Finish) -> None:
        assert any(rung.action is Action.RELEASE for rule in self.policy.rules for rung in rule.ladder)
        assert finish.violations
        assert finish.error is None
        assert finish.answer is not None
        assert "@begin" not in finish.answer
        assert "@end" not in finish.answer
        begin = f"@begin {self.program.name} {NONCE}\n"
        assert finish.trace in {begin + self.emitted, "" if not self.emitted else begin + self.emitted}
        said = self.opens[-1].prefix + self.said
        assert said.endswith(finish.unverified) or f"{said}\n".endswith(finish.unverified)
        if finish.trace:  # what was verified, and all that was written, is there exactly once
            checker = Checker(self.program, self.inputs, nonce=NONCE)
            checker.feed(finish.trace + finish.unverified)
            checker.close(finish.finish_reason)
            assert checker.verified == finish.trace
            assert checker.verdict is Verdict.FAILED

    @property
    def opens(self) -> list[Open]:
        return [command for command in self.commands if isinstance(command, Open)]

    def teardown(self) -> None:
        """However stubborn it is, the run comes to an end."""
        if not hasattr(self, "run"):
            return
        for number in range(900):  # more than all the tokens, one each
            if self.finish is not None:
                break
            if self.waiting:
                self.waited()
            else:
                self.tell(Text(f"nonsense {number}\n"))
        assert self.finish is not None, "the run never ends"
        self.the_budgets_hold()
        self.the_end_is_right()


def fitting(due: Expected, value: Value) -> Value | None:
    if due.decision is None:
        return None
    match due.decision.type:
        case EnumType(options=options):
            return options[0]
        case _ if due.target == "loyal":
            return bool(value)
        case _:
            return int(value) if isinstance(value, int) else value


TestSums = played(Upstream, SUMS)
TestOrder = played(Upstream, ORDER)
TestShares = played(Upstream, SHARES)
TestStock = played(Upstream, STOCK)

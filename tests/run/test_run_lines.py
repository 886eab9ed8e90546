"""Line by line: each line is a generation of its own, begun up to its value; the model writes the value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.check.verdict import Kind
from guard.dialect.lark import Level
from guard.procedure.execute import Program
from guard.procedure.model import StepKind
from guard.procedure.types import Value
from guard.run.ladders import Action, Rung, always
from guard.run.lines import room
from guard.run.messages import (
    Close,
    Command,
    Emit,
    Ended,
    Finish,
    Open,
    Outcome,
    Result,
    StepClass,
    Strategy,
    Target,
    Text,
)
from guard.run.opening import Job
from guard.run.policy import ForceBy, Policy, Votes
from guard.run.race import machine
from guard.run.run import Run
from guard.trace import render
from tests.playbook import Playbook, closes, emits, ends, finishes, ignores, opens, says, violates
from tests.run.procedures import (
    DIALOGUE,
    GRAMMAR,
    NONCE,
    PREFILL,
    STOCK,
    SUMS,
    aside,
    in_trace,
    job,
    order,
    shares,
    stock,
    sums,
    ways,
)
from tests.strategies import Sample, samples
from tests.traces import Case, cases

AUTO: Final = in_trace(Policy(force_by=ForceBy.AUTO))
BEGIN: Final = f"@begin sums {NONCE}\n"
# The lines of `shares` as they are written behind a right decision.
SHARED: Final = {
    "1": "1 people = 6",
    "2": "2 check 6 < 100 = true",
    "3": "3 rest = 10 - 6 = 4",
    "4": "4 each = 90 / 4 = 22.50",
    "5": "5 return 22.50",
}


@dataclass
class Scribe:
    """A model that completes each line as a trace has it. `slips` are values it gets wrong once, by path."""

    lines: Mapping[str, str]  # by path
    slips: dict[str, str] = field(default_factory=dict)
    stops: bool = True  # the server heeds `stop`
    opens: list[Open] = field(default_factory=list)
    emitted: list[Emit] = field(default_factory=list)
    closes: list[Close] = field(default_factory=list)
    finish: Finish | None = None

    def carry_out(self, run: Run) -> Finish:
        commands = run.start()
        for _ in range(20_000):
            asked = self.perform(commands)
            if self.finish is not None:
                return self.finish
            assert asked is not None
            said = self.answer(asked)
            if self.stops and asked.stop:
                commands = run.handle(Text(said))
                if not self.ends(commands):
                    commands += run.handle(Ended("stop"))
            else:
                commands = run.handle(Text(f"{said}\n"))
                if not self.ends(commands):
                    commands += run.handle(Text("behind"))
        raise AssertionError("the run never ends")

    @staticmethod
    def ends(commands: list[Command]) -> bool:
        return any(isinstance(command, Close | Finish) for command in commands)

    def perform(self, commands: list[Command]) -> Open | None:
        asked = None
        for command in commands:
            match command:
                case Open():
                    asked = command
                    self.opens.append(command)
                case Emit():
                    self.emitted.append(command)
                case Close():
                    self.closes.append(command)
                case Finish():
                    self.finish = command
                case _:
                    pass
        return asked

    def answer(self, asked: Open) -> str:
        begun = asked.prefix.rpartition("\n")[2]
        path = begun.partition(" ")[0]
        line = self.lines[path]
        assert line.startswith(begun), "the line is begun as it goes on"
        assert line != begun, "something is left to be written"
        return self.slips.pop(path, line.removeprefix(begun))


def by_path(trace: str) -> dict[str, str]:
    return {line.partition(" ")[0]: line for line in trace.split("\n")[1:-2]}


# --- the usual way ------------------------------------------------------------------------------------------


def test_each_line_is_begun_up_to_its_value_and_ends_its_generation() -> None:
    assert (
        Playbook(sums(policy=AUTO))
        << opens(
            Strategy.INITIAL,
            prefix=f"{BEGIN}1 a = 3 + 4 =",
            stop=("\n",),
            max_tokens=46,
            grammar=None,
            attempt=1,
        )
        >> says(" 7")
        >> ends()
        << closes(Result.DECIDED)
        << emits("1", StepClass.SCAFFOLDED)
        << opens(Strategy.LINE, prefix=f"{BEGIN}1 a = 3 + 4 = 7\n2 b = 7 * 2 =", attempt=1, generation=2)
        >> says(" 14")
        >> ends()
        << closes(Result.DECIDED)
        << emits("2", StepClass.SCAFFOLDED)
        << opens(Strategy.LINE, resume_from="3")
        >> says(" 11\n")
        >> says("4")
        << ignores("4")
        << closes(Result.DECIDED)
        << emits("3", StepClass.SCAFFOLDED)
        << emits("4", StepClass.SCAFFOLDED)
        << finishes(Outcome.ACCEPTED_FIRST, attempts=1, generations=3, answer="11")
    )


def test_what_the_model_decides_is_open_behind_its_name() -> None:
    scribe = Scribe(
        {
            "1": '1 qty = 6 <- "Six panels"',
            "2": '2 loyal = true <- "always"',
            "3": "3 price = 10.00",
            "4": "4 if true",
            "4.1": "4.1 price = 9.50",
            "5": "5 total = 6 * 9.50 = 57.00",
            "6": '6 return {"qty": 6, "total": 57.00}',
        }
    )
    finish = scribe.carry_out(order(policy=AUTO))
    assert finish.outcome is Outcome.ACCEPTED_FIRST
    assert [asked.prefix.rpartition("\n")[2] for asked in scribe.opens] == [
        "1 qty =",
        "2 loyal =",
        "4 if",
        "5 total = 6 * 9.50 =",
    ]
    classes = [finish.classes[path] for path in ("1", "2", "4")]
    assert classes == [StepClass.MODEL_DECIDED, StepClass.MODEL_DECIDED, StepClass.VERIFIED]
    assert {finish.classes[path] for path in ("3", "4.1", "5", "6")} == {StepClass.SCAFFOLDED}
    assert [asked.max_tokens for asked in scribe.opens[:2]] == [8000, 8000 - 1], "no bound on what is decided"


@pytest.mark.parametrize("level", [Level.NONE, Level.SHAPE])
def test_a_level_that_gives_no_operands_goes_on_to_the_answer(level: Level) -> None:
    assert opened(sums(policy=replace(AUTO, force=level))).prefix == f"{BEGIN}1"


@pytest.mark.parametrize(
    ("by", "target", "prefix", "grammar"),
    [
        (ForceBy.AUTO, PREFILL, "1 a = 3 + 4 =", False),
        (ForceBy.AUTO, GRAMMAR, "1", True),
        (ForceBy.AUTO, DIALOGUE, "", False),
        (ForceBy.GRAMMAR, PREFILL, "1", False),
        (ForceBy.GRAMMAR, GRAMMAR, "1", True),
        (ForceBy.LINES, PREFILL, "1 a = 3 + 4 =", False),
        (ForceBy.LINES, GRAMMAR, "1 a = 3 + 4 =", False),
        (ForceBy.LINES, DIALOGUE, "", False),
    ],
)
def test_how_lines_are_forced_is_the_policys_choice_as_far_as_the_server_can(
    by: ForceBy, target: Target, prefix: str, *, grammar: bool
) -> None:
    command = opened(sums(target, policy=Policy(force_by=by)))
    assert (command.prefix.rpartition("\n")[2], command.grammar is not None) == (prefix, grammar)
    assert bool(command.stop) == prefix.endswith("=")


def opened(run: Run) -> Open:
    (command,) = run.start()
    assert isinstance(command, Open)
    return command


# --- what goes wrong ------------------------------------------------------------------------------------------


def test_a_wrong_value_is_resumed_without_a_stop_and_its_operands_are_not_given_again() -> None:
    assert (
        Playbook(sums(policy=AUTO))
        << opens(Strategy.INITIAL)
        >> says(" 8")
        >> ends()
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, prefix=f"{BEGIN}1 a = 3 + 4 =", stop=(), temperature=0.5, attempt=2)
        >> says(" 9\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, temperature=0.65, attempt=3)
        >> says(" 10\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << emits("1", StepClass.REPAIRED)
        << opens(Strategy.REPAIR, prefix=f"{BEGIN}1 a = 3 + 4 = 7\n2 b = 7 * 2 =", stop=("\n",), attempt=3)
        >> says(" 14")
        >> ends()
        << closes(Result.DECIDED)
        << emits("2", StepClass.SCAFFOLDED)
        << opens(Strategy.LINE)
        >> says(" 11")
        >> ends()
        << closes(Result.DECIDED)
        << emits("3", StepClass.SCAFFOLDED)
        << emits("4", StepClass.SCAFFOLDED)
        << finishes(Outcome.REPAIRED, attempts=3, generations=5)
    )


def test_the_reason_says_that_the_operands_were_given() -> None:
    run = sums(policy=replace(AUTO, rules=always([Action.SCAFFOLD, Action.REJECT])))
    run.start()
    run.handle(Text(" 8"))
    finish = run.handle(Ended("stop"))[-1]
    assert isinstance(finish, Finish)
    assert "no operands that could still be given" in finish.reason


@pytest.mark.parametrize(
    ("said", "attempt"), [(" 7 because 3 and 4 make it seven, and not eight", 2), ("", 1), (" 7 becau", 1)]
)
def test_a_line_that_has_used_up_its_room_is_judged_as_it_stands(said: str, attempt: int) -> None:
    """And not as cut off by a limit that is not its fault; where it had room left, the server cut it."""
    run = sums(policy=AUTO)
    room = opened(run).max_tokens
    assert (len(said) >= room) == (attempt == 2)
    commands = run.handle(Text(said)) + run.handle(Ended("length"))
    assert isinstance(commands[-1], Open)
    assert commands[-1].attempt == attempt


def test_a_budget_that_is_spent_within_a_line_is_the_budgets_fault() -> None:
    run = sums(policy=replace(AUTO, output_tokens=20, rules=always([Action.RESUME, Action.REJECT])))
    assert opened(run).max_tokens == 20
    commands = run.handle(Text(" 7", 20)) + run.handle(Ended("length"))
    assert isinstance(commands[-1], Finish)
    assert commands[-1].error is not None
    assert commands[-1].error.code == Kind.TRUNCATED


@pytest.mark.parametrize("repair", [True, False])
def test_where_the_tokens_end_behind_a_line_the_guard_writes_what_it_can_if_it_may(repair: bool) -> None:
    rules = () if repair else always([Action.RESUME, Action.REJECT])
    run = sums(policy=replace(AUTO, output_tokens=20, rules=rules))
    assert opened(run).max_tokens == 20
    finish = [*run.handle(Text(" 7", 20)), *run.handle(Ended("stop"))][-1]
    assert isinstance(finish, Finish)
    assert finish.violations == ()
    if repair:
        assert (finish.outcome, finish.answer) == (Outcome.REPAIRED, "11")
        assert (finish.steps.scaffolded, finish.steps.repaired) == (1, 3)
    else:
        assert (finish.outcome, finish.error and finish.error.code) == (Outcome.REJECTED, Kind.TRUNCATED)


def test_where_it_may_be_released_the_model_is_not_stopped_at_the_end_of_a_line() -> None:
    command = opened(sums(policy=replace(AUTO, rules=always([Rung(Action.RESUME, 1), Action.RELEASE]))))
    assert (command.prefix, command.stop, command.max_tokens) == (f"{BEGIN}1 a = 3 + 4 =", (), 8000)


def test_another_step_of_a_group_is_as_good_as_the_one_that_was_begun() -> None:
    run = aside(policy=AUTO)
    assert opened(run).prefix.endswith("1.1 sum = 3 + 4 =")
    commands = run.handle(Text("\n1.3 product = 3 * 4 = 12")) + run.handle(Ended("stop"))
    assert [c.step for c in commands if isinstance(c, Emit)] == ["1.3"]
    assert isinstance(commands[-1], Open)
    assert (commands[-1].strategy, commands[-1].resume_from) == (Strategy.LINE, "1.1")


def test_a_decision_with_which_the_procedure_fails_is_asked_for_again() -> None:
    scribe = Scribe(
        SHARED,
        {"1": " 120"},
    )
    finish = scribe.carry_out(shares(policy=AUTO))
    assert finish.outcome is Outcome.ACCEPTED_AFTER_RETRY
    assert [asked.strategy for asked in scribe.opens[:3]] == [
        Strategy.INITIAL,
        Strategy.RESUME,
        Strategy.LINE,
    ]


# --- together with everything else ------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [case for case in cases() if "faithful" in case.name], ids=lambda c: c.name)
@pytest.mark.parametrize("stops", [True, False])
def test_every_faithful_trace_is_reached_line_by_line(case: Case, *, stops: bool) -> None:
    reached(case.program, case.inputs, by_path(case.response), stops=stops)


@settings(max_examples=60, deadline=None)
@given(
    sample=samples(), stops=st.booleans(), policy=st.sampled_from([AUTO, replace(AUTO, deliver="hold_all")])
)
def test_so_is_that_of_procedures_that_nobody_thought_of(
    sample: Sample, *, stops: bool, policy: Policy
) -> None:
    lines = by_path(render.trace(sample.program, sample.steps, NONCE))
    reached(sample.program, sample.inputs, lines, stops=stops, policy=policy)


def reached(
    program: Program,
    inputs: Mapping[str, Value],
    lines: Mapping[str, str],
    *,
    stops: bool,
    policy: Policy = AUTO,
) -> None:
    scribe = Scribe(lines, stops=stops)
    asked = Job(program=program, inputs=inputs, messages=({"role": "user", "content": "Go."},), nonce=NONCE)
    finish = scribe.carry_out(Run(asked, policy, [PREFILL]))
    assert finish.outcome is Outcome.ACCEPTED_FIRST, (finish.error, finish.violations)
    assert finish.attempts == bool(scribe.opens)
    assert len(scribe.emitted) == len(lines)
    asked_for = [one.resume_from for one in scribe.opens]
    assert len(set(asked_for)) == len(asked_for), "each line once"
    assert {one.strategy for one in scribe.opens[1:]} <= {Strategy.LINE}
    assert {emit.step: emit.text for emit in scribe.emitted} == {
        path: f"{line}\n" for path, line in lines.items()
    }
    begun = {one.resume_from: one.prefix.rpartition("\n")[2] for one in scribe.opens}
    for emit in scribe.emitted:
        if emit.step in begun:
            given = emit.text.startswith(f"{begun[emit.step]} ") and begun[emit.step].endswith("=")
            assert (emit.step_class is StepClass.SCAFFOLDED) <= given
        else:
            assert emit.step_class is StepClass.SCAFFOLDED, "what is copied, the guard wrote"
            assert emit.kind not in {StepKind.BRANCH, StepKind.REQUIRE, StepKind.CHECK}


@settings(max_examples=40, deadline=None)
@given(sample=samples(), data=st.data())
def test_a_slip_in_any_line_is_mended_in_that_line(sample: Sample, data: st.DataObject) -> None:
    lines = by_path(render.trace(sample.program, sample.steps, NONCE))
    path = data.draw(st.sampled_from(list(lines)))
    said = data.draw(st.sampled_from(["", " 77777", " wrong", ' "', " true false"]))
    scribe = Scribe(lines, {path: said})
    asked = Job(
        program=sample.program,
        inputs=sample.inputs,
        messages=({"role": "user", "content": "Go."},),
        nonce=NONCE,
    )
    finish = scribe.carry_out(Run(asked, AUTO, [PREFILL]))
    decided = finish.outcome is Outcome.ACCEPTED_FIRST  # what was said is a value that may be decided
    assert decided or finish.outcome in {Outcome.ACCEPTED_AFTER_RETRY, Outcome.REPAIRED, Outcome.REJECTED}
    assert finish.outcome is not Outcome.REJECTED or scribe.opens[-1].resume_from != path or said == ' "'


def test_ways_are_chosen_one_after_the_other() -> None:
    scribe = Scribe(
        {
            "1[1]": '1[1] try "plus"',
            "1[1].1.1": "1[1].1.1 require 3 + 4 > 9 = false",
            "1[2]": '1[2] try "times"',
            "1[2].2.1": "1[2].2.1 found = 3 * 4 = 12",
            "2": "2 return 12",
        }
    )
    finish = scribe.carry_out(ways(policy=AUTO))
    assert (finish.outcome, finish.answer) == (Outcome.ACCEPTED_FIRST, "12")


@pytest.mark.parametrize("make", [lambda p: stock([3, 4], policy=p), lambda p: stock([], policy=p)])
def test_loops_and_refusals_come_to_their_end(make: Callable[[Policy], Run]) -> None:
    scribe = Scribe(
        {
            "1": "1 require len(counts) > 0 = true",
            "2": "2 all = 0",
            "3": "3 for n in counts = 2",
            "3[1].1": "3[1].1 all = 0 + 3 = 3",
            "3[2].1": "3[2].1 all = 3 + 4 = 7",
            "4": "4 require 7 >= 5 = true",
            "5": "5 return 7",
        }
    )
    run = make(AUTO)
    if "false" in render.line(run._progress.expected):  # type: ignore[arg-type]
        scribe.lines = {"1": "1 require len(counts) > 0 = false", "1.1": '1.1 deny "Nothing counted."'}
    finish = scribe.carry_out(run)
    assert finish.outcome is Outcome.ACCEPTED_FIRST
    assert finish.end == ("return" if "5" in finish.classes else "deny")


def test_votes_are_cast_line_by_line() -> None:
    scribe = Scribe(
        SHARED,
        {"1": " 5"},
    )
    finish = scribe.carry_out(shares(policy=replace(AUTO, votes=Votes(ahead=2, most=7))))
    assert finish.outcome is Outcome.ACCEPTED_FIRST
    vote = Strategy.VOTE
    assert [asked.strategy for asked in scribe.opens[:5]] == [
        Strategy.INITIAL,
        vote,
        vote,
        vote,
        Strategy.LINE,
    ]
    assert {asked.prefix for asked in scribe.opens[:4]} == {f"@begin shares {NONCE}\n1 people ="}


def test_a_lane_of_a_race_goes_straight_on_from_line_to_line() -> None:
    race = machine(job(SUMS, {"x": 3, "y": 4}), replace(AUTO, race=2), [PREFILL])
    opened = [command for command in race.start() if isinstance(command, Open)]
    assert [one.prefix.rpartition("\n")[2] for one in opened] == ["1 a = 3 + 4 =", "1 a = 3 + 4 ="]
    values = {"1": " 7", "2": " 14", "3": " 11"}
    number, step = opened[0].generation, "1"
    for _ in values:
        race.handle(Text(values[step]), number)
        commands = race.handle(Ended("stop"), number)
        following = [command for command in commands if isinstance(command, Open)]
        if following:
            number, step = following[0].generation, following[0].resume_from
    assert isinstance(commands[-1], Finish)
    assert commands[-1].outcome is Outcome.ACCEPTED_FIRST


def test_the_guard_computes_and_the_model_is_asked_for_its_decisions_behind_their_names() -> None:
    scribe = Scribe({"1": '1 qty = 6 <- "Six panels"', "2": '2 loyal = true <- "always"'})
    finish = scribe.carry_out(order(policy=replace(AUTO, force=Level.VALUES)))
    assert finish.outcome is Outcome.ACCEPTED_FIRST
    assert [(one.strategy, one.prefix.rpartition("\n")[2]) for one in scribe.opens] == [
        (Strategy.INITIAL, "1 qty ="),
        (Strategy.DECISION, "2 loyal ="),
    ]


# --- what it costs ---------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(sample=samples())
def test_a_line_is_given_more_tokens_than_it_has_bytes(sample: Sample) -> None:
    for step, _ in sample.steps:
        if step.decision is None and step.known:
            needed = len(render.line(step).encode())
            assert needed < (room(step) or 0) <= 2 * needed + 16
        else:
            assert room(step) is None


def test_what_is_remembered_does_not_grow_with_the_lines() -> None:
    counts = tuple(range(1, 11))
    lines = {"1": "1 require len(counts) > 0 = true", "2": "2 all = 0", "3": "3 for n in counts = 10"}
    total = 0
    for pass_, count in enumerate(counts, 1):
        lines[f"3[{pass_}].1"] = f"3[{pass_}].1 all = {total} + {count} = {total + count}"
        total += count
    lines |= {"4": f"4 require {total} >= 5 = true", "5": f"5 return {total}"}
    run = Run(job(STOCK, {"counts": counts, "least": 5}), AUTO, [PREFILL])
    scribe = Scribe(lines)
    assert scribe.carry_out(run).outcome is Outcome.ACCEPTED_FIRST
    assert len(scribe.opens) == 13
    assert len(run._history.attempts) == 2

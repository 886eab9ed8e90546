"""A step asked for by itself: what the model is shown of it, how its answer is judged, and where the run goes on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import hypothesis.strategies as st
import pytest
from hypothesis import assume, event, given

from guard.check.checker import Checker
from guard.check.verdict import Kind, Violation
from guard.dialect.alone import answer as answers
from guard.dialect.line import Level
from guard.dialect.notation import Dialect
from guard.procedure.expected import Form
from guard.procedure.load import load
from guard.procedure.types import BoolType
from guard.run.ladders import Action, Rung, always
from guard.run.messages import (
    Close,
    Command,
    Emit,
    Ended,
    Finish,
    Message,
    Observe,
    Open,
    Outcome,
    Result,
    StepClass,
    Strategy,
    Target,
    Text,
)
from guard.run.policy import ForceBy, Policy, Votes
from guard.run.run import Job, Run
from guard.trace.alone import can_be_asked, question
from tests.alone import answer, shown, texts
from tests.dialect.readers import under_lark
from tests.playbook import Playbook, closes, emits, ends, finishes, opens, says, violates
from tests.run.procedures import DIALOGUE, GRAMMAR, NONCE, NOTE, ORDER, PREFILL, SUMS, job, program
from tests.strategies import Sample, samples

ALONE: Final = Policy(rules=always([Rung(Action.ISOLATE, 9), Action.REJECT]))
BEGIN: Final = f"@begin sums {NONCE}\n"
LINES: Final = ("1 a = 3 + 4 = 7\n", "2 b = 7 * 2 = 14\n")
SCHEMA: Final = replace(DIALOGUE, dialect=Dialect.JSON_SCHEMA)
TARGETS: Final = (PREFILL, DIALOGUE, GRAMMAR, SCHEMA, replace(DIALOGUE, thinks=True, thoughts=True))


def sums(*targets: Target, policy: Policy | None = None) -> Run:
    return Run(job(SUMS, {"x": 3, "y": 4}), policy or Policy(), targets or (PREFILL,))


def told(commands: Sequence[Command]) -> Open:
    return next(command for command in commands if isinstance(command, Open))


def asked_for_b(*targets: Target, policy: Policy | None = None) -> tuple[Run, Open]:
    """A run whose second line was wrong, and what it asks for then."""
    run = sums(*targets, policy=policy)
    first = told(run.start())
    begun = first.prefix.rpartition("\n")[2]
    whole = (LINES[0] if first.prefix else BEGIN + LINES[0]).removeprefix(begun)
    return run, told(run.handle(Text(f"{whole}2 b = 7 * 2 = 15\n", 9)))


def test_a_wrong_value_is_asked_for_alone_and_the_run_goes_on_behind_the_line() -> None:
    (
        Playbook(sums())
        << opens(prefix=f"{BEGIN}1")
        >> says(LINES[0][1:])
        << emits("1", isolated=False)
        >> says("2 b = 7 * 2 = 15\n")
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION)
        << opens(Strategy.ISOLATE, prefix="", attempt=2, resume_from="2", temperature=0.0, isolated=True)
        >> says("14\n")
        >> ends()
        << closes(Result.DECIDED, discarded=0)
        << emits("2", StepClass.SCAFFOLDED, text=LINES[1], isolated=True)
        << opens(Strategy.CONTINUE, prefix=f"{BEGIN}{LINES[0]}{LINES[1]}3", isolated=False, attempt=2)
        >> says(" c = 14 - 3 = 11\n4 return 11\n")
        << emits("3")
        << emits("4")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_AFTER_RETRY, attempts=2, isolated=frozenset({"2"}))
    )


@pytest.mark.parametrize(
    "said",
    ["14\n", " 14 \r\n", "\n\n14\n", "7 * 2 = 14\n", "7 * 2 =14\n", "= 14\n", "14\n\nThat is it.\n"],
)
@pytest.mark.parametrize("cut", [1, 2, 100])
def test_an_answer_may_repeat_the_question(said: str, cut: int) -> None:
    run, _ = asked_for_b()
    commands: list[Command] = []
    for at in range(0, len(said), cut):
        commands += run.handle(Text(said[at : at + cut], 1))
        if any(isinstance(command, Open) for command in commands):
            break
    if not any(isinstance(command, Open) for command in commands):
        commands += run.handle(Ended("stop"))
    assert [c.text for c in commands if isinstance(c, Emit)] == [LINES[1]]
    assert told(commands).strategy is Strategy.CONTINUE


def test_an_answer_needs_no_line_end() -> None:
    run, _ = asked_for_b()
    commands = [*run.handle(Text("14", 1)), *run.handle(Ended("stop"))]
    assert [c.text for c in commands if isinstance(c, Emit)] == [LINES[1]]


@pytest.mark.parametrize(
    ("said", "reason", "kind"),
    [
        ("15\n", "stop", Kind.WRONG_VALUE),
        ("The answer is 14.\n", "stop", Kind.MALFORMED),
        ("7 * 2\n", "stop", Kind.MALFORMED),
        ("", "stop", Kind.MISSING_ANSWER),
        ("1", "length", Kind.TRUNCATED),
        ("\n" * 600, "stop", Kind.MALFORMED),
        ("7" * 40_000, "stop", Kind.LIMIT_EXCEEDED),
    ],
)
def test_a_wrong_answer_is_a_violation_as_any(said: str, reason: str, kind: Kind) -> None:
    run, _ = asked_for_b(policy=ALONE)
    commands = run.handle(Text(said, 1)) if said else []
    if not any(isinstance(command, Open) for command in commands):
        commands += run.handle(Ended(reason))
    (violation,) = (
        c.judgement for c in commands if isinstance(c, Observe) if isinstance(c.judgement, Violation)
    )
    assert violation.step == "2"
    assert violation.kind is kind or (kind, violation.kind) == (Kind.LIMIT_EXCEEDED, Kind.RUNAWAY)
    assert told(commands).isolated or told(commands).strategy is Strategy.RESUME


def test_a_further_try_is_hotter_and_shows_other_examples() -> None:
    run, first = asked_for_b(policy=ALONE)
    second = told(run.handle(Text("15\n", 1)))
    assert (first.temperature, second.temperature) == (0.0, 0.5)
    assert texts(first)[-1] == texts(second)[-1] == "7 * 2 ="
    assert texts(first)[:-1] != texts(second)[:-1]


@pytest.mark.parametrize("force", [Level.NONE, Level.SHAPE])
def test_by_default_nothing_is_isolated_where_the_model_writes_its_operands(force: Level) -> None:
    _, opened = asked_for_b(policy=Policy(force=force))
    assert (opened.strategy, opened.isolated) == (Strategy.RESUME, False)
    _, opened = asked_for_b(policy=replace(ALONE, force=force))
    assert (opened.strategy, opened.isolated) == (Strategy.ISOLATE, True)


def test_by_default_no_server_is_asked_for_a_step_whose_answers_are_ready_and_whole() -> None:
    replaying = replace(PREFILL, replays=True)
    assert asked_for_b(replaying)[1].strategy is Strategy.RESUME
    assert asked_for_b(replaying, policy=ALONE)[1].strategy is Strategy.ISOLATE


def test_a_grammar_of_the_value_is_sent_where_the_server_takes_one() -> None:
    _, opened = asked_for_b(GRAMMAR)
    assert opened.grammar is not None
    assert "answer1" in opened.grammar
    assert "7" not in re.sub(r"\[[^]]*\]|\{[^}]*\}|int[0-9]+", "", opened.grammar), "nothing of the line"
    _, opened = asked_for_b(GRAMMAR, policy=replace(ALONE, force=Level.NONE))
    assert opened.grammar is None


def test_a_member_of_an_object_is_the_answer() -> None:
    run, opened = asked_for_b(SCHEMA)
    assert opened.grammar is not None
    assert '"value = "' in opened.grammar
    assert '"value = "' in texts(opened)[-1]
    commands = [*run.handle(Text("value = 14\n", 1)), *run.handle(Ended("stop"))]
    assert [c.text for c in commands if isinstance(c, Emit)] == [LINES[1]]


def test_what_thinks_gets_room_for_it_and_nothing_ends_an_answer_before_it_began() -> None:
    _, opened = asked_for_b(replace(DIALOGUE, thinks=True))
    assert (opened.max_tokens > 1000, opened.stop) == (True, ())
    _, opened = asked_for_b(PREFILL)
    assert (opened.max_tokens < 100, opened.stop) == (True, ())


def test_what_is_decided_is_asked_for_with_its_question_and_its_source() -> None:
    run = Run(job(ORDER, {"note": NOTE}), ALONE, [GRAMMAR])
    run.start()
    opened = told(run.handle(Text(' qty = 60 <- "Six"\n', 1)))
    (asked,) = texts(opened)
    assert NOTE in asked
    assert "Read `qty` from `note`." in asked
    assert "qty is at least 1 and qty is at most 50" in asked
    assert "a whole number" in asked
    assert "@begin" not in asked
    assert opened.grammar is not None
    commands = [*run.handle(Text('6 <- "Six panels"\n', 1)), *run.handle(Ended("stop"))]
    (emit,) = (c for c in commands if isinstance(c, Emit))
    assert (emit.text, emit.step_class, emit.isolated) == (
        '1 qty = 6 <- "Six panels"\n',
        StepClass.MODEL_DECIDED,
        True,
    )
    opened = told(run.handle(Text("2 loyal = perhaps\n", 1)))
    assert "Is this a returning customer?" in texts(opened)[0]
    assert "true or false" in texts(opened)[0]


def test_a_line_of_several_values_is_asked_for_value_by_value() -> None:
    text = "procedure p(x: int) -> { one: int, two: int, three: int }\n  return { one: x + 1, two: x, three: x * 3 }\n"
    run = Run(job(text, {"x": 5}), ALONE, [PREFILL])
    run.start()
    opened = told(run.handle(Text(' return {"one": 5 + 1 = 7, "two": 5, "three": 5 * 3 = 15}\n', 1)))
    assert texts(opened)[-1] == "5 + 1 =\n5 * 3 ="
    assert not any(isinstance(command, Open) for command in run.handle(Text("6\n5 * 3 = 15\n", 1)))
    finish = run.handle(Ended("stop"))[-1]
    assert isinstance(finish, Finish)
    assert finish.trace.splitlines()[1] == '1 return {"one": 5 + 1 = 6, "two": 5, "three": 5 * 3 = 15}'


def test_a_vote_may_be_cast_alone() -> None:
    policy = replace(ALONE, votes=Votes(ahead=1, most=3))
    run = Run(job(ORDER, {"note": NOTE}), policy, [PREFILL])
    run.start()
    run.handle(Text(" qty = 60\n", 1))
    commands = [*run.handle(Text('6 <- "Six"\n', 1)), *run.handle(Ended("stop"))]
    assert told(commands).resume_from == "2"


def test_what_it_cost_is_in_the_accounts() -> None:
    run, _ = asked_for_b(policy=ALONE)
    closed = [c for c in run.handle(Text("15\n", 7)) if isinstance(c, Close)]
    assert [(c.usage.completion, c.discarded) for c in closed] == [(7, 7)]
    assert run.spent == 9 + 7


# --- whatever the procedure ------------------------------------------------------------------------


@st.composite
def steps_alone(draw: st.DrawFn) -> tuple[Sample, int]:
    """A sample, and one of its steps that can be asked for by itself."""
    sample = draw(samples(shuffle=False))
    able = [
        at
        for at in range(len(sample.steps))
        if can_be_asked(shown(sample.program, sample.inputs, sample.steps, at))
    ]
    assume(able)
    return sample, draw(st.sampled_from(able))


def run_at(sample: Sample, at: int, target: Target, policy: Policy = ALONE) -> tuple[Run, Open]:
    """A run of a sample that is right up to a step, where it writes nonsense; and what it asks for then."""
    message: Message = {"role": "user", "content": "Go."}
    made = Job(program=sample.program, inputs=sample.inputs, messages=(message,), nonce=NONCE)
    run = Run(made, policy, [target])
    run.start()
    # All that is right comes by a generation that begins anew, as any may.
    opened = told(run.handle(Text(sample.trace[: sample.start(at)] + "?\n", 1)))
    while not opened.isolated or opened.resume_from != sample.steps[at][0].path:
        done = next(i for i, (step, _) in enumerate(sample.steps) if step.path == opened.resume_from)
        if opened.isolated:
            said = answer(sample.program, sample.inputs, sample.steps, done)
        else:
            end = sample.start(at)
            said = (
                sample.trace[sample.start(done) : end].removeprefix(opened.prefix.rpartition("\n")[2]) + "?\n"
            )
        commands = run.handle(Text(said, 1))
        if not any(isinstance(command, Open) for command in commands):
            commands = run.handle(Ended("stop"))
        opened = told(commands)
    return run, opened


@given(steps_alone(), st.sampled_from(TARGETS))
def test_the_question_holds_neither_the_answer_nor_the_trace(
    drawn: tuple[Sample, int], target: Target
) -> None:
    sample, at = drawn
    step, _ = sample.steps[at]
    _, opened = run_at(sample, at, target)
    *examples, last = texts(opened)
    event(f"{step.kind}, examples: {len(examples) // 2}")
    assert opened.prefix == ""
    assert [message["role"] for message in opened.messages][-1] == "user"
    whole, shown_before = "\n".join([*examples, last]), "\n".join(examples)
    assert "@begin" not in whole
    for line in sample.lines[1:-1]:
        assert line not in whole.splitlines()
    if step.decision is None:
        for index in question(sample.program, shown(sample.program, sample.inputs, sample.steps, at)).cells:
            cell = step.cells[index]
            assert cell.spelling is not None
            if not isinstance(cell.type, BoolType):  # which is one of two words
                assert not re.search(rf"(?<![\w.-]){re.escape(cell.spelling)}(?![\w.%])", shown_before)
    else:
        assert all(source in last for _, source in step.decision.sources)


@given(steps_alone(), st.sampled_from(TARGETS))
def test_the_right_answer_makes_the_line_and_the_run_goes_on_from_it(
    drawn: tuple[Sample, int], target: Target
) -> None:
    sample, at = drawn
    step, _ = sample.steps[at]
    run, _ = run_at(sample, at, target, replace(ALONE, deliver="hold_all"))
    said = answer(sample.program, sample.inputs, sample.steps, at)
    commands = [*run.handle(Text(said, 1))]
    if not any(isinstance(command, Open | Finish) for command in commands):
        commands += run.handle(Ended("stop"))
    assert run.lines == at + 1
    last = commands[-1]
    assert isinstance(last, Open | Finish)
    if isinstance(last, Open):
        assert last.resume_from == sample.due[at + 1]
        assert last.strategy is Strategy.CONTINUE
    else:
        assert step.path in last.isolated
        wanted = StepClass.SCAFFOLDED if step.decision is None else StepClass.MODEL_DECIDED
        assert last.classes[step.path] is wanted


@given(steps_alone())
def test_its_grammar_takes_the_right_answer_and_lets_a_model_end_where_the_answer_ends(
    drawn: tuple[Sample, int],
) -> None:
    """A model that may not stop before a line end goes on with its digits."""
    sample, at = drawn
    due = sample.steps[at][0]
    asked = question(sample.program, shown(sample.program, sample.inputs, sample.steps, at))
    said = answer(sample.program, sample.inputs, sample.steps, at)
    for ending in (said, said.removesuffix("\n")):
        assert under_lark(answers(due, asked.cells, Level.OPERANDS), ending) == (len(ending.encode()), True)


WRONG: Final = st.sampled_from(
    ["0", "-1", "7.25", "true", "false", '"oak"', "[]", "null", "2020-02-30", "x", "1 + 1"]
)


@given(steps_alone(), WRONG, st.sampled_from([PREFILL, GRAMMAR, DIALOGUE]))
def test_an_answer_is_judged_as_the_same_line_is_in_a_trace(
    drawn: tuple[Sample, int], wrong: str, target: Target
) -> None:
    sample, at = drawn
    step, _ = sample.steps[at]
    cells = question(sample.program, shown(sample.program, sample.inputs, sample.steps, at)).cells
    assume(len(cells) == 1)
    right = answer(sample.program, sample.inputs, sample.steps, at).rstrip("\n")
    line = sample.lines[at + 1].rstrip("\n")
    place = line.rfind(right)
    assume(place >= 0 and (step.decision is not None or len(step.cells) == 1))
    checker = Checker(sample.program, sample.inputs, nonce=NONCE)
    found = checker.feed(sample.trace[: sample.start(at)] + line[:place] + wrong + "\n")
    run, _ = run_at(sample, at, target)
    commands = run.handle(Text(f"{wrong}\n", 1))
    judged = [c.judgement for c in commands if isinstance(c, Observe) if isinstance(c.judgement, Violation)]
    violations = [one for one in found if isinstance(one, Violation)]
    event(f"wrong: {bool(violations)}")
    assert [(one.kind, one.step, one.found) for one in judged] == [
        (one.kind, one.step, one.found) for one in violations
    ]


def test_the_trace_form_does_not_change_what_is_asked() -> None:
    made = load(SUMS).procedures["sums"]
    asked = set()
    for form in Form:
        walked = [shown(made.in_form(form), {"x": 3, "y": 4}, (), 0)]
        asked |= {question(made.in_form(form), step).turns for step in walked}
    assert len(asked) == 1


def test_lines_that_are_asked_for_one_by_one_go_on_one_by_one() -> None:
    run = sums(policy=Policy(force_by=ForceBy.AUTO))
    run.start()
    opened = told(run.handle(Text(" 8\n", 1)))
    assert opened.isolated
    commands = [*run.handle(Text("7\n", 1)), *run.handle(Ended("stop"))]
    assert told(commands).prefix == f"{BEGIN}{LINES[0]}2 b = 7 * 2 ="


def test_names_are_shown_with_their_values_and_tables_whole() -> None:
    text = (
        "table rate(n: int) -> percent, first match\n  1..9 => 5%\n  >= 10 => 7%\n\n"
        "procedure p(xs: list of int) -> percent\n  n = len(xs)\n  return rate(n)\n"
    )
    made = program(text)
    steps = [shown(made, {"xs": (4, 5)}, (), 0)]
    turns = question(made, steps[0]).turns
    assert turns[-1].endswith("xs = [4, 5]\nlen(xs) =")

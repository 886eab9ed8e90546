"""Every case of every example: it ends as published, its trace is faithful, and each mutant is found where it is."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.check.checker import Checker
from guard.check.verdict import Verdict
from guard.cli import main
from guard.dialect.lark import Level
from guard.procedure.execute import reference
from guard.procedure.expected import Ending, EndKind
from guard.run.messages import Close, Ended, Finish, Message, Open, Outcome, RunEvent, Text
from guard.run.opening import Job
from guard.run.policy import Policy
from guard.run.run import Run
from guard.trace import render
from tests.alone import answer
from tests.dialect.readers import assert_takes, behind, narrowed
from tests.published import RULES, TOLERANCES
from tests.run.procedures import PREFILL
from tests.situations import SITUATIONS
from tests.traces import Blame
from tests.worked import Mutant, Worked, every, folders, procedure, procedure_file, worked

some = settings(max_examples=100, deadline=None)

NONCE = "3fa92c"
TRACED = [case for case in every() if case.trace is not None]
MUTANTS = [(case, mutant) for case in TRACED for mutant in case.mutants]
QUOTE = re.compile(r' <- "(?:[^"\\]|\\.)*"')


def name(value: object) -> str:
    match value:
        case Worked(folder=folder, name=case):
            return f"{folder}: {case}"
        case Mutant(name=mutant):
            return mutant
        case _:
            return str(value)


def checked(case: Worked, response: str) -> Checker:
    checker = Checker(case.program, case.inputs, nonce=NONCE)
    checker.feed(response)
    checker.close()
    return checker


@pytest.mark.parametrize("case", every(), ids=name)
def test_each_case_ends_as_it_says(case: Worked) -> None:
    _, ending = reference(case.program, case.inputs, case.decisions)
    assert (ending.kind, ending.value) == (case.end, case.wanted)


def agrees(folder: str, ending: Ending, published: object) -> bool:
    """Whether an end is the one that the rule gives; `published` is an answer or the kind of a refusal."""
    if isinstance(published, EndKind) or ending.kind is not EndKind.RETURN:
        return ending.kind is published
    match ending.value, published:
        case dict() as answer, dict():
            return answer.keys() == published.keys() and all(
                near(folder, answer[field], published[field]) for field in answer
            )
        case answer, _:
            return near(folder, answer, published)


def near(folder: str, one: object, other: object) -> bool:
    if isinstance(one, int | Fraction) and isinstance(other, int | Fraction):
        return abs(Fraction(one) - other) <= TOLERANCES.get(folder, 0)
    return one == other


@pytest.mark.parametrize("case", every(), ids=name)
def test_each_case_comes_to_the_same_by_the_rule_computed_another_way(case: Worked) -> None:
    _, ending = reference(case.program, case.inputs, case.decisions)
    assert agrees(case.folder, ending, RULES[case.folder](case.inputs, case.decisions))


@pytest.mark.parametrize("folder", folders())
@some
@given(data=st.data())
def test_the_procedure_and_the_rule_agree_everywhere(folder: str, data: st.DataObject) -> None:
    inputs, decisions = data.draw(SITUATIONS[folder])
    _, ending = reference(procedure(folder), inputs, decisions)
    assert agrees(folder, ending, RULES[folder](inputs, decisions))


@pytest.mark.parametrize("case", TRACED, ids=name)
def test_the_written_trace_is_the_faithful_one(case: Worked) -> None:
    assert case.trace is not None
    steps, _ = reference(case.program, case.inputs, case.decisions)
    computed = render.trace(case.program, steps, NONCE)
    assert QUOTE.sub("", case.trace) == QUOTE.sub("", computed)
    checker = checked(case, case.trace)
    assert checker.violation is None
    assert checker.verdict is Verdict.PASSED


@pytest.mark.parametrize(("case", "mutant"), MUTANTS, ids=name)
def test_each_mutant_gives_its_violation(case: Worked, mutant: Mutant) -> None:
    checker = checked(case, mutant.response)
    violation = checker.violation
    assert violation is not None
    assert Blame(kind=violation.kind, step=violation.step, at=violation.at) == mutant.blame
    assert case.trace is not None
    assert case.trace.startswith(checker.verified)


def carried_out(case: Worked, first: str) -> Finish:
    """A run on a model that writes `first`, and whatever it is asked for then as it should be."""
    assert case.trace is not None
    messages: tuple[Message, ...] = ({"role": "user", "content": "Go."},)
    job = Job(program=case.program, inputs=case.inputs, nonce=NONCE, messages=messages)
    run = Run(job, Policy(), (PREFILL,))
    steps, _ = reference(case.program, case.inputs, case.decisions)
    commands, says = [*run.start()], first
    events: list[RunEvent] = []
    while True:
        for command in commands:
            match command:
                case Open(isolated=True, resume_from=path):
                    at = next(i for i, (step, _) in enumerate(steps) if step.path == path)
                    said = answer(case.program, case.inputs, steps, at)
                    events = [Text(said, 1), Ended("stop", None)]
                case Open(prefix=prefix):
                    assert says.startswith(prefix)
                    events = [Text(says.removeprefix(prefix), 1), Ended("stop", None)]
                    says = case.trace
                case Close():
                    events = []
                case Finish():
                    return command
                case _:
                    pass
        commands = run.handle(events.pop(0))


@pytest.mark.parametrize(("case", "mutant"), MUTANTS, ids=name)
def test_a_run_cuts_each_mutant_and_comes_to_the_faithful_trace(case: Worked, mutant: Mutant) -> None:
    finish = carried_out(case, mutant.response)
    assert finish.outcome is Outcome.ACCEPTED_AFTER_RETRY
    assert [(violation.kind, violation.step) for violation in finish.violations] == [
        (mutant.blame.kind, mutant.blame.step)
    ]
    assert finish.trace == case.trace


@pytest.mark.parametrize("level", [Level.SHAPE, Level.OPERANDS, Level.VALUES])
@pytest.mark.parametrize("case", TRACED, ids=name)
def test_the_grammar_of_what_is_left_takes_the_rest(case: Worked, level: Level) -> None:
    steps, _ = reference(case.program, case.inputs, case.decisions)
    for at in (0, len(steps) // 2):
        made = narrowed(case.program, case.inputs, steps, at, level=level, stop=False)
        assert_takes(made.grammar, behind(case.program, steps, at, made))


@pytest.mark.parametrize("folder", folders())
def test_the_cases_of_an_example_go_through_every_step_of_it(folder: str) -> None:
    walked = {
        re.sub(r"\[\d+\]", "", expected.path)
        for case in worked(folder)
        for expected, _ in reference(case.program, case.inputs, case.decisions)[0]
    }
    assert walked >= {*procedure(folder).step_numbers}


@pytest.mark.parametrize("folder", folders())
def test_an_example_has_a_trace_and_mutants_of_several_kinds(folder: str) -> None:
    mutants = [mutant for case in worked(folder) for mutant in case.mutants]
    assert len(mutants) >= 5
    assert len({mutant.blame.kind for mutant in mutants}) >= 3


@pytest.mark.parametrize("case", TRACED, ids=name)
def test_the_command_says_the_same(case: Worked, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert case.trace is not None
    file = tmp_path / "trace.txt"
    command = ["check", str(procedure_file(case.folder)), "--json"]
    command += ["--inputs", json.dumps(case.given), "--trace", str(file), "--nonce", NONCE]
    file.write_text(case.trace, "utf-8")
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "passed"
    for mutant in case.mutants:
        file.write_text(mutant.response, "utf-8")
        assert main(command) == 1
        first = json.loads(capsys.readouterr().out)["violations"][0]
        assert Blame(kind=first["kind"], step=first["step"], at=first["at"]) == mutant.blame

"""Each step asked for by itself: at once where steps do not wait for each other, delivered in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import hypothesis.strategies as st
import pytest
from hypothesis import event, given

from guard.check.checker import Checker
from guard.check.verdict import Verdict
from guard.dialect.line import Level
from guard.procedure.execute import Program, reference
from guard.procedure.types import Value
from guard.run.endings import ACCEPTED
from guard.run.messages import (
    Cancelled,
    Close,
    Command,
    Emit,
    Ended,
    Finish,
    Open,
    Outcome,
    OutOfTime,
    Result,
    StepClass,
    Strategy,
    Target,
    Text,
)
from guard.run.policy import ForceBy, Policy
from guard.run.race import machine
from guard.run.run import Job, Run
from guard.trace.render import line, supporting_quotes
from tests.alone import Steps, answer
from tests.run.procedures import CALLER, DIALOGUE, GRAMMAR, NONCE, PREFILL, job, program
from tests.strategies import Sample, samples

ISOLATION: Final = Policy(force_by=ForceBy.ISOLATION, parallel=32)


def chain(length: int) -> str:
    """Each line reads the one before."""
    steps = [f"  a{i} = {f'a{i - 1}' if i else 'x'} + {i + 2}" for i in range(length)]
    return "\n".join(["procedure p(x: int) -> int", *steps, f"  return a{length - 1} * 2", ""])


def wide(length: int) -> str:
    """All lines but the answer read the input alone."""
    steps = [f"  a{i} = x + {i + 2}" for i in range(length)]
    total = " + ".join(f"a{i}" for i in range(length))
    return "\n".join(["procedure p(x: int) -> int", *steps, f"  return {total}", ""])


LOOP: Final = """\
procedure p(xs: list of int) -> int
  total = 0
  for n in xs at most 30
    twice = n * 2
    total = total + twice
  return total * 3
"""


@dataclass
class Server:
    """Answers all that is open at once, round by round; what it says is right, but for `wrong` answers."""

    run: Run
    steps: Steps
    program: Program
    inputs: Mapping[str, Value]
    wrong: dict[str, int] = field(default_factory=dict)  # path -> how often
    ended: set[int] = field(default_factory=set)
    rounds: int = 0
    most: int = 0
    open: dict[int, Open] = field(default_factory=dict)
    opened: list[Open] = field(default_factory=list)
    closed: list[Close] = field(default_factory=list)
    emitted: list[Emit] = field(default_factory=list)
    finish: Finish | None = None

    def perform(self, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case Open():
                    self.open[command.generation] = command
                    self.opened.append(command)
                case Close():
                    self.open.pop(command.generation, None)
                    self.closed.append(command)
                case Emit():
                    self.emitted.append(command)
                case Finish():
                    self.finish = command
                case _:
                    pass

    def says(self, opened: Open) -> str:
        path = opened.resume_from
        at = next(i for i, (step, _) in enumerate(self.steps) if step.path == path)
        if self.wrong.get(path, 0) > 0:
            self.wrong[path] -= 1
            return f"{900 + self.wrong[path]}\n"
        if not opened.isolated:
            step, value = self.steps[at]
            whole = line(step, value if step.decision else None, supporting_quotes(step, value))
            tail = opened.prefix.rpartition("\n")[2]
            framed = tail or any(message["role"] == "assistant" for message in opened.messages)
            begin = "" if framed else f"@begin {self.program.name} {NONCE}\n"
            return begin + whole.removeprefix(tail) + "\n"
        return answer(self.program, self.inputs, self.steps, at)

    def play(self, order: Sequence[int] = ()) -> Finish:
        """Play all rounds; `order` says which of the open ones is heard first."""
        self.perform(self.run.start())
        while self.finish is None:
            self.rounds += 1
            assert self.rounds < 500
            now = [one for number, one in self.open.items() if number not in self.ended]
            self.most = max(self.most, len(now))
            if order:
                now.sort(key=lambda one: order[one.generation % len(order)])
            for opened in now:
                if opened.generation not in self.open or opened.generation in self.ended:
                    continue
                self.ended.add(opened.generation)
                for said in (Text(self.says(opened), 5), Ended("stop")):
                    if opened.generation in self.open and self.finish is None:
                        self.perform(self.run.handle(said, opened.generation))
        return self.finish


def server(
    text: str, inputs: Mapping[str, Value], policy: Policy = ISOLATION, target: Target = PREFILL
) -> Server:
    made = program(text)
    steps, _ = reference(made, inputs, {})
    run = Run(job(text, dict(inputs)), policy, [target])
    return Server(run=run, steps=steps, program=made, inputs=inputs)


@pytest.mark.parametrize("length", [3, 12, 40])
def test_as_many_rounds_as_the_procedure_is_deep(length: int) -> None:
    deep, flat = (
        server(chain(length), {"x": 4}),
        server(wide(length), {"x": 4}, replace(ISOLATION, parallel=64)),
    )
    assert deep.play().outcome is flat.play().outcome is Outcome.ACCEPTED_FIRST
    assert (deep.rounds, flat.rounds) == (length + 1, 2)
    assert flat.most == length
    loop = server(LOOP, {"xs": tuple(range(length % 30))})
    loop.play()
    assert loop.rounds <= length % 30 + 3


@pytest.mark.parametrize("parallel", [1, 2, 5])
def test_no_more_are_open_at_once_than_the_policy_says(parallel: int) -> None:
    flat = server(wide(20), {"x": 4}, replace(ISOLATION, parallel=parallel))
    flat.play()
    assert flat.most == parallel
    assert flat.rounds >= 20 / parallel


def test_lines_come_in_order_each_verified_and_each_by_itself() -> None:
    flat = server(wide(9), {"x": 4})
    finish = flat.play(order=[3, 1, 2, 0])
    assert [emit.step for emit in flat.emitted] == [step.path for step, _ in flat.steps]
    assert all(emit.isolated and emit.step_class is StepClass.SCAFFOLDED for emit in flat.emitted)
    assert {opened.strategy for opened in flat.opened} == {Strategy.INITIAL, Strategy.LINE}
    assert finish.steps.isolated == 10
    assert len(finish.usage) == finish.generations == 10


def test_a_wrong_line_is_mended_while_the_others_stand() -> None:
    flat = server(wide(6), {"x": 4})
    flat.wrong = {"3": 1, "5": 2}
    finish = flat.play()
    assert finish.outcome is Outcome.ACCEPTED_AFTER_RETRY
    assert [violation.step for violation in finish.violations] == ["3", "5", "5"]
    asked = [opened.resume_from for opened in flat.opened]
    assert {path: asked.count(path) for path in set(asked)} == {
        **dict.fromkeys("12467", 1), "3": 2, "5": 3
    }  # fmt: skip


def test_a_procedure_within_another_waits_for_what_it_is_given() -> None:
    made = server(CALLER, {"x": 3, "z": 4})
    finish = made.play()
    assert finish.answer == "10"
    assert [opened.resume_from for opened in made.opened] == ["1.1", "2"]
    assert made.rounds == 2


@pytest.mark.parametrize(
    ("what", "result"), [(Cancelled(), Result.CANCELLED), (OutOfTime(), Result.CANCELLED)]
)
def test_all_that_is_open_is_closed_where_the_run_ends(what: Cancelled | OutOfTime, result: Result) -> None:
    flat = server(wide(6), {"x": 4})
    flat.perform(flat.run.start())
    numbers = sorted(flat.open)
    flat.perform(flat.run.handle(Text("1", 3), numbers[2]))
    flat.perform(flat.run.handle(what))
    assert flat.finish is not None
    assert not flat.open
    assert [one.result for one in flat.closed if one.generation == numbers[2]] == [result]
    assert len(flat.finish.usage) == len(numbers) == flat.finish.generations
    assert flat.finish.usage[2].completion == 3


def test_the_budget_is_that_of_all_together() -> None:
    flat = server(wide(6), {"x": 4}, replace(ISOLATION, output_tokens=20))
    flat.perform(flat.run.start())
    numbers = sorted(flat.open)
    flat.perform(flat.run.handle(Text("1", 11), numbers[1]))
    assert flat.run.spent == 11
    flat.perform(flat.run.handle(Text("1", 11), numbers[2]))
    assert sorted(flat.open) == numbers[:1], "what was asked for ahead is given up"


@given(
    sample=samples(shuffle=False),
    parallel=st.integers(1, 6),
    target=st.sampled_from([PREFILL, DIALOGUE, GRAMMAR]),
    order=st.lists(st.integers(0, 9), min_size=1, max_size=5),
    force=st.sampled_from([Level.OPERANDS, Level.VALUES]),
)
def test_whatever_the_procedure_it_comes_to_the_same(
    sample: Sample, parallel: int, target: Target, order: list[int], force: Level
) -> None:
    policy = replace(ISOLATION, parallel=parallel, force=force)
    made = Job(
        program=sample.program,
        inputs=sample.inputs,
        messages=({"role": "user", "content": "Go."},),
        nonce=NONCE,
    )
    run = machine(made, policy, [target])
    assert isinstance(run, Run)
    played = Server(run=run, steps=sample.steps, program=sample.program, inputs=sample.inputs)
    finish = played.play(order)
    event(f"most at once: {played.most}")
    assert finish.outcome in ACCEPTED, finish.reason
    assert not finish.violations
    assert [emit.step for emit in played.emitted] == [step.path for step, _ in sample.steps]
    checker = Checker(sample.program, sample.inputs, nonce=NONCE)
    checker.feed(finish.trace)
    assert checker.verdict is Verdict.PASSED
    assert played.most <= parallel

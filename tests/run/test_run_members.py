"""Runs whose lines are asked for as members of a JSON object: the frame is the guard's, the rest a dialogue."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from guard.check.verdict import Kind
from guard.dialect.lark import Level
from guard.dialect.notation import Dialect
from guard.errors import UpstreamTimeout
from guard.run.ladders import Action, always
from guard.run.messages import Ended, Failed, Finish, Open, Outcome, Result, StepClass, Strategy, Text
from guard.run.run import Job, Policy, Run
from guard.wire.steps import Steps
from tests.playbook import Playbook, closes, emits, ends, finishes, ignores, opens, says, violates
from tests.run.procedures import DIALOGUE, NONCE, aside, order, sums
from tests.strategies import NONCE as SAMPLED
from tests.strategies import Sample, samples

BEGIN: Final = f"@begin sums {NONCE}\n"
LINES: Final = ["1 a = 3 + 4 = 7\n", "2 b = 7 * 2 = 14\n", "3 c = 14 - 3 = 11\n", "4 return 11\n"]
TRACE: Final = BEGIN + "".join(LINES) + f"@end {NONCE}\n"
GIVEN: Final = StepClass.SCAFFOLDED
SCHEMA: Final = replace(DIALOGUE, dialect=Dialect.JSON_SCHEMA)


def schema(command: Open) -> dict[str, Any]:
    assert command.grammar is not None
    properties: dict[str, Any] = json.loads(command.grammar)["properties"]
    return properties


def last_open(play: Playbook) -> Open:
    return [command for command in play.commands if isinstance(command, Open)][-1]


def filled(command: Open, lines: list[str]) -> str:
    """What a model writes that fills a schema with what the lines say."""
    values = {}
    for name in schema(command):
        (value,) = (line.removeprefix(name) for line in lines if line.startswith(name))
        values[name] = value
    return json.dumps(values, ensure_ascii=False)


def test_the_model_is_told_how_and_the_guard_writes_the_opening_line() -> None:
    play = (
        Playbook(sums(SCHEMA))
        << opens(prefix="")
        >> says(LINES[0])
        << emits("1", GIVEN)
        >> says("".join(LINES[1:]))
        << emits("2", GIVEN)
        << emits("3", GIVEN)
        << emits("4", GIVEN)
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_FIRST, trace=TRACE)
    )
    assert play
    (message,) = last_open(play).messages
    text = str(message["content"])
    assert text.startswith("Go.\n\nWrite these lines as the members of one JSON object")
    assert text.endswith('\n{"1 a = 3 + 4 = ": ...')
    assert list(schema(last_open(play))) == [line.rsplit(" ", 1)[0] + " " for line in LINES]


def test_a_server_that_heeds_no_schema_may_write_the_trace_as_it_is() -> None:
    assert (
        Playbook(sums(SCHEMA))
        << opens()
        >> says(BEGIN)
        << ignores(BEGIN)
        >> says("".join(LINES))
        << emits("1", GIVEN)
        << emits("2", GIVEN)
        << emits("3", GIVEN)
        << emits("4", GIVEN)
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_FIRST, trace=TRACE)
    )


def test_a_sentence_in_front_of_the_first_line_is_malformed_as_it_is_elsewhere() -> None:
    assert (
        Playbook(sums(SCHEMA, policy=Policy(rules=always([Action.REJECT]))))
        << opens()
        >> says("Sure, here it is.\n")
        << violates(Kind.MALFORMED, "1")
        << closes(Result.VIOLATION)
        << finishes(Outcome.REJECTED)
    )


def test_behind_a_violation_a_turn_asks_for_the_members_that_are_left() -> None:
    play = (
        Playbook(sums(SCHEMA))
        << opens()
        >> says(LINES[0] + "2 b = 7 * 2 = 15\n")
        << emits("1", GIVEN)
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, prefix="", resume_from="2")
    )
    _, said, turn = last_open(play).messages
    assert said == {"role": "assistant", "content": (BEGIN + LINES[0]).rstrip("\n")}
    asked, how, first = str(turn["content"]).splitlines()[0], *str(turn["content"]).splitlines()[-2:]
    assert asked == "All steps above stand. Go on with step 2; do not repeat them, do not explain."
    assert "members of one JSON object" in how
    assert first == '{"2 b = 7 * 2 = ": ...'
    assert list(schema(last_open(play))) == ["2 b = 7 * 2 = ", "3 c = 14 - 3 = ", "4 return "]
    assert (
        play
        >> says("".join(LINES[1:]))
        << emits("2", GIVEN)
        << emits("3", GIVEN)
        << emits("4", GIVEN)
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_AFTER_RETRY, trace=TRACE)
    )


def test_where_nothing_stands_yet_the_trace_is_asked_for_from_the_beginning_without_its_frame() -> None:
    play = (
        Playbook(sums(SCHEMA, policy=Policy(rules=always([Action.FEEDBACK]))))
        << opens()
        >> says("1 a = 3 + 4 = 8\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.FEEDBACK)
    )
    (message,) = last_open(play).messages
    go, told, how = str(message["content"]).split("\n\n")
    assert go == "Go."
    assert told.splitlines() == [
        "wrong_value at step 1. The value was not what the expression gives. Compute it again.",
        "Write the trace from the beginning.",
    ]
    assert how.endswith('\n{"1 a = 3 + 4 = ": ...')


def test_a_schema_ends_in_front_of_what_hangs_on_a_decision() -> None:
    play = Playbook(order(SCHEMA)) << opens()
    assert list(schema(last_open(play))) == ["1 qty = ", "2 loyal = ", "3 price = "]
    play = (
        play
        >> says('1 qty = 6 <- "Six panels"\n2 loyal = true\n3 price = 10.00\n')
        << emits("1", StepClass.MODEL_DECIDED)
        << emits("2", StepClass.MODEL_DECIDED)
        << emits("3", GIVEN)
        >> ends()
        << closes(Result.DECIDED)
        << opens(Strategy.DECISION, prefix="", resume_from="4")
    )
    assert play.run.lines == 3
    assert next(iter(schema(last_open(play)))) == "4 if "


def test_steps_in_any_order_are_asked_for_in_that_of_the_procedure() -> None:
    play = Playbook(aside(SCHEMA)) << opens()
    assert list(schema(last_open(play))) == ["1.1 sum = 3 + 4 = ", "1.2 n = ", "1.3 product = 3 * 4 = "]


def test_without_a_grammar_lines_are_asked_for_as_ever() -> None:
    for target in (SCHEMA, replace(SCHEMA, prefill=True)):
        play = Playbook(sums(target, policy=Policy(force=Level.NONE))) << opens(grammar=None)
        command = last_open(play)
        assert command.messages == ({"role": "user", "content": "Go."},)
        assert command.prefix == (f"{BEGIN}1" if target.prefill else "")


def test_an_upstream_that_is_gone_to_before_anything_stands_is_asked_as_if_it_was_the_first() -> None:
    other = replace(DIALOGUE, name="other")
    play = (
        Playbook(sums(SCHEMA, other, policy=Policy(transport_retries=0)))
        << opens()
        >> Failed(UpstreamTimeout("nothing came"))
        << closes(Result.TIMEOUT)
        << opens(Strategy.FALLBACK, prefix="", grammar=None, messages=({"role": "user", "content": "Go."},))
    )
    assert (
        play
        >> says(BEGIN)
        << ignores(BEGIN)
        >> says("".join(LINES))
        << emits("1")
        << emits("2")
        << emits("3")
        << emits("4")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_BY_FALLBACK, trace=TRACE)
    )


def test_an_object_has_no_prefix_though_the_server_could_continue_one() -> None:
    play = Playbook(sums(replace(SCHEMA, prefill=True))) << opens(prefix="")
    assert schema(last_open(play))


@settings(max_examples=60, deadline=None)
@given(samples(shuffle=False), st.sampled_from([Level.SHAPE, Level.OPERANDS, Level.VALUES]), st.data())
def test_a_model_that_fills_every_schema_rightly_is_right(
    sample: Sample, level: Level, data: st.DataObject
) -> None:
    job = Job(
        program=sample.program,
        inputs=sample.inputs,
        messages=({"role": "user", "content": "Go."},),
        nonce=SAMPLED,
    )
    run = Run(job, Policy(force=level), [SCHEMA])
    lines = sample.trace.splitlines()
    commands = run.start()
    while not isinstance(commands[-1], Finish):
        command = commands[-1]
        assert isinstance(command, Open)
        if command.grammar is None:
            return  # more than lines in one order
        written, steps = filled(command, lines), Steps()
        size = data.draw(st.integers(1, 40))
        text = "".join(steps.feed(written[at : at + size]) for at in range(0, len(written), size))
        commands = run.handle(Text(text)) or run.handle(Ended("stop"))
        if not isinstance(commands[-1], Open | Finish):
            commands = run.handle(Ended("stop"))
    finish = commands[-1]
    assert finish.violations == ()
    assert finish.trace == sample.trace

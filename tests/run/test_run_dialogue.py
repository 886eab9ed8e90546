"""Runs on an upstream that continues no prefix: a turn asks for the rest, repeated lines are ignored."""

from __future__ import annotations

from typing import Final

from guard.check.verdict import Kind
from guard.run.ladders import Action, always
from guard.run.messages import Cancelled, Open, Outcome, Result, StepClass, Strategy
from guard.run.run import Policy
from tests.playbook import Playbook, closes, emits, ends, finishes, ignores, opens, says, violates
from tests.run.procedures import DIALOGUE, PREFILL, sums

BEGIN: Final = "@begin sums 3fa92c\n"
LINES: Final = ["1 a = 3 + 4 = 7\n", "2 b = 7 * 2 = 14\n", "3 c = 14 - 3 = 11\n", "4 return 11\n"]
TRACE: Final = BEGIN + "".join(LINES) + "@end 3fa92c\n"
CLIENT: Final = {"role": "user", "content": "Go."}


def resumed() -> Playbook:
    """A run that was cut at step 2 and asked for the rest."""
    return (
        Playbook(sums(DIALOGUE))
        << opens(prefix="", messages=(CLIENT,))
        >> says(f"{BEGIN}{LINES[0]}2 b = 7 * 2 = 15\n3 c")
        << emits("1")
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, prefix="", resume_from="2", temperature=0.5)
    )


def last_open(play: Playbook) -> Open:
    """The generation that is open."""
    return [command for command in play.commands if isinstance(command, Open)][-1]


def test_the_model_opens_the_frame_itself() -> None:
    assert (
        Playbook(sums(DIALOGUE))
        << opens(prefix="", messages=(CLIENT,))
        >> says(TRACE)
        << emits("1")
        << emits("2")
        << emits("3")
        << emits("4")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_FIRST, trace=TRACE)
    )


def test_a_frame_that_is_opened_twice_in_one_answer_is_malformed() -> None:
    assert (
        Playbook(sums(DIALOGUE))
        << opens()
        >> says(BEGIN + BEGIN)
        << violates(Kind.MALFORMED, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME)
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )


def test_a_resume_is_a_turn_that_asks_for_the_rest_and_says_nothing_of_what_was_wrong() -> None:
    client, said, turn = last_open(resumed()).messages
    assert client == CLIENT
    assert said == {"role": "assistant", "content": (BEGIN + LINES[0]).rstrip("\n")}
    assert turn["role"] == "user"
    text = str(turn["content"])
    assert text == "All steps above stand. Go on with step 2; do not repeat them, do not explain."


def test_the_rest_alone_is_the_usual_answer() -> None:
    assert (
        resumed()
        >> says("".join(LINES[1:]))
        << emits("2")
        << emits("3")
        << emits("4")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_AFTER_RETRY, trace=TRACE)
    )


def test_verified_lines_that_are_repeated_are_ignored_also_in_other_words() -> None:
    assert (
        resumed()
        >> says(f"{BEGIN}1 a = 4 + 3  = 7\n{LINES[1]}", tokens=12)
        << ignores(BEGIN)
        << ignores("1 a = 4 + 3  = 7\n")
        << emits("2")
        >> says(LINES[2] + LINES[3])
        << emits("3")
        << emits("4")
        >> ends()
        << closes(Result.PASSED, discarded=6)
        << finishes(Outcome.ACCEPTED_AFTER_RETRY, trace=TRACE)
    )


def test_a_repeated_step_with_another_value_is_a_violation_and_the_prefix_stands() -> None:
    play = (
        resumed()
        >> says("1 a = 3 + 4 = 8\n")
        << violates(Kind.SELF_CORRECTION, "2")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, resume_from="2", temperature=0.65)
    )
    _, said, turn = last_open(play).messages
    assert said["content"] == (BEGIN + LINES[0]).rstrip("\n")
    assert "The next line is that of step 2" in str(turn["content"]), "worded otherwise the second time"


def test_a_line_repeated_behind_a_new_one_is_a_violation() -> None:
    assert (
        resumed()
        >> says(LINES[1] + LINES[0])
        << emits("2")
        << violates(Kind.REPEATED_STEP, "3")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, resume_from="3")
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )


def test_a_repetition_that_is_cut_off_is_ignored_and_the_rest_is_missing() -> None:
    assert (
        resumed()
        >> says(LINES[0].rstrip("\n"))
        >> ends()
        << ignores(LINES[0])
        << violates(Kind.MISSING_ANSWER, "2")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME)
        >> says(f"{BEGIN.rstrip()}")
        >> ends("length")
        << violates(Kind.TRUNCATED, "2")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME)
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )


def test_a_scaffold_gives_the_beginning_of_the_line_in_words() -> None:
    play = (
        Playbook(sums(DIALOGUE))
        << opens()
        >> says(f"{BEGIN}{LINES[0]}2 b = 8 * 2 = 16\n")
        << emits("1")
        << violates(Kind.WRONG_EXPRESSION, "2")
        << closes(Result.VIOLATION)
        << opens(Strategy.SCAFFOLD, prefix="")
    )
    assert str(last_open(play).messages[-1]["content"]).endswith(
        "Complete this line, then write the ones behind it: 2 b = 7 * 2 ="
    )
    assert (
        play
        >> says("".join(LINES[1:]))
        << emits("2", StepClass.SCAFFOLDED)
        << emits("3")
        << emits("4")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_AFTER_RETRY)
    )


def test_where_nothing_stands_the_turn_is_part_of_the_clients_last_message() -> None:
    play = (
        Playbook(sums(DIALOGUE))
        << opens()
        >> says("Sure! Here is the trace:\n")
        << violates(Kind.MALFORMED, "")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, prefix="")
    )
    (turn,) = last_open(play).messages
    assert turn["role"] == "user"
    assert turn["content"] == (
        "Go.\n\nWrite the trace from the beginning. Its first line is: @begin sums 3fa92c"
    )
    assert (
        play
        >> says(TRACE)
        << emits("1")
        << emits("2")
        << emits("3")
        << emits("4")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_AFTER_RETRY)
    )


def test_where_nothing_stands_the_turn_is_one_more_part_of_a_message_of_parts() -> None:
    parts = {"role": "user", "content": [{"type": "text", "text": "Go."}]}
    play = (
        Playbook(sums(DIALOGUE, messages=(parts,)))
        << opens()
        >> says("Sure!\n")
        << violates(Kind.MALFORMED, "")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME)
    )
    (turn,) = last_open(play).messages
    assert turn["content"] == [
        {"type": "text", "text": "Go."},
        {"type": "text", "text": f"Write the trace from the beginning. Its first line is: {BEGIN.rstrip()}"},
    ]


def test_a_turn_of_its_own_follows_messages_that_do_not_end_in_the_users() -> None:
    said = ({"role": "user", "content": "Go."}, {"role": "assistant", "content": "With what?"})
    play = (
        Playbook(sums(DIALOGUE, messages=said))
        << opens()
        >> says("Sure!\n")
        << violates(Kind.MALFORMED, "")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME)
    )
    *first, turn = last_open(play).messages
    assert tuple(first) == said
    assert turn["role"] == "user"


def test_a_repair_is_told_as_what_stands() -> None:
    play = (
        Playbook(sums(DIALOGUE, policy=Policy(rules=always([Action.REPAIR]))))
        << opens()
        >> says(f"{BEGIN}1 a = 3 + 4 = 8\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << emits("1", StepClass.REPAIRED)
        << opens(Strategy.REPAIR, resume_from="2")
    )
    _, said, turn = last_open(play).messages
    assert said["content"] == (BEGIN + LINES[0]).rstrip("\n")
    assert "wrong_value" not in str(turn["content"]), "nothing is wrong any more"


def test_a_repair_before_the_first_line_opens_the_frame() -> None:
    assert (
        Playbook(sums(DIALOGUE, policy=Policy(rules=always([Action.REPAIR]))))
        << opens()
        >> says("Sure!\n")
        << violates(Kind.MALFORMED, "")
        << closes(Result.VIOLATION)
        << emits("1", StepClass.REPAIRED)
        << opens(Strategy.REPAIR)
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED, trace=BEGIN + LINES[0])
    )


def test_a_fallback_from_a_prefix_to_a_dialogue_takes_the_prefix_along() -> None:
    play = (
        Playbook(sums(PREFILL, DIALOGUE, policy=Policy(rules=always([Action.FALLBACK]))))
        << opens(prefix=f"{BEGIN}1")
        >> says(" a = 3 + 4 = 7\n2 b = 7 * 2 = 15\n")
        << emits("1")
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION)
        << opens(Strategy.FALLBACK, prefix="", resume_from="2")
    )
    assert last_open(play).messages[1]["content"] == (BEGIN + LINES[0]).rstrip("\n")

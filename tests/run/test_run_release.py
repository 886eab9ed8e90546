"""What a policy lets go unchecked: read to its end, told apart from what is verified, bounded."""

from __future__ import annotations

from typing import Final

import pytest

from guard.check.verdict import Kind
from guard.errors import UpstreamTimeout
from guard.run.ladders import Action, Rung, always
from guard.run.messages import Cancelled, Failed, Outcome, OutOfTime, Result, RunEvent, StepClass, Strategy
from guard.run.policy import Policy
from guard.run.release import LONGEST, answer, prose
from tests.playbook import Playbook, closes, emits, ends, finishes, ignores, opens, says, violates
from tests.run.procedures import DIALOGUE, ORDER, PREFILL, SUMS, order, program, shares, sums

BEGIN: Final = "@begin sums 3fa92c\n"
FIRST: Final = "1 a = 3 + 4 = 7\n"
WRONG: Final = "2 b = 7 * 2 = 15\n"
REST: Final = "3 c = 15 - 3 = 12\n4 return 12\n@end 3fa92c\n"
RELEASE: Final = Policy(rules=always([Action.RELEASE]))


def went_wrong(policy: Policy = RELEASE) -> Playbook:
    """A run whose generation has been wrong at step 2 and is read on."""
    return (
        Playbook(sums(policy=policy))
        << opens()
        >> says(f"{FIRST}{WRONG}".removeprefix("1"))
        << emits("1")
        << violates(Kind.WRONG_VALUE, "2")
    )


def test_a_release_is_read_to_its_end_and_gives_the_models_own_answer() -> None:
    play = (
        went_wrong()
        >> says(REST)
        >> ends(completion=9, prompt=7)
        << closes(Result.VIOLATION, discarded=0)
        << finishes(
            Outcome.RELEASED,
            answer="12",
            end="return",
            trace=BEGIN + FIRST,
            unverified=WRONG + REST,
            error=None,
            finish_reason="stop",
            attempts=1,
        )
    )
    assert play
    assert play.finish.reason == (
        "released without verification, as the policy says, behind wrong_value at step 2"
    )
    assert play.finish.classes == {"1": StepClass.VERIFIED}
    assert play.finish.steps.missing == 3


def test_gentler_actions_come_first_and_the_reason_says_what_became_of_them() -> None:
    policy = Policy(rules=always([Rung(Action.RESUME, 1), Action.RELEASE]))
    play = (
        went_wrong(policy)
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME)
        >> says(" b = 7 * 2 = 16\n")
        << violates(Kind.WRONG_VALUE, "2")
        >> ends()
        << closes(Result.VIOLATION, discarded=0)
        << finishes(Outcome.RELEASED, trace=BEGIN + FIRST, unverified="2 b = 7 * 2 = 16\n", end=None)
    )
    assert play
    assert play.finish.answer == "", "a line of the trace is no answer"
    assert play.finish.reason.endswith("at step 2 (resume was tried once at this step)")


@pytest.mark.parametrize("cut", range(1, len(WRONG + REST)))
def test_where_the_text_is_cut_into_pieces_changes_nothing(cut: int) -> None:
    whole = (WRONG + REST).removeprefix("2")
    play = (
        Playbook(sums(policy=RELEASE))
        << opens()
        >> says(f"{FIRST}2".removeprefix("1"))
        << emits("1")
        >> says(whole[:cut])
    )
    violated = "\n" in whole[:cut]
    play = play << violates(Kind.WRONG_VALUE, "2") if violated else play
    play = play >> says(whole[cut:])
    play = play if violated else play << violates(Kind.WRONG_VALUE, "2")
    assert (
        play
        >> ends()
        << closes(Result.VIOLATION)
        << finishes(Outcome.RELEASED, answer="12", unverified=WRONG + REST)
    )


@pytest.mark.parametrize(
    ("event", "result"),
    [
        (Failed(UpstreamTimeout("nothing came for 30 s")), Result.TIMEOUT),
        (OutOfTime(), Result.TIMEOUT),
    ],
)
def test_what_breaks_off_is_released_as_far_as_it_went(event: RunEvent, result: Result) -> None:
    assert (
        went_wrong()
        >> says("3 c = 15")
        >> event
        << closes(result)
        << finishes(
            Outcome.RELEASED, unverified=f"{WRONG}3 c = 15", finish_reason="length", end=None, error=None
        )
    )


def test_a_client_that_leaves_gets_nothing() -> None:
    assert (
        went_wrong()
        >> says("3 c = 15")
        >> Cancelled()
        << closes(Result.CANCELLED, discarded=1)
        << finishes(Outcome.CANCELLED, unverified="", answer=None)
    )


def test_the_budget_of_tokens_bounds_it() -> None:
    assert (
        Playbook(sums(policy=RELEASE, max_tokens=20))
        << opens()
        >> says(f"{FIRST}{WRONG}".removeprefix("1"), tokens=15)
        << emits("1")
        << violates(Kind.WRONG_VALUE, "2")
        >> says("3 c = 15 - 3 = 12\n", tokens=6)
        << closes(Result.BUDGET_EXHAUSTED)
        << finishes(Outcome.RELEASED, unverified=f"{WRONG}3 c = 15 - 3 = 12\n", finish_reason="length")
    )


def test_a_text_without_end_is_cut() -> None:
    play = went_wrong()
    for _ in range(LONGEST // 1000 - 1):
        play = play >> says("x" * 1000, tokens=0)
    play = (
        play
        >> says("x" * 999 + "yz", tokens=0)
        << closes(Result.VIOLATION)
        << finishes(Outcome.RELEASED, finish_reason="length")
    )
    assert play
    assert play.finish.unverified == WRONG + "x" * (LONGEST - 1) + "y"


@pytest.mark.parametrize(
    ("said", "finish_reason", "kind", "unverified"),
    [
        (f"{FIRST}2 b = 7", "length", Kind.TRUNCATED, "2 b = 7"),
        (f"{FIRST}", "length", Kind.TRUNCATED, ""),
        (f"{FIRST}", "stop", Kind.MISSING_ANSWER, ""),
        (f"{FIRST}2 b = 7 * 2 = 15", "stop", Kind.WRONG_VALUE, WRONG),
    ],
)
def test_where_it_has_ended_there_is_nothing_to_wait_for(
    said: str, finish_reason: str, kind: Kind, unverified: str
) -> None:
    assert (
        Playbook(sums(policy=RELEASE))
        << opens()
        >> says(said.removeprefix("1"))
        << emits("1")
        >> ends(finish_reason)
        << violates(kind, "2")
        << closes(Result.VIOLATION)
        << finishes(Outcome.RELEASED, unverified=unverified, answer="", finish_reason=finish_reason)
    )


def test_nothing_at_all_is_not_released() -> None:
    play = (
        Playbook(sums(policy=RELEASE))
        << opens()
        >> ends()
        << violates(Kind.MISSING_ANSWER, "1")
        << closes(Result.VIOLATION)
        << finishes(Outcome.REJECTED)
    )
    assert play
    assert play.finish.error is not None
    assert play.finish.error.message.endswith("nothing was written that could be released")


def test_prose_is_released_as_it_is_with_a_prefix_or_without() -> None:
    for target, step in ((PREFILL, "1"), (DIALOGUE, "")):
        assert (
            Playbook(sums(target, policy=RELEASE))
            << opens()
            >> says("I think it is 12.\nYes, ")
            << violates(Kind.MALFORMED, step)
            >> says("12.")
            >> ends()
            << closes(Result.VIOLATION)
            << finishes(
                Outcome.RELEASED,
                unverified="I think it is 12.\nYes, 12.",
                answer="I think it is 12.\nYes, 12.",
            )
        )


def test_prose_that_is_tolerated_is_released_too() -> None:
    policy = Policy(rules=always([Action.RELEASE]), tolerant=True)
    assert (
        Playbook(sums(DIALOGUE, policy=policy))
        << opens()
        >> says("I think it is 12.\n")
        << ignores("I think it is 12.\n")
        >> ends()
        << violates(Kind.MISSING_ANSWER, "1")
        << closes(Result.VIOLATION)
        << finishes(Outcome.RELEASED, unverified="I think it is 12.\n", answer="I think it is 12.")
    )


def test_what_is_held_back_is_given_before_what_is_released() -> None:
    policy = Policy(rules=always([Action.RELEASE]), deliver="hold_all")
    assert (
        Playbook(sums(policy=policy))
        << opens()
        >> says(f"{FIRST}{WRONG}".removeprefix("1"))
        << violates(Kind.WRONG_VALUE, "2")
        >> says(REST)
        >> ends()
        << closes(Result.VIOLATION)
        << emits("1")
        << finishes(Outcome.RELEASED, answer="12")
    )


def test_behind_a_dialogue_turn_only_what_is_new_is_released() -> None:
    policy = Policy(rules=always([Rung(Action.RESUME, 1), Action.RELEASE]))
    assert (
        Playbook(sums(DIALOGUE, policy=policy))
        << opens()
        >> says(BEGIN + FIRST + WRONG)
        << emits("1")
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME)
        >> says(BEGIN + FIRST + WRONG.replace("15", "16") + REST)
        << ignores(BEGIN)
        << ignores(FIRST)
        << violates(Kind.WRONG_VALUE, "2")
        >> ends()
        << closes(Result.VIOLATION)
        << finishes(Outcome.RELEASED, trace=BEGIN + FIRST, unverified=WRONG.replace("15", "16") + REST)
    )


def test_behind_a_dialogue_turn_what_is_no_line_is_released_as_well() -> None:
    policy = Policy(rules=always([Rung(Action.RESUME, 1), Action.RELEASE]))
    again = WRONG.replace("15", "16")
    assert (
        Playbook(sums(DIALOGUE, policy=policy))
        << opens()
        >> says(BEGIN + FIRST + WRONG)
        << emits("1")
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME)
        >> says(f"So I go on.\n{again}{REST}")
        << ignores("So I go on.\n")
        << violates(Kind.WRONG_VALUE, "2")
        >> ends()
        << closes(Result.VIOLATION)
        << finishes(Outcome.RELEASED, trace=BEGIN + FIRST, unverified=f"So I go on.\n{again}{REST}")
    )


def test_a_procedure_that_fails_by_itself_has_nothing_to_release() -> None:
    play = (
        Playbook(shares(policy=RELEASE))
        << opens()
        >> says(" people = 600\n")
        << closes(Result.DECIDED)
        << finishes(Outcome.REJECTED)
    )
    assert play
    assert play.finish.error is not None
    assert play.finish.error.code == "procedure_failed"


def test_a_wrong_decision_can_be_released_as_well() -> None:
    play = (
        Playbook(order(policy=RELEASE))
        << opens()
        >> says(' qty = 99 <- "Six"\n2 loyal = true\n6 return {"qty": 99, "total": 99 * 9.50 = 940.50}\n')
        << violates(Kind.INADMISSIBLE_VALUE, "1")
        >> ends()
        << closes(Result.VIOLATION)
        << finishes(Outcome.RELEASED, answer='{"qty": 99, "total": 940.50}', end="return")
    )
    assert play


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("4 return 12\n", ("return", "12")),
        ("4 return 12", ("return", "12")),
        ("7 return 14 - 3 = 12.50\n", ("return", "12.50")),
        ("4 return 1\n4 return 2\n", ("return", "2")),
        ('4 deny "Too many."\n', ("deny", "Too many.")),
        ("4 return nonsense of mine\n", None),
        ("The answer is 12.\n", None),
        ("3 c = 12\n", None),
        ("", None),
    ],
)
def test_the_models_answer_is_its_last_readable_answer_line(text: str, found: tuple[str, str] | None) -> None:
    assert answer(program(SUMS), text) == found


def test_an_answer_of_another_type_is_given_as_it_is_written() -> None:
    assert answer(program(ORDER), '6 return {"qty": 2}\n') == ("return", '{"qty": 2}')
    assert answer(program(ORDER), "6 return 2\n") == ("return", "2")
    assert answer(program(ORDER), '6 return "two"\n') == ("return", "two")


@pytest.mark.parametrize("said", ["", "It comes to 12.", "12", "Two lines\n  of it."])
@pytest.mark.parametrize("before", ["", WRONG, BEGIN, "@end 3fa92c\n"])
@pytest.mark.parametrize("behind", ["", "@end 3fa92c", "@end 000000\n", "3 c =", "3 return", " @begin x 1\n"])
def test_no_line_of_the_protocol_is_ever_delivered_as_the_answer(before: str, said: str, behind: str) -> None:
    text = "\n".join(filter(None, (before.rstrip("\n"), said, behind)))
    assert prose(program(SUMS), text) == said
    play = went_wrong() >> says(text) >> ends() << closes(Result.VIOLATION)
    assert play << finishes(Outcome.RELEASED, answer=said, end=None)


@pytest.mark.parametrize("said", ["@end 3fa92c\n", "@begin sums 000000\n"])
def test_a_frame_alone_is_nothing_that_could_be_released(said: str) -> None:
    play = Playbook(sums(DIALOGUE, policy=RELEASE)) << opens() >> says(said)
    play = play << violates(Kind.MALFORMED, "") << closes(Result.VIOLATION)
    assert play << finishes(Outcome.REJECTED, answer=None)
    assert "nothing was written that could be released" in play.finish.reason

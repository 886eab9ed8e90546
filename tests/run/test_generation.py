"""What a generation costs, and how much of that was for nothing."""

from __future__ import annotations

from guard.run.generation import Generation
from guard.run.messages import Result, Strategy, Usage


def generation(*pieces: str) -> Generation:
    made = Generation(
        number=2,
        upstream=0,
        strategy=Strategy.RESUME,
        counted=True,
        step="3",
        prefix="...3",
        given=frozenset(),
        scaffold=False,
        stop="",
        cut=False,
        overlap=None,
        asked=60,
    )
    for piece in pieces:
        made.take(piece)
        made.tokens += 1
    return made


def test_what_is_not_reported_is_counted_and_said_to_be() -> None:
    made = generation(" a =", " 7\n")
    assert made.cost == Usage(prompt=60, completion=2, estimated=True)
    made.usage = Usage(prompt=80, completion=5)
    assert made.cost == Usage(prompt=80, completion=5)


def test_all_that_was_written_is_remembered() -> None:
    made = generation(" a =", " 7\n", "4 b")
    assert (made.text, made.line) == (" a = 7\n4 b", "4 b")
    made.take(" =")
    assert (made.text, made.line) == (" a = 7\n4 b =", "4 b =")


def test_a_generation_that_wrote_nothing_costs_nothing_that_is_known() -> None:
    assert generation().cost == Usage(estimated=True)


def test_tokens_are_discarded_in_the_share_of_the_characters_that_do_not_stand() -> None:
    made = generation("12345\n", "789\n")
    made.usage = Usage(prompt=80, completion=10)
    assert made.close(Result.VIOLATION, kept=6).discarded == 4
    assert made.close(Result.VIOLATION, kept=0).discarded == 10
    assert made.close(Result.PASSED, kept=10).discarded == 0
    assert made.close(Result.PASSED, kept=99).discarded == 0, "the guard wrote on"


def test_tokens_without_text_are_for_nothing() -> None:
    made = generation()
    made.usage = Usage(completion=30)
    assert made.close(Result.VIOLATION, kept=0).discarded == 30, "hidden reasoning, say"


def test_the_line_that_is_not_ended_is_remembered() -> None:
    made = generation(" a =", " 7\n", "2 b", " =")
    assert made.line == "2 b ="
    assert made.text == " a = 7\n2 b ="
    assert generation(" a = 7\n").line == ""

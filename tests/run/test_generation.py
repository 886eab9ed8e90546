"""What a generation costs, and how much of that was for nothing."""

from __future__ import annotations

from guard.run.generation import Generation
from guard.run.messages import Strategy, Text, Usage


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
    assert (made.text, made.length, made.line) == (" a = 7\n4 b", 10, "4 b")
    made.take(" =")
    assert made.length == len(made.text) == 12
    assert (made.text, made.line) == (" a = 7\n4 b =", "4 b =")


def test_a_generation_that_wrote_nothing_costs_nothing_that_is_known() -> None:
    assert generation().cost == Usage(estimated=True)


def test_what_the_server_says_so_far_corrects_what_was_counted() -> None:
    made = generation()
    made.hear(Text("1 a = 7\n2 ", 1))
    made.hear(Text("b", 1, usage=Usage(prompt=9, completion=12)))
    assert made.cost == Usage(prompt=9, completion=12)
    made.hear(Text(" = 8", 2))
    assert (made.cost, made.tokens) == (Usage(prompt=9, completion=14, estimated=True), 14)


def test_what_is_not_told_yet_was_paid_for() -> None:
    made = generation()
    made.hear(Text("1 a = 7\n", 0, ahead=40))
    assert (made.cost, made.tokens) == (Usage(prompt=60, completion=40, estimated=True), 0)
    made.hear(Text("2 b", 0, ahead=50, usage=Usage(prompt=9, completion=50)))
    assert (made.cost, made.tokens) == (Usage(prompt=9, completion=50), 0)


def test_the_line_that_is_not_ended_is_remembered() -> None:
    made = generation(" a =", " 7\n", "2 b", " =")
    assert made.line == "2 b ="
    assert made.text == " a = 7\n2 b ="
    assert generation(" a = 7\n").line == ""

"""The verified prefix: who wrote which line, what is delivered, how it is taken back."""

from __future__ import annotations

from typing import Final

import pytest

from guard.check.verdict import StepVerified
from guard.procedure.expected import EndKind
from guard.run.messages import StepClass
from guard.run.progress import Progress
from tests.run.procedures import NONCE, NOTE, SHARES, SUMS, program

BEGIN: Final = f"@begin sums {NONCE}\n"
LINES: Final = ["1 a = 3 + 4 = 7\n", "2 b = 7 * 2 = 14\n", "3 c = 14 - 3 = 11\n", "4 return 11\n"]
NOTHING: Final[frozenset[str]] = frozenset()


def sums(lines: int = 0) -> Progress:
    made = Progress(program(SUMS), {"x": 3, "y": 4}, NONCE)
    made.open_frame()
    for line in LINES[:lines]:
        made.read(line, NOTHING)
    return made


def test_each_line_knows_who_wrote_it() -> None:
    made = sums()
    made.read(LINES[0], NOTHING)
    made.read(LINES[1], frozenset({"2"}))
    made.write(StepClass.REPAIRED)
    made.write(StepClass.COMPUTED)
    assert list(made.classes.values()) == [
        StepClass.VERIFIED,
        StepClass.SCAFFOLDED,
        StepClass.REPAIRED,
        StepClass.COMPUTED,
    ]
    counts = made.counts
    assert (counts.expected, counts.missing) == (4, 0)
    assert (counts.verified, counts.scaffolded, counts.repaired, counts.computed) == (1, 1, 1, 1)
    assert (counts.fidelity, counts.upheld) == (0.25, 0.75)


def test_the_answer_is_there_when_its_line_is() -> None:
    assert not sums(3).answered
    made = sums(4)
    assert made.answered
    assert made.answer == ("return", "11")
    made.close_frame()
    assert made.verified == BEGIN + "".join(LINES) + f"@end {NONCE}\n"


@pytest.mark.parametrize("back", [0, 1, 2])
@pytest.mark.parametrize("opening", [[BEGIN], ["Sure:\n", BEGIN], [f"  {BEGIN}"], [BEGIN + LINES[0]]])
@pytest.mark.parametrize("between", ["\n", "  \n", "and then @begin again\n"])
def test_what_was_left_out_between_the_lines_goes_with_those_that_are_taken_back(
    opening: list[str], between: str, back: int
) -> None:
    made = Progress(program(SUMS), {"x": 3, "y": 4}, NONCE, tolerant=True)
    lines = LINES[1:3] if LINES[0] in opening[-1] else LINES[:3]
    for text in opening:
        made.read(text, NOTHING)
    for line in lines:
        made.read(between, NOTHING)
        made.read(line, NOTHING)
    assert len(made.lines) == 3
    made.rewind(back)
    assert [line.step.text.strip() for line in made.lines] == [line.strip() for line in LINES[:back]]
    for line in LINES[back:]:
        made.read(between, NOTHING)
        made.read(line, NOTHING)
    assert made.answered
    assert made.take_back().step.text == LINES[3]
    made.read(LINES[3], NOTHING)
    assert made.trace.startswith(BEGIN + "".join(LINES))


def test_a_rewind_forgets_what_is_not_verified() -> None:
    made = sums(1)
    made.read("2 b = 7", NOTHING)
    made.rewind()
    assert made.verified == BEGIN + LINES[0]
    assert [type(judgement) for judgement in made.read(LINES[1], NOTHING)] == [StepVerified]


def test_a_rewind_behind_whole_lines_costs_nothing() -> None:
    made = sums(2)
    checker = made.checker
    made.rewind()
    assert made.checker is checker


def test_a_rewind_to_a_line_takes_back_the_ones_behind_it() -> None:
    made = sums(3)
    made.rewind(1)
    assert made.verified == BEGIN + LINES[0]
    assert made.classes == {"1": StepClass.VERIFIED}
    assert made.expected is not None
    assert made.expected.path == "2"


def test_each_line_is_delivered_once() -> None:
    made = sums(2)
    assert [emit.text for emit in made.deliver()] == LINES[:2]
    assert made.deliver() == []
    made.read(LINES[2], NOTHING)
    assert [(emit.step, emit.value) for emit in made.deliver()] == [("3", 11)]


def test_a_restart_leaves_nothing_and_is_forbidden_behind_a_delivery() -> None:
    made = sums(2)
    made.restart()
    assert (made.verified, made.lines) == ("", [])
    made = sums(2)
    made.deliver()
    with pytest.raises(AssertionError):
        made.restart()


def test_the_guard_does_not_write_what_the_model_decides() -> None:
    made = Progress(program(SHARES), {"note": NOTE}, NONCE)
    with pytest.raises(AssertionError, match="the model's to decide"):
        made.write(StepClass.REPAIRED)


def test_the_last_decision_is_ours_to_change_until_it_is_delivered() -> None:
    made = Progress(program(SHARES), {"note": NOTE}, NONCE)
    made.open_frame()
    assert made.last_decided() is None
    made.read("1 people = 10\n", NOTHING)
    made.read("2 check 10 < 100 = true\n", NOTHING)
    made.read("3 rest = 10 - 10 = 0\n", NOTHING)
    assert made.failed is not None
    assert (made.failed.kind, made.failed.path) == (EndKind.FAILED, "4")
    assert made.last_decided() == 0
    made.deliver()
    assert made.last_decided() is None


def test_the_fewest_lines_are_counted_as_far_as_they_are_known() -> None:
    made = Progress(program(SHARES), {"note": NOTE}, NONCE)
    assert made.fewest_lines(written=False) == 5
    assert made.fewest_lines(written=True) == 1
    assert sums(1).fewest_lines(written=False) == 3

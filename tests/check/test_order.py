"""Where steps stand in their procedure."""

from __future__ import annotations

import pytest

from guard.check.order import can_follow, number_of, place
from guard.procedure.model import StepKind

KINDS = {
    "1": StepKind.ASSIGN,
    "2": StepKind.LOOP,
    "2.1": StepKind.ASSIGN,
    "2.2": StepKind.LOOP,
    "2.2.1": StepKind.ASSIGN,
    "3": StepKind.BRANCH,
    "3.1": StepKind.ASSIGN,
    "4.1": StepKind.ASSIGN,  # in an else, which has no line
    "10": StepKind.RETURN,
}


def test_the_number_of_a_path_has_no_passes() -> None:
    assert number_of("2[12].2[3].1") == "2.2.1"
    assert number_of("10") == "10"


def test_paths_sort_as_their_steps_are_executed() -> None:
    run = ["1", "2", "2[1].1", "2[1].2", "2[1].2[1].1", "2[1].2[2].1", "2[2].1", "2[10].1", "3", "3.1", "10"]
    backwards = list(reversed(run))
    assert sorted(backwards, key=place) == run


@pytest.mark.parametrize("path", ["2[1].2[2].1", "2[2].1", "2[2].2", "2[2].2[9].1", "3", "3.1", "4.1", "10"])
def test_a_later_step_can_follow(path: str) -> None:
    assert can_follow(path, "2[1].2[1].1", KINDS, {"2": 2, "2[1].2": 2})


@pytest.mark.parametrize(
    "path",
    [
        "1",  # earlier
        "2[1].2",  # its own header
        "2[1].2[1].1",  # itself
        "2[3].1",  # a pass too many
        "2[1].2[3].1",
        "2.1",  # no pass
        "2[2]",  # a header has no pass
        "3[1].1",  # an if has none either
        "4",  # an else has no line
        "11",
        "9",
    ],
)
def test_what_is_no_later_step_cannot(path: str) -> None:
    assert not can_follow(path, "2[1].2[1].1", KINDS, {"2": 2, "2[1].2": 2})

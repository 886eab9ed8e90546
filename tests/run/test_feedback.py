"""A turn names codes and step numbers, and nothing that the model wrote."""

from __future__ import annotations

import pytest

from guard.check.verdict import Kind
from guard.run.feedback import turn


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_of_violation_has_its_advice(kind: Kind) -> None:
    text = turn(step="5[2].1", begin="", violation=(kind, "5[2].1"), again=False, line=None)
    first, second = text.splitlines()
    code, advice = first.split(". ", 1)
    assert code == f"{kind.value} at step 5[2].1"
    assert len(advice) > 20
    assert "Go on with step 5[2].1" in second


def test_a_second_try_is_worded_otherwise() -> None:
    first, second = (
        turn(step="2", begin="", violation=(Kind.WRONG_VALUE, "2"), again=again, line=None)
        for again in (False, True)
    )
    assert first != second


def test_where_nothing_stands_the_opening_line_is_asked_for() -> None:
    text = turn(step="1", begin="@begin sums 3fa92c", violation=(Kind.MALFORMED, ""), again=False, line=None)
    assert text.splitlines() == [
        "malformed. A line was not in the format of the trace.",
        "Write the trace from the beginning. Its first line is: @begin sums 3fa92c",
    ]


def test_given_operands_are_the_last_words() -> None:
    text = turn(step="2", begin="", violation=None, again=False, line="2 b = 7 * 2 =")
    assert text.splitlines()[-1] == "Complete this line, then write the ones behind it: 2 b = 7 * 2 ="

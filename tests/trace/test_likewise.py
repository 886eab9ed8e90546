"""Worked examples: right, alike, always the same, and never with the answer that is asked for."""

from __future__ import annotations

import re

from hypothesis import event, given
from hypothesis import strategies as st

from guard.procedure.located import statements
from guard.procedure.types import BoolType
from guard.trace.alone import asked_cells, can_be_asked, question
from guard.trace.likewise import Problem, examples
from guard.trace.reread import expression
from tests.alone import shown
from tests.run.procedures import program
from tests.strategies import Sample, samples


def worked(text: str, working: str, number: str = "1") -> list[tuple[str, str]]:
    """The examples for the working of a step."""
    located = statements(program(text))[number]
    expr = expression(working)
    assert expr is not None
    kind = program(text).types["a"]
    found = examples([Problem(expr, kind, "?")], located, {})
    return [(one.problems[0].text, one.problems[0].answer) for one in found]


SUM = "procedure p(x: int) -> int\n  a = x + 1\n  return a\n"
SHARE = "procedure p(x: decimal(2)) -> decimal(2)\n  a = x / 3 to 2\n  return a\n"
TABLE = (
    "table rate(n: int) -> percent, first match\n  1..9 => 5%\n  10..99 => 7%\n  >= 100 => 8%\n\n"
    "procedure p(n: int) -> percent\n  a = rate(n)\n  return a\n"
)


def test_sums_are_worked_right_with_other_numbers_of_as_many_digits() -> None:
    found = worked(SUM, "33 + 7")
    assert len(found) == 3
    for question_, answer in found:
        left, right = map(int, question_.split(" + "))
        assert (10 <= left <= 99, 1 <= right <= 9, left + right) == (True, True, int(answer))


def test_the_rounding_of_the_step_is_that_of_its_examples() -> None:
    for _, answer in worked(SHARE, "10.00 / 3"):
        assert re.fullmatch(r"-?\d+\.\d\d", answer)


def test_a_table_is_looked_up_where_it_has_rows() -> None:
    found = worked(TABLE, "rate(12)")
    assert len(found) >= 2
    assert all(answer == {1: "5%", 2: "7%"}.get(len(asked) - 6, "8%") for asked, answer in found)


@given(samples(shuffle=False), st.data())
def test_examples_are_other_ones_and_always_the_same(sample: Sample, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(sample.steps) - 1))
    due = shown(sample.program, sample.inputs, sample.steps, at)
    if due.decision is not None or not can_be_asked(due):
        return
    first, again = question(sample.program, due), question(sample.program, due, again=1)
    assert question(sample.program, due) == first
    event(f"examples: {len(first.turns) // 2}")
    assert len(first.turns) % 2 == 1
    asked = first.turns[-1]
    assert asked not in [turn.rpartition("\n\n")[2] for turn in first.turns[:-1:2]]
    if len(first.turns) == len(again.turns) > 1:
        assert first.turns[-1] == again.turns[-1]
    cells = asked_cells(due)
    if all(isinstance(due.cells[index].type, BoolType) for index in cells) and len(cells) == 1:
        answers = set(first.turns[1::2])
        assert answers in (set(), {"true", "false"})

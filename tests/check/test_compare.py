"""One line against the step it claims to be. What each kind looks like is in the table of cases."""

from __future__ import annotations

import pytest

from guard.check.compare import Finding, examine, plain, same_head
from guard.check.quotes import Sources
from guard.check.verdict import Kind
from guard.procedure.execute import Program
from guard.procedure.expected import Expected
from guard.procedure.load import load
from guard.procedure.types import Value
from guard.trace.events import Line
from guard.trace.lines import RawLine
from guard.trace.parser import read_line

TEXT = """\
numbers carry exact

procedure parcel(note: text, n: int) -> { part: decimal(2), all: list of int }
  extract sizes: list of int from note quote where all(s > 0 for s in sizes)
  part = 10 / n to 2
  third = part / 3 to 2
  check third > 0
  return { part: part, all: [n, n * 2] }
"""


@pytest.fixture(scope="module")
def program() -> Program:
    return load(TEXT, "parcel.proc").procedures["parcel"]


def due(program: Program, steps: int) -> Expected:
    execution = program.execute({"note": "3 and 4", "n": 3})
    expected = next(execution)
    for _ in range(steps):
        expected = execution.send((3, 4) if expected.decision else None)
    return expected


def find(expected: Expected, text: str) -> Finding:
    line = read_line(RawLine(text, 100, 101 + len(text)))
    assert isinstance(line, Line)
    return examine(expected, line, Sources())


def blamed(finding: Finding) -> tuple[Kind, int, int | None]:
    assert finding.fault is not None
    return finding.fault.kind, finding.fault.at - 100, finding.fault.cell


def test_a_right_line_has_no_fault_and_its_value(program: Program) -> None:
    assert find(due(program, 0), '1 sizes = [3, 4] <- "3" <- "and 4"') == Finding(fault=None, value=(3, 4))
    assert find(due(program, 1), "2 part = 10.0 / 3 = 3.330").fault is None
    assert find(due(program, 4), '5 return {"part": 3.33, "all": [3, 2 * 3 = 6]}').fault is None


def test_a_fault_of_a_cell_names_it(program: Program) -> None:
    answer = due(program, 4)
    for text, kind, at, cell in (
        ('5 return {"part": 3.34, "all": [3, 3 * 2 = 6]}', Kind.WRONG_ANSWER, 18, 0),
        ('5 return {"part": 3.33, "all": [4, 3 * 2 = 6]}', Kind.WRONG_ANSWER, 32, 1),
        ('5 return {"part": 3.33, "all": [3, 3 * 3 = 6]}', Kind.WRONG_EXPRESSION, 35, 2),
        ('5 return {"part": 3.33, "all": [3, 3 * 2 = 7]}', Kind.WRONG_ANSWER, 43, 2),
        ('5 return {"part": 3.34, "all": [4, 3 * 3 = 7]}', Kind.WRONG_ANSWER, 18, 0),
    ):
        assert blamed(find(answer, text)) == (kind, at, cell)


def test_a_fault_of_the_line_names_no_cell(program: Program) -> None:
    assert blamed(find(due(program, 4), '5 return {"part": 3.33}')) == (Kind.WRONG_EXPRESSION, 9, None)
    assert blamed(find(due(program, 1), "2 parts = 10 / 3 = 3.33")) == (Kind.WRONG_EXPRESSION, 0, None)


@pytest.mark.parametrize(
    ("text", "kind", "at", "cell", "value"),
    [
        ('1 sizes = [3, "x"] <- "3" <- "and 4"', Kind.INADMISSIBLE_VALUE, 10, 0, None),
        ('1 sizes = [3, 0] <- "3" <- "and 4"', Kind.INADMISSIBLE_VALUE, 10, 0, (3, 0)),
        ('1 sizes = [3, 0.5] <- "3" <- "and 4"', Kind.INADMISSIBLE_VALUE, 10, 0, None),
        ('1 sizes = [3, 2 + 2 = 4] <- "3" <- "and 4"', Kind.WRONG_EXPRESSION, 14, 0, (3, 4)),
        ('1 sizes = [3, 2 + 2 = 0] <- "3" <- "and 4"', Kind.WRONG_EXPRESSION, 14, 0, (3, 0)),
        ("1 sizes = [3, note]", Kind.INADMISSIBLE_VALUE, 10, 0, None),
        ("1 sizes = [3, 4]", Kind.UNGROUNDED_VALUE, 10, None, (3, 4)),
        ('1 sizes = [3, 4] <- "3" <- "5"', Kind.UNGROUNDED_VALUE, 27, None, (3, 4)),
    ],
)
def test_a_decision_keeps_its_value_where_one_can_go_on_from_it(  # noqa: PLR0917 (a table)
    program: Program, text: str, kind: Kind, at: int, cell: int | None, value: Value
) -> None:
    finding = find(due(program, 0), text)
    assert (*blamed(finding), finding.value) == (kind, at, cell, value)


@pytest.mark.parametrize(
    ("text", "value"),
    [("2 part = 10 / 3 = 3", 3), ("2 part = 10 / 4 = 2.5", 5 / 2), ("2 part = 10 / 3 = true", None)],
)
def test_a_wrong_value_is_kept_where_it_is_of_the_steps_type(
    program: Program, text: str, value: Value
) -> None:
    finding = find(due(program, 1), text)
    assert finding.fault is not None
    assert finding.value == value


def test_what_is_carried_may_be_written_as_it_is_shown_or_as_it_is(program: Program) -> None:
    third = due(program, 2)
    assert third.cells[0].spelling == "1.11"
    for value, right in (("1.11", True), ("1.110", True), ("1.1", False), ("1.12", False)):
        assert (find(third, f"3 third = 3.330 / 3 = {value}").fault is None) is right


@pytest.mark.parametrize(
    ("expected", "written", "same"),
    [
        ("part =", "part =", True),
        ("part =", "third =", False),
        ("if", "elif", False),
        ("for x in xs =", "for x in xs =", True),
        ("for x in a.xs =", "for x in a . xs =", True),
        ("for x in [1, 2] =", "for x in [1,2] =", True),
        ("for x in xs =", "for y in xs =", False),
        ("for x in xs =", "for x in ys =", False),
        ("for x in xs =", "x =", False),
        ("return", "for x in xs =", False),
    ],
)
def test_heads_are_the_same_but_for_white_space(expected: str, written: str, same: bool) -> None:
    assert same_head(expected, written) is same


def test_a_plain_value_has_no_part_without_one(program: Program) -> None:
    for text, value in (
        ("1 x = [1, [true], {}]", (1, (True,), {})),
        ('1 x = {"a": 1, "b": {"c": "d"}}', {"a": 1, "b": {"c": "d"}}),
        ("1 x = [1, y]", None),
        ('1 x = {"a": y}', None),
        ('1 x = {"a": 1, "a": 1}', None),
        ("1 x = [1, 1 + 1 = 2]", (1, 2)),
    ):
        line = read_line(RawLine(text, 0, 1))
        assert isinstance(line, Line)
        assert plain(line.body) == value

"""One of several ways: what an execution offers to choose, and where it goes from there."""

from __future__ import annotations

import pytest

from guard.errors import RequestError
from guard.procedure.execute import Program, reference
from guard.procedure.expected import UNKNOWN, Ending, EndKind, Expected
from guard.procedure.load import load
from guard.procedure.model import StepKind
from guard.procedure.types import EnumType, Value
from guard.trace import render

TEXT = """\
procedure p(a: int) -> int
  tries = 0
  way: one of{bound}
    try "small"
      tries = tries + 1
      require a < 10 else next
      found = a
    try "large"
      tries = tries + 1
      for x in [a, 20] at most 2
        if x == 20
          require a > 20 else next
      found = a * 2
  else
    found = 0
  return found + tries * 1000
"""


def program(bound: str = "") -> Program:
    return load(TEXT.replace("{bound}", bound)).procedures["p"]


def run(made: Program, a: int) -> tuple[list[str], Ending]:
    """The canonical lines of a reference run, those of assignments left out."""
    steps, ending = reference(made, {"a": a}, {})
    return [
        render.line(step, value if step.decision else None)
        for step, value in steps
        if step.kind is not StepKind.ASSIGN
    ], ending


def chosen(made: Program, a: int, *names: Value) -> list[str]:
    """The paths of the choices that an execution yields where these are made in turn."""
    left = iter(names)
    execution = made.execute({"a": a})
    paths: list[str] = []
    step = next(execution)
    try:
        while True:
            if step.kind is StepKind.CHOICE:
                paths.append(step.path)
            step = execution.send(next(left) if step.kind is StepKind.CHOICE else None)
    except StopIteration:
        return paths


def test_a_way_that_does_not_fail_ends_the_attempts() -> None:
    lines, ending = run(program(), 7)
    assert lines == ['2[1] try "small"', "2[1].1.2 require 7 < 10 = true", "4 return 7 + 1 * 1000 = 1007"]
    assert ending.value == 1007


def test_behind_a_way_that_failed_another_one_is_chosen() -> None:
    lines, ending = run(program(), 30)
    assert lines == [
        '2[1] try "small"',
        "2[1].1.2 require 30 < 10 = false",
        '2[2] try "large"',
        "2[2].2.2 for x in [a, 20] = 2",
        "2[2].2.2[1].1 if 30 == 20 = false",
        "2[2].2.2[2].1 if 20 == 20 = true",
        "2[2].2.2[2].1.1 require 30 > 20 = true",
        "4 return 60 + 2 * 1000 = 2060",
    ]
    assert ending == Ending(EndKind.RETURN, value=2060, path="4")


def test_a_way_may_fail_within_a_loop_and_all_ways_may() -> None:
    lines, ending = run(program(), 15)
    assert lines[-2:] == ["2[2].2.2[2].1.1 require 15 > 20 = false", "4 return 0 + 2 * 1000 = 2000"]
    assert ending.value == 2000, "what failed ways have given a name stays"


def test_which_way_is_tried_may_be_given_by_label_or_by_path() -> None:
    made = program()
    assert reference(made, {"a": 30}, {"way": "large"})[1].value == 1060
    assert reference(made, {"a": 30}, {"2[1]": "large"})[1].value == 1060
    assert reference(made, {"a": 30}, {"2[2]": "small"})[1].value == 2060, "that one is not left"
    assert made.decide({"way": "large", "2[2]": "small"}) == {"way": "large", "2[2]": "small"}
    with pytest.raises(RequestError, match="medium"):
        made.decide({"way": "medium"})


def test_without_a_bound_each_way_is_left_once() -> None:
    made = program()
    execution = made.execute({"a": 15})
    next(execution)
    first = execution.send(None)
    assert first.decision is not None
    assert (first.path, first.head, first.label, first.target) == ("2[1]", "try", "way", None)
    assert [first.decision.admissible(name) is None for name in ("small", "large", "other")] == [
        True,
        True,
        False,
    ]
    execution.send("small")
    execution.send(None)
    second: Expected = execution.send(None)
    assert second.decision is not None
    assert second.cells[0].type == EnumType(("large",))
    assert [second.decision.admissible(name) is None for name in ("small", "large")] == [False, True]


def test_with_a_bound_any_way_may_be_tried_again_so_often() -> None:
    made = program(" at most 3")
    assert chosen(made, 15, "small", "small", "large") == ["2[1]", "2[2]", "2[3]"]
    assert chosen(made, 30, "small", "large") == ["2[1]", "2[2]"]
    assert chosen(program(" at most 1"), 30, "small") == ["2[1]"]


@pytest.mark.parametrize("sent", [UNKNOWN, "other", 3])
def test_without_a_choice_it_is_open_what_comes(sent: Value) -> None:
    execution = program().execute({"a": 1})
    next(execution)
    execution.send(None)
    with pytest.raises(StopIteration) as stop:
        execution.send(sent)
    assert stop.value.value.kind is EndKind.UNDETERMINED


def test_a_name_has_a_value_behind_all_ways_that_do_not_end() -> None:
    library = load(
        'procedure p(a: int) -> int\n  one of\n    try "x"\n      require a > 1 else next\n      b = 1\n'
        '    try "y"\n      return a\n  return b\n'
    )
    assert not library.warnings


def test_no_else_is_needed_where_the_ways_end_in_one_that_cannot_fail() -> None:
    text = (
        'procedure p(a: int) -> int\n  one of\n    try "x"\n      require a > 1 else next\n      b = 1\n'
        '    try "y"\n      b = 2\n  return b\n'
    )
    made = load(text).procedures["p"]
    assert reference(made, {"a": 0}, {})[1].value == 2


def test_a_way_of_a_way_fails_alone() -> None:
    made = load(
        'procedure p(a: int) -> int\n  one of\n    try "x"\n      one of\n        try "in"\n'
        "          require a > 5 else next\n          b = 1\n      else\n        require a > 3 else next\n"
        '        b = 2\n    try "y"\n      b = 3\n  return b\n'
    ).procedures["p"]
    assert [reference(made, {"a": a}, {})[1].value for a in (6, 4, 1)] == [1, 2, 3]
    steps, _ = reference(made, {"a": 1}, {})
    assert [step.path for step, _ in steps] == [
        "1[1]",
        "1[1].1.1[1]",
        "1[1].1.1[1].1.1",
        "1[1].1.2.1",
        "1[2]",
        "1[2].2.1",
        "2",
    ]


def test_one_and_next_may_be_names() -> None:
    library = load(
        'procedure p(one: int) -> int\n  next = one + 1\n  require next > one else deny "No."\n  return next\n'
    )
    assert not library.warnings

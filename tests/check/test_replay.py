"""Executions carried to a point."""

from __future__ import annotations

import pytest

from guard.check.replay import Walk, count_steps, look_ahead, retrace
from guard.procedure.execute import Program
from guard.procedure.expected import UNKNOWN, EndKind
from guard.procedure.load import load
from guard.procedure.types import Value

TEXT = """\
procedure sums(note: text, xs: list of int) -> int
  extract n: int from note
  total = n * 2
  for x in xs at most 100
    total = total + x
  if total > 10
    total = total - 10
  return total

procedure halves(n: int) -> int
  check n > 0
  return n
"""
INPUTS: dict[str, Value] = {"note": "5", "xs": (1, 2)}


@pytest.fixture(scope="module")
def sums() -> Program:
    return load(TEXT, "sums.proc").procedures["sums"]


@pytest.fixture(scope="module")
def halves() -> Program:
    return load(TEXT, "sums.proc").procedures["halves"]


def test_a_walk_starts_at_the_first_step(sums: Program) -> None:
    walk = Walk.start(sums, INPUTS)
    assert walk.due is not None
    assert (walk.due.path, walk.ending, walk.sent) == ("1", None, [])


def test_a_walk_goes_where_it_was_sent_and_remembers(sums: Program) -> None:
    walk = Walk.start(sums, INPUTS, [5, None, None])
    assert walk.due is not None
    assert (walk.due.path, walk.sent) == ("3[1].1", [5, None, None])


def test_a_walk_ends_with_its_procedure_and_takes_no_more(sums: Program, halves: Program) -> None:
    walk = Walk.start(sums, INPUTS, [1] + [None] * 20)
    assert walk.due is None
    assert walk.ending is not None
    assert (walk.ending.kind, walk.ending.value, len(walk.sent)) == (EndKind.RETURN, 5, 7)
    failed = Walk.start(halves, {"n": 0})
    assert failed.ending is not None
    assert (failed.ending.kind, failed.due) == (EndKind.FAILED, None)


def test_skipping_a_decision_leaves_it_open(sums: Program) -> None:
    walk = Walk.start(sums, INPUTS)
    for _ in range(6):
        walk.skip()
    assert walk.sent[:2] == [UNKNOWN, None]
    assert walk.due is None
    assert walk.undetermined


def test_looks_ahead_to_a_step_or_to_the_end(sums: Program) -> None:
    ahead = look_ahead(sums, INPUTS, [5], "3[2].1")
    assert ahead.due is not None
    assert (ahead.due.path, len(ahead.sent)) == ("3[2].1", 4)
    assert look_ahead(sums, INPUTS, [5], "5").due is not None
    assert look_ahead(sums, INPUTS, [1], "4.1").due is None
    assert look_ahead(sums, INPUTS, [], "4.1").undetermined


def test_looks_no_further_than_its_limit(sums: Program) -> None:
    ahead = look_ahead(sums, INPUTS, [5], "5", most=2)
    assert ahead.due is not None
    assert ahead.due.path == "3[1].1"


def test_gives_the_steps_once_more_that_something_was_sent_at(sums: Program) -> None:
    walk = Walk.start(sums, INPUTS, [1, None, 9])
    again = list(retrace(sums, INPUTS, walk.sent))
    assert [step.path for step in again] == ["1", "2", "3"]
    assert [step.value for step in again] == [UNKNOWN, 2, 2]
    assert len(list(retrace(sums, INPUTS, [1] + [None] * 99))) == 7


def test_counts_the_steps_of_the_whole_execution(sums: Program, halves: Program) -> None:
    assert count_steps(sums, INPUTS, [5]) == 8
    assert count_steps(sums, INPUTS, [1]) == 7
    assert count_steps(sums, INPUTS, [1, None, None]) == 7
    assert count_steps(sums, INPUTS, []) is None  # whether 4.1 comes hangs on n
    assert count_steps(halves, {"n": 0}, []) == 0


def test_counts_no_more_steps_than_a_trace_can_have(sums: Program) -> None:
    assert count_steps(sums, INPUTS, [5], most=8) == 8
    assert count_steps(sums, INPUTS, [5], most=7) is None

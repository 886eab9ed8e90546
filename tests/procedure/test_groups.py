"""Steps in any order: what an execution offers, takes and comes to."""

from __future__ import annotations

from itertools import permutations

import pytest

from guard.errors import InvalidState
from guard.procedure.execute import Program
from guard.procedure.expected import UNKNOWN, Ending, EndKind, Expected, Pick
from guard.procedure.groups import around
from guard.procedure.load import load
from guard.procedure.steps import Sent
from guard.procedure.types import Value

TEXT = """\
procedure visit(a: int, note: text) -> int
  any order
    sum = a + 2
    extract n: int from note
    if a > 9
      extra = 3
    else
      extra = 1
    any order
      twice = a * 2
      for x in [a, 5] at most 2
        odd = x mod 2
  return sum + n + extra + twice
"""
MEMBERS = [["1.1"], ["1.2"], ["1.3", "1.4.1"], ["1.5.1", "1.5.2", "1.5.2[1].1", "1.5.2[2].1"]]


def program(text: str) -> Program:
    return next(iter(load(text).procedures.values()))


def follow(made: Program, inputs: dict[str, Value], sent: list[Sent]) -> tuple[list[Expected], Ending | None]:
    """What an execution yields for what it is sent, and how it ended, if it did."""
    execution = made.execute(inputs)
    found = [next(execution)]
    try:
        for value in sent:
            found += [execution.send(value)]
    except StopIteration as stop:
        ending: Ending = stop.value
        return found, ending
    return found, None


VISIT = program(TEXT)
INPUTS: dict[str, Value] = {"a": 7, "note": "13"}


def test_the_first_line_of_each_member_is_offered() -> None:
    [due], _ = follow(VISIT, INPUTS, [])
    assert due.path == "1.1"
    assert [step.path for step in due.others] == ["1.2", "1.3", "1.5.1", "1.5.2"]
    assert [step.others for step in due.others] == [(), (), (), ()]
    assert due.others[3].value == 2
    [_, behind], _ = follow(VISIT, INPUTS, [None])
    assert (behind.path, [step.path for step in behind.others]) == ("1.2", ["1.3", "1.5.1", "1.5.2"])


def test_a_member_that_was_begun_is_gone_on_with() -> None:
    found, _ = follow(VISIT, INPUTS, [Pick("1.3"), None, None])
    assert [(step.path, len(step.others)) for step in found] == [
        ("1.1", 4),
        ("1.3", 4),
        ("1.4.1", 0),
        ("1.1", 3),
    ]


@pytest.mark.parametrize("order", list(permutations(MEMBERS)))
def test_every_order_comes_to_the_same(order: tuple[list[str], ...]) -> None:
    sent: list[Sent] = []
    for first, *rest in order:
        sent += [Pick(first), 13 if first == "1.2" else None, *[None] * len(rest)]
    found, ending = follow(VISIT, INPUTS, [*sent, None])
    assert ending == Ending(EndKind.RETURN, value=9 + 13 + 1 + 14, path="2")
    picked = [step.path for step, came in zip(found, sent, strict=False) if not isinstance(came, Pick)]
    assert picked == [path for member in order for path in member]


def test_picks_may_be_changed_as_long_as_nothing_came() -> None:
    found, _ = follow(
        VISIT, INPUTS, [Pick("1.5.2"), Pick("1.2"), Pick("1.5.2"), Pick("1.1"), Pick("1.5.1"), None]
    )
    assert [step.path for step in found] == ["1.1", "1.5.2", "1.2", "1.5.2", "1.1", "1.5.1", "1.5.2"]
    assert [step.path for step in found[1].others] == ["1.5.1", "1.1", "1.2", "1.3"]


def test_what_is_not_offered_cannot_be_picked() -> None:
    execution = VISIT.execute(INPUTS)
    next(execution)
    with pytest.raises(InvalidState, match=r"1\.4\.1"):
        execution.send(Pick("1.4.1"))


def test_a_member_keeps_its_own_value_however_many_were_looked_at() -> None:
    made = program("procedure p(a: int) -> int\n  any order\n    b = a + 1\n    c = a * 2\n  return b - c\n")
    assert follow(made, {"a": 5}, [Pick("1.2"), None, None, None])[1] == Ending(EndKind.RETURN, -4, "2")
    assert follow(made, {"a": 5}, [Pick("1.2"), 100, None, None])[1] == Ending(EndKind.RETURN, -94, "2")


def test_a_member_that_fails_ends_the_run_where_it_is_due() -> None:
    made = program(
        "procedure p(a: int) -> int\n  any order\n    b = 1\n    check a > 9\n    c = 2\n  return b + c\n"
    )
    [due], _ = follow(made, {"a": 1}, [])
    assert [step.path for step in due.others] == ["1.3"]
    ways: list[list[Sent]] = [[None], [Pick("1.3"), None, None]]
    for sent in ways:
        found, ending = follow(made, {"a": 1}, sent)
        assert ending is not None
        assert (ending.kind, ending.path, len(found)) == (EndKind.FAILED, "1.2", len(sent))


def test_a_member_whose_way_hangs_on_what_is_not_decided_ends_in_that() -> None:
    made = program(
        "procedure p(note: text) -> int\n  extract n: int from note\n  b = 0\n  any order\n    if n > 1\n"
        "      b = 1\n    c = 2\n  return b + c\n"
    )
    found, ending = follow(made, {"note": "2"}, [UNKNOWN, None, Pick("3.2"), None, None])
    assert [step.path for step in found] == ["1", "2", "3.1", "3.2", "3.1"]
    assert ending is not None
    assert ending.kind is EndKind.UNDETERMINED


def test_a_group_of_a_sub_procedure_has_the_numbers_of_the_step_that_carries_it_out() -> None:
    made = load(f"procedure p(a: int, note: text) -> int\n  x = do visit(a, note)\n  return x\n\n{TEXT}")
    p = made.procedures["p"]
    found, _ = follow(p, INPUTS, [None, Pick("1.1.5.2"), None])
    assert [step.number for step in found[1].others] == ["1.1.2", "1.1.3", "1.1.5.1", "1.1.5.2"]
    assert [step.path for step in found] == ["1", "1.1.1", "1.1.5.2", "1.1.5.2[1].1"]
    assert around("1.1.5.2[1].1", p.members) == (("1.1", 3), ("1.1.5", 1))
    assert "1.1" not in p.step_numbers


def test_the_arms_of_an_if_are_one_member() -> None:
    assert around("1.4.1", VISIT.members) == around("1.3", VISIT.members) == (("1", 2),)
    assert around("1.5.2[2].1", VISIT.members) == (("1", 3), ("1.5", 1))
    assert around("2", VISIT.members) == ()


def test_a_group_in_a_loop_is_one_of_its_own_in_every_pass() -> None:
    made = program(
        "procedure p(a: int) -> int\n  for x in [a, 2] at most 2\n    any order\n      b = x\n      c = x * 2\n"
        "    check b < c\n  return a\n"
    )
    found, _ = follow(made, {"a": 1}, [None, Pick("1[1].1.2"), None, None, None, None])
    assert [step.path for step in found][3:] == ["1[1].1.1", "1[1].2", "1[2].1.1", "1[2].1.2"]
    assert around("1[2].1.2", made.members) == (("1[2].1", 1),)


def test_a_group_of_one_step_is_a_warning() -> None:
    library = load("procedure p(a: int) -> int\n  any order\n    b = a\n  return b\n")
    assert [problem.message for problem in library.warnings] == ["a group of one step has no order to choose"]


def test_loops_of_a_group_may_call_their_items_alike() -> None:
    library = load(
        "procedure p(a: int) -> int\n  b = 0\n  c = 0\n  any order\n    for x in [1, a] at most 2\n      b = x\n"
        "    for x in [2, a] at most 2\n      c = x\n  return b + c\n"
    )
    assert not library.warnings


def test_any_and_order_may_be_names_where_no_group_begins() -> None:
    library = load(
        "record order { any: int }\n\nprocedure any(order: order) -> int\n  any = order.any\n  order_1 = any\n"
        "  return order_1\n"
    )
    assert list(library.procedures) == ["any"]
    assert not library.warnings

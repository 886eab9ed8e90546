"""Decisions in executions: where they come from, and what bounds them."""

from fractions import Fraction

import pytest

from guard.errors import InvalidState, RequestError
from guard.procedure.expected import UNKNOWN
from guard.procedure.model import Quoting
from guard.procedure.types import Value
from tests.procedure.executions import ORDER, drive, line, program, run, steps


def test_decisions_come_from_the_model_and_are_bounded() -> None:
    made = program(ORDER)
    assert made.decisions == ("lines", "mood", "ok")
    assert made.sources == ("note",)
    first = next(made.execute(made.accept({"note": "a note", "floor_": 2})))
    decision = first.decision
    assert decision is not None
    assert (first.head, first.known, first.cells[0].spelling) == ("lines =", False, None)
    assert (decision.sources, decision.quote, decision.at_most) == (
        (("note", "a note"),),
        Quoting.SUPPORTING,
        3,
    )
    good: dict[str, Value] = {"name": "hinge", "qty": 2}
    assert decision.admissible(()) is None
    assert decision.admissible((good, good, good)) is None
    assert decision.admissible((good,) * 4) == "a list of at most 3 items"
    assert decision.admissible(({**good, "qty": 1},)) == "a value where all(l.qty >= floor_ for l in lines)"
    assert decision.admissible(({**good, "qty": Fraction(1, 2)},)) == "a whole number at [0].qty"
    assert decision.admissible(({"name": "a"},)) == "a record of name, qty at [0]"
    assert decision.admissible(good) == "a list"
    assert decision.admissible("x") == "a list"


def test_decisions_are_given_by_variable_or_by_path() -> None:
    made = program(ORDER)
    lines = [{"name": "a", "qty": 2}, {"name": "b", "qty": 5}]
    decided = {"lines": lines, "mood": "good", "ok": True, "4[1].1": False}
    found, ending = run(made, decided, note="a", floor_=1)
    assert found[3:] == [
        "4 for l in lines = 2",
        "4[1].1 ok = false",
        "4[1].2 if false",
        "4[2].1 ok = true",
        "4[2].2 if true",
        "4[2].2.1 n = 0 + 5 = 5",
        "5 return 5",
    ]
    assert ending.value == 5


@pytest.mark.parametrize(
    ("decided", "message"),
    [
        ({}, "no decision for 'lines' at step 1"),
        (
            {"lines": [{"name": "a", "qty": 0}]},
            "the decision for 'lines' at step 1 may not stand: expected a value where all(l.qty >= floor_ for l in lines)",
        ),
        (
            {"lines": [], "mood": "sad"},
            "decision 'mood': expected one of \"good\", \"bad\", found 'sad'",
        ),
        (
            {"line": []},
            "decision 'line' is unknown, known are 'lines', 'mood', 'ok', '1', '2', '4.1'",
        ),
    ],
)
def test_a_reference_names_the_decision_that_is_missing_or_may_not_stand(
    decided: dict[str, object], message: str
) -> None:
    with pytest.raises(RequestError) as caught:
        run(program(ORDER), decided, note="a", floor_=1)
    assert caught.value.message == message


def test_a_where_that_cannot_be_computed_lets_no_value_stand() -> None:
    made = steps("extract n: int from note\n  where 10 div n > 1\nreturn n", "p(note: text) -> int")
    decision = drive(made, [1], note="x")[0][0].decision
    assert decision is not None
    assert decision.admissible(0) == "a value for which 10 div n > 1 can be computed (division by zero)"
    assert decision.admissible(4) is None
    assert decision.admissible(9) == "a value where 10 div n > 1"


def test_a_where_sees_the_variables_as_they_were_at_its_step() -> None:
    made = steps(
        "least = 5\nextract n: int from note where n >= least\nleast = 50\nreturn n + least",
        "p(note: text) -> int",
    )
    seen, _ = drive(made, [None, 7], note="x")
    decision = seen[1].decision
    assert decision is not None
    assert decision.admissible(5) is None
    assert decision.admissible(4) == "a value where n >= least"


def test_a_where_that_hangs_on_the_open_lets_every_value_stand() -> None:
    made = steps(
        "extract m: int from note\nextract n: int from note where n > m\nreturn n", "p(note: text) -> int"
    )
    decision = drive(made, [UNKNOWN, UNKNOWN], note="x")[0][1].decision
    assert decision is not None
    assert decision.admissible(-5) is None


def test_the_smallest_loop_bounds_a_list_also_inside_a_record() -> None:
    made = program(
        """
record Order { items: list of int, who: string }
procedure p(note: text) -> int
  extract order: Order from note
  n = 0
  for x in order.items at most 3
    n = n + x
  for y in order.items at most 2
    n = n + y
  for z in order.items at most 4
    n = n + z
  return n
"""
    )
    decision = drive(made, [UNKNOWN], note="x")[0][0].decision
    assert decision is not None
    assert decision.admissible({"items": (1, 2), "who": "a"}) is None
    assert decision.admissible({"items": (1, 2, 3), "who": "a"}) == "a list of at most 2 items at items"


def test_a_list_that_is_set_elsewhere_too_is_not_bounded_by_its_loop() -> None:
    made = steps(
        "extract xs: list of int from note\nn = len(xs)\nxs = [1]\nfor x in xs at most 2\n  n = n + x\nreturn n",
        "p(note: text) -> int",
    )
    assert run(made, {"xs": [1, 2, 3]}, note="x")[1].value == 4


def test_a_decision_must_be_sent() -> None:
    made = program(ORDER)
    with pytest.raises(InvalidState, match="step 1 is the model's to decide"):
        drive(made, [None], note="x", floor_=1)


def test_decided_values_are_kept_in_the_shape_of_their_type() -> None:
    made = steps(
        'extract n: int from note\nextract s: string from note\nreturn s == "\u00e9" and n == 4',
        "p(note: text) -> bool",
    )
    seen, ending = drive(made, [Fraction(4), "e\u0301"], note="x")
    assert line(seen[2]) == '3 return "é" == "é" and 4 == 4 = true'
    assert ending is not None
    assert ending.value is True

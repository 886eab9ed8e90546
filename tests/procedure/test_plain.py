"""Lines written in one go: the same as those that the general way makes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.procedure.cells import body
from guard.procedure.execute import Program
from guard.procedure.expected import UNKNOWN, EndKind, Expected, Form, Unknown
from guard.procedure.load import load
from guard.procedure.model import StepKind
from guard.procedure.nodes import Arithmetic, Comparison, Expr, Literal, Name
from guard.procedure.steps import Place
from guard.procedure.types import Value
from guard.trace import render
from tests.procedure.expressions import BOOL, INT, SCOPE
from tests.strategies import Sample, samples

BIG = 10**39


def program(body: str, signature: str = "a: int, b: int", before: str = "") -> Program:
    lines = "".join(f"  {line}\n" for line in body.splitlines())
    (made,) = load(f"{before}procedure p({signature}) -> int\n{lines}  return 1\n").procedures.values()
    return made


def first(made: Program, **inputs: Value) -> Expected:
    return next(made.execute(inputs))


def agrees_with_its_cells(expected: Expected) -> bool:
    whole = replace(expected, text=None)  # has its cells, which are read from the line
    return (
        expected.text == render.canonical(whole)
        and expected.value == whole.value
        and expected.known == whole.known
        and expected == whole == expected
    )


@pytest.mark.parametrize(
    ("step", "line"),
    [
        ("x = a + b", "1 x = 7 + -2 = 5"),
        ("x = (a + b) * a - 100 div b", "1 x = (7 + -2) * 7 - 100 div -2 = 85"),
        ("x = a mod b", "1 x = 7 mod -2 = -1"),
        ("x = a * a * a", "1 x = 7 * 7 * 7 = 343"),
        ("x = 12", "1 x = 12"),
        ("check a * b < 3", "1 check 7 * -2 < 3 = true"),
        ("check a != b", "1 check 7 != -2 = true"),
        ("if a == 7\n  x = 1", "1 if 7 == 7 = true"),
    ],
)
def test_whole_numbers_are_computed_and_written_in_one_go(step: str, line: str) -> None:
    expected = first(program(step), a=7, b=-2)
    assert expected.text == line
    assert agrees_with_its_cells(expected)


@pytest.mark.parametrize(
    "step",
    ["x = a / b to 2", "x = -a", "x = a * b * a * b * a", "x = max(a, b)", "x = c + a", "x = a + b to 1", "x = a",
     "check a < c", "check a < b or a > b", "x = if a < b then a else b"],
)  # fmt: skip
def test_everything_else_is_left_to_the_general_way(step: str) -> None:
    made = program(step, "a: int, b: int, c: decimal(2)")
    assert first(made, a=7, b=-2, c=9).text is None


def test_the_forms_of_a_trace_are_kept() -> None:
    made = program("x = a + b")
    assert first(made.in_form(Form.VALUES), a=1, b=2).text is None
    assert first(made.in_form(Form.FULL), a=1, b=2).text is None
    assert first(program("x = 5").in_form(Form.VALUES), a=1, b=2).text == "1 x = 5"


def test_what_is_not_decided_is_a_hole_and_a_fault_is_a_fault() -> None:
    made = program('judge n: int from note asking "?"\nx = n + n\nx = 3 div a', "a: int, note: text")
    execution = made.execute({"a": 0, "note": ""})
    next(execution)
    undecided = execution.send(UNKNOWN)
    assert (undecided.text, undecided.value) == (None, UNKNOWN)
    with pytest.raises(StopIteration) as stop:
        execution.send(None)
    assert (stop.value.value.kind, stop.value.value.reason) == (EndKind.FAILED, "division by zero")
    with pytest.raises(StopIteration) as stop:
        first(program("x = a * b"), a=BIG, b=BIG)
    assert stop.value.value.reason == "the value is a number of more than 40 digits"


def test_what_was_sent_is_gone_on_from() -> None:
    execution = program("x = a + 1\ny = x + x").execute({"a": 1, "b": 0})
    assert next(execution).text == "1 x = 1 + 1 = 2"
    second = execution.send(7)
    assert second.text == "2 y = 7 + 7 = 14"
    execution.send(UNKNOWN)
    assert agrees_with_its_cells(second)  # whatever became of its operands since


WHOLE = st.recursive(
    st.sampled_from([Name("i"), Name("j")]) | st.integers(1, 12).map(lambda value: Literal(value, INT)),
    lambda part: st.builds(Arithmetic, st.sampled_from(["+", "-", "*", "div", "mod"]), part, part),
    max_leaves=6,
)
TESTS = st.builds(Comparison, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), WHOLE, WHOLE)
VALUES = st.integers(-20, 20) | st.sampled_from([BIG, -BIG, UNKNOWN])


@given(WHOLE | TESTS, VALUES, VALUES)
def test_a_drawn_line_is_what_the_general_way_makes(
    expr: Expr, i: Value | Unknown, j: Value | Unknown
) -> None:
    kind = BOOL if isinstance(expr, Comparison) else INT
    made = body(expr, kind, SCOPE, Form.WORK)
    place = Place(number="1", suffix="1", kind=StepKind.ASSIGN, head="x =")
    env = {"i": i, "j": j}
    ready = place.ready("1", made, env)
    if ready is not None:
        carried, cells = made.fill(env, env)  # would raise where the procedure is at fault
        assert ready == place.expect("1", cells, made.tail, env=env)
        assert ready.value == carried
        assert type(ready.value) is type(carried)
        assert agrees_with_its_cells(ready)


@settings(max_examples=100, deadline=None)
@given(samples())
def test_every_line_of_a_drawn_procedure_agrees_with_its_cells(sample: Sample) -> None:
    for expected, value in sample.steps:
        assert expected.text is None or agrees_with_its_cells(expected)
        assert expected.decision is not None or expected.value == value

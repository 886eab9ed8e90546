"""Canonical lines, and their beginnings."""

from __future__ import annotations

import pytest

from guard.errors import InvalidState
from guard.procedure.execute import Program, reference
from guard.procedure.expected import UNKNOWN, Expected
from guard.procedure.load import load
from guard.procedure.types import Value
from guard.trace import render

TEXT = """\
procedure parcel(note: text, express: bool) -> { price: decimal(2), sizes: list of int }
  extract size: int from note quote where size >= 1
  judge kind: enum("box", "bag") from note asking "What is it?"
  price = size * 2.50
  if kind == "box" and express
    price = price + 4 to 2
  return { price: price * 2, sizes: [size, size + 1] }
"""
INPUTS: dict[str, Value] = {"note": "A  box of\n12 hinges.", "express": True}


@pytest.fixture(scope="module")
def program() -> Program:
    return load(TEXT, "parcel.proc").procedures["parcel"]


def walk(program: Program, sent: list[Value | None]) -> Expected:
    """The step that is due behind what was sent; behind that, the decisions are unknown."""
    execution = program.execute(INPUTS)
    expected = next(execution)
    for value in sent:
        expected = execution.send(UNKNOWN if value is None and expected.decision else value)
    return expected


def steps(program: Program) -> list[tuple[Expected, Value]]:
    done, _ = reference(program, INPUTS, {"size": 12, "kind": "box"})
    return done


def test_writes_the_frame() -> None:
    assert render.begin("parcel", "3fa92c") == "@begin parcel 3fa92c"
    assert render.end("3fa92c") == "@end 3fa92c"


def test_writes_every_line_of_a_trace(program: Program) -> None:
    assert render.trace(program, steps(program), "3fa92c", {"1": ["12 hinges"]}).splitlines() == [
        "@begin parcel 3fa92c",
        '1 size = 12 <- "12 hinges"',
        '2 kind = "box"',
        "3 price = 12 * 2.50 = 30.00",
        '4 if "box" == "box" and true = true',
        "4.1 price = 30.00 + 4 = 34.00",
        '5 return {"price": 34.00 * 2 = 68.00, "sizes": [12, 12 + 1 = 13]}',
        "@end 3fa92c",
    ]


def test_a_quote_that_is_required_and_not_given_is_taken_from_the_source(program: Program) -> None:
    [expected, *_] = [expected for expected, _ in steps(program)]
    assert render.supporting_quotes(expected, 12) == ("of 12 hinges",)
    assert '<- "of 12 hinges"' in render.trace(program, steps(program), "3fa92c")


@pytest.mark.parametrize(
    ("note", "quotes"),
    [
        (" \n ", ()),
        ("word " * 100, ("word " * 39 + "word",)),
        ("x" * 300, ("x" * 200,)),
    ],
)
def test_a_quote_of_a_long_source_ends_with_a_word(
    program: Program, note: str, quotes: tuple[str, ...]
) -> None:
    expected = next(program.execute({"note": note, "express": True}))
    assert render.supporting_quotes(expected, 12) == quotes
    assert render.supporting_quotes(walk(program, [12]), "box") == ()


def test_a_decision_is_written_with_its_value_and_quotes(program: Program) -> None:
    assert render.line(walk(program, []), 12, ['"tw\nelve"']) == r'1 size = 12 <- "\"tw\nelve\""'


def test_a_line_with_a_hole_cannot_be_written(program: Program) -> None:
    with pytest.raises(InvalidState, match="step 1 hangs on what is not decided"):
        render.line(walk(program, []))
    with pytest.raises(InvalidState, match="step 3"):
        render.line(walk(program, [None, "box"]), 30)


def test_a_line_of_one_cell_can_be_written_with_another_value(program: Program) -> None:
    assert render.line(walk(program, [12, "box"]), 31) == "3 price = 12 * 2.50 = 31.00"


def test_an_outline_has_dots_where_the_guard_does_not_know(program: Program) -> None:
    assert render.outline(walk(program, [])) == "1 size = …"
    assert render.outline(walk(program, [None, "box"])) == "3 price = … * 2.50 = …"
    assert render.outline(walk(program, [12, "box"])) == "3 price = 12 * 2.50 = 30.00"


def test_a_stub_is_the_number_alone(program: Program) -> None:
    assert render.stub(walk(program, [12, "box", None, None])) == "4.1"


def test_a_scaffold_goes_up_to_the_value(program: Program) -> None:
    assert render.scaffold(walk(program, [])) == "1 size ="
    assert render.scaffold(walk(program, [12, "box"])) == "3 price = 12 * 2.50 ="
    assert render.scaffold(walk(program, [12, "box", None])) == '4 if "box" == "box" and true ='


def test_a_scaffold_of_a_later_cell_has_the_earlier_values(program: Program) -> None:
    answer = walk(program, [12, "box", None, None, None])
    assert [render.scaffold(answer, index) for index in range(3)] == [
        '5 return {"price": 34.00 * 2 =',
        '5 return {"price": 34.00 * 2 = 68.00, "sizes": [',
        '5 return {"price": 34.00 * 2 = 68.00, "sizes": [12, 12 + 1 =',
    ]
    assert all(render.line(answer).startswith(render.scaffold(answer, index)) for index in range(3))


def test_a_scaffold_ends_in_front_of_the_first_hole(program: Program) -> None:
    assert render.scaffold(walk(program, [None, "box"])) == "3 price ="
    answer = walk(program, [None, "bag", None, False])
    assert render.scaffold(answer, 2) == '5 return {"price":'

"""Which lines can be scaffolded, and with what a generation is opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pytest

from guard.dialect.lark import Level
from guard.dialect.notation import Dialect
from guard.procedure.expected import Expected
from guard.procedure.types import Value
from guard.run.lines import scaffold_cell
from guard.run.opening import NO_REASON, Reason, opening
from guard.run.progress import Progress
from tests.run.procedures import DIALOGUE, GRAMMAR, NONCE, PREFILL, job, program

# 1 decides, 2 hangs on it, 3 has an answer of which the second field is computed.
BILL: Final = """\
procedure bill(net: decimal(2), note: text) -> { net: decimal(2), tax: decimal(2), total: decimal(2) }
  extract rate: percent from note
  tax = net * rate to 2
  return { net: net, tax: tax, total: net + tax }
"""
SPLIT: Final = """\
procedure split(net: int) -> { less: int, more: int }
  return { less: net - 1, more: net + 1 }
"""
INPUTS: Final[Mapping[str, Value]] = {"net": 100, "note": "The usual 20%."}


def progress(*lines: str) -> Progress:
    made = Progress(program(BILL), INPUTS, NONCE)
    made.open_frame()
    for line in lines:
        assert made.read(f"{line}\n", frozenset())
    return made


def due(made: Progress) -> Expected:
    assert made.expected is not None
    return made.expected


AMOUNT: Final = 10**19 + 7
TERMS: Final = " + ".join("a" * 40)
LONG: Final = f"""\
procedure long(xs: list of int, a: int, note: text) -> int
  t = 0
  for x in xs at most 300
    t = x + {TERMS}
  extract ys: list of int from note
  for y in ys at most 5
    t = t + y
  return t
"""


@pytest.mark.parametrize(
    ("dialect", "passes", "level"),
    [
        (Dialect.JSON_SCHEMA, 300, Level.SHAPE),
        (Dialect.JSON_SCHEMA, 3, None),
        (Dialect.GBNF, 300, Level.SHAPE),
        (Dialect.GBNF, 3, None),
        (Dialect.REGEX, 3, Level.NONE),  # a loop of an unknown number of passes
    ],
)
def test_what_a_notation_cannot_say_is_said_at_the_next_looser_level(
    dialect: Dialect, passes: int, level: Level | None
) -> None:
    inputs: dict[str, Value] = {"xs": (1,) * passes, "a": AMOUNT, "note": "1"}
    made = Progress(program(LONG), inputs, NONCE)
    target = replace(DIALOGUE, dialect=dialect)
    opened = opening(job(LONG, inputs), made, target, Level.OPERANDS, NO_REASON)
    assert opened.loosened is level
    assert (opened.grammar is None) is (level is Level.NONE)
    first = " + ".join(str(AMOUNT) for _ in range(40))
    assert opened.grammar is None or (first in opened.grammar) is (level is None)
    assert (opened.given == frozenset()) is (level is not None)


@pytest.mark.parametrize(("passes", "level"), [(450, Level.SHAPE), (3, None)])
def test_more_lines_than_a_grammar_writes_out_are_open_in_shape(passes: int, level: Level | None) -> None:
    text = (
        "procedure p(xs: list of int) -> int\n  t = 0\n  for x in xs at most 500\n    t = t + x\n  return t\n"
    )
    inputs: dict[str, Value] = {"xs": (1,) * passes}
    made = Progress(program(text), inputs, NONCE)
    for prefill, loosened in ((True, None), (False, level)):
        target = replace(DIALOGUE, dialect=Dialect.GBNF, prefill=prefill)
        opened = opening(job(text, inputs), made, target, Level.OPERANDS, NO_REASON)
        assert opened.loosened is loosened
        assert opened.grammar is not None


def test_where_no_grammar_is_taken_none_is_loosened() -> None:
    assert opening(job(BILL, INPUTS), progress(), DIALOGUE, Level.OPERANDS, NO_REASON).loosened is None


def test_a_decision_is_not_scaffolded() -> None:
    assert scaffold_cell(due(progress()), None) is None


def test_the_only_expression_of_a_line_is_scaffolded_whatever_is_blamed() -> None:
    made = progress("1 rate = 20%")
    assert scaffold_cell(due(made), None) == 0
    assert scaffold_cell(due(made), 0) == 0
    assert scaffold_cell(due(made), 7) == 0


def test_of_an_answer_the_field_with_an_expression_is_scaffolded() -> None:
    made = progress("1 rate = 20%", "2 tax = 100.00 * 20% = 20.00")
    assert scaffold_cell(due(made), 0) == 2, "the net is no expression"
    opened = opening(job(BILL, INPUTS), made, PREFILL, Level.OPERANDS, Reason(cell=2))
    assert opened.tail == '3 return {"net": 100.00, "tax": 20.00, "total": 100.00 + 20.00 ='
    assert opened.prefix.endswith(f"\n{opened.tail}")
    assert opened.given == {"3"}


def test_of_two_fields_with_an_expression_the_blamed_one_is_scaffolded() -> None:
    made = Progress(program(SPLIT), {"net": 100}, NONCE)
    made.open_frame()
    assert scaffold_cell(due(made), 1) == 1
    assert scaffold_cell(due(made), None) == 0


def test_a_prefix_ends_in_the_number_of_the_line_that_is_due() -> None:
    opened = opening(job(BILL, INPUTS), progress(), PREFILL, Level.NONE, NO_REASON)
    assert (opened.prefix, opened.tail) == (f"@begin bill {NONCE}\n1", "1")
    assert (opened.grammar, opened.given, opened.stop) == (None, frozenset(), "")


def test_a_grammar_stops_in_front_of_what_hangs_on_a_decision() -> None:
    opened = opening(job(BILL, INPUTS), progress(), GRAMMAR, Level.OPERANDS, NO_REASON)
    assert opened.stop == "1"
    behind = opening(job(BILL, INPUTS), progress("1 rate = 20%"), GRAMMAR, Level.OPERANDS, NO_REASON)
    assert (behind.stop, sorted(behind.given)) == ("", ["2", "3"])
    assert behind.grammar is not None
    assert "100.00 * 20%" in behind.grammar


def test_where_the_guard_computes_a_generation_is_for_one_line() -> None:
    for target in (PREFILL, GRAMMAR, DIALOGUE):
        assert opening(job(BILL, INPUTS), progress(), target, Level.VALUES, NO_REASON).stop == "1"

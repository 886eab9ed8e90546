"""Executions: every construct's line, decisions, faults, what hangs on the open, and who may share a program."""

import hashlib
import importlib.resources
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import chain, repeat, zip_longest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.errors import InvalidState, RequestError
from guard.procedure.blocks import Block
from guard.procedure.compile import head
from guard.procedure.execute import Program, constant, reference
from guard.procedure.expected import UNKNOWN, Cell, Ending, EndKind, Expected, Unknown, assemble
from guard.procedure.listing import walk
from guard.procedure.load import load
from guard.procedure.model import AnyOrder, If, StepKind
from guard.procedure.nodes import Name
from guard.procedure.types import IntType, ListType, Value
from guard.procedure.values import spell

INVOICE = importlib.resources.files("guard.examples").joinpath("invoice/invoice.proc").read_text()


def program(text: str) -> Program:
    (found,) = load(text).procedures.values()
    return found


def steps(body: str, signature: str = "p(a: int) -> int", before: str = "") -> Program:
    indented = "".join(f"  {line}\n" for line in body.strip("\n").splitlines())
    return program(f"{before}\nprocedure {signature}\n{indented}")


def line(expected: Expected, value: Value | None = None) -> str:
    """The line of a step, with `_` and `…` for holes and `?` for values that nobody has decided."""
    parts = [f"{expected.path} {expected.head} "]
    for cell in expected.cells:
        parts.append(cell.lead)
        if cell.working is not None:
            parts += [part if isinstance(part, str) else "…" if part.free else "_" for part in cell.working]
            parts.append(" = ")
        parts.append(cell.spelling or ("?" if value is None else spell(value, cell.type)))
    return "".join([*parts, expected.tail])


def run(
    made: Program, decisions: Mapping[str, object] | None = None, **inputs: object
) -> tuple[list[str], Ending]:
    taken, ending = reference(made, made.accept(inputs), made.decide(decisions or {}))
    return [line(expected, value) for expected, value in taken], ending


def drive(made: Program, sent: list[Any], **inputs: object) -> tuple[list[Expected], Ending | None]:
    """Execute with what is sent for each step in turn; behind the last, what was computed."""
    execution = made.execute(made.accept(inputs))
    seen: list[Expected] = []
    ending: Ending | None = None
    try:
        for value in chain([None], sent, repeat(None)):
            seen.append(execution.send(value))  # noqa: PERF401 (its end would end a comprehension oddly)
    except StopIteration as stop:
        ending = stop.value
    return seen, ending


# --- lines ---------------------------------------------------------------------------------------


def test_the_invoice_is_carried_out_line_by_line() -> None:
    made = program(INVOICE)
    assert made.example_inputs is not None
    assert made.example_decisions is not None
    taken, ending = reference(made, made.example_inputs, made.example_decisions)
    assert [line(expected, value) for expected, value in taken] == [
        '1 lines = [{"name": "hinge", "qty": 12, "unit_price": 3.35}, {"name": "oak panel", "qty": 4, "unit_price": 61.20}]',
        "2 loyal = true",
        "3 net = 0.00",
        "4 for l in lines = 2",
        "4[1].1 part = 12 * 3.35 * (1 - 5%) = 38.19",
        "4[1].2 net = 0.00 + 38.19 = 38.19",
        "4[2].1 part = 4 * 61.20 * (1 - 0%) = 244.80",
        "4[2].2 net = 38.19 + 244.80 = 282.99",
        "5 if true and 282.99 >= 200 = true",
        "5.1 net = 282.99 - min(282.99 * 3%, 25) = 274.50",
        "6 tax = 274.50 * 19% = 52.16",
        "7 check 52.16 >= 0 and 274.50 >= 0 = true",
        '8 return {"net": 274.50, "total": 274.50 + 52.16 = 326.66, "due": 2026-06-01 + (if true then 30 else 14) days = 2026-07-01}',
    ]
    assert ending == Ending(
        EndKind.RETURN,
        {"net": Fraction("274.50"), "total": Fraction("326.66"), "due": date(2026, 7, 1)},
        path="8",
    )


@pytest.mark.parametrize(
    ("statement", "lines"),
    [
        ("x = 7", ["1 x = 7"]),
        ("x = 0.00", ["1 x = 0.00"]),
        ("x = -5", ["1 x = -5"]),
        ("x = 5%", ["1 x = 5%"]),
        ("x = true", ["1 x = true"]),
        (r'x = "a \"b\"\n"', [r'1 x = "a \"b\"\n"']),
        ("x = a", ["1 x = 4"]),
        ("x = -a", ["1 x = -4 = -4"]),
        ("x = -m", ["1 x = -(-3) = 3"]),
        ("x = d", ["1 x = 61.20"]),
        ("x = (d)", ["1 x = 61.20"]),
        ("x = r", ["1 x = 12.5%"]),
        ("x = s", ['1 x = "hinge"']),
        ("x = long", [f'1 x = "{"y" * 41}"']),
        ("x = xs", ["1 x = [3, 1]"]),
        ("x = one", ['1 x = {"name": "hinge", "qty": 12}']),
        ("x = one.qty", ["1 x = 12"]),
        ("x = a * d", ["1 x = 4 * 61.20 = 244.80"]),
        ("x = d to 1", ["1 x = 61.20 = 61.2"]),
        ("x = d to 2", ["1 x = 61.20"]),
        ("x = d to 0", ["1 x = 61.20 = 61"]),
        ("x = a to 2", ["1 x = 4 = 4.00"]),
        ("x = d / 7 to 3", ["1 x = 61.20 / 7 = 8.743"]),
        ("x = d / 7 to 3 down", ["1 x = 61.20 / 7 = 8.742"]),
        ("x = 2.485 to 2 half_even", ["1 x = 2.485 = 2.48"]),
        ("x = r to 2", ["1 x = 12.5% = 0.13"]),
        ("x = bulk(a)", ["1 x = bulk(4) = 0%"]),
        ("x = bulk(a + 10)", ["1 x = bulk(4 + 10) = 5%"]),
        ("x = 1 - bulk(a + 10)", ["1 x = 1 - 5% = 0.95"]),
        ("x = a > 3 and d > 100", ["1 x = 4 > 3 and 61.20 > 100 = false"]),
        ("x = a > 9 and d > 100", ["1 x = 4 > 9 and d > 100 = false"]),
        ("x = if a > 3 then d else 0", ["1 x = if 4 > 3 then 61.20 else 0 = 61.20"]),
        ("x = sum(y for y in xs)", ["1 x = sum(3, 1) = 4"]),
        ("x = len(xs)", ["1 x = len(xs) = 2"]),
        ("x = [a, a + 1]", ["1 x = [4, 4 + 1 = 5]"]),
        ("x = [a, d]", ["1 x = [4 = 4.00, 61.20]"]),
        ("x = { n: s, t: a + 1, u: [a, -a] }", ['1 x = {"n": "hinge", "t": 4 + 1 = 5, "u": [4, -4 = -4]}']),
        ("x = [one, one]", ['1 x = [{"name": "hinge", "qty": 12}, {"name": "hinge", "qty": 12}]']),
        ('x = [{ name: "a", qty: a * 2 }, one]', ['1 x = [{"name": "a", "qty": 4 * 2 = 8}, {"name": "hinge", "qty": 12}]']),
        ('require a > 0 else deny "No."', ["1 require 4 > 0 = true"]),
        ('require t else deny "No."', ["1 require true"]),
        ("check a > 0", ["1 check 4 > 0 = true"]),
        ("check t", ["1 check true"]),
    ],
)  # fmt: skip
def test_a_statement_has_its_line(statement: str, lines: list[str]) -> None:
    before = """\
record Item { name: string, qty: int }
table bulk(qty: int) -> percent, first match
  < 10 => 0%
  any  => 5%
"""
    signature = "p(a: int, m: int, d: decimal(2), r: percent, t: bool, s: string, long: string, xs: list of int, one: Item) -> int"
    made = steps(f"{statement}\nreturn 0", signature, before)
    found, ending = run(
        made,
        a=4,
        m=-3,
        d="61.20",
        r="12.5%",
        t=True,
        s="hinge",
        long="y" * 41,
        xs=[3, 1],
        one={"name": "hinge", "qty": 12},
    )
    assert found == [*lines, "2 return 0"]
    assert ending.kind is EndKind.RETURN


def test_branches_number_every_arm_and_give_a_line_to_every_condition_that_is_asked() -> None:
    made = steps(
        """
if a > 10
  x = 1
elif a > 5
  x = 2
  y = 3
elif a > 0
  x = 4
else
  x = 5
return x
"""
    )
    assert run(made, a=20)[0] == ["1 if 20 > 10 = true", "1.1 x = 1", "5 return 1"]
    assert run(made, a=7)[0] == [
        "1 if 7 > 10 = false",
        "2 elif 7 > 5 = true",
        "2.1 x = 2",
        "2.2 y = 3",
        "5 return 2",
    ]
    assert run(made, a=0)[0] == [
        "1 if 0 > 10 = false",
        "2 elif 0 > 5 = false",
        "3 elif 0 > 0 = false",
        "4.1 x = 5",
        "5 return 5",
    ]
    assert made.step_numbers == {
        "1": StepKind.BRANCH,
        "1.1": StepKind.ASSIGN,
        "2": StepKind.BRANCH,
        "2.1": StepKind.ASSIGN,
        "2.2": StepKind.ASSIGN,
        "3": StepKind.BRANCH,
        "3.1": StepKind.ASSIGN,
        "4.1": StepKind.ASSIGN,
        "5": StepKind.RETURN,
    }


def test_loops_in_branches_in_loops_number_their_passes() -> None:
    made = steps(
        """
n = 0
for x in xs at most 3
  if x > 1
    for y in xs at most 3
      n = n + x * y
    m = n
return n
""",
        "p(xs: list of int) -> int",
    )
    assert run(made, xs=[1, 2])[0] == [
        "1 n = 0",
        "2 for x in xs = 2",
        "2[1].1 if 1 > 1 = false",
        "2[2].1 if 2 > 1 = true",
        "2[2].1.1 for y in xs = 2",
        "2[2].1.1[1].1 n = 0 + 2 * 1 = 2",
        "2[2].1.1[2].1 n = 2 + 2 * 2 = 6",
        "2[2].1.2 m = 6",
        "3 return 6",
    ]
    assert run(made, xs=[])[0] == ["1 n = 0", "2 for x in xs = 0", "3 return 0"]
    expected = drive(made, [], xs=[2])[0][4]
    assert (expected.path, expected.number, expected.kind, expected.target) == (
        "2[1].1.1[1].1",
        "2.1.1.1",
        StepKind.ASSIGN,
        "n",
    )


def test_an_answer_in_a_loop_or_branch_ends_everything() -> None:
    made = steps(
        """
for x in xs at most 9
  if x > 1
    return x
return 0
""",
        "p(xs: list of int) -> int",
    )
    lines, ending = run(made, xs=[1, 2, 3])
    assert lines[-1] == "1[2].1.1 return 2"
    assert ending == Ending(EndKind.RETURN, 2, path="1[2].1.1")


def test_a_requirement_that_does_not_hold_is_followed_by_its_end() -> None:
    made = steps('require a > 0 else deny "Nothing\\nordered."\nrequire a < 9 else return -1\nreturn a')
    lines, ending = run(made, a=0)
    assert lines == ["1 require 0 > 0 = false", '1.1 deny "Nothing\\nordered."']
    assert ending == Ending(EndKind.DENY, "Nothing\nordered.", path="1.1")
    lines, ending = run(made, a=9)
    assert lines == ["1 require 9 > 0 = true", "2 require 9 < 9 = false", "2.1 return -1"]
    assert ending == Ending(EndKind.RETURN, -1, path="2.1")
    assert [made.step_numbers[n] for n in ("1", "1.1", "2", "2.1")] == [
        StepKind.REQUIRE,
        StepKind.DENY,
        StepKind.REQUIRE,
        StepKind.RETURN,
    ]


def test_an_answer_is_spelled_by_the_type_of_the_result_and_in_its_order() -> None:
    made = steps(
        "return { b: a, c: [a, 1], a: { x: a * 2 } }",
        "p(a: int) -> { a: { x: decimal(1) }, b: decimal(2), c: list of int }",
    )
    lines, ending = run(made, a=3)
    assert lines == ['1 return {"a": {"x": 3 * 2 = 6.0}, "b": 3 = 3.00, "c": [3, 1]}']
    assert ending.value == {"a": {"x": 6}, "b": 3, "c": (3, 1)}
    expected = drive(made, [], a=3)[0][0]
    assert [cell.key for cell in expected.cells] == [("a", "x"), ("b",), ("c", 0), ("c", 1)]
    assert [cell.lead for cell in expected.cells] == ['{"a": {"x": ', '}, "b": ', ', "c": [', ", "]
    assert expected.tail == "]}"
    assert expected.value == ending.value


def test_labels_and_heads_travel_with_the_step() -> None:
    made = steps("net_line: x = a + 1\nfor y in [x] at most 2\n  z = y\nreturn a")
    first, loop, *_ = drive(made, [], a=1)[0]
    assert (first.label, first.head, loop.head) == ("net_line", "x =", "for y in [x] =")
    heads = [head(step) for step in walk(made.procedure.body) if not isinstance(step, AnyOrder | If)]
    assert heads == ["x =", "for y in [x] =", "z =", "return"]


# --- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "results"),
    [
        ("half_up", ["2.49", "-2.49", "0.13"]),
        ("half_even", ["2.48", "-2.48", "0.12"]),
        ("down", ["2.48", "-2.48", "0.12"]),
        ("up", ["2.49", "-2.49", "0.13"]),
        ("floor", ["2.48", "-2.49", "0.12"]),
        ("ceiling", ["2.49", "-2.48", "0.13"]),
    ],
)
def test_the_file_sets_the_rounding(mode: str, results: list[str]) -> None:
    made = steps(
        "x = 2.485 to 2\ny = -2.485 to 2\nz = a / 8 to 2\nreturn 0",
        before=f"numbers round {mode}, carry shown\n",
    )
    lines, _ = run(made, a=1)
    assert [text.rpartition(" = ")[2] for text in lines[:3]] == results


SPLIT = """
third = a / 3 to 2
six = third * 6 to 2
big = six > 5.99
return six
"""


def test_carry_shown_goes_on_with_what_was_written() -> None:
    made = steps(SPLIT, "p(a: int) -> decimal(2)")
    assert run(made, a=3)[0] == [
        "1 third = 3 / 3 = 1.00",
        "2 six = 1.00 * 6 = 6.00",
        "3 big = 6.00 > 5.99 = true",
        "4 return 6.00",
    ]
    assert run(made, a=1)[0][:2] == ["1 third = 1 / 3 = 0.33", "2 six = 0.33 * 6 = 1.98"]


def test_carry_exact_goes_on_with_the_exact_value_and_shows_it_rounded() -> None:
    made = steps(SPLIT, "p(a: int) -> decimal(2)", "numbers round half_up, carry exact\n")
    lines, ending = run(made, a=1)
    assert lines == [
        "1 third = 1 / 3 = 0.33",
        "2 six = 0.33 * 6 = 2.00",
        "3 big = 2.00 > 5.99 = false",
        "4 return 2.00",
    ]
    assert ending.value == 2


def test_carry_exact_shows_an_operand_as_it_was_written_whatever_rounded_it() -> None:
    made = steps(
        "x = a / 3 to 2 up\ny = x * 3 to 2\nz = [x, y]\nw = { x: x }\nv = w.x * 3\nfor i in z at most 2\n  u = i + 0\nreturn y",
        "p(a: int) -> decimal(2)",
        "numbers round half_up, carry exact\n",
    )
    assert run(made, a=1)[0] == [
        "1 x = 1 / 3 = 0.34",
        "2 y = 0.34 * 3 = 1.00",
        "3 z = [0.34, 1.00]",
        '4 w = {"x": 0.34}',
        "5 v = 0.34 * 3 = 1.00",
        "6 for i in z = 2",
        "6[1].1 u = 0.34 + 0 = 0.33",
        "6[2].1 u = 1.00 + 0 = 1.00",
        "7 return 1.00",
    ]


def test_carry_exact_without_places_shows_ten_decimals() -> None:
    made = steps(
        "x = a / 3\ny = x * 3\nreturn y", "p(a: int) -> decimal", "numbers round half_up, carry exact\n"
    )
    assert run(made, a=1)[0] == ["1 x = 1 / 3 = 0.3333333333", "2 y = 0.3333333333 * 3 = 1", "3 return 1"]


def test_carry_exact_decides_by_the_exact_value() -> None:
    made = steps(
        "x = a / 3 to 1\ny = x * size(x)\nz = if x >= 1.7 then x else y\nreturn 0",
        "p(a: int) -> int",
        "numbers round half_up, carry exact\ntable size(n: decimal) -> int, first match\n  >= 1.7 => 1\n  any    => 7\n",
    )
    lines, _ = run(made, a=5)
    assert lines[:3] == [
        "1 x = 5 / 3 = 1.7",
        "2 y = 1.7 * 7 = 11.7",
        "3 z = if 1.7 >= 1.7 then x else 11.7 = 11.7",
    ]


def test_what_is_rounded_to_whole_numbers_is_carried_whole_in_either_mode() -> None:
    made = steps("x = a / 3 to 0\ny = x * 3\nreturn y", before="numbers round half_up, carry exact\n")
    assert run(made, a=5)[0] == ["1 x = 5 / 3 = 2", "2 y = 2 * 3 = 6", "3 return 6"]


@pytest.mark.parametrize(
    ("cell", "holds"),
    [
        ("2..3", "2 2.5 3"),
        (">= 2", "2 2.5 3 4"),
        ("> 2", "2.5 3 4"),
        ("<= 2", "1 2"),
        ("< 2", "1"),
        ("2", "2"),
        ("2.0 | 4", "2 4"),
        ("any", "1 2 2.5 3 4"),
    ],
)
def test_a_cell_takes_its_numbers_and_no_others(cell: str, holds: str) -> None:
    made = steps(
        "return taken(d)",
        "p(d: decimal(1)) -> bool",
        f"table taken(d: decimal(1)) -> bool, first match\n  {cell} => true\n"
        + "  any => false\n" * (cell != "any"),
    )
    assert [d for d in ("1", "2", "2.5", "3", "4") if run(made, d=d)[1].value is True] == holds.split()


def test_the_first_row_that_takes_all_values_counts() -> None:
    made = steps(
        "return fee(country, n)",
        "p(country: string, n: int) -> int",
        'table fee(country: string, n: int) -> int, first match\n  "DE" | "AT", < 5 => 1\n  "DE", any => 2\n  any, >= 9 => 3\n',
    )
    assert run(made, country="AT", n=4)[0] == ['1 return fee("AT", 4) = 1']
    assert run(made, country="DE", n=5)[1].value == 2
    assert run(made, country="DE", n=9)[1].value == 2
    assert run(made, country="FR", n=9)[1].value == 3
    _, ending = run(made, country="FR", n=8)
    assert ending.reason == "no row of table 'fee' is for country = \"FR\", n = 8"


POLICIES: dict[str, dict[str, str | None]] = {
    "first match": {"5": "1", "15": "3", "25": None},
    "sum": {"5": "4", "10": "6", "15": "5", "25": "0"},
    "min": {"5": "1", "10": "1", "15": "2", "25": None},
    "max": {"5": "3", "10": "3", "15": "3", "25": None},
}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_hit_policy_says_what_the_rows_that_fit_give_together(policy: str) -> None:
    table = f"table t(d: decimal(1)) -> int, {policy}\n  0..10 => 1\n  0<..<20 => 3\n  10..<20 => 2\n"
    made = steps("x = t(d)\nreturn x", "p(d: decimal(1)) -> int", table)
    for given_value, wanted_value in POLICIES[policy].items():
        found, ending = run(made, d=given_value)
        if wanted_value is None:
            assert ending.reason == f"no row of table 't' is for d = {given_value}.0"
        else:
            assert found[0] == f"1 x = t({given_value}.0) = {wanted_value}"


@pytest.mark.parametrize(
    ("policy", "second", "reason"),
    [
        ("unique", 1, "more than one row of table 't' is for a = 7"),
        ("any equal", 2, "more than one result of table 't' is for a = 7"),
        ("any equal", 1, ""),
    ],
)
def test_overlaps_of_large_tables_are_found_when_they_are_looked_up(
    policy: str, second: int, reason: str
) -> None:
    rows = [f"  {n} => 1" for n in range(301)] + [f"  7 => {second}"]
    table = f"table t(a: int) -> int, {policy}\n" + "\n".join(rows) + "\n"
    _, ending = run(steps("return t(a)", "p(a: int) -> int", table), a=7)
    assert (ending.reason or "") == reason


# --- faults of the procedure ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "lines", "path", "reason"),
    [
        ("x = 1 / (a - a) to 2\nreturn 1", 0, "1", "division by zero"),
        ("y = a\nx = a mod (y - a)\nreturn 1", 1, "2", "division by zero"),
        ("if 1 / (a - a) > 1\n  return 2\nreturn 1", 0, "1", "division by zero"),
        ("if a > 9\n  return 2\nelif 1 / (a - a) > 1\n  return 3\nreturn 1", 1, "2", "division by zero"),
        ("require 1 / (a - a) > 1 else return 2\nreturn 1", 0, "1", "division by zero"),
        ("require a > 9 else return 1 div (a - a)\nreturn 1", 1, "1.1", "division by zero"),
        ("check a > 9\nreturn 1", 0, "1", "the check does not hold: 4 > 9"),
        ("t = a > 9\ncheck t\nreturn 1", 1, "2", "the check does not hold: false"),
        ("for x in [a, a - 4] at most 2\n  y = 8 div x\nreturn 1", 2, "1[2].1", "division by zero"),
        ("for x in [a, 1, 2] at most 2\n  y = x\nreturn 1", 0, "1", "[a, 1, 2] has 3 items, the loop takes at most 2"),
        ("for x in [8 div (a - 4)] at most 2\n  y = x\nreturn 1", 0, "1", "division by zero"),
        ("x = bulk(a + 60)\nreturn 1", 0, "1", "no row of table 'bulk' is for qty = 64"),
        ("x = min(y for y in [a] if y > 9)\nreturn 1", 0, "1", "min of nothing has no value"),
    ],
)  # fmt: skip
def test_what_goes_wrong_ends_the_execution_instead_of_the_step(
    body: str, lines: int, path: str, reason: str
) -> None:
    made = steps(body, before="table bulk(qty: int) -> percent, first match\n  <= 50 => 0%\n")
    found, ending = run(made, a=4)
    assert len(found) == lines
    assert ending == Ending(EndKind.FAILED, path=path, reason=reason)


def test_numbers_that_grow_too_long_end_the_execution() -> None:
    made = steps("x = a * a\ny = x * x\nreturn 1")
    assert run(made, a=10**9)[1].kind is EndKind.RETURN
    _, ending = run(made, a=10**19)
    assert ending == Ending(EndKind.FAILED, path="2", reason="the value is a number of more than 40 digits")
    made = steps(f"x = {' * '.join(['a'] * 30)} > 1\nreturn 1")
    _, ending = run(made, a=10**39)
    assert ending == Ending(EndKind.FAILED, path="1", reason="a number of more than 200 digits arose")


def test_loops_in_loops_come_to_an_end() -> None:
    made = steps(
        "n = 0\nfor x in xs at most 500\n  for y in xs at most 500\n    n = n + 1\nreturn n",
        "p(xs: list of int) -> int",
    )
    seen, ending = drive(made, [], xs=[0] * 500)
    assert len(seen) == 100_000
    assert ending == Ending(EndKind.FAILED, path="2[200].1[299].1", reason="there are more than 100000 steps")


def test_a_check_that_is_computed_false_has_no_line_but_one_that_is_sent_false_goes_on() -> None:
    made = steps("check a > 0\nreturn a")
    seen, ending = drive(made, [False], a=1)
    assert [expected.path for expected in seen] == ["1", "2"]
    assert ending is not None
    assert ending.kind is EndKind.RETURN


# --- decisions -----------------------------------------------------------------------------------

ORDER = """
record Line { name: string, qty: int }

procedure p(note: text, floor_: int) -> int
  extract lines: list of Line from note quote
    where all(l.qty >= floor_ for l in lines)
  judge mood: enum("good", "bad") from note asking "How is the writer?"
  n = 0
  for l in lines at most 3
    judge ok: bool from note asking "Is it in stock?"
    if ok
      n = n + l.qty
  return n
"""


def test_decisions_come_from_the_model_and_are_bounded() -> None:
    made = program(ORDER)
    assert made.decisions == ("lines", "mood", "ok")
    assert made.sources == ("note",)
    first = next(made.execute(made.accept({"note": "a note", "floor_": 2})))
    decision = first.decision
    assert decision is not None
    assert (first.head, first.known, first.cells[0].spelling) == ("lines =", False, None)
    assert (decision.sources, decision.quote, decision.at_most) == ((("note", "a note"),), True, 3)
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


# --- what hangs on the open ----------------------------------------------------------------------


def test_an_execution_goes_on_past_an_open_decision_as_far_as_it_can() -> None:
    made = steps(
        """
extract n: int from note
x = n
y = n + a
z = a + 1
d = n / 3 to 2
r = { n: n, a: a, both: n * a }
check n > a
if a > 0 and n > 0
  return y
return z
""",
        "p(note: text, a: int) -> int",
    )
    seen, ending = drive(made, [UNKNOWN], note="x", a=2)
    assert [line(expected) for expected in seen] == [
        "1 n = ?",
        "2 x = ?",
        "3 y = _ + 2 = ?",
        "4 z = 2 + 1 = 3",
        "5 d = _ / 3 = ?",
        '6 r = {"n": ?, "a": 2, "both": _ * 2 = ?}',
        "7 check _ > 2 = ?",
        "8 if 2 > 0 and _ > 0 = ?",
    ]
    assert [expected.known for expected in seen] == [False, False, False, True, False, False, False, False]
    assert seen[5].value is UNKNOWN
    assert ending == Ending(
        EndKind.UNDETERMINED,
        path="8",
        reason="where the procedure goes on hangs on a value that is not decided",
    )


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("for x in xs at most 3\n  n = x\nreturn 1", ["2 for x in xs = ?"]),
        ('require len(xs) > 1 else deny "No."\nreturn 1', ["2 require len(xs) > 1 = ?"]),
        ("if false\n  return 1\nelif len(xs) > 1\n  return 2\nreturn 3", ["2 if false", "3 elif len(xs) > 1 = ?"]),
    ],
)  # fmt: skip
def test_an_open_branch_or_loop_gives_its_header_and_ends(body: str, lines: list[str]) -> None:
    made = steps(f"extract xs: list of int from note\n{body}", "p(note: text) -> int")
    seen, ending = drive(made, [UNKNOWN], note="x")
    assert [line(expected) for expected in seen[1:]] == lines
    assert ending is not None
    assert ending.kind is EndKind.UNDETERMINED


def test_an_open_answer_is_an_end() -> None:
    made = steps("extract n: int from note\nreturn n + 1", "p(note: text) -> int")
    seen, ending = drive(made, [UNKNOWN], note="x")
    assert line(seen[1]) == "2 return _ + 1 = ?"
    assert ending == Ending(EndKind.RETURN, UNKNOWN, path="2")


def test_a_loop_over_known_items_goes_on_past_open_values_in_it() -> None:
    made = steps(
        'n = 0\nfor x in xs at most 3\n  judge k: int from note asking "How many?"\n  n = n + k * x\nreturn n',
        "p(note: text, xs: list of int) -> int",
    )
    seen, ending = drive(made, [None, None, UNKNOWN, None, 5], note="x", xs=[2, 3])
    assert [line(expected) for expected in seen[2:]] == [
        "2[1].1 k = ?",
        "2[1].2 n = 0 + _ * 2 = ?",
        "2[2].1 k = ?",
        "2[2].2 n = _ + 5 * 3 = ?",
        "3 return ?",
    ]
    assert ending is not None
    assert ending.value is UNKNOWN


# --- values sent instead of computed ones --------------------------------------------------------


def test_goes_on_from_a_value_that_was_sent_instead() -> None:
    made = steps("x = a + 1\ny = x * 2\nreturn y")
    seen, ending = drive(made, [10, None, 7], a=1)
    assert [line(expected) for expected in seen] == [
        "1 x = 1 + 1 = 2",
        "2 y = 10 * 2 = 20",
        "3 return 20",
    ]
    assert ending == Ending(EndKind.RETURN, 7, path="3")


def test_a_branch_and_a_requirement_follow_what_was_sent() -> None:
    made = steps('if a > 0\n  x = 1\nelse\n  x = 2\nrequire a > 0 else deny "No."\nreturn x')
    seen, ending = drive(made, [False, None, False], a=1)
    assert [expected.path for expected in seen] == ["1", "2.1", "3", "3.1"]
    assert ending == Ending(EndKind.DENY, "No.", path="3.1")


@pytest.mark.parametrize("sent", ["text", True, Fraction(1, 2), (1,), {"a": 1}, UNKNOWN])
def test_a_value_of_another_kind_leaves_the_variable_open(sent: Value | Unknown) -> None:
    made = steps("x = a + 1\nreturn x * 2")
    seen, ending = drive(made, [sent], a=1)
    assert line(seen[1]) == "2 return _ * 2 = ?"
    assert ending is not None
    assert ending.value is UNKNOWN


def test_a_decision_that_may_not_stand_is_gone_on_from_all_the_same() -> None:
    made = steps("extract n: int from note where n > 5\nreturn n + 1", "p(note: text) -> int")
    _, ending = drive(made, [1], note="x")
    assert ending == Ending(EndKind.RETURN, 2, path="2")


# --- inputs --------------------------------------------------------------------------------------


def test_inputs_are_read_from_json_in_the_order_of_the_parameters() -> None:
    made = steps("return a", "p(a: int, d: decimal(2), xs: list of decimal(1)) -> int")
    raw = json.loads('{"xs": [1, 2.5], "d": 3.10, "a": 1}', parse_float=Decimal)
    accepted = made.accept(raw)
    assert accepted == {"a": 1, "d": Fraction("3.10"), "xs": (1, Fraction("2.5"))}
    assert list(accepted) == ["a", "d", "xs"]


def test_every_wrong_input_is_named_at_once() -> None:
    made = steps("return a", 'p(a: int, b: bool, c: enum("x", "y"), d: decimal(2)) -> int')
    with pytest.raises(RequestError) as caught:
        made.accept({"a": "1", "c": "z", "d": 1.999, "e": 5, "f" * 200: 1})
    assert caught.value.http_status == 400
    assert caught.value.param == "stepguard.inputs.b"
    assert caught.value.message.split("; ") == [
        "input 'b' is missing: expected true or false",
        "input 'a': expected a whole number, found '1'",
        "input 'c': expected one of \"x\", \"y\", found 'z'",
        "input 'd': expected a number with at most 2 decimals, found 1.999",
        "input 'e' is unknown, known are 'a', 'b', 'c', 'd'",
        f"input '{'f' * 60}' is unknown, known are 'a', 'b', 'c', 'd'",
    ]


@given(st.dictionaries(st.sampled_from(["a", "note", "other"]), st.none() | st.integers() | st.text()))
def test_inputs_are_accepted_whole_or_refused(raw: dict[str, object]) -> None:
    made = ACCEPTING
    try:
        accepted = made.accept(raw)
    except RequestError as error:
        assert str(error.param).startswith("stepguard.inputs.")  # noqa: PT017
    else:
        assert list(accepted) == ["a", "note"]


ACCEPTING = steps("return a", "p(a: int, note: text) -> int")

# --- the program ---------------------------------------------------------------------------------


def test_a_program_is_shared_by_executions_that_run_side_by_side() -> None:
    made = program(ORDER)
    raw = [
        {"note": "a", "floor_": 0, "lines": ({"name": "a", "qty": n},) * n, "ok": n % 2 == 0}
        for n in range(4)
    ]

    def lines_of(case: Mapping[str, Any]) -> Any:
        execution = made.execute({"note": case["note"], "floor_": case["floor_"]})
        decided = {"lines": case["lines"], "mood": "good", "ok": case["ok"]}
        expected = next(execution)
        while True:
            value = decided[expected.target or ""] if expected.decision else None
            yield line(expected, value)
            try:
                expected = execution.send(value)
            except StopIteration as stop:
                yield stop.value
                return

    apart = [list(lines_of(case)) for case in raw]
    together = list(zip(*zip_longest(*map(lines_of, raw)), strict=True))
    assert [[item for item in column if item is not None] for column in together] == apart
    assert len({ending.value for *_, ending in apart}) == 2


def test_inputs_are_left_as_they_were() -> None:
    made = steps("a2 = a\nx = a + 1\nreturn x")
    inputs = made.accept({"a": 1})
    reference(made, inputs, {})
    assert inputs == {"a": 1}


def test_misuse_is_no_fault_of_the_procedure() -> None:
    made = steps("x = a\nreturn x")
    unended = replace(made, runnable=Block(made.block.steps[:1]))
    with pytest.raises(InvalidState, match="'p' came to its last step without an end"):
        drive(unended, [], a=1)
    with pytest.raises(InvalidState, match="an example has 'x', which is no constant"):
        constant(Name("x"))


CHAIN = """
version "1.2"
procedure p(a: int) -> decimal(2)
  x = a / 3 to 2
  return x
"""


def digest(text: str) -> str:
    return program(text).digest


def test_the_digest_is_that_of_the_rules_and_not_of_their_layout() -> None:
    plain = digest(CHAIN)
    assert len(plain) == 16
    assert int(plain, 16) >= 0
    same = CHAIN.replace("x = a / 3", "x   =  (a /3)").replace("  return", "\n  # done\n  return")
    assert digest(same) == plain
    assert digest(CHAIN + "\nexample p\n  a = 3\n") == plain
    assert digest(CHAIN + "\nrecord Unused { a: int }\n") == plain


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("/ 3", "/ 4"),
        ("to 2", "to 1"),
        ("x = a", "named: x = a"),
        ('"1.2"', '"1.3"'),
        ("decimal(2)", "decimal(3)"),
        ("a: int", "a: decimal(1)"),
        ("procedure p", "numbers round down, carry shown\nprocedure p"),
        ("procedure p", "procedure q"),
    ],
)
def test_the_digest_changes_with_what_the_procedure_does(before: str, behind: str) -> None:
    assert digest(CHAIN.replace(before, behind)) != digest(CHAIN)


def test_the_digest_covers_bounds_and_tables() -> None:
    text = """
table rate(n: int) -> percent, first match
  < 5 => 1%
  any => 2%
procedure p(xs: list of int) -> decimal
  n = 0
  for x in xs at most 5
    n = n + x * rate(x)
  return n
"""
    assert digest(text) != digest(text.replace("at most 5", "at most 6"))
    assert digest(text) != digest(text.replace("2%", "3%"))
    assert digest(text) != digest(text.replace("< 5", "<= 5"))
    assert digest(text) == digest(text.replace("2%", "2.0%"))


def test_the_digest_is_stable_over_releases() -> None:
    # What audits refer to: changing how it is made changes every procedure's identity.
    made = program(CHAIN)
    canonical = (
        'version "1.2"\nnumbers round half_up, carry shown\nprocedure p(a: int) -> decimal(2)\n'
        "1 x = a / 3 to 2\n2 return x"
    )
    assert made.digest == hashlib.sha256(canonical.encode()).hexdigest()[:16]
    assert (made.name, made.version, made.result) == ("p", "1.2", made.procedure.result)


def test_the_numbered_text_shows_what_is_used_and_nothing_else() -> None:
    made = program(
        """
version "1.2"
record Used { kind: enum("a", "b"), qty: int }
record Unused { x: int }
table rate(kind: enum("a", "b"), qty: int) -> percent, first match
  "a", 1..9      => 5%
  "a" | "b", any => 12.50%
  any, <= 11     => 1%
  any, > 15      => 0%
  any, 12..15    => 0.5%
table other(n: int) -> int, first match
  any => 1

# A comment.
procedure p(note: text, country: enum("DE", "AT")) -> { net: decimal(2), who: string }
  extract used: Used from note quote
    where used.qty >= 1
  judge mood: enum("good", "bad") from note, note2 asking "How \\"is\\" it?" quote
  total_line: total = used.qty * 2.50 * (1 - rate(used.kind, used.qty)) to 2 half_even
  if mood == "good" or country in ["DE"]
    for x in [1, 2] at most 2
      total = total + x
  elif total > 100
    total = 100.00
  else
    check total >= 0
  require total > 0 else deny "Nothing\\tordered."
  return { net: total, who: "x" }
""".replace(", note2", "")
    )
    assert (
        made.numbered
        == r"""numbers round half_up, carry shown

record Used { kind: "a" or "b", qty: int }

table rate(kind: "a" or "b", qty: int) -> percent, first match
  "a", 1..9      => 5%
  "a" | "b", any => 12.5%
  any, <= 11     => 1%
  any, > 15      => 0%
  any, 12..15    => 0.5%

procedure p(note: text, country: "DE" or "AT") -> { net: decimal(2), who: string }
1 used: Used from note, where used.qty >= 1, quoted
2 mood: "good" or "bad" from note, quoted: "How \"is\" it?"
3 total = used.qty * 2.50 * (1 - rate(used.kind, used.qty)) to 2 half_even
4 if mood == "good" or country in ["DE"]
  4.1 for x in [1, 2]
    4.1.1 total = total + x
5 elif total > 100
  5.1 total = 100.00
6 else
  6.1 check total >= 0
7 require total > 0
  7.1 else deny "Nothing\tordered."
8 return { net: total, who: "x" }"""
    )


def test_number_rules_are_shown_only_where_something_is_rounded() -> None:
    assert "numbers" not in steps("return a").numbered
    assert "numbers round half_up" in steps("x = a to 2\nreturn a").numbered
    exact = steps("return a", before="numbers round down, carry exact\n").numbered
    assert exact.startswith("numbers round down, carry exact\n\n")


# --- cells ---------------------------------------------------------------------------------------


def test_values_are_assembled_from_cells() -> None:
    assert assemble([((), 5)]) == 5
    assert assemble([((), {"a": 1})]) == {"a": 1}
    assert assemble([(("a", "x"), 1), (("b",), (1, 2)), (("c", 0), "s"), (("c", 1), "t")]) == {
        "a": {"x": 1},
        "b": (1, 2),
        "c": ("s", "t"),
    }
    assert assemble([((0, "a"), 1), ((1, "a"), 2)]) == ({"a": 1}, {"a": 2})
    assert assemble([(("a",), 1), (("b",), UNKNOWN)]) is UNKNOWN


def test_a_copy_of_a_list_is_one_cell() -> None:
    made = steps("ys = xs\nreturn len(ys)", "p(xs: list of int) -> int")
    first = drive(made, [], xs=[1, 2])[0][0]
    assert first.cells == (Cell((), "", None, (1, 2), "[1, 2]", ListType(IntType())),)

"""Executions: every construct's line, faults, what hangs on the open, and values that are sent."""

import importlib.resources
from datetime import date
from fractions import Fraction

import pytest

from guard.procedure.compile import head
from guard.procedure.execute import reference
from guard.procedure.expected import UNKNOWN, Cell, Ending, EndKind, Unknown, assemble
from guard.procedure.listing import walk
from guard.procedure.model import AnyOrder, If, StepKind
from guard.procedure.types import IntType, ListType, Value
from tests.procedure.executions import drive, line, program, run, steps

INVOICE = importlib.resources.files("guard.examples").joinpath("invoice/invoice.proc").read_text()


# --- lines ---------------------------------------------------------------------------------------


def test_the_invoice_is_carried_out_line_by_line() -> None:
    made = program(INVOICE)
    assert made.example_inputs is not None
    assert made.example_decisions is not None
    taken, ending = reference(made, made.example_inputs, made.example_decisions)
    assert [line(expected, value) for expected, value in taken] == [
        '1 lines = [{"name": "hinges", "qty": 12, "unit_price": 3.35}, {"name": "oak panels", "qty": 4, "unit_price": 61.20}]',
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
    assert ending == Ending(
        EndKind.FAILED,
        path="2[200].1[299].1",
        reason="there are more than 100,000 steps (limit `steps`)",
        limited=True,
    )


def test_a_check_that_is_computed_false_has_no_line_but_one_that_is_sent_false_goes_on() -> None:
    made = steps("check a > 0\nreturn a")
    seen, ending = drive(made, [False], a=1)
    assert [expected.path for expected in seen] == ["1", "2"]
    assert ending is not None
    assert ending.kind is EndKind.RETURN


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

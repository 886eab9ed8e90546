"""Judging procedures: types by what is put into names, ways through the steps, tables and examples.

What is reported of which text, word by word, stands in `tests/cases/author_errors.yaml`; here is what must
not be reported, what types come out, and what is said of which part where texts are made up.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.errors import Problem, ProcedureError
from guard.procedure.build import build
from guard.procedure.doubt import CERTAIN, Doubt
from guard.procedure.faults import Faults
from guard.procedure.load import load, parse
from guard.procedure.syntax import read
from guard.procedure.types import (
    BoolType,
    DecimalType,
    EnumType,
    IntType,
    ListType,
    PercentType,
    StringType,
    Type,
)
from guard.procedure.validate import validate
from guard.source import Source
from tests.strategies import Sample, samples

DECLARED = """record Line { name: string, qty: int, price: decimal(2) }
enum Kind: "a" | "b"
table bulk(qty: int) -> percent, first match
  1..9 => 0%
  >= 10 => 5%
"""
HEAD = "procedure p(a: int, c: decimal(2), q: percent, k: Kind, ok: bool, lines: list of Line, note: text) -> int\n"


def judged(
    *lines: str, head: str = DECLARED + HEAD, end: str = "return 1"
) -> tuple[list[Problem], dict[str, Type]]:
    text = head + "".join(f"  {line}\n" for line in [*lines, end])
    source = Source("test.proc", text)
    module, problems = parse(source)
    assert module is not None, "\n".join(map(str, problems))
    found, types = validate(source, module)
    return found, types["p"]


def errors(*lines: str, head: str = DECLARED + HEAD, end: str = "return 1") -> list[str]:
    found, _ = judged(*lines, head=head, end=end)
    return [f"{problem.message}" for problem in found if problem.severity == "error"]


def warnings(*lines: str, head: str = DECLARED + HEAD, end: str = "return 1") -> list[str]:
    found, _ = judged(*lines, head=head, end=end)
    return [problem.message for problem in found if problem.severity == "warning"]


# --- types ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "type_"),
    [
        (["x = a"], IntType()),
        (["x = c"], DecimalType(2)),
        (["x = a", "x = c"], DecimalType(2)),
        (["x = 0.5", "x = 0.125"], DecimalType(3)),
        (["x = c * c"], DecimalType(4)),
        (["x = c * q"], DecimalType(None)),
        (["x = c * q to 2"], DecimalType(2)),
        (["x = a / 3 to 0"], IntType()),
        (["x = q"], PercentType()),
        (["x = q", "x = a"], DecimalType(None)),
        (["x = a > 1 and ok"], BoolType()),
        (['x = "u"', 'x = "v"'], EnumType(("u", "v"))),
        (["extract y: string from note", 'x = "u"', "x = y"], StringType()),
        (["x = [a, 2]", "x = [c]"], ListType(DecimalType(2))),
        (["extract x: list of int from note"], ListType(IntType())),
        (["x = 0", "for l in lines at most 9", "  x = x + l.price"], DecimalType(2)),
        (["x = 1", "for l in lines at most 9", "  x = x * 1.5"], DecimalType(None)),
        (["x = 0", "y = 0", "for l in lines at most 9", "  x = y", "  y = l.price"], DecimalType(2)),
        (["if ok", "  x = 1", "else", "  x = 2.25"], DecimalType(2)),
    ],
    ids=lambda value: "; ".join(value) if isinstance(value, list) else "",
)
def test_a_name_has_one_type_that_takes_all_that_is_put_into_it(lines: list[str], type_: Type) -> None:
    found, types = judged(*lines)
    assert types["x"] == type_
    assert [problem for problem in found if problem.severity == "error"] == []


def test_the_items_of_a_loop_have_the_type_of_the_list() -> None:
    _, types = judged("for l in lines at most 9", "  x = l.qty", "for n in [1, 2.5] at most 2", "  y = n")
    assert types["l"] == ListType(types["l"]).item
    assert (types["x"], types["n"]) == (IntType(), DecimalType(1))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["x = 1", 'x = "u"'], "'x' is int since line 7 and \"u\" here"),
        (["x = 1", "extract x: bool from note"], "'x' is int since line 7 and bool here"),
        (
            ["for l in lines at most 2", "  x = l.qty", "for l in [1] at most 2", "  y = 1"],
            "'l' is Line since line 7 and int here",
        ),
    ],
)
def test_a_name_that_is_given_values_of_two_kinds_is_reported(lines: list[str], message: str) -> None:
    assert errors(*lines) == [message]


# --- ways through the steps -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "end"),
    [
        (["if ok", "  x = 1", "else", "  x = 2"], "return x"),
        (["if ok", "  return 2", "else", "  x = 2"], "return x"),
        (["if ok", '  deny "No."', "x = 2"], "return x"),
        (["if ok", "  return 1", "elif a > 1", "  return 2"], "return 3"),
        (["require ok else return a"], "return 2"),
        (["x = 0", "for l in lines at most 3", "  x = x + l.qty"], "return x"),
        (["for l in lines at most 3", "  if l.qty > 3", "    return l.qty"], "return 1"),
        (["for l in lines at most 3", "  x = l.qty", "for l in lines at most 2", "  y = l.qty"], "return 1"),
        (["x = sum(l.qty for l in lines)", "y = max(l.qty for l in lines)"], "return x + y"),
        (["if ok", "  return 1"], "return 2"),
        (
            ["if ok", "  if a > 1", "    return 1", "  else", "    return 2", "else", '  deny "No."'],
            "else_free",
        ),
    ],
)
def test_ways_that_are_all_right_are_not_reported(lines: list[str], end: str) -> None:
    if end == "else_free":
        *lines, end = [*lines[:-1], lines[-1]]
    assert errors(*lines, end=end) == []


@pytest.mark.parametrize(
    ("lines", "end", "message"),
    [
        (["if ok", "  x = 1"], "return x", "'x' may have no value here: line 8 is not always carried out"),
        (
            ["if ok", "  x = 1", "elif a > 1", "  x = 2"],
            "return x",
            "'x' may have no value here: line 10 is not always carried out",
        ),
        (
            ["for l in lines at most 3", "  y = x", "  x = l.qty"],
            "return 1",
            "'x' has no value yet; it is given one in line 9",
        ),
        (["x = x + 1"], "return 1", "'x' has no value yet; it is given one in line 7"),
        (
            ["extract n: int from note where n > m", "m = 1"],
            "return 1",
            "'m' has no value yet; it is given one in line 8",
        ),
        (
            ["for l in lines at most 3", "  x = 1"],
            "return l.qty",
            "'l' has a value only in the loop of line 7",
        ),
        (["if ok", "  return 1", "  x = 2"], "return 3", "this step is never reached"),
        (["while_1 = 1", "return while_1"], "return 2", "this step is never reached"),
        (["if ok", "  return 1", "else", "  return 2"], "return 3", "this step is never reached"),
        (
            ["for l in lines at most 3", "  return l.qty"],
            "x = 1",
            "the procedure has no end: behind this step nothing follows",
        ),
        (
            ["if ok", "  return 1", "elif a > 1", "  x = 1", "else"],
            "  return 2",
            "the procedure has no end where this elif is carried out",
        ),
    ],
)
def test_ways_that_go_wrong_are_reported_once(lines: list[str], end: str, message: str) -> None:
    assert errors(*lines, end=end) == [message]


def test_what_nothing_uses_is_a_warning_unless_its_name_says_so() -> None:
    head = "procedure p(a: int, _b: int, c: int) -> int\n"
    assert warnings("x = a", "_y = x", "x = 2", head=head) == ["the input 'c' is never used"]
    assert warnings("z = a + c", head=head) == ["the value 'z' is never used"]


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "x = a / 3",
        "x = 1 + a / 3",
        "x = -(a / 3)",
        "x = min(a / 3, 2)",
        "x = sum(l.price / 3 for l in lines)",
        "x = if ok then a / 3 else 1",
        "x = [a / 3]",
        "x = { y: a / 3 }",
    ],
)
def test_a_quotient_is_not_carried_on_unrounded(line: str) -> None:
    assert errors(line) == ["the result of / is not rounded, it may have decimals without end"]


@pytest.mark.parametrize(
    "line",
    [
        "x = a / 3 to 2",
        "x = floor(a / 3)",
        "x = round(a / 3, 2)",
        "x = a / 3 > 1",
        "x = a / 3 div 2",
        "x = bulk(floor(a / 3))",
        "x = count(l for l in lines if l.price / 3 > 1)",
        "check a / 3 < c",
    ],
)
def test_a_quotient_that_is_rounded_or_only_compared_is_all_right(line: str) -> None:
    assert errors(line) == []


def test_where_exact_numbers_are_carried_a_quotient_need_not_be_rounded() -> None:
    assert errors("x = a / 3", head="numbers carry exact\n" + DECLARED + HEAD) == []


@pytest.mark.parametrize(
    ("expression", "warned"),
    [
        ("100 + 5%", True),
        ("c - q", True),
        ("c * 2 + 5%", True),
        ("1 - 5%", False),
        ("1 + q", False),
        ("q + 5%", False),
        ("c * (1 - bulk(a))", False),
        ("c + c * 5%", False),
    ],
)
def test_adding_a_percent_to_a_number_is_a_warning(expression: str, warned: bool) -> None:
    found = [message for message in warnings(f"x = {expression} to 2") if "stands for" in message]
    assert bool(found) is warned


@pytest.mark.parametrize(
    ("expression", "warned"),
    [
        ("count(x > 3 for x in [1, 5])", True),
        ("1 + count(ok for l in lines)", True),
        ("count(l.qty > 2 for l in lines)", True),
        ("count(l for l in lines if l.qty > 2)", False),
        ("count(ok for l in lines if l.qty > 2)", False),
        ("count(l.qty for l in lines)", False),
        ("if all(l.qty > 2 for l in lines) then 1 else 2", False),
    ],
)
def test_counting_conditions_is_a_warning(expression: str, warned: bool) -> None:
    found = [message for message in warnings(f"x = {expression}") if "counts every item" in message]
    assert bool(found) is warned


# --- results --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "expression"),
    [
        ("int", "a"),
        ("decimal(2)", "a"),
        ("decimal(2)", "c"),
        ("decimal(3)", "c"),
        ("decimal", "c * q"),
        ("percent", "q"),
        ("percent", "5%"),
        ("string", "k"),
        ("string", '"z"'),
        ("Kind", "k"),
        ("Kind", '"a"'),
        ("Kind", 'if ok then "a" else k'),
        ("Line", '{ qty: a, name: "n", price: a }'),
        ("{ a: int, l: list of Line }", "{ a: a, l: lines }"),
        ("list of decimal(2)", "[a, c]"),
        ("list of int", "[]"),
        ("bool", "a > 1"),
    ],
)
def test_results_that_fit_are_taken(result: str, expression: str) -> None:
    head = DECLARED + HEAD.replace("-> int", f"-> {result}")
    assert errors(head=head, end=f"return {expression}") == []


@pytest.mark.parametrize(
    ("result", "expression", "message"),
    [
        ("int", "c", "the result is int, 'c' is decimal(2)"),
        ("decimal(2)", "c * c", "the result is decimal(2), 'c * c' may have more decimals"),
        ("decimal(2)", "q", "the result is decimal(2), 'q' may have more decimals"),
        ("Kind", '"c"', 'the result is "a" or "b", found "c"'),
        ("Kind", 'if ok then "a" else "c"', 'the result is "a" or "b", found "c"'),
        ("bool", "a", "the result is bool, 'a' is int"),
        ("string", "note", "the result is string, 'note' is text"),
        ("Line", '{ qty: a, name: "n" }', "the result lacks 'price'"),
        ("Line", '{ qty: c, name: "n", price: c }', "the result is int, 'c' is decimal(2)"),
        ("list of int", "[a, c]", "the result is int, 'c' is decimal(2)"),
    ],
)
def test_results_that_do_not_fit_are_reported_at_the_part_that_does_not(
    result: str, expression: str, message: str
) -> None:
    head = DECLARED + HEAD.replace("-> int", f"-> {result}")
    assert errors(head=head, end=f"return {expression}") == [message]


# --- tables ---------------------------------------------------------------------------------------


def table_warnings(parameter: str, *rows: str, result: str = "int") -> list[str]:
    head = f'enum Kind: "a" | "b"\ntable t(x: {parameter}) -> {result}, first match\n'
    head += "".join(f"  {row}\n" for row in rows)
    found = judged(head=head + "procedure p(a: int) -> int\n", end="return a")[0]
    return [problem.message for problem in found]


@pytest.mark.parametrize(
    ("parameter", "rows", "gap"),
    [
        ("int", ["1..9 => 1", "10..49 => 2", ">= 50 => 3"], ""),
        ("int", ["1..9 => 1", "11..49 => 2"], "x = 10"),
        ("int", ["< 10 => 1", "> 10 => 2"], "x = 10"),
        ("int", ["< 10 => 1", "> 9 => 2"], ""),
        ("int", ["5 => 1", "7 => 2", "any => 3"], ""),
        ("int", ["3..9 => 1", "1..5 => 2", "9 | 10 => 3"], ""),
        ("decimal", ["1..9 => 1", "10..49 => 2"], "x = 9<..<10"),
        ("decimal", ["< 10 => 1", ">= 10 => 2"], ""),
        ("decimal", ["< 10 => 1", "> 10 => 2"], "x = 10"),
        ("bool", ["true => 1", "false => 2"], ""),
        ("bool", ["true => 1"], "x = false"),
        ("Kind", ['"a" | "b" => 1'], ""),
        ("Kind", ['"a" => 1'], 'x = "b"'),
        ("Kind", ['"a" => 1', "any => 2"], ""),
    ],
    ids=lambda value: "; ".join(value) if isinstance(value, list) else None,
)
def test_gaps_between_rows_are_a_warning(parameter: str, rows: list[str], gap: str) -> None:
    assert table_warnings(parameter, *rows) == ([f"no row of table 't' is for {gap}"] if gap else [])


@pytest.mark.parametrize(
    ("parameter", "rows", "unreached"),
    [
        ("int", ["any => 1", "1 => 2"], True),
        ("int", ["1..9 => 1", "2..3 => 2", "any => 3"], True),
        ("int", ["1..9 => 1", "2 | 3 => 2", "any => 3"], True),
        ("int", ["1..9 => 1", "2 | 13 => 2", "any => 3"], False),
        ("int", ["> 3 => 1", ">= 3 => 2", "any => 3"], False),
        ("int", [">= 3 => 1", "> 3 => 2", "any => 3"], True),
        ("int", ["1..9 => 1", "any => 3"], False),
        ("Kind", ['"a" => 1', '"a" => 2', "any => 3"], True),
    ],
    ids=lambda value: "; ".join(value) if isinstance(value, list) else None,
)
def test_rows_that_are_never_chosen_are_a_warning(parameter: str, rows: list[str], unreached: bool) -> None:
    assert any("never chosen" in message for message in table_warnings(parameter, *rows)) is unreached


# --- doubt ----------------------------------------------------------------------------------------


def doubted(text: str) -> list[str]:
    """What is said of a text whose faulty lines were replaced, the faults themselves left out."""
    source = Source("test.proc", text)
    reading = read(source)
    assert reading.problems
    assert reading.tree is not None
    faults = Faults(source)
    module = build(reading.tree, faults)
    assert module is not None
    found, _ = validate(source, module, Doubt(tuple(reading.mended), reading.doubtful))
    return [problem.message for problem in [*faults.problems, *found] if problem.severity == "error"]


@pytest.mark.parametrize(
    "line",
    [
        "x = a +",
        "extract x int from note",
        "for x in lines max 3",
        "return x +",
        "x = a + (",
        "if x",
        "x y z",
        "x: = 3",
    ],
)
def test_what_depends_on_a_faulty_line_is_not_blamed(line: str) -> None:
    assert doubted(DECLARED + HEAD + f"  {line}\n  y = x + 1\n  return y\n") == []


def test_other_lines_are_judged_beside_a_faulty_one() -> None:
    text = DECLARED + HEAD + "  x = a +\n  y = zz + x\n  check c\n  return y\n"
    assert doubted(text) == [
        "unknown name 'zz'",
        "a condition stands behind check, 'c' is decimal(2)",
    ]


def test_other_procedures_are_judged_in_full_beside_a_faulty_one() -> None:
    text = "procedure p(a: int) -> int\n  x = a +\n  return x\n\nprocedure q(b: int) -> int\n  y = b\n"
    assert doubted(text) == ["the procedure has no end: behind this step nothing follows"]


@given(samples())
@settings(max_examples=25)
def test_procedures_that_can_be_carried_out_are_valid_and_their_names_have_types(sample: Sample) -> None:
    source = Source("f", sample.text)
    module, problems = parse(source)
    assert module is not None
    assert problems == []
    found, types = validate(source, module, CERTAIN)
    assert [problem for problem in found if problem.severity == "error"] == []
    assert types[sample.program.name] == dict(sample.program.types)


@given(samples(), st.data())
@settings(max_examples=25)
def test_a_name_that_is_misspelt_is_reported_where_it_stands(sample: Sample, data: st.DataObject) -> None:
    lines = sample.text.splitlines()
    used = [
        i for i, line in enumerate(lines) if " = " in line and line.startswith("  ") and "decide" not in line
    ]
    index = data.draw(st.sampled_from(used or [0]))
    head, _, expression = lines[index].partition(" = ")
    if not used or expression[:1] in "{[" or head.strip() in ("note", "a", "b", "c", "xs"):
        return
    lines[index] = f"{head} = zzz"
    source = Source("f", "\n".join(lines) + "\n")
    module, _ = parse(source)
    if module is not None:
        found, _ = validate(source, module)
        assert any("unknown name 'zzz'" in problem.message and problem.line == index + 1 for problem in found)


# --- all at once ------------------------------------------------------------------------------------------

EVERYTHING = (Path(__file__).parent.parent / "cases/all_at_once.proc").read_text()
FOUND = """\
6:3 this row takes values that the one in line 5 takes, too: only one row may
9:33 a quote is taken from a text, 'amount' is decimal(2)
10:11 the result of / is not rounded, it may have decimals without end
11:11 unknown name 'amuont'
12:11 '+' needs a number, 'note' is text
13:7 'count' is an input and keeps its value
17:5 this step is never reached
19:3 the procedure has no end: behind this step nothing follows
19:17 'late' may have no value here: line 14 is not always carried out
23:9 nothing in this loop changes what its condition says, so it never ends
25:18 a loop says how often it runs at most
30:3 the procedure has no end where none of these conditions holds
37:10 '+' needs one unit on both sides, found kg and EUR
1:7 no row of table 'rate' is for n = 10..11
8:61 the input 'spare' is never used
9:11 the value 'paid' is never used
12:3 the value 'mixed' is never used
18:3 the value 'unused' is never used
24:5 the value 'm' is never used
""".splitlines()


def refused(text: str) -> ProcedureError:
    with pytest.raises(ProcedureError) as caught:
        load(text, "all.proc")
    return caught.value


def test_a_file_with_everything_wrong_is_told_all_of_it_at_once() -> None:
    error = refused(EVERYTHING)
    problems = [*error.problems, *error.warnings]
    assert [f"{one.line}:{one.column} {one.message}" for one in problems] == FOUND
    assert [one.severity for one in problems] == ["error"] * 13 + ["warning"] * 6


def test_each_problem_has_its_line_a_caret_and_what_to_write_instead() -> None:
    error = refused(EVERYTHING)
    for problem in [*error.problems, *error.warnings]:
        line, marks = problem.snippet.splitlines()
        shown = EVERYTHING.splitlines()[problem.line - 1]
        assert line == f"  {problem.line} | {shown}"
        assert marks.index("^") == line.index(" | ") + 3 + problem.column - 1
        assert problem.help

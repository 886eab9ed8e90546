"""Reading procedures: what a text means, and that whatever is wrong with one is said, all of it, at its place."""

from __future__ import annotations

import re
import sys
from dataclasses import fields, is_dataclass
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Lark
from lark.indenter import Indenter

from guard.config.folder import Folder
from guard.errors import Problem, ProcedureError
from guard.procedure.layout import Layout
from guard.procedure.listing import walk
from guard.procedure.load import load, parse
from guard.procedure.model import AnyCell, Assign, If, Module, Numbers, RangeCell, Require, ValuesCell
from guard.procedure.nodes import Expr, Literal, Name
from guard.procedure.stumble import RESERVED
from guard.procedure.syntax import grammar, read
from guard.procedure.types import (
    BoolType,
    DecimalType,
    EnumType,
    FieldType,
    IntType,
    ListType,
    PercentType,
    RecordType,
    Rounding,
    StringType,
    TextType,
)
from guard.source import Source
from tests.strategies import Sample, samples

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "examples").glob("*/*.proc"))
CASES = yaml.safe_load((ROOT / "tests/cases/author_errors.yaml").read_text(encoding="utf-8"))
LANGUAGE = (ROOT / "grammars/README.md").read_text(encoding="utf-8")
INVOICE = (ROOT / "examples/invoice/invoice.proc").read_text(encoding="utf-8")


def problems_of(text: str) -> list[Problem]:
    try:
        return list(load(text).warnings)
    except ProcedureError as error:
        return list(error.problems)


def module_of(text: str) -> Module:
    module, problems = parse(Source("test.proc", text))
    assert module is not None, "\n".join(map(str, problems))
    return module


def body(*lines: str, head: str = "procedure p(a: int, b: int, note: text) -> int") -> str:
    return "\n".join([head, *(f"  {line}" for line in lines), ""])


def expression(text: str) -> Expr:
    step = module_of(body(f"x = {text}", "return 1")).procedures["p"].body[0]
    assert isinstance(step, Assign)
    return step.expression


# --- what a text means ----------------------------------------------------------------------------


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_procedures_load_without_a_word(path: Path) -> None:
    library = load(path.read_text(encoding="utf-8"), str(path), files=Folder(path.parent))
    assert library.module.origins
    assert library.warnings == ()


def test_the_grammar_has_no_conflicts_in_strict_mode_and_serves_larks_own_indenter() -> None:
    class Plain(Indenter):
        NL_type = Layout.NL_type
        OPEN_PAREN_types = Layout.OPEN_PAREN_types
        CLOSE_PAREN_types = Layout.CLOSE_PAREN_types
        INDENT_type = Layout.INDENT_type
        DEDENT_type = Layout.DEDENT_type
        tab_len = Layout.tab_len

    text = files("guard.grammars").joinpath("procedure.lark").read_text(encoding="utf-8")
    strict = Lark(text, parser="lalr", lexer="basic", strict=True, postlex=Plain(), maybe_placeholders=True)
    for path in SHIPPED:
        source = path.read_text(encoding="utf-8")
        assert strict.parse(source + "\n") == read(Source("f", source)).tree


def test_statements_are_numbered_in_the_order_of_the_text_and_arms_take_numbers_of_their_own() -> None:
    module = module_of(
        body(
            "x = a",
            "if a > 1",
            "  y = 1",
            "  for i in [1] at most 2",
            "    z = i",
            "elif a > 2",
            "  y = 2",
            "else",
            "  y = 3",
            'require x > 0 else deny "No."',
            "return x",
        )
    )
    numbers = [
        branch.number
        for step in walk(module.procedures["p"].body)
        if isinstance(step, If)
        for branch in step.branches
    ]
    others = [step.number for step in walk(module.procedures["p"].body) if not isinstance(step, If)]
    assert numbers == ["2", "3", "4"]
    assert others == ["1", "2.1", "2.2", "2.2.1", "3.1", "4.1", "5", "5.1", "6"]


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("0.00", Literal(Fraction(0), DecimalType(2))),
        ("12", Literal(12, IntType())),
        ("-5", Literal(-5, IntType())),
        ("12.5%", Literal(Fraction(1, 8), PercentType())),
        ("-5%", Literal(Fraction(-1, 20), PercentType())),
        ("true", Literal(True, BoolType())),
        (r'"a\u00e9\n\"\\"', Literal('a\u00e9\n"\\', StringType())),
        ('"e\u0301"', Literal("\u00e9", StringType())),
        ('"# no comment"', Literal("# no comment", StringType())),
        ("9" * 40, Literal(int("9" * 40), IntType())),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_constants_are_exact_and_keep_how_they_were_written(text: str, literal: Literal) -> None:
    found = expression(text)
    assert found == literal
    assert isinstance(found, Literal)
    assert found.value is literal.value or type(found.value) is type(literal.value)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a + b * 2", "a + (b * 2)"),
        ("a - b - 2", "(a - b) - 2"),
        ("a * b div 2 mod 3", "((a * b) div 2) mod 3"),
        ("-a * b", "(-a) * b"),
        ("not a == b and a < b or a > b", "((not (a == b)) and (a < b)) or (a > b)"),
        ("if a > b then 1 else if b > a then 2 else 3", "if (a > b) then 1 else (if (b > a) then 2 else 3)"),
        ("a not in [1, 2] or b in [3]", "(a not in [1, 2]) or (b in [3])"),
        ("min(a, b,)", "min(a, b)"),
        ("sum(x for x in [a, b] if x > 1 and x < 9)", "sum(x for x in ([a, b]) if ((x > 1) and (x < 9)))"),
        ("[\n    a,\n    b,\n  ]", "[a, b]"),
    ],
)
def test_operators_bind_as_people_expect(text: str, same: str) -> None:
    assert expression(text) == expression(same)


def test_types_are_resolved_wherever_they_are_declared() -> None:
    module = module_of(
        "procedure p(xs: list of Line, k: Kind, t: text, q: percent, r: { a: decimal }) -> bool\n"
        "  return true\n"
        'record Line { kind: Kind, price: decimal(2), more: enum("x", "y") }\n'
        'enum Kind: "a" | "b"\n'
    )
    kind = EnumType(("a", "b"))
    line = RecordType(
        (FieldType("kind", kind), FieldType("price", DecimalType(2)), FieldType("more", EnumType(("x", "y"))))
    )
    assert [parameter.type for parameter in module.procedures["p"].parameters] == [
        ListType(line),
        kind,
        TextType(),
        PercentType(),
        RecordType((FieldType("a", DecimalType()),)),
    ]
    assert module.records["Line"].name == "Line"
    assert module.enums == {"Kind": kind}


def test_number_rules_and_version_belong_to_the_file() -> None:
    module = module_of('version "1.2"\nnumbers round half_even, carry exact\n' + body("return a"))
    assert (module.version, module.numbers) == ("1.2", Numbers(Rounding.HALF_EVEN, carry_exact=True))
    assert module_of(body("return a")).numbers == Numbers(Rounding.HALF_UP, carry_exact=False)


def test_cells_say_which_ends_of_a_range_belong_to_it() -> None:
    rows = ["1..9", ">= 50", "> 2.5", "<= 3", "< -4", '"a" | "b"', "any", "true"]
    module = module_of(
        "table t(x: int) -> int, first match\n"
        + "".join(f"  {row} => 1\n" for row in rows)
        + body("return a")
    )

    def number(value: int) -> Literal:
        return Literal(value, IntType())

    assert [row.cells[0] for row in module.tables["t"].rows] == [
        RangeCell(number(1), number(9)),
        RangeCell(number(50), None),
        RangeCell(Literal(Fraction(5, 2), DecimalType(1)), None, low_included=False),
        RangeCell(None, number(3)),
        RangeCell(None, number(-4), high_included=False),
        ValuesCell((Literal("a", StringType()), Literal("b", StringType()))),
        AnyCell(),
        ValuesCell((Literal(True, BoolType()),)),
    ]


def test_clauses_may_stand_on_lines_of_their_own() -> None:
    one = module_of(body('judge x: bool from note asking "?" where x quote', "return 1"))
    more = module_of(body("judge x: bool from note", '    asking "?"', "    where x quote", "return 1"))
    assert one == more


def test_words_that_mean_something_in_one_place_are_names_elsewhere() -> None:
    words = [
        "version",
        "numbers",
        "record",
        "enum",
        "table",
        "procedure",
        "example",
        "decide",
        "list",
        "of",
        "from",
        "where",
        "quote",
        "asking",
        "to",
        "at",
        "most",
    ]
    for word in words:
        text = f"procedure p({word}: int, note: text) -> int\n  extract x: int from note where x > {word}\n"
        text += f"  {word}_2 = {word} + x to 0\n  step: y = {word}_2\n  return y\n"
        assert problems_of(text) == [], word


def test_reserved_words_are_those_of_the_reference_and_none_can_be_a_name() -> None:
    listed = re.search(r"Reserved words: (.*?) Other", LANGUAGE, re.DOTALL)
    assert listed is not None
    words = {
        word for group in re.findall(r"`([a-z ]+)`", listed[1].replace("\n", " ")) for word in group.split()
    }
    assert words == {word.lower() for word in RESERVED}
    for word in words:
        (problem,) = problems_of(f"procedure p({word}: int) -> int\n  return 1\n")[:1]
        assert problem.message.startswith(f"{word!r} is a reserved word and cannot"), problem


def test_names_of_steps_are_kept() -> None:
    module = module_of(
        body("net_line: x = a", "big: if a > 1", "  y = 1", 'ok: require x > 1 else deny "No."', "return x")
    )
    steps = module.procedures["p"].body
    assert isinstance(steps[0], Assign)
    assert isinstance(steps[1], If)
    assert isinstance(steps[2], Require)
    assert (steps[0].label, steps[1].branches[0].label, steps[2].label) == ("net_line", "big", "ok")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.rstrip("\n"),
        lambda text: "\ufeff" + text,
        lambda text: "\n\n# first\n   # second\n" + text,
        lambda text: text.replace("\n", "   # comment\n"),
        lambda text: text.replace("\n", "\n\n        # comment\n\n"),
        lambda text: re.sub(r"^( +)", r"\1\1\1", text, flags=re.MULTILINE),
        lambda text: re.sub(r"^ +", lambda blanks: "\t" * (len(blanks[0]) // 2), text, flags=re.MULTILINE),
        lambda text: text.replace(" = ", "   =  ").replace("(", "( ").replace(" * ", "  *   "),
    ],
    ids=[
        "CR LF",
        "no last line end",
        "byte order mark",
        "comments before",
        "comments behind",
        "between",
        "wide",
        "tabs",
        "blanks",
    ],
)
def test_white_space_and_comments_mean_nothing(change: Any) -> None:
    assert module_of(change(INVOICE)) == module_of(INVOICE)
    assert load(change(INVOICE)).procedures["invoice"].digest == load(INVOICE).procedures["invoice"].digest


def nodes(part: object) -> list[Any]:
    found = [part] if hasattr(part, "at") else []
    if isinstance(part, tuple | list):
        return found + [node for item in part for node in nodes(item)]
    if is_dataclass(part) and not isinstance(part, type):
        return found + [node for field in fields(part) for node in nodes(getattr(part, field.name))]
    return found


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_everything_knows_its_place(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    module = load(text, str(path), files=Folder(path.parent)).module
    for procedure in module.own_procedures.values():
        found = nodes(procedure)
        for node in found:
            here = text[node.at.start : node.at.end]
            assert here
            if isinstance(node, Name):
                assert here == node.name
            if isinstance(node, Assign):
                assert here.startswith(f"{node.target} =")
        assert len(found) > 10


# --- what an author is told -----------------------------------------------------------------------


def told(problem: Problem) -> str:
    warning = "warning: " if problem.severity == "warning" else ""
    return f"{problem.line}:{problem.column} {warning}{problem.message} | {problem.help}"


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: (case["problems"] or ["nothing"])[0].partition(" | ")[0]
)
def test_authors_are_told_all_that_is_wrong(case: dict[str, Any]) -> None:
    assert [told(problem) for problem in problems_of(case["text"])] == case["problems"]


def test_every_message_says_what_to_write_instead() -> None:
    silent = [problem for case in CASES for problem in case["problems"] if problem.endswith("| ")]
    assert silent == []


def test_messages_are_lower_case_and_without_a_full_stop() -> None:
    for case in CASES:
        for problem in case["problems"]:
            message, _, _help = problem.partition(" ")[2].partition(" | ")
            assert not re.match(r"[A-Z]", message), message
            assert not message.endswith("."), message


def test_a_problem_shows_its_line_and_a_caret() -> None:
    with pytest.raises(ProcedureError) as caught:
        load(body("x = a + 5 +", "return x"), "my.proc")
    assert str(caught.value) == (
        "my.proc:2:14: error: a value should follow '+', but the line ends\n"
        "  2 |   x = a + 5 +\n"
        "    |              ^\n"
        "  help: finish it here, or put it in brackets to go on in the next line"
    )


def test_warnings_wait_until_the_errors_are_mended() -> None:
    assert [problem.severity for problem in problems_of(body("x = 1", "return a + bb"))] == ["error"]
    assert {problem.severity for problem in problems_of(body("x = 1", "return a"))} == {"warning"}


# Of dates, lists and what may be null a `* 2` is a second fault.
NO_NUMBER = re.compile(r"\b(?:day|at|xs|[tmxlo][0-9]+)\b|[0-9]-[0-9]|\[|null")
BREAKERS = st.sampled_from([" +", " = 3", " )", " ;", " 'x", " \u00d7 2", ' "open', " ? 1"])


@given(samples(), st.data())
@settings(max_examples=30)
def test_every_broken_line_is_reported_and_no_other(sample: Sample, data: st.DataObject) -> None:
    lines = sample.text.splitlines()
    numeric = [i for i, line in enumerate(lines) if not NO_NUMBER.search(line)]
    simple = [i for i in numeric if re.match(r" +\w+ = ", lines[i]) and "{" not in lines[i]]
    broken = (
        data.draw(st.lists(st.sampled_from(simple), min_size=1, max_size=4, unique=True)) if simple else []
    )
    for index in broken:
        lines[index] += data.draw(BREAKERS)
    found = [problem for problem in problems_of("\n".join(lines) + "\n") if problem.severity == "error"]
    assert {problem.line - 1 for problem in found} == set(broken)
    assert len(found) == len(broken)


WORDS = sorted(
    set(re.findall(r"\w+|[^\w\s]|\n *", INVOICE))
    | set("\t\u00a0\u201c'\\#%@(){}[]")
    | {"\r\n", "  ", "1" * 50}
)


@given(st.sampled_from(SHIPPED), st.data())
@settings(max_examples=80)
def test_no_text_makes_loading_fail_otherwise_than_with_its_problems(path: Path, data: st.DataObject) -> None:
    parts = re.findall(r"\w+|[^\w\s]|\n *|[ \t]+", path.read_text(encoding="utf-8"))
    for _ in range(data.draw(st.integers(1, 6))):
        index = data.draw(st.integers(0, len(parts) - 1))
        parts[index : index + data.draw(st.integers(0, 2))] = [data.draw(st.sampled_from(WORDS))]
    text = "".join(parts)
    lines = text.count("\n") + 1
    for problem in problems_of(text):
        assert 1 <= problem.line <= lines
        assert problem.message
        assert "^" in problem.snippet


@given(st.text(max_size=60))
@settings(max_examples=100)
def test_any_text_is_read_or_refused(text: str) -> None:
    tree = read(Source("f", text))
    assert tree.tree is not None or tree.problems


# --- limits ---------------------------------------------------------------------------------------


def steps(count: int) -> str:
    return body(*(f"x{i} = a" for i in range(count - 1)), "return a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (body(f"x = {'9' * 41}", "return a"), "a number has at most 40 digits, this one has 41"),
        (body(f"x = {'9' * 100_000}", "return a"), "a number has at most 40 digits, this one has 100000"),
        (body(f"x = {'9' * 41}%", "return a"), "a number has at most 40 digits, this one has 41"),
        (
            body(f"x = 0.{'1' * 21}", "return a"),
            "a number has at most 20 digits behind the point, this one has 21",
        ),
        (
            body(f'x = "{"x" * 10_001}"', "return a"),
            "a string has at most 10,000 characters, this one has 10,001",
        ),
        (
            body(f"x = {'(' * 51}a{')' * 51}", "return a"),
            "blocks and brackets stand at most 50 one within the other",
        ),
        (
            body(f"x = {'not ' * 51}true", "return a"),
            "an expression has at most 50 operations one within the other",
        ),
        (
            body(f"x = {'a + ' * 60}a", "return a"),
            "an expression has at most 50 operations one within the other",
        ),
        (
            "\n".join(["procedure p(a: int) -> int", *(f"{' ' * i}if a > 1" for i in range(1, 60))]),
            "blocks and brackets stand at most 50 one within the other",
        ),
        (
            f"procedure p(a: {'list of ' * 60}int) -> int\n  return 1\n",
            "types stand at most 50 one within the other",
        ),
        (steps(2001), "a file has at most 2,000 steps"),
        ("x" * 1_000_001, "a file has at most 1,000,000 characters, this one has 1,000,001"),
        ("= " * 200_001, "a file has at most 50,000 words and signs"),
        (
            body("for i in [1] at most 10001", "  x = i", "return a"),
            "the number of passes is a whole number from 1 to 10,000, found 10001",
        ),
        (
            body("for i in [1] at most 0", "  x = i", "return a"),
            "the number of passes is a whole number from 1 to 10,000, found 0",
        ),
        (
            body("x = a to 21", "return a"),
            "the number of decimal places is a whole number from 0 to 20, found 21",
        ),
        (
            body(f"x = a to {'9' * 5000}", "return a"),
            f"the number of decimal places is a whole number from 0 to 20, found {'9' * 24}",
        ),
    ],
    ids=lambda value: value[:40] if not value.startswith("procedure") and len(value) < 120 else "",
)
def test_what_exceeds_a_limit_is_refused_before_it_costs_anything(text: str, message: str) -> None:
    assert message in [problem.message for problem in problems_of(text)]


def test_what_just_fits_a_limit_is_taken() -> None:
    assert [problem for problem in problems_of(steps(2000)) if problem.severity == "error"] == []
    assert load(body(f"x = {'(' * 49}a{')' * 49}", "return x + b")).procedures
    assert load(body(f"x = {'a + ' * 40}a", "return x + b")).procedures


def test_twice_the_steps_take_twice_the_work() -> None:
    def calls(count: int) -> int:
        """How often a function is called, which unlike the time is the same again and again."""
        made = 0

        def note(_frame: FrameType, event: str, _argument: object) -> None:
            nonlocal made
            made += event == "call"

        text = body(*(f"x{i} = a + a + a + b" for i in range(count)), "return a")
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            load(text)
        finally:
            sys.setprofile(before)
        return made

    load(body("return a"))  # what is made once
    assert calls(200) < 2.1 * calls(100)


def test_at_most_fifty_problems_are_reported_and_twenty_of_the_syntax() -> None:
    assert len(problems_of(body(*["x = +"] * 60, "return a"))) == 20
    assert len(problems_of(body(*[f"x{i} = y{i}" for i in range(60)], "return a"))) == 50


def test_the_grammar_is_compiled_once() -> None:
    assert grammar() is grammar()


# --- examples -------------------------------------------------------------------------------------


def test_a_failing_example_is_a_problem_at_its_place() -> None:
    text = body("check a > b", "return a") + 'example p\n  a = 1\n  b = 2\n  note = ""\n'
    (problem,) = [problem for problem in problems_of(text) if problem.severity == "error"]
    assert (problem.line, problem.message) == (
        4,
        "the example fails at step 1: the check does not hold: 1 > 2",
    )


def test_an_example_that_is_refused_is_a_good_example() -> None:
    text = body('require a > b else deny "No."', "return a") + 'example p\n  a = 1\n  b = 2\n  note = ""\n'
    assert [problem for problem in problems_of(text) if problem.severity == "error"] == []


def test_several_procedures_of_a_file_come_by_name() -> None:
    text = body("return a + b") + body("return a * b").replace("procedure p", "procedure q")
    assert list(load(text).procedures) == ["p", "q"]


def test_parse_gives_no_model_of_a_text_with_faults() -> None:
    module, problems = parse(Source("f", body("x = +", "return a")))
    assert module is None
    assert len(problems) == 1

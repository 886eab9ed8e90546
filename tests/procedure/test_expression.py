"""Expressions: their text, their types, what they give, and how they look with values in place."""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from fractions import Fraction
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from guard.errors import InvalidState
from guard.procedure.evaluate import compiled
from guard.procedure.expected import UNKNOWN, Hole, Unknown, Working
from guard.procedure.expression import infer
from guard.procedure.functions import EvaluationError
from guard.procedure.lattice import join, takes, type_text
from guard.procedure.model import Numbers
from guard.procedure.nodes import Expr, Literal, names
from guard.procedure.numbers import decimals_of
from guard.procedure.passes import Env
from guard.procedure.scope import Scope
from guard.procedure.text import text
from guard.procedure.types import (
    NULL,
    BoolType,
    DatetimeType,
    DateType,
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
    Type,
    Value,
)
from guard.procedure.values import coerce, spell
from guard.source import Span
from tests.procedure.expressions import (
    SCOPE,
    VARIABLES,
    computed,
    environments,
    expressions,
    numbers,
    read,
    subsets,
)

drawn = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)

ENV: dict[str, Value] = {
    "i": 12,
    "j": -3,
    "d": Fraction("61.20"),
    "e": Fraction("0.50"),
    "r": Fraction(1, 20),
    "b": True,
    "c": False,
    "s": "hinge",
    "k": "DE",
    "note": "a note",
    "xs": (3, 1, 2),
    "ls": (
        {"name": "hinge", "qty": 12, "price": Fraction("3.35")},
        {"name": "panel", "qty": 4, "price": Fraction("61.20")},
    ),
    "one": {"name": "hinge", "qty": 12, "price": Fraction("3.35")},
}


def problems_of(expression: str, scope: Scope = SCOPE) -> tuple[Type | None, list[tuple[str, str]]]:
    found: list[tuple[str, str]] = []

    def note(span: Span, message: str, help: str = "") -> None:  # noqa: A002
        assert span.end > span.start
        found.append((message, help))

    return infer(read(expression), scope, note), found


def shown(working: Working) -> str:
    return "".join(part if isinstance(part, str) else "…" if part.free else "_" for part in working)


def evaluate(expression: str, env: dict[str, Any] | None = None) -> Any:
    return compiled(read(expression), SCOPE).evaluate(dict(ENV if env is None else env))


def working(expression: str, **changes: Any) -> str:
    return shown(compiled(read(expression), SCOPE).working({**ENV, **changes}))


# --- text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("((i)) + (j)", "i + j"),
        ("(i + j) + 1", "i + j + 1"),
        ("i + (j + 1)", "i + (j + 1)"),
        ("i - (j - 1)", "i - (j - 1)"),
        ("(i * j) / d", "i * j / d"),
        ("i * (j / d)", "i * (j / d)"),
        ("(i + j) * d", "(i + j) * d"),
        ("i + (j * d)", "i + j * d"),
        ("-(i)", "-i"),
        ("-(-i)", "-(-i)"),
        ("-(i + j)", "-(i + j)"),
        ("-i * j", "-i * j"),
        ("i - -5", "i - -5"),
        ("not (b and c)", "not (b and c)"),
        ("(not b) and c", "not b and c"),
        ("not (b == c)", "not b == c"),
        ("(not b) == c", "(not b) == c"),
        ("b and (c or b)", "b and (c or b)"),
        ("(b and c) or b", "b and c or b"),
        ("b or (c or b)", "b or (c or b)"),
        ("(i < j) == b", "(i < j) == b"),
        ("if b then 1 else (if c then 2 else 3)", "if b then 1 else if c then 2 else 3"),
        ("if b then (if c then 1 else 2) else 3", "if b then (if c then 1 else 2) else 3"),
        ("if (if b then c else b) then 1 else 2", "if (if b then c else b) then 1 else 2"),
        ("1 + (if b then 1 else 2)", "1 + (if b then 1 else 2)"),
        ("min( i,(j) )", "min(i, j)"),
        ("sum( l.qty*l.price for l in ls if l.qty>1 )", "sum(l.qty * l.price for l in ls if l.qty > 1)"),
        ("(one).qty", "one.qty"),
        ("[1,2, (3)]", "[1, 2, 3]"),
        ("{a:1,b:(i)}", "{ a: 1, b: i }"),
        (r'"say \"hi\" \u00e9\n"', r'"say \"hi\" é\n"'),
        ("5.50", "5.50"),
        ("12.50%", "12.5%"),
        ("s not in [s]", "s not in [s]"),
        ("7 div 2 mod 3", "7 div 2 mod 3"),
    ],
)
def test_has_one_text_with_as_few_parentheses_as_it_takes(written: str, canonical: str) -> None:
    assert text(read(written)) == canonical


@drawn
@given(expressions)
def test_the_text_is_read_as_the_same_expression(expr: Expr) -> None:
    assert read(text(expr)) == expr


@drawn
@given(expressions)
def test_no_pair_of_parentheses_can_be_left_out(expr: Expr) -> None:
    written = text(expr)
    assume('"' not in written)
    for opened in re.finditer(r"(?<![a-z])\((?![-\d.]*\))", written):
        depth, end = 0, opened.start()
        for end in range(opened.start(), len(written)):
            depth += {"(": 1, ")": -1}.get(written[end], 0)
            if depth == 0:
                break
        without = (
            written[: opened.start()] + " " + written[opened.start() + 1 : end] + " " + written[end + 1 :]
        )
        # For the eye, -(-x) and a conditional expression keep theirs where they could do without.
        if written[opened.end() :].startswith("if "):
            continue
        if written[: opened.start()].endswith("-") and without[opened.start() :].lstrip().startswith("-"):
            continue
        try:
            changed = read(without)
        except AssertionError:
            continue
        assert changed != expr, (written, without)


def test_finds_the_names_that_come_from_outside() -> None:
    expr = read("sum(l.qty * i for l in ls if l.qty > j) + len(xs) + sum(l for l in [l])")
    assert [name.name for name in names(expr)] == ["ls", "i", "j", "xs", "l"]


# --- types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("i + j", "int"),
        ("i * j", "int"),
        ("i div j", "int"),
        ("i mod j", "int"),
        ("i / j", "decimal"),
        ("d + i", "decimal(2)"),
        ("d + 0.5", "decimal(2)"),
        ("d + 0.555", "decimal(3)"),
        ("d * e", "decimal(4)"),
        ("d * i", "decimal(2)"),
        ("d div e", "int"),
        ("d mod e", "decimal(2)"),
        ("d * r", "decimal"),
        ("1 - r", "decimal"),
        ("r + 1%", "percent"),
        ("r * r", "decimal"),
        ("-r", "percent"),
        ("min(d, i)", "decimal(2)"),
        ("max(r, 1%)", "percent"),
        ("min(r, 1)", "decimal"),
        ("sum(l.price for l in ls)", "decimal(2)"),
        ("sum(xs)", "int"),
        ("count(l for l in ls)", "int"),
        ("all(x > 1 for x in xs)", "bool"),
        ("abs(d)", "decimal(2)"),
        ("floor(d)", "int"),
        ("round(d / e, 3)", "decimal(3)"),
        ("len(ls)", "int"),
        ("bulk(i)", "percent"),
        ("if b then i else d", "decimal(2)"),
        ('if b then "x" else "y"', '"x" or "y"'),
        ('if b then "x" else s', "string"),
        ('k == "DE"', "bool"),
        ("i in xs", "bool"),
        ('k in ["DE", "FR"]', "bool"),
        ("[1, 2.5]", "list of decimal(1)"),
        ("{ a: i, b: [s] }", "{ a: int, b: list of string }"),
        ("one", "Line"),
        ("one.price", "decimal(2)"),
    ],
)
def test_infers_types(expression: str, kind: str) -> None:
    found, problems = problems_of(expression)
    assert problems == []
    assert found is not None
    assert type_text(found) == kind


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("lss", "unknown name 'lss'"),
        ("bulk", "'bulk' is not a value"),
        ("sum", "'sum' is not a value"),
        ("one.pric", "'one' has no field 'pric'"),
        ("i.qty", "'i' is int and has no fields"),
        ("i + s", "'+' needs a number, 's' is string"),
        ("-b", "'-' needs a number, 'b' is bool"),
        ("not i", "'not' needs true or false, 'i' is int"),
        ("i and b", "'and' needs true or false, 'i' is int"),
        ("if i then 1 else 2", "'if' needs true or false, 'i' is int"),
        ("if b then 1 else s", "both sides of 'else' must be of one kind, found int, string"),
        ("if b then lss else 1", "unknown name 'lss'"),
        ("i == s", "cannot compare int with string"),
        ("i < s", "'<' needs a number, 's' is string"),
        ('k == "FR"', 'never equal: "DE" or "AT" against "FR"'),
        ('k in ["FR"]', 'never equal: "DE" or "AT" against "FR"'),
        ("i in s", "'in' needs a list on its right, 's' is string"),
        ("i in [s]", "cannot compare int with string"),
        ("[1, s]", "items of a list must be of one kind, found int, string"),
        ("k < k", "the values of an enumeration have no order"),
        ("xs < 1", "'<' needs a number, 'xs' is list of int"),
        ("b < 1", "'<' needs a number, 'b' is bool"),
        ("s + 1", "'+' needs a number, 's' is string"),
        ("xs + 1", "'+' needs a number, 'xs' is list of int"),
        ("first([])", "'first' does not take (an empty list)"),
        ("first(1, 2)", "'first' does not take (int, int)"),
        ("sort(ls)", "'sort' does not take (list of Line)"),
        ("sort(l for l in ls)", "'sort' does not take Line"),
        ("sort(l for l in ls by xs)", "a sort goes by numbers, strings or dates, 'xs' is list of int"),
        ("sum(x for x in xs by x)", "only a sort has by, found sum"),
        ("filter(x for x in xs if b desc)", "only a sort has desc, found filter"),
        ("filter(x for x in xs)", "a filter says which items it keeps"),
        ("append(xs, s)", "'append' does not take (list of int, string)"),
        ("at(xs, d)", "'at' does not take (list of int, decimal(2))"),
        ("position(xs, s)", "'position' does not take (list of int, string)"),
        ("concat(s, xs)", "'concat' does not take (string, list of int)"),
        ("upper(i)", "'upper' does not take (int)"),
        ("number(d)", "'number' does not take (decimal(2))"),
        ("sqrt(i)", "'sqrt' does not take (int)"),
        ("sqrt(i, j)", "'sqrt' does not take (int, int)"),
        ("pow(i, -1)", "'pow' does not take (int, int)"),
        ("pow(i, d)", "'pow' does not take (int, decimal(2))"),
        ("sqrtt(i, 2)", "unknown function or table 'sqrtt'"),
        ("summ(xs)", "unknown function or table 'summ'"),
        ("bulk(i, j)", "table 'bulk' takes (qty: int), 2 given"),
        ("bulk(s)", "'qty' of table 'bulk' is int, 's' is string"),
        ("bulk(d)", "'qty' of table 'bulk' is int, 'd' is decimal(2)"),
        ("min(i)", "'min' does not take (int)"),
        ("min()", "'min' does not take (nothing)"),
        ("min(s, s)", "'min' does not take (string, string)"),
        ("sum(ls)", "'sum' does not take (list of Line)"),
        ("floor(d, i)", "'floor' does not take (decimal(2), int)"),
        ("round(d, i)", "'round' does not take (decimal(2), int)"),
        ("round(d, 21)", "'round' does not take (decimal(2), int)"),
        ("len(i)", "'len' does not take (int)"),
        ("abs(l.qty for l in ls)", "'abs' does not go over a list"),
        ("sum(l.name for l in ls)", "'sum' does not take string"),
        ("sum(x for x in i)", "'for' needs a list, 'i' is int"),
        ("sum(x for x in xs if x)", "'if' needs true or false, 'x' is int"),
        ("i / 0", "division by zero"),
        ("i mod 0", "division by zero"),
    ],
)
def test_says_what_is_wrong(expression: str, message: str) -> None:
    problems = problems_of(expression)[1]
    assert [problem for problem, _ in problems] == [message]


@pytest.mark.parametrize(
    ("expression", "help_text"),
    [
        ("lss", "did you mean 'ls'?"),
        ("one.pric", "did you mean 'price'?"),
        ("summ(xs)", "did you mean 'sum'?"),
        ("bulk(i, j)", "write it as bulk(qty: int)"),
        ("round(s)", "write it as round(number, decimals), or round(number)"),
        ("s + s", "write concat(a, b) to put strings together, number(s) to read a number from one"),
        ("xs + [1]", "write append(list, item) for one item more, concat(a, b) for two lists"),
        ("xs < xs", "compare len(list), or one item with at(list, 1)"),
        ("s in s", 'write the values in brackets: ["a", "b"], or contains(s, s) for a part of a string'),
        ("if i then 1 else 2", "compare it with something, as in `i > 0`"),
    ],
)
def test_says_what_to_write_instead(expression: str, help_text: str) -> None:
    assert problems_of(expression)[1][0][1] == help_text


def test_one_mistake_is_reported_once_however_much_depends_on_it() -> None:
    _, problems = problems_of("min(lss + 1, 2) * i > sum(x for x in lss) and b")
    assert [message for message, _ in problems] == ["unknown name 'lss'", "unknown name 'lss'"]
    quiet = Scope({**VARIABLES, "broken": None})
    assert problems_of("broken.qty + 1 > min(broken, 2)", quiet) == (BoolType(), [])


def test_all_mistakes_of_an_expression_are_reported() -> None:
    _, problems = problems_of("(i + s) * (foo - b)")
    assert len(problems) == 3


def test_refuses_to_compile_what_does_not_hold() -> None:
    with pytest.raises(InvalidState, match="unknown name 'nope'"):
        compiled(read("nope + 1"), SCOPE)


KINDS: list[Type] = [
    IntType(),
    DecimalType(),
    DecimalType(2),
    DecimalType(4),
    PercentType(),
    BoolType(),
    DateType(),
    DatetimeType(),
    ListType(DateType()),
    StringType(),
    TextType(),
    EnumType(("a",)),
    EnumType(("a", "b")),
    ListType(IntType()),
    ListType(DecimalType(2)),
    VARIABLES["one"],
    RecordType((FieldType("a", IntType()), FieldType("b", EnumType(("a",))))),
    RecordType((FieldType("b", EnumType(("b",))), FieldType("a", DecimalType(2)))),
    RecordType((FieldType("a", StringType()), FieldType("b", StringType()))),
]


def alike(left: Type, right: Type) -> bool:
    """Whether two types are the same but for the order of options and fields."""
    return takes(left, right) and takes(right, left)


@given(st.sampled_from(KINDS), st.sampled_from(KINDS), st.sampled_from(KINDS))
def test_types_form_a_lattice(one: Type, two: Type, three: Type) -> None:
    assert join(one, one) == one
    both, reverse = join(one, two), join(two, one)
    assert (both is None) == (reverse is None)
    assert both is None or reverse is None or alike(both, reverse)
    if both is not None:
        assert takes(both, one)
        assert takes(both, two)
        left, right = join(both, three), join(two, three)
        assert (left is None) == (right is None or join(one, right) is None)


# --- computing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("i * d", Fraction("734.40")),
        ("7 / 2", Fraction(7, 2)),
        ("6 / 2", 3),
        ("7 div 2", 3),
        ("-7 div 2", -4),
        ("7 div -2", -4),
        ("7 mod 3", 1),
        ("-12 mod 5", 3),
        ("12 mod -5", -3),
        ("7.5 div 2", 3),
        ("-7.5 mod 2", Fraction("0.5")),
        ("1 - 5%", Fraction("0.95")),
        ("100 + 5%", Fraction("100.05")),
        ("0.1 + 0.2 == 0.3", True),
        ("2.50 == 2.5", True),
        ("3 == 3.0", True),
        ("5% == 0.05", True),
        ('s == "Hinge"', False),
        ('"\u00e9" == "e\u0301"', True),
        ("1 in [1.0, 2]", True),
        ("4 not in xs", True),
        ('k in ["DE", "FR"]', True),
        ("one == one", True),
        ("xs == [3, 1, 2]", True),
        ("xs == [1, 2, 3]", False),
        ("sum(x for x in xs if x > 5)", 0),
        ("sum(x for x in xs if x > 1)", 5),
        ("count(l for l in ls if l.qty > 5)", 1),
        ("min(x for x in xs)", 1),
        ("max(xs)", 3),
        ("all(x > 5 for x in xs if x > 5)", True),
        ("any(x > 5 for x in xs if x > 5)", False),
        ("floor(-2.5)", -3),
        ("ceil(-2.5)", -2),
        ("ceil(2.1)", 3),
        ("round(2.485, 2)", Fraction("2.49")),
        ("abs(j)", 3),
        ("len(ls)", 2),
        ("bulk(9)", 0),
        ("bulk(10)", Fraction(1, 20)),
        ("bulk(50)", Fraction(1, 8)),
        ("false and 1 / (i - i) > 0", False),
        ("true or 1 / (i - i) > 0", True),
        ("if true then 1 else 1 / (i - i)", 1),
        ("{ b: 1, a: i }", {"b": 1, "a": 12}),
    ],
)
def test_computes_exactly(expression: str, value: object) -> None:
    found = evaluate(expression)
    assert found == value
    assert isinstance(found, bool) == isinstance(value, bool)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("1 / (i - i)", "division by zero"),
        ("1 div (i - i)", "division by zero"),
        ("d mod (e - e)", "division by zero"),
        ("min(x for x in xs if x > 5)", "min of nothing has no value"),
        ("max(x for x in xs if x > 5)", "max of nothing has no value"),
    ],
)
def test_faults_are_named(expression: str, reason: str) -> None:
    with pytest.raises(EvaluationError, match=re.escape(reason)):
        evaluate(expression)


def test_numbers_that_grow_out_of_proportion_end_the_evaluation_early() -> None:
    huge = 10**40 - 1
    product = " * ".join(["i"] * 12)
    with pytest.raises(EvaluationError, match="a number of more than 200 digits arose"):
        evaluate(product, {**ENV, "i": huge})
    assert evaluate(" * ".join(["i"] * 5), {**ENV, "i": huge}) == huge**5


def test_rounding_functions_follow_the_rule_of_the_file() -> None:
    down = Scope(VARIABLES, SCOPE.tables, Numbers(rounding=Rounding.DOWN))
    assert compiled(read("round(2.489, 2)"), down).evaluate({}) == Fraction("2.48")


@drawn
@given(expressions, environments)
def test_computes_what_python_computes(expr: Expr, env: dict[str, Value]) -> None:
    try:
        value = computed(expr, env)
    except (ZeroDivisionError, ValueError):
        with pytest.raises(EvaluationError):
            evaluate_tree(expr, env)
    else:
        found = evaluate_tree(expr, env)
        assert found == value
        if isinstance(value, datetime):
            assert found.isoformat() == value.isoformat()


def evaluate_tree(expr: Expr, env: dict[str, Any]) -> Any:
    known = silent(expr)
    assume(known is not None)
    return compiled(expr, SCOPE).evaluate(dict(env))


def silent(expr: Expr) -> Type | None:
    faults: list[str] = []
    found = infer(expr, SCOPE, lambda _, message, __: faults.append(message))
    return None if faults else found


@drawn
@given(expressions, environments)
def test_a_value_has_the_inferred_type(expr: Expr, env: dict[str, Value]) -> None:
    kind = silent(expr)
    assume(kind is not None)
    assert kind is not None
    try:
        value = compiled(expr, SCOPE).evaluate(dict(env))
    except EvaluationError:
        return
    assert coerce(value, kind) is not None
    if isinstance(kind, IntType):
        assert type(value) is int
    if isinstance(kind, DecimalType) and kind.places is not None:
        places = decimals_of(Fraction(value).denominator)
        assert places is not None
        assert places <= kind.places


@drawn
@given(expressions, environments)
def test_an_evaluation_leaves_no_trace_in_its_environment(expr: Expr, env: dict[str, Value]) -> None:
    assume(silent(expr) is not None)
    env |= {"x": 1, "l": "the variables of aggregates are in use outside as well"}
    before = dict(env)
    made = compiled(expr, SCOPE)
    try:
        made.evaluate(env)  # type: ignore[arg-type]
        made.working(env)  # type: ignore[arg-type]
    except EvaluationError:
        pass
    assert env == before


# --- workings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "text_"),
    [
        ("i * d * (1 - r)", "12 * 61.20 * (1 - 5%)"),
        ("i * (1 - bulk(i))", "12 * (1 - 5%)"),
        ("bulk(i)", "bulk(12)"),
        ("bulk(i + 1)", "bulk(12 + 1)"),
        ("min(bulk(i), 1%)", "min(5%, 1%)"),
        ("d - min(d * 3%, 25)", "61.20 - min(61.20 * 3%, 25)"),
        ("i - j", "12 - -3"),
        ("j - i", "-3 - 12"),
        ("-i", "-12"),
        ("-j", "-(-3)"),
        ("-(i + j)", "-(12 + -3)"),
        ("i * -5", "12 * -5"),
        ("b and i > 3", "true and 12 > 3"),
        ("c and i > 3", "false and i > 3"),
        ("c and (b or i > 3)", "false and (b or i > 3)"),
        ("b or i > 3", "true or i > 3"),
        ("c or i > 3", "false or 12 > 3"),
        ("c and b and i > 3", "false and b and i > 3"),
        ("(b and c) or i > 3", "true and false or 12 > 3"),
        ("not b", "not true"),
        ("not (b and c)", "not (true and false)"),
        ("if b then 30 else i", "if true then 30 else i"),
        ("if c then i else 30", "if false then i else 30"),
        ("1 + (if b then i else j)", "1 + (if true then 12 else j)"),
        ("if b then (if c then 1 else i) else 3", "if true then (if false then 1 else 12) else 3"),
        ("sum(x for x in xs)", "sum(3, 1, 2)"),
        ("sum(xs)", "sum(xs)"),
        ("sum(x for x in xs if x > 1)", "sum(3, 2)"),
        ("sum(x for x in xs if x > 9)", "sum()"),
        ("sum(l.qty for l in ls)", "sum(12, 4)"),
        ("sum(l.qty * l.price for l in ls)", "sum(12 * 3.35, 4 * 61.20)"),
        (
            "sum(l.qty * l.price * (1 - bulk(l.qty)) for l in ls)",
            "sum(12 * 3.35 * (1 - 5%), 4 * 61.20 * (1 - 0%))",
        ),
        ("all(l.qty >= 1 and l.price > 0 for l in ls)", "all(12 >= 1 and 3.35 > 0, 4 >= 1 and 61.20 > 0)"),
        ("all(l.qty > 5 and l.price > 0 for l in ls)", "all(l.qty > 5 and l.price > 0 for l in ls)"),
        ("any(c and b for l in ls)", "any(false and b, false and b)"),
        ("count(l for l in ls)", "count(l for l in ls)"),
        ("count(l.name for l in ls)", 'count("hinge", "panel")'),
        ("sum(x * i for x in [i, j])", "sum(12 * 12, -3 * 12)"),
        ("len(ls) + 1", "len(ls) + 1"),
        ("s == one.name", '"hinge" == "hinge"'),
        ('k in ["DE", "FR"]', '"DE" in ["DE", "FR"]'),
        ("i in [i, j + 1]", "12 in [12, -3 + 1]"),
        ("i in xs", "12 in xs"),
        ('note == ""', 'note == ""'),
        ("{ a: i, b: s } == { a: i, b: s }", '{"a": 12, "b": "hinge"} == {"a": 12, "b": "hinge"}'),
        ("round(d / 7, 2)", "round(61.20 / 7, 2)"),
        ("7 div 2 mod 3", "7 div 2 mod 3"),
    ],
)
def test_operands_stand_by_value(expression: str, text_: str) -> None:
    assert working(expression) == text_


def test_strings_stand_by_value_up_to_forty_characters() -> None:
    assert working("s == s", s="a" * 40) == f'"{"a" * 40}" == "{"a" * 40}"'
    assert working("s == s", s="a" * 41) == "s == s"
    assert working('one.name == "x"', one={"name": "a" * 41, "qty": 1, "price": 1}) == 'one.name == "x"'


def test_an_aggregate_shows_up_to_eight_terms() -> None:
    assert working("sum(x for x in xs)", xs=tuple(range(8))) == "sum(0, 1, 2, 3, 4, 5, 6, 7)"
    assert working("sum(x for x in xs)", xs=tuple(range(9))) == "sum(x for x in xs)"
    assert working("sum(x for x in xs if x > 2)", xs=tuple(range(11))) == "sum(3, 4, 5, 6, 7, 8, 9, 10)"


def test_an_aggregate_that_would_name_its_own_variable_stands_as_written() -> None:
    lines = ({"name": "a" * 41, "qty": 1, "price": 1}, {"name": "b", "qty": 1, "price": 1})
    assert working('count(l.name == "b" for l in ls)', ls=lines) == 'count(l.name == "b" for l in ls)'


@drawn
@given(expressions, environments)
def test_a_working_gives_the_same_value_when_it_is_computed_by_itself(
    expr: Expr, env: dict[str, Value]
) -> None:
    assume(silent(expr) is not None)
    made = compiled(expr, SCOPE)
    try:
        value = made.evaluate(dict(env))
    except EvaluationError:
        return
    (written,) = made.working(dict(env))
    assert isinstance(written, str)
    assert computed(read(written), env) == value


class Reads(dict[str, Value | Unknown]):
    """An environment that remembers what was asked of it."""

    def __init__(self, env: Mapping[str, Value]) -> None:
        super().__init__(env)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Value | Unknown:
        self.names.add(name)
        return super().__getitem__(name)


NUMBERS: Final = {"i", "j", "d", "e", "r", "b", "c", "k"}


def named_and_read(expr: Expr, env: Mapping[str, Value]) -> tuple[set[str], set[str], set[str]]:
    """The numbers that stand in an expression once, those that its working names, those that were read."""
    read_, made = Reads(env), compiled(expr, SCOPE)
    made.evaluate(read_)
    (working_,) = made.working(dict(env))
    assert isinstance(working_, str)
    once = {name for name, times in Counter(name.name for name in names(expr)).items() if times == 1}
    return once & NUMBERS, {name.name for name in names(read(working_))} & NUMBERS, read_.names


@drawn
@given(numbers(), environments)
def test_a_working_names_a_number_where_it_was_not_read_and_nowhere_else(
    expr: Expr, env: dict[str, Value]
) -> None:
    assume(silent(expr) is not None)
    assume(not re.search(r"\bfor\b", text(expr)))
    try:
        once, named, was_read = named_and_read(expr, env)
    except EvaluationError:
        return
    assert once & named == once - was_read


@pytest.mark.parametrize("value", [7, -7, 0, NULL])
@pytest.mark.parametrize("expression", ["-(-(o else i))", "-(o else i)", "(o else i) - j", "-(-(o else -i))"])
def test_of_a_default_the_working_names_what_was_left_unread(expression: str, value: Value) -> None:
    env = ENV | {"o": value, "i": 12, "j": -3}
    expr = read(expression)
    _, named, was_read = named_and_read(expr, env)
    assert named == ({"i"} if value is not NULL else set())
    assert ("i" in was_read) == (value is NULL)
    (written,) = compiled(expr, SCOPE).working(dict(env))
    assert isinstance(written, str)
    assert computed(read(written), env) == compiled(expr, SCOPE).evaluate(dict(env))


# --- what nobody has decided ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("i + 1", UNKNOWN),
        ("d * i", UNKNOWN),
        ("i == i", UNKNOWN),
        ("c and i > 3", False),
        ("b or i > 3", True),
        ("b and i > 3", UNKNOWN),
        ("i > 3 and c", UNKNOWN),
        ("i > 3 or b", UNKNOWN),
        ("not i > 3", UNKNOWN),
        ("if b then 1 else i", 1),
        ("if b then i else 1", UNKNOWN),
        ("if i > 3 then 1 else 1", UNKNOWN),
        ("bulk(i)", UNKNOWN),
        ("min(d, i)", UNKNOWN),
        ("sum(x * i for x in xs)", UNKNOWN),
        ("sum(x for x in xs if x > i)", UNKNOWN),
        ("sum(x for x in xs if c and x > i)", 0),
        ("{ a: i, b: d }", UNKNOWN),
        ("[d, i] == [d]", UNKNOWN),
        ("d in [i]", UNKNOWN),
    ],
)
def test_unknown_spreads_except_past_a_short_circuit(expression: str, value: object) -> None:
    assert evaluate(expression, {**ENV, "i": UNKNOWN}) == value


@pytest.mark.parametrize(
    ("expression", "text_"),
    [
        ("i + d", "_ + 61.20"),
        ("i * i - 1", "_ * _ - 1"),
        ("i", "_"),
        ("-i", "-_"),
        ("bulk(i)", "bulk(_)"),
        ("d * bulk(i)", "61.20 * _"),
        ("c and i > 3", "false and i > 3"),
        ("b and i > 3", "true and _ > 3"),
        ("i > 3 and b", "_ > 3 and …"),
        ("(i > 3 or c) and b", "(_ > 3 or …) and …"),
        ("if i > 3 then 1 else d", "if _ > 3 then … else …"),
        ("if b then i else d", "if true then _ else d"),
        ("sum(x + i for x in xs)", "sum(3 + _, 1 + _, 2 + _)"),
        ("sum(x for x in xs if x > i)", "…"),
        ("1 + count(x for x in xs if x > i)", "1 + …"),
        ("{ a: i, b: d } == { a: 1, b: 1 }", '{"a": _, "b": 61.20} == {"a": 1, "b": 1}'),
    ],
)
def test_a_working_has_holes_for_what_is_unknown(expression: str, text_: str) -> None:
    assert working(expression, i=UNKNOWN) == text_


def test_holes_have_the_types_of_their_operands() -> None:
    unknown: Env = {**ENV, "one": UNKNOWN, "k": UNKNOWN, "ls": UNKNOWN}
    holes = compiled(read('one.price > 1 and one.qty > 2 and k == "DE"'), SCOPE).working(unknown)
    assert [part for part in holes if isinstance(part, Hole)] == [
        Hole(DecimalType(2)),
        Hole(BoolType(), free=True),
        Hole(BoolType(), free=True),
    ]
    assert compiled(read('k == "DE"'), SCOPE).working(unknown)[0] == Hole(EnumType(("DE", "AT")))
    assert compiled(read("sum(l.price for l in ls)"), SCOPE).working(unknown) == (
        Hole(DecimalType(2), free=True),
    )
    assert compiled(read("len(ls)"), SCOPE).working(unknown) == ("len(ls)",)


@drawn
@given(expressions, environments, subsets(sorted(VARIABLES)))
def test_what_is_known_of_a_value_or_working_stays_true(
    expr: Expr, env: dict[str, Value], unknown: set[str]
) -> None:
    assume(silent(expr) is not None)
    made = compiled(expr, SCOPE)
    partial: Env = {**env, **dict.fromkeys(unknown, UNKNOWN)}
    try:
        value = made.evaluate(dict(env))
    except EvaluationError:
        return
    foreseen = made.evaluate(dict(partial))  # and it raises nothing that the known values do not
    assert foreseen is UNKNOWN or foreseen == value
    (written,) = made.working(dict(env))
    assert isinstance(written, str)
    pattern = "".join(
        re.escape(part)
        if isinstance(part, str)
        else ".*"
        if part.free
        else r'(-?[\d.]+%?|\d{4}-[\d:T+-]+|true|false|"[^"]*"|s|one\.name|null|maybe|\(-[\d.]+%?\))'
        for part in made.working(partial)
    )
    assert re.fullmatch(pattern, written), (pattern, written)


def test_spelling_of_literals_is_that_of_their_type() -> None:
    assert text(Literal(Fraction(1, 2), DecimalType(2))) == spell(Fraction(1, 2), DecimalType(2)) == "0.50"

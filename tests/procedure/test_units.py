"""Units and scales: what numbers count, checked before anything is computed and shown nowhere in a trace."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.check.checker import Checker
from guard.check.verdict import Kind
from guard.dialect.lark import Level
from guard.errors import ProcedureError, RequestError
from guard.procedure.execute import Program, reference
from guard.procedure.expected import EndKind, Unknown
from guard.procedure.format import formatted
from guard.procedure.lattice import join, takes, type_text
from guard.procedure.load import load
from guard.procedure.types import DecimalType, IntType, PercentType, Unit, Value
from guard.procedure.units import bare, base_unit, named_unit, ratio, root, times, unit_name, unit_of
from guard.trace import render
from guard.trace.prompt import instructions
from tests.dialect.readers import assert_takes, narrowed

LANGUAGE = (Path(__file__).parents[2] / "grammars/README.md").read_text("utf-8")
SECTION = LANGUAGE.partition("### Units and scales")[2].partition("\n### ")[0]
[FREIGHT] = re.findall(r"```proc\n(.*?)```", SECTION, re.DOTALL)
NONCE = "3fa92c"
UNITS = """unit kg
unit g = 0.001 kg
unit EUR
unit USD
unit s
unit h = 3600 s
unit m
scale thousand = 1000
"""
HEAD = (
    "procedure p(w: int kg, v: int g, e: decimal(2) EUR, u: decimal(2) USD, k: decimal(1) thousand EUR, n: int,"
    " r: decimal(4) EUR/USD, ws: list of int kg, o: int kg?, t: int s) -> bool\n"
)

KG, EUR, SECOND = base_unit("kg"), base_unit("EUR"), base_unit("s")
G = named_unit("g", Fraction(1, 1000), KG)
HOUR = named_unit("h", Fraction(3600), SECOND)
THOUSAND = named_unit("thousand", Fraction(1000), None)


def library(*lines: str) -> Program:
    body = "".join(f"  {line}\n" for line in (*lines, "return true"))
    return load(UNITS + HEAD + body).procedures["p"]


def complaints(*lines: str) -> list[tuple[str, str]]:
    with pytest.raises(ProcedureError) as refused:
        library(*lines)
    return [(problem.message, problem.help) for problem in refused.value.problems]


def type_of(line: str) -> str:
    return type_text(library(f"x = {line}").types["x"])


# --- what goes together -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("w + 5 kg", "int kg"),
        ("-w", "int kg"),
        ("w * 3", "int kg"),
        ("w * 3%", "decimal kg"),
        ("w * 3.10 EUR/kg", "decimal(2) EUR"),
        ("3.10 EUR/kg * w", "decimal(2) EUR"),
        ("u * r", "decimal(6) EUR"),
        ("w * w", "int kg kg"),
        ("e / 2 to 2", "decimal(2) EUR"),
        ("e / w to 2", "decimal(2) EUR/kg"),
        ("w / 2 kg to 1", "decimal(1)"),
        ("w div 2 kg", "int"),
        ("w mod 2 kg", "int kg"),
        ("w / 1 kg", "int"),
        ("n * 1 kg", "int kg"),
        ("v as kg", "decimal(3) kg"),
        ("w as g", "int g"),
        ("w as kg", "int kg"),
        ("k as EUR", "decimal(1) EUR"),
        ("e as thousand EUR", "decimal(5) thousand EUR"),
        ("n as thousand", "decimal(3) thousand"),
        ("5 thousand as number", "int"),
        ("t as h to 2", "decimal(2) h"),
        ("(e / w) as (EUR/g) to 5", "decimal(5) EUR/g"),
        ("min(w, v as kg)", "decimal(3) kg"),
        ("sum(ws)", "int kg"),
        ("sum(x as g for x in ws)", "int g"),
        ("count(ws)", "int"),
        ("abs(w)", "int kg"),
        ("floor(w * 1.5)", "int kg"),
        ("round(w * 1.55, 1)", "decimal(1) kg"),
        ("if n > 3 then w else 0 kg", "int kg"),
        ("o else 0 kg", "int kg"),
        ("[w, 2 kg]", "list of int kg"),
        ("w > 5 kg", "bool"),
        ("w in [5 kg, 6 kg]", "bool"),
    ],
)
def test_units_multiply_divide_and_stay(expression: str, type_: str) -> None:
    assert type_of(expression) == type_


@pytest.mark.parametrize(
    ("expression", "message", "advice"),
    [
        ("w + v", "'+' needs one unit on both sides, found kg and g", "convert it: v as kg"),
        (
            "e + u",
            "'+' needs one unit on both sides, found EUR and USD",
            "USD is no EUR: multiply it by a rate in EUR/USD",
        ),
        ("e + k", "'+' needs one unit on both sides, found EUR and thousand EUR", "convert it: k as EUR"),
        ("w + 5", "'+' needs one unit on both sides, found kg and a number without unit", "write 5 kg"),
        (
            "n + w",
            "'+' needs one unit on both sides, found a number without unit and kg",
            "give it its unit where it is made, such as 0 kg, or write n * 1 kg",
        ),
        (
            "w + 3%",
            "'+' needs one unit on both sides, found kg and a number without unit",
            "write a share of it, such as amount * 3%",
        ),
        ("w > 5", "'>' needs one unit on both sides, found kg and a number without unit", "write 5 kg"),
        ("w == v", "'==' needs one unit on both sides, found kg and g", "convert it: v as kg"),
        ("w mod v", "'mod' needs one unit on both sides, found kg and g", "convert it: v as kg"),
        (
            "w in [5, 6]",
            "'in' needs one unit on both sides, found kg and a number without unit",
            "give the items the unit of what is looked for, such as [1 kg]",
        ),
        ("min(w, v)", "'min' needs one unit, found kg and g", "convert it: v as kg"),
        ("max(w, 3)", "'max' needs one unit, found kg and a number without unit", "write 3 kg"),
        (
            "if n > 3 then w else v",
            "both sides of 'else' must be of one kind, found int kg, int g",
            "convert it: v as kg",
        ),
        ("o else 0", "both sides of 'else' must be of one kind, found int kg, int", "write 0 kg"),
        ("o + 1 kg", "'o' may be null here", "write (o else 0 kg), or test `o is not null` before"),
        (
            "w as EUR",
            "'w' counts kg, which cannot be counted in EUR",
            "kg is no EUR: multiply it by a rate in EUR/kg",
        ),
        (
            "w as number",
            "'w' counts kg, which cannot be counted in number",
            "divide it by 1 kg for the number alone",
        ),
        ("w as lb", "there is no unit 'lb'", "declare it above: unit lb"),
        ("5 kgs", "there is no unit 'kgs'", "did you mean 'kg'?"),
        ("kg", "'kg' is a unit and no value", "write the number in front of it: 1 kg"),
        (
            "t as h",
            "the result of / is not rounded, it may have decimals without end",
            "write x = t as h to 6",
        ),
    ],
)
def test_mixing_units_is_an_error_that_says_what_to_write(expression: str, message: str, advice: str) -> None:
    assert complaints(f"x = {expression}") == [(message, advice)]


def test_what_stands_close_behind_a_number_is_a_unit_or_a_slip() -> None:
    assert type_of("5kg + w") == "int kg"
    assert complaints("x = 1e5") == [("a number has no exponent", "write it out, such as 1000 or 0.001")]
    assert complaints("x = 1_000") == [("a number has no separators", "write 1000")]


def test_a_name_has_one_unit() -> None:
    assert complaints("x = w", "x = v") == [
        ("'x' is int kg since line 10 and int g here", "convert one of them, such as x as kg")
    ]


def test_a_unit_names_no_value() -> None:
    [(message, _)] = complaints("kg = 5")
    assert message == "'kg' is a unit and cannot name a value"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("unit kg\nunit kg\n", "'kg' is declared already, in line 1"),
        ("unit g = 0.001 kg\nunit kg\n", "there is no unit 'kg'"),
        ("unit kg\nunit g = 0 kg\n", "a unit is some amount of another, not none"),
        ("unit number\n", "'number' is no unit"),
        ("unit kg\nrecord R { a: percent kg }\n", "only int and decimal count something"),
        ("unit kg\nrecord R { a: string kg }\n", "only int and decimal count something"),
    ],
)
def test_wrong_declarations_are_reported(text: str, message: str) -> None:
    with pytest.raises(ProcedureError) as refused:
        load(f"{text}\nprocedure p(a: int) -> int\n  return a\n")
    assert [problem.message for problem in refused.value.problems] == [message]


def test_results_arguments_and_tables_take_their_own_unit_only() -> None:
    text = UNITS + (
        "table fee(a: int kg) -> decimal(2) EUR, first match\n  <= 5 kg => 2.50\n  any => 4.00 EUR\n\n"
        "procedure inner(a: int kg) -> decimal(2) EUR\n  return fee({})\n\n"
        "procedure p(v: int g) -> decimal(2) EUR\n  x = do inner({})\n  return {}\n"
    )
    assert load(text.format("a", "v * 1 kg div 1000 g", "x")).procedures
    for wrong, help_ in (
        (("a as g", "1 kg", "x"), "convert it: a as g as kg"),
        (("a", "v", "x"), "convert it: v as kg"),
        (("a", "1 kg", "x * 1 USD/EUR"), "USD is no EUR: multiply it by a rate in EUR/USD"),
        (
            ("a", "1 kg", "x / 1 EUR"),
            "give it its unit where it is made, such as 0 EUR, or write x / 1 EUR * 1 EUR",
        ),
    ):
        with pytest.raises(ProcedureError) as refused:
            load(text.format(*wrong))
        assert [problem.help for problem in refused.value.problems] == [help_], wrong


def test_a_constant_of_another_unit_is_refused_in_tables_defaults_and_examples() -> None:
    table = "table t(a: int kg) -> int EUR, first match\n  <= 5 g => 2\n  any => 4 kg\n\n"
    rest = "procedure p(a: int kg = 3 g) -> int EUR\n  return t(a)\n\nexample p\n  a = 5 EUR\n"
    with pytest.raises(ProcedureError) as refused:
        load(UNITS + table + rest)
    assert [problem.message for problem in refused.value.problems] == [
        "the column 'a' is int kg, found 5 g",
        "table 't' gives int EUR, found 4 kg",
        "'a': it counts g, expected int kg",
        "'a': it counts EUR, expected int kg",
    ]


# --- what is computed, shown and asked for ------------------------------------------------------------------


def test_no_line_of_a_trace_and_no_statement_shows_a_unit() -> None:
    program = load(FREIGHT, "grammars/README.md").procedures["freight"]
    inputs = program.example_inputs or {}
    steps, ending = reference(program, inputs, program.example_decisions or {})
    assert ending.kind is EndKind.RETURN
    trace = render.trace(program, steps, NONCE)
    assert not re.search(r"\d (kg|g|EUR|thousand)\b", trace)
    body = program.numbered.partition("procedure ")[2].partition("\n")[2]
    assert " as " not in body
    assert "thousand EUR" in program.numbered
    assert "in that unit, alone" in instructions(program)


@pytest.mark.parametrize("level", [Level.SHAPE, Level.OPERANDS, Level.VALUES])
def test_the_grammar_takes_the_numbers_alone(level: Level) -> None:
    program = load(FREIGHT).procedures["freight"]
    inputs = program.example_inputs or {}
    steps, _ = reference(program, inputs, program.example_decisions or {})
    made = narrowed(program, inputs, steps, 0, level=level, stop=False)
    assert_takes(made.grammar, render.trace(program, steps, NONCE))


def test_a_unit_behind_a_number_in_a_trace_is_malformed() -> None:
    program = load("unit kg\n\nprocedure p(a: int kg) -> int kg\n  return a + 1 kg\n").procedures["p"]
    for line, kind in (
        ("1 return 2 + 1 = 3", None),
        ("1 return 2 + 1 = 3 kg", Kind.MALFORMED),
        ("1 return 2 kg + 1 kg = 3", Kind.MALFORMED),
    ):
        checker = Checker(program, program.accept({"a": 2}), nonce=None)
        checker.feed(f"@begin p {NONCE}\n{line}\n@end {NONCE}\n")
        checker.close()
        assert (checker.violation and checker.violation.kind) == kind


def test_an_input_is_asked_for_in_its_unit() -> None:
    program = library("x = w")
    with pytest.raises(RequestError, match="input 'w' is missing: expected a whole number, in kg"):
        program.accept({})


def run(text: str, **inputs: object) -> Value:
    program = load(text).procedures["p"]
    _, ending = reference(program, program.accept(inputs), {})
    assert ending.kind is EndKind.RETURN
    assert ending.value is not None
    assert not isinstance(ending.value, Unknown)
    return ending.value


@given(st.integers(-(10**6), 10**6), st.integers(1, 10**6), st.integers(1, 999))
def test_converting_there_and_back_gives_the_same_number(value: int, above: int, below: int) -> None:
    text = (
        f"unit a\nunit b = {above} a\nunit c = 0.{below:03} b\n\n"
        "procedure p(x: int a, y: int c) -> { a: decimal a, b: decimal c, same: bool }\n"
        "  z = x as c to 20\n"
        "  return { a: y as a, b: y as b as c, same: y as a == y as b as a }\n"
    )
    found = run(text, x=value, y=value)
    assert found == {"a": Fraction(value * above * below, 1000), "b": value, "same": True}


def test_conversions_know_what_is_not_null() -> None:
    text = (
        "unit kg\nunit g = 0.001 kg\n\nrecord R { w: int kg? }\n\n"
        "procedure p(o: int kg?, rs: list of R) -> int g\n"
        "  if o is not null\n    return o as g\n"
        "  return sum(r.w as g for r in rs if r.w is not null) + (o else 1 kg) as g\n"
    )
    assert run(text, o=3, rs=[]) == 3000
    assert run(text, rs=[{"w": 2}, {}]) == 3000


def test_a_part_that_is_not_read_stands_without_units() -> None:
    text = "unit kg\nunit g = 0.001 kg\n\nprocedure p(w: int kg) -> bool\n  return true or w as g > 5 g\n"
    program = load(text).procedures["p"]
    steps, _ = reference(program, program.accept({"w": 1}), {})
    assert render.line(steps[0][0]) == "1 return true or w * 1000 > 5 = true"


def test_what_a_unit_is_belongs_to_what_a_procedure_is() -> None:
    text = "unit kg\nunit g = {} kg\n\nprocedure p(w: int g) -> decimal kg\n  return w as kg\n"
    made = [load(text.format(amount)).procedures["p"] for amount in ("0.001", "0.002")]
    plain = load(text.format("0.001").replace("int g", "decimal(0) g")).procedures["p"]
    assert len({program.digest for program in (*made, plain)}) == 3


def test_a_text_with_units_is_laid_out_once_and_for_all() -> None:
    text = "unit   kg\nunit EUR\nprocedure p(a: decimal( 2 )EUR / kg,b: int kg ?)->decimal EUR/kg\n  return a as( EUR/kg )\n"
    laid = formatted(text)
    assert "a: decimal(2) EUR/kg, b: int kg?" in laid
    assert formatted(laid) == laid


# --- units by themselves ------------------------------------------------------------------------------------

units = st.lists(
    st.tuples(st.sampled_from([KG, G, EUR, HOUR, THOUSAND]), st.sampled_from([1, -1])), max_size=4
)


def made_of(parts: list[tuple[Unit, int]]) -> Unit | None:
    found: Unit | None = None
    for unit, power in parts:
        found = times(found, unit, power)
    return found


@given(units, units)
def test_what_is_multiplied_is_divided_again(
    left: list[tuple[Unit, int]], right: list[tuple[Unit, int]]
) -> None:
    one, other = made_of(left), made_of(right)
    assert times(times(one, other), other, -1) == one
    assert times(one, other) == times(other, one)
    assert times(one, one, -1) is None
    square = times(one, one)
    assert square is None or root(square) == one


@given(units)
def test_a_unit_is_one_of_itself_and_of_no_other_kind(parts: list[tuple[Unit, int]]) -> None:
    unit = made_of(parts)
    assert ratio(unit, unit) == 1
    assert ratio(times(unit, EUR), unit) is None
    assert ratio(times(unit, G), times(unit, KG)) == Fraction(1, 1000)


def test_types_of_one_unit_join_and_others_do_not() -> None:
    assert join(IntType(KG), DecimalType(2, KG)) == DecimalType(2, KG)
    assert join(IntType(KG), IntType(G)) is None
    assert join(IntType(KG), IntType()) is None
    assert join(PercentType(), DecimalType(2, KG)) is None
    assert takes(DecimalType(2, KG), IntType(KG))
    assert not takes(DecimalType(2, KG), IntType())
    assert not takes(DecimalType(2), IntType(KG))
    assert bare(DecimalType(2, KG)) == DecimalType(2)
    assert unit_of(PercentType()) is None


def test_units_are_named_as_they_are_written() -> None:
    per = times(times(THOUSAND, EUR), KG, -1)
    assert unit_name(per) == "thousand EUR/kg"
    assert unit_name(times(None, KG, -1)) == "1/kg"
    assert unit_name(None) == "number"
    assert root(KG) is None

"""Values that may be null: where they may stand, and what makes them be there."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest

from guard.check.checker import Checker
from guard.check.verdict import Kind, Verdict, Violation
from guard.errors import ProcedureError, RequestError
from guard.procedure.execute import Program, reference
from guard.procedure.expected import EndKind
from guard.procedure.load import load
from guard.procedure.types import NULL, DecimalType, IntType, ListType, NullType, OptionalType, StringType
from guard.procedure.values import answer_text, coerce, conforms, from_json, json_text, spell, to_json
from guard.trace import render
from guard.trace.prompt import instructions

LANGUAGE = (Path(__file__).parents[2] / "grammars/README.md").read_text("utf-8")
SECTION = LANGUAGE.partition("### Values that may be null")[2].partition("Reserved words")[0]
[PARCEL] = re.findall(r"```proc\n(.*?)```", SECTION, re.DOTALL)
NONCE = "3fa92c"
HEAD = "procedure p(a: int?, b: int, s: string?, xs: list of int?, ys: (list of int)?, r: { q: int? }?) -> int?\n"


def complaints(*lines: str, ends: str = "return 1") -> list[str]:
    try:
        load(HEAD + "".join(f"  {line}\n" for line in (*lines, ends)))
    except ProcedureError as error:
        return [problem.message for problem in error.problems]
    return []


def run(program: Program, inputs: dict[str, object], decisions: dict[str, object]) -> tuple[str, object]:
    accepted = program.accept(inputs)
    steps, ending = reference(program, accepted, program.decide(decisions))
    assert ending.kind is EndKind.RETURN, ending
    return render.trace(program, steps, NONCE), ending.value


def violation(program: Program, inputs: dict[str, object], trace: str) -> Violation | None:
    checker = Checker(program, program.accept(inputs), nonce=None)
    checker.feed(trace)
    checker.close()
    assert (checker.verdict is Verdict.PASSED) is (checker.violation is None)
    return checker.violation


# --- the language reference --------------------------------------------------------------------------------


def test_the_prompt_says_what_to_write_where_the_text_does_not_say_a_value() -> None:
    told = instructions(load(PARCEL).procedures["parcel"])
    assert "write `null`, without a quote" in told
    assert "1 age: int? from note, where age is null or age >= 0, quoted" in told
    assert "zone: int?, gift: bool = false" in told
    assert "null" not in instructions(load("procedure p(a: int) -> int\n  return a\n").procedures["p"])


# --- where null may not stand -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "x = a + 1",
        "x = -a",
        "x = a > 3",
        "x = a == 3",
        "x = a in [1, 2]",
        "x = not a",
        "x = if a then 1 else 2",
        "x = abs(a)",
        "x = min(a, 3)",
        "x = a to 2",
        "x = sum(y for y in xs)",
        "check a",
        "x = a is null and a > 3",
        "x = a is not null or a > 3",
        "x = if a is null then a + 1 else 2",
        "x = (if a is not null then 1 else 2) * a",
        "x = b * a else 3",
        "x = sum(a for y in xs if y is not null)",
    ],
)
def test_null_in_an_operation_is_an_error_of_the_author(line: str) -> None:
    assert [found.endswith("may be null here") for found in complaints(line)] == [True]


def test_a_part_of_a_list_or_record_that_may_be_null_is_not_compared() -> None:
    for line in ("x = 3 in xs", "x = [1] == xs", "x = {q: 1} == {q: a}"):
        assert "a part of it may be null" in " ".join(complaints(line)), line


def test_every_message_says_what_to_write() -> None:
    with pytest.raises(ProcedureError) as refused:
        load(HEAD + "  w = a + 1\n  x = a == null\n  y = sum(xs)\n  z = r.q\n  return b else 3\n")
    assert [problem.help for problem in refused.value.problems] == [
        "write (a else 0), or test `a is not null` before",
        "write a is null",
        "leave the nulls out: sum(x for x in xs if x is not null)",
        "test `r is not null` before",
        "leave else and what follows out",
    ]


def test_a_result_that_may_not_be_null_takes_none_that_may() -> None:
    with pytest.raises(ProcedureError) as refused:
        load("procedure p(a: int?) -> int\n  return a\n")
    [problem] = refused.value.problems
    assert problem.message == "the result is int, 'a' may be null here"
    assert problem.help == "write (a else 0), or test `a is not null` before, or write int? behind ->"


# --- where a value is known to be there ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        ["x = a is not null and a > 3"],
        ["x = a is null or a > 3"],
        ["x = not (a is null) and a > 3"],
        ["x = not (a is null or b > 3) and a > 3"],
        ["x = if a is null then 0 else a * 2"],
        ["x = (a else b) * 2"],
        ["x = sum(y * 2 for y in xs if y is not null)"],
        ["x = sum(if y is null then 0 else y for y in xs)"],
        ["x = len(ys else [])"],
        ["if a is not null", "  x = a + 1"],
        ["if a is null", "  return 0", "x = a + 1"],
        ["if a is null or b > 3", "  x = 1", "elif a > 3", "  x = 2"],
        ['require a is not null else deny "No."', "x = a + 1"],
        ["require a is null else return a + 1", "x = 1"],
        ["check a is not null", "x = a + 1"],
        ["if r is not null and r.q is not null", "  x = r.q + 1"],
        ["if ys is not null", "  for y in ys at most 3", "    x = y + 1"],
        ["x = null", "x = 3", "z = x + 1"],
        ["x = null", "if b > 3", "  x = 4", "else", "  x = 5", "z = x + 1"],
        ["x = a", "while x is null or x < 4 at most 9", "  x = (x else 0) + 1", "z = x + 1"],
        ["x = null", "for y in xs at most 9", "  if y is not null", "    x = y", "    z = x + y"],
        ["check a is not null", "any order", "  x = a + 1", "  y = a + 2", "z = a + x + y"],
        ["x = a", "any order", "  x = 3", "  y = 4", "z = x + y"],
        ["x = a", "one of", '  try "p"', "    x = 3", '  try "q"', "    x = 4", "z = x + 1"],
        [
            "one of",
            '  try "p"',
            "    require a is not null else next",
            "    x = a",
            '  try "q"',
            "    x = 4",
            "z = x + 1",
        ],
    ],
)
def test_a_value_is_known_to_be_there(lines: list[str]) -> None:
    assert complaints(*lines) == []


@pytest.mark.parametrize(
    "lines",
    [
        ["if a is not null and b > 3", "  x = 1", "else", "  x = a + 1"],
        ["if a is null", "  x = 0", "z = a + 1"],
        ["x = 3", "if b > 3", "  x = null", "z = x + 1"],
        ["x = 3", "for y in xs at most 9", "  z = x + 1", "  x = y"],
        ["x = a", 'require x is not null else deny "No."', "x = a", "z = x + 1"],
        ["x = null", "for y in xs at most 9", "  x = 3", "z = x + 1"],
        ["x = a", "while x is not null at most 9", "  x = null", "z = x + 1"],
        ["x = a", "one of", '  try "p"', "    x = 3", '  try "q"', "    y = 4", "z = x + 1"],
    ],
)
def test_what_was_known_is_forgotten_where_it_may_have_changed(lines: list[str]) -> None:
    assert [found.endswith("may be null here") for found in complaints(*lines)] == [True]


def test_asking_again_is_no_fault_but_asking_of_what_is_never_null_is_one() -> None:
    assert complaints("check a is not null", "x = a is null", "y = a else 3") == []
    assert complaints("x = b is null", "y = b else 3") == ["'b' is int, which is never null"] * 2


def test_a_sum_that_may_be_null_and_gains_decimals_in_every_pass_has_a_type() -> None:
    body = "  x = null\n  for y in xs at most 4\n    x = (x else 1.5) * 1.5\n  return x\n"
    program = load(f"procedure p(xs: list of int) -> decimal?\n{body}").procedures["p"]
    assert program.types["x"] == OptionalType(DecimalType(None))


# --- grammar ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("if a is null then b else a else 2", 7),  # a choice whose other side is a default
        ("a else if b > 3 then 1 else 2", 1),
        ("a else a else 3", 3),
        ("if b > 3 then if b > 4 then 1 else 2 else 3", 1),
        ("if b > 9 then if b > 4 then 1 else 2 else a else 3", 3),
        ("if (a else 1) > 3 then (a else 2) else 5", 5),
    ],
)
def test_an_else_belongs_to_one_thing(text: str, value: int) -> None:
    program = load(f"procedure p(a: int?, b: int, is: int) -> int?\n  return {text}\n").procedures["p"]
    assert run(program, {"b": 7, "is": 1}, {})[1] == value


def test_is_is_a_name_where_it_can_be_one() -> None:
    program = load("procedure p(is: int?) -> bool\n  return is is null\n").procedures["p"]
    trace, value = run(program, {}, {})
    assert value is True
    assert violation(program, {}, trace) is None


@pytest.mark.parametrize("written", ["text?", "int??", "(int?)?"])
def test_what_cannot_be_optional_is_refused(written: str) -> None:
    with pytest.raises(ProcedureError):
        load(f"procedure p(a: {written}) -> int\n  return 1\n")


# --- inputs -------------------------------------------------------------------------------------------------

INPUTS = load(
    'procedure p(a: int?, b: int = 3, c: enum("x", "y")? = "x", r: { q: int?, w: int }) -> { a: int?, b: int, c: string?, q: int? }\n'
    "  return { a: a, b: b, c: c, q: r.q }\n"
).procedures["p"]


def test_an_input_that_is_left_out_is_its_default_or_null() -> None:
    assert INPUTS.accept({"r": {"w": 1}}) == {"a": NULL, "b": 3, "c": "x", "r": {"q": NULL, "w": 1}}
    given = {"a": 5, "b": 6, "c": None, "r": {"q": None, "w": 1}}
    assert INPUTS.accept(given) == {"a": 5, "b": 6, "c": NULL, "r": {"q": NULL, "w": 1}}


def test_null_for_an_input_that_may_not_be_is_refused() -> None:
    with pytest.raises(RequestError, match="found null"):
        INPUTS.accept({"b": None, "r": {"w": 1}})
    with pytest.raises(RequestError, match="'r' is missing"):
        INPUTS.accept({})


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ("a: int = 2.5", "'a' is a whole number, found 2.5"),
        ("a: int = null", "'a' is a whole number, found null"),
        ('a: enum("x", "y") = "z"', '\'a\' is one of "x", "y", found "z"'),
        ('a: text = "x"', "'a' is a text, which has no default"),
    ],
)
def test_a_default_must_be_of_its_input(parameter: str, message: str) -> None:
    with pytest.raises(ProcedureError) as refused:
        load(f"procedure p({parameter}) -> int\n  return 1\n")
    assert [problem.message for problem in refused.value.problems] == [message]


def test_a_default_is_part_of_what_a_procedure_is() -> None:
    made = [
        load(f"procedure p(a: int{d}) -> int\n  return a\n").procedures["p"] for d in ("", " = 3", " = 4")
    ]
    assert len({program.digest for program in made}) == 3


# --- values -------------------------------------------------------------------------------------------------


def test_null_has_one_spelling_everywhere() -> None:
    maybe = OptionalType(IntType())
    assert spell(NULL, maybe) == json_text(NULL, maybe) == answer_text(NULL, maybe) == "null"
    assert to_json(NULL, maybe) is None
    assert to_json((NULL, 3), ListType(maybe)) == [None, 3]
    assert from_json(None, maybe) is NULL
    assert answer_text("x", OptionalType(StringType())) == "x"
    assert spell("x", OptionalType(StringType())) == '"x"'


def test_what_may_be_null_takes_null_and_what_it_is_else() -> None:
    maybe = OptionalType(DecimalType(2))
    assert conforms(NULL, maybe) is None
    assert conforms(Fraction(1, 4), maybe) is None
    assert conforms("x", maybe) == "a number with at most 2 decimals, or null"
    assert conforms(NULL, DecimalType(2)) == "a number with at most 2 decimals"
    assert conforms(3, NullType()) == "null"
    assert coerce(NULL, maybe) is NULL
    assert coerce(NULL, IntType()) is None
    assert coerce("x", maybe) is None


# --- tables -------------------------------------------------------------------------------------------------

TABLE = """
table t(a: int?, k: enum("x", "y")?) -> int?, first match
  1..5, "x"  => 1
  1..5, any  => 2
  null, null => null
  null, any  => 4
  any,  any  => 5

procedure p(a: int?, k: enum("x", "y")?) -> int?
  return t(a, k)
"""


def test_a_table_looks_null_up_by_its_own_cell() -> None:
    program = load(TABLE).procedures["p"]
    found = {(a, k): run(program, {"a": a, "k": k}, {})[1] for a in (3, 9, None) for k in ("x", None)}
    assert found == {(3, "x"): 1, (3, None): 2, (9, "x"): 5, (9, None): 5, (None, "x"): 4, (None, None): NULL}


def test_a_table_that_has_no_row_for_null_is_a_warning() -> None:
    one = "table t(a: int?) -> int, first match\n  <= 5 => 1\n  > 5 => 2\n"
    two = "table t(a: int?, b: bool) -> int, first match\n  <= 5, any => 1\n  > 5, any => 2\n"
    for table, call in ((one, "t(a)"), (two, "t(a, true)")):
        library = load(f"{table}\nprocedure p(a: int?) -> int\n  return {call}\n")
        assert ["null" in warning.message for warning in library.warnings] == [True]


def test_a_table_whose_input_may_not_be_null_takes_no_value_that_may() -> None:
    with pytest.raises(ProcedureError) as refused:
        load(
            "table t(a: int) -> int, first match\n  any => 1\n\nprocedure p(a: int?) -> int\n  return t(a)\n"
        )
    assert [problem.help for problem in refused.value.problems] == [
        "write (a else 0), or test `a is not null` before"
    ]


# --- traces -------------------------------------------------------------------------------------------------

READ = load(
    "procedure p(note: text) -> int?\n"
    "  extract age: int? from note quote\n"
    "  if age is not null\n"
    "    next = age + 1\n"
    "    return next\n"
    "  return age\n"
).procedures["p"]
NOTE: dict[str, object] = {"note": "She is 31 years old."}
WITHOUT = f"@begin p {NONCE}\n1 age = null\n2 if null is not null = false\n3 return null\n@end {NONCE}\n"


def test_null_is_admissible_without_a_quote_and_a_value_is_not() -> None:
    assert violation(READ, NOTE, WITHOUT) is None
    assert violation(READ, NOTE, WITHOUT.replace("age = null", 'age = null <- "She is"')) is None
    bare = violation(READ, NOTE, WITHOUT.replace("age = null", "age = 31"))
    assert bare is not None
    assert bare.kind is Kind.UNGROUNDED_VALUE
    forged = violation(READ, NOTE, WITHOUT.replace("age = null", 'age = null <- "He is"'))
    assert forged is not None
    assert forged.kind is Kind.UNGROUNDED_VALUE


def test_a_word_other_than_null_is_no_value() -> None:
    for word in ("none", "NULL", '"null"'):
        wrong = violation(READ, NOTE, WITHOUT.replace("age = null", f"age = {word}"))
        assert wrong is not None
        assert wrong.kind is Kind.INADMISSIBLE_VALUE, word


def test_null_behind_a_wrong_condition_ends_the_run_as_failed() -> None:
    text = WITHOUT.replace("= false\n3 return null", "= true\n2.1 next = null + 1 = 1\n2.2 return 1")
    checker = Checker(READ, READ.accept(NOTE), nonce=None, stop_at_first=False)
    checker.feed(text)
    checker.close()
    assert checker.violations[0].kind is Kind.WRONG_BRANCH
    assert checker.ending is not None
    assert checker.ending.kind is EndKind.FAILED
    assert checker.ending.reason == "age is null"

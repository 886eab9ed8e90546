"""Programs: the inputs they take, their digests and their numbered text, and who may share them."""

import hashlib
import importlib.resources
import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import zip_longest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.errors import InvalidState, RequestError
from guard.procedure.blocks import Block
from guard.procedure.execute import constant, reference
from guard.procedure.nodes import Name
from tests.procedure.executions import ORDER, drive, line, program, steps

INVOICE = importlib.resources.files("guard.examples").joinpath("invoice/invoice.proc").read_text()


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

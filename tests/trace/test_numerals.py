"""One fixed reading a spelling: in a trace the verdict, in free-form text the value."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from guard.check.checker import Checker
from guard.check.verdict import Verdict
from guard.procedure.load import load
from guard.procedure.numbers import parse_number
from guard.trace.freeform import read_freely
from guard.trace.numerals import numeral, plain, spelled

ROOT = Path(__file__).parents[2]
CASES: list[dict[str, Any]] = yaml.safe_load((ROOT / "tests/cases/numbers.yaml").read_text("utf-8"))
COPY = load("procedure p(a: decimal) -> decimal\n  b = a\n  return b\n").procedures["p"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["written"]))
def test_free_form_mode_reads_each_spelling_as_documented(case: dict[str, Any]) -> None:
    text = f"So b = {case['written']}"
    reading = read_freely(text, ["b"])
    [seen] = reading.seen
    if case["free"] == "unread":
        assert seen.result is None
        return
    assert seen.result is not None
    assert seen.result.value == Fraction(case["free"])
    assert text[seen.result.at : seen.result.end] == case.get("as_text", case["written"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["written"]))
def test_a_trace_with_each_spelling_gets_the_documented_verdict(case: dict[str, Any]) -> None:
    value = 9 if case["free"] == "unread" else Fraction(case["free"])
    checker = Checker(COPY, {"a": value}, nonce="0a0b0c")
    checker.feed(f"@begin p 0a0b0c\n1 b = {case['written']}\n")
    if case["strict"] == "none":
        assert checker.verdict is not Verdict.FAILED
    else:
        assert checker.violation is not None
        assert checker.violation.kind == case["strict"]


def test_the_documented_table_is_the_one_that_is_tested() -> None:
    readme = (ROOT / "grammars/README.md").read_text("utf-8")
    rows = {
        tuple(cell.strip() for cell in line.split("|")[1:4])
        for line in readme.splitlines()
        if line.startswith("| `")
    }
    for case in CASES:
        if str(case["written"]).isascii():
            verdict = "right" if case["strict"] == "none" else f"`{case['strict']}`"
            assert (f"`{case['written']}`", verdict, f"`{case['free']}`") in rows


def test_a_number_too_long_is_not_converted() -> None:
    assert numeral("9" * 100_000, 0) == (None, 100_000)
    assert numeral("1e999999999", 0) == (None, 11)
    assert numeral("\\frac{1}{0}", 0) == (None, 11)


@given(st.text())
def test_plain_text_keeps_every_offset(text: str) -> None:
    assert len(plain(text)) == len(text)


@given(st.integers(0, 10**30), st.integers(0, 9))
def test_what_is_spelled_is_read_as_the_same_number(number: int, places: int) -> None:
    value = Fraction(number, 10**places)
    assert parse_number(spelled(value)) == value
    assert numeral(spelled(value), 0) == (value, len(spelled(value)))

"""Functions of strings: against what Python makes of them, in Unicode's form NFC, bounded."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any
from unicodedata import is_normalized, normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.procedure.evaluate import Compiled, compiled
from guard.procedure.functions import EvaluationError
from guard.procedure.scope import Scope
from guard.procedure.types import IntType, ListType, StringType, TextType
from guard.procedure.values import STRING_LENGTH
from tests.procedure.expressions import read

SCOPE = Scope(
    {
        "s": StringType(),
        "t": StringType(),
        "u": StringType(),
        "note": TextType(),
        "ws": ListType(StringType()),
        "i": IntType(),
        "j": IntType(),
    }
)
texts = st.text(st.sampled_from("abA \u00df\u0130\u0301e\u00e9\u1e9e\ufb01,"), max_size=8).map(
    lambda text: normalize("NFC", text)
)


@cache
def made(expression: str) -> Compiled:
    return compiled(read(expression), SCOPE)


def value(expression: str, **env: Any) -> Any:
    return made(expression).evaluate(dict(env))


@given(texts, texts, texts)
def test_strings_are_what_python_makes_of_them(s: str, t: str, u: str) -> None:
    def nfc(text: str) -> str:
        return normalize("NFC", text)

    env = {"s": s, "t": t, "u": u}
    assert value("upper(s)", **env) == nfc(s.upper())
    assert value("lower(s)", **env) == nfc(s.lower())
    assert value("casefold(s)", **env) == nfc(s.casefold())
    assert value("trim(s)", **env) == s.strip()
    assert value("contains(s, t)", **env) == (t in s)
    assert value("starts_with(s, t)", **env) == s.startswith(t)
    assert value("ends_with(s, t)", **env) == s.endswith(t)
    assert value("concat(s, t, u)", **env) == nfc(s + t + u)
    assert value("position(s, t)", **env) == s.find(t) + 1
    assert value("len(s)", **env) == len(s)
    assert value("characters(s)", **env) == tuple(s)
    assert value("join(ws, t)", ws=(s, u), t=t) == nfc(s + t + u)
    assert value("s < t", **env) == (s < t)
    if t:
        assert value("replace(s, t, u)", **env) == nfc(s.replace(t, u))
        assert value("split(s, t)", **env) == tuple(map(nfc, s.split(t)))


@given(texts, texts, texts)
def test_every_string_is_in_form_nfc(s: str, t: str, u: str) -> None:
    for expression in ("concat(s, t)", "upper(s)", "lower(t)", "casefold(u)", "join([s, t, u], u)"):
        assert is_normalized("NFC", value(expression, s=s, t=t, u=u)), expression


@given(texts, st.integers(-1, 10), st.integers(-1, 10))
def test_a_part_of_a_string_has_both_its_ends(s: str, i: int, j: int) -> None:
    if 1 <= i <= j + 1 and j <= len(s):
        assert value("slice(s, i, j)", s=s, i=i, j=j) == normalize("NFC", s[i - 1 : j])
    else:
        with pytest.raises(EvaluationError):
            value("slice(s, i, j)", s=s, i=i, j=j)


@pytest.mark.parametrize(
    ("spelling", "number"), [("12", 12), ("-0.50", Fraction(-1, 2)), ("5%", Fraction(1, 20)), ("007", 7)]
)
def test_a_number_is_read_from_a_string_where_that_is_asked_for(spelling: str, number: Any) -> None:
    assert value("number(s)", s=spelling) == number


@pytest.mark.parametrize(
    "spelling", ["", " 1", "1e3", "1,000", "+1", "NaN", "\u0661", "1" * 41, "9" * 5_000, "0x10", "1_0"]
)
def test_what_is_no_number_is_a_fault(spelling: str) -> None:
    with pytest.raises(EvaluationError, match="is no number"):
        value("number(s)", s=spelling)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("concat(s, t)", "more than 10,000 characters"),
        ("replace(s, t, s)", "more than 10,000 characters"),
        ('join([s, s], ",")', "more than 10,000 characters"),
        ("upper(note)", "more than 10,000 characters"),
        ("characters(note)", "more than 10,000 items"),
        ("split(note, t)", "more than 10,000 items"),
        ('replace(s, "", t)', "looks for an empty string"),
        ('split(s, "")', "looks for an empty string"),
    ],
)
def test_what_grows_too_long_or_has_no_meaning_is_a_fault(expression: str, reason: str) -> None:
    with pytest.raises(EvaluationError, match=reason):
        value(expression, s="a" * STRING_LENGTH, t="a", note="a" * 1_000_000)


def test_long_texts_may_be_looked_into() -> None:
    note = "a" * 1_000_000 + "refund"
    assert value('contains(note, "refund") and ends_with(note, "refund")', note=note) is True
    assert value("len(note)", note=note) == 1_000_006


def test_mapped_strings_may_not_grow_past_the_cap_either() -> None:
    with pytest.raises(EvaluationError, match="more than 10,000 characters"):
        value("upper(s)", s="\u00df" * 6_000)  # becomes SS

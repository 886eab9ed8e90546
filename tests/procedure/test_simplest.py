"""The simplest form of an expression: equal in value, without signs and brackets that need not be there."""

from __future__ import annotations

from fractions import Fraction

import hypothesis.strategies as st
import pytest
from hypothesis import assume, event, given

from guard.errors import InvalidState
from guard.procedure.evaluate import compiled
from guard.procedure.functions import EvaluationError
from guard.procedure.nodes import Arithmetic, Call, Comparison, Expr, Literal, Logic, Negate, within
from guard.procedure.scope import Scope
from guard.procedure.simplest import simplest
from guard.procedure.text import text
from guard.procedure.types import DecimalType, IntType, PercentType, Value
from guard.trace.reread import expression

NUMBERS = (
    st.integers(-30, 30).map(lambda number: Literal(number, IntType()))
    | st.integers(-900, 900).map(lambda number: Literal(Fraction(number, 100), DecimalType(2)))
    | st.integers(-50, 50).map(lambda number: Literal(Fraction(number, 100), PercentType()))
)
CALCULATIONS: st.SearchStrategy[Expr] = st.recursive(
    NUMBERS,
    lambda part: (
        st.builds(Arithmetic, st.sampled_from(["+", "-", "*", "/", "div", "mod"]), part, part)
        | st.builds(Negate, part)
        | st.builds(lambda one: Call("abs", (one,)), part)
        | st.builds(lambda one, other: Call("min", (one, other)), part, part)
    ),
    max_leaves=9,
)
CONDITIONS = st.builds(
    Comparison, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), CALCULATIONS, CALCULATIONS
)
EXPRESSIONS = (
    CALCULATIONS | CONDITIONS | st.builds(Logic, st.sampled_from(["and", "or"]), CONDITIONS, CONDITIONS)
)


def value_of(expr: Expr) -> Value:
    found: Value = compiled(expr, Scope()).evaluate({})
    return found


@given(EXPRESSIONS)
def test_the_simplest_form_has_the_same_value_and_can_be_read(expr: Expr) -> None:
    try:
        right = value_of(expr)
    except (EvaluationError, InvalidState):  # it has no value, or is seen to have none: 1 / 0
        assume(False)
        raise
    made = simplest(expr)
    event(f"shorter: {len(text(made)) < len(text(expr))}")
    assert value_of(made) == right
    read = expression(text(made))
    assert read is not None
    assert value_of(read) == right
    assert simplest(made) == made


SUMS: st.SearchStrategy[Expr] = st.recursive(
    st.integers(-99, 99).map(lambda number: Literal(number, IntType())),
    lambda part: st.builds(Arithmetic, st.sampled_from("+-*"), part, part) | st.builds(Negate, part),
    max_leaves=9,
)


@given(SUMS)
def test_no_operand_of_a_sum_or_product_keeps_a_sign(expr: Expr) -> None:
    made = simplest(expr)
    inner = made.operand if isinstance(made, Negate) else made
    assume(isinstance(inner, Arithmetic))
    for part in within(inner):
        assert not isinstance(part, Negate)
        assert not (isinstance(part, Literal) and isinstance(part.value, int) and part.value < 0)
        if isinstance(part, Arithmetic) and part.op in "+-":
            assert not (isinstance(part.right, Arithmetic) and part.right.op in "+-"), "brackets in a sum"


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("136 - -68", "136 + 68"),
        ("-5 + 3", "3 - 5"),
        ("-5 - 3", "-(5 + 3)"),
        ("4 - (3 - 9)", "4 - 3 + 9"),
        ("1 - (2 - (3 - (4 - -5)))", "1 - 2 + 3 - 4 - 5"),
        ("-(3 - 5)", "5 - 3"),
        ("2 * -(3 - 5)", "2 * (5 - 3)"),
        ("-3 * -4 * -5", "-(3 * 4 * 5)"),
        ("3 * (4 * 5)", "3 * 4 * 5"),
        ("-5 < -3 + -4", "5 > 3 + 4"),
        ("min(4 - -1, 2)", "min(4 + 1, 2)"),
        ("abs(-4 - 1)", "abs(4 + 1)"),
        ("2026-06-01 + -3 days", "2026-06-01 - 3 days"),
        ("2026-06-01 - 2026-05-01", "2026-06-01 - 2026-05-01"),
        ("5 - (2026-06-01 - 2026-05-01)", "5 - (2026-06-01 - 2026-05-01)"),
        ("total - -due", "total + due"),
        ("sum(x * -2 for x in xs)", "sum(x * -2 for x in xs)"),
    ],
)
def test_signs_and_brackets_are_resolved(written: str, asked: str) -> None:
    expr = expression(written)
    assert expr is not None
    assert text(simplest(expr)) == asked


@pytest.mark.parametrize("written", ["1 +", "(" * 61 + "1" + ")" * 61, "1 = 2", "", " + ".join(["1"] * 200)])
def test_what_cannot_be_read_is_no_expression(written: str) -> None:
    assert expression(written) is None

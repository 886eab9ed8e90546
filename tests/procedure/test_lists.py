"""Functions of lists: against what Python makes of them, and where they have no value."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.procedure.evaluate import Compiled, compiled
from guard.procedure.functions import EvaluationError
from guard.procedure.lists import key_of
from guard.procedure.passes import Env
from guard.procedure.scope import Scope
from guard.procedure.types import DecimalType, FieldType, IntType, ListType, RecordType, StringType
from guard.procedure.values import LIST_LENGTH, equal
from tests.procedure.expressions import read

PAIR = RecordType((FieldType("word", StringType()), FieldType("n", IntType())), "Pair")
SCOPE = Scope(
    {
        "xs": ListType(IntType()),
        "ws": ListType(StringType()),
        "ps": ListType(PAIR),
        "ds": ListType(DecimalType(2)),
        "x": IntType(),
        "w": StringType(),
        "i": IntType(),
        "j": IntType(),
    }
)
small = st.integers(-5, 5)
words = st.sampled_from(["", "a", "B", "b", "ab", "\u00e9"])
ints = st.lists(small, max_size=8).map(tuple)
pairs = st.lists(st.fixed_dictionaries({"word": words, "n": small}), max_size=8).map(tuple)


@cache
def made(expression: str) -> Compiled:
    return compiled(read(expression), SCOPE)


def value(expression: str, **env: Any) -> Any:
    return made(expression).evaluate(dict(env))


def shown(expression: str, **env: Any) -> str:
    parts = compiled(read(expression), SCOPE).working(dict(env))
    return "".join(part if isinstance(part, str) else "_" for part in parts)


@given(ints, small)
def test_lists_are_what_python_makes_of_them(xs: tuple[int, ...], x: int) -> None:
    assert value("sort(xs)", xs=xs) == tuple(sorted(xs))
    assert value("reverse(xs)", xs=xs) == xs[::-1]
    assert value("append(xs, x)", xs=xs, x=x) == (*xs, x)
    assert value("concat(xs, [x], xs)", xs=xs, x=x) == (*xs, x, *xs)
    assert value("filter(y for y in xs if y > x)", xs=xs, x=x) == tuple(y for y in xs if y > x)
    assert value("[y * x for y in xs]", xs=xs, x=x) == tuple(y * x for y in xs)
    assert value("distinct(xs)", xs=xs) == tuple(dict.fromkeys(xs))
    assert value("position(xs, x)", xs=xs, x=x) == (xs.index(x) + 1 if x in xs else 0)
    assert value("len(xs)", xs=xs) == len(xs)


@given(pairs)
def test_a_sort_is_stable_in_both_directions(ps: tuple[dict[str, Any], ...]) -> None:
    assert value("sort(p for p in ps by p.n)", ps=ps) == tuple(sorted(ps, key=lambda p: p["n"]))
    falling = value("sort(p for p in ps by p.n desc)", ps=ps)
    assert [p["n"] for p in falling] == sorted((p["n"] for p in ps), reverse=True)
    for n in range(-5, 6):
        assert [p for p in falling if p["n"] == n] == [p for p in ps if p["n"] == n]
    assert value("sort(p.word for p in ps if p.n > 0 desc)", ps=ps) == tuple(
        sorted((p["word"] for p in ps if p["n"] > 0), reverse=True)
    )


@given(ints, st.integers(-1, 10), st.integers(-1, 10), small)
def test_places_count_from_one_and_others_are_faults(xs: tuple[int, ...], i: int, j: int, x: int) -> None:
    whole = list(xs)
    cases: dict[str, tuple[bool, Callable[[], Any]]] = {
        "at(xs, i)": (1 <= i <= len(xs), lambda: whole[i - 1]),
        "put(xs, i, x)": (1 <= i <= len(xs), lambda: (*xs[: i - 1], x, *xs[i:])),
        "insert(xs, i, x)": (1 <= i <= len(xs) + 1, lambda: (*xs[: i - 1], x, *xs[i - 1 :])),
        "slice(xs, i, j)": (1 <= i <= j + 1 and j <= len(xs), lambda: xs[i - 1 : j]),
        "first(xs)": (bool(xs), lambda: xs[0]),
        "last(xs)": (bool(xs), lambda: xs[-1]),
        "rest(xs)": (bool(xs), lambda: xs[1:]),
        "drop_last(xs)": (bool(xs), lambda: xs[:-1]),
    }
    for expression, (there, expected) in cases.items():
        if there:
            assert value(expression, xs=xs, i=i, j=j, x=x) == expected(), expression
        else:
            with pytest.raises(EvaluationError):
                value(expression, xs=xs, i=i, j=j, x=x)


@given(ints, small)
def test_putting_and_taking_away_undo_each_other(xs: tuple[int, ...], x: int) -> None:
    assert value("drop_last(append(xs, x))", xs=xs, x=x) == xs
    assert value("last(append(xs, x))", xs=xs, x=x) == x
    assert value("reverse(reverse(xs))", xs=xs) == xs
    for place in range(1, len(xs) + 2):
        assert value("at(insert(xs, i, x), i)", xs=xs, x=x, i=place) == x


@given(st.recursive(small | words | st.booleans(), lambda inner: st.lists(inner, max_size=3).map(tuple)))
def test_what_stands_for_a_value_is_equal_where_the_value_is(one: Any) -> None:
    for other in (one, (one,), 1, True, Fraction(1), "1"):
        assert (key_of(one) == key_of(other)) == equal(one, other)


@pytest.mark.parametrize("expression", ["append(xs, 1)", "concat(xs, [1])", "insert(xs, 1, 1)"])
def test_a_list_that_grows_too_long_is_a_fault(expression: str) -> None:
    longest = tuple(range(LIST_LENGTH - 1))
    assert len(value(expression, xs=longest)) == LIST_LENGTH
    with pytest.raises(EvaluationError, match="more than 10,000 items"):
        value(expression, xs=(*longest, 1))


def test_lists_gone_through_inside_one_another_too_often_are_a_fault() -> None:
    env: Env = {"xs": tuple(range(400))}
    expression = compiled(read("sum(sum(x * y for x in xs) for y in xs)"), SCOPE)
    assert expression.evaluate(env) == sum(range(400)) ** 2
    assert env.keys() == {"xs"}
    env = {"xs": tuple(range(600))}
    with pytest.raises(EvaluationError, match="more than 250,000 times"):
        expression.evaluate(env)
    assert env.keys() == {"xs"}


@pytest.mark.parametrize(
    ("expression", "working"),
    [
        ("at(xs, i) + 1", "7 + 1"),
        ("at(xs, i)", "at(xs, 2)"),
        ("last(xs) > first(xs)", "9 > 4"),
        ("at(ps, 1).n + 1", "3 + 1"),
        ("append(xs, at(xs, 1))", "append(xs, 4)"),
        ("first(ps)", "first(ps)"),
        ("[x * y for y in xs]", "[2 * 4, 2 * 7, 2 * 9]"),
        ("[p.word for p in ps]", '["a"]'),
        ("filter(y for y in xs if y > 4)", "filter(7, 9)"),
        ("sort(y for y in xs)", "sort(4, 7, 9)"),
        ("sort(y for y in xs by -y)", "sort(y for y in xs by -y)"),
        ("sort(y for y in xs desc)", "sort(y for y in xs desc)"),
        ("sort(p for p in ps by p.n desc)", "sort(p for p in ps by p.n desc)"),
        ("[p for p in ps if p.n > 1]", "[p for p in ps if p.n > 1]"),
        ("len([y for y in xs if y > 20])", "len([])"),
        ("first([10 / 3, 1]) + 1", "first([10 / 3, 1]) + 1"),
    ],
)
def test_items_stand_by_value_and_lists_by_name(expression: str, working: str) -> None:
    assert shown(expression, xs=(4, 7, 9), ps=({"word": "a", "n": 3},), i=2, x=2) == working

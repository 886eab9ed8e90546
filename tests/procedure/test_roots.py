"""Roots, powers and logarithms: rounded exactly, told apart from what they nearly are, and never slow."""

from __future__ import annotations

import time
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.procedure import roots
from guard.procedure.functions import EvaluationError
from guard.procedure.numbers import round_to
from guard.procedure.types import Rounding

HALF_UP = Rounding.HALF_UP
positive = st.builds(Fraction, st.integers(1, 10**9), st.integers(1, 10**6))
places = st.integers(0, 20)
modes = st.sampled_from(Rounding)

# Taylor's and Mercator's series in whole fractions: another way than the code's, with a bound of the error.
TERMS = 140


def _exp(x: Fraction) -> Fraction:
    """e to a power of at most 1 in size, to some 200 digits."""
    total, term = Fraction(0), Fraction(1)
    for n in range(1, TERMS):
        total += term
        term *= x / n
    return total


def _ln(x: Fraction) -> Fraction:
    """The logarithm of a number between 1/2 and 2, to some 100 digits."""
    ratio = (x - 1) / (x + 1)
    return 2 * sum((ratio ** (2 * n + 1) / (2 * n + 1) for n in range(TERMS)), Fraction(0))


@given(st.builds(Fraction, st.integers(-50, 50), st.just(50)), places, modes)
def test_the_exponential_is_that_of_its_series(x: Fraction, n: int, mode: Rounding) -> None:
    assert roots.exp(x, n, mode) == round_to(_exp(x), n, mode)


@given(st.builds(Fraction, st.integers(30, 90), st.just(50)), places, modes)
def test_the_logarithm_is_that_of_its_series(x: Fraction, n: int, mode: Rounding) -> None:
    assert roots.ln(x, n, mode) == round_to(_ln(x), n, mode)


@given(st.builds(Fraction, st.integers(0, 10**12), st.integers(1, 10**6)), places, modes)
def test_a_square_root_lies_between_its_neighbours(x: Fraction, n: int, mode: Rounding) -> None:
    found = Fraction(roots.sqrt(x, n, mode))
    step = Fraction(1, 10**n)
    below, above = max(found - step, Fraction(0)), found + step
    assert below**2 <= x <= above**2
    match mode:
        case Rounding.DOWN | Rounding.FLOOR:
            assert found**2 <= x
        case Rounding.UP | Rounding.CEILING:
            assert found**2 >= x
        case _:
            assert (found - step / 2) ** 2 <= x or found == 0
            assert x <= (found + step / 2) ** 2


@given(positive, places)
def test_logarithm_and_exponential_undo_each_other(x: Fraction, n: int) -> None:
    power = Fraction(roots.ln(x, 20, HALF_UP))
    assert abs(Fraction(roots.exp(power, 20, HALF_UP)) - x) <= x * Fraction(2, 10**20) + Fraction(1, 10**20)
    decades = Fraction(roots.log10(x, n, HALF_UP))
    assert abs(decades * roots.ln(10, 40, HALF_UP) - power) < Fraction(3, 10**n)


@given(
    st.tuples(st.integers(1, 60), st.integers(1, 12)), st.integers(-4, 4), st.integers(1, 3), places, modes
)
def test_perfect_powers_are_found_exactly(
    parts: tuple[int, int], p: int, q: int, n: int, mode: Rounding
) -> None:
    a, b = parts
    base = Fraction(a, b) ** q
    exact = Fraction(a, b) ** p
    assert roots.rounded_power(base, Fraction(p, q), n, mode) == round_to(exact, n, mode)


@given(positive, st.integers(0, 6))
def test_whole_powers_are_products(x: Fraction, k: int) -> None:
    product = Fraction(1)
    for _ in range(k):
        product *= x
    assert roots.power(x, k) == product


@pytest.mark.parametrize(
    ("found", "digits"),
    [
        (roots.exp(1, 40, HALF_UP), "2.7182818284590452353602874713526624977572"),
        (roots.ln(2, 40, HALF_UP), "0.6931471805599453094172321214581765680755"),
        (roots.log10(2, 20, HALF_UP), "0.30102999566398119521"),
        (roots.sqrt(2, 40, HALF_UP), "1.4142135623730950488016887242096980785697"),
        (roots.rounded_power(2, Fraction(1, 12), 20, HALF_UP), "1.05946309435929526456"),
        (roots.rounded_power(Fraction("1.0045"), 360, 10, HALF_UP), "5.0347601990"),
    ],
)
def test_known_constants(found: Any, digits: str) -> None:
    assert found == Fraction(digits)


@pytest.mark.parametrize("mode", Rounding)
def test_what_is_a_fraction_is_given_exactly(mode: Rounding) -> None:
    assert roots.sqrt(4, 2, mode) == 2
    assert roots.sqrt(Fraction("0.0625"), 2, mode) == Fraction("0.25")
    assert roots.exp(0, 5, mode) == 1
    assert roots.ln(1, 5, mode) == 0
    assert roots.log10(1000, 5, mode) == 3
    assert roots.log10(Fraction(1, 100), 5, mode) == -2
    assert roots.rounded_power(4, Fraction(1, 2), 5, mode) == 2
    assert roots.rounded_power(-2, -3, 3, mode) == Fraction("-0.125")
    assert roots.power(0, 0) == 1


def test_a_tie_is_seen_and_rounded_as_the_procedure_says() -> None:
    tie = Fraction("1.5") ** 2
    assert roots.sqrt(tie, 0, Rounding.HALF_EVEN) == 2
    assert roots.sqrt(Fraction("2.5") ** 2, 0, Rounding.HALF_EVEN) == 2
    assert roots.sqrt(Fraction("2.5") ** 2, 0, HALF_UP) == 3
    assert roots.rounded_power(Fraction("6.25"), Fraction(1, 2), 0, Rounding.HALF_EVEN) == 2
    assert roots.sqrt(Fraction("6.25") + Fraction(1, 10**40), 0, Rounding.HALF_EVEN) == 3


def test_what_is_hardly_there_is_rounded_to_its_side() -> None:
    step = Fraction(1, 10**20)
    assert roots.ln(1 + Fraction(1, 10**190), 20, Rounding.UP) == step
    assert roots.ln(1 - Fraction(1, 10**190), 20, Rounding.FLOOR) == -step
    assert roots.exp(-(10**9), 20, Rounding.CEILING) == step
    assert roots.exp(-(10**9), 20, HALF_UP) == 0
    assert roots.exp(Fraction(1, 10**150), 20, Rounding.UP) == 1 + step
    assert roots.rounded_power(9, -(10**9), 20, Rounding.UP) == step


HOSTILE = [
    lambda: roots.exp(10**9, 4, HALF_UP),
    lambda: roots.exp(10**199, 4, HALF_UP),
    lambda: roots.exp(-(10**199), 4, HALF_UP),
    lambda: roots.exp(460, 20, HALF_UP),
    lambda: roots.ln(Fraction(1, 10**40), 20, HALF_UP),
    lambda: roots.ln(1 + Fraction(1, 10**199), 20, Rounding.UP),
    lambda: roots.ln(0, 4, HALF_UP),
    lambda: roots.ln(-1, 4, HALF_UP),
    lambda: roots.log10(10**40 - 1, 20, Rounding.DOWN),
    lambda: roots.log10(0, 20, HALF_UP),
    lambda: roots.sqrt(10**40 - 1, 20, HALF_UP),
    lambda: roots.sqrt(Fraction(10**199 + 1, 10**199 - 3), 20, HALF_UP),
    lambda: roots.sqrt(-1, 2, HALF_UP),
    lambda: roots.power(9, 10**9),
    lambda: roots.power(Fraction("1.0045"), 360),
    lambda: roots.power(-1, 10**190 + 1),
    lambda: roots.power(2, -1),
    lambda: roots.rounded_power(9, 10**9, 4, HALF_UP),
    lambda: roots.rounded_power(1 + Fraction(1, 10**40), 10**39, 20, HALF_UP),
    lambda: roots.rounded_power(1 + Fraction(1, 10**190), Fraction(1, 10**190), 20, Rounding.UP),
    lambda: roots.rounded_power(10**199, Fraction(1, 10**9 + 7), 20, HALF_UP),
    lambda: roots.rounded_power(-8, Fraction(1, 3), 2, HALF_UP),
    lambda: roots.rounded_power(0, -1, 2, HALF_UP),
    lambda: roots.rounded_power(2**660, Fraction(659, 660), 2, HALF_UP),
]


@pytest.mark.parametrize("index", range(len(HOSTILE)))
def test_hostile_arguments_come_to_an_end_at_once(index: int) -> None:
    taken = []
    for _ in range(3):  # the fastest of three, since others use the machine as well
        start = time.process_time()
        try:
            HOSTILE[index]()
        except EvaluationError as fault:
            assert str(fault)  # noqa: PT017 (a fault is one of two right results here)
        taken.append(time.process_time() - start)
    assert min(taken) < 0.02


@given(st.integers(1, 10**6), st.integers(1, 400))
def test_whole_roots_agree_with_those_of_decimals(value: int, degree: int) -> None:
    found = roots.rounded_power(value, Fraction(1, degree), 10, Rounding.DOWN)
    context = Context(prec=60)
    near = context.exp(context.divide(context.ln(Decimal(value)), Decimal(degree)))
    assert abs(Fraction(near) - found) <= Fraction(1, 10**10)

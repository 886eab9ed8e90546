"""Roots, powers, logarithms: rounded exactly to a number of decimals, or refused before they grow.

Roots and whole powers are computed in whole numbers. The others are enclosed between two decimals that are
brought closer until both round to the same number (Ziv's strategy). That comes to an end because where the
result is a fraction it is found beforehand: by the theorems of Lindemann and of Gelfond and Schneider `exp`,
`ln` and `log10` of a fraction are no fractions elsewhere, and a power is one only where both its parts are
perfect powers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from math import isqrt
from typing import Final

from guard.procedure.functions import BITS, EvaluationError, bounded
from guard.procedure.numbers import Number, round_to
from guard.procedure.types import Rounding

DIGITS: Final = (60, 120, 250, 500, 1000)  # of the decimals of one enclosure after the other
EXACT_BITS: Final = 20_000  # of a whole power that is computed in full
LARGEST: Final = 461  # e to this power has more than 200 digits
EXPONENTS: Final = 10_000  # beyond those of every decimal that is met
HALF: Final = Fraction(1, 2)

Enclosure = Callable[[int], tuple[Fraction, Fraction]]  # from digits to two bounds of a result


def sqrt(value: Number, places: int, rounding: Rounding) -> Number:
    """Give the square root. Raises `EvaluationError` for a negative number."""
    if value < 0:
        raise EvaluationError("a negative number has no square root")
    scaled = Fraction(value) * 100**places
    below = isqrt(scaled.numerator // scaled.denominator)
    # The root lies between two neighbours, or on one of them: what stands for it lies there as well.
    return _placed(below, scaled, places, rounding)


def _placed(below: int, square: Fraction, places: int, rounding: Rounding) -> Number:
    if below * below == square:
        position = Fraction(below)
    else:
        middle = below + HALF
        step = {True: Fraction(1, 4), False: Fraction(3, 4)}[square < middle * middle]
        position = middle if square == middle * middle else below + step
    return round_to(position / 10**places, places, rounding)


def power(base: Number, exponent: int) -> Number:
    """Give a whole power, exactly. Raises `EvaluationError` where it grows out of all proportion."""
    if exponent < 0:
        raise EvaluationError(
            f"the exponent {_named(exponent)} is negative: give the decimals, as in pow(x, y, 4)"
        )
    if base in (0, 1, -1):
        return base**exponent if exponent < 2 else base ** (2 - exponent % 2)
    size = max(abs(base.numerator).bit_length(), base.denominator.bit_length()) - 1
    if size * exponent > BITS:
        raise EvaluationError("a number of more than 200 digits arose")
    return bounded(base**exponent)


def rounded_power(base: Number, exponent: Number, places: int, rounding: Rounding) -> Number:
    """Give a power to any exponent, rounded. Raises `EvaluationError` where there is none."""
    base, exponent = Fraction(base), Fraction(exponent)
    if base == 0 and exponent < 0:
        raise EvaluationError("division by zero: 0 to a negative power")
    if base < 0 and exponent.denominator != 1:
        raise EvaluationError("a negative number has no power to a fraction")
    if base == 0 or exponent == 0:
        return int(exponent == 0)
    odd = base < 0 and exponent.numerator % 2 == 1
    size, sign = abs(base), -1 if odd else 1
    tiny = _range_of(size, exponent, places)
    exact = tiny if tiny is not None else _exact_power(size, exponent)
    if exact is not None:
        return round_to(sign * exact, places, rounding)

    def enclosed(digits: int) -> tuple[Fraction, Fraction]:
        low, high = _logarithm(size, digits)
        ends = sorted((low * exponent, high * exponent))
        low, high = _exponential(ends[0], digits)[0], _exponential(ends[1], digits)[1]
        return (low, high) if sign > 0 else (-high, -low)

    return _decided(enclosed, places, rounding)


def _range_of(size: Fraction, exponent: Fraction, places: int) -> Fraction | None:
    """Give what stands for a power too small to be seen. Raises `EvaluationError` where it is too large."""
    low, high = _logarithm(size, 30)
    least, most = sorted((low * exponent, high * exponent))
    if least > LARGEST:
        raise EvaluationError("a number of more than 200 digits arose")
    return _tiny(most, places)


def _tiny(logarithm: Number, places: int) -> Fraction | None:
    """Give a number that rounds like one with a very small logarithm; None where it is not that small."""
    return Fraction(1, 10 ** (places + 3)) if logarithm < -3 * (places + 2) else None


def _exact_power(size: Fraction, exponent: Fraction) -> Fraction | None:
    """Give a power where that is a fraction of bearable size."""
    if size == 1:
        return size
    top, root = abs(exponent.numerator), exponent.denominator
    above, below = _whole_root(size.numerator, root), _whole_root(size.denominator, root)
    if above is None or below is None or max(above.bit_length(), below.bit_length()) * top > EXACT_BITS:
        return None
    found = Fraction(above, below) ** top
    return found if exponent > 0 else 1 / found


def _whole_root(value: int, degree: int) -> int | None:
    """Give the whole root of a positive number, None where there is none."""
    if degree == 1 or value == 1:
        return value
    if degree > value.bit_length():
        return None
    low, high = 1, 1 << (value.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**degree <= value:
            low = middle
        else:
            high = middle - 1
    return low if low**degree == value else None


def exp(value: Number, places: int, rounding: Rounding) -> Number:
    """Give e to a power. Raises `EvaluationError` where that has more than 200 digits."""
    if value == 0:
        return 1
    if value > LARGEST:
        raise EvaluationError("a number of more than 200 digits arose")
    tiny = _tiny(value, places)
    if tiny is not None:
        return round_to(tiny, places, rounding)
    return _decided(lambda digits: _exponential(Fraction(value), digits), places, rounding)


def ln(value: Number, places: int, rounding: Rounding) -> Number:
    """Give the natural logarithm. Raises `EvaluationError` where there is none."""
    _positive(value)
    if value == 1:
        return 0
    return _decided(lambda digits: _logarithm(Fraction(value), digits), places, rounding)


def log10(value: Number, places: int, rounding: Rounding) -> Number:
    """Give the logarithm to base 10. Raises `EvaluationError` where there is none."""
    _positive(value)
    whole, other = (value.numerator, 1) if value >= 1 else (value.denominator, -1)
    digits = len(str(whole)) - 1
    if Fraction(value) == Fraction(10) ** (other * digits):
        return other * digits
    return _decided(lambda most: _logarithm(Fraction(value), most, Context.log10), places, rounding)


def _positive(value: Number) -> None:
    if value <= 0:
        raise EvaluationError(f"only positive numbers have a logarithm, {'0' if value == 0 else 'it'} is not")


def _named(number: int) -> str:
    return str(number) if abs(number) < 10**40 else "given"


# --- enclosing -----------------------------------------------------------------------------------


def _decided(enclosed: Enclosure, places: int, rounding: Rounding) -> Number:
    for digits in DIGITS:
        low, high = (round_to(end, places, rounding) for end in enclosed(digits))
        if low == high:
            return low
    raise EvaluationError(f"{DIGITS[-1]} digits do not decide how the value is rounded")


def _logarithm(
    value: Fraction, digits: int, of: Callable[[Context, Decimal], Decimal] = Context.ln
) -> tuple[Fraction, Fraction]:
    low, high = _decimals(value, digits)
    context = _context(digits)
    return _wider(of(context, low), context)[0], _wider(of(context, high), context)[1]


def _exponential(value: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    low, high = _decimals(value, digits)
    context = _context(digits)
    return _wider(context.exp(low), context)[0], _wider(context.exp(high), context)[1]


def _decimals(value: Fraction, digits: int) -> Iterator[Decimal]:
    """Give the decimals of so many digits below and above a fraction."""
    for rounding in (ROUND_FLOOR, ROUND_CEILING):
        yield _context(digits, rounding).divide(Decimal(value.numerator), Decimal(value.denominator))


def _context(digits: int, rounding: str = ROUND_HALF_EVEN) -> Context:
    return Context(prec=digits, rounding=rounding, Emin=-EXPONENTS, Emax=EXPONENTS, traps=[])


def _wider(result: Decimal, context: Context) -> tuple[Fraction, Fraction]:
    # Each of these functions rounds its exact result correctly: it lies between the neighbours of that.
    if not result:  # whose neighbours are too close to be written as fractions
        return Fraction(-1, 10**context.prec), Fraction(1, 10**context.prec)
    return Fraction(context.next_minus(result)), Fraction(context.next_plus(result))

"""Divisions that come out even whatever is divided: by a constant such as 100, 8 or 0.25."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from guard.procedure.nodes import Arithmetic, Expr, Literal
from guard.procedure.numbers import decimals_of

MOST_MORE: Final = 20  # decimals that a division may add and still need no rounding


def places_of_share(expr: Expr) -> int | None:
    """Say how many decimals a division by a constant adds; None for any other that may have no end of them.

    A third of something has no end of decimals, an eighth has three more at most.
    """
    match expr:
        case Arithmetic(op="/", right=Literal(value=int() | Fraction() as divisor)) if divisor != 0:
            more = decimals_of((1 / Fraction(divisor)).denominator)
            return more if more is not None and more <= MOST_MORE else None
        case _:
            return None

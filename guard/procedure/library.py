"""All built-in functions by their names."""

from __future__ import annotations

from typing import Final

from guard.procedure import functions, lists, numerics, strings
from guard.procedure.functions import Function

FUNCTIONS: Final[dict[str, Function]] = {
    **functions.FUNCTIONS,
    **numerics.FUNCTIONS,
    **lists.FUNCTIONS,
    **strings.FUNCTIONS,
}

# Functions that hand on what they are given, so that a quotient stays as unrounded as it is.
PASSING: Final = frozenset({"min", "max", "sum", "abs", "list", *lists.FUNCTIONS, "concat", "slice"})

# Functions whose results are rounded in the procedure's way.
ROUNDING: Final = frozenset({"round", *numerics.FUNCTIONS})

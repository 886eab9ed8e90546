"""How much work something is: the calls that it makes, the same each time and on every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable


def calls(act: Callable[[], object]) -> int:
    """Count the calls, of functions in Python or not, while something is done."""
    count = 0

    def called(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        act()
    finally:
        sys.setprofile(before)
    return count

"""Numbers on a command line: each has a least and a most that make sense, and a message says which."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final

from guard.cli.terminal import cut
from guard.run.varying import SEEDS

MOST_SEED: Final = SEEDS - 1

_LONGEST: Final = 40  # characters of a number
_ROUNDED: Final = 0.011  # so that three times 0.33 is all


def whole(least: int, most: int) -> Callable[[str], int]:
    """Give what reads a whole number from `least` to `most`."""

    def read(text: str) -> int:
        value = int(text) if _spelled(text) and text.removeprefix("-").isdigit() else None
        if value is None or not least <= value <= most:
            raise argparse.ArgumentTypeError(f"expected {least} to {most}, found {_shown(text)}")
        return value

    return read


def number(least: float, most: float) -> Callable[[str], float]:
    """Give what reads a number from `least` to `most`, both finite."""

    def read(text: str) -> float:
        try:
            value = float(text) if _spelled(text) else None
        except ValueError:
            value = None
        if value is None or not least <= value <= most:  # which no comparison with `nan` is
            raise argparse.ArgumentTypeError(
                f"expected a number from {least:g} to {most:,.0f}, found {_shown(text)}"
            )
        return value

    return read


chance = number(0, 1)


def shares(text: str, names: tuple[str, ...]) -> dict[str, float]:
    """Read `a=0.7,b=0.2,c`: each of some names once, with its share of 1 or of what is left."""
    said: dict[str, float | None] = {}
    for part in text.split(","):
        name, given, share = part.strip().partition("=")
        if name not in names or name in said:
            raise argparse.ArgumentTypeError(
                f"expected kinds, each once, of {', '.join(names)}; found {_shown(name)}"
            )
        said[name] = chance(share) if given else None
        if said[name] == 0:
            raise argparse.ArgumentTypeError(f"expected a share above 0 of {name}, or to leave it out")
    taken = sum(share for share in said.values() if share is not None)
    open_ = sum(share is None for share in said.values())
    if taken >= 1 - _ROUNDED if open_ else abs(taken - 1) > _ROUNDED:
        wanted = "less than 1, since some have none" if open_ else "1"
        raise argparse.ArgumentTypeError(f"expected shares that add up to {wanted}, found {taken:g}")
    return {name: (1 - taken) / open_ if share is None else share for name, share in said.items()}


def _spelled(text: str) -> bool:
    """Whether a text is one that people write as a number: no other digits, no `1_000`."""
    return text.isascii() and "_" not in text and len(text) <= _LONGEST


def _shown(text: str) -> str:
    return cut(repr(text), _LONGEST)

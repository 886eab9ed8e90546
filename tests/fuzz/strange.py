"""Strange texts for every parser: whether it says what it may, in time, and keeps nothing."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import process_time
from typing import Final

from tests.fuzz.mutations import mutated
from tests.fuzz.parsers import DOCUMENTED, Parser

SECOND: Final = 1.0  # of processor time for one text
AGAIN: Final = 2  # times that a slow text is read once more: what is slow is slow each time
GROWTH: Final = 96 * 1024 * 1024  # bytes, over all texts of one parser
WARM: Final = 0.3  # share of the texts after which caches are full
_PAGE: Final = 4096
_SHOWN: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddity:
    """What a parser did with a text, and may not. `seed` makes the text again."""

    parser: str
    seed: int
    what: str
    text: bytes

    def __str__(self) -> str:
        begun = self.text[:_SHOWN]
        return f"{self.parser}, seed {self.seed}: {self.what}\n  {len(self.text)} bytes: {begun!r}"


def strange(parser: Parser, seeds: Iterable[int], *, second: float = SECOND) -> list[Oddity]:
    """Let a parser read strange texts; give what is wrong. `second` is what one may take of processor time."""
    found: list[Oddity] = []
    seeds = list(seeds)
    settled = 0
    for count, seed in enumerate(seeds):
        text = text_of(parser, seed)
        what = _read(parser, seed, text, second)
        if what:
            found.append(Oddity(parser=parser.name, seed=seed, what=what, text=text))
        if count == int(len(seeds) * WARM):
            settled = _resident()
    grown = _resident() - settled
    if grown > GROWTH:
        found.append(Oddity(parser=parser.name, seed=seeds[-1], what=f"{grown} bytes are kept", text=b""))
    return found


def text_of(parser: Parser, seed: int) -> bytes:
    """The text of a seed."""
    return mutated(parser.corpus(), Random(f"{parser.name} {seed}"))


def _read(parser: Parser, seed: int, text: bytes, second: float) -> str:
    """Let a parser read a text; say what is wrong, "": nothing."""
    wrong, spent = _once(parser, seed, text)
    for _ in range(AGAIN if spent > second else 0):
        spent = min(spent, _once(parser, seed, text)[1])
    return wrong or (f"takes {spent:.1f} s" if spent > second else "")


def _once(parser: Parser, seed: int, text: bytes) -> tuple[str, float]:
    began, wrong = process_time(), ""
    try:
        parser.read(text, Random(f"read {seed}"))
    except DOCUMENTED as error:
        wrong = "" if str(error) else f"{type(error).__name__} says nothing"
    except Exception as error:  # noqa: BLE001 (whatever it is, it is to be reported)
        place = traceback.extract_tb(error.__traceback__)[-1]
        wrong = f"{type(error).__name__} at {place.filename}:{place.lineno}: {str(error)[:200]}"
    return wrong, process_time() - began


def _resident() -> int:
    """The memory of this process in bytes, without what is only not yet freed."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * _PAGE

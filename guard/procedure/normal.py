"""Unicode's normal forms of text that others wrote, in time that grows with its length and no faster.

Normalising sorts the marks after each character, in quadratic time. As Unicode's Stream-Safe Text Format
(UAX #15) has it, no more than 30 marks are let stand in a row: a joiner that shows nothing is put after each
30th.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final, Literal
from unicodedata import combining, normalize

MARKS: Final = 30  # in a row
JOINER: Final = "\N{COMBINING GRAPHEME JOINER}"  # which no mark is moved across
LAST_MARK: Final = 0x1FFFF  # after it no character is a mark
PLANE: Final = 0xFFFF  # up to it a character is found in a set by one look

APART: Final = "\u0f73\u0f75\u0f81\uff9e\uff9f"  # no marks themselves, they come apart into some

_SEVERAL: Final = re.compile("[\u0344\u0f73\u0f75\u0f81]")  # each stands for two marks, in every normal form


def normal(text: str, form: Literal["NFC", "NFKD"] = "NFC") -> str:
    """Give a text in a normal form. All text that is compared with other text goes through here."""
    if text.isascii():
        return text
    text = _SEVERAL.sub(lambda mark: normalize("NFD", mark[0]), text)
    runs = _runs()
    return normalize(form, runs.maybe.sub(lambda run: runs.sure.sub(rf"\g<0>{JOINER}", run[0]), text))


@dataclass(frozen=True, slots=True)
class _Runs:
    """Finds runs of marks that are too long.

    `sure`: 30 marks that another one follows. Some marks stand beyond the first plane, and whatever is none
    is compared with each of their ranges; so `maybe` is sought first, which takes all from the first to the
    last of those for marks, and a twentieth of the time.
    """

    maybe: re.Pattern[str]
    sure: re.Pattern[str]


@cache
def _runs() -> _Runs:
    characters = map(chr, range(LAST_MARK))
    marks = [ord(char) for char in characters if combining(char) or char in APART]
    near, far = [code for code in marks if code <= PLANE], [code for code in marks if code > PLANE]
    maybe, sure = f"{_ranges(near)}{chr(far[0])}-{chr(far[-1])}", _ranges(marks)
    return _Runs(
        maybe=re.compile(f"[{maybe}][{maybe}]{{{MARKS},}}"),
        sure=re.compile(f"[{sure}]{{{MARKS}}}(?=[{sure}])"),
    )


def _ranges(codes: Sequence[int]) -> str:
    """Give ascending characters as a set of a pattern has them."""
    gaps = [(left, right) for left, right in pairwise(codes) if right != left + 1]
    firsts, lasts = [codes[0], *(right for _, right in gaps)], [*(left for left, _ in gaps), codes[-1]]
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in zip(firsts, lasts, strict=True))

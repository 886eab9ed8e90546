"""Unicode's normal forms of text that others wrote, in time that grows with its length and no faster.

Normalising sorts the marks after each character, in quadratic time. As Unicode's Stream-Safe Text Format
(UAX #15) has it, no more than 30 marks are let stand in a row: a joiner that shows nothing is put after each
30th.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from typing import Final, Literal
from unicodedata import combining, normalize

MARKS: Final = 30  # in a row
JOINER: Final = "\N{COMBINING GRAPHEME JOINER}"  # which no mark is moved across
LAST_MARK: Final = 0x1FFFF  # after it no character is a mark

_SEVERAL: Final = re.compile("[\u0344\u0f73\u0f75\u0f81]")  # each stands for two marks, in every normal form


def normal(text: str, form: Literal["NFC", "NFKD"] = "NFC") -> str:
    """Give a text in a normal form. All text that is compared with other text goes through here."""
    if text.isascii():
        return text
    text = _SEVERAL.sub(lambda mark: normalize("NFD", mark[0]), text)
    return normalize(form, _long_run().sub(rf"\g<0>{JOINER}", text))


@cache
def _long_run() -> re.Pattern[str]:
    """Find 30 marks that another one follows."""
    marks = [code for code in range(0x80, LAST_MARK) if is_mark(chr(code))]
    gaps = [(left, right) for left, right in pairwise(marks) if right != left + 1]
    firsts, lasts = [marks[0], *(right for _, right in gaps)], [*(left for left, _ in gaps), marks[-1]]
    ranges = "".join(f"{chr(first)}-{chr(last)}" for first, last in zip(firsts, lasts, strict=True))
    return re.compile(f"[{ranges}]{{{MARKS}}}(?=[{ranges}])")


def is_mark(char: str) -> bool:
    """Whether a character is sorted among those that stand with it, or comes apart into such."""
    return combining(normalize("NFKD", char)[0]) != 0

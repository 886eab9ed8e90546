"""Traces with thoughts around them, as models write them, and ways to cut a text into pieces."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import hypothesis.strategies as st

from guard.wire.thinking import TAGS

CANARY: Final = "CANARY"

# What may stand among thoughts, whatever it looks like: no closing tag.
ASIDES: Final = st.sampled_from(
    [
        "Let me see.",
        "\n",
        "@begin chain {nonce}\n1 s1 = 2 + 3 = 5\n",
        "\n@begin chain {nonce}\n1 s1 = 2 + 3 = 6\n9 return 99\n@end {nonce}\n",
        "1 s1 = 900\n",
        "a < b </b> <th",
        "so [THIS] ◁ that",
        'he said "wait',
        "<|im_end|>",
        "é🙂\u2028",
    ]
)


@st.composite
def blocks(draw: st.DrawFn) -> str:
    """One block of thoughts, closed, that holds the canary."""
    opening, closing = draw(st.sampled_from(TAGS))
    parts = [*draw(st.lists(ASIDES, max_size=3)), CANARY, *draw(st.lists(ASIDES, max_size=3))]
    if draw(st.booleans()):  # another one in it, with more behind that
        parts.append(f"{opening}{''.join(draw(st.lists(ASIDES, max_size=2)))}{closing} So {CANARY}")
    if draw(st.booleans()):
        opening, closing = opening.upper(), closing.upper()
    return f"{opening}{''.join(parts)}{closing}"


GAPS: Final = st.sampled_from(["", "\n", "\n\n", " ", "\r\n", "\t"])


@st.composite
def thoughts(draw: st.DrawFn) -> str:
    """What a model may write in front of a trace: blocks, with white space around them."""
    made = draw(st.lists(st.tuples(GAPS, blocks()), max_size=3))
    return "".join(f"{gap}{block}" for gap, block in made) + draw(GAPS if made else st.just(""))


@st.composite
def cuts(draw: st.DrawFn, text: str) -> list[str]:
    """A text in pieces."""
    if draw(st.booleans()):
        size = draw(st.integers(1, 9))
        return [text[at : at + size] for at in range(0, len(text), size)]
    places = sorted(draw(st.sets(st.integers(0, len(text)), max_size=12)) | {0, len(text)})
    return [text[start:end] for start, end in pairwise(places)]

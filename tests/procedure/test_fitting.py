"""How far tokens fit the grammar is the same however much of them was gone through before."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.errors import ProcedureError
from guard.procedure.fitting import Fitting
from guard.procedure.load import load
from guard.procedure.syntax import MAX_PROBLEMS, grammar, words
from tests.work import calls

ROOT: Final = Path(__file__).parent.parent.parent
TOKENS: Final = list(words((ROOT / "examples/income_tax/income_tax.proc").read_text("utf-8")))


@st.composite
def edits(draw: st.DrawFn) -> tuple[int, int, int, int]:
    """What a piece of tokens is replaced by: another piece of the same file."""
    place, at = draw(st.integers(0, len(TOKENS))), draw(st.integers(0, len(TOKENS)))
    return place, draw(st.integers(0, 5)), at, draw(st.integers(0, 5))


@given(st.lists(edits(), max_size=5), st.booleans())
def test_tokens_that_change_fit_as_far_as_new_ones(
    made: list[tuple[int, int, int, int]], ended: bool
) -> None:
    fitting = Fitting(grammar())
    tokens = list(TOKENS)
    assert fitting.fit(tokens).whole
    for place, gone, at, put in made:
        tokens[place : place + gone] = TOKENS[at : at + put]
        assert fitting.fit(tokens, ended=ended) == Fitting(grammar()).fit(list(tokens), ended=ended)


MISTAKES: Final = {
    "a line that cannot be read": "  return {{ b{0}: a, tly => 29200\n",
    "a bracket that is not closed": "  b{0} = (a + {0}\n",
    "a block that belongs to nothing": "    b{0} = a\n",
    "a header without a block": "  if a > {0}\n",
    "a sign too many": "  b{0} = = a\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_file_with_many_mistakes_is_gone_through_about_once(mistake: str) -> None:
    def text(mistakes: int) -> str:
        lines = [f"  x{place} = a + {place}\n" for place in range(1_000)]
        for place in range(mistakes):
            lines[40 * place + 39] += MISTAKES[mistake].format(place)
        return f"procedure p(a: int) -> int\n{''.join(lines)}  return a\n"

    def reading(source: str) -> int:
        def act() -> None:
            with suppress(ProcedureError):
                load(source)

        return calls(act)

    reading(text(1))  # which compiles the grammar
    assert reading(text(MAX_PROBLEMS)) < 2 * reading(text(0))

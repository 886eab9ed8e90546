"""Texts from several places: no character is lost, and each place begins on a line of its own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from guard.wire.apart import Apart

PIECES = st.lists(st.tuples(st.sampled_from([None, 0, 1]), st.text("ab\n", max_size=3)))


@given(PIECES)
def test_each_place_begins_on_a_line_of_its_own(pieces: list[tuple[int | None, str]]) -> None:
    apart, text, last = Apart(), "", None
    for place, piece in pieces:
        assert apart.nothing is (not text)
        added = apart.join(place, piece)
        if piece and text and place != last and not text.endswith("\n"):
            assert added == f"\n{piece}"
        else:
            assert added == piece
        text, last = text + added, place if piece else last

"""What a violation quotes: one can always see how what was found differs from what was expected."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from guard.check.verdict import SHOWN, shown_apart

TEXTS = st.text(max_size=30) | st.sampled_from(["another text", "something else", "\x0b", "\\x0b"])


@given(begun=st.sampled_from(["", "x" * 150, "1 a = 3\x0b" * 60]), one=TEXTS, other=TEXTS)
def test_expected_and_found_always_differ_and_are_short_and_on_one_line(
    begun: str, one: str, other: str
) -> None:
    expected, found = shown_apart(begun + one, begun + other)
    assert expected != found
    for text in (expected, found):
        assert len(text) <= SHOWN
        assert text.isprintable()


@pytest.mark.parametrize(
    ("expected", "found", "shown"),
    [
        ("29 * 3", "29 * 4", ("29 * 3", "29 * 4")),
        (
            f"{'7 + ' * 60}1",
            f"{'7 + ' * 60}2",
            (f"…{'7 + ' * 10}1", f"…{'7 + ' * 10}2"),
        ),
        ("no quote", "no quote", ("another text", "no quote")),
        ("another text", "another text", ("something else", "another text")),
    ],
)
def test_they_are_shown_from_shortly_before_where_they_differ(
    expected: str, found: str, shown: tuple[str, str]
) -> None:
    assert shown_apart(expected, found) == shown

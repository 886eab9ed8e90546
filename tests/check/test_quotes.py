"""Quotes and their sources."""

from __future__ import annotations

import pytest

from guard.check.quotes import Sources
from guard.procedure.expected import Decision
from guard.procedure.types import IntType


def decision(*texts: str) -> Decision:
    sources = tuple((f"source{index}", text) for index, text in enumerate(texts))
    return Decision(type=IntType(), sources=sources, quote=True, admissible=lambda _: None)


@pytest.mark.parametrize(
    "quote",
    ["twelve hinges", " twelve \t\n hinges ", "Twelve", "twelve\u2003hinges", "cafe\u0301", "caf\u00e9", "."],
)
def test_white_space_and_composition_do_not_matter(quote: str) -> None:
    assert Sources().has(decision("Twelve. I mean twelve\r\n\r\nhinges for the cafe\u0301"), quote)


@pytest.mark.parametrize("quote", ["", " ", "\n", "TWLV", "twlvhings", "hings twlv", "cafe", "e"])
def test_everything_else_does(quote: str) -> None:
    assert not Sources().has(decision("twlv hings caf\u0065\u0301, two"), quote)


def test_a_quote_may_come_from_any_source_but_not_from_two() -> None:
    sources = Sources()
    two = decision("one two", "three four")
    assert sources.has(two, "one two")
    assert sources.has(two, "four")
    assert not sources.has(two, "two three")


def test_without_a_source_there_is_nothing_to_quote() -> None:
    assert not Sources().has(decision(), "x")

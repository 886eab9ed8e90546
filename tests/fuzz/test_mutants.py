"""The harness finds what is wrong: each of these guards has one thing wrong in it, and is found out."""

from __future__ import annotations

from typing import Final

import pytest

from tests.fuzz.campaign import campaign
from tests.fuzz.mutants import MUTANTS
from tests.fuzz.scenario import forget

WITHIN: Final = 1_000  # runs
QUICKLY: Final = ("a line feed is lost", "an attempt too many", "what is held leaves step by step")


def found_at(name: str) -> int | None:
    """The first seed whose run shows what is wrong with a guard."""
    forget()
    with MUTANTS[name]():
        found = next((seed for seed in range(WITHIN) if campaign([seed]).failures), None)
    forget()
    return found


def found(name: str) -> None:
    """A guard is found out, and by something that the right one does right."""
    seed = found_at(name)
    assert seed is not None, f"{WITHIN} runs have not shown that {name}"
    assert campaign([seed]).failures == []


@pytest.mark.parametrize("name", QUICKLY)
def test_is_found_at_once(name: str) -> None:
    found(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MUTANTS.keys() - set(QUICKLY)))
def test_is_found(name: str) -> None:
    found(name)


def test_there_are_enough_of_them() -> None:
    assert len(MUTANTS) >= 10

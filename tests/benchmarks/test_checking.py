"""What must hold on any machine: memory and growth; and that checking stays well ahead of Lark."""

from __future__ import annotations

from tests.benchmarks.checking import growth, memory, speedup


def test_a_live_checker_takes_less_than_64_kib() -> None:
    assert memory() < 64 * 1024


def test_checking_is_linear_in_the_steps() -> None:
    assert growth(500) < 2.6  # short, so that times are rough


def test_checking_in_pieces_stays_far_ahead_of_lark_by_line() -> None:
    assert speedup() > 4  # on a busy machine

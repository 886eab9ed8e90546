"""What the benchmark measures that is the same on every machine: memory. Times are only printed."""

from __future__ import annotations

from tests.benchmarks.checking import memory


def test_a_live_checker_takes_less_than_64_kib() -> None:
    assert memory() < 64 * 1024

"""A sample in three numbers."""

from __future__ import annotations

import math
import statistics

import hypothesis.strategies as st
from hypothesis import given

from guard.bench.spread import spread

SAMPLES = st.lists(st.integers(-1000, 1000), min_size=2, max_size=60)


@given(SAMPLES)
def test_it_is_what_the_textbook_says(sample: list[int]) -> None:
    found = spread(sample)
    assert math.isclose(found.mean, statistics.fmean(sample), abs_tol=1e-9)
    assert math.isclose(found.error, statistics.stdev(sample) / math.sqrt(len(sample)), abs_tol=1e-9)


@given(SAMPLES)
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(sample: list[int]) -> None:
    found = spread(sample)
    for value, share in ((found.p50, 0.5), (found.p95, 0.95)):
        assert sum(other <= value for other in sample) >= share * len(sample)
        assert sum(other < value for other in sample) < share * len(sample)


def test_one_value_has_no_spread() -> None:
    assert spread([7]).to_json() == {"mean": 7, "p50": 7, "p95": 7}
    assert spread([7]).error == 0

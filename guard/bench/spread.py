"""Many outcomes of the same thing in three numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

HALF: Final = 0.5
MOST: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The mean of a sample, its median and its 95th percentile; `error` is the standard error of the mean."""

    mean: float
    p50: float
    p95: float
    error: float

    def to_json(self) -> dict[str, float]:
        """Give the three numbers by their names."""
        return {"mean": self.mean, "p50": self.p50, "p95": self.p95}


def spread(sample: Iterable[float]) -> Spread:
    """Sum a sample up. Percentiles are values that occur in it (nearest rank). It must not be empty."""
    values = sorted(sample)
    count = len(values)
    mean = math.fsum(values) / count
    variance = math.fsum((value - mean) ** 2 for value in values) / max(1, count - 1)
    return Spread(
        mean=mean,
        p50=values[math.ceil(HALF * count) - 1],
        p95=values[math.ceil(MOST * count) - 1],
        error=math.sqrt(variance / count),
    )

"""Random runs deliver what an oracle says they may, and leave out no member of a closed set: the second half of 5,000."""

from __future__ import annotations

import pytest

from tests.fuzz import drawn
from tests.fuzz.campaign import campaign


@pytest.mark.slow
def test_the_second_half() -> None:
    report = campaign(range(2_500, 5_000))
    assert report.failures == []
    assert drawn.never(report.tally) == []

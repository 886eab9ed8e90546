"""No request, answer or procedure keeps a server to itself: the worst that is known, seen from a second process.

Held to ten times what is claimed, and the best of several tries counts, so that no load of a machine makes it
fail: the readers that it is about took from half a second to half a minute where they were quadratic.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.benchmarks.lag import cases, measure

TRIES = 3
MOST_S = 0.5  # ten times what is claimed
WORST = (
    "one message of 3.9 MB",
    "quotation marks, policy watched",
    "a source of 200,000 characters",
    "a source beyond the first plane",
    "a source of combining marks",
    "700,000 numbers",
    "the same as a stream",
    "long quote of numbers",
    "long quote of no end of a word",
    "1 MB of tags, from generic, policy default",
    "1 MB of short lines in one event, from generic, policy free",
    "a line of equations, from generic, policy watched",
    "members of an object, from vllm, policy default",
    "an error body of 2 MB, from openai, policy default",
)


@pytest.mark.slow
def test_a_server_answers_others_while_it_does_the_worst(tmp_path: Path) -> None:
    chosen = [case for case in cases() if case.name in WORST]
    assert {case.name for case in chosen} == set(WORST)

    async def best() -> dict[str, tuple[float, float]]:
        found = dict.fromkeys(WORST, (float("inf"), float("inf")))
        async for lag in measure(str(tmp_path), chosen * TRIES):
            worked, waited = found[lag.name]
            found[lag.name] = min(worked, lag.worked_s), min(waited, lag.waited_s)
        return found

    slow = {name: times for name, times in asyncio.run(best()).items() if max(times) > MOST_S}
    assert not slow

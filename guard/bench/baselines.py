"""What other ways of using the same model would come to: drawn directly, without a run.

    unguarded  every step once; right if all are
    restart    a perfect check after each step, from the first step again at a wrong one
    resume     the same, from the last right step again
    voting     no check: each step asked for until one value is ahead by k votes (arXiv:2511.09030, with one
               step an agent; all wrong votes are taken to be for the same value, which is the worst case)

A step that only the model can decide is checked by nothing here either: its wrong value stands.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from random import Random
from typing import Final

from guard.bench.chances import Chance, Chances, Decides

GIVEN_UP: Final = 1_000  # attempts of one request, after which it counts as failed
AHEAD: Final = 3  # where no number of votes is enough
MOST_AHEAD: Final = 10
SURE: Final = 0.999  # the success that voting is set up for


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One request. `attempts` are the generations, of voting the votes; `steps` the lines written."""

    success: bool
    steps: int
    attempts: int


def baselines(chances: Chances) -> Mapping[str, Callable[[Random], Drawn]]:
    """Give a function for each baseline that draws one request."""
    return {
        "unguarded": partial(_unguarded, chances),
        "restart": _restart(chances),
        "resume": partial(_resume, chances),
        "voting": partial(_voting, chances, ahead(chances)),
    }


def ahead(chances: Chances, sure: float = SURE) -> int:
    """Give the votes that a value must be ahead by for such a chance that all steps are right.

    Of one like-minded step it is k = ceil(ln(sure^(-1/n) - 1) / ln((1 - p) / p)); `AHEAD` where no
    number up to `MOST_AHEAD` is enough.
    """
    for k in range(1, MOST_AHEAD + 1):
        if math.prod(voted(chance.p, k) for chance in chances) >= sure:
            return k
    return AHEAD


def voted(p: float, k: int) -> float:
    """Give the chance that the right value is ahead by k first: 1 / (1 + ((1 - p) / p)^k)."""
    return 0.0 if p == 0 else 1 / (1 + ((1 - p) / p) ** k)


def _unguarded(chances: Chances, random: Random) -> Drawn:
    right = all(random.random() < chance.p for chance in chances)
    return Drawn(success=right, steps=len(chances), attempts=1)


def _restart(chances: Chances) -> Callable[[Random], Drawn]:
    # The chance that all checked steps up to the one with such an index are right.
    found = list(accumulate((_checked(chance) for chance in chances), lambda sofar, p: sofar * p))
    unseen = math.prod(chance.p for chance in chances if chance.kind is Decides.JUDGE)
    falling = [-chance for chance in found]

    def draw(random: Random) -> Drawn:
        steps = 0
        for attempt in range(1, GIVEN_UP + 1):
            first_wrong = bisect_right(falling, -random.random())
            if first_wrong == len(chances):
                success = random.random() < unseen
                return Drawn(success=success, steps=steps + len(chances), attempts=attempt)
            steps += first_wrong + 1
        return Drawn(success=False, steps=steps, attempts=GIVEN_UP)

    return draw


def _checked(chance: Chance) -> float:
    return 1.0 if chance.kind is Decides.JUDGE else chance.p


def _resume(chances: Chances, random: Random) -> Drawn:
    steps, attempts, success = 0, 1, True
    for chance in chances:
        steps += 1
        if random.random() < chance.p:
            continue
        if chance.kind is Decides.JUDGE:
            success = False
            continue
        while attempts < GIVEN_UP:
            attempts += 1
            steps += 1
            if random.random() < chance.again:
                break
        else:
            return Drawn(success=False, steps=steps, attempts=attempts)
    return Drawn(success=success, steps=steps, attempts=attempts)


def _voting(chances: Chances, k: int, random: Random) -> Drawn:
    votes, success = 0, True
    for chance in chances:
        lead = 0
        while abs(lead) < k:
            lead += 1 if random.random() < chance.p else -1
            votes += 1
        success = success and lead > 0
    return Drawn(success=success, steps=votes, attempts=votes)

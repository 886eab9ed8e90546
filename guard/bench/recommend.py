"""From what was measured to a policy: simple rules, and what the policy would come to by simulation.

The reference is a procedure of 95 steps that can be computed, as different as those that were measured.

    force, force_by  the level at which most first tries were right; line by line where that is clearly better
                     than a grammar, or there is none.
    compute          `guard` where even there more than one step in twenty would have to be repaired: the
                     model only decides.
    attempts_per_step  the least number r of retries with which 99 % of the requests need no other action,
                     (1 - e e'^r)^95 >= 0.99 with the chances e of a wrong first try and e' of a wrong retry;
                     at most 3: what three retries do not mend, a fourth seldom does.
    rules            operands are given before, after or never, as scaffolded lines do better than retries.
    votes            where what only the model decides is right in 50 to 98 %: the least number k of votes
                     ahead with which it is right in 98 %.
    tolerant         where no grammar holds the format and the model adds prose.
    attempts, output_tokens, seconds   twice what 95 of 100 simulated requests take, at least the defaults.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any, Final

from guard.bench.baselines import voted
from guard.bench.chances import Chance, Chances
from guard.bench.measured import Measured, Seen, Way
from guard.bench.player import Habits, Pace
from guard.bench.simulate import Scenario, Simulation, simulate
from guard.bench.tasks import DECIDED, Skill
from guard.config.policies import PolicySettings
from guard.run.policy import ForceBy
from guard.upstream.abilities import Ability

STEPS: Final = 95
RUNS: Final = 300
MOST_RETRIES: Final = 3
SURE: Final = 0.99
REPAIRS: Final = 0.05  # of the steps, above which the guard had better write them all
DECIDED_WELL: Final = 0.98
MOST_AHEAD: Final = 5
IN_FORMAT: Final = 0.9
CLEARLY: Final = 0.1  # so much more often right is better


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """A policy: its keys, why each is as it is, and what it would come to.

    `decided` is the chance that one value is right that only the model decides, None where none was seen.
    """

    keys: Mapping[str, Any]
    reasons: Mapping[str, str]
    seen: Seen  # what it goes by
    expected: Simulation
    steps: int
    decided: float | None


def recommend(measured: Measured, *, steps: int = STEPS, runs: int = RUNS, seed: int = 1) -> Recommendation:
    """Choose a policy. The same measurements give the same one."""
    seen = _best(measured)
    keys: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for key, value, reason in _choices(measured, seen, steps):
        keys[key], reasons[key] = value, reason
    scenario = replace(_scenario(measured, seen, steps), runs=runs, seed=seed)
    roomy = replace(PolicySettings(**keys).policy, attempts=1000, output_tokens=10**9, seconds=1e9)
    for key, value, reason in _limits(simulate(roomy, scenario, beside=False), steps):
        keys[key], reasons[key] = value, reason
    return Recommendation(
        keys=keys,
        reasons=reasons,
        seen=seen,
        expected=simulate(PolicySettings(**keys).policy, scenario, beside=False),
        steps=steps,
        decided=_decisions(seen, keys),
    )


def _best(measured: Measured) -> Seen:
    """Find what most first tries were right with, of equal ones the more that is given.

    Only kinds of steps count that the model wrote in every way. Lines take a request each: where there is a
    grammar they must be clearly better than it.
    """
    shared = [
        skill for skill in measured.seen[0].computed if all(skill in one.skills for one in measured.seen)
    ]
    best = max(reversed(measured.seen), key=lambda seen: _first_tries(seen, shared))
    last = measured.seen[-1]  # the grammar, if there is one
    if best.by is ForceBy.LINES and last.by is not ForceBy.LINES:
        return best if _first_tries(best, shared) > _first_tries(last, shared) + CLEARLY else last
    return best


def _first_tries(seen: Seen, skills: Sequence[Skill] | None = None) -> float:
    """Give the mean chance of a right first try over the kinds of steps that can be computed, or some."""
    estimates = [
        seen.rate(Way.FIRST, [skill]).estimate for skill in (seen.computed if skills is None else skills)
    ]
    return math.fsum(estimates) / len(estimates) if estimates else 0.0


_Choice = tuple[str, Any, str]  # key, value, why


def _choices(measured: Measured, seen: Seen, steps: int) -> Iterable[_Choice]:
    first, retry, scaffold = _first_tries(seen), _retry(seen), _scaffold(seen)
    retries = _retries(1 - first, 1 - retry, steps)
    left = (1 - first) * (1 - retry) ** retries * (1 - (scaffold or 0.0))
    if left > REPAIRS:
        yield (
            "compute",
            "guard",
            f"{left:.0%} of the steps would have to be repaired: only let the model decide",
        )
    else:
        if len(measured.seen) > 1:
            yield "force", seen.level.value, f"right at the first try: {_compared(measured)}"
        if seen.by is ForceBy.LINES:
            yield "force_by", seen.by.value, "operands are given line by line, which takes a request each"
        why = f"right at the first try {first:.1%}, at a retry {retry:.0%} (estimates)"
        yield "attempts_per_step", retries, why
        yield from _rules(retry, scaffold)
    yield from _votes(seen)
    in_format = measured.seen[0].in_format.estimate
    if in_format < IN_FORMAT and measured.abilities.grammar is not Ability.WORKS:
        yield (
            "tolerant",
            True,
            f"only {in_format:.0%} of the lines are in the format, and no grammar holds it",
        )


def _retry(seen: Seen) -> float:
    return seen.rate(Way.RETRY, seen.computed).estimate


def _scaffold(seen: Seen) -> float | None:
    """Give the chance of a scaffolded line; None where none was seen, since operands are given anyway."""
    rate = seen.rate(Way.SCAFFOLD, seen.computed)
    return rate.estimate if rate.of else None


def _compared(measured: Measured) -> str:
    return ", ".join(f"{_first_tries(seen):.1%} at `{seen.name}`" for seen in measured.seen)


def _retries(wrong: float, again: float, steps: int) -> int:
    """Find the least number of retries that is enough, see above."""
    return next((r for r in range(1, MOST_RETRIES) if (1 - wrong * again**r) ** steps >= SURE), MOST_RETRIES)


def _rules(retry: float, scaffold: float | None) -> Iterable[_Choice]:
    """Say where operands are given: as the default has it, at once, or never."""
    if scaffold is None:
        return
    rest = ["fallback", "repair", "reject"]
    if scaffold > retry + CLEARLY and retry < DECIDED_WELL / 2:
        rule = {"violation": ["wrong_value", "wrong_expression"], "actions": ["scaffold", *rest]}
        yield (
            "rules",
            [rule],
            f"with its operands given a line is right in {scaffold:.0%}, at a retry in {retry:.0%}",
        )
    elif retry > scaffold + CLEARLY:
        rule = {"violation": ["wrong_value", "wrong_expression"], "actions": ["resume", *rest]}
        yield (
            "rules",
            [rule],
            f"a retry is right in {retry:.0%}, with its operands given a line in {scaffold:.0%}",
        )


def _votes(seen: Seen) -> Iterable[_Choice]:
    estimates = _decided(seen)
    if not estimates:
        return
    worst = min(estimates.values())
    if not 0.5 < worst < DECIDED_WELL:
        return
    ahead = next((k for k in range(2, MOST_AHEAD) if voted(worst, k) >= DECIDED_WELL), MOST_AHEAD)
    most = min(99, max(7, math.ceil(2 * ahead / (2 * worst - 1))))
    yield "votes", {"ahead": ahead, "most": most}, f"what the model decides is right in {worst:.0%} at least"


def _decided(seen: Seen) -> dict[Skill, float]:
    return {skill: seen.rate(Way.FIRST, [skill]).estimate for skill in seen.skills if skill in DECIDED}


def _decisions(seen: Seen, keys: Mapping[str, Any]) -> float | None:
    """Give the chance of the worst kind of decision, put to the vote where the policy says so."""
    estimates = _decided(seen)
    if not estimates:
        return None
    worst = min(estimates.values())
    return voted(worst, keys["votes"]["ahead"]) if "votes" in keys else worst


def _scenario(measured: Measured, seen: Seen, steps: int) -> Scenario:
    pace = Pace(
        first_s=measured.first_s,
        tokens_per_s=measured.tokens_per_s,
        line_tokens=measured.line_tokens,
    )
    habits = Habits(chances=_chances(seen, steps))
    return Scenario(models=(habits,), pace=pace, prefill=measured.prefill)


def _chances(seen: Seen, steps: int) -> Chances:
    """Give a procedure the kinds of steps that can be computed in turn, each with its own chance."""
    retry, scaffold = _retry(seen), _scaffold(seen)
    kinds = seen.computed or (Skill.ASSIGN,)
    each = [
        Chance(p=seen.rate(Way.FIRST, [skill]).estimate, retry=retry, scaffold=scaffold) for skill in kinds
    ]
    return tuple(islice(cycle(each), steps))


_LIMITS: Final = (
    ("attempts", "attempts", 1000),
    ("output_tokens", "tokens", 10**9),
    ("seconds", "latency_s", 10**9),
)


def _limits(simulated: Simulation, steps: int) -> Iterable[_Choice]:
    usual = PolicySettings()
    why = f"twice what 95 of 100 simulated requests of {steps} steps take"
    for key, measure, most in _LIMITS:
        needed = math.ceil(2 * simulated.policy.measures[measure].p95)
        if needed > getattr(usual, key):
            yield key, min(needed, most), why

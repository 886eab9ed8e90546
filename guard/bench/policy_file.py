"""A recommended policy as a configuration, with what it goes by in its comments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import yaml

from guard.bench.measured import Measured, Rate, Way
from guard.bench.recommend import Recommendation

WIDTH: Final = 100


def policy_file(name: str, measured: Measured, advice: Recommendation) -> str:
    """Write a file that can be used as a configuration, or whose section can be put into one."""
    return "".join(f"{line}\n" for line in _lines(name, measured, advice))


def _lines(name: str, measured: Measured, advice: Recommendation) -> Iterator[str]:
    yield f"# Recommended by `stepguard probe` for {measured.model!r} on upstream {measured.upstream!r}."
    yield f"# Measured with {measured.requests} requests, at level `{advice.seen.name}`:"
    for skill in advice.seen.skills:
        rates = ", ".join(f"{way.value} {shown(advice.seen.rate(way, [skill]))}" for way in Way)
        yield f"#   {skill.value}: {rates}"
    yield "#"
    for line in expectation(advice):
        yield f"# {line}"
    yield "policies:"
    yield f"  {name}:"
    for key, value in advice.keys.items():
        yield f"    # {advice.reasons[key]}"
        written = yaml.safe_dump({key: value}, width=WIDTH, default_flow_style=False, sort_keys=False)
        yield from (f"    {line}" for line in written.splitlines())
    if not advice.keys:
        yield "    extends: default"


def shown(rate: Rate) -> str:
    """Write a rate: `7 of 10`, or `-` where nothing was seen."""
    return f"{rate.right} of {rate.of}" if rate.of else "-"


def expectation(advice: Recommendation) -> Iterator[str]:
    """Say what the policy would come to, a line each."""
    measures = advice.expected.policy.measures
    if "compute" in advice.keys:
        yield "The guard writes every step that can be computed; the model is asked for its decisions only."
    else:
        yield f"Expected for {advice.steps} computed steps, by simulation (mean, 95th percentile):"
        repaired = advice.expected.repaired_steps.mean
        yield f"  success {measures['success'].mean:.1%}, steps written by the guard {repaired:.1f}"
        for name, measure in measures.items():
            if name != "success":
                yield f"  {name} {measure.mean:.1f}, {measure.p95:.1f}"
    if advice.decided is not None:
        yield (
            f"What only the model decides is right in {advice.decided:.0%} (of its worst kind); "
            "a wrong value that may stand is not found."
        )

"""A policy played many times against a scripted model, beside what other ways would come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from guard.bench.baselines import ahead, baselines
from guard.bench.chances import Chances
from guard.bench.player import Habits, Pace, Played, play
from guard.bench.spread import Spread, spread
from guard.bench.straight import Straight, straight
from guard.run.ladders import Action
from guard.run.messages import Outcome, Target
from guard.run.policy import ForceBy, Policy
from guard.run.race import machine

RUNS: Final = 1_000
SEED: Final = 1
FIRST: Final = "model"
FURTHER: Final = "fallback"

MEASURES: Final = ("success", "generated_steps", "attempts", "tokens", "latency_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What a policy is played against.

    `models` are the upstreams in the order of fallback; all have the same number of steps. `prefill`:
    whether they continue a prefix.
    """

    models: tuple[Habits, ...]
    pace: Pace = field(default_factory=Pace)
    prefill: bool = True
    runs: int = RUNS
    seed: int = SEED

    @property
    def chances(self) -> Chances:
        """The chances of the first upstream."""
        return self.models[0].chances


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The measures of many requests, by their names in `MEASURES`."""

    measures: Mapping[str, Spread]

    def to_json(self) -> dict[str, object]:
        """Give each measure's mean, median and 95th percentile."""
        return {name: spread.to_json() for name, spread in self.measures.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What came of it. `outcomes` are shares of the runs, `repaired_steps` lines of the guard's own."""

    policy: Sample
    repaired_steps: Spread
    outcomes: Mapping[Outcome, float]
    baselines: Mapping[str, Sample]
    ahead: int  # votes, of the baseline `voting`


def simulate(policy: Policy, scenario: Scenario, *, beside: bool = True) -> Simulation:
    """Play a policy against a scenario, other ways `beside` it. The same seed gives the same numbers."""
    if policy.force_by is ForceBy.AUTO:  # whole traces, whatever the servers are like
        policy = replace(policy, force_by=ForceBy.GRAMMAR)
    task = straight(scenario.chances)
    targets = _targets(policy, scenario)
    models = dict(zip((target.name for target in targets), scenario.models, strict=True))
    random = Random(f"{scenario.seed} policy")  # noqa: S311 (a draw, no secret)
    played = [
        play(
            machine(task.job, policy, targets),
            task,
            models,
            scenario.pace,
            random,
            seconds=policy.seconds,
        )
        for _ in range(scenario.runs)
    ]
    outcomes = Counter(one.finish.outcome for one in played)
    return Simulation(
        policy=_sample([_measured(one, task) for one in played]),
        repaired_steps=spread(one.finish.steps.repaired for one in played),
        outcomes={outcome: count / scenario.runs for outcome, count in outcomes.most_common()},
        baselines=_baselines(scenario) if beside else {},
        ahead=ahead(scenario.chances),
    )


def _targets(policy: Policy, scenario: Scenario) -> tuple[Target, ...]:
    """Name the upstreams as the policy does: those that it falls back to come last."""
    named = [
        rung.upstream
        for rule in policy.rules
        for rung in rule.ladder
        if rung.action is Action.FALLBACK and rung.upstream is not None
    ]
    first, *capped = [name for name in policy.attempts_per_upstream if name not in named] or [FIRST]
    further = [*dict.fromkeys(named), *capped, *(f"{FURTHER}{i}" for i in range(len(scenario.models)))]
    names = [first, *further][: len(scenario.models)]
    return tuple(
        Target(name=name, model=name, prefill=scenario.prefill, dialect=None, temperature=0.0)
        for name in names
    )


def _measured(one: Played, task: Straight) -> Sequence[float]:
    right = one.finish.answer == task.answer and _holds(one.finish.trace, task)
    return (int(right), one.generated, one.finish.attempts, one.tokens, one.seconds)


def _holds(trace: str, task: Straight) -> bool:
    """Whether a trace has nothing in it but right lines: a wrong decision leaves the answer as it is."""
    right = {f"{line}\n" for line in task.lines} | set(task.frame)
    return right.issuperset(trace.splitlines(keepends=True))


def _baselines(scenario: Scenario) -> dict[str, Sample]:
    samples = {}
    for name, draw in baselines(scenario.chances).items():
        random = Random(f"{scenario.seed} {name}")  # noqa: S311 (a draw, no secret)
        drawn = [draw(random) for _ in range(scenario.runs)]
        samples[name] = _sample(
            (
                int(one.success),
                one.steps,
                one.attempts,
                one.steps * scenario.pace.line_tokens,
                scenario.pace.seconds(one.attempts, one.steps),
            )
            for one in drawn
        )
    return samples


def _sample(rows: Iterable[Sequence[float]]) -> Sample:
    columns = zip(*rows, strict=True)
    return Sample(measures={name: spread(column) for name, column in zip(MEASURES, columns, strict=True)})

"""Runs by their seeds: what was drawn, what went wrong, and a wrong one made as small as it goes."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from guard.dialect.line import Level
from guard.run.policy import ForceBy
from tests.fuzz import drawn as draws
from tests.fuzz.play import Played, play
from tests.fuzz.scenario import Manner, Mishap, Scenario, drawn
from tests.fuzz.telling import told
from tests.fuzz.verdict import complaints


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A run that the oracle has something against."""

    seed: int
    complaints: tuple[str, ...]

    def __str__(self) -> str:
        return "\n  ".join([f"seed {self.seed} (python -m tests.fuzz --seed {self.seed})", *self.complaints])


@dataclass(slots=True)
class Report:
    """What became of runs."""

    runs: int = 0
    tally: draws.Tally = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, other: Report) -> None:
        """Add those of another one."""
        self.runs += other.runs
        self.tally += other.tally
        self.failures += other.failures


def campaign(seeds: Iterable[int]) -> Report:
    """Play runs and judge them."""
    report = Report()
    for seed in seeds:
        played, wrong = tried(drawn(seed))
        report.runs += 1
        report.tally += Counter() if played is None else draws.of(played)
        report.failures += [Failure(seed=seed, complaints=tuple(wrong))] if wrong else []
    return report


def tried(scenario: Scenario) -> tuple[Played | None, list[str]]:
    """Play a run; None where it raised, which it never may."""
    try:
        played = play(scenario)
        return played, complaints(played)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is to be reported)
        place = traceback.extract_tb(error.__traceback__)[-1]
        return None, [f"raised: {type(error).__name__} at {place.filename}:{place.lineno}: {error}"]


# --- as small as it goes ---------------------------------------------------------------------------

Simpler = Callable[[Scenario], Scenario]

SIMPLER: Final[dict[str, Simpler]] = {
    "one upstream": lambda s: replace(s, rows=s.rows[:1], targets=s.targets[:1]),
    "no race": lambda s: replace(s, policy=replace(s.policy, race=1)),
    "no votes": lambda s: replace(s, policy=replace(s.policy, votes=None)),
    "nothing goes wrong": lambda s: replace(s, plan=replace(s.plan, mishaps=(Mishap.NONE,))),
    "plain streams": lambda s: replace(s, plan=replace(s.plan, manners=(Manner.STREAM,))),
    "plain blanks": lambda s: replace(s, plan=replace(s.plan, loose=False)),
    "no mistakes": lambda s: replace(s, plan=replace(s.plan, mistakes=0)),
    "one mistake": lambda s: replace(s, plan=replace(s.plan, mistakes=min(1, s.plan.mistakes))),
    "default actions": lambda s: replace(s, policy=replace(s.policy, rules=())),
    "nothing forced": lambda s: replace(
        s, policy=replace(s.policy, force=Level.NONE, force_by=ForceBy.GRAMMAR)
    ),
    "strict": lambda s: replace(s, policy=replace(s.policy, tolerant=False)),
    "step by step": lambda s: replace(s, policy=replace(s.policy, deliver="hold_step")),
    "streamed": lambda s: replace(s, job=replace(s.job, whole=False)),
}


def shrunk(scenario: Scenario) -> tuple[Scenario, list[str]]:
    """Make a wrong run simpler for as long as the same is wrong with it; and say what was made simpler."""
    wanted = _kinds(tried(scenario)[1])
    done: list[str] = []
    for name, simpler in SIMPLER.items():
        candidate = simpler(scenario)
        if candidate != scenario and _kinds(tried(candidate)[1]) & wanted:
            scenario = candidate
            done.append(name)
    return scenario, done


def _kinds(wrong: Iterable[str]) -> set[str]:
    return {sentence.partition(":")[0] for sentence in wrong}


def reproducer(seed: int) -> Iterator[str]:
    """Tell the run of a seed: as it was drawn where nothing is wrong with it, else as small as it goes."""
    scenario = drawn(seed)
    wrong = tried(scenario)[1]
    if wrong:
        scenario, done = shrunk(scenario)
        yield f"simpler by: {', '.join(done) or 'nothing'}"
    played, wrong = tried(scenario)
    yield "" if played is None else told(played)
    yield from wrong or ["nothing is wrong"]

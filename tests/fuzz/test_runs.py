"""Random runs deliver what an oracle says they may, a few in each run of the tests."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tests.fuzz import drawn as draws
from tests.fuzz.campaign import campaign, shrunk, tried
from tests.fuzz.mutants import MUTANTS
from tests.fuzz.play import play
from tests.fuzz.scenario import drawn
from tests.fuzz.telling import told


def test_some_runs() -> None:
    report = campaign(range(10_000, 10_300))
    assert report.failures == []
    assert report.runs == 300


def test_a_seed_is_always_the_same_run() -> None:
    for seed in (3, 1234):
        assert told(play(drawn(seed))) == told(play(drawn(seed)))


def test_what_was_never_drawn_is_told() -> None:
    tally = draws.of(play(drawn(3)))
    assert "kind of server: mistral" in draws.never(Counter())
    full = Counter({(name, member): 1 for name, members in draws.SETS.items() for member in members})
    assert draws.never(full) == []
    assert draws.never(full - Counter({("step", "while"): 1})) == ["step: while"]
    assert all(name in draws.table(tally) for name in draws.SETS)


def test_a_wrong_run_is_made_as_small_as_it_goes() -> None:
    with MUTANTS["a line feed is lost"]():
        seed = next(seed for seed in range(100) if tried(drawn(seed))[1])
        scenario, done = shrunk(drawn(seed))
        assert tried(scenario)[1]
    assert "no mistakes" in done or drawn(seed).plan.mistakes == 0
    assert replace(scenario, plan=drawn(seed).plan).program == drawn(seed).program
    assert not tried(scenario)[1]

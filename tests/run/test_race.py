"""Races: lanes that write at once, and the one of them that the client gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from guard.check.verdict import Kind
from guard.errors import InvalidState, UpstreamTimeout
from guard.run.ladders import Action, always
from guard.run.messages import (
    Cancelled,
    Close,
    Command,
    Emit,
    Ended,
    Failed,
    Finish,
    Open,
    Outcome,
    OutOfTime,
    Raced,
    Result,
    Strategy,
    Target,
    Text,
    Usage,
    Wait,
    Waited,
)
from guard.run.policy import Policy, Vary, Votes
from guard.run.race import SEEDS_APART, Race
from tests.run.procedures import LARGER, NOTE, ORDER, PREFILL, SUMS, in_trace, job

RIGHT: Final = [" a = 3 + 4 = 7\n", "2 b = 7 * 2 = 14\n", "3 c = 14 - 3 = 11\n", "4 return 11\n"]
TWO: Final = Policy(race=2)
THREE: Final = Policy(race=3)


def race(policy: Policy = TWO, *targets: Target, **fields: object) -> Race:
    return Race(job(SUMS, {"x": 3, "y": 4}, **fields), policy, targets or (PREFILL,))


def told(commands: list[Command]) -> list[str]:
    """Commands in short; what was judged is left out."""
    short: list[str] = []
    for command in commands:
        match command:
            case Open():
                short.append(f"open {command.generation} {command.strategy}")
            case Close():
                short.append(f"close {command.generation} {command.result}")
            case Emit():
                short.append(f"emit {command.step}")
            case Wait():
                short.append("wait")
            case Finish():
                short.append(f"finish {command.outcome}")
            case _:
                pass
    return short


def finish(commands: list[Command]) -> Finish:
    last = commands[-1]
    assert isinstance(last, Finish)
    return last


def opens(commands: list[Command]) -> list[Open]:
    return [command for command in commands if isinstance(command, Open)]


EMITS: Final = ["emit 1", "emit 2", "emit 3", "emit 4"]


def test_all_lanes_are_opened_at_once_each_with_a_draw_of_its_own() -> None:
    commands = race(THREE, seed=7).start()
    assert told(commands) == ["open 1 initial", "open 2 race", "open 3 race"]
    assert [one.seed for one in opens(commands)] == [7, 7 + SEEDS_APART, 7 + 2 * SEEDS_APART]
    assert [one.temperature for one in opens(commands)] == [0.0, 0.5, 0.5]
    assert len({(one.prefix, one.attempt, one.max_tokens) for one in opens(commands)}) == 1


def test_a_clients_temperature_is_raised_for_the_further_lanes_unless_it_may_not_vary() -> None:
    assert [one.temperature for one in opens(race(temperature=0.2).start())] == [0.2, 0.5]
    fixed = Policy(race=2, vary=frozenset({Vary.SEED}))
    assert [one.temperature for one in opens(race(fixed, temperature=0.2).start())] == [0.2, 0.2]
    assert [one.temperature for one in opens(race(TWO, LARGER).start())] == [None, None]


def test_the_first_lane_that_comes_to_the_end_wins_and_the_others_are_closed() -> None:
    lanes = race()
    lanes.start()
    assert told(lanes.handle(Text(RIGHT[0], 5), 1)) == []
    assert told(lanes.handle(Text("".join(RIGHT), 20), 2)) == [], "nothing leaves before one has won"
    commands = lanes.handle(Ended("stop", Usage(prompt=50, completion=21)), 2)
    assert told(commands) == ["close 2 pass", "close 1 lost", *EMITS, "finish accepted_first"]
    end = finish(commands)
    assert (end.answer, end.attempts, end.generations) == ("11", 1, 2)
    assert [usage.completion for usage in end.usage] == [5, 21], "in the order of the generations"
    assert end.raced == Raced(lanes=2, lane=2, generations_lost=frozenset({1}))


def test_a_lane_that_departs_is_parked_and_the_other_one_goes_on_alone_once_it_is_as_far() -> None:
    lanes = race()
    lanes.start()
    assert told(lanes.handle(Text(RIGHT[0] + RIGHT[1] + "3 c = 1\n", 9), 1)) == ["close 1 violation"]
    assert told(lanes.handle(Text(RIGHT[0]), 2)) == [], "the parked one has come further"
    assert told(lanes.handle(Text(RIGHT[1]), 2)) == ["emit 1", "emit 2"]
    assert told(lanes.handle(Text(RIGHT[2]), 2)) == ["emit 3"], "from here on it is a run as any"
    assert told(lanes.handle(Text("4 return 12\n"), 2)) == ["close 2 violation", "open 3 resume"]
    commands = [*lanes.handle(Text(" return 11\n"), 3), *lanes.handle(Ended("stop"), 3)]
    assert told(commands) == ["emit 4", "close 3 pass", "finish accepted_after_retry"]
    end = finish(commands)
    assert end.raced is not None
    assert [(lane, violation.kind) for lane, violation in end.raced.lost] == [(1, Kind.WRONG_EXPRESSION)]
    assert [violation.kind for violation in end.violations] == [Kind.WRONG_ANSWER]
    assert (end.attempts, end.generations, len(end.usage)) == (2, 3, 3)


def test_where_all_departed_the_one_that_came_furthest_goes_on() -> None:
    lanes = race(in_trace(THREE))
    lanes.start()
    assert told(lanes.handle(Text(" a = 3 + 4 = 8\n"), 1)) == ["close 1 violation"]
    assert told(lanes.handle(Text(RIGHT[0] + "2 b = 7 * 2 = 15\n"), 3)) == ["close 3 violation"]
    commands = lanes.handle(Text(" a = 3 + 4 = 9\n"), 2)
    assert told(commands) == ["close 2 violation", "emit 1", "open 4 resume"]
    assert opens(commands)[0].resume_from == "2"
    assert (opens(commands)[0].attempt, opens(commands)[0].generation) == (2, 4)


def test_with_hold_all_nothing_leaves_before_the_end_of_the_lane_that_is_left() -> None:
    lanes = race(Policy(race=2, deliver="hold_all"))
    lanes.start()
    assert told(lanes.handle(Text(" a = 8\n"), 1)) == ["close 1 violation"]
    assert told(lanes.handle(Text("".join(RIGHT)), 2)) == []
    assert told(lanes.handle(Ended("stop"), 2)) == ["close 2 pass", *EMITS, "finish accepted_first"]


def test_a_lane_that_must_wait_is_parked_and_waits_where_nobody_else_is_left() -> None:
    lanes = race()
    lanes.start()
    fault = Failed(UpstreamTimeout("nothing came"))
    assert told(lanes.handle(fault, 1)) == ["close 1 timeout"]
    assert told(lanes.handle(fault, 2)) == ["close 2 timeout", "wait"]
    assert told(lanes.handle(Waited())) == ["open 3 transport"]


def test_an_answer_that_the_guard_had_to_mend_does_not_win_over_one_that_may_still_come() -> None:
    policy = Policy(race=2, attempts=0)
    lanes = race(policy)
    lanes.start()
    commands = lanes.handle(Text("".join(RIGHT[:3]) + "4 return 12\n"), 1)
    assert told(commands) == ["close 1 violation"]
    assert told(lanes.handle(Text("".join(RIGHT)), 2)) == EMITS
    assert finish(lanes.handle(Ended("stop"), 2)).outcome is Outcome.ACCEPTED_FIRST
    lanes = race(policy)
    lanes.start()
    lanes.handle(Text("".join(RIGHT[:3]) + "4 return 12\n"), 1)
    commands = lanes.handle(Text("nothing of the kind\n"), 2)
    assert told(commands) == ["close 2 violation", *EMITS, "finish repaired"]


def test_what_would_be_released_unchecked_is_the_last_resort() -> None:
    policy = Policy(race=3, attempts=1, rules=always((Action.RELEASE,)))
    lanes = race(policy)
    lanes.start()
    assert told(lanes.handle(Text(RIGHT[0] + "2 b = 15\n"), 1)) == []
    assert told(lanes.handle(Text("3 c = 1\n"), 1)) == [], "it is read on, and nothing of it leaves"
    assert told(lanes.handle(Text(RIGHT[0]), 3)) == []
    lanes.handle(Text("".join(RIGHT)), 2)
    commands = lanes.handle(Ended("stop"), 2)
    assert told(commands)[:3] == ["close 2 pass", "close 1 lost", "close 3 lost"]
    assert finish(commands).outcome is Outcome.ACCEPTED_FIRST
    lanes = race(replace(policy, race=2))
    lanes.start()
    assert told(lanes.handle(Text(RIGHT[0] + "2 b = 15\n"), 2)) == []
    assert told(lanes.handle(Text(" a = 8\n"), 1)) == ["close 1 lost", "emit 1"]
    commands = lanes.handle(Ended("stop"), 2)
    assert finish(commands).outcome is Outcome.RELEASED


def test_the_time_that_is_over_and_the_client_that_leaves_end_every_lane() -> None:
    for event, result, ending in (
        (OutOfTime(), Result.TIMEOUT, [*EMITS, "finish repaired"]),  # by the guard, behind its violation
        (Cancelled(), Result.CANCELLED, ["finish cancelled"]),
    ):
        lanes = race(THREE)
        lanes.start()
        lanes.handle(Text(RIGHT[0] + "2 b = 15\n"), 2)
        commands = lanes.handle(event)
        assert told(commands) == [f"close 1 {result}", f"close 3 {result}", *ending]
        raced = finish(commands).raced
        assert raced is not None
        assert raced.lane == 2, "it had come furthest"
        with pytest.raises(InvalidState):
            lanes.handle(event)


def test_a_lane_that_is_at_its_end_when_the_time_is_over_has_won() -> None:
    lanes = race()
    lanes.start()
    lanes.handle(Text("".join(RIGHT)), 2)
    commands = lanes.handle(OutOfTime())
    assert told(commands) == ["close 1 timeout", "close 2 pass", *EMITS, "finish accepted_first"]


def test_one_budget_of_tokens_is_for_all_lanes() -> None:
    lanes = race(Policy(race=2, rules=always([Action.RESUME, Action.REJECT])), max_tokens=30)
    commands = lanes.start()
    assert [one.max_tokens for one in opens(commands)] == [30, 30]
    lanes.handle(Text(RIGHT[0], 15), 1)
    assert told(lanes.handle(Text(RIGHT[0], 15), 2)) == []
    assert told(lanes.handle(Text("2 b", 1), 1)) == ["close 1 budget_exhausted", "emit 1"]
    commands = lanes.handle(Text("2 b", 1), 2)
    assert told(commands) == ["close 2 budget_exhausted", "finish rejected"]
    assert sum(usage.completion for usage in finish(commands).usage) == 32


def test_a_lane_that_the_tokens_ended_is_repaired_where_no_other_one_comes_to_an_answer() -> None:
    for said, expected in (
        ("2 b", ["close 2 budget_exhausted", *EMITS, "finish repaired"]),
        ("".join(RIGHT[1:]), EMITS),
    ):
        lanes = race(max_tokens=30)
        lanes.start()
        lanes.handle(Text(RIGHT[0], 12), 1)
        lanes.handle(Text(RIGHT[0], 12), 2)
        assert told(lanes.handle(Text("2 b", 7), 1)) == ["close 1 budget_exhausted"]
        assert told(lanes.handle(Text(said, len(expected) - len(EMITS)), 2)) == expected


def test_a_budget_that_cannot_suffice_is_refused_once() -> None:
    assert told(race(THREE, max_tokens=2).start()) == ["finish error"]


def test_votes_and_decisions_go_straight_on_within_a_lane() -> None:
    policy = Policy(race=2, votes=Votes(ahead=2, most=3))
    lanes = Race(job(ORDER, {"note": NOTE}), policy, (PREFILL,))
    lanes.start()
    for generation, text in ((1, ' qty = 6 <- "Six"\n'), (2, ' qty = 7 <- "Six"\n')):
        lanes.handle(Text(text), generation)
    assert told(lanes.handle(Ended("stop"), 2)) == ["close 2 decided", "open 3 vote"]
    assert told(lanes.handle(Ended("stop"), 1)) == ["close 1 decided", "open 4 vote"]
    lanes.handle(Text(' qty = 6 <- "Six"\n'), 4)
    commands = lanes.handle(Ended("stop"), 4)
    assert told(commands) == ["close 4 decided", "open 5 decision"]
    assert opens(commands)[0].strategy is Strategy.DECISION


def test_a_vote_that_is_not_counted_does_not_leave_with_the_lane_that_is_left() -> None:
    policy = Policy(race=2, votes=Votes(ahead=1, most=3))
    lanes = Race(job(ORDER, {"note": NOTE}), policy, (PREFILL,))
    lanes.start()
    assert told(lanes.handle(Text(' qty = 6 <- "Six"\n'), 1)) == []
    assert told(lanes.handle(Text(' qty = 60 <- "Six"\n'), 2)) == ["close 2 violation"]
    assert told(lanes.handle(Ended("stop"), 1)) == ["close 1 decided", "emit 1", "open 3 decision"]


def test_an_event_for_a_generation_that_is_not_open_is_a_mistake_of_ours() -> None:
    lanes = race(THREE)
    with pytest.raises(InvalidState):
        lanes.handle(Text("x"), 1)
    lanes.start()
    lanes.handle(Text(" a = 8\n"), 1)
    for generation in (0, 1, 4):
        with pytest.raises(InvalidState):
            lanes.handle(Text("x"), generation)
    with pytest.raises(InvalidState):
        lanes.start()
    assert "lines" in repr(lanes)

"""Where a run goes when it falls back, and how much it may try at each place."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from guard.check.verdict import Kind
from guard.errors import UpstreamTimeout
from guard.run.ladders import Action, Rung, always
from guard.run.messages import Cancelled, Failed, Outcome, Result, StepClass, Strategy, Target
from guard.run.policy import Policy
from tests.playbook import Playbook, closes, emits, ends, finishes, opens, says, violates
from tests.run.procedures import LARGER, PREFILL, shares, sums

BEGIN: Final = "@begin sums 3fa92c\n"
RIGHT: Final = [" a = 3 + 4 = 7\n", " b = 7 * 2 = 14\n", " c = 14 - 3 = 11\n", " return 11\n"]
SPARE: Final = Target(name="spare", model="s", prefill=True, dialect=None)
STANDBY: Final = replace(LARGER, standby=True)
TIMEOUT: Final = Failed(UpstreamTimeout("nothing came for 30 s"))
ONCE: Final = Policy(transport_retries=0)


def test_a_fallback_goes_to_the_named_upstream_with_the_verified_prefix() -> None:
    policy = Policy(rules=always([Rung(Action.FALLBACK, upstream="larger"), Action.FALLBACK]))
    assert (
        Playbook(sums(PREFILL, SPARE, LARGER, policy=policy))
        << opens(upstream="main")
        >> says(f"{RIGHT[0]}2 b = 7 * 2 = 15\n")
        << emits("1")
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION)
        << opens(Strategy.FALLBACK, upstream="larger", model="l", prefix=f"{BEGIN}1{RIGHT[0]}2", attempt=2)
        >> says(" b = 7 * 2 = 16\n")
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION)
        << opens(Strategy.FALLBACK, upstream="spare", prefix=f"{BEGIN}1{RIGHT[0]}2", attempt=3)
        >> says(" b = 7 * 2 = 17\n")
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION)
        << finishes(Outcome.REJECTED, attempts=3)
    )


def test_a_fault_of_the_network_does_not_lead_to_an_upstream_that_stands_by() -> None:
    play = (
        Playbook(sums(PREFILL, STANDBY, policy=ONCE))
        << opens(upstream="main")
        >> TIMEOUT
        << closes(Result.TIMEOUT)
        << finishes(Outcome.ERROR)
    )
    assert play


def test_a_fault_on_a_named_upstream_leads_to_those_of_the_route_that_are_left() -> None:
    policy = replace(ONCE, rules=always([Rung(Action.FALLBACK, upstream="larger")]))
    assert (
        Playbook(sums(PREFILL, SPARE, STANDBY, policy=policy))
        << opens(upstream="main")
        >> says(" a = 3 + 4 = 8\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.FALLBACK, upstream="larger")
        >> TIMEOUT
        << closes(Result.TIMEOUT)
        << opens(Strategy.FALLBACK, upstream="spare", attempt=2)
        >> TIMEOUT
        << closes(Result.TIMEOUT)
        << finishes(Outcome.ERROR)
    )


def test_an_answer_of_a_named_upstream_is_one_by_fallback() -> None:
    policy = Policy(rules=always([Rung(Action.FALLBACK, upstream="larger")]))
    assert (
        Playbook(sums(PREFILL, STANDBY, policy=policy))
        << opens()
        >> says(" a = 3 + 4 = 8\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.FALLBACK, upstream="larger", prefix=f"{BEGIN}1")
        >> says(f"{RIGHT[0]}2{RIGHT[1]}3{RIGHT[2]}4{RIGHT[3]}")
        << emits("1")
        << emits("2")
        << emits("3")
        << emits("4")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_BY_FALLBACK, answer="11")
    )


def test_what_one_upstream_may_try_is_counted_there() -> None:
    policy = Policy(attempts_per_upstream={"main": 1}, rules=always([Action.RESUME, Action.FALLBACK]))
    play = (
        Playbook(sums(PREFILL, LARGER, policy=policy))
        << opens()
        >> says(" a = 3 + 4 = 8\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, upstream="main")
        >> says(" a = 3 + 4 = 9\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.FALLBACK, upstream="larger", attempt=3)
        >> says(" a = 3 + 4 = 9\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, upstream="larger", attempt=4)
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )
    assert play


def test_the_reason_of_a_cap_reaches_the_client() -> None:
    policy = Policy(attempts_per_upstream={"main": 1}, rules=always([Action.RESUME]))
    play = (
        Playbook(sums(policy=policy))
        << opens()
        >> says(" a = 3 + 4 = 8\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME)
        >> says(" a = 3 + 4 = 9\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << finishes(Outcome.REJECTED)
    )
    assert play
    assert play.finish.error is not None
    assert play.finish.error.message.endswith(": all 1 attempts on this upstream are spent")


def test_the_same_mistake_three_times_leads_on_to_what_is_next() -> None:
    policy = Policy(attempts_per_step=9, rules=always([Action.RESUME, Action.REPAIR]))
    play = Playbook(sums(policy=policy)) << opens()
    for number in range(3):
        play = (
            play
            >> says(f" a = {'4 + 3' if number % 2 else '3 + 4'} = 8\n")
            << violates(Kind.WRONG_VALUE, "1")
            << closes(Result.VIOLATION)
        )
        if number < 2:
            play = play << opens(Strategy.RESUME)
    play = play << emits("1", StepClass.REPAIRED) << opens(Strategy.REPAIR) >> Cancelled()
    assert play << closes(Result.CANCELLED) << finishes(Outcome.CANCELLED, attempts=3)


def test_a_decision_that_no_upstream_makes_right_is_asked_of_all_of_them() -> None:
    policy = Policy(attempts=3, attempts_per_step=1)
    play = (
        Playbook(shares(PREFILL, LARGER, policy=policy))
        << opens(upstream="main")
        >> says(" people = 600\n")
        << closes(Result.DECIDED)
        << opens(Strategy.RESUME, upstream="main", resume_from="1")
        >> says(" people = 700\n")
        << closes(Result.DECIDED)
        << opens(Strategy.FEEDBACK, upstream="main", resume_from="1")
        >> says(" people = 600\n")
        << closes(Result.DECIDED)
        << opens(Strategy.FALLBACK, upstream="larger", resume_from="1", attempt=4)
        >> says(" people = 500\n")
        << closes(Result.DECIDED)
        << finishes(Outcome.REJECTED, attempts=4)
    )
    assert play
    assert play.finish.error is not None
    assert play.finish.error.code == "procedure_failed"
    assert play.finish.error.message.endswith("(all 3 attempts are spent)")


def test_a_policy_without_retries_does_not_ask_for_a_decision_again() -> None:
    play = (
        Playbook(shares(policy=Policy(rules=always([Action.REJECT]))))
        << opens()
        >> says(" people = 600\n")
        << closes(Result.DECIDED)
        << finishes(Outcome.REJECTED, attempts=1)
    )
    assert play
    assert play.finish.error is not None
    assert "the policy allows no retry" in play.finish.error.message

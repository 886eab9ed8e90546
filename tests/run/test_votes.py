"""Putting to the vote what the model decides: the tally, and runs that ask again."""

from __future__ import annotations

from collections import Counter
from typing import Final

import hypothesis.strategies as st
import pytest
from hypothesis import given

from guard.check.verdict import Kind
from guard.dialect.lark import Level
from guard.errors import UpstreamTimeout
from guard.procedure.model import StepKind
from guard.run.ladders import Action, Rung, always
from guard.run.messages import (
    Cancelled,
    Failed,
    Finish,
    Margin,
    Open,
    Outcome,
    OutOfTime,
    Result,
    StepClass,
    Strategy,
    Voted,
)
from guard.run.policy import Policy, Vary, Votes
from guard.run.run import Run
from guard.run.votes import count
from tests.playbook import Playbook, closes, emits, ends, finishes, ignores, opens, says, violates, waits
from tests.run.procedures import DIALOGUE, GRAMMAR, LARGER, NOTE, PREFILL, aside, job, order, shares

MODEL = StepClass.MODEL_DECIDED
TWO: Final = Votes(ahead=2, most=5)
HANDED_ON: Final = always([Rung(Action.RESUME, 1), Action.FALLBACK])
VOTING: Final = Policy(votes=TWO)
BEGIN: Final = "@begin order 3fa92c\n"
SIX: Final = ' qty = 6 <- "Six panels"\n'
SEVEN: Final = ' qty = 7 <- "panels"\n'
TRUE: Final = " loyal = true\n"
FALSE: Final = " loyal = false\n"
REST: Final = [
    " price = 10.00\n",
    "4 if true\n",
    "4.1 price = 9.50\n",
    "5 total = 6 * 9.50 = 57.00\n",
    '6 return {"qty": 6, "total": 57.00}\n',
]


def vote(play: Playbook, text: str, **fields: object) -> Playbook:
    """A vote is given, which settles nothing: the step is asked for again."""
    return play >> says(text) >> ends() << closes(Result.DECIDED) << opens(Strategy.VOTE, **fields)


# --- the tally -----------------------------------------------------------------------------------

VALUES: Final = st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=12)
RULES: Final = st.builds(Votes, ahead=st.integers(1, 4), most=st.integers(1, 9))


@given(VALUES, RULES)
def test_the_value_with_the_most_votes_leads_and_of_several_the_first_said(
    votes: list[int], rules: Votes
) -> None:
    counted, tally = count(votes, rules), Counter(votes)
    most = max(tally.values())
    leader = next(value for value in votes if tally[value] == most)
    assert (votes[counted.first], counted.agreed) == (leader, most)
    assert votes.index(leader) == counted.first, "the first line for it is the one that stands"
    second = max((n for value, n in tally.items() if value != leader), default=0)
    if most - second >= rules.ahead:
        assert counted.margin is Margin.REACHED
    else:
        assert counted.margin is (Margin.CAPPED if len(votes) >= rules.most else Margin.OPEN)


@given(VALUES, RULES, st.sets(st.sampled_from([1, 2, 3])))
def test_what_failed_wins_no_vote_as_long_as_there_is_anything_else(
    votes: list[int], rules: Votes, failed: set[int]
) -> None:
    counted = count(votes, rules, tuple(failed))
    able = [value for value in votes if value not in failed]
    assert counted.live == bool(able)
    if able:
        assert (votes[counted.first], counted.agreed) == (
            Counter(able).most_common()[0][0],
            Counter(able).most_common()[0][1],
        )
    else:
        assert counted.margin is not Margin.REACHED


def test_values_are_counted_and_not_their_spellings() -> None:
    assert count(["caf\u00e9", "cafe\u0301"], Votes(ahead=2)).margin is Margin.REACHED
    assert count([True, 1], Votes(ahead=2)).margin is Margin.OPEN


# --- runs ----------------------------------------------------------------------------------------


def test_a_decision_is_asked_for_until_one_value_is_ahead() -> None:
    play = Playbook(order(policy=VOTING, seed=5)) << opens(prefix=f"{BEGIN}1", temperature=0.0, seed=5)
    play = vote(play, SIX, prefix=f"{BEGIN}1", attempt=1, generation=2, temperature=0.5, seed=6)
    play = vote(play, SEVEN, prefix=f"{BEGIN}1", attempt=1, temperature=0.5, seed=7)
    play = vote(play, ' qty = 06 <- "Six"\n'.replace("06", "6"), seed=8)
    play = (
        play
        >> says(' qty = 6 <- "panels"\n')
        >> ends()
        << closes(Result.DECIDED)
        << emits("1", MODEL, value=6, text=f"1{SIX}")
        << opens(Strategy.DECISION, prefix=f"{BEGIN}1{SIX}2", attempt=1, generation=5)
    )
    play = (
        vote(play, TRUE)
        >> says(TRUE)
        >> ends()
        << closes(Result.DECIDED)
        << emits("2", MODEL, value=True)
        << opens(Strategy.DECISION, temperature=0.0)
        >> says("".join(REST))
        << emits("3")
        << emits("4")
        << emits("4.1")
        << emits("5")
        << emits("6")
        >> ends()
        << closes(Result.PASSED)
        << finishes(
            Outcome.ACCEPTED_FIRST,
            attempts=1,
            generations=7,
            votes=(
                Voted(step="1", kind=StepKind.EXTRACT, cast=4, agreed=3, margin=Margin.REACHED),
                Voted(step="2", kind=StepKind.JUDGE, cast=2, agreed=2, margin=Margin.REACHED),
            ),
        )
    )
    assert play


def test_a_generation_that_writes_on_is_cut_behind_its_vote() -> None:
    assert (
        Playbook(order(policy=VOTING))
        << opens()
        >> says(f"{SIX}2 lo", tokens=9)
        << ignores("2 lo")
        << closes(Result.DECIDED, discarded=9)
        << opens(Strategy.VOTE)
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )


def test_at_the_cap_the_most_votes_stand_and_that_is_said() -> None:
    play = Playbook(order(policy=Policy(votes=Votes(ahead=2, most=3)))) << opens()
    play = vote(vote(play, SEVEN), SIX)
    play = (
        play
        >> says(' qty = 8 <- "panels"\n')
        >> ends()
        << closes(Result.DECIDED)
        << emits("1", MODEL, value=7)
        << opens(Strategy.DECISION)
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )
    assert play
    assert play.finish.votes == (
        Voted(step="1", kind=StepKind.EXTRACT, cast=3, agreed=1, margin=Margin.CAPPED),
    )


def test_a_vote_that_violates_is_a_violation_and_no_vote() -> None:
    play = Playbook(order(PREFILL, LARGER, policy=Policy(votes=TWO, rules=HANDED_ON))) << opens()
    play = vote(play, SIX)
    play = (
        play
        >> says(' qty = 60 <- "Six panels"\n')
        << violates(Kind.INADMISSIBLE_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, attempt=2)
        >> says(' qty = 6 <- "Sixty"\n')
        << violates(Kind.UNGROUNDED_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, attempt=3)
        >> says(' qty = 6 <- "Sixty-one"\n')
        << violates(Kind.UNGROUNDED_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.FALLBACK, attempt=4, upstream="larger")
        >> says(SIX)
        >> ends()
        << closes(Result.DECIDED)
        << emits("1", MODEL, text=f"1{SIX}")
        << opens(Strategy.DECISION, upstream="larger")
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )
    assert play
    assert play.finish.votes[0].cast == 2


def test_votes_without_prefill_are_asked_for_in_a_turn_and_may_repeat_what_stands() -> None:
    play = Playbook(order(DIALOGUE, policy=VOTING)) << opens(prefix="")
    play = play >> says(f"{BEGIN}1{SIX}") >> ends() << closes(Result.DECIDED) << opens(Strategy.VOTE)
    play = (
        play
        >> says(f"{BEGIN}1{SIX}")
        << ignores(BEGIN)
        >> ends()
        << closes(Result.DECIDED)
        << emits("1", MODEL)
        << opens(Strategy.DECISION)
        >> says(f"{BEGIN}1{SIX}2{TRUE}")
        << ignores(BEGIN)
        << ignores(f"1{SIX}")
        >> ends()
        << closes(Result.DECIDED)
        << opens(Strategy.VOTE)
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )
    assert play
    assert [poll.cast for poll in play.finish.votes] == [2, 1]
    assert play.finish.votes[1].margin is Margin.OPEN


def test_a_blank_line_in_front_of_a_vote_is_none_of_it() -> None:
    play = Playbook(order(DIALOGUE, policy=VOTING)) << opens() >> says(BEGIN)
    play = play >> says("\n") << ignores("\n")
    play = play >> says(f"1{SIX}") >> ends() << closes(Result.DECIDED) << opens(Strategy.VOTE)
    play = play >> says("\n") << ignores("\n")
    play = play >> says(f"1{SIX}") >> ends() << closes(Result.DECIDED) << emits("1", MODEL, value=6)
    assert (
        play
        << opens(Strategy.DECISION)
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )


@pytest.mark.parametrize("level", [Level.SHAPE, Level.OPERANDS, Level.VALUES])
def test_votes_go_with_grammars(level: Level) -> None:
    play = Playbook(order(GRAMMAR, policy=Policy(votes=TWO, force=level))) << opens(prefix=f"{BEGIN}1")
    play = vote(play, SIX, prefix=f"{BEGIN}1")
    play = play >> says(SIX) >> ends() << closes(Result.DECIDED) << emits("1", MODEL)
    play = vote(play << opens(Strategy.DECISION, prefix=f"{BEGIN}1{SIX}2"), FALSE)
    grammars = [command.grammar for command in play.commands if isinstance(command, Open)]
    assert all(grammars)
    assert grammars[0] == grammars[1]
    assert grammars[2] == grammars[3]


def test_compute_guard_writes_the_rest_behind_the_votes() -> None:
    play = Playbook(order(policy=Policy(votes=TWO, force=Level.VALUES))) << opens()
    play = vote(play, SIX) >> says(SIX) >> ends() << closes(Result.DECIDED) << emits("1", MODEL)
    play = vote(play << opens(Strategy.DECISION), TRUE) >> says(TRUE) >> ends() << closes(Result.DECIDED)
    play = play << emits("2", MODEL)
    for step in ("3", "4", "4.1", "5", "6"):
        play = play << emits(step, StepClass.COMPUTED)
    assert play << finishes(Outcome.ACCEPTED_FIRST, generations=4)


def test_a_fault_of_the_network_is_no_vote() -> None:
    play = vote(Playbook(order(policy=VOTING)) << opens(), SIX)
    play = (
        play
        >> Failed(UpstreamTimeout("nothing came"))
        << closes(Result.TIMEOUT)
        << waits(0.5)
        >> Cancelled()
        << finishes(Outcome.CANCELLED)
    )
    assert play
    assert play.finish.votes[0].cast == 1


def test_time_that_is_over_ends_the_votes() -> None:
    play = vote(Playbook(order(policy=VOTING)) << opens(), SIX)
    assert play >> OutOfTime() << closes(Result.TIMEOUT) << finishes(Outcome.ERROR)


def test_votes_cost_tokens_of_the_budget() -> None:
    play = vote(Playbook(order(policy=VOTING, max_tokens=10)) << opens(max_tokens=10), SIX, max_tokens=9)
    play = play >> says(SEVEN, tokens=9) >> ends() << closes(Result.DECIDED)
    assert play << finishes(Outcome.REJECTED, finish_reason="length")


def test_a_vote_that_lets_the_procedure_fail_at_once_is_none() -> None:
    play = vote(Playbook(shares(policy=VOTING)) << opens(), " people = 6\n")
    play = play >> says(" people = 600\n") << closes(Result.DECIDED) << opens(Strategy.RESUME, attempt=2)
    play = play >> says(" people = 6\n") >> ends() << closes(Result.DECIDED) << emits("1", MODEL, value=6)
    play = play << opens(Strategy.DECISION, attempt=2) >> Cancelled() << closes(Result.CANCELLED)
    assert play << finishes(Outcome.CANCELLED)


HELD: Final = Policy(votes=Votes(ahead=2, most=4), deliver="hold_all")
FAILING: Final = " check 10 < 100 = true\n3 rest = 10 - 10 = 0\n"


def test_a_value_with_which_the_procedure_fails_later_is_voted_out() -> None:
    play = vote(Playbook(shares(policy=HELD)) << opens(), " people = 10\n")
    play = play >> says(" people = 10\n") >> ends() << closes(Result.DECIDED) << opens(Strategy.DECISION)
    play = play >> says(FAILING) << closes(Result.DECIDED)
    play = play << opens(Strategy.RESUME, attempt=2, resume_from="1")
    play = vote(play, " people = 5\n", attempt=2)
    play = play >> says(" people = 10\n") >> ends() << closes(Result.DECIDED)
    play = play << opens(Strategy.DECISION, prefix="@begin shares 3fa92c\n1 people = 5\n2")
    play = play >> says(
        " check 5 < 100 = true\n3 rest = 10 - 5 = 5\n4 each = 90 / 5 = 18.00\n5 return 18.00\n"
    )
    play = play >> ends() << closes(Result.PASSED) << emits("1", MODEL, value=5)
    play = play << emits("2") << emits("3") << emits("4") << emits("5")
    assert play << finishes(
        Outcome.ACCEPTED_AFTER_RETRY,
        votes=(Voted(step="1", kind=StepKind.EXTRACT, cast=4, agreed=1, margin=Margin.CAPPED),),
    )


def test_the_next_value_stands_without_being_asked_for_where_it_has_the_votes() -> None:
    play = vote(Playbook(shares(policy=HELD)) << opens(), " people = 10\n")
    for value in (5, 5):
        play = vote(play, f" people = {value}\n")
    play = play >> says(" people = 10\n") >> ends() << closes(Result.DECIDED) << opens(Strategy.DECISION)
    play = play >> says(FAILING) << closes(Result.DECIDED)
    play = play << opens(Strategy.RESUME, attempt=2, prefix="@begin shares 3fa92c\n1 people = 5\n2")
    assert play >> Cancelled() << closes(Result.CANCELLED) << finishes(Outcome.CANCELLED)


def test_where_every_vote_fails_the_run_ends_with_that_reason() -> None:
    play = vote(Playbook(shares(policy=HELD)) << opens(), " people = 10\n")
    play = play >> says(" people = 10\n") >> ends() << closes(Result.DECIDED) << opens(Strategy.DECISION)
    play = play >> says(FAILING) << closes(Result.DECIDED) << opens(Strategy.RESUME)
    play = vote(play, " people = 10\n") >> says(" people = 10\n") >> ends() << closes(Result.DECIDED)
    play = play << opens(Strategy.DECISION) >> says(FAILING) << closes(Result.DECIDED)
    play = play << finishes(Outcome.REJECTED)
    assert play
    assert play.finish.error is not None
    assert play.finish.error.code == "procedure_failed"
    assert "all 4 votes on step 1" in play.finish.error.message


def test_steps_in_any_order_are_put_to_the_vote_where_they_come() -> None:
    play = Playbook(aside(DIALOGUE, policy=VOTING)) << opens()
    play = play >> says("@begin aside 3fa92c\n1.2 n = 5\n1.1 sum") << ignores("1.1 sum")
    play = play << closes(Result.DECIDED) << opens(Strategy.VOTE, resume_from="1.2")
    play = play >> says("1.3 product = 3 * 4 = 12\n") << emits("1.3")
    play = play >> says("1.2 n = 5\n") >> ends() << closes(Result.DECIDED) << emits("1.2", MODEL)
    play = play << opens(Strategy.DECISION, resume_from="1.1") >> says("1.1 sum = 3 + 4 = 7\n")
    play = play << emits("1.1") >> Cancelled() << closes(Result.CANCELLED)
    assert play << finishes(Outcome.CANCELLED)


LOOP: Final = """\
procedure readings(parts: list of int, note: text) -> int
  all = 0
  for part in parts at most 5
    extract n: int from note
    all = all + n * part
  return all
"""


def test_each_pass_of_a_loop_has_a_vote_of_its_own() -> None:
    policy = Policy(votes=Votes(ahead=2, most=2), force=Level.VALUES)
    run = Run(job(LOOP, {"parts": (1, 2), "note": NOTE}), policy, (PREFILL,))
    commands = run.start()
    for text in (" n = 3\n", " n = 3\n", " n = 4\n", " n = 5\n"):
        assert not any(isinstance(command, Finish) for command in commands)
        (opened,) = [command for command in commands if isinstance(command, Open)]
        commands = [*run.handle(says(text)), *run.handle(ends())]
        assert opened.prefix.endswith(".1")
    finish = commands[-1]
    assert isinstance(finish, Finish)
    assert finish.answer == "11"
    assert [(poll.cast, poll.agreed, poll.margin) for poll in finish.votes] == [
        (2, 2, Margin.REACHED),
        (2, 1, Margin.CAPPED),
    ]


def test_where_nothing_may_vary_a_vote_asks_for_the_same_again() -> None:
    play = Playbook(order(policy=Policy(votes=TWO, vary=frozenset()), seed=3)) << opens(seed=3)
    vote(play, SIX, seed=3, temperature=0.0)


def test_only_the_seed_is_another_one_where_only_that_may_vary() -> None:
    play = Playbook(order(policy=Policy(votes=TWO, vary=frozenset({Vary.SEED})), seed=3)) << opens(seed=3)
    vote(vote(play, SIX, seed=4, temperature=0.0), SEVEN, seed=5)

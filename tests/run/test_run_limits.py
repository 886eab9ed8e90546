"""Budgets, time and faults of the network: none of it is the model's infidelity."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from guard.check.verdict import Kind
from guard.dialect.lark import Level
from guard.errors import (
    InvalidState,
    UpstreamBusy,
    UpstreamConnectError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamStatusError,
    UpstreamTimeout,
)
from guard.run.ladders import Action, always
from guard.run.messages import (
    Cancelled,
    Failed,
    Outcome,
    OutOfTime,
    Result,
    StepClass,
    Strategy,
    Usage,
    Waited,
)
from guard.run.run import Policy
from tests.playbook import Playbook, closes, emits, ends, finishes, opens, says, violates, waits
from tests.run.procedures import DIALOGUE, LARGER, PREFILL, order, sums

BEGIN: Final = "@begin sums 3fa92c\n"
LINES: Final = ["1 a = 3 + 4 = 7\n", "2 b = 7 * 2 = 14\n", "3 c = 14 - 3 = 11\n", "4 return 11\n"]
REST: Final = "".join(LINES).removeprefix("1")
NO_REPAIR: Final = Policy(rules=always([Action.RESUME, Action.REJECT]))
TIMEOUT: Final = UpstreamTimeout("nothing came for 30 s")
AWAY: Final = UpstreamConnectError("refused")

# --- tokens --------------------------------------------------------------------------------------


def test_the_clients_budget_is_over_all_generations() -> None:
    assert (
        Playbook(sums(max_tokens=50))
        << opens(max_tokens=50)
        >> says(" a = 3 + 4 = 8\n", tokens=12)
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION, usage=Usage(prompt=5, completion=12, estimated=True), discarded=12)
        << opens(Strategy.RESUME, max_tokens=38)
        >> says(REST)
        << emits("1")
        << emits("2")
        << emits("3")
        << emits("4")
        >> ends(completion=30)
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_AFTER_RETRY)
    )


def test_the_policys_budget_holds_where_the_client_has_none_or_a_larger_one() -> None:
    policy = Policy(output_tokens=100)
    for budget in (None, 5000):
        play = Playbook(sums(policy=policy, max_tokens=budget)) << opens(max_tokens=100)
        assert play >> Cancelled() << closes(Result.CANCELLED) << finishes(Outcome.CANCELLED)


def test_a_budget_that_cannot_suffice_is_refused_before_anything_is_spent() -> None:
    play = Playbook(sums(max_tokens=3)) << finishes(Outcome.ERROR, attempts=0, generations=0, usage=())
    assert play
    error = play.finish.error
    assert error is not None
    assert (error.status, error.type, error.param) == (400, "invalid_request_error", "max_completion_tokens")
    assert "4 lines at least" in error.message
    assert "a larger max_completion_tokens" in error.message


def test_lines_that_the_guard_writes_cost_no_tokens() -> None:
    policy = Policy(force=Level.VALUES)
    play = Playbook(order(policy=policy, max_tokens=2)) << opens(max_tokens=2)
    assert play >> Cancelled() << closes(Result.CANCELLED) << finishes(Outcome.CANCELLED)
    assert Playbook(order(policy=policy, max_tokens=1)) << finishes(Outcome.ERROR)


def test_spent_tokens_end_the_run_as_truncated() -> None:
    play = (
        Playbook(sums(max_tokens=20, policy=NO_REPAIR))
        << opens(max_tokens=20)
        >> says(" a = 3 + 4 = 7\n2 b = 7 *", tokens=20)
        << emits("1")
        >> ends("length", completion=20)
        << violates(Kind.TRUNCATED, "2")
        << closes(Result.BUDGET_EXHAUSTED)
        << finishes(Outcome.REJECTED, attempts=1, finish_reason="length", answer=None)
    )
    assert play
    error = play.finish.error
    assert error is not None
    assert (error.status, error.code, error.param) == (422, "truncated", "2")


@pytest.mark.parametrize(
    ("policys", "clients", "more"),
    [
        (8000, 20, "allow more with max_tokens"),
        (20, None, "the policy (output_tokens)"),
        (20, 90, "the policy"),
    ],
)
def test_who_could_allow_more_tokens_is_named(policys: int, clients: int | None, more: str) -> None:
    job = sums(
        policy=replace(NO_REPAIR, output_tokens=policys), max_tokens=clients, budget_field="max_tokens"
    )
    play = Playbook(job) << opens() >> says(" a = 3 + 4 = 7\n2 b = 7 *", tokens=20) << emits("1")
    play = play >> ends("length", completion=20) << violates(Kind.TRUNCATED, "2")
    play = play << closes(Result.BUDGET_EXHAUSTED)
    assert play << finishes(Outcome.REJECTED)
    assert play.finish.error is not None
    assert more in play.finish.error.message
    assert ("max_tokens" in play.finish.error.message) == (policys == 8000)


def test_a_violation_with_the_last_token_is_no_reason_to_retry() -> None:
    assert (
        Playbook(sums(max_tokens=20, policy=Policy(rules=always([Action.RESUME, Action.FALLBACK]))))
        << opens()
        >> says(" a = 3 + 4 = 8\n", tokens=20)
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.BUDGET_EXHAUSTED)
        << finishes(Outcome.REJECTED, finish_reason="length")
    )


def test_what_the_tokens_do_not_suffice_for_is_repaired_if_that_is_listed() -> None:
    assert (
        Playbook(sums(max_tokens=20))
        << opens()
        >> says(" a = 3 + 4 = 7\n2 b = 7 * 2 = 15\n", tokens=20)
        << emits("1")
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.BUDGET_EXHAUSTED)
        << emits("2", StepClass.REPAIRED)
        << emits("3", StepClass.REPAIRED)
        << emits("4", StepClass.REPAIRED)
        << finishes(Outcome.REPAIRED, answer="11")
    )


@pytest.mark.parametrize(
    "said", [" a = 3 + 4 = 7\n2 b = 7 *", " a = 3 + 4 = 7\n2 b = 7 * 2 = 14", " a = 3 + 4 = 7\n"]
)
def test_tokens_that_end_in_a_line_cost_no_more_than_a_mistake_in_it(said: str) -> None:
    assert (
        Playbook(sums(max_tokens=20))
        << opens()
        >> says(said, tokens=20)
        << emits("1")
        >> ends("length", completion=20)
        << violates(Kind.TRUNCATED, "2")
        << closes(Result.BUDGET_EXHAUSTED)
        << emits("2", StepClass.REPAIRED)
        << emits("3", StepClass.REPAIRED)
        << emits("4", StepClass.REPAIRED)
        << finishes(Outcome.REPAIRED, answer="11", attempts=1)
    )


def test_what_only_the_model_can_decide_is_not_written_for_want_of_tokens() -> None:
    assert (
        Playbook(order(max_tokens=20))
        << opens()
        >> says(" qty = ", tokens=20)
        >> ends("length", completion=20)
        << violates(Kind.TRUNCATED, "1")
        << closes(Result.BUDGET_EXHAUSTED)
        << finishes(Outcome.REJECTED, finish_reason="length")
    )


def test_a_server_that_stops_short_by_itself_is_resumed_without_counting() -> None:
    assert (
        Playbook(sums())
        << opens(attempt=1)
        >> says(" a = 3 + 4 = 7\n2 b = 7 *")
        << emits("1")
        >> ends("length", completion=20)
        << violates(Kind.TRUNCATED, "2")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, attempt=1, prefix=f"{BEGIN}{LINES[0]}2")
        >> says("".join(LINES[1:]).removeprefix("2"))
        << emits("2")
        << emits("3")
        << emits("4")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_FIRST, attempts=1, generations=2)
    )


@pytest.mark.parametrize("repair", [True, False])
def test_a_server_that_never_gets_past_a_line_is_given_up(repair: bool) -> None:
    """All at once: what has not helped at one line would be paid for at each further one."""
    play = (
        Playbook(sums() if repair else sums(policy=NO_REPAIR))
        << opens()
        >> says(" a")
        >> ends("length")
        << violates(Kind.TRUNCATED, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME)
        >> says(" a =")
        >> ends("length")
        << violates(Kind.TRUNCATED, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME)
        >> says(" a = 3")
        >> ends("length")
        << violates(Kind.TRUNCATED, "1")
        << closes(Result.VIOLATION)
    )
    if not repair:
        assert play << finishes(Outcome.REJECTED, attempts=1)
        return
    for step in ("1", "2", "3", "4"):
        play = play << emits(step, StepClass.REPAIRED)
    assert play << finishes(Outcome.REPAIRED, attempts=1, generations=3)


def test_a_server_that_does_not_keep_to_the_budget_is_cut() -> None:
    assert (
        Playbook(sums(max_tokens=20, policy=NO_REPAIR))
        << opens()
        >> says(" a = 3 + 4 = 7\n", tokens=20)
        << emits("1")
        >> says("2", tokens=1)
        << violates(Kind.TRUNCATED, "2")
        << closes(Result.BUDGET_EXHAUSTED)
        << finishes(Outcome.REJECTED)
    )


def test_an_answer_that_is_there_is_not_lost_to_the_budget() -> None:
    assert (
        Playbook(sums(max_tokens=20))
        << opens()
        >> says(REST, tokens=25)
        << emits("1")
        << emits("2")
        << emits("3")
        << emits("4")
        >> ends("length")
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_FIRST)
    )


# --- time ----------------------------------------------------------------------------------------


def test_when_the_time_is_over_the_generation_is_cut() -> None:
    play = (
        Playbook(sums())
        << opens()
        >> says(" a = 3 + 4 = 7\n2 b", tokens=9)
        << emits("1")
        >> OutOfTime()
        << closes(Result.TIMEOUT, usage=Usage(prompt=5, completion=9, estimated=True))
        << finishes(Outcome.ERROR, answer=None, violations=())
    )
    assert play
    error = play.finish.error
    assert error is not None
    assert (error.status, error.code, error.param) == (504, "out_of_time", "2")


def test_an_answer_that_is_there_is_not_lost_to_the_time_or_a_fault() -> None:
    for event in (OutOfTime(), Failed(UpstreamProtocolError("cut"))):
        assert (
            Playbook(sums())
            << opens()
            >> says(REST)
            << emits("1")
            << emits("2")
            << emits("3")
            << emits("4")
            >> event
            << closes(Result.PASSED)
            << finishes(Outcome.ACCEPTED_FIRST)
        )


# --- the network ---------------------------------------------------------------------------------


def test_a_passing_fault_is_waited_out_and_the_run_goes_on_where_it_was() -> None:
    assert (
        Playbook(sums())
        << opens()
        >> says(" a = 3 + 4 = 7\n2 b = 7", tokens=10)
        << emits("1")
        >> Failed(UpstreamProtocolError("the connection was closed in the middle of a line"))
        << closes(Result.UPSTREAM_ERROR, discarded=3)
        << waits(0.5)
        >> Waited()
        << opens(Strategy.TRANSPORT, prefix=f"{BEGIN}{LINES[0]}2", attempt=1, generation=2)
        >> Failed(TIMEOUT)
        << closes(Result.TIMEOUT, error=TIMEOUT)
        << waits(1.0)
        >> Waited()
        << opens(Strategy.TRANSPORT)
        >> Failed(TIMEOUT)
        << closes(Result.TIMEOUT)
        << finishes(Outcome.ERROR, attempts=1, generations=3, violations=())
    )


def test_a_fault_between_two_answers_does_not_make_them_different() -> None:
    assert (
        Playbook(sums())
        << opens()
        >> says(" a = 3 + 4 = 8\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME)
        >> Failed(AWAY)
        << closes(Result.UPSTREAM_ERROR)
        << waits(0.5)
        >> Waited()
        << opens(Strategy.TRANSPORT)
        >> says(" a = 3 + 4 = 8\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.SCAFFOLD, temperature=0.65)
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (UpstreamConnectError("refused"), 502, "upstream_connect_error"),
        (TIMEOUT, 504, "upstream_timeout"),
        (UpstreamProtocolError("HTML"), 502, "upstream_protocol_error"),
        (UpstreamBusy("overloaded", upstream_status=503), 503, "upstream_busy"),
        (UpstreamBusy("slow down", upstream_status=429, retry_after_s=3600), 429, "upstream_busy"),
        (UpstreamStatusError("no such model", upstream_status=404), 404, "upstream_status"),
        (UpstreamStatusError("too long", upstream_status=400), 400, "upstream_status"),
    ],
)
def test_a_fault_that_stays_is_the_clients_error(fault: UpstreamError, status: int, code: str) -> None:
    run = sums(DIALOGUE, policy=Policy(transport_retries=0))
    play = (
        Playbook(run)
        << opens()
        >> Failed(fault)
        << closes(Result.TIMEOUT if fault is TIMEOUT else Result.UPSTREAM_ERROR)
    )
    assert play << finishes(Outcome.ERROR)
    error = play.finish.error
    assert error is not None
    assert (error.status, error.code, error.cause) == (status, code, fault)
    assert error.retry_after_s == fault.retry_after_s


def test_a_further_upstream_is_taken_where_the_first_stays_away() -> None:
    refused = UpstreamConnectError("refused")
    assert (
        Playbook(sums(PREFILL, LARGER, policy=Policy(transport_retries=1)))
        << opens()
        >> Failed(refused)
        << closes(Result.UPSTREAM_ERROR)
        << waits(0.5)
        >> Waited()
        << opens(Strategy.TRANSPORT, upstream="main")
        >> Failed(refused)
        << closes(Result.UPSTREAM_ERROR)
        << opens(Strategy.FALLBACK, upstream="larger", attempt=1)
        >> Failed(refused)
        << closes(Result.UPSTREAM_ERROR)
        << waits(0.5)
        >> Waited()
        << opens(Strategy.TRANSPORT, upstream="larger")
        >> says(REST)
        << emits("1")
        << emits("2")
        << emits("3")
        << emits("4")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_BY_FALLBACK, attempts=1)
    )


def test_a_request_that_the_server_finds_wrong_is_not_sent_to_another_one() -> None:
    wrong = UpstreamStatusError("context too long", upstream_status=400)
    assert (
        Playbook(sums(PREFILL, LARGER))
        << opens()
        >> Failed(wrong)
        << closes(Result.REFUSED)
        << opens(Strategy.LESS, upstream="main", prefix="")
        >> Failed(wrong)
        << closes(Result.UPSTREAM_ERROR)
        << finishes(Outcome.ERROR)
    )


def test_a_scaffolded_line_stays_scaffolded_when_the_network_fails() -> None:
    scaffolded = f"{BEGIN}1 a = 3 + 4 ="
    assert (
        Playbook(sums())
        << opens()
        >> says(" a = 3 + 5 = 8\n")
        << violates(Kind.WRONG_EXPRESSION, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.SCAFFOLD, prefix=scaffolded)
        >> Failed(AWAY)
        << closes(Result.UPSTREAM_ERROR)
        << waits(0.5)
        >> Waited()
        << opens(Strategy.TRANSPORT, prefix=scaffolded)
        >> says(f" 7\n{LINES[1]}")
        << emits("1", StepClass.SCAFFOLDED)
        << emits("2")
        >> Failed(TIMEOUT)
        << closes(Result.TIMEOUT)
        << waits(1.0)
        >> Waited()
        << opens(Strategy.TRANSPORT, prefix=f"{BEGIN}{LINES[0]}{LINES[1]}3")
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )


@pytest.mark.parametrize("event", [Cancelled(), OutOfTime()])
def test_a_wait_can_be_broken_off(event: Cancelled | OutOfTime) -> None:
    outcome = Outcome.CANCELLED if event == Cancelled() else Outcome.ERROR
    assert (
        Playbook(sums())
        << opens()
        >> Failed(TIMEOUT)
        << closes(Result.TIMEOUT)
        << waits(0.5)
        >> event
        << finishes(outcome, generations=1)
    )


def test_a_fault_in_a_dialogue_before_the_first_line_asks_for_the_same_again() -> None:
    assert (
        Playbook(sums(DIALOGUE))
        << opens(messages=({"role": "user", "content": "Go."},))
        >> says("@begin sums")
        >> Failed(TIMEOUT)
        << closes(Result.TIMEOUT)
        << waits(0.5)
        >> Waited()
        << opens(Strategy.TRANSPORT, messages=({"role": "user", "content": "Go."},), prefix="")
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )


def test_text_while_nothing_is_open_is_misuse() -> None:
    run = sums()
    run.start()
    run.handle(Failed(TIMEOUT))
    for event in (says("x"), ends(), Failed(TIMEOUT)):
        with pytest.raises(InvalidState, match="no generation was open"):
            run.handle(event)


# --- faults and time behind a violation ----------------------------------------------------------


@pytest.mark.parametrize("event", [Failed(UpstreamStatusError("no", upstream_status=404)), OutOfTime()])
def test_what_ends_a_run_behind_a_violation_leaves_it_to_the_guard(event: Failed | OutOfTime) -> None:
    play = (
        Playbook(sums())
        << opens()
        >> says(" a = 3 + 4 = 8\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME)
        >> says(" a = 3 + 4 = 7\n2 b = ")
        << emits("1")
        >> event
        << closes(Result.TIMEOUT if event == OutOfTime() else Result.UPSTREAM_ERROR)
    )
    for step in ("2", "3", "4"):
        play = play << emits(step, StepClass.REPAIRED)
    assert play << finishes(Outcome.REPAIRED, answer="11", error=None)


@pytest.mark.parametrize("event", [Failed(UpstreamStatusError("no", upstream_status=404)), OutOfTime()])
@pytest.mark.parametrize("repair", [True, False])
def test_it_is_an_error_where_nothing_was_wrong_or_the_guard_may_not_write(
    event: Failed | OutOfTime, repair: bool
) -> None:
    play = Playbook(sums(policy=Policy() if repair else NO_REPAIR)) << opens()
    if not repair:
        play = play >> says(" a = 8\n") << violates(Kind.WRONG_EXPRESSION, "1") << closes(Result.VIOLATION)
        play = play << opens(Strategy.RESUME)
    play = play >> event << closes(Result.TIMEOUT if event == OutOfTime() else Result.UPSTREAM_ERROR)
    assert play << finishes(Outcome.ERROR, answer=None)


def test_and_where_the_model_has_still_to_decide() -> None:
    assert (
        Playbook(order())
        << opens()
        >> says(' qty = 60 <- "Six panels"\n')
        << violates(Kind.INADMISSIBLE_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME)
        >> OutOfTime()
        << closes(Result.TIMEOUT)
        << finishes(Outcome.ERROR, answer=None)
    )

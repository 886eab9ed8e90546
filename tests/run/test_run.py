"""Runs on an upstream that continues a prefix: what is cut, what is resumed, what the client gets."""

from __future__ import annotations

import pytest

from guard.check.verdict import Kind
from guard.errors import InvalidState
from guard.run.ladders import Action, Rung, always
from guard.run.messages import (
    Cancelled,
    Outcome,
    OutOfTime,
    Result,
    StepClass,
    Strategy,
    Usage,
    Waited,
)
from guard.run.run import Policy, Run
from tests.playbook import (
    Playbook,
    closes,
    emits,
    ends,
    finishes,
    ignores,
    opens,
    says,
    violates,
)
from tests.run.procedures import LARGER, PREFILL, stock, sums

BEGIN = "@begin sums 3fa92c\n"
LINES = ["1 a = 3 + 4 = 7\n", "2 b = 7 * 2 = 14\n", "3 c = 14 - 3 = 11\n", "4 return 11\n"]
TRACE = BEGIN + "".join(LINES) + "@end 3fa92c\n"


def test_a_faithful_trace_is_delivered_step_by_step_and_accepted() -> None:
    play = (
        Playbook(sums())
        << opens(generation=1, attempt=1, upstream="main", model="m", prefix=f"{BEGIN}1", grammar=None)
        >> says(" a = 3 + 4 = 7\n2 b")
        << emits("1", text=LINES[0], value=7)
        >> says(" = 7 * 2 = 14\n3 c = 14 - 3 = 11\n")
        << emits("2", text=LINES[1], value=14)
        << emits("3", text=LINES[2], value=11)
        >> says("4 return 11\n")
        << emits("4", text=LINES[3], value=11)
        >> says("@end 3fa92c")
        >> ends(prompt=200, completion=40)
        << closes(Result.PASSED, usage=Usage(prompt=200, completion=40), discarded=0)
        << finishes(
            Outcome.ACCEPTED_FIRST,
            end="return",
            answer="11",
            trace=TRACE,
            attempts=1,
            generations=1,
            violations=(),
            usage=(Usage(prompt=200, completion=40),),
            error=None,
            finish_reason="stop",
        )
    )
    assert play
    assert play.finish.steps.expected == play.finish.steps.verified == 4
    assert play.finish.steps.fidelity == 1.0
    assert set(play.finish.classes.values()) == {StepClass.VERIFIED}


def test_hold_all_delivers_nothing_before_the_end() -> None:
    assert (
        Playbook(sums(policy=Policy(deliver="hold_all")))
        << opens()
        >> says(TRACE.removeprefix(f"{BEGIN}1"))
        >> ends()
        << closes(Result.PASSED)
        << emits("1")
        << emits("2")
        << emits("3")
        << emits("4")
        << finishes(Outcome.ACCEPTED_FIRST, answer="11")
    )


def test_a_wrong_value_is_cut_and_resumed_warmer_behind_the_last_verified_step() -> None:
    play = (
        Playbook(sums())
        << opens(temperature=0.0, seed=None)
        >> says(" a = 3 + 4 = 7\n")
        << emits("1")
        >> says("2 b = 7 * 2 = 15\n3 c = ")
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION)
        << opens(
            Strategy.RESUME,
            generation=2,
            attempt=2,
            prefix=f"{BEGIN}{LINES[0]}2",
            temperature=0.5,
            resume_from="2",
        )
        >> says(f" b = 7 * 2 = 14\n{LINES[2]}{LINES[3]}")
        << emits("2", text=LINES[1])
        << emits("3")
        << emits("4")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_AFTER_RETRY, answer="11", trace=TRACE, attempts=2, generations=2)
    )
    assert play
    (violation,) = play.finish.violations
    assert violation.at == len(BEGIN + LINES[0] + "2 b = 7 * 2 = ")


def test_the_ladder_of_a_wrong_value_ends_in_a_repair_and_the_model_goes_on() -> None:
    wrong = " b = 7 * 2 = %d\n"
    play = (
        Playbook(sums())
        << opens()
        >> says(f" a = 3 + 4 = 7\n2{wrong % 11}")
        << emits("1")
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, temperature=0.5)
        >> says(wrong % 12)
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION, discarded=1)
        << opens(Strategy.RESUME, temperature=0.65)
        >> says(wrong % 13)
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION)
        << opens(Strategy.SCAFFOLD, prefix=f"{BEGIN}{LINES[0]}2 b = 7 * 2 =", temperature=0.0)
        >> says(" 15\n")
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION)
        << opens(Strategy.SCAFFOLD, temperature=0.5, attempt=5)
        >> says(" 16\n")
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION)
        << emits("2", StepClass.REPAIRED, text=LINES[1])
        << opens(Strategy.REPAIR, prefix=f"{BEGIN}{LINES[0]}{LINES[1]}3", attempt=5, temperature=0.0)
        >> says(f" c = 14 - 3 = 11\n{LINES[3]}@end 3fa92c\n")
        << emits("3")
        << emits("4")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.REPAIRED, answer="11", trace=TRACE, attempts=5, generations=6)
    )
    assert play
    steps = play.finish.steps
    assert (steps.expected, steps.verified, steps.repaired, steps.missing) == (4, 3, 1, 0)
    assert (steps.fidelity, steps.upheld) == (0.75, 0.75)


def test_a_wrong_operand_is_scaffolded_at_once_and_counted_as_such() -> None:
    play = (
        Playbook(sums())
        << opens()
        >> says(" a = 3 + 5 = 8\n")
        << violates(Kind.WRONG_EXPRESSION, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.SCAFFOLD, prefix=f"{BEGIN}1 a = 3 + 4 =")
        >> says(f" 7\n{LINES[1]}{LINES[2]}{LINES[3]}")
        << emits("1", StepClass.SCAFFOLDED, text=LINES[0])
        << emits("2")
        << emits("3")
        << emits("4")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_AFTER_RETRY)
    )
    assert play
    assert (play.finish.steps.scaffolded, play.finish.steps.verified) == (1, 3)


def test_a_line_without_an_expression_is_not_scaffolded_but_repaired() -> None:
    assert (
        Playbook(sums())
        << opens()
        >> says(f" a = 3 + 4 = 7\n{LINES[1]}{LINES[2]}4 return 7 + 4 = 11\n")
        << emits("1")
        << emits("2")
        << emits("3")
        << violates(Kind.WRONG_EXPRESSION, "4")
        << closes(Result.VIOLATION)
        << emits("4", StepClass.REPAIRED)
        << finishes(Outcome.REPAIRED, answer="11", trace=TRACE)
    )


@pytest.mark.parametrize(
    ("text", "kind", "step"),
    [
        ("3 c = 14 - 3 = 11\n", Kind.SKIPPED_STEP, "2"),
        ("4 return 11\n", Kind.PREMATURE_ANSWER, "2"),
        ("1 a = 3 + 4 = 7\n", Kind.REPEATED_STEP, "2"),
        ("1 a = 3 + 4 = 8\n", Kind.SELF_CORRECTION, "2"),
        ("@end 3fa92c\n", Kind.MISSING_ANSWER, "2"),
    ],
)
def test_a_lost_form_is_resumed(text: str, kind: Kind, step: str) -> None:
    assert (
        Playbook(sums())
        << opens()
        >> says(f" a = 3 + 4 = 7\n{text}")
        << emits("1")
        << violates(kind, step)
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, prefix=f"{BEGIN}{LINES[0]}2")
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )


def test_a_model_that_stops_early_is_resumed() -> None:
    assert (
        Playbook(sums())
        << opens()
        >> says(" a = 3 + 4 = 7\n")
        << emits("1")
        >> ends(completion=9)
        << violates(Kind.MISSING_ANSWER, "2")
        << closes(Result.VIOLATION, usage=Usage(completion=9), discarded=0)
        << opens(Strategy.RESUME, attempt=2)
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )


def test_a_model_that_writes_nothing_has_not_written_a_malformed_line() -> None:
    play = (
        Playbook(sums())
        << opens()
        >> ends()
        << violates(Kind.MISSING_ANSWER, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME)
        >> says(" ")
        >> ends()
        << violates(Kind.MISSING_ANSWER, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME)
        >> ends()
        << violates(Kind.MISSING_ANSWER, "1")
        << closes(Result.VIOLATION)
        << emits("1", StepClass.REPAIRED)
        << opens(Strategy.REPAIR)
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )
    assert play
    assert [violation.at for violation in play.finish.violations] == [len(BEGIN)] * 3


def test_a_last_line_need_not_end_where_the_model_stops() -> None:
    assert (
        Playbook(sums())
        << opens()
        >> says(TRACE.removeprefix(f"{BEGIN}1").removesuffix("\n@end 3fa92c\n"))
        << emits("1")
        << emits("2")
        << emits("3")
        >> ends()
        << emits("4", text=LINES[3])
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_FIRST, trace=TRACE)
    )


def test_a_last_line_that_is_wrong_is_judged_when_the_model_stops() -> None:
    assert (
        Playbook(sums())
        << opens()
        >> says(" a = 3 + 4 = 8")
        >> ends(completion=8)
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION, usage=Usage(completion=8), discarded=8)
        << opens(Strategy.RESUME)
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )


def test_text_behind_the_answer_changes_nothing_and_is_cut() -> None:
    assert (
        Playbook(sums())
        << opens()
        >> says(TRACE.removeprefix(f"{BEGIN}1").removesuffix("@end 3fa92c\n"))
        << emits("1")
        << emits("2")
        << emits("3")
        << emits("4")
        >> says("@e")
        >> says("nd 3fa92c\n")
        >> says("\n")
        >> says("5 return 12\n", tokens=4)
        << ignores("@end 3fa92c\n\n5 return 12\n")
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_FIRST, answer="11", trace=TRACE)
    )


def test_blank_text_without_end_behind_the_answer_is_cut() -> None:
    play = Playbook(sums()) << opens() >> says(TRACE.removeprefix(f"{BEGIN}1").removesuffix("@end 3fa92c\n"))
    play = play << emits("1") << emits("2") << emits("3") << emits("4")
    longest = len("@end 3fa92c\n") + 16
    for _ in range(longest - 1):
        play = play >> says("\n")
    assert (
        play
        >> says(" \n")
        << ignores("\n" * (longest - 1) + " \n")
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_FIRST, answer="11", trace=TRACE)
    )


def test_a_malformed_line_is_resumed_once_and_then_repaired() -> None:
    assert (
        Playbook(sums())
        << opens()
        >> says(" a = 3 + 4 = 7\nSo b is 14.\n")
        << emits("1")
        << violates(Kind.MALFORMED, "2")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, prefix=f"{BEGIN}{LINES[0]}2", temperature=0.5)
        >> says(" b is fourteen.\n")
        << violates(Kind.MALFORMED, "2")
        << closes(Result.VIOLATION)
        << emits("2", StepClass.REPAIRED)
        << opens(Strategy.REPAIR)
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )


def test_where_the_guard_may_not_write_it_a_malformed_line_is_rejected() -> None:
    play = (
        Playbook(sums(policy=Policy(rules=always([Rung(Action.RESUME, 1), Action.REJECT]))))
        << opens()
        >> says(" a = 3 + 4 = 7\nSo b is 14.\n")
        << emits("1")
        << violates(Kind.MALFORMED, "2")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, prefix=f"{BEGIN}{LINES[0]}2", temperature=0.5)
        >> says(" b is fourteen.\n")
        << violates(Kind.MALFORMED, "2")
        << closes(Result.VIOLATION)
        << finishes(Outcome.REJECTED, answer=None, end=None, trace=BEGIN + LINES[0], attempts=2)
    )
    assert play
    error = play.finish.error
    assert error is not None
    assert (error.status, error.type, error.code, error.param) == (
        422,
        "procedure_violation",
        "malformed",
        "2",
    )
    assert "resume was tried once at this step" in error.message
    assert "fourteen" not in error.message, "what the model wrote stays with us"
    assert play.finish.steps.missing == 3


def test_a_malformed_trace_starts_over_where_nothing_was_delivered() -> None:
    assert (
        Playbook(sums(policy=Policy(deliver="hold_all")))
        << opens()
        >> says(" a = 3 + 4 = 7\nSo b is 14.\n", tokens=10)
        << violates(Kind.MALFORMED, "2")
        << closes(Result.VIOLATION, discarded=4)
        << opens(Strategy.RESUME)
        >> says(" Well.\n", tokens=3)
        << violates(Kind.MALFORMED, "2")
        << closes(Result.VIOLATION, discarded=3)
        << opens(Strategy.RESTART, prefix=f"{BEGIN}1", temperature=0.5, attempt=3, resume_from="1")
        >> says(TRACE.removeprefix(f"{BEGIN}1"))
        >> ends()
        << closes(Result.PASSED)
        << emits("1")
        << emits("2")
        << emits("3")
        << emits("4")
        << finishes(Outcome.ACCEPTED_AFTER_RETRY)
    )


def test_a_restart_throws_away_the_verified_prefix_too() -> None:
    assert (
        Playbook(sums(policy=Policy(deliver="hold_all", rules=always([Action.RESTART]))))
        << opens()
        >> says(" a = 3 + 4 = 7\nSo b is 14.\n", tokens=10)
        << violates(Kind.MALFORMED, "2")
        << closes(Result.VIOLATION, discarded=10)
        << opens(Strategy.RESTART, prefix=f"{BEGIN}1")
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED, trace=BEGIN)
    )


def test_an_identical_response_leads_on_to_what_is_next() -> None:
    play = (
        Playbook(sums(policy=Policy(rules=always([Action.RESUME, Action.FEEDBACK]), attempts=3)))
        << opens()
        >> says(" a = 3 + 4 = 8\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME)
        >> says(" a = 3 + 4")
        >> says(" = 8\n2 b")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.FEEDBACK, temperature=0.65)
        >> says(" a = 3 + 4 = 8\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.FEEDBACK, temperature=0.8)
        >> says(" a = 3 + 4 = 8\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << finishes(Outcome.REJECTED)
    )
    assert play
    assert "all 3 attempts are spent" in play.finish.reason


def test_vary_false_leaves_temperature_and_seed_to_the_client() -> None:
    assert (
        Playbook(sums(policy=Policy(vary=frozenset()), temperature=0.2, seed=7, top_p=0.9))
        << opens(temperature=0.2, seed=7, top_p=0.9)
        >> says(" a = 3 + 4 = 8\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, temperature=0.2, seed=7, top_p=0.9)
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )


def test_a_retry_raises_the_clients_temperature_and_changes_its_seed() -> None:
    assert (
        Playbook(sums(temperature=0.6, seed=7))
        << opens(temperature=0.6, seed=7)
        >> says(" a = 3 + 4 = 8\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, temperature=0.6, seed=8)
        >> says(" a = 3 + 4 = 9\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, temperature=0.65, seed=9)
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )


def test_a_further_upstream_takes_over_the_verified_prefix_and_keeps_the_run() -> None:
    list_of_two = Policy(rules=always([Action.FALLBACK, Action.REJECT]))
    assert (
        Playbook(sums(PREFILL, LARGER, policy=list_of_two))
        << opens(upstream="main", model="m")
        >> says(" a = 3 + 4 = 7\n2 b = 7 * 2 = 15\n")
        << emits("1")
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION)
        << opens(
            Strategy.FALLBACK,
            upstream="larger",
            model="l",
            prefix=f"{BEGIN}{LINES[0]}2",
            temperature=None,
        )
        >> says(f" b = 7 * 2 = 14\n{LINES[2]}{LINES[3]}")
        << emits("2")
        << emits("3")
        << emits("4")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_BY_FALLBACK, trace=TRACE, attempts=2)
    )


def test_at_the_cap_of_attempts_all_that_is_left_is_repaired() -> None:
    play = (
        Playbook(sums(policy=Policy(attempts=1)))
        << opens()
        >> says(" a = 3 + 4 = 8\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, attempt=2)
        >> says(" a = 3 + 4 = 7\n2 b = 7 * 2 = 15\n")
        << emits("1")
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION)
        << emits("2", StepClass.REPAIRED)
        << emits("3", StepClass.REPAIRED)
        << emits("4", StepClass.REPAIRED)
        << finishes(Outcome.REPAIRED, trace=TRACE, attempts=2, generations=2)
    )
    assert play
    assert play.finish.steps.repaired == 3


def test_at_the_cap_of_attempts_a_run_without_repair_is_rejected() -> None:
    play = (
        Playbook(sums(policy=Policy(attempts=1, rules=always([Action.RESUME, Action.REJECT]))))
        << opens()
        >> says(" a = 3 + 4 = 8\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, attempt=2)
        >> says(" a = 3 + 4 = 9\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << finishes(Outcome.REJECTED, attempts=2)
    )
    assert play
    assert "all 1 attempts are spent" in play.finish.reason


def test_a_refusal_is_an_answer() -> None:
    assert (
        Playbook(stock([]))
        << opens()
        >> says(' require len(counts) > 0 = false\n1.1 deny "Nothing counted."\n')
        << emits("1")
        << emits("1.1")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_FIRST, end="deny", answer="Nothing counted.")
    )


def test_a_wrong_branch_is_repaired_like_any_line_that_is_computed() -> None:
    wrong = " require len(counts) > 0 = false\n"
    assert (
        Playbook(stock([3, 4], policy=Policy(attempts_per_step=1)))
        << opens()
        >> says(wrong)
        << violates(Kind.WRONG_BRANCH, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME)
        >> says(wrong)
        << violates(Kind.WRONG_BRANCH, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.SCAFFOLD, prefix="@begin stock 3fa92c\n1 require len(counts) > 0 =")
        >> says(" false\n")
        << violates(Kind.WRONG_BRANCH, "1")
        << closes(Result.VIOLATION)
        << emits("1", StepClass.REPAIRED, text="1 require len(counts) > 0 = true\n")
        << opens(Strategy.REPAIR)
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )


def test_a_loop_is_resumed_at_the_pass_that_went_wrong() -> None:
    assert (
        Playbook(stock([3, 4]))
        << opens(prefix="@begin stock 3fa92c\n1")
        >> says(" require len(counts) > 0 = true\n2 all = 0\n3 for n in counts = 2\n3[1].1 all = 0 + 3 = 3\n")
        << emits("1")
        << emits("2")
        << emits("3")
        << emits("3[1].1")
        >> says("3[2].1 all = 0 + 4 = 4\n")
        << violates(Kind.WRONG_EXPRESSION, "3[2].1")
        << closes(Result.VIOLATION)
        << opens(Strategy.SCAFFOLD, resume_from="3[2].1")
        >> says(" 7\n4 require 7 >= 5 = true\n5 return 7\n")
        << emits("3[2].1", StepClass.SCAFFOLDED)
        << emits("4")
        << emits("5")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_AFTER_RETRY, answer="7")
    )


# --- misuse --------------------------------------------------------------------------------------


def test_a_run_is_started_once_and_handles_nothing_before_that() -> None:
    run = sums()
    with pytest.raises(InvalidState, match="before the start"):
        run.handle(says(" a"))
    run.start()
    with pytest.raises(InvalidState, match="started once"):
        run.start()


def test_nothing_comes_behind_the_end_of_a_run() -> None:
    run = sums()
    run.start()
    run.handle(Cancelled())
    for event in (says("x"), ends(), Waited(), OutOfTime(), Cancelled()):
        with pytest.raises(InvalidState, match="behind the end"):
            run.handle(event)


def test_a_wait_that_nobody_asked_for_is_misuse() -> None:
    run = sums()
    run.start()
    with pytest.raises(InvalidState, match="no wait"):
        run.handle(Waited())


def test_a_run_needs_an_upstream() -> None:
    run = sums()
    with pytest.raises(InvalidState, match="needs an upstream"):
        Run(run._job, Policy(), ())


def test_a_run_shows_its_state() -> None:
    run = sums()
    states = [repr(run)]
    run.start()
    run.handle(says(" a = 3 + 4 = 7\n"))
    states.append(repr(run))
    run.handle(Cancelled())
    states.append(repr(run))
    assert states == [
        "<Run of sums: new, 0 lines>",
        "<Run of sums: open, 1 lines>",
        "<Run of sums: over, 1 lines>",
    ]

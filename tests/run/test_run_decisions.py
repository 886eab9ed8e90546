"""Runs with steps that only the model can do: grammars, re-opening, what the guard writes itself."""

from __future__ import annotations

from typing import Final

import pytest

from guard.check.verdict import Kind
from guard.dialect.lark import Level
from guard.run.messages import Cancelled, Outcome, OutOfTime, Result, StepClass, Strategy, Usage
from guard.run.run import Policy
from tests.playbook import Playbook, closes, emits, ends, finishes, ignores, opens, says, violates
from tests.run.procedures import DIALOGUE, GRAMMAR, LARGER, PREFILL, order, shares, stock, sums

BEGIN: Final = "@begin order 3fa92c\n"
QTY: Final = '1 qty = 6 <- "Six panels"\n'
LOYAL: Final = "2 loyal = true\n"
PRICE: Final = "3 price = 10.00\n"
COMPUTED: Final = [
    PRICE,
    "4 if true\n",
    "4.1 price = 9.50\n",
    "5 total = 6 * 9.50 = 57.00\n",
    '6 return {"qty": 6, "total": 57.00}\n',
]
ANSWER: Final = '{"qty": 6, "total": 57.00}'
TRACE: Final = BEGIN + QTY + LOYAL + "".join(COMPUTED) + "@end 3fa92c\n"
GUARD: Final = Policy(force=Level.VALUES)
MODEL = StepClass.MODEL_DECIDED


def test_decisions_are_the_models_and_the_rest_is_verified() -> None:
    play = (
        Playbook(order())
        << opens(prefix=f"{BEGIN}1", grammar=None)
        >> says(TRACE.removeprefix(f"{BEGIN}1"))
        << emits("1", MODEL, value=6)
        << emits("2", MODEL, value=True)
        << emits("3")
        << emits("4")
        << emits("4.1")
        << emits("5")
        << emits("6")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_FIRST, answer=ANSWER)
    )
    assert play
    steps = play.finish.steps
    assert (steps.expected, steps.model_decided, steps.verified) == (7, 2, 5)


def test_the_generation_is_opened_again_behind_what_was_decided() -> None:
    play = Playbook(order(GRAMMAR)) << opens(attempt=1, prefix=f"{BEGIN}1")
    grammar = play.commands[0].grammar  # type: ignore[union-attr]
    assert grammar is not None
    assert "10.00" in grammar, "this line hangs on no decision"
    assert "return" not in grammar, "this one does"
    play = (
        play
        >> says((QTY + LOYAL + PRICE).removeprefix("1"))
        << emits("1", MODEL)
        << emits("2", MODEL)
        << emits("3", StepClass.SCAFFOLDED)
        >> ends(prompt=90, completion=20)
        << closes(Result.DECIDED, usage=Usage(prompt=90, completion=20), discarded=0)
        << opens(
            Strategy.DECISION,
            generation=2,
            attempt=1,
            prefix=f"{BEGIN}{QTY}{LOYAL}{PRICE}4",
            temperature=0.0,
        )
        >> says("".join(COMPUTED[1:]).removeprefix("4"))
        << emits("4", StepClass.SCAFFOLDED)
        << emits("4.1", StepClass.SCAFFOLDED)
        << emits("5", StepClass.SCAFFOLDED)
        << emits("6", StepClass.SCAFFOLDED)
        >> says("@end 3fa92c\n")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_FIRST, answer=ANSWER, attempts=1, generations=2)
    )
    assert play


def test_a_grammar_narrows_to_what_is_left_when_a_step_is_resumed() -> None:
    play = (
        Playbook(sums(GRAMMAR))
        << opens(prefix="@begin sums 3fa92c\n1")
        >> says(" a = 3 + 4 = 7\n2 b = 7 * 2 = 15\n")
        << emits("1", StepClass.SCAFFOLDED)
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME)
    )
    first, resumed = (c for c in play.commands if hasattr(c, "grammar"))
    assert "3 + 4" in str(first.grammar)
    assert "3 + 4" not in str(resumed.grammar)
    assert "7 * 2" in str(resumed.grammar)


def test_a_line_whose_operands_stood_in_the_grammar_is_not_scaffolded() -> None:
    wrong = " a = 3 + 4 = %d\n"
    assert (
        Playbook(sums(GRAMMAR, policy=Policy(attempts_per_step=1)))
        << opens()
        >> says(wrong % 8)
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME)
        >> says(wrong % 9)
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << emits("1", StepClass.REPAIRED)
        << opens(Strategy.REPAIR, prefix="@begin sums 3fa92c\n1 a = 3 + 4 = 7\n2")
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )


def test_at_level_shape_a_line_can_still_be_scaffolded() -> None:
    assert (
        Playbook(sums(GRAMMAR, policy=Policy(force=Level.SHAPE)))
        << opens()
        >> says(" a = 3 + 5 = 8\n")
        << violates(Kind.WRONG_EXPRESSION, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.SCAFFOLD, prefix="@begin sums 3fa92c\n1 a = 3 + 4 =")
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )


def test_level_none_sends_no_grammar() -> None:
    assert (
        Playbook(order(GRAMMAR, policy=Policy(force=Level.NONE)))
        << opens(grammar=None)
        >> says(TRACE.removeprefix(f"{BEGIN}1"))
        << emits("1", MODEL)
        << emits("2", MODEL)
        << emits("3")
        << emits("4")
        << emits("4.1")
        << emits("5")
        << emits("6")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_FIRST)
    )


def test_an_upstream_that_ignores_its_grammar_is_read_on() -> None:
    assert (
        Playbook(order(GRAMMAR))
        << opens()
        >> says((QTY + LOYAL + PRICE + COMPUTED[1]).removeprefix("1"))
        << emits("1", MODEL)
        << emits("2", MODEL)
        << emits("3", StepClass.SCAFFOLDED)
        << emits("4", StepClass.VERIFIED)
        >> says("4.1 price = 9.55\n")
        << violates(Kind.WRONG_VALUE, "4.1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME)
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (' qty = 60 <- "Six panels"\n', Kind.INADMISSIBLE_VALUE),
        (' qty = 6 <- "Sixty panels"\n', Kind.UNGROUNDED_VALUE),
        (" qty = 6\n", Kind.UNGROUNDED_VALUE),
    ],
)
def test_a_bad_decision_is_resumed_told_handed_on_and_then_rejected(line: str, kind: Kind) -> None:
    play = (
        Playbook(order(PREFILL, LARGER, policy=Policy(attempts=4, attempts_per_step=1)))
        << opens()
        >> says(line)
        << violates(kind, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, temperature=0.5)
        >> says(f"{line} ".replace(" ", "  ", 1))
        << violates(kind, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.FEEDBACK, temperature=0.65)
        >> says(line)
        << violates(kind, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.FALLBACK, upstream="larger")
        >> says(line)
        << violates(kind, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, upstream="larger")
        >> says(line.replace("=", " ="))
        << violates(kind, "1")
        << closes(Result.VIOLATION)
        << finishes(Outcome.REJECTED, attempts=5)
    )
    assert play
    assert play.finish.steps.expected is None, "it hangs on what was never decided"
    assert play.finish.steps.missing is None


# --- the guard writes what it can ----------------------------------------------------------------


def test_compute_guard_leaves_only_decisions_to_the_model() -> None:
    play = (
        Playbook(order(policy=GUARD))
        << opens(prefix=f"{BEGIN}1")
        >> says(QTY.removeprefix("1"))
        >> ends()
        << closes(Result.DECIDED)
        << emits("1", MODEL)
        << opens(Strategy.DECISION, prefix=f"{BEGIN}{QTY}2", attempt=1)
        >> says(LOYAL.removeprefix("2"))
        >> ends()
        << closes(Result.DECIDED)
        << emits("2", MODEL)
        << emits("3", StepClass.COMPUTED)
        << emits("4", StepClass.COMPUTED)
        << emits("4.1", StepClass.COMPUTED)
        << emits("5", StepClass.COMPUTED)
        << emits("6", StepClass.COMPUTED)
        << finishes(Outcome.ACCEPTED_FIRST, answer=ANSWER, trace=TRACE, attempts=1, generations=2)
    )
    assert play
    steps = play.finish.steps
    assert (steps.expected, steps.model_decided, steps.computed, steps.verified) == (7, 2, 5, 0)


def test_compute_guard_cuts_a_model_that_writes_on() -> None:
    assert (
        Playbook(order(policy=GUARD))
        << opens()
        >> says(QTY.removeprefix("1") + "\n")
        >> says("2 loyal", tokens=3)
        << ignores("\n2 loyal")
        << closes(Result.DECIDED, discarded=1)
        << emits("1", MODEL)
        << opens(Strategy.DECISION)
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED)
    )


def test_compute_guard_needs_no_upstream_where_nothing_is_to_be_decided() -> None:
    play = (
        Playbook(sums(policy=GUARD))
        << emits("1", StepClass.COMPUTED)
        << emits("2", StepClass.COMPUTED)
        << emits("3", StepClass.COMPUTED)
        << emits("4", StepClass.COMPUTED)
        << finishes(Outcome.ACCEPTED_FIRST, answer="11", attempts=0, generations=0, usage=())
    )
    assert play


def test_compute_guard_works_without_prefill_too() -> None:
    play = (
        Playbook(order(DIALOGUE, policy=GUARD))
        << opens(prefix="")
        >> says(BEGIN + QTY)
        >> ends()
        << closes(Result.DECIDED)
        << emits("1", MODEL)
        << opens(Strategy.DECISION, prefix="")
        >> says(f"{BEGIN}{QTY}{LOYAL}")
        << ignores(BEGIN)
        << ignores(QTY)
        >> OutOfTime()
        << closes(Result.DECIDED)
        << emits("2", MODEL)
        << emits("3", StepClass.COMPUTED)
        << emits("4", StepClass.COMPUTED)
        << emits("4.1", StepClass.COMPUTED)
        << emits("5", StepClass.COMPUTED)
        << emits("6", StepClass.COMPUTED)
        << finishes(Outcome.ACCEPTED_FIRST)
    )
    assert play


# --- the procedure fails -------------------------------------------------------------------------


def test_a_procedure_that_fails_right_behind_a_decision_asks_for_it_again() -> None:
    assert (
        Playbook(shares())
        << opens(prefix="@begin shares 3fa92c\n1")
        >> says(" people = 600\n2 ch", tokens=8)
        << closes(Result.DECIDED, discarded=8)
        << opens(
            Strategy.RESUME, prefix="@begin shares 3fa92c\n1", temperature=0.5, attempt=2, resume_from="1"
        )
        >> says(" people = 6\n")
        << emits("1", MODEL, value=6)
        >> says("2 check 6 < 100 = true\n3 rest = 10 - 6 = 4\n4 each = 90 / 4 = 22.50\n5 return 22.50\n")
        << emits("2")
        << emits("3")
        << emits("4")
        << emits("5")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_AFTER_RETRY, answer="22.50", violations=())
    )


def test_a_procedure_that_fails_behind_a_delivered_decision_is_an_error_of_its_own() -> None:
    play = (
        Playbook(shares())
        << opens()
        >> says(" people = 10\n2 check 10 < 100 = true\n")
        << emits("1", MODEL)
        << emits("2")
        >> says("3 rest = 10 - 10 = 0\n4 each")
        << closes(Result.DECIDED)
        << finishes(Outcome.REJECTED, violations=(), answer=None)
    )
    assert play
    error = play.finish.error
    assert error is not None
    assert (error.status, error.type, error.code, error.param) == (
        422,
        "procedure_failed",
        "procedure_failed",
        "4",
    )
    assert "division by zero" in error.message


def test_with_hold_all_a_later_failure_goes_back_to_the_decision() -> None:
    assert (
        Playbook(shares(policy=Policy(deliver="hold_all")))
        << opens()
        >> says(" people = 10\n2 check 10 < 100 = true\n3 rest = 10 - 10 = 0\n")
        << closes(Result.DECIDED)
        << opens(Strategy.RESUME, prefix="@begin shares 3fa92c\n1", attempt=2)
        >> says(" people = 5\n2 check 5 < 100 = true\n3 rest = 10 - 5 = 5\n4 each = 90 / 5 = 18.00\n")
        >> says("5 return 18.00\n")
        >> ends()
        << closes(Result.PASSED)
        << emits("1", MODEL)
        << emits("2")
        << emits("3")
        << emits("4")
        << emits("5")
        << finishes(Outcome.ACCEPTED_AFTER_RETRY, answer="18.00")
    )


def test_compute_guard_goes_back_too() -> None:
    assert (
        Playbook(shares(policy=GUARD))
        << opens()
        >> says(" people = 10\n")
        >> ends()
        << closes(Result.DECIDED)
        << opens(Strategy.RESUME, prefix="@begin shares 3fa92c\n1", attempt=2)
        >> says(" people = 8\n")
        >> ends()
        << closes(Result.DECIDED)
        << emits("1", MODEL)
        << emits("2", StepClass.COMPUTED)
        << emits("3", StepClass.COMPUTED)
        << emits("4", StepClass.COMPUTED)
        << emits("5", StepClass.COMPUTED)
        << finishes(Outcome.ACCEPTED_AFTER_RETRY, answer="45.00")
    )


def test_a_decision_that_lets_the_procedure_fail_each_time_ends_the_run() -> None:
    play = (
        Playbook(shares(policy=Policy(attempts=3)))
        << opens()
        >> says(" people = 600\n")
        << closes(Result.DECIDED)
        << opens(Strategy.RESUME)
        >> says(" people = 700\n")
        << closes(Result.DECIDED)
        << opens(Strategy.RESUME, temperature=0.65)
        >> says(" people = 800\n")
        << closes(Result.DECIDED)
        << opens(Strategy.FEEDBACK, temperature=0.8)
        >> says(" people = 900\n")
        << closes(Result.DECIDED)
        << finishes(Outcome.REJECTED, attempts=4)
    )
    assert play
    assert play.finish.error is not None
    assert play.finish.error.message.endswith("(all 3 attempts are spent)")


def test_after_the_same_failing_decision_twice_the_model_is_told() -> None:
    assert (
        Playbook(shares())
        << opens()
        >> says(" people = 600\n")
        << closes(Result.DECIDED)
        << opens(Strategy.RESUME)
        >> says(" people = 600\n")
        << closes(Result.DECIDED)
        << opens(Strategy.FEEDBACK, temperature=0.65)
        >> Cancelled()
        << closes(Result.CANCELLED)
        << finishes(Outcome.CANCELLED, attempts=3)
    )


def test_a_procedure_may_fail_without_any_decision() -> None:
    play = (
        Playbook(stock(range(11)))
        << opens()
        >> says(" require len(counts) > 0 = true\n2 all = 0\n")
        << emits("1")
        << closes(Result.DECIDED)
        << finishes(Outcome.REJECTED)
    )
    assert play
    assert play.finish.error is not None
    assert play.finish.error.code == "procedure_failed"

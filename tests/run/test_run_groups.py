"""Runs with steps in any order: the model's order stands, the guard's own is that of the text."""

from __future__ import annotations

from typing import Final

from guard.check.verdict import Kind
from guard.dialect.lark import Level
from guard.run.ladders import Action, always
from guard.run.messages import Outcome, Result, StepClass, Strategy
from guard.run.policy import Policy
from tests.playbook import Playbook, closes, emits, ends, finishes, opens, says, violates
from tests.run.procedures import DIALOGUE, GRAMMAR, PREFILL, aside

BEGIN: Final = "@begin aside 3fa92c\n"
SUM: Final = "1.1 sum = 3 + 4 = 7\n"
N: Final = "1.2 n = 6\n"
PRODUCT: Final = "1.3 product = 3 * 4 = 12\n"
RETURN: Final = "2 return 7 + 6 + 12 = 25\n"
MODEL = StepClass.MODEL_DECIDED


def test_the_order_that_the_model_chooses_stands() -> None:
    play = (
        Playbook(aside(DIALOGUE))
        << opens(prefix="")
        >> says(BEGIN + PRODUCT + N + SUM + RETURN)
        << emits("1.3")
        << emits("1.2", MODEL)
        << emits("1.1")
        << emits("2")
        >> ends()
        << closes(Result.PASSED)
        << finishes(
            Outcome.ACCEPTED_FIRST, answer="25", trace=f"{BEGIN}{PRODUCT}{N}{SUM}{RETURN}@end 3fa92c\n"
        )
    )
    assert play
    assert (play.finish.steps.expected, play.finish.steps.verified, play.finish.steps.missing) == (4, 3, 0)


def test_a_wrong_step_out_of_turn_is_resumed_at_that_step() -> None:
    assert (
        Playbook(aside(DIALOGUE))
        << opens()
        >> says(f"{BEGIN}{N}1.3 product = 3 * 4 = 13\n")
        << emits("1.2", MODEL)
        << violates(Kind.WRONG_VALUE, "1.3")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, resume_from="1.3")
        >> says(SUM + PRODUCT + RETURN)  # which another one may come before, still
        << emits("1.1")
        << emits("1.3")
        << emits("2")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_AFTER_RETRY, answer="25")
    )


def test_a_step_out_of_turn_is_scaffolded_and_repaired_where_it_stands() -> None:
    rules = always([Action.RESUME, Action.SCAFFOLD, Action.REPAIR])
    wrong = f"{PRODUCT[:-3]}13\n"
    assert (
        Playbook(aside(PREFILL, policy=Policy(rules=rules, attempts_per_step=1)))
        << opens(prefix=f"{BEGIN}1.1")
        >> says(f"{SUM[3:]}{wrong}")
        << emits("1.1")
        << violates(Kind.WRONG_VALUE, "1.3")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, prefix=f"{BEGIN}{SUM}1.3")
        >> says(wrong[3:])
        << violates(Kind.WRONG_VALUE, "1.3")
        << closes(Result.VIOLATION)
        << opens(Strategy.SCAFFOLD, prefix=f"{BEGIN}{SUM}1.3 product = 3 * 4 =")
        >> says(" 13\n")
        << violates(Kind.WRONG_VALUE, "1.3")
        << closes(Result.VIOLATION)
        << emits("1.3", StepClass.REPAIRED)
        << opens(Strategy.REPAIR, prefix=f"{BEGIN}{SUM}{PRODUCT}1.2")
        >> says(f"{N[3:]}{RETURN}")
        << emits("1.2", MODEL)
        << emits("2")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.REPAIRED, answer="25")
    )


def test_a_grammar_lets_the_members_that_are_left_come_in_any_order() -> None:
    play = Playbook(aside(GRAMMAR)) << opens(prefix=f"{BEGIN}1.1")
    grammar = play.commands[0].grammar  # type: ignore[union-attr]
    assert grammar is not None
    assert "1.3 product = 3 * 4 = " in grammar
    assert "return" not in grammar, "it hangs on the decision"
    assert (
        play
        >> says(f"{SUM[3:]}{N}{PRODUCT}")
        << emits("1.1", StepClass.SCAFFOLDED)
        << emits("1.2", MODEL)
        << emits("1.3", StepClass.SCAFFOLDED)
        >> ends()
        << closes(Result.DECIDED)
        << opens(Strategy.DECISION, prefix=f"{BEGIN}{SUM}{N}{PRODUCT}2")
        >> says(RETURN[1:])
        << emits("2", StepClass.SCAFFOLDED)
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_FIRST, answer="25")
    )


def test_the_guard_writes_what_it_knows_in_the_order_of_the_text() -> None:
    assert (
        Playbook(aside(PREFILL, policy=Policy(force=Level.VALUES)))
        << emits("1.1", StepClass.COMPUTED)
        << opens(prefix=f"{BEGIN}{SUM}1.2")
        >> says(N[3:])
        >> ends()
        << closes(Result.DECIDED)
        << emits("1.2", MODEL)
        << emits("1.3", StepClass.COMPUTED)
        << emits("2", StepClass.COMPUTED)
        << finishes(
            Outcome.ACCEPTED_FIRST, answer="25", trace=f"{BEGIN}{SUM}{N}{PRODUCT}{RETURN}@end 3fa92c\n"
        )
    )

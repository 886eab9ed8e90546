"""Runs with a choice of ways: the model makes it, with or without a grammar, and again where a way fails."""

from __future__ import annotations

from typing import Final

from guard.check.verdict import Kind
from guard.dialect.lark import Level
from guard.run.messages import Outcome, Result, StepClass, Strategy
from guard.run.policy import Policy
from tests.playbook import Playbook, closes, emits, ends, finishes, opens, says, violates
from tests.run.procedures import GRAMMAR, PREFILL, ways

BEGIN: Final = "@begin ways 3fa92c\n"
PLUS: Final = '1[1] try "plus"\n'
FAILS: Final = "1[1].1.1 require 3 + 4 > 9 = false\n"
TIMES: Final = '1[2] try "times"\n'
FOUND: Final = "1[2].2.1 found = 3 * 4 = 12\n"
RETURN: Final = "2 return 12\n"
MODEL = StepClass.MODEL_DECIDED


def test_a_way_that_fails_is_followed_by_another_choice() -> None:
    play = (
        Playbook(ways())
        << opens(prefix=f"{BEGIN}1[1]")
        >> says(f"{PLUS[4:]}{FAILS}{TIMES}{FOUND}{RETURN}")
        << emits("1[1]", MODEL, value="plus")
        << emits("1[1].1.1")
        << emits("1[2]", MODEL, value="times")
        << emits("1[2].2.1")
        << emits("2")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_FIRST, answer="12")
    )
    assert play
    assert (play.finish.steps.expected, play.finish.steps.model_decided) == (5, 2)


def test_a_way_that_is_not_left_is_asked_for_again() -> None:
    assert (
        Playbook(ways())
        << opens()
        >> says(f'{PLUS[4:]}{FAILS}1[2] try "plus"\n')
        << emits("1[1]", MODEL)
        << emits("1[1].1.1")
        << violates(Kind.INADMISSIBLE_VALUE, "1[2]")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, prefix=f"{BEGIN}{PLUS}{FAILS}1[2]")
        >> says(f"{TIMES[4:]}{FOUND}{RETURN}")
        << emits("1[2]", MODEL)
        << emits("1[2].2.1")
        << emits("2")
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_AFTER_RETRY, answer="12")
    )


def test_a_grammar_offers_what_is_left_and_is_made_anew_behind_each_choice() -> None:
    play = Playbook(ways(GRAMMAR)) << opens(prefix=f"{BEGIN}1[1]")
    first = play.commands[-1].grammar  # type: ignore[union-attr]
    assert first is not None
    assert "plus" in first
    assert "times" in first
    assert "require" not in first
    play = (
        play
        >> says(PLUS[4:])
        << emits("1[1]", MODEL)
        >> ends()
        << closes(Result.DECIDED)
        << opens(Strategy.DECISION, prefix=f"{BEGIN}{PLUS}1[1].1.1")
    )
    second = play.commands[-1].grammar  # type: ignore[union-attr]
    assert second is not None
    assert "plus" not in second
    assert "times" in second
    assert (
        play
        >> says(f"{FAILS[8:]}{TIMES}")
        << emits("1[1].1.1", StepClass.SCAFFOLDED)
        << emits("1[2]", MODEL)
        >> ends()
        << closes(Result.DECIDED)
        << opens(Strategy.DECISION)
        >> says(f"{FOUND[8:]}{RETURN}")
        << emits("1[2].2.1", StepClass.SCAFFOLDED)
        << emits("2", StepClass.SCAFFOLDED)
        >> ends()
        << closes(Result.PASSED)
        << finishes(Outcome.ACCEPTED_FIRST, answer="12")
    )


def test_where_the_guard_writes_the_model_only_chooses() -> None:
    assert (
        Playbook(ways(PREFILL, policy=Policy(force=Level.VALUES)))
        << opens(prefix=f"{BEGIN}1[1]")
        >> says(PLUS[4:])
        >> ends()
        << closes(Result.DECIDED)
        << emits("1[1]", MODEL)
        << emits("1[1].1.1", StepClass.COMPUTED)
        << opens(Strategy.DECISION, prefix=f"{BEGIN}{PLUS}{FAILS}1[2]")
        >> says(TIMES[4:])
        >> ends()
        << closes(Result.DECIDED)
        << emits("1[2]", MODEL)
        << emits("1[2].2.1", StepClass.COMPUTED)
        << emits("2", StepClass.COMPUTED)
        << finishes(Outcome.ACCEPTED_FIRST, answer="12")
    )

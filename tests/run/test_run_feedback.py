"""A model that is told what was wrong, and one that is silently asked to go on."""

from __future__ import annotations

from typing import Final

import pytest

from guard.check.verdict import Kind
from guard.run.ladders import Action, Rung, always
from guard.run.messages import Cancelled, Open, Outcome, Result, Strategy, Target
from guard.run.policy import Policy, Vary
from tests.playbook import Playbook, closes, emits, finishes, opens, says, violates
from tests.run.procedures import DIALOGUE, LARGER, PREFILL, shares, sums

BEGIN: Final = "@begin sums 3fa92c\n"
FIRST: Final = "1 a = 3 + 4 = 7\n"
TOLD: Final = Policy(rules=always([Action.FEEDBACK]))
SILENT: Final = Policy(rules=always([Action.RESUME]))
WAS_WRONG: Final = "wrong_value at step 2. The value was not what the expression gives. Compute it again."
BEGIN_AGAIN: Final = "Write the trace from the beginning. Its first line is: @begin sums 3fa92c"


def asked(play: Playbook) -> list[str]:
    """The texts of the conversation that the last generation was opened with."""
    last = [command for command in play.commands if isinstance(command, Open)][-1]
    return [str(message["content"]) for message in last.messages]


def failed_at_two(target: Target, policy: Policy, strategy: Strategy) -> Playbook:
    written = f"{FIRST}2 b = 7 * 2 = 15\n"
    return (
        Playbook(sums(target, policy=policy))
        << opens()
        >> says(written.removeprefix("1") if target.prefill else BEGIN + written)
        << emits("1")
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION)
        << opens(strategy, resume_from="2", attempt=2, prefix=f"{BEGIN}{FIRST}2" if target.prefill else "")
    )


def lost(target: Target, policy: Policy, strategy: Strategy) -> Playbook:
    """A run that was cut before anything stood."""
    return (
        Playbook(sums(target, policy=policy))
        << opens()
        >> says("Sure, 15!\n")
        << violates(Kind.MALFORMED, "1" if target.prefill else "")
        << closes(Result.VIOLATION)
        << opens(strategy, resume_from="1", attempt=2)
    )


def test_with_a_prefix_the_code_and_the_step_are_told_with_the_instructions() -> None:
    assert asked(failed_at_two(PREFILL, TOLD, Strategy.FEEDBACK)) == [f"Go.\n\n{WAS_WRONG}"]


def test_in_a_dialogue_they_are_told_in_the_turn() -> None:
    assert asked(failed_at_two(DIALOGUE, TOLD, Strategy.FEEDBACK)) == [
        "Go.",
        (BEGIN + FIRST).rstrip(),
        f"{WAS_WRONG}\nAll steps above stand. Go on with step 2; do not repeat them, do not explain.",
    ]


def test_a_resume_says_nothing_of_it() -> None:
    assert asked(failed_at_two(PREFILL, SILENT, Strategy.RESUME)) == ["Go."]
    assert asked(failed_at_two(DIALOGUE, SILENT, Strategy.RESUME)) == [
        "Go.",
        (BEGIN + FIRST).rstrip(),
        "All steps above stand. Go on with step 2; do not repeat them, do not explain.",
    ]


@pytest.mark.parametrize("vary", [frozenset(), frozenset(Vary)])
def test_where_nothing_stands_it_is_told_as_well(vary: frozenset[Vary]) -> None:
    policy = Policy(rules=TOLD.rules, vary=vary)
    malformed = "malformed at step 1. A line was not in the format of the trace."
    assert asked(lost(PREFILL, policy, Strategy.FEEDBACK)) == [f"Go.\n\n{malformed}"]
    assert asked(lost(DIALOGUE, policy, Strategy.FEEDBACK)) == [f"Go.\n\n{malformed}\n{BEGIN_AGAIN}"]


def test_where_nothing_stands_a_resume_asks_in_other_words_if_it_may() -> None:
    assert asked(lost(DIALOGUE, SILENT, Strategy.RESUME)) == [f"Go.\n\n{BEGIN_AGAIN}"]
    assert asked(lost(PREFILL, SILENT, Strategy.RESUME)) == ["Go."]
    alike = Policy(rules=SILENT.rules, vary=frozenset({Vary.TEMPERATURE, Vary.SEED}))
    assert asked(lost(DIALOGUE, alike, Strategy.RESUME)) == ["Go."]


@pytest.mark.parametrize(
    ("vary", "turn"),
    [
        (
            frozenset({Vary.PHRASING}),
            "The next line is that of step 2. Write it, and then the ones behind it, nothing else.",
        ),
        (
            frozenset({Vary.SEED}),
            "All steps above stand. Go on with step 2; do not repeat them, do not explain.",
        ),
    ],
)
def test_a_second_turn_is_worded_otherwise_only_if_it_may(vary: frozenset[Vary], turn: str) -> None:
    play = (
        failed_at_two(DIALOGUE, Policy(rules=SILENT.rules, vary=vary), Strategy.RESUME)
        >> says("2 b = 7 * 2 = 16\n")
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, attempt=3)
    )
    assert asked(play)[-1] == turn


def test_what_was_told_once_is_not_told_of_what_comes_behind_it() -> None:
    policy = Policy(rules=always([Rung(Action.FEEDBACK, 1), Rung(Action.RESUME, 1)]))
    play = (
        failed_at_two(PREFILL, policy, Strategy.FEEDBACK)
        >> says(" b = 7 * 2 = 16\n")
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, attempt=3, temperature=0.65)
    )
    assert asked(play) == ["Go."]


def test_another_upstream_starts_with_what_the_client_said() -> None:
    play = (
        failed_at_two(PREFILL, Policy(rules=always([Rung(Action.FEEDBACK, 1)])), Strategy.FEEDBACK)
        >> says(" b = 7 * 2 = 16\n")
        << violates(Kind.WRONG_VALUE, "2")
        << closes(Result.VIOLATION)
        << finishes(Outcome.REJECTED)
    )
    assert play
    play = (
        Playbook(sums(PREFILL, LARGER, policy=Policy(rules=always([Action.FALLBACK]))))
        << opens()
        >> says(" a = 3 + 4 = 8\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.FALLBACK, upstream="larger")
    )
    assert asked(play) == ["Go."]


def test_a_decision_behind_which_the_procedure_failed_is_named_too() -> None:
    play = (
        Playbook(shares(policy=TOLD))
        << opens()
        >> says(" people = 600\n")
        << closes(Result.DECIDED)
        << opens(Strategy.FEEDBACK, resume_from="1")
    )
    (text,) = asked(play)
    assert text.startswith("Go.\n\ninadmissible_value at step 1. ")
    assert "600" not in text
    assert (
        play >> Cancelled() << closes(Result.CANCELLED) << finishes(Outcome.CANCELLED)
    )  # and nothing is left open

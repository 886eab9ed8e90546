"""The ladder, rung by rung: histories in, choices out."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any, Final

import pytest

from guard.check.verdict import Kind
from guard.procedure.model import StepKind
from guard.run.ladders import LADDERS, Action, Rule, Rung, always
from guard.run.ladders import named as names
from guard.run.messages import Strategy, Target
from guard.run.policy import Attempt, Choice, Policy, blamed, damped, decide, further
from tests.run.attempts import failed

POLICY: Final = Policy()


def several(number: int) -> list[Target]:
    """So many upstreams."""
    return [Target(name=f"up{i}", model="m", prefill=True, dialect=None) for i in range(number)]


STRATEGY_OF: Final = {
    Action.RESUME: Strategy.RESUME,
    Action.SCAFFOLD: Strategy.SCAFFOLD,
    Action.ISOLATE: Strategy.ISOLATE,
    Action.FEEDBACK: Strategy.FEEDBACK,
    Action.RESTART: Strategy.RESTART,
    Action.FALLBACK: Strategy.FALLBACK,
}


def climb(kind: Kind, *, policy: Policy = POLICY, upstreams: int = 1, **facts: Any) -> list[Action]:
    """What is done about a model that makes the same mistake at the same step again and again."""
    history = [failed(kind, **facts)]
    actions = []
    while True:
        choice = decide(policy, history, upstreams=several(upstreams))
        actions.append(choice.action)
        if choice.action in {Action.REPAIR, Action.REJECT}:
            return actions
        upstream = history[-1].upstream if choice.upstream is None else choice.upstream
        assert (choice.action is FALLBACK) == (choice.upstream is not None)
        history.append(
            failed(
                kind,
                STRATEGY_OF[choice.action],
                upstream=upstream,
                number=len(history),
                counted=choice.counted,
                **facts,
            )
        )


RESUME, SCAFFOLD, RESTART = Action.RESUME, Action.SCAFFOLD, Action.RESTART
FALLBACK, REPAIR, REJECT = Action.FALLBACK, Action.REPAIR, Action.REJECT
FEEDBACK, ISOLATE = Action.FEEDBACK, Action.ISOLATE

# Until all attempts are spent; one that can be asked for by itself is in between.
DECIDED = [RESUME, RESUME, *[FEEDBACK] * 10, REJECT]
BLAMED = [RESUME, RESUME, FEEDBACK, FEEDBACK, ISOLATE, ISOLATE, *[FEEDBACK] * 6, REJECT]

CLIMBS = [
    (Kind.SKIPPED_STEP, [RESUME, RESUME, REPAIR]),
    (Kind.EXTRA_STEP, [RESUME, RESUME, REPAIR]),
    (Kind.REPEATED_STEP, [RESUME, RESUME, REPAIR]),
    (Kind.SELF_CORRECTION, [RESUME, RESUME, REPAIR]),
    (Kind.PREMATURE_ANSWER, [RESUME, RESUME, REPAIR]),
    (Kind.MISSING_ANSWER, [RESUME, RESUME, REPAIR]),
    (Kind.WRONG_VALUE, [RESUME, RESUME, SCAFFOLD, SCAFFOLD, REPAIR]),
    (Kind.WRONG_ANSWER, [RESUME, RESUME, SCAFFOLD, SCAFFOLD, REPAIR]),
    (Kind.WRONG_EXPRESSION, [SCAFFOLD, SCAFFOLD, REPAIR]),
    (Kind.WRONG_BRANCH, [RESUME, RESUME, SCAFFOLD, SCAFFOLD, REPAIR]),
    (Kind.INADMISSIBLE_VALUE, DECIDED),
    (Kind.UNGROUNDED_VALUE, DECIDED),
    (Kind.WRONG_CALL, DECIDED),
    (Kind.UNCONFIRMED_CALL, DECIDED),
    (Kind.MALFORMED, [RESUME, REPAIR]),
    (Kind.LIMIT_EXCEEDED, [RESUME, REPAIR]),
    (Kind.RUNAWAY, [RESUME, RESUME, SCAFFOLD, SCAFFOLD, REPAIR]),
    (Kind.TRUNCATED, [RESUME, RESUME, REPAIR]),
]


@pytest.mark.parametrize(("kind", "actions"), CLIMBS)
def test_each_kind_has_its_ladder(kind: Kind, actions: list[Action]) -> None:
    assert climb(kind) == actions


def test_every_kind_has_a_ladder_that_ends_in_reject() -> None:
    assert {kind for kind, _ in CLIMBS} == set(Kind) == set(LADDERS)
    assert all(ladder[-1].action is REJECT for ladder in LADDERS.values())


@pytest.mark.parametrize("kind", [Kind.MALFORMED, Kind.LIMIT_EXCEEDED])
def test_a_lost_format_restarts_once_as_long_as_nothing_was_delivered(kind: Kind) -> None:
    assert climb(kind, delivered=False) == [RESUME, RESTART, REPAIR]


def test_a_fallback_starts_at_the_bottom_of_the_ladder_again() -> None:
    assert climb(Kind.WRONG_VALUE, upstreams=2) == [
        *[RESUME, RESUME, SCAFFOLD, SCAFFOLD, FALLBACK],
        *[RESUME, RESUME, SCAFFOLD, SCAFFOLD, REPAIR],
    ]
    assert climb(Kind.INADMISSIBLE_VALUE, upstreams=3, repairable=False) == [
        *[RESUME, RESUME, FEEDBACK, FEEDBACK, FALLBACK],
        *[RESUME, RESUME, FEEDBACK, FEEDBACK, FALLBACK],
        *[RESUME, RESUME, REJECT],  # twelve in all
    ]


def test_scaffold_is_passed_over_where_the_operands_were_given_already() -> None:
    assert climb(Kind.WRONG_VALUE, scaffoldable=False) == [RESUME, RESUME, REPAIR]
    assert climb(Kind.WRONG_EXPRESSION, scaffoldable=False) == [REPAIR]


COUNTED = sorted(set(Kind) - {Kind.TRUNCATED})


@pytest.mark.parametrize("kind", COUNTED)
@pytest.mark.parametrize("upstreams", [1, 2, 5])
def test_what_the_model_decides_cannot_be_repaired_and_is_asked_for_until_all_attempts_are_spent(
    kind: Kind, upstreams: int
) -> None:
    *tried, last = climb(kind, repairable=False, scaffoldable=False, upstreams=upstreams)
    assert (len(tried), last) == (POLICY.attempts, REJECT)
    assert tried.count(FALLBACK) == min(upstreams - 1, tried.count(FALLBACK))


@pytest.mark.parametrize("kind", Kind)
def test_whatever_is_wrong_with_it_a_line_that_can_be_computed_is_repaired(kind: Kind) -> None:
    if kind in {Kind.INADMISSIBLE_VALUE, Kind.UNGROUNDED_VALUE, Kind.WRONG_CALL, Kind.UNCONFIRMED_CALL}:
        return  # of no line that can be
    for scaffoldable, delivered in product([True, False], repeat=2):
        *tried, last = climb(kind, scaffoldable=scaffoldable, delivered=delivered)
        assert last is REPAIR
        assert len(tried) <= 4


def test_the_cap_per_step_is_the_policys() -> None:
    policy = Policy(attempts_per_step=1)
    assert climb(Kind.WRONG_VALUE, policy=policy) == [RESUME, SCAFFOLD, REPAIR]
    assert climb(Kind.MALFORMED, policy=Policy(attempts_per_step=5)) == [RESUME, REPAIR], "a cap of its own"


def test_a_list_of_actions_holds_for_every_kind() -> None:
    policy = Policy(rules=always([SCAFFOLD, REPAIR]))
    assert climb(Kind.WRONG_BRANCH, policy=policy) == [SCAFFOLD, SCAFFOLD, REPAIR]
    assert climb(Kind.MALFORMED, policy=policy, repairable=False) == [SCAFFOLD, SCAFFOLD, REJECT]


def test_a_list_may_reject_at_once() -> None:
    choice = decide(Policy(rules=always([REJECT])), [failed(Kind.WRONG_VALUE)], upstreams=several(2))
    assert choice == Choice(action=REJECT, reason="the policy allows no retry")


def test_caps_count_by_step() -> None:
    history = [
        failed(Kind.SKIPPED_STEP, at="3"),
        failed(Kind.SKIPPED_STEP, Strategy.RESUME, at="3"),
        failed(Kind.SKIPPED_STEP, Strategy.RESUME, at="3", number=1),
    ]
    assert decide(POLICY, history, upstreams=several(1)).action is REPAIR
    further = failed(Kind.SKIPPED_STEP, Strategy.RESUME, at="4", opened_at="3")
    assert decide(POLICY, [*history, further], upstreams=several(1)).action is RESUME


def test_caps_count_by_kind_of_violation() -> None:
    history = [
        failed(Kind.WRONG_VALUE, number=0),
        failed(Kind.SKIPPED_STEP, Strategy.RESUME, number=1),
        failed(Kind.WRONG_VALUE, Strategy.RESUME, number=2),
        failed(Kind.SKIPPED_STEP, Strategy.RESUME, number=3),
        failed(Kind.MALFORMED, Strategy.RESUME, number=4),
    ]
    said = [decide(POLICY, history[: n + 1], upstreams=several(1)) for n in range(len(history))]
    assert {choice.action for choice in said} == {RESUME}, "each kind has two, and one of its own"
    then = failed(Kind.WRONG_VALUE, Strategy.RESUME, number=5)
    assert decide(POLICY, [*history, then], upstreams=several(1)).action is SCAFFOLD
    assert (
        decide(POLICY, [*history, replace(then, kind=Kind.MALFORMED)], upstreams=several(1)).action is REPAIR
    )
    assert (
        decide(POLICY, [*history, replace(then, kind=Kind.EXTRA_STEP)], upstreams=several(1)).action is RESUME
    )


def test_there_is_no_way_back_down_at_one_step() -> None:
    history = [
        failed(Kind.WRONG_EXPRESSION),
        failed(Kind.WRONG_VALUE, Strategy.SCAFFOLD),
    ]
    assert decide(POLICY, history, upstreams=several(1)).action is SCAFFOLD, "not a resume"


def test_a_generation_behind_a_decision_is_no_try_at_the_step() -> None:
    history = [
        failed(Kind.SKIPPED_STEP, Strategy.DECISION, number=n, counted=False, opened_at="3") for n in range(3)
    ]
    assert decide(POLICY, history, upstreams=several(1)).action is RESUME


@pytest.mark.parametrize("repairable", [True, False])
def test_when_all_attempts_are_spent_the_rest_is_repaired_or_the_run_rejected(repairable: bool) -> None:
    history = [
        failed(Kind.SKIPPED_STEP, Strategy.RESUME, at=str(n), number=n, repairable=repairable)
        for n in range(12)
    ]
    before = decide(POLICY, history[1:], upstreams=several(1))
    assert (before.action, before.rest) == (RESUME, False)
    choice = decide(POLICY, history, upstreams=several(2))
    assert (choice.action, choice.rest) == ((REPAIR, True) if repairable else (REJECT, False))
    assert "all 12 attempts are spent" in choice.reason


def test_truncation_does_not_count_against_the_model() -> None:
    spent = [failed(Kind.SKIPPED_STEP, Strategy.RESUME, at=str(n), number=n) for n in range(12)]
    choice = decide(POLICY, [*spent, failed(Kind.TRUNCATED, at="3", number=99)], upstreams=several(1))
    assert (choice.action, choice.counted) == (RESUME, False)
    resumed = failed(Kind.TRUNCATED, Strategy.RESUME, counted=False)
    after = decide(
        POLICY, [resumed, failed(Kind.SKIPPED_STEP, Strategy.RESUME, number=1)], upstreams=several(1)
    )
    assert (after.action, after.counted) == (RESUME, True), "of the two resumes at this step one is left"


def test_an_identical_response_leads_to_the_next_action_and_to_no_end() -> None:
    first = failed(Kind.WRONG_VALUE, at="1", opened_at="1", delivered=False)
    again = replace(first, strategy=Strategy.RESUME, counted=True)
    choice = decide(POLICY, [first, again], upstreams=several(1))
    assert (choice.action, choice.reason) == (SCAFFOLD, "the upstream gave an identical response again")
    policy = Policy(rules=always([RESUME, FEEDBACK, RESTART]), attempts_per_step=9)
    history, actions = [first], list[Action]()
    while len(actions) < 5:
        actions.append(decide(policy, history, upstreams=several(1)).action)
        history.append(replace(first, strategy=STRATEGY_OF[actions[-1]], counted=True))
    assert actions == [RESUME, FEEDBACK, RESTART, FEEDBACK, FEEDBACK], "what is left of the highest one"


@pytest.mark.parametrize("kind", COUNTED)
@pytest.mark.parametrize("found", ["the same", ""])
def test_a_model_that_only_says_one_thing_is_asked_for_what_it_decides_until_all_attempts_are_spent(
    kind: Kind, found: str
) -> None:
    first = replace(failed(kind, repairable=False, scaffoldable=False), found=found, text=found)
    history, actions = [first], []
    while (choice := decide(POLICY, history, upstreams=several(1))).action is not REJECT:
        actions.append(choice.action)
        again = {"strategy": STRATEGY_OF[choice.action], "counted": True, "step": "3", "prefix": "up to 3"}
        history.append(replace(first, **again))  # type: ignore[arg-type]
    assert len(actions) == POLICY.attempts
    assert FEEDBACK in actions[:3]
    assert choice.reason.startswith("all 12 attempts are spent")


@pytest.mark.parametrize("change", [{"text": "other"}, {"upstream": 1}, {"prefix": "other"}])
def test_another_text_upstream_or_beginning_is_not_identical(change: dict[str, str]) -> None:
    first = failed(Kind.WRONG_VALUE, at="1", opened_at="1")
    again = replace(first, strategy=Strategy.RESUME, counted=True, **change)  # type: ignore[arg-type]
    assert decide(POLICY, [first, again], upstreams=several(2)).action is RESUME


def test_a_rejection_says_why_nothing_gentler_was_left() -> None:
    history = [
        failed(Kind.TRUNCATED, repairable=False),
        failed(Kind.TRUNCATED, Strategy.RESUME, number=1, counted=False, repairable=False),
        failed(Kind.TRUNCATED, Strategy.RESUME, number=2, counted=False, repairable=False),
    ]
    assert decide(POLICY, history, upstreams=several(1)).reason == (
        "resume was tried twice at this step; there is no further upstream; "
        "what the model decides cannot be repaired"
    )


# --- a ladder of one's own -----------------------------------------------------------------------


def test_feedback_is_a_rung_like_any_other() -> None:
    assert climb(Kind.WRONG_VALUE, policy=Policy(rules=always([RESUME, FEEDBACK, REPAIR]))) == [
        *[RESUME, RESUME, FEEDBACK, FEEDBACK, REPAIR],
    ]


def test_an_action_may_come_twice_in_a_ladder() -> None:
    policy = Policy(rules=always([Rung(RESUME, 1), Rung(FEEDBACK, 1), Rung(RESUME, 2), REPAIR]))
    assert climb(Kind.WRONG_VALUE, policy=policy) == [RESUME, FEEDBACK, RESUME, RESUME, REPAIR]


def test_times_of_a_rung_count_instead_of_the_policys() -> None:
    policy = Policy(attempts_per_step=1, rules=always([Rung(RESUME, 3), SCAFFOLD]))
    assert climb(Kind.WRONG_VALUE, policy=policy) == [RESUME, RESUME, RESUME, SCAFFOLD, REJECT]


def test_the_first_rule_that_fits_counts() -> None:
    rules = (
        Rule(ladder=(Rung(REPAIR),), kinds=frozenset({Kind.WRONG_VALUE}), steps=frozenset({StepKind.RETURN})),
        Rule(ladder=(Rung(RESUME, 1),), kinds=frozenset({Kind.WRONG_VALUE})),
        Rule(ladder=(Rung(SCAFFOLD, 1),), steps=frozenset({StepKind.RETURN})),
    )
    policy = Policy(rules=rules)
    assert climb(Kind.WRONG_VALUE, policy=policy, step_kind=StepKind.RETURN) == [REPAIR]
    assert climb(Kind.WRONG_VALUE, policy=policy, step_kind=StepKind.ASSIGN) == [RESUME, REJECT]
    assert climb(Kind.SKIPPED_STEP, policy=policy, step_kind=StepKind.RETURN) == [SCAFFOLD, REJECT]
    assert climb(Kind.SKIPPED_STEP, policy=policy, step_kind=StepKind.ASSIGN) == climb(Kind.SKIPPED_STEP)
    assert climb(Kind.MALFORMED, policy=policy, step_kind=None) == climb(Kind.MALFORMED)


def test_a_fallback_goes_to_the_upstream_that_it_names_and_never_back() -> None:
    policy = Policy(rules=always([Rung(FALLBACK, upstream="up2"), FALLBACK, REJECT]))
    went = []
    history = [failed(Kind.WRONG_VALUE)]
    while (choice := decide(policy, history, upstreams=several(4))).upstream is not None:
        went.append(choice.upstream)
        history.append(
            failed(Kind.WRONG_VALUE, Strategy.FALLBACK, upstream=choice.upstream, number=len(history))
        )
    assert went == [2, 1, 3]
    assert choice.reason == "the upstream to fall back to was left; there is no further upstream"


def test_an_upstream_that_stands_by_is_gone_to_only_by_its_name() -> None:
    first, second, third = several(3)
    upstreams = [first, replace(second, standby=True), third]
    history = [failed(Kind.WRONG_VALUE)]
    assert further(history, upstreams) == 2
    assert further(history, upstreams[:2]) is None
    named = Policy(rules=always([Rung(FALLBACK, upstream="up1")]))
    assert decide(named, history, upstreams=upstreams).upstream == 1
    assert named.rules[0].ladder[0].upstream in names(named.rules)


def test_an_upstream_may_have_fewer_attempts_than_all_together() -> None:
    policy = Policy(attempts_per_upstream={"up0": 1, "up1": 3}, attempts_per_step=9, rules=always([RESUME]))
    assert climb(Kind.WRONG_VALUE, policy=policy) == [RESUME, REJECT]
    policy = replace(policy, rules=always([RESUME, FALLBACK]))
    assert climb(Kind.WRONG_VALUE, policy=policy, upstreams=2) == [
        *[RESUME, FALLBACK],  # the fallback is the first of three there
        *[RESUME, RESUME, REJECT],
    ]


def test_what_an_upstream_may_not_try_any_more_is_repaired_to_the_end() -> None:
    policy = Policy(attempts_per_upstream={"up0": 1}, rules=always([RESUME, REPAIR]))
    history = [failed(Kind.WRONG_VALUE), failed(Kind.WRONG_VALUE, Strategy.RESUME, number=1)]
    choice = decide(policy, history, upstreams=several(1))
    assert (choice.action, choice.rest) == (REPAIR, True)


# --- the ends of the loop ------------------------------------------------------------------------


def test_the_same_mistake_three_times_is_left_to_another_upstream_or_the_guard() -> None:
    policy = Policy(attempts_per_step=9)
    history = [
        replace(
            failed(Kind.WRONG_VALUE, Strategy.RESUME, number=n),
            found="15" if n % 2 else "16",
            scaffoldable=False,
        )
        for n in range(5)
    ]
    assert decide(policy, history[:4], upstreams=several(2)).action is RESUME
    choice = decide(policy, history, upstreams=several(2))
    assert choice.action is FALLBACK
    assert "the same was wrong at this step 3 times" in choice.reason
    assert decide(policy, history, upstreams=several(1)).action is REPAIR


@pytest.mark.parametrize(
    "other",
    [
        {"found": "16"},
        {"kind": Kind.WRONG_EXPRESSION},
        {"failed_at": "4"},
        {"upstream": 1},
    ],
)
def test_another_mistake_among_them_is_not_the_same(other: dict[str, Any]) -> None:
    policy = Policy(attempts_per_step=9, rules=always([RESUME, FEEDBACK]))
    same = [replace(failed(Kind.WRONG_VALUE, Strategy.RESUME, number=n), found="15") for n in range(3)]
    assert decide(policy, same, upstreams=several(2)).action is FEEDBACK
    mixed = [replace(same[0], **other), *same[1:]]
    assert decide(policy, mixed, upstreams=several(2)).action is RESUME


def test_a_fault_of_the_network_between_them_does_not_hide_an_identical_response() -> None:
    first = failed(Kind.WRONG_BRANCH, at="1", opened_at="1")
    fault = Attempt(
        upstream=0, strategy=Strategy.RESUME, step="1", counted=True, prefix=first.prefix, fault=True
    )
    again = replace(first, strategy=Strategy.TRANSPORT)
    choice = decide(POLICY, [first, fault, again], upstreams=several(1))
    assert (choice.action, choice.reason) == (SCAFFOLD, "the upstream gave an identical response again")


def test_faults_and_cuts_between_them_use_up_no_try() -> None:
    fault = Attempt(
        upstream=0, strategy=Strategy.RESUME, step="3", counted=True, prefix="up to 3", fault=True
    )
    history = [
        failed(Kind.WRONG_VALUE, number=0),
        *[fault, replace(fault, strategy=Strategy.TRANSPORT, counted=False)],
        failed(Kind.TRUNCATED, Strategy.TRANSPORT, number=1, counted=False),
        failed(Kind.WRONG_VALUE, Strategy.RESUME, number=2, counted=False),
    ]
    choice = decide(POLICY, history, upstreams=several(1))
    assert (choice.action, choice.counted) == (RESUME, True), "one of two"
    history += [failed(Kind.TRUNCATED, Strategy.RESUME, number=3)]
    choice = decide(POLICY, history, upstreams=several(1))
    assert (choice.action, choice.counted) == (RESUME, False), "one of two"
    history += [failed(Kind.WRONG_VALUE, Strategy.RESUME, number=4, counted=False)]
    assert decide(POLICY, history, upstreams=several(1)).action is SCAFFOLD, (
        "the model has said so three times"
    )


def test_where_no_generation_can_be_opened_only_the_guard_can_help() -> None:
    history = [failed(Kind.WRONG_VALUE)]
    choice = decide(POLICY, history, upstreams=several(2), barred="all tokens are spent")
    assert (choice.action, choice.rest, choice.reason) == (REPAIR, True, "all tokens are spent")
    history = [failed(Kind.WRONG_VALUE, repairable=False)]
    choice = decide(POLICY, history, upstreams=several(2), barred="all tokens are spent")
    assert (choice.action, choice.barred) == (REJECT, True)
    assert not decide(Policy(rules=always([REJECT])), history, upstreams=several(2), barred="x").barred


# --- the procedure's own failure -----------------------------------------------------------------


def decided_again(number: int, *, at: str = "1", text: str | None = None) -> Attempt:
    opened = Attempt(
        upstream=0,
        strategy=STRATEGY_OF[BLAMED[number - 1]] if number else Strategy.INITIAL,
        step=at,
        counted=number > 0,
        prefix="the same",
        text=text or f"decision {number}",
    )
    return blamed(opened, step=at, kind=StepKind.EXTRACT, value=str(number), delivered=False)


def test_a_decision_is_asked_for_again_until_all_attempts_are_spent() -> None:
    history = [decided_again(n) for n in range(POLICY.attempts + 1)]
    actions = [decide(POLICY, history[: n + 1], upstreams=several(1)).action for n in range(len(history))]
    assert actions == BLAMED


def test_another_upstream_is_asked_before() -> None:
    history = [decided_again(n) for n in range(POLICY.attempts)]
    actions = [decide(POLICY, history[: n + 1], upstreams=several(2)).action for n in range(len(history))]
    assert actions[:7] == [RESUME, RESUME, FEEDBACK, FEEDBACK, ISOLATE, ISOLATE, FALLBACK]


def test_after_the_same_decision_again_the_model_is_told() -> None:
    history = [decided_again(0, text="x"), decided_again(1, text="x")]
    choice = decide(POLICY, history, upstreams=several(1))
    assert (choice.action, choice.reason) == (FEEDBACK, "the upstream gave an identical response again")


def test_a_decision_is_asked_for_again_as_the_rule_for_its_kind_of_step_says() -> None:
    rule = Rule(ladder=(Rung(FEEDBACK, 1),), steps=frozenset({StepKind.EXTRACT}))
    history = [decided_again(n) for n in range(2)]
    assert decide(Policy(rules=(rule,)), history[:1], upstreams=several(1)).action is FEEDBACK
    never = Policy(rules=always([REJECT]))
    assert decide(never, history[:1], upstreams=several(1)).reason == "the policy allows no retry"


def test_asking_for_a_decision_again_counts_as_an_attempt() -> None:
    history = [decided_again(n, at=str(n)) for n in range(3)]
    choice = decide(Policy(attempts=2), history, upstreams=several(1))
    assert choice.reason == "all 2 attempts are spent"


# --- a client that tries again itself --------------------------------------------------------------


def test_a_client_that_tries_again_itself_has_fewer_of_our_retries() -> None:
    assert [damped(POLICY, n).transport_retries for n in range(4)] == [2, 1, 0, 0]
    assert damped(POLICY, 3) == replace(POLICY, transport_retries=0), "and nothing else is changed"

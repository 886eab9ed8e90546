"""What a check came to."""

from __future__ import annotations

import json

from guard.check.checker import Checker
from guard.check.report import StepCounts, report
from tests.traces import Case, cases

CASES = {case.name: case for case in cases()}


def checked(name: str, *, stop_at_first: bool = False) -> Checker:
    case: Case = CASES[name]
    checker = Checker(case.program, case.inputs, nonce=None, stop_at_first=stop_at_first)
    checker.feed(case.response)
    checker.close(case.finish_reason)
    return checker


def test_a_faithful_trace_has_every_step_in_one_class() -> None:
    steps = report(checked("order: the faithful trace passes")).steps
    assert steps == StepCounts(expected=14, verified=12, model_decided=2, supported=1, missing=0)
    assert steps.fidelity == 12 / 14
    assert steps.upheld == 1


def test_others_know_how_verified_steps_came_about() -> None:
    classes = {
        "3": "scaffolded",
        "4": "repaired",
        "4[1].1": "computed",
        "2": "model_decided",
        "99": "repaired",
    }
    steps = report(checked("order: the faithful trace passes"), classes).steps
    assert steps == StepCounts(
        expected=14,
        verified=9,
        model_decided=2,
        supported=1,
        scaffolded=1,
        repaired=1,
        computed=1,
        missing=0,
    )
    assert steps.upheld == 13 / 14


def test_a_step_that_was_left_out_or_wrong_is_missing() -> None:
    left_out = report(checked("order: several steps in a row are one departure")).steps
    assert (left_out.expected, left_out.verified, left_out.missing) == (14, 9, 3)
    wrong = report(checked("order: a value is wrong")).steps
    assert (wrong.expected, wrong.verified, wrong.missing) == (14, 11, 1)


def test_where_checking_stops_the_rest_is_missing() -> None:
    steps = report(checked("order: a value is wrong", stop_at_first=True)).steps
    assert (steps.expected, steps.verified, steps.model_decided, steps.missing) == (14, 9, 2, 3)
    assert steps.fidelity == 9 / 14


def test_what_hangs_on_a_decision_that_was_never_made_is_not_counted() -> None:
    steps = report(checked("order: a decision is left out, and what hangs on it is not blamed")).steps
    assert (steps.expected, steps.verified, steps.model_decided, steps.missing) == (None, 1, 1, None)
    assert (steps.fidelity, steps.upheld) == (None, None)


def test_of_no_steps_there_is_no_share() -> None:
    for steps in (StepCounts(expected=0, missing=0), StepCounts(expected=None)):
        assert (steps.fidelity, steps.upheld) == (None, None)


def test_the_report_is_json() -> None:
    data = report(checked("order: a value is wrong")).to_json()
    assert json.loads(json.dumps(data)) == {
        "verdict": "failed",
        "violations": [
            {
                "kind": "wrong_value",
                "step": "7.1",
                "at": CASES["order: a value is wrong"].blames[0].at,
                "expected": "6.10",
                "found": "6.09",
            }
        ],
        "steps": {
            "expected": 14,
            "verified": 11,
            "scaffolded": 0,
            "model_decided": 2,
            "supported": 1,
            "unsupported": 1,
            "isolated": 0,
            "repaired": 0,
            "computed": 0,
            "missing": 1,
        },
        "fidelity": 11 / 14,
        "upheld": 13 / 14,
        "procedure_failed": None,
        "unread": None,
    }


def test_a_procedure_that_failed_says_where_and_why() -> None:
    data = report(checked("order: a check that is false")).to_json()
    assert data["verdict"] == "pending"
    assert data["violations"] == []
    assert data["procedure_failed"] == {
        "step": "9",
        "reason": "the check does not hold: 60.00 + 7.50 <= 60.00",
    }

"""Every case of the table: kind, step and place of the first departure, and of all of them."""

from __future__ import annotations

import pytest

from guard.check.checker import Checker
from guard.check.verdict import Kind, Violation
from tests.traces import Blame, Case, cases

# Steps that call tools come with the constructs that make such steps.
NOT_YET = {Kind.WRONG_CALL, Kind.UNCONFIRMED_CALL}


def check(case: Case, *, stop_at_first: bool) -> Checker:
    checker = Checker(
        case.program, case.inputs, nonce=case.nonce, stop_at_first=stop_at_first, tolerant=case.tolerant
    )
    checker.feed(case.response)
    checker.close(case.finish_reason)
    return checker


def blame(violation: Violation, like: Blame) -> Blame:
    return Blame(
        kind=violation.kind,
        step=violation.step,
        at=violation.at,
        expected=violation.expected if like.expected is not None else None,
        found=violation.found if like.found is not None else None,
    )


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_first_departure_is_named_where_it_is(case: Case) -> None:
    checker = check(case, stop_at_first=True)
    assert checker.verdict == case.verdict
    assert case.response.startswith(checker.verified)
    if checker.verdict == "passed" and not case.tolerant:  # which may leave out what stands behind the end
        assert case.response.rstrip() == checker.verified.rstrip()
    assert (checker.violation is None) == (case.first is None)
    if checker.violation is not None and case.first is not None:
        assert blame(checker.violation, case.first) == case.first
        assert len(checker.violations) == 1
    failed = checker.failed_procedure
    assert (failed and failed.path) == case.fails_at


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_every_departure_is_listed_once(case: Case) -> None:
    checker = check(case, stop_at_first=False)
    found = [blame(violation, like) for violation, like in zip(checker.violations, case.blames, strict=False)]
    assert found == list(case.blames)
    assert checker.violations[len(found) :] == []


def test_every_kind_has_a_case() -> None:
    named = {blame.kind for case in cases() for blame in case.blames}
    assert named == {kind.value for kind in Kind} - {kind.value for kind in NOT_YET}

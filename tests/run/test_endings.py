"""What a run came to, and the errors that clients read."""

from __future__ import annotations

import pytest

from guard.check.verdict import Kind
from guard.errors import UpstreamConnectError, UpstreamDenied, UpstreamStatusError, UpstreamTimeout
from guard.procedure.expected import Ending, EndKind
from guard.run import endings
from guard.run.messages import Outcome, Result, StepClass

VERIFIED, REPAIRED = StepClass.VERIFIED, StepClass.REPAIRED


@pytest.mark.parametrize(
    ("classes", "retried", "fallen_back", "outcome"),
    [
        ([VERIFIED], False, False, Outcome.ACCEPTED_FIRST),
        ([VERIFIED, StepClass.COMPUTED, StepClass.SCAFFOLDED], False, False, Outcome.ACCEPTED_FIRST),
        ([VERIFIED], True, False, Outcome.ACCEPTED_AFTER_RETRY),
        ([VERIFIED], True, True, Outcome.ACCEPTED_BY_FALLBACK),
        ([VERIFIED, REPAIRED], True, True, Outcome.REPAIRED),
    ],
)
def test_an_answer_is_accepted_in_its_own_way(
    classes: list[StepClass], retried: bool, fallen_back: bool, outcome: Outcome
) -> None:
    assert endings.of_answer(classes, retried=retried, fallen_back=fallen_back) is outcome
    assert outcome in endings.ACCEPTED
    assert endings.reason(outcome, None)


def test_a_rejection_names_kind_and_step() -> None:
    error = endings.rejected("sums", Kind.WRONG_VALUE, "5[2].1", "resume was tried twice at this step")
    assert (error.status, error.type, error.code, error.param) == (
        422,
        "procedure_violation",
        "wrong_value",
        "5[2].1",
    )
    assert endings.reason(Outcome.REJECTED, error) == (
        "the model departed from procedure 'sums' at step 5[2].1 (wrong_value): "
        "resume was tried twice at this step"
    )


def test_a_violation_before_the_first_line_has_no_step() -> None:
    error = endings.rejected("sums", Kind.MALFORMED, "", "the policy allows no retry")
    assert error.param is None
    assert error.message == "the model departed from procedure 'sums' (malformed): the policy allows no retry"


def test_a_failed_procedure_says_where_and_why() -> None:
    failed = Ending(EndKind.FAILED, path="4", reason="division by zero")
    error = endings.procedure_failed("shares", failed, "")
    assert (error.status, error.code, error.param) == (422, "procedure_failed", "4")
    assert error.message == "procedure 'shares' failed at step 4: division by zero"
    nowhere = Ending(EndKind.FAILED, reason="division by zero")
    assert endings.procedure_failed("shares", nowhere, "").param is None


def test_the_status_of_a_server_is_passed_on_where_it_is_not_about_the_operators_key() -> None:
    assert endings.upstream_failed(UpstreamStatusError("too long", upstream_status=413)).status == 413
    for status in (500, 502, 503, 504, 529):
        assert endings.upstream_failed(UpstreamStatusError("broken", upstream_status=status)).status == status
    for status in (302, 505, 599):
        assert endings.upstream_failed(UpstreamStatusError("odd", upstream_status=status)).status == 502
    for status in (401, 402, 403, 407):
        assert endings.upstream_failed(UpstreamDenied("no", upstream_status=status)).status == 502
    assert endings.upstream_failed(UpstreamTimeout("nothing came")).status == 504


def test_a_fault_is_a_timeout_or_an_error() -> None:
    assert endings.of_fault(UpstreamTimeout("nothing came")) is Result.TIMEOUT
    assert endings.of_fault(UpstreamConnectError("refused")) is Result.UPSTREAM_ERROR

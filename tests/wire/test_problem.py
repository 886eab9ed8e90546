"""Errors as OpenAI's clients read them."""

from __future__ import annotations

import json

import pytest

from guard.errors import (
    ConfigError,
    GuardError,
    InvalidState,
    RequestError,
    UpstreamBusy,
    UpstreamConnectError,
    UpstreamProtocolError,
    UpstreamStatusError,
    UpstreamTimeout,
)
from guard.foreign import Sink
from guard.run.messages import RunError
from guard.wire.problem import of_error, of_failure


def test_a_rejection_is_not_to_be_tried_again() -> None:
    failure = RunError(
        status=422, type="procedure_violation", code="wrong_value", message="step 4 is wrong", param="4"
    )
    answer = of_failure(failure, Sink())
    assert answer.status == 422
    assert json.loads(answer.body) == {
        "error": {
            "message": "step 4 is wrong",
            "type": "procedure_violation",
            "param": "4",
            "code": "wrong_value",
        }
    }
    assert dict(answer.headers) == {"content-type": "application/json", "x-should-retry": "false"}


@pytest.mark.parametrize(("seconds", "header"), [(2, "2"), (1.2, "2"), (0, "0"), (0.001, "1")])
def test_how_long_to_wait_is_said_in_whole_seconds(seconds: float, header: str) -> None:
    failure = RunError(status=503, type="overloaded", code="overloaded", message="m", retry_after_s=seconds)
    headers = dict(of_failure(failure, Sink()).headers)
    assert headers["retry-after"] == header
    assert headers["x-should-retry"] == "true"


@pytest.mark.parametrize(
    ("error", "status", "code", "retry"),
    [
        (RequestError("bad", param="n", code="unsupported_parameter"), 400, "unsupported_parameter", "false"),
        (RequestError("big", status=413, code="too_large"), 413, "too_large", "false"),
        (UpstreamConnectError("m"), 502, "upstream_connect_error", "true"),
        (UpstreamTimeout("m"), 504, "upstream_timeout", "true"),
        (UpstreamProtocolError("m"), 502, "upstream_protocol_error", "true"),
        (UpstreamStatusError("m", upstream_status=404), 404, "upstream_status", "false"),
        (UpstreamBusy("m", upstream_status=500), 500, "upstream_busy", "true"),
        (UpstreamBusy("m", upstream_status=429, retry_after_s=3), 429, "upstream_busy", "true"),
    ],
)
def test_an_exception_has_its_status(error: GuardError, status: int, code: str, retry: str) -> None:
    answer = of_error(error, Sink())
    assert answer.status == status
    assert answer.code == code
    assert dict(answer.headers)["x-should-retry"] == retry


@pytest.mark.parametrize("error", [InvalidState("secret"), ConfigError([("key", "secret")])])
def test_what_is_not_the_clients_business_stays_with_us(error: GuardError) -> None:
    answer = of_error(error, Sink())
    assert answer.status == 500
    assert b"secret" not in answer.body


def test_what_a_client_wrote_comes_back_cut() -> None:
    error = RequestError("x" * 1_000_000, param="y" * 1_000_000, code="unknown_procedure")
    assert len(of_error(error, Sink()).body) < 5_000

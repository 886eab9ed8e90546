"""The status that an error stands for, however a server says it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.wire.statuses import status_of


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ((400,), 400),
        (("400",), 400),
        ((None, "invalid_request_error"), 400),
        (("BadRequestError",), 400),
        (("INVALID_ARGUMENT",), 400),
        (("context_length_exceeded", "invalid_request_error"), 400),
        (("odd", "rate_limit_error"), 429),
        (("RESOURCE_EXHAUSTED",), 429),
        (("Service Unavailable",), 503),
        (("InternalServerError",), 500),
        ((12, 503), 503),
        ((200, "12", "odd", "error", "", True, None, [400], {"code": 400}), None),
        ((), None),
    ],
)
def test_a_status_is_found_in_every_spelling(told: tuple[object, ...], status: int | None) -> None:
    assert status_of(*told) == status


@given(st.lists(st.text() | st.integers() | st.none() | st.binary()))
def test_whatever_is_told_it_is_a_status_of_an_error_or_none(told: list[object]) -> None:
    status = status_of(*told)
    assert status is None or 400 <= status <= 599

"""Headers that go on to an upstream: what is listed, and no other one that a client can think of."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.wire.headers import FORWARDED, end_to_end, without_credentials

NAMES = st.text(string.ascii_letters + string.digits + "-_.", min_size=1, max_size=20)
CREDENTIALS = [
    "authorization", "cookie", "x-api-key", "api-key", "x-goog-api-key", "x-amz-security-token", "x-auth-token",
    "x-vault-token", "private-token", "ocp-apim-subscription-key", "dd-api-key", "x-functions-key", "x-session",
    "x-stainless", "proxy-authorization", "x-forwarded-authorization", "openai-key", "anthropic-api-key",
]  # fmt: skip


@pytest.mark.parametrize("name", CREDENTIALS)
def test_credentials_of_any_spelling_stay(name: str) -> None:
    for spelled in (name, name.upper(), name.title()):
        assert without_credentials([(spelled, "secret")]) == ()


@given(NAMES)
def test_a_header_that_nobody_knows_stays_unless_it_is_allowed(name: str) -> None:
    known = name.lower() in FORWARDED or name.lower().startswith("x-stainless-")
    assert bool(without_credentials([(name, "x")])) == known
    assert without_credentials([(name, "x")], [name.lower()]) == ((name, "x"),)


def test_what_is_listed_goes_in_the_order_and_spelling_that_it_came_in() -> None:
    told = [(name.title().replace("*", "Lang"), str(number)) for number, name in enumerate(FORWARDED)]
    assert without_credentials(told) == tuple(told)


@given(NAMES, NAMES)
def test_what_the_connection_names_as_its_own_and_what_is_ours_stays(name: str, other: str) -> None:
    told = [("Connection", f"close, {name}"), (name, "x"), ("X-Stepguard-" + other, "y"), ("upgrade", "z")]
    assert end_to_end(told) == ()

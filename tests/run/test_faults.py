"""When the same is tried again after a fault of the network: waits by error, number and what is left."""

from __future__ import annotations

from typing import Final

import hypothesis.strategies as st
import pytest
from hypothesis import given

from guard.errors import UpstreamBusy, UpstreamConnectError, UpstreamStatusError, UpstreamTimeout
from guard.run.faults import pause
from guard.run.policy import Policy

POLICY: Final = Policy()
HERDS = st.text(max_size=8)


@given(HERDS)
def test_a_passing_fault_is_waited_out_twice_and_longer_each_time(herd: str) -> None:
    error = UpstreamTimeout("nothing came for 30 s")
    first, second, third = (pause(POLICY, error, n, herd=herd) for n in (1, 2, 3))
    assert first is not None
    assert 0.25 <= first <= 0.5
    assert second is not None
    assert 0.5 <= second <= 1.0
    assert third is None
    assert pause(Policy(transport_retries=0), error, 1, herd=herd) is None


def test_runs_that_fail_together_do_not_come_back_together() -> None:
    error = UpstreamConnectError("refused")
    waits = sorted(pause(POLICY, error, 1, herd=f"{nonce:06x} 0") or 0 for nonce in range(1000))
    assert len(set(waits)) == 1000
    for tenth in range(10):  # about as many in each tenth of the quarter of a second
        low = 0.25 + tenth * 0.025
        assert 60 < sum(low <= wait < low + 0.025 for wait in waits) < 140


def test_back_off_does_not_grow_for_ever() -> None:
    error = UpstreamConnectError("refused")
    assert 4 <= (pause(Policy(transport_retries=20), error, 20) or 0) <= 8


def test_a_lasting_fault_is_not_waited_out() -> None:
    assert pause(POLICY, UpstreamStatusError("no such model", upstream_status=404), 1) is None


@given(
    asked=st.none() | st.floats(allow_nan=False),
    left_s=st.none() | st.floats(-10, 200),
    further=st.booleans(),
    herd=HERDS,
)
def test_a_server_is_given_the_time_it_asks_for_where_there_is_so_much(
    asked: float | None, left_s: float | None, further: bool, herd: str
) -> None:
    error = UpstreamBusy("too many requests", upstream_status=429, retry_after_s=asked)
    left = POLICY.seconds if left_s is None else left_s
    waited = pause(POLICY, error, 1, left_s=left_s, further=further, herd=herd)
    if waited is None:
        assert (asked or 0) * 1.1 >= left or left <= 0.5 or (further and asked is not None and asked > 10)
    else:
        assert max(asked or 0, 0) <= waited < left
        assert not further or waited <= 11


@pytest.mark.parametrize(
    ("asked", "left_s", "further", "waits"),
    [
        (2.0, None, False, True),
        (2.0, 1.5, False, False),
        (0.0, 1.0, False, True),
        (-5.0, 1.0, False, True),
        (60.0, 100.0, False, True),
        (60.0, 100.0, True, False),  # somebody else can be asked
        (10.0, 100.0, True, True),
        (3600.0, None, False, False),
        (float("inf"), None, False, False),
    ],
)
def test_what_is_done_about_retry_after(
    asked: float, left_s: float | None, further: bool, waits: bool
) -> None:
    error = UpstreamBusy("too many requests", upstream_status=429, retry_after_s=asked)
    assert (pause(POLICY, error, 1, left_s=left_s, further=further) is not None) is waits

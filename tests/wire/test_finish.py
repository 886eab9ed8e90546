"""Finish reasons: which are the model's own end, and that every other is a cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.wire.finish import End, end_of, is_own, plain, told, worse

OWN = (
    "stop",
    "STOP",
    "eos",
    "eos_token",
    "end_turn",
    "stop_sequence",
    "STOP_SEQUENCE",
    "COMPLETE",
    "eosFound",
)
CUT = (
    *(
        "length",
        "max_tokens",
        "MAX_TOKENS",
        "model_length",
        "model_context_window_exceeded",
        "content_filter",
    ),
    *(
        "SAFETY",
        "RECITATION",
        "refusal",
        "pause_turn",
        "repetition",
        "sensitive",
        "ERROR_LIMIT",
        "token_limit",
    ),
    *("stopped", "stop!", "not stop", "end", "null", "", "unlisted"),
)
FAULTS = (
    *("abort", "error", "ERROR", "insufficient_system_resource", "network_error", "cancelled", "timeout"),
    *("time limit", "modelUnloaded", "failed"),
)
CALLS = ("tool_calls", "TOOL_CALL", "tool_use", "function_call")
ENDS = st.sampled_from((*OWN, *CUT, *FAULTS, *CALLS)) | st.text(max_size=12)


def test_each_server_has_words_of_its_own() -> None:
    assert {end_of(reason) for reason in OWN} == {End.OWN}
    assert {end_of(reason) for reason in (*CUT, *CALLS, None)} == {End.CUT}
    assert {end_of(reason) for reason in FAULTS} == {End.FAULT}


def test_a_call_is_an_end_where_one_was_asked_for() -> None:
    assert all(is_own(reason, tool=True) for reason in (*CALLS, *OWN))
    assert not any(is_own(reason, tool=True) for reason in (*CUT, *FAULTS))


@given(st.text(max_size=30))
def test_what_nobody_has_listed_is_a_cut(reason: str) -> None:
    listed = {plain(one) for one in (*OWN, *FAULTS)} | {"eos", "completed", "endoftext"}
    assert end_of(reason) is End.CUT or plain(reason) in listed | {
        *("aborted", "canceled", "internal_error", "server_error", "stopstringfound", "unload", "time_limit")
    }
    assert told(reason) == ("stop" if is_own(reason) else "length") or "filter" in reason.lower()


@given(st.lists(ENDS | st.none(), max_size=5))
def test_of_several_reasons_the_worst_counts_in_whatever_order(reasons: list[str | None]) -> None:
    order = list(End)
    for tried in (reasons, reasons[::-1]):
        found: str | None = None
        for reason in tried:
            found = worse(found, plain(reason))
        there = [end_of(reason) for reason in reasons if plain(reason) is not None]
        assert end_of(found) is max(there, key=order.index, default=End.CUT)


@pytest.mark.parametrize("odd", [7, 0.5, {}, ["stop"], True, {"type": "stop"}])
def test_what_is_no_word_is_no_end_of_the_models(odd: object) -> None:
    assert end_of(plain(odd)) is End.CUT
    assert plain(odd) is not None


@pytest.mark.parametrize("none", [None, False, "", "null", "none", "not_finished"])
def test_some_say_in_every_piece_that_there_is_no_end_yet(none: object) -> None:
    assert plain(none) is None

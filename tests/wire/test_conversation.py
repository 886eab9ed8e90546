"""What of a conversation is sent on: what requests have, instructions first and in one piece."""

from __future__ import annotations

import json
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionAssistantMessageParam, ChatCompletionMessage

from guard.wire.body import Written
from guard.wire.conversation import ASSISTANTS, INSTRUCTING, sent_on

USER: dict[str, object] = {"role": "user", "content": "Hi"}


@pytest.mark.parametrize(
    ("messages", "merged"),
    [
        ([USER], [{"role": "system", "content": "ours"}, USER]),
        (
            [{"role": "system", "content": "theirs"}, USER],
            [{"role": "system", "content": "theirs\n\nours"}, USER],
        ),
        ([{"role": "developer", "content": "theirs"}], [{"role": "developer", "content": "theirs\n\nours"}]),
        ([{"role": "system", "content": ""}], [{"role": "system", "content": "ours"}]),
        ([{"role": "system", "content": None}], [{"role": "system", "content": "ours"}]),
        (
            [{"role": "system", "content": [{"type": "text", "text": "theirs"}], "name": "n"}],
            [
                {
                    "role": "system",
                    "content": [{"type": "text", "text": "theirs"}, {"type": "text", "text": "ours"}],
                    "name": "n",
                }
            ],
        ),
        (
            [USER, {"role": "system", "content": "late"}],
            [{"role": "system", "content": "late\n\nours"}, USER],
        ),
        (
            [
                {"role": "developer", "content": "a"},
                {"role": "system", "content": [{"type": "text", "text": "b"}]},
                USER,
            ],
            [
                {
                    "role": "developer",
                    "content": [{"type": "text", "text": text} for text in ("a", "b", "ours")],
                },
                USER,
            ],
        ),
    ],
)
def test_all_instructions_become_one_leading_message_that_ends_with_ours(
    messages: list[dict[str, object]], merged: list[dict[str, object]]
) -> None:
    before = json.dumps(messages)
    assert list(sent_on(messages, "ours")) == merged
    assert json.dumps(messages) == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
MESSAGES = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["system", "developer", "user", "assistant", "tool"]),
        "content": st.none()
        | st.text(max_size=20)
        | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text()}), max_size=2),
    },
    optional=dict.fromkeys(
        (
            "name",
            "refusal",
            "tool_calls",
            "reasoning_content",
            "reasoning",
            "annotations",
            "audio",
            "stepguard",
            "thinking",
            "x",
        ),
        JSON,
    ),
)


@given(st.lists(MESSAGES, min_size=1, max_size=6))
def test_one_message_instructs_and_all_that_others_say_keeps_its_order(
    messages: list[dict[str, Any]],
) -> None:
    before = json.dumps(messages)
    first, *said = sent_on(messages, "ours")
    assert first["role"] in INSTRUCTING
    assert not any(one["role"] in INSTRUCTING for one in said)
    assert [one["role"] for one in said] == [
        one["role"] for one in messages if one["role"] not in INSTRUCTING
    ]
    assert [one for one in said if one["role"] != "assistant"] == [
        one for one in messages if one["role"] not in {"assistant", *INSTRUCTING}
    ]
    for one in (one for one in said if one["role"] == "assistant"):
        assert one.keys() <= set(ASSISTANTS)
        assert None not in one.values()
    assert json.dumps(messages) == before


def test_the_fields_are_those_of_openais_requests() -> None:
    """But `audio`, which is a reference there and the sound itself in answers: no trace has any."""
    asked = get_type_hints(ChatCompletionAssistantMessageParam).keys()
    assert set(ASSISTANTS) == asked - {"audio"}
    assert set(ChatCompletionMessage.model_fields) - asked == {"annotations"}


def test_what_an_answer_of_ours_says_comes_back_as_a_request_would_say_it() -> None:
    answered: dict[str, object] = {
        "role": "assistant", "content": "9", "refusal": None, "annotations": [], "audio": None, "function_call": None,
        "tool_calls": None, "reasoning_content": "1 a = 9", "reasoning": "hm", "stepguard": {"outcome": "repaired"},
    }  # fmt: skip
    assert sent_on([USER, answered, USER], "ours")[2] == {"role": "assistant", "content": "9"}


def test_thoughts_among_parts_and_places_of_calls_stay_here() -> None:
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "9", "cache": Written("1.10")}]
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    (_, said) = sent_on([{"role": "assistant", "content": parts, "tool_calls": [call]}], "ours")
    assert said["content"] == parts[1:]
    assert said["tool_calls"] == [{name: call[name] for name in ("id", "type", "function")}]
    assert sent_on([{"role": "assistant", "content": None, "tool_calls": []}], "o")[1] == {
        "role": "assistant",
        "content": "",
    }

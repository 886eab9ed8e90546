"""What happens to each field of a bound request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guard.errors import RequestError
from guard.wire.chat import ChatRequest, parse_request
from guard.wire.fields import OTHER, RULES, Treatment, forwarded, rule_for

ASK = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


def ask(**fields: Any) -> ChatRequest:
    return parse_request(json.dumps(ASK | fields).encode())


def test_every_field_has_one_row_and_a_reason() -> None:
    names = [rule.field for rule in RULES]
    assert len(names) == len(set(names))
    assert all(rule.why for rule in RULES)


def test_every_field_that_the_model_names_is_consumed_budgeted_or_sampling() -> None:
    for field in ChatRequest.model_fields:
        assert rule_for(field) is not OTHER
        assert rule_for(field).treatment is not Treatment.REFUSE


def test_what_is_forwarded_is_what_the_table_says() -> None:
    fields = {"user": "ann", "metadata": {"a": "b"}, "top_k": 5, "store": False, "service_tier": None}
    sampling = {"temperature": 0.5, "top_p": 0.9, "seed": 3}
    ours = {
        "max_tokens": 9,
        "stream": True,
        "response_format": {"type": "text"},
        "stepguard": {"procedure": "p"},
    }
    extra = forwarded(ask(**fields, **sampling, **ours))
    assert extra == {"user": "ann", "metadata": {"a": "b"}, "top_k": 5, "store": False}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 2),
        ("n", "1"),
        ("stop", "\n"),
        ("stop", ["a"]),
        ("tools", [{"type": "function"}]),
        ("tool_choice", "required"),
        ("functions", [{}]),
        ("function_call", {"name": "x"}),
        ("logprobs", True),
        ("top_logprobs", 3),
        ("logit_bias", {"1": 5}),
        ("frequency_penalty", 0.5),
        ("presence_penalty", -1),
        ("modalities", ["text", "audio"]),
        ("audio", {"voice": "x"}),
        ("prediction", {"type": "content"}),
        ("web_search_options", {}),
        ("grammar", "root ::= x"),
        ("json_schema", {"type": "object"}),
        ("structured_outputs", {"grammar": "x"}),
        ("guided_json", {"a": 1}),
        ("ebnf", "x"),
        ("continue_final_message", True),
        ("add_generation_prompt", False),
        ("echo", True),
    ],
)
def test_what_a_run_cannot_honour_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(RequestError) as caught:
        forwarded(ask(**{field: value}))
    assert caught.value.param == field
    assert caught.value.code == "unsupported_parameter"
    assert rule_for(field).why in caught.value.message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 1),
        ("n", None),
        ("stop", None),
        ("stop", []),
        ("tools", []),
        ("tool_choice", "auto"),
        ("parallel_tool_calls", True),
        ("logprobs", False),
        ("top_logprobs", None),
        ("logit_bias", {}),
        ("frequency_penalty", 0),
        ("presence_penalty", 0.0),
        ("modalities", ["text"]),
        ("add_generation_prompt", True),
    ],
)
def test_what_asks_for_nothing_is_dropped(field: str, value: object) -> None:
    assert forwarded(ask(**{field: value})) == {}

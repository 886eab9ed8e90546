"""What happens to each field of a chat request that is bound to a procedure: a table, with reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from guard.errors import RequestError
from guard.wire.chat import ChatRequest


class Treatment(StrEnum):
    """What becomes of a field."""

    CONSUME = "consumed"  # used by the guard; what the upstream gets is the guard's own
    FORWARD = "forwarded"  # sent to the upstream as it came, with every generation
    BUDGET = "budget"  # bounds the tokens of all generations together
    CHECK = "checked"  # not sent on; compared with the type of the procedure's result
    REFUSE = "refused"  # 400, unless it asks for nothing


@dataclass(frozen=True, slots=True)
class Rule:
    """One row. `harmless` says which values of a refused field ask for nothing and are dropped."""

    field: str
    treatment: Treatment
    why: str
    harmless: Callable[[object], bool] = lambda value: not value


_FORCED = "the guard forces the format itself"
_PREFIX = "the guard continues and cuts generations itself"
_TEXT = "a trace is one text"

RULES: Final = (
    Rule("model", Treatment.CONSUME, "selects the route, which names the upstream's model"),
    Rule("messages", Treatment.CONSUME, "sent on with the procedure in the leading system message"),
    Rule("stream", Treatment.CONSUME, "says how the client is answered; upstreams are always streamed"),
    Rule("stream_options", Treatment.CONSUME, "says whether the client's stream ends with the usage"),
    Rule("stepguard", Treatment.CONSUME, "names the procedure and its inputs"),
    Rule("max_tokens", Treatment.BUDGET, "what the client pays for is all generations together"),
    Rule("max_completion_tokens", Treatment.BUDGET, "what the client pays for is all generations together"),
    Rule("temperature", Treatment.FORWARD, "a retry may raise it unless the policy forbids"),
    Rule("top_p", Treatment.FORWARD, "sampling"),
    Rule("seed", Treatment.FORWARD, "sampling; a retry uses the next one"),
    Rule("user", Treatment.FORWARD, "the provider's bookkeeping"),
    Rule("metadata", Treatment.FORWARD, "the provider's bookkeeping"),
    Rule("response_format", Treatment.CHECK, "the answer has the type that the procedure returns"),
    Rule("n", Treatment.REFUSE, "a run has one answer", lambda value: value in (None, 1)),
    Rule("stop", Treatment.REFUSE, "a stop sequence would cut the trace"),
    Rule("tools", Treatment.REFUSE, "calls are steps of the procedure"),
    Rule(
        "tool_choice",
        Treatment.REFUSE,
        "calls are steps of the procedure",
        lambda v: v in (None, "none", "auto"),
    ),
    Rule("functions", Treatment.REFUSE, "calls are steps of the procedure"),
    Rule(
        "function_call",
        Treatment.REFUSE,
        "calls are steps of the procedure",
        lambda v: v in (None, "none", "auto"),
    ),
    Rule("parallel_tool_calls", Treatment.REFUSE, "calls are steps of the procedure", lambda _: True),
    Rule("logprobs", Treatment.REFUSE, "they belong to the trace, not to the answer"),
    Rule("top_logprobs", Treatment.REFUSE, "they belong to the trace, not to the answer"),
    Rule("logit_bias", Treatment.REFUSE, "it would bend what the steps say"),
    Rule("frequency_penalty", Treatment.REFUSE, "steps repeat earlier values on purpose"),
    Rule("presence_penalty", Treatment.REFUSE, "steps repeat earlier values on purpose"),
    Rule("modalities", Treatment.REFUSE, _TEXT, lambda value: value in (None, ["text"])),
    Rule("audio", Treatment.REFUSE, _TEXT),
    Rule("prediction", Treatment.REFUSE, _FORCED),
    Rule("web_search_options", Treatment.REFUSE, "sources are inputs of the procedure", lambda v: v is None),
    Rule("grammar", Treatment.REFUSE, _FORCED),
    Rule("json_schema", Treatment.REFUSE, _FORCED),
    Rule("structured_outputs", Treatment.REFUSE, _FORCED),
    Rule("guided_json", Treatment.REFUSE, _FORCED),
    Rule("guided_regex", Treatment.REFUSE, _FORCED),
    Rule("guided_choice", Treatment.REFUSE, _FORCED),
    Rule("guided_grammar", Treatment.REFUSE, _FORCED),
    Rule("ebnf", Treatment.REFUSE, _FORCED),
    Rule("regex", Treatment.REFUSE, _FORCED),
    Rule("continue_final_message", Treatment.REFUSE, _PREFIX),
    Rule("add_generation_prompt", Treatment.REFUSE, _PREFIX, lambda value: value in (None, True)),
    Rule("echo", Treatment.REFUSE, _PREFIX),
)

OTHER: Final = Rule("any other field", Treatment.FORWARD, "servers have fields of their own")

_BY_FIELD: Final = {rule.field: rule for rule in RULES}


def rule_for(field: str) -> Rule:
    """The row for a field, `OTHER` where it has none of its own."""
    return _BY_FIELD.get(field, OTHER)


# Forwarded by the run itself, which may change them from one generation to the next.
_SAMPLING: Final = frozenset({"temperature", "top_p", "seed"})


def forwarded(request: ChatRequest) -> dict[str, object]:
    """What travels with every generation of a bound request, but for the sampling fields.

    Raises `RequestError` naming the first field that a bound request cannot have.
    """
    extra: Mapping[str, object] = request.model_extra or {}
    for field, value in extra.items():
        rule = rule_for(field)
        if rule.treatment is Treatment.REFUSE and not rule.harmless(value):
            raise RequestError(
                f"{field} cannot be used on a request that is bound to a procedure: {rule.why}",
                param=field,
                code="unsupported_parameter",
            )
    return {
        field: value
        for field, value in extra.items()
        if rule_for(field).treatment is Treatment.FORWARD and field not in _SAMPLING and value is not None
    }

"""How a generation ended, by its finish reason: the one list of the ends that are a model's own.

Every other reason is a cut: one that nobody has listed as much as `length`. What was cut is asked for again,
and is never the model's departure. Some cuts are a fault of the server, which the reason names.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class End(StrEnum):
    """Who ended a generation. In the order of how bad it is: of several reasons the worst one counts."""

    OWN = "own"  # the model had finished
    CUT = "cut"  # something else did: a limit, a filter, whatever is not known
    FAULT = "fault"  # the server failed, and says so


# Without case, and with `_` for blanks and dashes.
_OWN: Final = frozenset(
    {
        "stop",  # OpenAI, and all that speak as it does; Gemini's STOP
        "stop_sequence",  # Anthropic, TGI, Cohere, watsonx: a text at which it was told to end
        "eos",  # Together, llama.cpp
        "eos_token",  # TGI, watsonx
        "eosfound",  # LM Studio
        "stopstringfound",
        "end_turn",  # Anthropic, Bedrock
        "endoftext",  # AI21
        "complete",  # Cohere
        "completed",  # OpenAI's Responses API
    }
)
CALLS: Final = frozenset({"tool_calls", "tool_call", "tool_use", "function_call"})
_FAULTS: Final = frozenset(
    {
        "abort",  # vLLM, SGLang
        "aborted",
        "cancelled",
        "canceled",
        "error",  # Mistral, OpenRouter, Cohere, watsonx
        "failed",
        "insufficient_system_resource",  # DeepSeek
        "internal_error",
        "modelunloaded",  # LM Studio
        "network_error",  # Z.ai
        "server_error",
        "time_limit",  # watsonx
        "timeout",  # Cohere, TensorRT-LLM
        "unload",  # Ollama
    }
)
_NONE: Final = frozenset({"", "null", "none", "not_finished"})  # a few servers say so in every piece
_FILTERS: Final = frozenset({"content_filter", "content_filtered"})
_BADNESS: Final = {end: place for place, end in enumerate(End)}


def plain(reason: object) -> str | None:
    """Give a reason as it is listed here, None where that is to say that there is no end yet."""
    if reason is None or reason is False:
        return None
    if not isinstance(reason, str):
        return "unlisted"
    word = "_".join(reason[:80].lower().replace("-", " ").replace("_", " ").split())
    return None if word in _NONE else word


def end_of(reason: str | None, *, tool: bool = False) -> End:
    """Say who ended a generation. `tool`: it was to call one, so that a call is its own end.

    None: nobody has said, as where the connection broke.
    """
    word = plain(reason)
    if word in _OWN or (tool and word in CALLS):
        return End.OWN
    return End.FAULT if word in _FAULTS else End.CUT


def is_own(reason: str | None, *, tool: bool = False) -> bool:
    """Whether the model itself had finished: only then is a last line without a line feed a whole one."""
    return end_of(reason, tool=tool) is End.OWN


def worse(one: str | None, other: str | None, *, tool: bool = False) -> str | None:
    """Give the one of two reasons that counts; None gives way to any."""
    if one is None or other is None:
        return one or other
    first, second = (_BADNESS[end_of(reason, tool=tool)] for reason in (one, other))
    return other if second > first else one


def told(reason: str | None) -> str:
    """Give the reason as OpenAI's clients know it: what a server calls it stays with us."""
    if plain(reason) in _FILTERS:
        return "content_filter"
    return "stop" if is_own(reason) else "length"

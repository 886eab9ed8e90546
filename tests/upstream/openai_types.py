"""The types of requests that OpenAI's library publishes, for either API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

CHAT: Final = TypeAdapter(CompletionCreateParamsStreaming)
RESPONSES: Final = TypeAdapter(ResponseCreateParamsStreaming)


def published(sent: Mapping[str, object]) -> tuple[list[Any], list[Any]]:
    """Check a request against its type; give its messages or items, and its tools. Raises `ValueError`."""
    api = RESPONSES if "input" in sent else CHAT
    read: Any = api.validate_python(dict(sent), strict=True, extra="forbid")
    return list(read["input" if "input" in sent else "messages"]), list(
        read.get("tools", ())
    )  # which are read lazily

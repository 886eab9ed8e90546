"""The conversation of a bound request as it is sent on: what strict servers take, in the order they want."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from guard.wire.chat import Message

INSTRUCTING: Final = frozenset({"system", "developer"})

# What OpenAI's API takes of a message that the assistant said before. Clients send back what they were
# answered, and servers refuse what is only a part of answers: thoughts, annotations, our own report.
ASSISTANTS: Final = ("role", "content", "name", "refusal", "tool_calls", "function_call")
CALLS: Final = ("id", "type", "function", "custom")
PARTS: Final = frozenset({"text", "refusal"})


def sent_on(messages: Sequence[Message], instructions: str) -> tuple[Message, ...]:
    """Give the conversation with our instructions behind the client's, and nothing that is only of answers.

    All instructions become one message, the first: many chat templates take no other one.
    """
    told = [message for message in messages if message["role"] in INSTRUCTING]
    said = [message for message in messages if message["role"] not in INSTRUCTING]
    first = told[0] if told else {"role": "system"}
    return ({**first, "content": _joined(told, instructions)}, *map(_asked, said))


def _joined(told: Sequence[Message], text: str) -> object:
    """Put instructions together: as one text, or as parts where some came in parts."""
    contents = [content for message in told if (content := message.get("content"))]
    if not any(isinstance(content, list) for content in contents):
        return "\n\n".join([*map(str, contents), text])
    parts: list[Any] = []
    for content in [*contents, text]:
        parts += content if isinstance(content, list) else [{"type": "text", "text": content}]
    return parts


def _asked(message: Message) -> Message:
    """Give a message as it may stand in a request."""
    if message["role"] != "assistant":
        return message
    kept = {name: message[name] for name in ASSISTANTS if message.get(name) is not None}
    if isinstance(content := kept.get("content"), list):
        kept["content"] = [
            part for part in content if not isinstance(part, dict) or part.get("type") in PARTS
        ]
    if "tool_calls" in kept:
        kept["tool_calls"] = list(_calls(kept["tool_calls"]))
        if not kept["tool_calls"]:
            del kept["tool_calls"]
    says = kept.keys() & {"content", "tool_calls", "function_call"}
    return kept if says else {**kept, "content": kept.get("refusal", "")}


def _calls(calls: object) -> Iterator[object]:
    for call in calls if isinstance(calls, list) else ():
        yield {name: call[name] for name in CALLS if name in call} if isinstance(call, dict) else call

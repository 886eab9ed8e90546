"""A chat request in the words of OpenAI's Responses API.

It asks for the same: messages become items of the input, what belongs to a type stands beside the type's
name and not below it, and some fields have another place. What there is no other word for stays as it is,
for the server to refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from guard.wire.chat import Message, text_of

# Fields of a chat request that are members of an object here: its name, and the member's.
PLACES: Final[Mapping[str, tuple[str, str]]] = {
    "response_format": ("text", "format"),
    "verbosity": ("text", "verbosity"),
    "reasoning_effort": ("reasoning", "effort"),
}


def in_responses(chat: Mapping[str, Any]) -> dict[str, object]:
    """Give the fields of a request to `/responses`."""
    asked: dict[str, object] = {}
    for name, value in chat.items():
        if name not in PLACES and name != "messages":
            asked[name] = _spelled(name, value)
    if "messages" in chat:
        asked["input"] = list(_items(chat["messages"]))
    for name, (place, member) in PLACES.items():
        if name in chat:
            there = asked.get(place)
            asked[place] = {**(there if isinstance(there, dict) else {}), member: _flat(chat[name])}
    return asked


def _spelled(name: str, value: Any) -> object:
    match name, value:
        case "tools", [*tools]:
            return [_tool(tool) for tool in tools]
        case "tool_choice", _:
            return _flat(value)
        case _:
            return value


def _tool(tool: Any) -> Any:
    flat = _flat(tool)
    return {**flat, "format": _flat(flat["format"])} if isinstance(flat, dict) and "format" in flat else flat


def _flat(value: Any) -> Any:
    """Put what stands below the name of a type beside it."""
    match value:
        case {"type": str(kind), **rest} if isinstance(inner := rest.get(kind), dict):
            return {"type": kind, **inner}
        case _:
            return value


# --- messages ------------------------------------------------------------------------------------


def _items(messages: Iterable[Message]) -> Iterator[dict[str, Any]]:
    """Give the conversation item by item; calls of tools and what they gave are items of their own."""
    texts: set[str] = set()  # the calls of tools that take a text
    for message in messages:
        match message:
            case {"role": "assistant"}:
                if said := text_of(message) or message.get("refusal"):
                    yield _message("assistant", said)
                calls = message.get("tool_calls")
                for call in calls if isinstance(calls, list) else ():
                    item = _call(call)
                    if item.get("type") == "custom_tool_call" and isinstance(item.get("call_id"), str):
                        texts.add(item["call_id"])
                    yield item
            case {"role": "tool", "tool_call_id": str(call_id)}:
                kind = "custom_tool_call_output" if call_id in texts else "function_call_output"
                yield {"type": kind, "call_id": call_id, "output": text_of(message)}
            case {"content": list(parts)}:
                yield _message(message["role"], [_part(part) for part in parts])
            case _:
                yield _message(message["role"], text_of(message))


def _message(role: object, content: object) -> dict[str, Any]:
    return {
        "type": "message",
        "role": role,
        "content": content,
    }  # llama.cpp knows the assistant's by the type


def _call(call: Any) -> dict[str, Any]:
    match call:
        case {"id": call_id, "custom": {"name": name, "input": written}}:
            return {"type": "custom_tool_call", "call_id": call_id, "name": name, "input": written}
        case {"id": call_id, "function": {"name": name, "arguments": arguments}}:
            return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
        case dict():
            return call
        case _:
            return {"type": "function_call"}


def _part(part: Any) -> Any:
    match part:
        case {"type": "text", "text": text}:
            return {"type": "input_text", "text": text}
        case {"type": "image_url", "image_url": {"url": url, **rest}}:
            return {"type": "input_image", "image_url": url, "detail": rest.get("detail") or "auto"}
        case {"type": "file", "file": dict(file)}:
            return {"type": "input_file", **file}
        case _:
            return part

"""The body of a request as a server of some kind wants it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, assert_never

import orjson

from guard.dialect.notation import Dialect
from guard.errors import InvalidState
from guard.run.messages import Message, Open
from guard.upstream.capabilities import HELD, Api, Backend, Place, Prefix, Roles, Thinking
from guard.upstream.responses import in_responses
from guard.wire.chat import text_of

TOOL: Final = "trace"  # the custom tool whose input the trace is, and the name of the schema

_TOOL_MEANS: Final = "Takes the trace of the procedure, from its first line to its last."
_INSTRUCTING: Final = frozenset({"system", "developer"})


def body(backend: Backend, command: Open, *, model: str, extra: Mapping[str, object]) -> dict[str, object]:
    """Make the request that opens a generation. `extra` are the client's fields; ours win."""
    ours: dict[str, object | None] = {
        "model": model,
        "messages": _with_prefix(backend, _in_roles(backend.roles, command.messages), command.prefix),
        "stream": True,
        "stream_options": {"include_usage": True} if backend.stream_options else None,
        backend.max_tokens_field: command.max_tokens,
        "temperature": command.temperature,
        "top_p": command.top_p,
    }
    if backend.seed_field is not None:
        ours[backend.seed_field] = command.seed
    if backend.stop_field is not None and command.stop:
        ours[backend.stop_field] = list(command.stop)
    held = command.grammar is not None and backend.thinking is Thinking.FORBIDDEN
    if command.prefix or held:
        ours |= _joined(extra, backend.with_prefix)
    if command.prefix and backend.prefix is Prefix.CONTINUE:
        ours |= {"continue_final_message": True, "add_generation_prompt": False}
    if command.grammar is not None:
        ours |= _placed(backend, command.grammar) | _joined(extra, backend.with_grammar)
    said = {name: value for name, value in ours.items() if value is not None}
    chat = _allowed(backend, {**extra, **backend.fixed, **said})
    if backend.api is Api.CHAT:
        return chat
    # Else each response would be kept there, whether it was cut or not.
    return _allowed(backend, {"store": False} | in_responses(chat))


def _allowed(backend: Backend, asked: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in asked.items() if name not in backend.refuses}


def grammar_fields(place: Place, dialect: Dialect, text: str, api: Api = Api.CHAT) -> dict[str, object]:
    """Give the fields that hold a server to a grammar. Raises `InvalidState` where the place cannot."""
    if dialect not in HELD[place]:
        raise InvalidState(f"{place} cannot hold {dialect}")
    fields = _fields(place, dialect, text)
    return fields if api is Api.CHAT else in_responses(fields)


def _fields(place: Place, dialect: Dialect, text: str) -> dict[str, object]:
    match place:
        case Place.GRAMMAR:
            return {"grammar": text}
        case Place.STRUCTURED_OUTPUTS:
            return {"structured_outputs": _structured(dialect, text)}
        case Place.EBNF:
            return {"regex" if dialect is Dialect.REGEX else "ebnf": text}
        case Place.RESPONSE_FORMAT:
            return {"response_format": _response_format(dialect, text)}
        case Place.CUSTOM_TOOL:
            return _custom_tool(dialect, text)
        case _:
            assert_never(place)


def _placed(backend: Backend, text: str) -> dict[str, object]:
    if backend.grammar is None or backend.dialect is None:
        raise InvalidState(f"a {backend.kind} upstream takes no grammar")
    return grammar_fields(backend.grammar, backend.dialect, text)


def _structured(dialect: Dialect, text: str) -> dict[str, object]:
    match dialect:
        case Dialect.JSON_SCHEMA:
            return {"json": orjson.loads(text)}
        case Dialect.REGEX:
            return {"regex": text}
        case _:
            return {"grammar": text}


def _response_format(dialect: Dialect, text: str) -> dict[str, object]:
    if dialect is Dialect.JSON_SCHEMA:
        schema = {"name": TOOL, "schema": orjson.loads(text), "strict": True}
        return {"type": "json_schema", "json_schema": schema}
    return {"type": "grammar", "grammar": text}


def _custom_tool(dialect: Dialect, text: str) -> dict[str, object]:
    syntax = "regex" if dialect is Dialect.REGEX else "lark"
    form = {"type": "grammar", "grammar": {"syntax": syntax, "definition": text}}
    custom = {"name": TOOL, "description": _TOOL_MEANS, "format": form}
    return {
        "tools": [{"type": "custom", "custom": custom}],
        "tool_choice": {"type": "custom", "custom": {"name": TOOL}},
        "parallel_tool_calls": False,
    }


def _joined(theirs: Mapping[str, object], ours: Mapping[str, object]) -> dict[str, object]:
    """Put members of ours into the client's objects."""
    return {name: _into(theirs.get(name), value) for name, value in ours.items()}


def _into(theirs: object, ours: object) -> object:
    return {**theirs, **ours} if isinstance(theirs, dict) and isinstance(ours, dict) else ours


# --- messages ------------------------------------------------------------------------------------


def _with_prefix(backend: Backend, messages: list[Message], prefix: str) -> list[Message]:
    if not prefix:
        return messages
    said: Message = {"role": "assistant", "content": prefix}
    match backend.prefix:
        case Prefix.NONE:
            raise InvalidState(f"a {backend.kind} upstream cannot continue a prefix")
        case Prefix.FLAGGED:
            said["prefix"] = True
        case Prefix.TRAILING | Prefix.CONTINUE:
            pass
        case _:
            assert_never(backend.prefix)
    return [*messages, said]


def _in_roles(roles: Roles, messages: Sequence[Message]) -> list[Message]:
    """Give the conversation with its instructions in the role that the server knows."""
    match roles:
        case Roles.ANY:
            return list(messages)
        case Roles.SYSTEM | Roles.DEVELOPER:
            return [
                {**message, "role": roles.value} if message["role"] in _INSTRUCTING else message
                for message in messages
            ]
        case Roles.NONE:
            return _folded(messages)
        case _:
            assert_never(roles)


def _folded(messages: Sequence[Message]) -> list[Message]:
    """Put the instructions in front of what the user says first."""
    told = "\n\n".join(text_of(message) for message in messages if message["role"] in _INSTRUCTING)
    rest = [message for message in messages if message["role"] not in _INSTRUCTING]
    if not told:
        return rest
    for position, message in enumerate(rest):
        if message["role"] == "user":
            return [*rest[:position], _in_front(told, message), *rest[position + 1 :]]
    return [{"role": "user", "content": told}, *rest]


def _in_front(told: str, message: Message) -> Message:
    match message.get("content"):
        case list(parts):
            return {**message, "content": [{"type": "text", "text": told}, *parts]}
        case str(content) if content:
            return {**message, "content": f"{told}\n\n{content}"}
        case _:
            return {**message, "content": told}

"""How an answer that is none reads: what a procedure denied or escalated, in the form that was asked for.

It always stands in the field `refusal`, so that it can be told from an answer. The content is the text itself
where text was asked for, and where JSON was an object with the one member `deny` or `escalate`, if that is
allowed; else there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from guard.run.messages import Finish

# What a schema may say for an object with one more or only one member still to be right, or to be ignored.
_HARMLESS: Final = frozenset({"$schema", "$id", "$defs", "definitions", "title", "description"})
_OF_OBJECTS: Final = _HARMLESS | {"type", "properties", "required", "additionalProperties"}
_OF_TEXTS: Final = _HARMLESS | {"type"}


def refusal(finish: Finish) -> str | None:
    """Give the text with which a run declined, None where it answered or came to no end."""
    return finish.answer if finish.end in {"deny", "escalate"} else None


def content(response_format: object, finish: Finish) -> str | None:
    """Give the content of an answer that declines, in the client's format; None: there is none."""
    assert finish.end is not None
    match response_format:
        case None | {"type": "text"}:
            return finish.answer
        case {"type": "json_schema", "json_schema": {"schema": schema}} if not allows(schema, finish.end):
            return None
        case _:
            return orjson.dumps({finish.end: finish.answer}).decode()


def allows(schema: object, name: str) -> bool:
    """Whether an object is certainly right by a schema whose only member is a text of this name."""
    if not isinstance(schema, dict):
        return schema is True
    properties = schema.get("properties", {})
    described = properties.get(name) if isinstance(properties, dict) else False
    required = schema.get("required", [])
    member = schema.get("additionalProperties", True) if described is None else described
    return (
        _OF_OBJECTS.issuperset(schema)
        and _is_of("object", schema)
        and isinstance(required, list)
        and all(one == name for one in required)
        and (member is True or (isinstance(member, dict) and _is_text(member)))
    )


def _is_text(schema: Mapping[str, Any]) -> bool:
    return _OF_TEXTS.issuperset(schema) and _is_of("string", schema)


def _is_of(kind: str, schema: Mapping[str, Any]) -> bool:
    types = schema.get("type", kind)
    return kind in types if isinstance(types, list) else types == kind

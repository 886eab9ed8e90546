"""Which schemas allow the object that says that a procedure declined."""

from __future__ import annotations

from typing import Any

import pytest

from guard.proxy import declined

TEXT = {"type": "string", "description": "Why not."}


@pytest.mark.parametrize(
    ("schema", "allowed"),
    [
        (True, True),
        ({}, True),
        ({"type": "object"}, True),
        ({"type": ["null", "object"], "required": ["deny"], "title": "x"}, True),
        ({"properties": {"deny": TEXT}, "additionalProperties": False}, True),
        ({"properties": {"deny": {"type": ["string", "null"]}}}, True),
        ({"additionalProperties": TEXT}, True),
        (False, False),
        (None, False),
        ({"type": "integer"}, False),
        ({"type": "object", "required": ["net"]}, False),
        ({"type": "object", "required": [{"net": 1}]}, False),
        ({"type": "object", "required": "net"}, False),
        ({"type": "object", "additionalProperties": False}, False),
        ({"properties": {"deny": {"type": "integer"}}}, False),
        ({"properties": {"deny": False}}, False),
        ({"properties": []}, False),
        ({"properties": {"deny": {"type": "string", "maxLength": 3}}}, False),
        ({"type": "object", "minProperties": 2}, False),
        ({"anyOf": [{"type": "object"}]}, False),
        ({"const": 5}, False),
        ({"$ref": "#/$defs/x"}, False),
    ],
)
def test_an_object_is_given_where_it_is_certainly_right(schema: Any, allowed: bool) -> None:
    assert declined.allows(schema, "deny") is allowed

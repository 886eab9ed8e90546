"""A compiled procedure as JSON, for tools of other languages; and the JSON Schema of that.

Both follow from the model: every class of it is an object with its name under `node` and its fields, places
in the source left out. Numbers are strings in their canonical spelling, so that they stay exact, and so are
dates; the `type` beside them tells them from text.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum
from fractions import Fraction
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from guard.procedure.dates import spelled
from guard.procedure.execute import Program
from guard.procedure.listing import called, rules_of, tools_of
from guard.procedure.model import Always, Module, Numbers, Procedure, Table, Tool
from guard.procedure.nodes import Literal
from guard.procedure.types import DecimalType, RecordType, Type
from guard.procedure.values import spell

FORMAT: Final = 1  # goes up where what is there changes its meaning or goes away

_SCALAR: Final[dict[str, object]] = {"type": ["string", "boolean", "null"]}


def compiled(module: Module, program: Program) -> dict[str, object]:
    """Give a program of a module as JSON data: its number rules, zone, variables, tables and numbered steps.

    `callees` are the procedures that it carries out, those that these do included.
    """
    used = called(program.procedure, module)
    return {
        "format": FORMAT,
        "version": program.version,
        "digest": program.digest,
        "numbers": _data(program.numbers),
        "zone": program.zone,
        "procedure": _data(program.procedure),
        "variables": _variables(program),
        "callees": [
            {"procedure": _data(callee.procedure), "variables": _variables(callee)}
            for callee in _callees(program).values()
        ],
        "tools": [_data(tool) for tool in tools_of(program.procedure, module).values()],
        "rules": [_data(rule) for rule in rules_of(program.procedure, module)],
        "tables": [_data(table) for name, table in module.tables.items() if name in used],
    }


def _variables(program: Program) -> dict[str, object]:
    return {name: _data(type_) for name, type_ in program.types.items()}


def _callees(program: Program) -> dict[str, Program]:
    found: dict[str, Program] = {}
    waiting = [program]
    while waiting:
        for name, callee in waiting.pop().callees.items():
            if name not in found:
                found[name] = callee
                waiting.append(callee)
    return found


def _data(value: object) -> object:
    match value:
        case bool() | None:
            return value
        case Enum():
            return value.value
        case str():
            return str(value)
        case tuple():
            return [_data(part) for part in value]
        case Mapping():
            return {str(name): _data(part) for name, part in value.items()}
        case Literal(value=int() | Fraction() as number) if not isinstance(number, bool):
            return {"node": "Literal", "value": spell(number, DecimalType()), "type": _data(value.type)}
        case Literal(value=date() as day):
            return {"node": "Literal", "value": spelled(day), "type": _data(value.type)}
        case _ if is_dataclass(value):
            parts = {
                field.name: _data(getattr(value, field.name)) for field in fields(value) if field.compare
            }
            name = {"name": value.name} if isinstance(value, RecordType) else {}
            return {"node": type(value).__name__, **parts, **name}
        case _:
            return value  # a count: the places of a rounding, the passes of a loop


# --- the schema -----------------------------------------------------------------------------------


def schema() -> dict[str, object]:
    """Give the JSON Schema of what `compiled` gives."""
    known: dict[str, object] = {}
    properties = {
        "format": {"const": FORMAT},
        "version": _schema(str | None, known),
        "digest": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
        "numbers": _schema(Numbers, known),
        "zone": _schema(str | None, known),
        "procedure": _schema(Procedure, known),
        "variables": _schema(dict[str, Type], known),
        "callees": {
            "type": "array",
            "items": _object(
                {
                    "procedure": _schema(Procedure, known),
                    "variables": _schema(dict[str, Type], known),
                }
            ),
        },
        "tools": _schema(tuple[Tool, ...], known),
        "rules": _schema(tuple[Always, ...], known),
        "tables": _schema(tuple[Table, ...], known),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A procedure as `stepguard show --json` gives it under `compiled`",
        **_object(properties),
        "$defs": dict(sorted(known.items())),
    }


def _object(properties: Mapping[str, object]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _schema(hint: Any, known: dict[str, object]) -> dict[str, object]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _SCALAR if Fraction in arguments else {"anyOf": [_schema(part, known) for part in arguments]}
    if origin is tuple and arguments[1:] == (...,):
        return {"type": "array", "items": _schema(arguments[0], known)}
    if origin is tuple:
        items = [_schema(part, known) for part in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1], known)}
    if is_dataclass(hint):
        return _reference(hint, known)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    return {"type": _NAMES[hint]}


_NAMES: Final = {bool: "boolean", int: "integer", str: "string", type(None): "null"}


def _reference(node: Any, known: dict[str, object]) -> dict[str, object]:
    name = node.__name__
    if name not in known:
        known[name] = {}  # so that a class which holds itself comes to an end
        parts = {field: _schema(hint, known) for field, hint in _hints(node)}
        known[name] = {"description": node.__doc__, **_object({"node": {"const": name}, **parts})}
    return {"$ref": f"#/$defs/{name}"}


def _hints(node: Any) -> Iterator[tuple[str, object]]:
    hints = get_type_hints(node)
    for field in fields(node):
        if field.compare or (node is RecordType and field.name == "name"):
            yield field.name, hints[field.name]

"""Whether an answer of a procedure's result type can satisfy the client's `response_format`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from guard.errors import RequestError
from guard.procedure.lattice import required
from guard.procedure.types import (
    BoolType,
    DatetimeType,
    DateType,
    DecimalType,
    EnumType,
    IntType,
    ListType,
    NothingType,
    NullType,
    OptionalType,
    PercentType,
    RecordType,
    StringType,
    TextType,
    Type,
)

MAX_DEPTH = 100  # of parts within parts
MAX_WORDS = 100  # characters of the client's schema in a message


def check_format(response_format: object, result: Type, content: str) -> None:
    """Raise `RequestError`, naming the field, for a format that no answer can have.

    Only what a schema says of types, fields, items, constants and enumerations is judged: an answer of the
    right type may still break a pattern or a range.
    """
    match response_format:
        case None | {"type": "text"}:
            return
        case {"type": "json_object"}:
            why = None if isinstance(result, RecordType) else f"the procedure returns {_name(result)}"
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            why = _Schema(schema).misfit(result) if _is_json(result) else f"{_name(result)} is no JSON text"
        case _:
            why = "expected type text, json_object, or json_schema with a schema"
    if why is None and content != "answer":
        why = f"content {content!r} is not JSON"
    if why is not None:
        raise RequestError(
            f"response_format cannot be satisfied: {why}",
            param="response_format",
            code="unsupported_response_format",
        )


def _is_json(result: Type) -> bool:
    """Whether the answer, which gives scalars bare, is JSON."""
    bare = StringType | TextType | EnumType | PercentType | DateType | DatetimeType
    return not isinstance(required(result), bare)


class _Schema:
    """A JSON schema, as far as it is read.

    Each part is judged once for each type: references may name a part over and over, and themselves.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._judged: dict[tuple[int, int], str | None] = {}  # by part and type, both alive all the while

    def misfit(self, type_: Type) -> str | None:
        return self._misfit(type_, self._root, "", MAX_DEPTH)

    def _misfit(self, type_: Type, schema: object, path: str, depth: int) -> str | None:
        """Why no value of a type fits a schema; None where one may."""
        if schema is True or not isinstance(schema, dict) or depth == 0:
            return f"nothing is allowed{_at(path)}" if schema is False else None
        key = id(schema), id(type_)
        if key not in self._judged:
            self._judged[key] = None  # as long as nothing speaks against it: it may contain itself
            self._judged[key] = self._misfit_dict(type_, schema, path, depth)
        return self._judged[key]

    def _misfit_dict(self, type_: Type, schema: Mapping[str, Any], path: str, depth: int) -> str | None:
        if "$ref" in schema:
            return self._misfit(type_, self._resolve(schema["$ref"]), path, depth - 1)
        for part in _list(schema.get("allOf")):
            if why := self._misfit(type_, part, path, depth - 1):
                return why
        for key in ("anyOf", "oneOf"):
            found = [self._misfit(type_, part, path, depth - 1) for part in _list(schema.get(key))]
            if found and all(found):
                return found[0]
        return self._misfit_here(type_, schema, path, depth)

    def _misfit_here(self, type_: Type, schema: Mapping[str, Any], path: str, depth: int) -> str | None:
        wanted = _list(schema.get("type")) or [schema["type"]] if "type" in schema else []
        if wanted and not _json_types(type_).intersection(filter(_is_text, wanted)):
            words = " or ".join(map(str, wanted))[:MAX_WORDS]
            return f"the schema wants {words}{_at(path)}, the procedure gives {_name(type_)}"
        allowed = [schema["const"]] if "const" in schema else _list(schema.get("enum"))
        if (
            allowed
            and isinstance(type_, EnumType)
            and not set(type_.options) & set(filter(_is_text, allowed))
        ):
            return f"none of {', '.join(map(repr, type_.options))} is allowed{_at(path)}"
        match required(type_):
            case RecordType() as record:
                return self._misfit_record(record, schema, path, depth)
            case ListType(item) if "items" in schema:
                return self._misfit(item, schema["items"], f"{path}[]", depth - 1)
            case _:
                return None

    def _misfit_record(
        self, type_: RecordType, schema: Mapping[str, Any], path: str, depth: int
    ) -> str | None:
        ours = {field.name: field.type for field in type_.fields}
        properties = schema.get("properties")
        described: Mapping[str, Any] = properties if isinstance(properties, dict) else {}
        for name in filter(_is_text, _list(schema.get("required"))):
            if name not in ours:
                return (
                    f"the schema requires {name[:MAX_WORDS]!r}{_at(path)}, which the procedure does not give"
                )
        for name, field in ours.items():
            below = f"{path}.{name}" if path else name
            fits = described[name] if name in described else schema.get("additionalProperties", True)
            if fits is False:
                return f"the schema does not allow {below!r}, which the procedure gives"
            if why := self._misfit(field, fits, below, depth - 1):
                return why
        return None

    def _resolve(self, reference: object) -> object:
        """Give what a reference within the schema means; True, which allows all, for any other."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return True
        place: object = self._root
        for key in reference.lstrip("#").strip("/").split("/") if reference != "#" else ():
            name = key.replace("~1", "/").replace("~0", "~")
            place = place.get(name, True) if isinstance(place, dict) else True
        return place


def _json_types(type_: Type) -> set[str]:
    match type_:
        case IntType():
            return {"integer", "number"}
        case DecimalType() | PercentType():
            return {"number"}
        case BoolType():
            return {"boolean"}
        case ListType():
            return {"array"}
        case OptionalType(item):
            return _json_types(item) | {"null"}
        case NullType():
            return {"null"}
        case RecordType():
            return {"object"}
        case StringType() | TextType() | EnumType() | DateType() | DatetimeType():
            return {"string"}
        case NothingType():
            return set()


def _name(type_: Type) -> str:
    return type(required(type_)).__name__.removesuffix("Type").lower()


def _at(path: str) -> str:
    return f" at {path}" if path else ""


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _is_text(value: object) -> bool:
    return isinstance(value, str)

"""Which `response_format` an answer of a result type can satisfy."""

from __future__ import annotations

from typing import Any

import pytest

from guard.errors import RequestError
from guard.procedure.types import (
    BoolType,
    DatetimeType,
    DateType,
    DecimalType,
    EnumType,
    FieldType,
    IntType,
    ListType,
    PercentType,
    RecordType,
    StringType,
    Type,
)
from guard.proxy.answer_format import check_format

TOTALS = RecordType(
    (
        FieldType("net", DecimalType(2)),
        FieldType("items", ListType(RecordType((FieldType("qty", IntType()),)))),
        FieldType("kind", EnumType(("a", "b"))),
    )
)
WHOLE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "net": {"type": "number"},
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
        "kind": {"anyOf": [{"type": "null"}, {"enum": ["b", "c"]}]},
    },
    "required": ["net", "items"],
    "additionalProperties": False,
    "$defs": {"item": {"type": "object", "properties": {"qty": {"type": ["integer", "null"]}}}},
}


def schema(inner: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": inner}}


def without(**changes: Any) -> dict[str, Any]:
    return schema({**WHOLE, "properties": {**WHOLE["properties"], **changes}})


FITS: list[tuple[Type, Any]] = [
    (StringType(), None),
    (StringType(), {"type": "text"}),
    (TOTALS, {"type": "json_object"}),
    (TOTALS, schema(WHOLE)),
    (TOTALS, schema({})),
    (TOTALS, schema({"$ref": "#"})),
    (TOTALS, schema({"$ref": "https://elsewhere/schema"})),
    (TOTALS, without(net=True)),
    (IntType(), schema({"type": "integer"})),
    (IntType(), schema({"type": "number"})),
    (BoolType(), schema({"type": ["boolean", "null"]})),
    (ListType(IntType()), schema({"type": "array"})),
]


@pytest.mark.parametrize(("result", "wanted"), FITS)
def test_a_format_that_can_be_had_is_accepted(result: Type, wanted: Any) -> None:
    check_format(wanted, result, "answer")


FAILS: list[tuple[Type, Any, str]] = [
    (IntType(), {"type": "json_object"}, "returns int"),
    (ListType(IntType()), {"type": "json_object"}, "returns list"),
    (StringType(), schema({"type": "string"}), "no JSON text"),
    (EnumType(("a",)), schema({"enum": ["a"]}), "no JSON text"),
    (PercentType(), schema({"type": "number"}), "no JSON text"),
    (DateType(), schema({"type": "string"}), "no JSON text"),
    (
        ListType(DatetimeType()),
        schema({"items": {"type": "number"}}),
        "wants number at [], the procedure gives datetime",
    ),
    (DecimalType(2), schema({"type": "integer"}), "wants integer, the procedure gives decimal"),
    (ListType(IntType()), schema({"items": False}), "nothing is allowed at []"),
    (TOTALS, schema({"type": "array"}), "wants array, the procedure gives record"),
    (TOTALS, schema({**WHOLE, "required": ["gross"]}), "requires 'gross'"),
    (TOTALS, schema({"properties": {}, "additionalProperties": False}), "does not allow 'net'"),
    (TOTALS, schema({"additionalProperties": {"type": "number"}}), "wants number at items"),
    (TOTALS, without(net={"type": "string"}), "wants string at net"),
    (TOTALS, without(net=False), "does not allow 'net'"),
    (
        TOTALS,
        without(items={"items": {"properties": {"qty": {"type": "string"}}}}),
        "wants string at items[].qty",
    ),
    (TOTALS, without(kind={"enum": ["x"]}), "none of 'a', 'b' is allowed at kind"),
    (TOTALS, without(kind={"const": "x"}), "none of 'a', 'b' is allowed at kind"),
    (TOTALS, without(kind={"oneOf": [{"type": "null"}, {"type": "number"}]}), "wants null at kind"),
    (TOTALS, schema({"allOf": [WHOLE, {"type": "string"}]}), "wants string"),
    (TOTALS, {"type": "grammar", "grammar": "root ::= x"}, "expected type text"),
    (TOTALS, {"type": "json_schema"}, "expected type text"),
    (TOTALS, "json", "expected type text"),
]


@pytest.mark.parametrize(("result", "wanted", "why"), FAILS)
def test_a_format_that_cannot_be_had_is_refused_with_the_reason(result: Type, wanted: Any, why: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_format(wanted, result, "answer")
    assert caught.value.param == "response_format"
    assert why in caught.value.message


def test_a_trace_is_not_json() -> None:
    with pytest.raises(RequestError, match="'both' is not JSON"):
        check_format({"type": "json_object"}, TOTALS, "both")
    check_format({"type": "text"}, TOTALS, "trace")


def test_a_schema_that_goes_round_in_circles_ends() -> None:
    check_format(schema({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}), TOTALS, "answer")


@pytest.mark.parametrize("key", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("result", [IntType(), TOTALS])
def test_a_schema_that_names_itself_over_and_over_is_judged_at_once(key: str, result: Type) -> None:
    parts = [{"$ref": "#"}, {"$ref": "#"}, {"$ref": "#/properties/net"}]
    check_format(schema({key: parts, "properties": {"net": {key: parts}}}), result, "answer")


def test_a_misfit_at_the_end_of_many_ways_is_found_at_once() -> None:
    ways = {str(i): {"anyOf": [{"$ref": f"#/ways/{i + 1}"}] * 2} for i in range(40)}
    with pytest.raises(RequestError, match="wants string, the procedure gives int"):
        check_format(
            schema({"$ref": "#/ways/0", "ways": {**ways, "40": {"type": "string"}}}), IntType(), "answer"
        )


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"type": [{}]}, "wants {}"),
        ({"type": {"a": []}}, "wants {'a': "),
        ({"type": "x" * 10_000}, "wants x{100}, the"),
        ({"required": [{}, [], None, "y" * 10_000]}, "requires 'y{100}', which"),
        ({"properties": {"kind": {"enum": [[], {}, "c"]}}}, "none of"),
    ],
)
def test_a_schema_that_is_none_is_a_misfit_like_any_other(wanted: Any, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        check_format(schema(wanted), TOTALS, "answer")


@pytest.mark.parametrize("wanted", [{"$ref": 3}, {"enum": 5, "required": 5, "properties": []}, {"allOf": {}}])
def test_what_is_no_schema_is_not_read(wanted: Any) -> None:
    check_format(schema(wanted), TOTALS, "answer")

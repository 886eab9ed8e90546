"""A compiled procedure as JSON: it is what the published schema says, and holds all of the procedure."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from guard.config.folder import Folder
from guard.procedure.interchange import compiled, schema
from guard.procedure.load import load
from guard.procedure.model import StepKind
from tests.strategies import Sample, samples

ROOT = Path(__file__).parents[2]
PUBLISHED: dict[str, Any] = json.loads((ROOT / "grammars/procedure.schema.json").read_text())
EXAMPLES = sorted((ROOT / "examples").rglob("*.proc"))
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "null": type(None),
}
READ = {
    *("$schema", "$defs", "$ref", "title", "description", "type", "properties", "required", "anyOf", "const"),
    *("additionalProperties", "items", "prefixItems", "minItems", "maxItems", "enum", "pattern"),
}


def fits(value: Any, rule: dict[str, Any]) -> bool:
    """Whether a value is valid, by the keywords that the schema has."""
    assert set(rule) <= READ
    if "$ref" in rule:
        return fits(value, PUBLISHED["$defs"][rule["$ref"].removeprefix("#/$defs/")])
    if "anyOf" in rule:
        return any(fits(value, part) for part in rule["anyOf"])
    if "const" in rule or "enum" in rule:
        return value in rule.get("enum", [rule.get("const")])
    kinds = [rule["type"]] if isinstance(rule["type"], str) else rule["type"]
    if not any(isinstance(value, TYPES[kind]) and (kind == "boolean" or value is not True) for kind in kinds):
        return False
    if isinstance(value, dict):
        known, others = rule.get("properties", {}), rule.get("additionalProperties", True)
        wrong = [name for name in value if name not in known and others is False]
        parts = [
            fits(part, known.get(name, others)) for name, part in value.items() if name in known or others
        ]
        return not wrong and all(parts) and set(rule.get("required", [])) <= set(value)
    if isinstance(value, list):
        rules = rule.get("prefixItems", [rule["items"]] * len(value) if "items" in rule else [])
        return len(rules) == len(value) and all(map(fits, value, rules))
    return re.search(rule.get("pattern", ""), str(value)) is not None


def test_the_published_schema_is_that_of_the_model() -> None:
    assert schema() == PUBLISHED, (
        "write it anew: python -c 'import json; from guard.procedure.interchange import schema; "
        "print(json.dumps(schema(), indent=2))' > grammars/procedure.schema.json"
    )


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_the_shipped_procedures_fit_the_schema(file: Path) -> None:
    library = load(file.read_text("utf-8"), str(file), files=Folder(file.parent))
    for program in library.procedures.values():
        data = json.loads(json.dumps(compiled(library.module, program)))
        assert fits(data, PUBLISHED)
        assert not fits({**data, "more": 1}, PUBLISHED)
        assert not fits({**data, "digest": 1}, PUBLISHED)


@settings(max_examples=30)
@given(samples())
def test_generated_procedures_fit_the_schema_and_keep_all_numbers(sample: Sample) -> None:
    data = json.loads(json.dumps(compiled(load(sample.text).module, sample.program)))
    assert fits(data, PUBLISHED)
    numbers = re.findall(r'"number": "([0-9.]+)"', json.dumps(data))
    kinds = sample.program.step_numbers
    carried = tuple(f"{number}." for number, kind in kinds.items() if kind is StepKind.DO)
    assert {number for number in kinds if not number.startswith(carried)} <= set(numbers)
    assert [callee["procedure"]["name"] for callee in data["callees"]] == ["helped"] * bool(carried)


def test_expressions_are_trees_and_numbers_are_exact() -> None:
    text = """
table fee(a: int) -> percent, first match
  1..9 => 12.5%
  any  => 0%

table unused(a: int) -> int, first match
  any => 1

procedure p(a: int) -> decimal(2)
  b = a * fee(a) + 0.10 to 2
  return b
"""
    library = load(text)
    data: Any = compiled(library.module, library.procedures["p"])
    step = data["procedure"]["body"][0]
    assert step["node"] == "Assign"
    assert step["expression"]["right"] == {
        "node": "Literal",
        "value": "0.1",
        "type": {"node": "DecimalType", "places": 2, "unit": None},
    }
    assert step["expression"]["left"]["op"] == "*"
    [table] = data["tables"]
    assert table["rows"][0]["cells"][0]["low"]["value"] == "1"
    assert table["rows"][0]["result"]["value"] == "0.125"
    assert data["variables"]["a"] == {"node": "IntType", "unit": None}

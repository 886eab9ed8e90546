"""Schemas of traces: valid, within what strict modes take, and the same to all who read them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.dialect.json_schema import MAX_CHARACTERS, json_schema
from guard.dialect.lark import Level, Narrowed
from guard.dialect.tree import Chars, Grammar, Literal, Node, Repeat, Rule, choice, sequence
from guard.wire.steps import Steps
from tests.dialect.engines import LLGuidance, XGrammar, validator
from tests.dialect.readers import behind, narrowed
from tests.dialect.shipped import shipped
from tests.dialect.test_dialect_properties import LEVELS
from tests.strategies import Sample, samples

pytestmark = pytest.mark.usefixtures("engines")
some = settings(max_examples=40, deadline=None)

ANY = {"type": "string"}


def made_of(sample: Sample, at: int, level: Level) -> tuple[Narrowed, dict[str, Any] | None, dict[str, str]]:
    """A schema behind some steps, and the faithful object."""
    made = narrowed(sample.program, sample.inputs, sample.steps, at, level=level)
    assert made.grammar is not None
    schema = json_schema(made.grammar)
    lines = [line for line in behind(sample.program, sample.steps, at, made).splitlines() if line[0] != "@"]
    return made, schema, {} if schema is None else dict(map(_cut, schema["properties"], lines))


def _cut(name: str, line: str) -> tuple[str, str]:
    assert line.startswith(name)
    return name, line.removeprefix(name)


def assert_strict(schema: dict[str, Any]) -> None:
    """What OpenAI's strict mode takes: one closed object of strings, all of them required."""
    assert set(schema) == {"type", "properties", "required", "additionalProperties"}
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema["required"] == list(schema["properties"])
    values = [*schema["properties"].values()]
    assert all(set(value) <= {"type", "enum", "pattern"} and value["type"] == "string" for value in values)
    choices = [choice for value in values for choice in value.get("enum", ())]
    assert len(values) <= 5_000
    assert len(choices) <= 1_000
    assert sum(map(len, (*schema["properties"], *choices))) <= 120_000


def assert_all_take(schema: dict[str, Any], wanted: dict[str, str], *, whole: bool) -> None:
    """Whether an object is one of a schema's, to a validator and to both engines."""
    text, said = json.dumps(schema, ensure_ascii=False), json.dumps(wanted, ensure_ascii=False)
    module = validator()
    module.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    assert module.Draft202012Validator(schema).is_valid(wanted) is whole
    assert LLGuidance.schema(text).reach(said)[1] is whole
    assert XGrammar.schema(text).reach(said)[1] is whole


@pytest.mark.parametrize("level", [Level.SHAPE, Level.OPERANDS, Level.VALUES])
@pytest.mark.parametrize("name", sorted(shipped()))
def test_the_faithful_object_of_a_shipped_procedure_is_taken_by_all(name: str, level: Level) -> None:
    sample = shipped()[name]
    for at in {0, len(sample.steps) // 2, len(sample.steps) - 1}:
        _, schema, wanted = made_of(sample, at, level)
        assert schema is not None
        assert_strict(schema)
        assert_all_take(schema, wanted, whole=True)


@some
@given(samples(shuffle=False), LEVELS, st.data())
def test_the_faithful_object_is_taken_by_all_and_is_the_trace(
    sample: Sample, level: Level, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(sample.steps) - 1))
    made, schema, wanted = made_of(sample, at, level)
    if schema is None:  # nothing is left but the frame
        assert made.complete
        return
    assert_strict(schema)
    assert_all_take(schema, wanted, whole=True)
    lines = behind(sample.program, sample.steps, at, made).splitlines(keepends=True)
    read = Steps()
    text = read.feed(json.dumps(wanted)) + read.close()
    assert text.rstrip("\n") == "".join(line for line in lines if line[0] != "@").rstrip("\n")


@some
@given(samples(shuffle=False), LEVELS, st.data())
def test_another_object_is_taken_by_none(sample: Sample, level: Level, data: st.DataObject) -> None:
    _, schema, wanted = made_of(sample, data.draw(st.integers(0, len(sample.steps) - 1)), level)
    if schema is None:
        return
    name = data.draw(st.sampled_from(list(wanted)))
    match data.draw(st.sampled_from(["less", "more", "wrong"])):
        case "less":
            del wanted[name]
        case "more":
            wanted["99 more = "] = "1"
        case _ if schema["properties"][name] == ANY:
            return
        case _:
            wanted[name] += "#"
    assert_all_take(schema, wanted, whole=False)


def of(*lines: Node) -> dict[str, Any] | None:
    names = [f"s{index}" for index, _ in enumerate(lines)]
    return json_schema(Grammar(sequence(*map(Rule, names)), dict(zip(names, lines, strict=True))))


@pytest.mark.parametrize("text", ['say "so"', "back\\slash", "a\ttab", "a\x7fb"])
def test_what_json_escapes_is_no_pattern(text: str) -> None:
    value = choice(Literal(text), Literal("2"))
    assert of(sequence(Literal("1 a = "), value, Literal("\n"))) == of(
        sequence(Literal("1 a = "), Repeat(Chars((), negated=True), 0, None), Literal("\n"))
    )
    made = of(Literal(f"1 a = {text.replace(' ', '')}\n"))
    assert made is not None
    assert made["properties"]["1 a = "] == {"type": "string", "enum": [text.replace(" ", "")]}


def test_more_than_strict_modes_take_is_no_schema() -> None:
    long = [Literal(f"{index} {'x' * (MAX_CHARACTERS // 10)} = 1\n") for index in range(1, 11)]
    assert of(*long) is None
    assert of(*long[:9]) is not None
    short = [Literal(f"{index} x = 1\n") for index in range(1, 1_002)]
    assert of(*short) is None
    made = of(*short[:-1])
    assert made is not None
    assert_strict(made)


def test_two_lines_of_one_beginning_are_no_schema() -> None:
    assert of(Literal("1 a = 1\n"), Literal("1 a = 2\n")) is None

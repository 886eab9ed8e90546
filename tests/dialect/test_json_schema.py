"""Schemas of traces: valid, within what strict modes take, and the same to all who read them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from guard.dialect.json_schema import MAX_CHARACTERS, MAX_VALUES, Patterns, json_schema
from guard.dialect.lark import Level, Narrowed
from guard.dialect.tree import Chars, Grammar, Literal, Node, Repeat, Rule, choice, sequence
from guard.wire.steps import Steps
from tests.dialect.engines import LLGuidance, XGrammar, validator
from tests.dialect.readers import behind, narrowed
from tests.dialect.shipped import shipped
from tests.dialect.test_dialect_properties import LEVELS, spoiled
from tests.strategies import Sample, samples

pytestmark = pytest.mark.usefixtures("engines")
some = settings(max_examples=40, deadline=None)

ANY = {"type": "string"}
DIGIT = Chars((("0", "9"),))
PATTERNS = st.sampled_from(Patterns)


def made_of(
    sample: Sample, at: int, level: Level, patterns: Patterns = Patterns.PLAIN
) -> tuple[Narrowed, dict[str, Any] | None, dict[str, str]]:
    """A schema behind some steps, and the faithful object."""
    made = narrowed(sample.program, sample.inputs, sample.steps, at, level=level)
    assert made.grammar is not None
    schema = json_schema(made.grammar, patterns)
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


def assert_all_take(
    schema: dict[str, Any],
    wanted: dict[str, str],
    *,
    whole: bool,
    patterns: Patterns = Patterns.PLAIN,
    ordered: bool = True,
) -> None:
    """Whether an object is one of a schema's, to a validator and to the engines that read such patterns so.

    Of members that are not `ordered` a validator has nothing to say.
    """
    text, said = json.dumps(schema, ensure_ascii=False), json.dumps(wanted, ensure_ascii=False)
    module = validator()
    module.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    assert not ordered or module.Draft202012Validator(schema).is_valid(wanted) is whole
    assert LLGuidance.schema(text).reach(said)[1] is whole
    assert patterns is Patterns.TEXT or XGrammar.schema(text).reach(said)[1] is whole


@pytest.mark.parametrize("patterns", Patterns)
@pytest.mark.parametrize("level", [Level.SHAPE, Level.OPERANDS, Level.VALUES])
@pytest.mark.parametrize("name", sorted(shipped()))
def test_the_faithful_object_of_a_shipped_procedure_is_taken_by_all(
    name: str, level: Level, patterns: Patterns
) -> None:
    sample = shipped()[name]
    for at in {0, len(sample.steps) // 2, len(sample.steps) - 1}:
        _, schema, wanted = made_of(sample, at, level, patterns)
        assert schema is not None
        assert_strict(schema)
        assert_all_take(schema, wanted, whole=True, patterns=patterns)


@some
@given(samples(shuffle=False), LEVELS, PATTERNS, st.data())
def test_the_faithful_object_is_taken_by_all_and_is_the_trace(
    sample: Sample, level: Level, patterns: Patterns, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(sample.steps) - 1))
    made, schema, wanted = made_of(sample, at, level, patterns)
    if schema is None:  # nothing is left but the frame
        assert made.complete
        return
    assert_strict(schema)
    assert_all_take(schema, wanted, whole=True, patterns=patterns)
    lines = behind(sample.program, sample.steps, at, made).splitlines(keepends=True)
    read = Steps()
    text = read.feed(json.dumps(wanted)) + read.close()
    assert text.rstrip("\n") == "".join(line for line in lines if line[0] != "@").rstrip("\n")


@some
@given(samples(shuffle=False), LEVELS, PATTERNS, st.data())
def test_another_object_is_taken_by_none(
    sample: Sample, level: Level, patterns: Patterns, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(sample.steps) - 1))
    _, schema, wanted = made_of(sample, at, level, patterns)
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
    assert_all_take(schema, wanted, whole=False, patterns=patterns)


def as_members(schema: dict[str, Any], lines: list[str]) -> list[tuple[str, str]]:
    """Lines as a model would write them that calls a member by the beginning of its line."""
    names = sorted(schema["properties"], key=len, reverse=True)
    found = [(next((name for name in names if line.startswith(name)), ""), line) for line in lines]
    return [(name or line.partition(" = ")[0], line.removeprefix(name)) for name, line in found]


def within(text: str) -> list[str]:
    """The lines in the frame, which is not the model's to write."""
    return [line for line in text.splitlines() if line.strip() and line[0] != "@"]


# What a departure may be at a level: what the checker is left with, where a server heeds patterns of text.
ALLOWED: dict[Level, set[str]] = {
    Level.SHAPE: {"wrong_value", "wrong_branch", "wrong_answer", "wrong_expression"},
    Level.OPERANDS: {"wrong_value", "wrong_branch", "wrong_answer"},
    Level.VALUES: set(),
}


@some
@given(samples(groups=False), LEVELS, PATTERNS, st.data())
def test_no_departure_is_taken_that_a_level_rules_out(
    sample: Sample, level: Level, patterns: Patterns, data: st.DataObject
) -> None:
    mutant, grammar, right, wrong = spoiled(data, sample, level)
    schema = json_schema(grammar, patterns)
    lines, faithful = within(wrong), within(right)
    assume(schema is not None and lines != faithful)
    assert schema is not None
    members = as_members(schema, lines)
    wanted = dict(members)
    if len(wanted) < len(members) or list(wanted) != [
        name for name in schema["properties"] if name in wanted
    ]:
        said = f"{{{', '.join(f'{json.dumps(name)}: {json.dumps(value)}' for name, value in members)}}}"
        text = json.dumps(schema, ensure_ascii=False)
        assert not LLGuidance.schema(text).reach(said)[1]
        assert patterns is Patterns.TEXT or not XGrammar.schema(text).reach(said)[1]
        return
    whole = validator().Draft202012Validator(schema).is_valid(wanted)
    assert_all_take(schema, wanted, whole=whole, patterns=patterns)
    if whole and patterns is Patterns.TEXT:
        assert mutant.kind in ALLOWED[level]


def test_a_shape_without_its_working_is_refused_where_patterns_are_of_text() -> None:
    sample = shipped()["payroll"]
    _, schema, wanted = made_of(sample, 0, Level.SHAPE, Patterns.TEXT)
    assert schema is not None
    for name, value in wanted.items():
        if " = " in value:
            for wrong in (
                value.rpartition(" = ")[2],
                f"{value}0.5.1",
                value.rpartition(" = ")[0],
                f"{value} so",
            ):
                assert_all_take(schema, {**wanted, name: wrong}, whole=False, patterns=Patterns.TEXT)


def none_of(*lines: Node) -> bool:
    names = [f"s{index}" for index, _ in enumerate(lines)]
    return json_schema(Grammar(sequence(*map(Rule, names)), dict(zip(names, lines, strict=True)))) is None


def of(*lines: Node, patterns: Patterns = Patterns.PLAIN) -> dict[str, Any]:
    names = [f"s{index}" for index, _ in enumerate(lines)]
    made = json_schema(Grammar(sequence(*map(Rule, names)), dict(zip(names, lines, strict=True))), patterns)
    assert made is not None
    return made


@pytest.mark.parametrize("text", ['say "so"', "back\\slash", "a\ttab", "a\x7fb"])
def test_what_json_escapes_is_no_pattern(text: str) -> None:
    value = sequence(Repeat(DIGIT, 0, None), Literal(text))
    assert of(sequence(Literal("1 a = "), value, Literal("\n"))) == of(
        sequence(Literal("1 a = "), Repeat(Chars((), negated=True), 0, None), Literal("\n"))
    )
    made = of(Literal(f"1 a = {text.replace(' ', '')}\n"))
    assert made["properties"]["1 a = "] == {"type": "string", "enum": [text.replace(" ", "")]}


def test_a_pattern_of_text_says_all_of_that() -> None:
    value = sequence(Literal('"'), Repeat(Chars((("\x00", "\x1f"),), negated=True), 1, 5), Literal('"'))
    line = sequence(Literal("1 a = "), value, Literal("\n"))
    for patterns in (Patterns.PLAIN, Patterns.NONE):
        assert of(line, patterns=patterns)["properties"] == {'1 a = "': ANY}
    made = of(line, patterns=Patterns.TEXT)
    for said, whole in (('say"', True), ('a\\"b"', True), ("say", False), ('\n"', False)):
        assert_all_take(made, {'1 a = "': said}, whole=whole, patterns=Patterns.TEXT)


def test_what_can_be_listed_is_for_every_server() -> None:
    kinds = choice(Literal('"gold"'), Literal('"si\\lver"'), Literal("null"))
    for patterns in Patterns:
        made = of(sequence(Literal("1 a = "), kinds, Literal("\n")), patterns=patterns)
        assert made["properties"]["1 a = "]["enum"] == ['"gold"', '"si\\lver"', "null"]
        assert_all_take(made, {"1 a = ": '"si\\lver"'}, whole=True)
        assert_all_take(made, {"1 a = ": "gold"}, whole=False)


def test_no_more_is_listed_than_strict_modes_take() -> None:
    many = choice(*(Literal(str(number)) for number in range(MAX_VALUES + 1)))
    made = of(sequence(Literal("1 a = "), many, Literal("\n")))
    assert "enum" not in made["properties"]["1 a = "]
    two = choice(Literal("true"), Literal("false"))
    for count in (1, 400, 500, 501, 1_000):
        lines = [sequence(Literal(f"{index} a = "), two, Literal("\n")) for index in range(1, count + 1)]
        assert_strict(of(*lines))


def test_more_than_strict_modes_take_is_no_schema() -> None:
    long = [Literal(f"{index} {'x' * (MAX_CHARACTERS // 10)} = 1\n") for index in range(1, 11)]
    assert none_of(*long)
    assert not none_of(*long[:9])
    short = [Literal(f"{index} x = 1\n") for index in range(1, 1_002)]
    assert none_of(*short)
    assert_strict(of(*short[:-1]))


def test_two_lines_of_one_beginning_are_no_schema() -> None:
    assert none_of(Literal("1 a = 1\n"), Literal("1 a = 2\n"))


@pytest.mark.parametrize("name", sorted(shipped()))
def test_what_a_loose_level_says_of_a_member_a_strict_one_says_too(name: str) -> None:
    for at in range(len(shipped()[name].steps)):
        said: set[str] = set()
        for level in (Level.SHAPE, Level.OPERANDS, Level.VALUES):
            _, schema, _ = made_of(shipped()[name], at, level, Patterns.TEXT)
            told = {} if schema is None else schema["properties"]
            numbers = {lead.split()[0]: value != ANY for lead, value in told.items()}
            assert all(numbers.get(number, True) for number in said), (at, level)
            said |= {number for number, more in numbers.items() if more}

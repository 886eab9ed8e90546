"""What a grammar lets a model write where a value may be null."""

from __future__ import annotations

import pytest

from guard.dialect.lark import Level
from guard.procedure.execute import reference
from guard.procedure.load import load
from guard.procedure.types import Value
from guard.trace import render
from tests.dialect.readers import Steps, assert_refuses_at, assert_takes, narrowed
from tests.strategies import NONCE

PROGRAM = load(
    "procedure p(note: text, fee: int?) -> { age: int?, sum: decimal }\n"
    "  extract age: int? from note quote\n"
    "  extract tags: (list of string)? from note\n"
    "  base = fee else 5\n"
    "  more = if age is null or age > 30 then base else fee\n"
    "  n = len(tags else [])\n"
    "  return { age: age, sum: (more else n) * 1.5 }\n"
).procedures["p"]
LEVELS = [Level.SHAPE, Level.OPERANDS, Level.VALUES]


def trace(decisions: dict[str, object]) -> tuple[dict[str, Value], Steps, str]:
    inputs = PROGRAM.accept({"note": "She is 31."})
    steps, _ = reference(PROGRAM, inputs, PROGRAM.decide(decisions))
    whole = render.trace(PROGRAM, steps, NONCE, {"1": ["She is 31"]} if decisions["age"] else None)
    return inputs, steps, whole


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("decided", [{"age": None, "tags": None}, {"age": 31, "tags": ["a"]}])
def test_a_faithful_trace_may_be_written_whether_a_value_is_there_or_not(
    level: Level, decided: dict[str, object]
) -> None:
    inputs, steps, whole = trace(decided)
    for at in (0, 1, 2, 4):
        made = narrowed(PROGRAM, inputs, steps, at, level=level, stop=False)
        assert_takes(made.grammar, "".join(whole.splitlines(keepends=True)[at + 1 if at else 0 :]))


@pytest.mark.parametrize("level", LEVELS)
def test_a_value_needs_its_quote_and_nothing_but_null_stands_for_none(level: Level) -> None:
    inputs, steps, whole = trace({"age": 31, "tags": None})
    made = narrowed(PROGRAM, inputs, steps, 0, level=level, stop=False)
    bare = whole.replace(' <- "She is 31"', "")
    assert_refuses_at(made.grammar, bare, bare.index("\n2 "))
    none = whole.replace("age = 31", "age = none")
    assert_refuses_at(made.grammar, none, none.index("one"))

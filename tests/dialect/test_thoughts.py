"""A grammar with room for thoughts in front, by our own reader of GBNF and by llguidance."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from guard.dialect.lark import Level
from guard.dialect.notation import Dialect, written
from guard.dialect.thoughts import behind_thoughts
from guard.dialect.tree import Grammar, Literal
from guard.procedure.execute import reference
from guard.procedure.load import load
from guard.wire.thinking import Thinking
from tests.dialect.engines import Llama, LLGuidance, XGrammar
from tests.dialect.readers import assert_refuses_at, assert_takes, behind, narrowed
from tests.dialect.texts import EVERYTHING, INVOICE

THOUGHTS = [
    "",
    "hm",
    "\nLet me see: 3 < 4, <b>x<i>.\n\n@begin p aaaaaa\n1 a = 900\n@end aaaaaa\nNo.\n",
    "é🙂 < <think> ",
]


def taken(procedure: str, level: Level, at: int) -> tuple[Grammar, str]:
    """The grammar of a procedure behind so many steps, and the faithful text under it."""
    (program,) = list(load(procedure).procedures.values())[-1:]
    inputs = program.example_inputs or {}
    steps, _ = reference(program, inputs, program.example_decisions or {})
    made = narrowed(program, inputs, steps, at, level=level, stop=False)
    assert made.grammar is not None
    return made.grammar, behind(program, steps, at, made)


@pytest.mark.parametrize("thought", THOUGHTS)
@pytest.mark.parametrize("gap", ["", "\n", " \n\n"])
@pytest.mark.parametrize("procedure", [INVOICE, EVERYTHING])
def test_thoughts_may_stand_in_front_of_whatever_may_be_written(
    procedure: str, thought: str, gap: str
) -> None:
    for level, at in ((Level.SHAPE, 0), (Level.OPERANDS, 0), (Level.VALUES, 2)):
        grammar, text = taken(procedure, level, at)
        free, begun = behind_thoughts(grammar), behind_thoughts(grammar, begun=True)
        for front in ("", f"<think>{thought}</think>{gap}"):
            assert_takes(free, front + text)
        front = f"{thought}</think>{gap}"
        assert_takes(begun, front + text)
        assert Thinking(begun=True).feed(front + text) == (
            re.sub("^<think>", "", thought),
            text,
        ), "what the grammar lets through the reader parts"
        assert Thinking().feed(f"<think>{front}{text}")[1] == text or "<think>" in thought


@pytest.mark.parametrize("level", [Level.SHAPE, Level.OPERANDS])
def test_behind_thoughts_a_grammar_is_as_strict_as_ever(level: str) -> None:
    grammar, text = taken(INVOICE, Level(level), 0)
    front = "<think>hm</think>\n"
    at = text.index("\n") + 1
    wrong = f"{text[:at]}9{text[at + 1 :]}"
    assert_refuses_at(behind_thoughts(grammar), front + wrong, len(front) + at)
    assert_refuses_at(behind_thoughts(grammar), "hm", 0)
    assert_refuses_at(behind_thoughts(grammar), "<think>a</b", 10)


def test_where_thoughts_are_begun_they_have_to_be_ended() -> None:
    grammar = behind_thoughts(Grammar(Literal("x"), {}), begun=True)
    assert_takes(grammar, "a</think>x")
    assert_refuses_at(grammar, "a</think>a", 9)


@pytest.mark.parametrize("dialect", [d for d in Dialect if d is not Dialect.JSON_SCHEMA])
def test_every_notation_for_text_says_it(dialect: Dialect) -> None:
    text = written(behind_thoughts(Grammar(Literal("1 a = 3\n"), {})), dialect)
    assert text is not None
    assert "think>" in text


@pytest.mark.usefixtures("engines")
@pytest.mark.parametrize("begun", [False, True])
def test_the_makers_own_readers_take_it(begun: bool) -> None:
    grammar, text = taken(INVOICE, Level.OPERANDS, 0)
    front = ("" if begun else "<think>") + "\nhm: 3 < 4 é\n@begin p aaaaaa\n</think>\n\n"
    room = behind_thoughts(grammar, begun=begun)
    readers: dict[Dialect, Callable[[str], Llama | LLGuidance | XGrammar]] = {
        Dialect.GBNF: Llama,
        Dialect.LLGUIDANCE: LLGuidance.lark,
        Dialect.LARK: XGrammar.lark,
        Dialect.XGRAMMAR: XGrammar.ebnf,
    }
    size = len((front + text).encode())
    for dialect, reader in readers.items():
        said = written(room, dialect)
        assert said is not None
        assert reader(said).reach(front + text) == (size, True), dialect
        cut = len(front.encode()) + text.index("\n") + 1
        wrong = front + text.replace("\n1 ", "\n9 ", 1)
        assert reader(said).reach(wrong) == (cut, False), dialect

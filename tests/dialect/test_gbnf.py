"""GBNF as llama.cpp takes it: by our own reader, and by llama.cpp itself with a real model."""

from __future__ import annotations

import asyncio
import re

import pytest

from guard.dialect.gbnf import gbnf
from guard.dialect.lark import Level
from guard.dialect.notation import Dialect
from guard.dialect.tree import (
    Chars,
    Grammar,
    Literal,
    Node,
    Repeat,
    Rule,
    Terminal,
    choice,
    optional,
    sequence,
)
from guard.errors import UpstreamStatusError
from guard.procedure.execute import reference
from guard.procedure.load import load
from guard.run.messages import Text
from guard.trace import render
from guard.upstream.local import LocalUpstream
from guard.upstream.model import resolve
from guard.upstream.proven import refused
from tests.dialect.gbnf_reader import Gbnf
from tests.dialect.readers import narrowed, under_gbnf, under_lark
from tests.dialect.texts import EVERYTHING, INVOICE
from tests.strategies import NONCE
from tests.upstream.servers import Call, opening

HOSTILE = 'a"b\\c\n\t\r[d]^-\x01\x7f\u2028\U0001f600é'


def written(node: Node, **rules: Node) -> str:
    return gbnf(Grammar(node, rules))


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (Literal('say "x" \\ \n'), r'root ::= "say \"x\" \\ \n"'),
        (Chars((("a", "z"), ("-", "-"), ("^", "^"), ("]", "]"))), r"root ::= [a-z\]\x2D\x5E]"),
        (Chars((("\x00", "\x1f"),), negated=True), r"root ::= [^\x00-\x1F]"),
        (choice(Literal("a"), sequence(Literal("b"), Rule("b"))), 'root ::= "a" | "b" b'),
        (optional(choice(Literal("a"), Literal("b"))), 'root ::= ("a" | "b")?'),
        (optional(Repeat(Literal("a"), 2, 3)), "root ::= again1?"),
        (Repeat(Literal("a"), 0, None), 'root ::= "a"*'),
        (Repeat(Literal("a"), 1, None), 'root ::= "a"+'),
        (Repeat(Literal("a"), 4, 4), 'root ::= "a"{4}'),
        (Repeat(Literal("a"), 2, None), 'root ::= "a"{2,}'),
        (sequence(Literal("a"), choice(Literal("b"), Literal("c"))), 'root ::= "a" ("b" | "c")'),
    ],
)
def test_each_part_has_its_spelling(node: Node, text: str) -> None:
    assert written(node, b=Literal("B")).splitlines()[0] == text


def test_what_is_repeated_is_a_rule_that_is_written_once() -> None:
    item = sequence(Literal(", "), Chars((("0", "9"),)))
    text = written(sequence(Repeat(item, 0, 9), Literal("."), Repeat(Repeat(item, 2, 2), 1, None)))
    assert text.splitlines() == [
        'root ::= again1{0,9} "." again2+',
        'again1 ::= ", " [0-9]',
        "again2 ::= again1{2}",
    ]


def test_what_may_be_repeated_or_not_be_there_is_read_by_all() -> None:
    for item in (Literal("ab"), Literal("a"), Chars((("a", "b"),))):
        text = written(sequence(optional(Repeat(item, 1, 8)), Literal("\n")))
        assert refused(Dialect.GBNF, text) == "", text
        assert Gbnf(text).matches("\n") == (1, True)


def test_a_terminal_is_written_once_however_often_it_is_used() -> None:
    digit = Terminal("digit", Chars((("0", "9"),)))
    text = written(sequence(digit, Literal("."), digit, Rule("more")), more=digit)
    assert text.splitlines() == ['root ::= digit "." digit more', "more ::= digit", "digit ::= [0-9]"]


def test_any_text_survives_as_a_literal_and_as_a_set() -> None:
    assert Gbnf(written(Literal(HOSTILE))).matches(HOSTILE) == (len(HOSTILE), True)
    anything = Chars(tuple((char, char) for char in HOSTILE))
    assert Gbnf(written(Repeat(anything, 0, None))).matches(HOSTILE) == (len(HOSTILE), True)
    assert Gbnf(written(anything)).matches("b") == (1, True)
    assert Gbnf(written(Chars(anything.ranges, negated=True))).matches("b") == (0, False)


@pytest.mark.parametrize("level", [Level.SHAPE, Level.OPERANDS, Level.VALUES])
@pytest.mark.parametrize("stop", [True, False])
def test_names_are_such_as_llama_cpp_takes(level: Level, stop: bool) -> None:
    program = load(EVERYTHING).procedures["every_thing"]
    inputs = program.example_inputs or {}
    grammar = narrowed(program, inputs, (), 0, level=level, stop=stop).grammar
    assert grammar is not None
    names = [line.partition(" ::= ")[0] for line in gbnf(grammar).splitlines()]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z][a-z0-9-]*", name) for name in names)


# --- llama.cpp itself ----------------------------------------------------------------------------


async def said(upstream: LocalUpstream, prefix: str, grammar: str, tokens: int, temperature: float) -> str:
    command = opening(prefix=prefix, grammar=grammar, model="", max_tokens=tokens, temperature=temperature)
    pieces = [piece async for piece in upstream.stream(command, client=Call())]
    return "".join(piece.text for piece in pieces if isinstance(piece, Text))


@pytest.mark.slow
@pytest.mark.local
def test_llama_cpp_takes_the_grammars_of_every_level_and_keeps_to_them() -> None:
    async def body() -> None:
        upstream = LocalUpstream("local", resolve(), threads=1, context=2048, slots=1)
        try:
            for text in (EVERYTHING, INVOICE):
                program = next(iter(load(text).procedures.values()))
                inputs, decisions = program.example_inputs or {}, program.example_decisions or {}
                steps, _ = reference(program, inputs, decisions)
                lines = render.trace(program, steps, NONCE).splitlines(keepends=True)
                for at in (0, 2, len(steps) // 2, len(steps) - 1):
                    tail = steps[at][0].path
                    for level in (Level.SHAPE, Level.OPERANDS, Level.VALUES):
                        for stop in (True, False):
                            made = narrowed(program, inputs, steps, at, level=level, stop=stop, tail=tail)
                            assert made.grammar is not None
                            prefix = "".join(lines[: at + 1]) + tail
                            heard = await said(upstream, prefix, gbnf(made.grammar), 40, 1.5)
                            count, _ = under_gbnf(made.grammar, heard)
                            assert count == len(heard), (level, at, stop, heard)
                            assert under_lark(made.grammar, heard)[0] == len(heard.encode())
                            assert level is Level.SHAPE or steps[at][0].decision or tail in made.given
        finally:
            await upstream.close()

    asyncio.run(asyncio.wait_for(body(), 240))


@pytest.mark.local
def test_llama_cpp_writes_a_grammar_without_holes_word_for_word() -> None:
    async def body() -> None:
        upstream = LocalUpstream("local", resolve(), threads=1, context=2048, slots=1)
        try:
            grammar = written(sequence(Rule("a"), Literal(HOSTILE), Rule("a")), a=Literal(" é\n"))
            assert await said(upstream, "x", grammar, 80, 1.0) == f" é\n{HOSTILE} é\n"
            with pytest.raises(UpstreamStatusError):
                await said(upstream, "x", 'root ::= "a" no_such_rule\n', 8, 1.0)
        finally:
            await upstream.close()

    asyncio.run(asyncio.wait_for(body(), 60))

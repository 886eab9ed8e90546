"""What the makers' own implementations take and refuse under our grammars, and what they write by them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.check.checker import Checker
from guard.check.verdict import Kind
from guard.dialect.lark import Level
from guard.dialect.notation import Dialect, written
from guard.dialect.tree import Chars, Grammar, Literal, Repeat, Rule, choice, sequence
from guard.trace import render
from guard.trace.events import Unreadable
from guard.trace.parser import Parser
from tests.dialect.engines import END, Llama, LLGuidance, XGrammar
from tests.dialect.readers import behind, narrowed, under_our_gbnf
from tests.dialect.shipped import shipped
from tests.dialect.test_dialect_properties import LEVELS, common, spoiled
from tests.strategies import NONCE, Sample, samples

pytestmark = pytest.mark.usefixtures("engines")
few = settings(max_examples=25, deadline=None)

READERS: Final[Sequence[tuple[Dialect, Callable[[str], Llama | LLGuidance | XGrammar]]]] = (
    (Dialect.GBNF, Llama),
    (Dialect.LLGUIDANCE, LLGuidance.lark),
    (Dialect.LARK, XGrammar.lark),
    (Dialect.XGRAMMAR, XGrammar.ebnf),
)
HOSTILE: Final = '\x01a\x7fF"b\u20289::=d\\c\n\t\r[d]^-\x01\x7f\x85\u2028\U0001f600é&&~~--||[[#/::=$%{1}'
NAME: Final = re.compile(r"^([^\s:]+)(?: ::=|:) ", re.MULTILINE)
MOST: Final = 500  # bytes that are written by a grammar
# What a model may still do wrong where a grammar is kept to.
LEFT: Final = {
    Level.SHAPE: {Kind.WRONG_EXPRESSION},
    Level.OPERANDS: set[Kind](),
    Level.VALUES: set[Kind](),
}
VALUES: Final = {Kind.WRONG_VALUE, Kind.WRONG_BRANCH, Kind.WRONG_ANSWER}
DECIDED: Final = {Kind.INADMISSIBLE_VALUE, Kind.UNGROUNDED_VALUE}


class Engines:
    """A grammar as each engine reads it."""

    def __init__(self, grammar: Grammar | None) -> None:
        assert grammar is not None
        self._engines: dict[str, Llama | LLGuidance | XGrammar] = {}
        for dialect, reader in READERS:
            said = written(grammar, dialect)
            assert said is not None
            assert all(name.isascii() for name in NAME.findall(said))
            self._engines[dialect] = reader(said)
            if dialect is Dialect.GBNF:
                LLGuidance.gbnf(said)  # can be read so; what it lexes is another grammar where texts are free

    def assert_take(self, text: str, count: int | None = None, *, whole: bool = True) -> None:
        """Each takes so many characters of a text: all, unless said; `whole`: nothing need follow."""
        wanted = (len(text[:count].encode()), whole)
        found = {name: engine.reach(text) for name, engine in self._engines.items()}
        assert found == dict.fromkeys(found, wanted)


# --- faithful and unfaithful texts ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("level", [Level.SHAPE, Level.OPERANDS, Level.VALUES])
@pytest.mark.parametrize("name", sorted(shipped()))
def test_the_rest_of_a_shipped_procedure_is_taken_by_all(name: str, level: Level) -> None:
    sample = shipped()[name]
    random = Random(f"{name} {level}")
    for at, stop in ((0, random.random() < 0.5), (random.randrange(len(sample.steps)), True)):
        tail = random.choice(["", render.stub(sample.steps[at][0])]) if at else ""
        made = narrowed(sample.program, sample.inputs, sample.steps, at, level=level, stop=stop, tail=tail)
        right = behind(sample.program, sample.steps, at, made, tail)
        assert made.grammar is not None
        engines = Engines(made.grammar)
        engines.assert_take(right)
        left = right[: right.index("\n") + 1] + right[right.index("\n", right.index("\n") + 1) + 1 :]
        for wrong in (right + "9 more = 1\n", left, right.replace("\n", "\n\n", 1), " " + right):
            if wrong not in right and right not in (wrong, left):
                count, whole = under_our_gbnf(made.grammar, wrong)
                assert not whole
                engines.assert_take(wrong, count, whole=False)


@few
@given(samples(shuffle=False), LEVELS, st.data())
def test_the_faithful_rest_is_taken_by_all(sample: Sample, level: Level, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(sample.steps) - 1))
    due = sample.steps[at][0]
    cell = data.draw(st.integers(0, len(due.cells) - 1))
    tail = data.draw(st.sampled_from(["", render.stub(due), render.scaffold(due, cell)]))
    stop = data.draw(st.booleans())
    made = narrowed(sample.program, sample.inputs, sample.steps, at, level=level, stop=stop, tail=tail)
    right = behind(sample.program, sample.steps, at, made, tail)
    Engines(made.grammar).assert_take(right)


@few
@given(samples(groups=False), LEVELS, st.data())
def test_a_mutant_is_refused_by_all_at_the_same_byte(
    sample: Sample, level: Level, data: st.DataObject
) -> None:
    mutant, grammar, right, wrong = spoiled(data, sample, level)
    count, whole = under_our_gbnf(grammar, wrong)
    Engines(grammar).assert_take(wrong, count, whole=whole)
    if level is Level.VALUES:
        assert (count, whole) == (common(right, wrong), False)
    elif mutant.name in {"left_out", "premature", "extra", "repeated"} or level is Level.OPERANDS:
        assert not whole or mutant.name == "wrong_value"


# --- what is written by a grammar ----------------------------------------------------------------


def masked(definition: str, random: Random) -> str:
    """A text that llguidance's masks allow."""
    engine = LLGuidance.lark(definition)
    text = bytearray()
    while len(text) < MOST and (allowed := engine.allowed()) != [END]:
        byte = next(byte for byte in wished(random) if byte in allowed)
        assert engine.take(byte), bytes(text)
        text.append(byte)
    return text.decode("utf-8", "ignore")


def tried(definition: str, random: Random) -> str:
    """A text that XGrammar takes byte by byte."""
    engine = XGrammar.ebnf(definition)
    text = bytearray()
    while len(text) < MOST and not engine.may_end:
        text.append(next(byte for byte in wished(random) if engine.take(byte)))
    return text.decode("utf-8", "ignore")


def wished(random: Random) -> list[int]:
    """All bytes in an order, those first that end something or are characters of their own."""
    ending, plain, others = list(b'\n"]}) '), list(range(0x21, 0x7F)), list(range(0x80, END))
    for some in (ending, plain, others):
        random.shuffle(some)
    return [*ending, *plain, *others] if random.random() < 0.3 else [*plain, *ending, *others]


@pytest.mark.parametrize("write", [masked, tried])
@few
@given(samples(groups=False), LEVELS, st.integers(0, 999), st.data())
def test_what_a_grammar_lets_be_written_departs_only_where_its_level_leaves_room(
    write: Callable[[str, Random], str],
    sample: Sample,
    level: Level,
    seed: int,
    data: st.DataObject,
) -> None:
    at = data.draw(st.integers(0, len(sample.steps) - 1))
    made = narrowed(sample.program, sample.inputs, sample.steps, at, level=level)
    assert made.grammar is not None
    dialect = Dialect.LLGUIDANCE if write is masked else Dialect.XGRAMMAR
    definition = written(made.grammar, dialect)
    assert definition is not None
    text = write(definition, Random(seed))
    assert under_our_gbnf(made.grammar, text)[0] == len(text)
    lines = text[: text.rfind("\n") + 1]
    assert not [event for event in Parser().feed(lines) if isinstance(event, Unreadable)]
    verified = "".join(sample.trace.splitlines(keepends=True)[: at + 1 if at else 0])
    checker = Checker(sample.program, sample.inputs, nonce=NONCE, verified=verified)
    checker.feed(lines)
    allowed = DECIDED | LEFT[level] | (VALUES if level is not Level.VALUES else set())
    assert checker.violation is None or checker.violation.kind in allowed, (text, checker.violation)


# --- notations -----------------------------------------------------------------------------------


def test_any_text_survives_as_a_literal_and_in_a_class() -> None:
    anything = Chars(tuple((char, char) for char in HOSTILE))
    grammar = Grammar(
        sequence(Rule("a"), Repeat(anything, 3, None), Literal("!"), Rule("a")),
        {"a": sequence(Literal(HOSTILE), choice(Literal(f"{HOSTILE}1"), Literal("2")), Literal("\n"))},
    )
    text = f"{HOSTILE}{HOSTILE}1\n{HOSTILE}!{HOSTILE}2\n"
    engines = Engines(grammar)
    engines.assert_take(text)
    for at in range(1, len(HOSTILE)):
        engines.assert_take(text[:at] + "\u03a9" + text[at:], at, whole=False)


@pytest.mark.parametrize("least", [0, 1, 999])
def test_what_no_range_names_is_refused(least: int) -> None:
    grammar = Grammar(
        sequence(
            Literal("x"),
            Repeat(Chars((("\x00", "\x1f"), ('"', '"'), ("~", "~")), negated=True), least, 1_000),
        ),
        {},
    )
    text = "x" + "é\u2028" * 500
    engines = Engines(grammar)
    engines.assert_take(text)
    engines.assert_take(text + "a", len(text), whole=False)
    engines.assert_take("x~", 1, whole=False)

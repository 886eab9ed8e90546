"""Traces as one regular expression, to engines of four kinds."""

from __future__ import annotations

import re
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.dialect.lark import Level, lark_text
from guard.dialect.patterns import DEFINES
from guard.dialect.quotes import MAX_WORDS, quotes
from guard.dialect.regex import MAX_DEPTH, MAX_SIZE, MAX_TIMES, regex
from guard.dialect.tree import Chars, Grammar, Literal, Node, Repeat, Rule, choice, sequence
from guard.procedure.execute import reference
from guard.procedure.load import load
from guard.procedure.types import Value
from tests.dialect.engines import LLGuidance, XGrammar, re2
from tests.dialect.readers import behind, narrowed, under_gbnf
from tests.dialect.shipped import shipped
from tests.dialect.test_dialect_properties import LEVELS, spoiled
from tests.strategies import Sample, samples

pytestmark = pytest.mark.usefixtures("engines")
some = settings(max_examples=40, deadline=None)

HOSTILE = '\x01a\x7fF"b\u20289::=d\\c\n\t\r[d]^-\x01\x7f\x85\u2028\U0001f600é&&~~--||[[#/::=$%{1}(?<=x)\\1'
ESCAPED = re.compile(r"\\([^A-Za-z0-9]|[nrt]|x[0-9a-f]{2})")
AROUND = re.compile(r"\(\?|\\")


def takes(expression: str, text: str) -> bool:
    """Whether a text is matched as a whole, by Python, RE2, Rust and XGrammar, which say the same."""
    assert not AROUND.search(ESCAPED.sub("", expression))
    found = {
        "Python": re.fullmatch(expression, text) is not None,
        "RE2": re2().fullmatch(expression, text) is not None,
        "Rust": LLGuidance.regex(expression).reach(text)[1],
        "XGrammar": XGrammar.regex(expression).reach(text)[1],
    }
    assert len(set(found.values())) == 1, found
    return found["Python"]


@pytest.mark.parametrize("level", [Level.SHAPE, Level.OPERANDS, Level.VALUES])
@pytest.mark.parametrize("name", sorted(shipped()))
def test_the_rest_of_a_shipped_procedure_is_taken_by_all(name: str, level: Level) -> None:
    sample = shipped()[name]
    for at in {0, len(sample.steps) // 2}:
        made = narrowed(sample.program, sample.inputs, sample.steps, at, level=level)
        assert made.grammar is not None
        expression = regex(made.grammar)
        if expression is None:  # as long as that
            assert len(made.grammar.rules) > 50
            continue
        right = behind(sample.program, sample.steps, at, made)
        assert takes(expression, right)
        assert not takes(expression, right + right)
        assert not takes(expression, right[:-1])


@some
@given(samples(groups=False), LEVELS, st.data())
def test_a_mutant_is_taken_where_the_grammar_takes_it(
    sample: Sample, level: Level, data: st.DataObject
) -> None:
    _, grammar, right, wrong = spoiled(data, sample, level)
    expression = regex(grammar)
    assert expression is not None
    assert takes(expression, right)
    if under_gbnf(grammar, wrong)[1]:
        assert takes(expression, wrong)
    elif level is not Level.SHAPE:  # there a working is any text
        assert not takes(expression, wrong)


OPEN_GROUP: Final = """
procedure p(x: int, xs: list of int, note: text) -> int
  extract b: int from note where b < 90
  {around}any order
  {indent}  c = x + 2
  {indent}  if b > 3
  {indent}    d = x + 3
  return b
"""


@pytest.mark.parametrize("around", ["", "for e in xs at most 2\n    "])
@pytest.mark.parametrize("level", [Level.SHAPE, Level.OPERANDS, Level.VALUES])
def test_what_follows_in_a_group_may_depend_on_a_decision(level: Level, around: str) -> None:
    """The lines of the other members are those of the request, whatever has been written for others before."""
    [program] = load(OPEN_GROUP.format(around=around, indent="  " * bool(around))).procedures.values()
    for x in (2, 7):
        inputs: dict[str, Value] = {"x": x, "xs": (1,), "note": "It was 5."}
        steps, _ = reference(program, inputs, {"b": 5})
        made = narrowed(program, inputs, steps, 0, level=level, stop=False)
        assert made.grammar is not None
        expression = regex(made.grammar)
        if expression is None:
            assert around, "loops refer to themselves"
            continue
        right = behind(program, steps, 0, made)
        assert takes(expression, right)
        wrong = right.replace(f"{x} + 2", f"{x + 1} + 2")
        assert level is Level.SHAPE or not takes(expression, wrong)


@some
@given(samples(), LEVELS, st.data())
def test_the_rest_of_any_procedure_is_taken_or_too_long(
    sample: Sample, level: Level, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(sample.steps)))
    made = narrowed(sample.program, sample.inputs, sample.steps, at, level=level, stop=False)
    if made.grammar is not None:
        expression = regex(made.grammar)
        assert expression is None or takes(expression, behind(sample.program, sample.steps, at, made))


@pytest.mark.parametrize("at", range(len(HOSTILE)))
def test_any_character_survives_as_text_and_in_a_class(at: int) -> None:
    char = HOSTILE[at]
    alone = Chars(((char, char),))
    same = Chars(((char, char), ("~", "~"), ("&", "&")))
    not_any = sequence(Chars(same.ranges, negated=True), Repeat(Chars(alone.ranges, negated=True), 0, 1))
    node = sequence(Literal(HOSTILE), choice(alone, same, Literal("Ω")), not_any)
    expression = regex(Grammar(node, {}))
    assert expression is not None
    assert takes(expression, f"{HOSTILE}{char}Ω")
    assert takes(expression, f"{HOSTILE}&z")
    assert not takes(expression, f"{HOSTILE}z{char}")
    assert not takes(expression, f"{HOSTILE[:at]}Ω{HOSTILE[at + 1 :]}{char}Ω")


@pytest.mark.parametrize("inner", [1, 3, 1_000, 5_000])
@pytest.mark.parametrize("outer", [1, 400, 2_000])
def test_a_repetition_is_bounded_where_all_engines_can(inner: int, outer: int) -> None:
    word = sequence(Repeat(Chars((("a", "b"),)), 1, inner), Literal("."))
    expression = regex(Grammar(Repeat(word, 1, outer), {}))
    assert expression is not None
    assert takes(expression, "a." * outer)
    bounded = outer * (inner if inner <= MAX_TIMES else 1) <= MAX_TIMES
    assert takes(expression, "a." * (outer + 1)) is not bounded


def test_a_repetition_that_would_be_too_long_written_out_has_no_bound() -> None:
    text = "x" * 500
    for most in (MAX_SIZE // 500, MAX_SIZE // 500 + 1):
        expression = regex(Grammar(Repeat(Literal(text), 0, most), {}))
        assert expression == (f"({text}){{0,{most}}}" if most * 500 <= MAX_SIZE else f"({text})*")


def test_the_sign_by_which_readers_know_ebnf_never_stands_there() -> None:
    grammar = Grammar(sequence(Literal("a::=b::"), Rule("rest")), {"rest": Literal("=c")})
    expression = regex(grammar)
    assert expression is not None
    assert DEFINES not in expression
    assert takes(expression, "a::=b::=c")
    assert DEFINES not in lark_text(grammar)


@pytest.mark.parametrize("node", [Literal("a" * 20), Rule("long"), sequence(Rule("long"), Literal(""))])
def test_an_expression_longer_than_it_may_be_is_none(node: Node) -> None:
    grammar = Grammar(node, {"long": Literal("a" * 20)})
    assert regex(grammar, most=20) == "a" * 20
    assert regex(grammar, most=19) is None


def test_what_refers_to_itself_is_no_expression() -> None:
    loop: Node = choice(Literal("."), sequence(Literal("a"), Rule("t1")))
    assert regex(Grammar(Rule("t1"), {"t1": loop})) is None


@pytest.mark.parametrize("words", [3, 60, 200, MAX_WORDS])
def test_a_quote_of_a_source_of_many_words_is_an_expression(words: int) -> None:
    rules: dict[str, Node] = {}
    quote = quotes(["a " * words], rules, most=1)
    expression = regex(Grammar(quote, rules))
    assert expression is not None
    assert takes(expression, ' <- "a a"')
    assert not takes(expression, ' <- "a a')


def test_quotes_are_any_text_where_they_would_make_an_expression_too_long() -> None:
    rules: dict[str, Node] = {}
    source = " ".join(f"word{at}" for at in range(20))
    quote = quotes([source], rules, most=1)
    for most, other in ((5_000, False), (1_000, True)):
        expression = regex(Grammar(sequence(Literal("7"), quote), rules), most=most)
        assert expression is not None
        assert takes(expression, '7 <- "word1 word2"')
        assert takes(expression, '7 <- "word2 word1"') is other
        assert not takes(expression, '8 <- "word1 word2"')


def test_as_many_rules_may_refer_to_each_other_as_there_are() -> None:
    rules: dict[str, Node] = {f"t{at}": sequence(Literal("a"), Rule(f"t{at + 1}")) for at in range(5_000)}
    assert regex(Grammar(Rule("t0"), {**rules, "t5000": Literal("b")})) == "a" * 5_000 + "b"
    assert regex(Grammar(Rule("t0"), {**rules, "t5000": choice(Literal("b"), Rule("t0"))})) is None


def test_brackets_stand_in_each_other_as_deep_as_all_engines_take() -> None:
    node: Node = Literal("b")
    for _ in range(MAX_DEPTH):
        node = sequence(Literal("a"), Repeat(node, 0, 1))
    expression = regex(Grammar(node, {}))
    assert expression is not None
    assert takes(expression, "a" * MAX_DEPTH + "b")
    assert regex(Grammar(sequence(Literal("a"), Repeat(node, 0, 1)), {})) is None


def test_a_long_source_is_quoted_freely() -> None:
    sample = shipped()["invoice"]
    note = " ".join(f"word{at}" for at in range(500))
    inputs = {**sample.inputs, **dict.fromkeys(sample.program.sources, note)}
    made = narrowed(sample.program, inputs, (), 0)
    assert made.grammar is not None
    expression = regex(made.grammar)
    assert expression is not None
    assert "word1" not in expression

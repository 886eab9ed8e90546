"""What begins as a grammar writes: the same as a real implementation takes, character by character."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.dialect.begin import MAX_WORK, Reading
from guard.dialect.lark import Level
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
from guard.trace import render
from tests.dialect.readers import behind, narrowed, under_gbnf, under_lark
from tests.strategies import Sample, mutants, samples

LEVELS = st.sampled_from([Level.SHAPE, Level.OPERANDS, Level.VALUES])
some = settings(max_examples=60, deadline=None)
DIGIT = Chars((("0", "9"),))


def begins(grammar: Grammar, text: str, *, work: int = MAX_WORK) -> bool:
    """Whether something that may be written under the grammar begins with the text."""
    return Reading(grammar).feed(text, work=work)


@some
@given(samples(shuffle=False), LEVELS, st.booleans(), st.data())
def test_what_another_reader_takes_begins_so_and_nothing_else(
    sample: Sample, level: Level, stop: bool, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(sample.steps) - 1))
    tail = data.draw(st.sampled_from(["", render.stub(sample.steps[at][0])]))
    made = narrowed(sample.program, sample.inputs, sample.steps, at, level=level, stop=stop, tail=tail)
    text = behind(sample.program, sample.steps, at, made, tail)
    place = data.draw(st.integers(0, len(text) - 1))
    char = data.draw(st.sampled_from('0 7.-=("\\\naé%)]{t'))
    broken = text[:place] + char + text[place + data.draw(st.integers(0, 1)) :]
    assert made.grammar is not None
    assert begins(made.grammar, text)
    count, _ = under_lark(made.grammar, broken)
    taken = broken.encode()[:count].decode(errors="ignore")
    assert begins(made.grammar, taken)
    assert begins(made.grammar, broken, work=10**9) is (taken == broken)


@some
@given(samples(), LEVELS, st.data())
def test_mutants_begin_so_as_far_as_another_reader_takes_them(
    sample: Sample, level: Level, data: st.DataObject
) -> None:
    mutant = data.draw(mutants(sample))
    made = narrowed(sample.program, sample.inputs, (), 0, level=level, stop=data.draw(st.booleans()))
    assert made.grammar is not None
    count, _ = under_gbnf(made.grammar, mutant.text)
    assert begins(made.grammar, mutant.text[:count])
    assert begins(made.grammar, mutant.text, work=10**9) is (count == len(mutant.text))


@some
@given(samples(), LEVELS, st.booleans(), st.data())
def test_it_is_the_same_in_whatever_pieces_and_ends_where_another_reader_ends(
    sample: Sample, level: Level, stop: bool, data: st.DataObject
) -> None:
    made = narrowed(sample.program, sample.inputs, sample.steps, 0, level=level, stop=stop)
    text = behind(sample.program, sample.steps, 0, made)
    place = data.draw(st.integers(0, len(text)))
    text = text[:place] + data.draw(st.sampled_from(["", "", "7", " ", "="])) + text[place:]
    text = text[: data.draw(st.integers(len(text) // 2, len(text)))]
    assert made.grammar is not None
    size = data.draw(st.sampled_from([1, 2, 5, 30]))
    reading = Reading(made.grammar)
    found = [reading.feed(text[at : at + size], work=10**9) for at in range(0, len(text), size)]
    assert all(found) is begins(made.grammar, text, work=10**9)
    assert reading.may_end is under_lark(made.grammar, text)[1]


@pytest.mark.parametrize(
    ("node", "taken", "refused"),
    [
        (Literal("abc"), ["", "a", "abc"], ["b", "abcd"]),
        (Repeat(DIGIT, 2, 3), ["1", "12", "123"], ["1234", "1a", "a"]),
        (sequence(Repeat(DIGIT, 0, None), Literal("x")), ["x", "12", "12x"], ["xx", "1y"]),
        (Repeat(choice(Literal("ab"), Literal("c")), 1, 2), ["a", "abab", "cab"], ["ababc", "b", "aa"]),
        (sequence(optional(Literal("a")), Literal("b")), ["a", "ab", "b"], ["ba", "aa"]),
        (Repeat(optional(Literal("a")), 0, None), ["", "aaaa"], ["b", "ab"]),
        (sequence(Repeat(Literal("a"), 2, None), Literal("b")), ["aa", "aaab"], ["ab", "b"]),
        (
            choice(
                *(Literal(""), Literal("a"), Terminal("t", sequence(Literal("a"), DIGIT))),
                *(sequence(optional(Literal("b")), Literal("c")), sequence(Literal("bd"), Literal(""))),
            ),
            ["", "a", "a7", "b", "bc", "c", "bd"],
            ["ab", "7", "bb", "cb", "d"],
        ),
        (Rule("more"), ["x" * 5_000, "x" * 5_000 + "y"], ["x" * 5_000 + "z", "yx"]),
    ],
)
def test_parts_begin_so(node: Node, taken: list[str], refused: list[str]) -> None:
    rules: dict[str, Node] = {"more": choice(sequence(Literal("x"), Rule("more")), Literal("y"))}
    grammar = Grammar(node, rules)
    assert [text for text in taken if not begins(grammar, text)] == []
    assert [text for text in refused if begins(grammar, text)] == []


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(("text", "taken"), [("123x", True), ("12x", False), ("1234", False)])
def test_bounds_hold_in_whatever_pieces(text: str, taken: bool, size: int) -> None:
    reading = Reading(Grammar(sequence(Repeat(DIGIT, 3, 3), Literal("x")), {}))
    assert all(reading.feed(text[at : at + size]) for at in range(0, len(text), size)) is taken


@pytest.mark.parametrize("item", [Literal("7"), DIGIT])
@pytest.mark.parametrize(("text", "may"), [("", False), ("7", False), ("77", True), ("777", True)])
def test_it_may_end_where_all_is_there(item: Node, text: str, may: bool) -> None:
    reading = Reading(Grammar(Repeat(item, 2, 3), {}))
    reading.feed(text)
    assert reading.may_end is may


def test_what_would_take_too_long_to_know_is_taken_to() -> None:
    deep: Node = Literal("b")
    for _ in range(12):
        deep = choice(sequence(Repeat(Literal("a"), 0, 30), deep), sequence(Literal("a"), deep))
    assert not begins(Grammar(deep, {}), "a" * 60 + "c", work=10**9)
    assert begins(Grammar(deep, {}), "a" * 60 + "c", work=100)

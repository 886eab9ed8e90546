"""What holds of narrowed grammars whatever the procedure, the level and the point of resumption."""

from __future__ import annotations

from itertools import takewhile

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from guard.dialect.lark import Level
from guard.dialect.tree import Grammar
from guard.trace import render
from tests.dialect.readers import assert_takes, behind, narrowed, under_gbnf, under_lark
from tests.faults.faithful import Mutant
from tests.strategies import Sample, mutants, samples

LEVELS = st.sampled_from([Level.SHAPE, Level.OPERANDS, Level.VALUES])
some = settings(max_examples=40, deadline=None)


def past_decisions(sample: Sample) -> int:
    """The number of steps up to the last one that the model decides."""
    decided = [index for index, (step, _) in enumerate(sample.steps) if step.decision is not None]
    return decided[-1] + 1 if decided else 0


def spoiled(data: st.DataObject, sample: Sample, level: Level) -> tuple[Mutant, Grammar, str, str]:
    """Spoil a trace behind its last decision; give the grammar of that rest, the rest and the spoiled one."""
    mutant = data.draw(mutants(sample))
    at = past_decisions(sample)
    made = narrowed(sample.program, sample.inputs, sample.steps, at, level=level)
    right = behind(sample.program, sample.steps, at, made)
    start = sample.trace.index(right)
    wrong = mutant.text[start:]
    assume(mutant.text[:start] == sample.trace[:start] and wrong != right)
    assert made.grammar is not None
    return mutant, made.grammar, right, wrong


def common(left: str, right: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))


@some
@given(samples(shuffle=False), LEVELS, st.data())
def test_the_faithful_rest_may_be_written_from_every_step_on(
    sample: Sample, level: Level, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(sample.steps) - 1))
    tail = data.draw(st.sampled_from(["", render.stub(sample.steps[at][0])]))
    stop = data.draw(st.booleans())
    made = narrowed(sample.program, sample.inputs, sample.steps, at, level=level, stop=stop, tail=tail)
    assert_takes(made.grammar, behind(sample.program, sample.steps, at, made, tail))


@some
@given(samples(shuffle=False), LEVELS, st.data())
def test_the_faithful_rest_may_be_written_behind_every_scaffold(
    sample: Sample, level: Level, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(sample.steps) - 1))
    due = sample.steps[at][0]
    cell = data.draw(st.integers(0, len(due.cells) - 1))
    tail = render.scaffold(due, cell)
    made = narrowed(sample.program, sample.inputs, sample.steps, at, level=level, tail=tail)
    assert_takes(made.grammar, behind(sample.program, sample.steps, at, made, tail))
    assert due.cells[cell].working is None or due.path in made.given


@some
@given(samples(groups=False), st.data())
def test_at_level_values_nothing_but_the_faithful_rest_may_be_written(
    sample: Sample, data: st.DataObject
) -> None:
    _, grammar, right, wrong = spoiled(data, sample, Level.VALUES)
    at_most = common(right, wrong)
    assert under_gbnf(grammar, wrong) == (at_most, False)
    assert under_lark(grammar, wrong) == (len(wrong[:at_most].encode()), False)


@some
@given(samples(groups=False), st.data())
def test_with_given_operands_only_values_can_be_wrong(sample: Sample, data: st.DataObject) -> None:
    mutant, grammar, right, wrong = spoiled(data, sample, Level.OPERANDS)
    count, whole = under_gbnf(grammar, wrong)
    assert under_lark(grammar, wrong) == (len(wrong[:count].encode()), whole)
    if mutant.name == "wrong_value":
        assert whole or count >= common(right, wrong)
    else:
        assert not whole
        line_end = wrong.find("\n", common(right, wrong))
        assert common(right, wrong) <= count <= (line_end if line_end >= 0 else len(wrong))


@some
@given(samples(shuffle=False), LEVELS, st.booleans())
def test_a_grammar_stays_as_long_as_the_procedure_and_its_text(
    sample: Sample, level: Level, stop: bool
) -> None:
    made = narrowed(sample.program, sample.inputs, (), 0, level=level, stop=stop)
    assert made.grammar is not None
    statements = len(sample.program.step_numbers)
    lines = sum(1 for name in made.grammar.rules if name.startswith(("s", "t")) and name[1].isdigit())
    assert lines <= 400 + 8 * statements + 60


@some
@given(samples(shuffle=False), st.data())
def test_both_notations_say_the_same(sample: Sample, data: st.DataObject) -> None:
    level = data.draw(LEVELS)
    at = data.draw(st.integers(0, len(sample.steps) - 1))
    made = narrowed(
        sample.program, sample.inputs, sample.steps, at, level=level, stop=data.draw(st.booleans())
    )
    text = behind(sample.program, sample.steps, at, made)
    place = data.draw(st.integers(0, len(text) - 1))
    char = data.draw(st.sampled_from('0 7.-=("\\\naé%)]{t'))
    broken = text[:place] + char + text[place + data.draw(st.integers(0, 1)) :]
    assert made.grammar is not None
    count, whole = under_gbnf(made.grammar, broken)
    assert under_lark(made.grammar, broken) == (len(broken[:count].encode()), whole)


@some
@given(samples(grouped=True), LEVELS, st.data())
def test_members_of_a_group_may_be_written_in_every_order(
    sample: Sample, level: Level, data: st.DataObject
) -> None:
    assert sample.program.members
    at = data.draw(st.integers(0, len(sample.steps) - 1))
    tail = data.draw(st.sampled_from(["", render.stub(sample.steps[at][0])]))
    made = narrowed(sample.program, sample.inputs, sample.steps, at, level=level, stop=False, tail=tail)
    assert_takes(made.grammar, behind(sample.program, sample.steps, at, made, tail))

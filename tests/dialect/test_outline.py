"""What may follow is made once for a procedure, and kept as long as that."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from guard.dialect.lark import Level, narrow
from guard.dialect.notation import Dialect, written
from guard.dialect.outline import MOST_KEPT, outline
from guard.dialect.tree import Grammar
from guard.procedure.execute import Program
from guard.procedure.load import load
from tests.dialect.shipped import shipped
from tests.dialect.test_dialect_properties import LEVELS
from tests.strategies import NONCE, Sample, samples


def branching(steps: int = 12) -> Program:
    lines = [f"  s{index} = s{index - 1} + 1" for index in range(1, steps)]
    text = "\n".join(
        [
            "procedure p(note: text) -> int",
            '  judge s0: int from note asking "How many?"',
            "  if s0 > 3",
            "    check s0 < 9",
            *lines,
            f"  return s{steps - 1}",
            "",
        ]
    )
    return load(text).procedures["p"]


def opened(program: Program, note: str, nonce: str) -> Grammar:
    inputs = program.accept({"note": note})
    made = narrow(program, inputs, (), level=Level.OPERANDS, nonce=nonce, stop_at_decision=False)
    assert made.grammar is not None
    return made.grammar


def unkept(grammar: Grammar, dialect: Dialect) -> str | None:
    """Write a grammar without anything that was made before, but for workings."""
    return written(replace(grammar, kept=()), dialect)


def test_requests_share_what_follows_and_have_their_own_inputs_and_closing_line() -> None:
    program = branching()
    first, second = opened(program, "Four.", NONCE), opened(program, "Say 7.", "a1b2c3")
    assert first.kept == second.kept != ()
    for dialect in Dialect:
        texts = written(first, dialect), written(second, dialect)
        assert texts == (unkept(first, dialect), unkept(second, dialect))
        assert texts[0] != texts[1] or dialect is Dialect.JSON_SCHEMA
        assert "a1b2c3" not in (texts[0] or "")


@settings(max_examples=40, deadline=None)
@given(samples(shuffle=False), LEVELS, st.data())
def test_what_is_kept_is_what_would_be_written_now(sample: Sample, level: Level, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(sample.steps) - 1))
    observed = [value if step.decision is not None else None for step, value in sample.steps[:at]]
    for nonce in (NONCE, "a1b2c3"):
        made = narrow(
            sample.program, sample.inputs, observed, level=level, nonce=nonce, stop_at_decision=False
        )
        assert made.grammar is not None
        for dialect in Dialect:
            assert written(made.grammar, dialect) == unkept(made.grammar, dialect)


def test_the_same_holds_of_shipped_procedures() -> None:
    for sample in shipped().values():
        made = narrow(
            sample.program, sample.inputs, (), level=Level.SHAPE, nonce=NONCE, stop_at_decision=False
        )
        assert made.grammar is not None
        for dialect in Dialect:
            assert written(made.grammar, dialect) == unkept(made.grammar, dialect)


def test_few_are_kept_those_that_were_asked_for_last() -> None:
    program = branching()
    first, second = outline(program, "2"), outline(program, "3")
    for step in range(4, 4 + MOST_KEPT):
        assert outline(program, str(step)) is outline(program, str(step))
        assert outline(program, "2") is first
    assert outline(program, "3") is not second


def test_what_is_kept_goes_with_its_procedure() -> None:
    program = branching()
    opened(program, "Four.", NONCE)
    gone = weakref.ref(program)
    del program
    gc.collect()
    assert gone() is None

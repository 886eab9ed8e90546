"""Procedures that keep lists come to what is right in another way too, and every fault in their traces is found."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.check.checker import Checker
from guard.check.verdict import Verdict
from guard.procedure.values import to_json
from tests.corpus.faults import disagreement
from tests.corpus.lists import KEPT, kept
from tests.faults.faithful import NONCE
from tests.faults.injectors import injected, right

some = settings(max_examples=40)


@pytest.mark.parametrize("name", KEPT)
@some
@given(st.data())
def test_the_answer_is_right_and_the_trace_passes(name: str, data: st.DataObject) -> None:
    inputs = data.draw(KEPT[name].inputs)
    sample = kept(name, inputs)
    answer = json.loads(json.dumps(to_json(sample.ending.value, sample.program.result)))  # type: ignore[arg-type]
    assert answer == KEPT[name].answer(inputs)
    checker = Checker(sample.program, sample.inputs, nonce=NONCE)
    checker.feed(sample.trace)
    assert checker.verdict is Verdict.PASSED


@pytest.mark.parametrize("name", KEPT)
@some
@given(st.data())
def test_any_fault_in_the_trace_is_found(name: str, data: st.DataObject) -> None:
    sample = kept(name, data.draw(KEPT[name].inputs))
    index = data.draw(st.integers(0, len(sample.steps) - 1))
    mutant = data.draw(st.sampled_from(list(injected(sample, index))))
    assert right(sample, mutant), disagreement(sample, mutant)

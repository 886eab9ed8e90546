"""The first wrong step is found exactly: of every injected fault its kind, its step and its place."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.check.checker import Checker
from guard.check.verdict import Verdict
from tests.corpus.chains import LENGTHS, LOOK_BACKS, chain, chain_text, chains
from tests.corpus.faults import KINDS, disagreement, every
from tests.corpus.problems import FOLDER
from tests.corpus.sources import SOURCES
from tests.faults.faithful import NONCE, Mutant, Sample
from tests.faults.injectors import INJECTORS, injected, right

# Of the large corpora each so manieth form of a step's faults; `python -m tests.corpus.faults` takes them all.
SOME = {"FinQA": 23, "GSM8K": 101, "chains": 397, "lists": 31, "examples": 97, "docs": 7, "cases": 7}
PUBLIC = {"FinQA", "GSM8K"}


@pytest.mark.parametrize("source", SOURCES)
def test_every_injected_fault_is_named_by_kind_step_and_place(source: str) -> None:
    if source in PUBLIC and not FOLDER:
        pytest.skip("STEPGUARD_CORPUS names no folder with the corpora")
    wrong = [
        disagreement(sample, mutant)
        for sample, mutant in every(SOURCES[source](), SOME[source])
        if not right(sample, mutant)
    ]
    assert wrong == []


@pytest.mark.slow
def test_every_kind_and_every_injector_occurs_in_what_needs_no_corpus() -> None:
    kinds: Counter[str] = Counter()
    names: Counter[str] = Counter()
    for source in sorted(set(SOURCES) - PUBLIC - {"chains", "lists"}):
        for _, mutant in every(SOURCES[source]()):
            kinds[mutant.kind] += 1
            names[mutant.name] += 1
    assert set(kinds) == {str(kind) for kind in KINDS}
    assert set(names) == set(INJECTORS)


@settings(max_examples=30)
@given(chains(), st.data())
def test_a_chain_passes_and_any_fault_in_it_is_found(sample: Sample, data: st.DataObject) -> None:
    checker = Checker(sample.program, sample.inputs, nonce=NONCE)
    checker.feed(sample.trace)
    assert checker.verdict is Verdict.PASSED
    index = data.draw(st.integers(0, len(sample.steps) - 1))
    mutant = data.draw(st.sampled_from(list(injected(sample, index))))
    assert right(sample, mutant), disagreement(sample, mutant)


def test_chains_have_their_length_and_look_back_and_are_always_the_same() -> None:
    assert (min(LENGTHS), max(LENGTHS), *LOOK_BACKS) == (5, 95, 1, 2, 3, 4, 5, 6, 7)
    for length in (5, 95):
        for look_back in LOOK_BACKS:
            assert len(chain(length, look_back).steps) == length
            text, _, _ = chain_text(length, look_back)
            assert text == chain_text(length, look_back)[0] != chain_text(length, look_back, 1)[0]
            lines = text.splitlines()
            assert all(f"s{n - look_back} " in lines[n] for n in range(look_back + 1, length))


def test_a_fault_that_is_none_is_not_found() -> None:
    sample = next(SOURCES["examples"]())
    mutant = next(injected(sample, 0))
    faithful = Mutant(name="none", text=sample.trace, kind=mutant.kind, step=mutant.step, at=mutant.at)
    assert not right(sample, faithful)
    assert disagreement(sample, faithful).endswith(f"{sample.trace[mutant.at :][:80]!r}")


def test_no_fault_is_the_faithful_trace() -> None:
    for sample in islice(SOURCES["cases"](), 5):
        for index in range(len(sample.steps)):
            for mutant in injected(sample, index):
                # Only a text that is cut may be the same as far as it goes.
                assert (mutant.text != sample.trace) or mutant.kind == "truncated"

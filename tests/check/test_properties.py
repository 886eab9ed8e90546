"""What holds of every checker, whatever the procedure and the text."""

from __future__ import annotations

import codecs
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.check.checker import Checker
from guard.check.report import report
from guard.check.verdict import Judgement, StepVerified, Verdict, Violation
from tests.strategies import NONCE, Mutant, Sample, mutants, samples
from tests.traces import Case, cases

some = settings(max_examples=40, deadline=None)
# Behind these the rest of the trace is as it was.
ONE_DEPARTURE = {
    "again",
    "corrected",
    "made_up",
    "of_another_arm",
    "one_pass_more",
    "early",
    "other_operand",
    "other_operator",
    "swapped",
    "regrouped",
    "without_working",
    "without_symbol",
    "with_working",
    "longer",
    "quoted",
    "other_head",
    "ungrounded",
    "worked_out",
}


def checker_for(sample: Sample, *, verified: str = "", stop_at_first: bool = True) -> Checker:
    return Checker(sample.program, sample.inputs, nonce=NONCE, verified=verified, stop_at_first=stop_at_first)


def run(checker: Checker, pieces: list[str], finish_reason: str | None = "stop") -> list[Judgement]:
    return [judgement for piece in pieces for judgement in checker.feed(piece)] + checker.close(finish_reason)


def cut(text: str, cuts: set[int]) -> list[str]:
    bounds = [0, *sorted(c for c in cuts if 0 < c < len(text)), len(text)]
    return [text[a:b] for a, b in pairwise(bounds)]


@st.composite
def mutated(draw: st.DrawFn) -> tuple[Sample, Mutant]:
    sample = draw(samples())
    return sample, draw(mutants(sample))


@some
@given(samples())
def test_the_rendered_reference_passes(sample: Sample) -> None:
    checker = checker_for(sample)
    out = run(checker, [sample.trace])
    assert checker.violation is None, sample.text
    assert checker.verdict is Verdict.PASSED
    assert checker.verified == sample.trace
    assert checker.ending == sample.ending
    assert [(step.path, step.value) for step in out if isinstance(step, StepVerified)] == [
        (expected.path, value) for expected, value in sample.steps
    ]
    # Two decisions are never equal: each has an execution's variables. What else might have come is over.
    assert [(replace(expected, decision=None), value) for expected, value in checker.observed] == [
        (replace(expected, decision=None, others=()), value) for expected, value in sample.steps
    ]
    assert checker.paths == [(expected.path, expected.decision is not None) for expected, _ in sample.steps]
    counts = report(checker).steps
    assert counts.expected == len(sample.steps) == counts.verified + counts.model_decided
    assert counts.missing == 0


@settings(some, max_examples=100)
@given(mutated())
def test_a_departure_is_named_by_its_kind_where_it_is(made: tuple[Sample, Mutant]) -> None:
    sample, mutant = made
    checker = checker_for(sample)
    run(checker, [mutant.text], mutant.finish_reason)
    violation = checker.violation
    assert violation is not None
    assert (violation.kind, violation.step, violation.at) == (mutant.kind, mutant.step, mutant.at), (
        mutant.name
    )
    assert checker.verdict is Verdict.FAILED


@some
@given(mutated())
def test_a_departure_is_listed_once_where_checking_goes_on(made: tuple[Sample, Mutant]) -> None:
    sample, mutant = made
    checker = checker_for(sample, stop_at_first=False)
    run(checker, [mutant.text], mutant.finish_reason)
    assert checker.violations[0].at == mutant.at
    if mutant.name in ONE_DEPARTURE:
        assert len(checker.violations) == 1, [violation.kind for violation in checker.violations]


@some
@given(mutated(), st.sets(st.integers(0, 600)))
def test_how_a_response_is_cut_changes_nothing(made: tuple[Sample, Mutant], cuts: set[int]) -> None:
    sample, mutant = made
    for text in (sample.trace, mutant.text):
        for stop in (True, False):
            whole = checker_for(sample, stop_at_first=stop)
            pieces = checker_for(sample, stop_at_first=stop)
            assert run(whole, [text], mutant.finish_reason) == run(
                pieces, cut(text, cuts), mutant.finish_reason
            )
            assert (whole.verdict, whole.verified) == (pieces.verdict, pieces.verified)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_cut_of_a_case_is_invisible_also_inside_a_character(case: Case) -> None:
    whole = Checker(case.program, case.inputs, nonce=case.nonce)
    expected = run(whole, [case.response], case.finish_reason)
    raw = case.response.encode()
    inside = {place + 1 for place, byte in enumerate(raw) if byte >= 0xC2}  # the first of several bytes
    for place in {*range(0, len(raw), 19), *inside}:
        decoder = codecs.getincrementaldecoder("utf-8")()
        pieces = [decoder.decode(raw[:place]), decoder.decode(raw[place:], final=True)]
        checker = Checker(case.program, case.inputs, nonce=case.nonce)
        assert run(checker, pieces, case.finish_reason) == expected


@some
@given(mutated(), st.text(max_size=30))
def test_failed_is_final(made: tuple[Sample, Mutant], later: str) -> None:
    sample, mutant = made
    checker = checker_for(sample)
    run_over = checker.feed(mutant.text + "\n") + checker.feed("x\n")
    assert isinstance(run_over[-1], Violation)
    before = (checker.verdict, checker.verified, checker.violation, checker.expected)
    for text in (later, sample.trace, f"@end {NONCE}\n", "\n"):
        assert checker.feed(text) == []
    assert checker.close() == []
    assert (checker.verdict, checker.verified, checker.violation, checker.expected) == before


@some
@given(mutated(), st.integers(0, 400))
def test_the_verified_text_is_a_prefix_and_can_be_gone_on_from(
    made: tuple[Sample, Mutant], place: int
) -> None:
    sample, mutant = made
    for text in (sample.trace, mutant.text):
        old = checker_for(sample)
        old.feed(text[:place])
        assert text.startswith(old.verified)
        new = checker_for(sample, verified=old.verified)
        assert new.verified == old.verified
        assert (new.expected and new.expected.path) == (old.expected and old.expected.path)
        if old.verdict is Verdict.PENDING:
            rest = text[len(old.verified) :]
            behind = run(new, [rest], mutant.finish_reason)
            straight = checker_for(sample)
            whole = run(straight, [text], mutant.finish_reason)
            assert behind == whole[len(whole) - len(behind) :]
            assert (new.verdict, new.violation) == (straight.verdict, straight.violation)


@some
@given(samples(), st.text(max_size=200), st.integers(0, 300), st.booleans())
def test_no_text_makes_a_checker_raise(sample: Sample, noise: str, place: int, stop: bool) -> None:
    trace = sample.trace
    for text in (noise, trace[:place] + noise + trace[place:], f"@begin made {NONCE}\n1 {noise}\n"):
        checker = checker_for(sample, stop_at_first=stop)
        run(checker, [text])
        report(checker).to_json()
        assert text.startswith(checker.verified)


@some
@given(samples(), st.data())
def test_no_shuffling_of_lines_makes_a_checker_raise(sample: Sample, data: st.DataObject) -> None:
    lines = data.draw(st.lists(st.sampled_from(sample.lines), max_size=12))
    for stop in (True, False):
        checker = checker_for(sample, stop_at_first=stop)
        run(checker, ["".join(f"{line}\n" for line in [sample.lines[0], *lines])])
        counts = report(checker).steps
        assert counts.expected is None or counts.expected >= counts.verified
        assert checker.verdict is not Verdict.PASSED or sorted(checker.verified) == sorted(sample.trace)


@some
@given(samples(), st.text(max_size=20))
def test_no_tail_is_left_unread(sample: Sample, tail: str) -> None:
    checker = checker_for(sample)
    run(checker, [sample.trace + tail])
    assert (checker.verdict is Verdict.PASSED) == (not tail.strip(" \t\r\n"))

"""Text that runs on is known while the line grows, whatever the pieces; a right trace never is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.check.checker import Checker
from guard.check.runaway import BLANK_LINES, BLANKS
from guard.check.verdict import Judgement, Kind, Verdict, Violation
from guard.procedure.load import load
from tests.faults.form import runaway
from tests.strategies import NONCE, Sample, samples
from tests.traces import Case, cases

TEXT = """\
procedure p(note: text, rule: string) -> int
  extract xs: list of int from note
  n = 0
  for x in xs at most 3
    n = n + x
  extract m: int from note quote
  return n + m
"""
PROGRAM = load(TEXT, "p.proc").procedures["p"]
RULE = "-" * 700
BEGIN = f"@begin p {NONCE}\n"


def heard(checker: Checker, text: str, size: int) -> list[Judgement]:
    return [each for at in range(0, len(text), size) for each in checker.feed(text[at : at + size])]


def blamed(text: str, size: int, *, tolerant: bool = False) -> tuple[Violation | None, int]:
    """What is blamed, and how many characters were read by then."""
    checker = Checker(PROGRAM, {"note": f"Seven.\n{RULE}", "rule": RULE}, nonce=NONCE, tolerant=tolerant)
    for at in range(0, len(text), size):
        checker.feed(text[at : at + size])
        if checker.violation is not None:
            return checker.violation, at + size
    return None, len(text)


@settings(max_examples=60)
@given(samples(), st.integers(1, 200))
def test_a_right_trace_never_runs_on(sample: Sample, size: int) -> None:
    checker = Checker(sample.program, sample.inputs, nonce=NONCE)
    heard(checker, sample.trace, size)
    assert checker.verdict is Verdict.PASSED


@pytest.mark.parametrize("case", [case for case in cases() if not case.blames], ids=lambda case: case.name)
def test_nor_does_one_of_those_that_are_written_down(case: Case) -> None:
    checker = Checker(case.program, case.inputs, nonce=case.nonce, tolerant=case.tolerant)
    assert not any(isinstance(each, Violation) for each in heard(checker, case.response, 7))


@settings(max_examples=40)
@given(samples(groups=False), st.data(), st.integers(1, 300))
def test_what_runs_on_is_found_at_the_same_place_however_it_is_cut(
    sample: Sample, data: st.DataObject, size: int
) -> None:
    index = data.draw(st.integers(0, len(sample.steps) - 1))
    mutants = list(runaway(sample, index))
    if not mutants:
        return
    mutant = data.draw(st.sampled_from(mutants))
    checker = Checker(sample.program, sample.inputs, nonce=NONCE)
    heard(checker, mutant.text, size)
    assert checker.violation is not None
    assert (checker.violation.kind, checker.violation.step, checker.violation.at) == (
        Kind.RUNAWAY,
        mutant.step,
        mutant.at,
    )


@pytest.mark.parametrize(
    ("line", "most"),
    [
        ("1 xs = [" + "1, " * 6000, 700),
        ("1 xs = [" + "1" * 20_000, 400),
        ("1 xs = " + " " * 20_000, BLANKS + 400),
        ("1 " + "x" * 20_000, 400),
        ("I am " + "very " * 4000, 700),
        ("\n" * 8000, BLANK_LINES + 8),
        (" \n" * 8000, 2 * BLANK_LINES + 8),
        ("1 xs = [1]\n2 n = 0\n3 for x in xs = 1\n3[1].1 n = 0 + 1 = " + "1 + " * 4000, 800),
    ],
)
@pytest.mark.parametrize("size", [1, 4, 200])
def test_it_ends_at_once_and_not_when_the_tokens_are_spent(line: str, most: int, size: int) -> None:
    violation, read = blamed(BEGIN + line, size)
    assert violation is not None
    assert violation.kind is Kind.RUNAWAY
    assert read <= len(BEGIN) + most + size


@pytest.mark.parametrize(
    "line",
    [
        f'1 xs = [1] <- "{RULE}"\n',  # stands in the note
        "1 xs = [1, 1, 1]\n\n\n" + "\n" * 400,
        "1 xs = [1]" + " " * 900 + "\n",
        "1 xs = [" + ", ".join(map(str, range(90))),
    ],
)
def test_what_may_still_be_right_is_waited_for(line: str) -> None:
    violation, _ = blamed(BEGIN + line, 4)
    assert violation is None or violation.kind is not Kind.RUNAWAY


def test_prose_beside_a_trace_may_be_drawn() -> None:
    violation, _ = blamed(f"Here it is:\n{'=' * 700}\n{BEGIN}1 xs = [1]\n", 4, tolerant=True)
    assert violation is None

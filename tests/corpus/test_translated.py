"""Public problems with known answers, as procedures, come to those answers step by step."""

from __future__ import annotations

from fractions import Fraction

import pytest

from guard.check.checker import Checker
from guard.check.verdict import Verdict
from guard.trace import render
from tests.corpus import finqa, gsm8k
from tests.corpus.problems import FOLDER, Gold, Problem, known_noise, rows
from tests.corpus.translate import NONCE

NOISE = known_noise()
ALL = (*finqa.problems(), *gsm8k.problems())

pytestmark = pytest.mark.skipif(not FOLDER, reason="STEPGUARD_CORPUS names no folder with the corpora")


def test_all_problems_are_there() -> None:
    names = [f"gsm8k-{index}" for index in range(1, len(rows("gsm8k_400.jsonl")) + 1)]
    without = {entry["problem"] for entry in NOISE["unannotated"]}
    assert {problem.name for problem in gsm8k.problems()} == set(names) - without
    assert len(names) == 400
    assert len(finqa.problems()) == 100


def test_every_step_gives_its_gold_and_every_answer_but_the_listed_ones_is_the_written_one() -> None:
    found = [one for problem in ALL for one in problem.disagreements()]
    listed = {
        (entry["problem"], "answer", Fraction(str(entry["answer"])), Fraction(str(entry["gives"])))
        for entry in NOISE["answers"]
    }
    assert {(one.problem, one.step, Fraction(one.gold), Fraction(one.gives)) for one in found} == listed


def test_what_is_listed_as_noise_has_a_reason() -> None:
    assert all(entry["why"] for entries in NOISE.values() for entry in entries)


def test_a_wrong_gold_is_found() -> None:
    problem = next(iter(gsm8k.problems()))
    golds: dict[str, Gold] = {path: Fraction(gold) + Fraction(1, 100) for path, gold in problem.golds.items()}
    wrong = Problem(problem.name, problem.text, problem.inputs, golds, problem.answer)
    assert [one.step for one in wrong.disagreements()] == list(golds)


def test_every_faithful_trace_passes() -> None:
    for problem in ALL:
        steps, _ = problem.execute()
        checker = Checker(problem.program, problem.accepted, nonce=NONCE)
        checker.feed(render.trace(problem.program, steps, NONCE))
        checker.close()
        assert checker.verdict is Verdict.PASSED, problem.name

"""The short texts with known answers hold together: read rightly, each comes to what is written down."""

from __future__ import annotations

from collections import Counter

import pytest

from guard.check.checker import Checker
from guard.check.verdict import Verdict, Violation
from guard.procedure.execute import reference
from guard.procedure.expected import EndKind
from guard.procedure.values import equal
from guard.trace import render
from tests.texts import ShortText, texts

NONCE = "3fa92c"


@pytest.mark.parametrize("case", texts(), ids=lambda case: case.name)
def test_read_rightly_a_text_comes_to_its_answer_and_its_quotes_support_it(case: ShortText) -> None:
    steps, ending = reference(case.program, case.inputs, case.decisions)
    if case.refusal is None:
        assert ending.kind is EndKind.RETURN
        assert case.wanted is not None
        assert equal(steps[-1][1], case.wanted), (steps[-1][1], case.wanted)
    else:
        assert ending.kind in {EndKind.DENY, EndKind.ESCALATE}
        assert case.refusal in str(steps[-1][1])
    checker = Checker(case.program, case.inputs, nonce=NONCE)
    judgements = [*checker.feed(render.trace(case.program, steps, NONCE)), *checker.close("stop")]
    assert not [one for one in judgements if isinstance(one, Violation)]
    assert checker.verdict is Verdict.PASSED


def test_there_are_forty_half_of_them_for_the_report_and_every_procedure_in_both_halves() -> None:
    halves = Counter(case.half for case in texts())
    assert len(texts()) == 40
    assert halves["tune"] >= 18
    assert halves["report"] >= 18
    by_half = {half: {case.program.name for case in texts() if case.half == half} for half in halves}
    assert by_half["tune"] == by_half["report"] == {case.program.name for case in texts()}

"""Loops and sub-procedures under narrowed grammars, from every step of a faithful trace on."""

from __future__ import annotations

import pytest

from guard.check.checker import Checker
from guard.dialect.lark import Level, narrow
from tests.dialect.readers import assert_takes
from tests.traces import Case, cases

FAITHFUL = [case for case in cases() if case.name.endswith(": the faithful trace passes")]


@pytest.mark.parametrize("level", [Level.SHAPE, Level.OPERANDS, Level.VALUES])
@pytest.mark.parametrize("case", FAITHFUL, ids=lambda case: case.name)
def test_the_faithful_rest_may_be_written_behind_every_line(case: Case, level: Level) -> None:
    lines = case.response.splitlines(keepends=True)
    checker = Checker(case.program, case.inputs, nonce=case.nonce)
    checker.feed(lines[0])
    for index in range(1, len(lines) - 1):
        checker.feed(lines[index])
        observed = [value for _, value in checker.observed]
        made = narrow(
            case.program, case.inputs, observed, level=level, nonce=case.nonce, stop_at_decision=False
        )
        assert_takes(made.grammar, "".join(lines[index + 1 :]))

"""What the guard can write itself."""

from __future__ import annotations

from guard.check.checker import Checker
from guard.check.repair import continuation
from guard.check.verdict import Verdict
from guard.procedure.expected import EndKind
from tests.traces import Case, cases

ORDER: Case = next(case for case in cases() if case.name == "order: the faithful trace passes")
LINES = ORDER.response.splitlines(keepends=True)


def checker(lines: int) -> Checker:
    made = Checker(ORDER.program, ORDER.inputs, nonce=ORDER.nonce)
    made.feed("".join(LINES[:lines]))
    return made


def test_writes_all_that_is_left_where_nothing_is_left_to_decide() -> None:
    rest = continuation(ORDER.program, ORDER.inputs, checker(3).sent)
    assert rest.text == "".join(LINES[3:-1])
    assert rest.due is None
    assert rest.ending is not None
    assert rest.ending.kind is EndKind.RETURN


def test_writes_nothing_that_is_the_models_to_decide() -> None:
    rest = continuation(ORDER.program, ORDER.inputs, checker(2).sent)
    assert (rest.text, rest.steps, rest.ending) == ("", (), None)
    assert rest.due is not None
    assert rest.due.path == "2"


def test_writes_as_many_lines_as_it_is_asked_for() -> None:
    rest = continuation(ORDER.program, ORDER.inputs, checker(5).sent, most=2)
    assert rest.text == "".join(LINES[5:7])
    assert rest.due is not None
    assert rest.due.path == "4[2].1"


def test_what_it_writes_passes() -> None:
    made = checker(6)
    made.feed(continuation(ORDER.program, ORDER.inputs, made.sent).text + LINES[-1])
    assert made.verdict is Verdict.PASSED

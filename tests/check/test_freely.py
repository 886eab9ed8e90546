"""What a text shows that nobody forced into a format: blamed for what it says, never for what cannot be read."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.check.checker import Checker
from guard.check.findings import STEPS, Findings
from guard.check.freely import findings
from guard.procedure.execute import Program, reference
from guard.procedure.load import load
from guard.procedure.types import Value
from guard.trace import render
from tests.trace.test_freeform import FORMS

T = TypeVar("T")

NONCE = "3fa92c"
CHAIN = load(
    "procedure chain(a: int, b: int) -> int\n  s1 = a + b\n  s2 = s1 * 3\n  s3 = s2 - a\n  if s3 > 100\n"
    "    s4 = s3 - 50\n  else\n    s4 = s3 + s2\n  s5 = s4 + s1\n  return s5 - s2\n"
).procedures["chain"]
INPUTS: Mapping[str, Value] = {"a": 2, "b": 3}
RIGHT = "s1 = 2 + 3 = 5\ns2 = 15\nThen s3 is 13.\n- s4: 28\n- s5: 33\n\nThe answer is 18."


def done(work: Generator[None, None, T]) -> T:
    while True:
        try:
            next(work)
        except StopIteration as stop:
            found: T = stop.value
            return found


def found(
    text: str,
    program: Program = CHAIN,
    inputs: Mapping[str, Value] = INPUTS,
    finish_reason: str | None = "stop",
) -> Findings:
    return done(findings(program, inputs, text, finish_reason))


def blamed(findings: Findings) -> list[tuple[str, str, int]]:
    return [(violation.kind.value, violation.step, violation.at) for violation in findings.violations]


def lines(program: Program, inputs: Mapping[str, Value]) -> list[tuple[str, str]]:
    """The steps that give a variable a value, each with it."""
    steps, _ = reference(program, inputs, {})
    return [(step.target, step.cells[0].spelling or "") for step, _ in steps if step.target is not None]


def test_a_faithful_text_passes() -> None:
    seen = found(RIGHT)
    assert (seen.reading, seen.verdict, blamed(seen), seen.answer) == ("free", "passed", [], "right")
    assert {path: how for path, (_, how) in seen.classes.items()} == dict.fromkeys(
        ["1", "2", "3", "5.1", "6", "7"], "verified"
    )
    assert seen.answer_at == pytest.approx(RIGHT.index("18") / len(RIGHT))


SUM = load(
    "procedure p(x: int, y: int) -> int\n  S1 = x + 0\n  S2 = y + 0\n  S3 = S1 + S2\n  return S3\n"
).procedures["p"]


@pytest.mark.parametrize("form", FORMS)
def test_a_faithful_text_passes_in_any_form(form: str) -> None:
    inputs: Mapping[str, Value] = {"x": 16, "y": 25}
    seen = found(FORMS[form], SUM, inputs)
    assert (seen.verdict, seen.answer, blamed(seen)) == ("passed", "right", [])
    wrong = found(FORMS[form].replace("41", "42"), SUM, inputs)
    assert (wrong.verdict, wrong.answer, blamed(wrong)[0][:2]) == ("failed", "wrong", ("wrong_value", "3"))


@pytest.mark.parametrize(
    ("text", "kinds", "answer"),
    [
        (RIGHT.replace("- s5: 33", "- s5: 34"), [("wrong_value", "6", "34"), ("wrong_answer", "7", "18")], "right"),
        (
            RIGHT.replace("s2 = 15", "s2 = 16").replace("13", "14").replace("28", "30").replace("33", "35").replace("18", "19"),
            [("wrong_value", "2", "16")],
            "wrong",
        ),
        (RIGHT.replace("is 18", "is 19"), [("wrong_answer", "7", "19")], "wrong"),
        (RIGHT.replace("s2 = 15\n", ""), [("skipped_step", "2", "s3")], "right"),
        (RIGHT.replace("s2 = 15\nThen s3 is 13.\n", ""), [("skipped_step", "2", "s4")], "right"),
        (RIGHT.replace("- s4: 28\n- s5: 33\n", ""), [("premature_answer", "5.1", "18")], "right"),
        (RIGHT.replace("The answer is 18.", ""), [("missing_answer", "7", "")], "none"),
        ("18", [("premature_answer", "1", "18")], "right"),
        ("17", [("premature_answer", "1", "17")], "wrong"),
        ("", [("missing_answer", "1", "")], "none"),
        ("Sorry, no.", [("missing_answer", "1", "")], "none"),
        ("Answer: 18\n\n" + RIGHT, [("premature_answer", "7", "18")], "right"),
        (RIGHT.replace("s2 = 15", "s2 = 15, no, s2 = 16"), [("self_correction", "2", "16")], "right"),
        (RIGHT.replace("s2 = 15", "s2 = 16, no, s2 = 15"), [("wrong_value", "2", "16")], "right"),
        (RIGHT.replace("The answer", "Step 9: s9 = 18 - 0 = 18\nThe answer"), [("extra_step", "9", "Step 9")], "right"),
        (RIGHT.replace("The answer", "4.1 s6 = 28 - 0 = 28\nThe answer"), [("extra_step", "4.1", "4.1")], "right"),
        (RIGHT + "\nWait. The answer is 20.", [("wrong_answer", "7", "20")], "wrong"),
        (RIGHT + " So s5 = 33.", [], "right"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_once_and_where(
    text: str, kinds: list[tuple[str, str, str]], answer: str
) -> None:
    seen = found(text)
    assert [(kind, step) for kind, step, _ in blamed(seen)] == [(kind, step) for kind, step, _ in kinds]
    for (_, _, at), (_, _, there) in zip(blamed(seen), kinds, strict=True):
        assert text[at:].startswith(there)
        assert there or at == len(text)
    assert seen.answer == answer
    assert seen.verdict == ("failed" if kinds else "passed")


@given(st.integers(-999, 999), st.integers(-999, 999), st.data())
def test_one_value_that_is_changed_is_found_where_it_stands(a: int, b: int, data: st.DataObject) -> None:
    inputs: Mapping[str, Value] = {"a": a, "b": b}
    _, ending = reference(CHAIN, inputs, {})
    rows = lines(CHAIN, inputs)
    right = "\n".join(f"{name} = {value}" for name, value in rows) + f"\nAnswer: {ending.value}"
    assert blamed(found(right, inputs=inputs)) == []
    place = data.draw(st.integers(0, len(rows) - 1))
    name, value = rows[place]
    wrong = right.replace(f"{name} = {value}\n", f"{name} = {int(value) + 7}\n")
    first = blamed(found(wrong, inputs=inputs))[0]
    assert (first[0], first[2]) == ("wrong_value", wrong.index(f"{name} = ") + len(name) + 3)
    without = right.replace(f"{name} = {value}\n", "")
    assert {kind for kind, _, _ in blamed(found(without, inputs=inputs))} == {
        "premature_answer" if place == len(rows) - 1 else "skipped_step"
    }


@given(
    st.text(max_size=300)
    | st.lists(st.sampled_from([*RIGHT, "s1", " = ", "\n", "Answer: ", "{", "[1]"])).map("".join)
)
def test_any_text_is_judged_without_an_error(text: str) -> None:
    seen = found(text)
    assert all(0 <= violation.at <= len(text) for violation in seen.violations)
    assert seen.answer_at is None or 0 <= seen.answer_at <= 1


@given(st.integers(0, 60))
def test_a_text_that_was_cut_is_not_blamed_for_what_had_no_room(length: int) -> None:
    seen = found(RIGHT[:length], finish_reason="length")
    assert [violation.kind for violation in seen.violations] == ["truncated"]
    assert seen.verdict == "undecided"
    assert all(how != "missing" for _, how in seen.classes.values())


# --- traces --------------------------------------------------------------------------------------


def trace() -> str:
    steps, _ = reference(CHAIN, INPUTS, {})
    return render.trace(CHAIN, steps, NONCE)


@pytest.mark.parametrize(
    "text", [trace(), f"Well:\n\n```\n{trace()}```\n", trace().replace("= 15", "= 16", 1)]
)
def test_a_trace_is_the_checkers(text: str) -> None:
    seen = found(text)
    checker = Checker(CHAIN, INPUTS, nonce=None, stop_at_first=False, tolerant=True)
    checker.feed(text)
    checker.close()
    assert (seen.reading, seen.violations, seen.verdict) == (
        "trace",
        tuple(checker.violations),
        checker.verdict,
    )
    verified = [path for path, (_, how) in seen.classes.items() if how == "verified"]
    assert verified == [path for path, _ in checker.paths]
    assert len(seen.classes) == checker.steps


def test_a_trace_that_was_cut_misses_nothing() -> None:
    seen = found(trace()[:60], finish_reason="length")
    assert ([violation.kind for violation in seen.violations], seen.verdict) == (["truncated"], "undecided")
    assert all(how == "verified" for _, how in seen.classes.values())


def test_the_answer_of_a_trace_is_compared_with_what_is_true() -> None:
    assert (found(trace()).answer, found(trace()[:60]).answer) == ("right", "none")
    own = trace().replace("= 2 + 3 = 5", "= 2 + 3 = 6")
    assert found(own).answer == "right"  # it wrote the right one, from wrong steps


# --- what the model decides ----------------------------------------------------------------------


ORDER = load(
    "record Line { name: string, qty: int }\n"
    'procedure order(note: text) -> { total: int, kind: enum("few", "many") }\n'
    '  extract lines: list of Line from note\n  judge loyal: bool from note asking "Loyal?"\n'
    "  n = sum(l.qty for l in lines)\n  if loyal\n    n = n - 1\n"
    '  require n > 0 else deny "Nothing was ordered."\n'
    '  return { total: n, kind: if n > 5 then "many" else "few" }\n'
).procedures["order"]
NOTE: Mapping[str, Value] = {"note": "Four hinges and two locks, please."}
LISTED = 'lines: [{"name": "hinge", "qty": 4}, {"name": "lock", "qty": 2}]\n'


@pytest.mark.parametrize(
    ("text", "verdict", "answer"),
    [
        (LISTED + 'loyal: no\nn = 6\n{"total": 6, "kind": "many"}', "passed", "right"),
        (LISTED + 'loyal: yes\nn = 6\nn = 5\n```json\n{"total": 5,\n "kind": "few"}\n```', "passed", "right"),
        (LISTED + 'loyal = false\nn = 6\n{"total": 7, "kind": "many"}', "failed", "wrong"),
        (LISTED + "loyal = false\nn = 7\n", "failed", "unknown"),
        ('n = 6\n{"total": 6, "kind": "many"}', "failed", "unknown"),  # who is loyal is nowhere said
        ("lines: []\nloyal: no\nn = 0\nNothing was ordered!", "passed", "right"),
    ],
)
def test_decisions_are_taken_over_as_far_as_they_can_be_read(text: str, verdict: str, answer: str) -> None:
    seen = found(text, ORDER, NOTE)
    assert (seen.verdict, seen.answer) == (verdict, answer)


def test_what_may_not_stand_is_blamed_and_what_hangs_on_it_is_not() -> None:
    program = load(
        "procedure p(note: text) -> int\n  extract n: int from note\n    where n > 0\n  m = n * 2\n  return m\n"
    ).procedures["p"]
    seen = found("n = -1\nm = -2\nAnswer: -2", program, NOTE)
    assert blamed(seen) == [("inadmissible_value", "1", 4)]
    assert seen.answer == "unknown"


def test_passes_of_a_loop_are_told_apart() -> None:
    program = load(
        "procedure p(xs: list of int) -> int\n  s = 0\n  for x in xs at most 9\n    s = s + x\n  return s\n"
    ).procedures["p"]
    inputs: dict[str, Any] = {"xs": (4, 5, 6)}
    assert blamed(found("s = 0\ns = 0 + 4 = 4\ns = 9\ns = 15\nAnswer: 15", program, inputs)) == []
    seen = found("s = 0\ns = 0 + 4 = 4\ns = 8\ns = 14\nAnswer: 14", program, inputs)
    assert [(kind, step) for kind, step, _ in blamed(seen)] == [("wrong_value", "2[2].1")]
    assert seen.answer == "wrong"


def test_an_execution_of_too_many_steps_is_given_up() -> None:
    program = load(
        "procedure p(xs: list of int) -> int\n  s = 0\n  for x in xs at most 10000\n    s = s + x\n  return s\n"
    ).procedures["p"]
    assert found("s = 0", program, {"xs": (1,) * STEPS}).too_long
    assert found(f"@begin p {NONCE}\n", program, {"xs": (1,) * STEPS}).too_long


def test_a_procedure_that_fails_is_nobodys_departure() -> None:
    program = load("procedure p(a: int) -> int\n  b = a * 2\n  check b > 10\n  return b\n").procedures["p"]
    seen = found("b = 2\nAnswer: 2", program, {"a": 1})
    assert (blamed(seen), seen.verdict, seen.answer) == ([], "undecided", "unknown")

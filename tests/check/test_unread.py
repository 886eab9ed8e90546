"""Unread is never wrong and never passed: what free-form text shows in spellings of every kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.check.findings import Findings
from guard.procedure.execute import Program, reference
from guard.procedure.load import load
from guard.procedure.types import Value
from guard.trace import render
from tests.check.test_freely import found

INVOICE: Final = load(
    "procedure invoice(qty: int, price: decimal) -> decimal\n"
    "  net = qty * price\n  off = net * 10%\n  return net - off\n"
).procedures["invoice"]
ORDER: Final = INVOICE.accept({"qty": 12, "price": 850})
STEPS: Final = "net = 12 * 850 EUR = 10200 EUR\noff = 10% of 10200 = 1020\n"
MOST: Final = load("procedure larger(a: int, b: int) -> int\n  n = max(a, b)\n  return n * 2\n").procedures[
    "larger"
]
DUE: Final = load("procedure due(day: date) -> date\n  due = day + 30 days\n  return due\n").procedures["due"]
CALLED: Final = load(
    "procedure twice(x: int) -> int\n  return x * 2\n\n"
    "procedure s(a: int) -> int\n  total = a + 1\n  b = do twice(total)\n  return b + 1\n"
).procedures["s"]


def seen(
    text: str, program: Program = INVOICE, inputs: Mapping[str, Value] = ORDER, reason: str = "stop"
) -> Findings:
    return found(text, program, inputs, reason)


def kinds(findings: Findings) -> list[tuple[str, str]]:
    return [(violation.kind.value, violation.step) for violation in findings.violations]


@pytest.mark.parametrize(
    "answer",
    [
        "Answer: 9180", "Answer: USD 9,180.00", "Answer: 9,180 EUR.", "Answer: ₹9,180", "Answer: ≈ 9180", "A: 9180",
        "Answer: $9,180.00", "So \\boxed{9{,}180}", "So \\boxed{\\text{9180}}", "\\boxed{9180 \\text{ EUR}}",
        "The result is 9180.", "<answer>9180</answer>", "9180", '{"answer": "9180"}', '{"answer": "9,180.00 EUR"}',
        '{"answer": 9180.00}', "#### 9180", "**Answer:** 9180", "The final answer is **9,180**.", "Answer: \\frac{18360}{2}",
    ],
)  # fmt: skip
def test_an_answer_in_any_of_its_spellings_is_right(answer: str) -> None:
    read = seen(STEPS + answer)
    assert (read.verdict, read.answer, read.unread, kinds(read)) == ("passed", "right", (), [])
    wrong = seen(STEPS + answer.replace("180", "190").replace("18360", "18380"))
    assert (wrong.answer, kinds(wrong)) == ("wrong", [("wrong_answer", "3")]) or "≈" in answer


@pytest.mark.parametrize(
    "answer",
    [
        "Answer: 9180 million", "Answer: 9180 or 9190", "Answer: 9180 x 2", "Answer: \\boxed{9180", "The answer is about 9180.",
        "Answer: ≈ 9200", "9180 million", "9180 or 9190", "9180 x 2 = 18360", '{"answer": "9180 million"}', "Answer: 9.180,00",
        "<answer>9180 thousand</answer>", "Answer: see 3 above", "The answer is 9180 | 9190", "Answer: nine thousand one hundred",
    ],
)  # fmt: skip
def test_an_answer_that_cannot_be_read_is_neither_right_nor_wrong(answer: str) -> None:
    read = seen(STEPS + answer)
    assert (read.verdict, read.answer, kinds(read)) == ("undecided", "unknown", [])
    assert read.unread == ("3",)


@pytest.mark.parametrize(
    "step",
    [
        "net = 10200 million", "net = 10200 or 10300", "net = 12 * 850", "net = about 10200", "net = 10.200,00", "net = \\text{10200",
        "| net | 10200 | EUR |", "net = ten thousand", '{"net": "10200 million"}', "net = 10200 | 9", "net = 10200...", "net = 10k + 2",
    ],
)  # fmt: skip
def test_a_step_that_cannot_be_read_leaves_the_text_undecided(step: str) -> None:
    read = seen(f"{step}\noff = 1020\nAnswer: 9180")
    assert (read.verdict, read.answer, kinds(read)) == ("undecided", "right", [])
    assert read.unread == ("1",)
    assert "1" not in read.classes


@pytest.mark.parametrize("value", ["3.5", "true", '"three"', "max(4, 5) = 4", "6 apples", "-5", "$5.50"])
def test_a_value_of_another_kind_is_judged(value: str) -> None:
    inputs = MOST.accept({"a": 4, "b": 5})
    read = seen(f"n = {value}\nAnswer: 10", MOST, inputs)
    assert kinds(read)[0] == ("wrong_value", "1")
    assert seen("n = max(4, 5) = 5\nAnswer: 10", MOST, inputs).verdict == "passed"


@pytest.mark.parametrize("off", [1020, 1030])
@pytest.mark.parametrize("head", ["| step | working | value |\n|---|---|---|\n", "|---|---|---|\n", ""])
def test_a_table_is_judged_by_its_last_cell(head: str, off: int) -> None:
    rows = f"| net | 12 * 850 | 10,200 |\n| off | 10200 * 10% | {off} |\n\nAnswer: 9180"
    read = seen(head + rows)
    assert kinds(read)[:1] == ([] if off == 1020 else [("wrong_value", "2")])


def test_a_column_says_which_cell_is_the_value() -> None:
    table = (
        "| Name | Value | Unit |\n|:--|--:|---|\n| Net | 10200 | EUR |\n| Off | 1020 | EUR |\n\nAnswer: 9180"
    )
    assert seen(table).verdict == "passed"
    scaled = seen(table.replace("1020 | EUR", "1020 | million"))
    assert (scaled.verdict, scaled.unread) == ("undecided", ("2",))


@pytest.mark.parametrize(
    "text",
    [
        '[{"net": 10200}, {"off": 1020}]\nA: 9180',
        '{"net": 10200} {"off": 1020}\nA: 9180',
        '{"net": 10200}, {"off": "1,020.00"}, {"answer": "9180"}',
        'Here it is: {"net": "10200", "off": 1020, "answer": 9180}',
    ],
)
def test_all_objects_of_a_line_are_read(text: str) -> None:
    assert seen(text).verdict == "passed"
    wrong = re.sub(r'("off": "?1,?0)2', r"\g<1>3", text)
    assert kinds(seen(wrong))[0] == ("wrong_value", "2")


@pytest.mark.parametrize(
    ("written", "verdict"),
    [
        ("2026-03-02", "passed"), ("March 2, 2026", "passed"), ("2 March 2026", "passed"), ("2026/03/02", "passed"),
        ("March 3, 2026", "failed"), ("2026-03-03", "failed"), ("03/02/2026", "undecided"), ("next Monday", "undecided"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["due = {}\nAnswer: {}", '{{"due": "{}"}}\nAnswer: {}'])
def test_days_are_read_where_there_is_one_reading(form: str, written: str, verdict: str) -> None:
    read = seen(form.format(written, written), DUE, DUE.accept({"day": "2026-01-31"}))
    if written == "next Monday" and form.startswith("{"):
        verdict = "failed"  # a text in quotes without a figure is no date
    assert read.verdict == verdict


@given(st.integers(-99, 99), st.sampled_from(["total", "Total", "TOTAL"]))
def test_a_trace_without_its_frame_is_read_as_what_it_is(a: int, name: str) -> None:
    inputs: dict[str, Any] = {"a": a}
    steps, _ = reference(CALLED, inputs, {})
    lines = render.trace(CALLED, steps, "abcdef").splitlines()[1:-1]
    read = seen("\n".join(lines).replace("total =", f"{name} ="), CALLED, inputs)
    assert (read.verdict, read.answer, kinds(read)) == ("passed", "right", [])


@given(st.integers(-99, 99), st.integers(1, 9))
def test_what_a_called_procedure_comes_to_is_judged(a: int, more: int) -> None:
    inputs: dict[str, Any] = {"a": a}
    right, answer = 2 * (a + 1), 2 * (a + 1) + 1
    assert seen(f"total = {a + 1}\nb = {right}\nAnswer: {answer}", CALLED, inputs).verdict == "passed"
    wrong = seen(f"total = {a + 1}\nb = {right + more}\nAnswer: {answer}", CALLED, inputs)
    assert kinds(wrong) == [("wrong_value", "2.1")]


@pytest.mark.parametrize(("end", "blamed"), [("\n", True), ("", False)])
def test_the_last_line_of_a_cut_text_counts_where_it_has_its_end(end: str, blamed: bool) -> None:
    read = seen(f"net = 10200\noff = 1030{end}", reason="length")
    assert [kind for kind, _ in kinds(read)] == ["wrong_value", "truncated"] if blamed else ["truncated"]


def test_a_list_that_cannot_be_read_leaves_the_text_undecided() -> None:
    program = load("procedure p(a: int) -> int\n  xs = [a, a + 1]\n  return sum(xs)\n").procedures["p"]
    inputs: dict[str, Any] = {"a": 4}
    assert seen("xs = [4, 5]\nAnswer: 9", program, inputs).verdict == "passed"
    assert kinds(seen("xs = [4, 6]\nAnswer: 9", program, inputs))[0] == ("wrong_value", "1")
    assert seen("xs = four and five\nAnswer: 9", program, inputs).unread == ("1",)

"""Free-form mode: steps and answers out of prose, Markdown, LaTeX and JSON, each where it stands."""

from __future__ import annotations

from datetime import date, datetime
from fractions import Fraction
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from guard.procedure.execute import reference
from guard.procedure.load import load
from guard.trace.freeform import Reading, read_freely
from tests.work import calls

NAMES = ["S1", "S2", "S3"]
FORMS = {
    "a trace": "1 S1 = 16\n2 S2 = 25\n3 S3 = 16 + 25 = 41\n",
    "lines": "S1 = 16\nS2 = 25\nS3 = S1 + S2 = 16 + 25 = 41",
    "numbered lines": "Step 1: S1 = x = 16\nStep 2: S2 = y = 25\nStep 3: S3 = 41",
    "labels": "[1] S1 = 16\n[2] S2 = 25\n[3] S3 = S1 + S2 = 41",
    "one sentence": "First S1 = 16 and S2 = 25, so S3 = 16 + 25 = 41.",
    "words": "S1 is 16. S2 is 25. Therefore the final value of S3 is 41.",
    "Markdown": "## Steps\n\n- **S1 = 16**\n- **S2** = 25\n* S3: `16 + 25` = **41**",
    "a list without names": "1. `x` = 16\n2) y = 25\n3. The sum: 16 + 25 = 41",
    "a table": "| name | value |\n|---|---|\n| S1 | 16 |\n| S2 | 25 |\n| S3 | 16 + 25 | 41 |",
    "LaTeX": "\\[ S1 = 16 \\]\n$S2 = 25$\n\\begin{align}\nS3 &= 16 + 25 \\\\\n\\end{align}\n$$S3 = \\boxed{41}$$",
    "JSON lines": '{"step": 1, "var": "S1", "value": 16}\n{"step": 2, "var": "S2", "expr": "y", "value": 25}\n{"step": 3, "value": 41}',
    "JSON": '```json\n[\n  {"name": "S1", "result": 16},\n  {"name": "S2", "result": 25},\n  {"name": "S3", "result": 41}\n]\n```',
    "one object": '{"S1": 16, "S2": 25, "S3": 41}',
    "an object in lines": '{\n  "S1": 16,\n  "S2": 25,\n  "S3": 41\n}',
    "objects in lines": '```json\n[\n  {\n    "name": "S1",\n    "value": 16\n  },\n  {"S2": 25},\n  {\n "S3": 41\n}\n]\n```',
    "JSON that was cut off": '{"steps": [{"step": 1, "value": 16}, {"step": 2, "value": 25}, {"step": 3, "value": 41}',
    "Windows": "S1 = 16\r\nS2 = 25\r\nS3 = 41\r\n",
}


def test_dates_are_read_with_what_is_added_to_them() -> None:
    text = (
        "1. due = order_date + 30 days = 2026-06-01 + 30 days = 2026-07-01\n"
        "Step 2: **last** = 2026-07-01 - 1 months  down = 2026-06-01, and some days are left.\n"
        "3. at is 2026-06-01T09:30:00+02:00\n"
        "4. none = 2026-02-30\n"
        "The final answer is 2026-07-01."
    )
    reading = read_freely(text, ["due", "last", "at", "none"])
    found = {seen.step: [part.text for part in seen.parts] for seen in reading.seen}
    assert found == {
        0: ["order_date + 30 days", "2026-06-01 + 30 days", "2026-07-01"],
        1: ["2026-07-01 - 1 months down", "2026-06-01"],
        2: ["2026-06-01T09:30:00+02:00"],
        3: ["2026-02-30"],
    }
    assert values(reading) == {
        0: date(2026, 7, 1),
        1: date(2026, 6, 1),
        2: datetime.fromisoformat("2026-06-01T09:30:00+02:00"),
    }
    assert reading.last_answer is not None
    assert (reading.last_answer.text, reading.last_answer.value) == ("2026-07-01", date(2026, 7, 1))


def values(reading: Reading) -> dict[int | None, object]:
    return {seen.step: seen.result.value for seen in reading.seen if seen.result}


@pytest.mark.parametrize("form", FORMS)
def test_every_step_is_seen_with_its_result_and_place(form: str) -> None:
    text = FORMS[form]
    reading = read_freely(text, NAMES)
    assert values(reading) == {0: 16, 1: 25, 2: 41}
    assert (reading.missing, reading.undecided, reading.extra) == ((), (), ())
    for seen in reading.seen:
        if seen.result:
            assert text[seen.result.at : seen.result.end].strip("`") == str(seen.result.value)
            assert seen.at <= seen.result.at < seen.result.end <= seen.end
    assert reading.last_answer is not None
    assert reading.last_answer.value == 41


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("ANSWER: 94", ["94"]),
        ("Answer:\n\n42", ["42"]),
        ("The final answer is **-12.5**.", ["-12.5"]),
        ("#### 1,250", ["1,250"]),
        ("so \\boxed{7} it is", ["7"]),
        ("The answer is \\boxed{7}", ["7"]),
        ('{"answer": "approve"}', ["approve"]),
        ("Answer: approve the claim.", ["approve the claim"]),
        ("The answer is yes.", ["yes"]),
        ("Answer: 12\nWait.\nAnswer: 13", ["12", "13"]),
        ("S3 = 4\nS3 = 5", ["4", "5"]),
        ("157", ["157"]),
        ("-157.\n", ["-157"]),
        ("9180 million", ["9180 million"]),
        ("9180 x 2 = 18360", ["18360"]),
        ("A: 4", ["4"]),
        ("The result is 7.", ["7"]),
        ("The result is 7.\nThe answer is 8.", ["8"]),
        ("<answer>7</answer>", ["7"]),
        ("\\boxed{9{,}180}", ["9{,}180"]),
        ("\\boxed{\\text{9180}}", ["9180"]),
        ("The answer is $1,234.50.", ["1,234.50"]),
        ("Answer: March 2, 2026", ["March 2, 2026"]),
        ('[{"S1": 1}, {"answer": 7}]', ["7"]),
        ('Here: {"S1": 1} {"S3": 7}', ["7"]),
        ("The answer follows with the number only", []),
        ("S3 = 20 *", []),
        ("3 4 5", []),
        ("S3", []),
        ("", []),
    ],
)
def test_every_answer_is_found_where_it_stands(text: str, answers: list[str]) -> None:
    reading = read_freely(text, NAMES)
    assert [answer.text for answer in reading.answers] == answers
    for answer in reading.answers:
        assert text[answer.at : answer.end] == answer.text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<think>S3 = 900. The answer is 900.</think>\nS3 = 5", {2: 5}),
        ("Well. [THINK]S3 = 900[/THINK] S3 = 5", {2: 5}),
        ("<think>S3 = 900\nThe answer is 900.", {}),
        ("<think>\n@begin p abcdef\n3 S3 = 900\n@end abcdef\n</think>\nS3 = 5", {2: 5}),
        ('{"S3": 5}\n<think>', {2: 5}),
    ],
)
def test_what_is_thought_in_tags_is_not_read(text: str, found: dict[int | None, object]) -> None:
    reading = read_freely(text, NAMES)
    assert values(reading) == found
    assert not any("900" in text[seen.at : seen.end] for seen in reading.seen)
    assert not any("900" in answer.text for answer in reading.answers)


def test_what_is_missing_extra_and_given_is_told_apart() -> None:
    reading = read_freely("x = 3\nS1 = 3\n7. S9 = 4\nS3 = S1", NAMES, given=["x"])
    assert [step.name for step in reading.missing] == ["S2"]
    assert [(seen.name, seen.number) for seen in reading.extra] == [("S9", "7")]
    assert reading.answers == ()


def test_the_name_counts_more_than_the_number() -> None:
    assert values(read_freely("[2] S3 = 5", NAMES)) == {2: 5}


def test_the_list_of_a_loop_is_no_name_that_its_line_gives_a_value() -> None:
    source = (
        "procedure p(a: int) -> int\n  xs = [a, 2]\n  s = 0\n"
        "  for x in xs at most 3\n    s = s + x\n  return s\n"
    )
    reading = read_freely("1 xs = [1, 2]\n3 for x in xs = 2\n", load(source).procedures["p"])
    assert [(seen.number, seen.name) for seen in reading.seen] == [("1", "xs"), ("3", None)]
    assert [part.value for part in reading.seen[1].parts] == [2]
    assert [step.number for step in reading.missing] == ["2", "4"]


PROGRAM = load(
    "procedure p(qty: int) -> int\n  net = qty * 3\n  if net > 10\n    fee = 0\n  else\n    fee = 2\n"
    '  require qty > 0 else deny "Nothing."\n  total = net + fee\n  return total\n'
).procedures["p"]


def test_a_step_that_may_rightly_be_absent_is_never_called_missing() -> None:
    reading = read_freely("qty = 4 items. fee = 0", PROGRAM)
    assert [step.number for step in reading.missing] == ["1", "2", "4"]
    assert [step.number for step in reading.undecided] == ["3.1", "4.1", "5", "6"]
    assert reading.extra == ()


def test_the_answer_of_a_program_is_what_its_return_names() -> None:
    reading = read_freely('The total = 12 + 0 = 12.\n6 return 12\n4.1 deny "Nothing."', PROGRAM)
    assert [answer.value for answer in reading.answers] == [12, 12, "Nothing."]


def test_of_an_execution_every_step_is_sure() -> None:
    steps = [step for step, _ in reference(PROGRAM, {"qty": 4}, {})[0]]
    reading = read_freely("net = 12", steps)
    assert [step.number for step in reading.missing] == [step.path for step in steps[1:]]


def test_a_variable_with_several_steps_has_them_in_order() -> None:
    reading = read_freely("net = 1\nnet = 2\nnet = 3", ["net", "fee", "net"])
    assert [seen.step for seen in reading.seen] == [0, 2, 2]


@pytest.mark.parametrize(
    "piece",
    [
        "S1 = ",
        "1 222 ",
        '{"',
        "{",
        "(",
        '"\\',
        "\\boxed{",
        "\\boxed{**",
        "**",
        "| S1 ",
        "Answer: ",
        "answer ",
        "1.1",
        "=",
        "\\frac{1}{",
        "- ",
        "9",
        "x.",
        " ",
        "S1 ",
        "[1",
        'S1: {"',
        "1,2",
        "\\boxed{9",
        "| a | b |",
        "|-|-",
        "S1 is ",
        "S1 (a): ",
        "lbs. X ",
        "1[1].",
        "#",
        "#### ",
        "Result: ",
        "final answer is ",
    ],
)
@pytest.mark.parametrize("end", ["", "\n"])
def test_reading_takes_linear_time(piece: str, end: str) -> None:
    def seconds(size: int) -> float:
        text = (piece + end) * (size // len(piece + end))
        best = 9.0
        for _ in range(3):
            start = process_time()
            read_freely(text, NAMES)
            best = min(best, process_time() - start)
        return best

    assert seconds(8_000) < 12 * seconds(2_000) + 0.1  # all over again for each letter, it is sixteen times


SIGNS = st.characters(min_codepoint=32, max_codepoint=126)
WORDS = st.sampled_from(
    ["Answer: ", "answer ", "final answer is ", "Result: 5 ", "#### ", "#### 5 ", "<answer>", "</answer>", "\\boxed{1", "S1 ", "S1 is ",
     "Step 1: ", "1 return ", "for ", "and ", "March ", "5 percent ", "EUR 5 ", "per cent", "1,234", "\\frac{", "| 1 ", "1[1].", '{"a": ', "\n"]
)  # fmt: skip


@given(st.lists(SIGNS | WORDS, min_size=1, max_size=3).map("".join))
@example("#")
@example("#### ")
@example("Answer: ")
@example("Result: ")
def test_no_run_of_anything_is_read_over_and_over(piece: str) -> None:
    text = "x " + piece * (1_000 // len(piece))
    assert calls(lambda: read_freely(text, NAMES)) < 1_000 * len(text)  # a sign that is a token takes 300


PIECES = st.sampled_from(
    ["S1", "S2 = ", "3", "=", "\n", " ", "{", "}", '"', ":", "**", "|", "\\boxed{", "\\frac{1}{2}", "Answer", "Step 2: ", "$", "1,250",
     "\u2212", "\uff17", "[2]", "return ", "1 return ", "#### ", '{"step": ', '"value": ', "-", "(", ")", ",", "%", "e9", "\U0001f600"]
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(PIECES, max_size=40).map("".join)))
def test_it_never_raises_and_every_place_is_right(text: str) -> None:
    reading = read_freely(text, NAMES)
    for answer in reading.answers:
        assert text[answer.at : answer.end] == answer.text != ""
    for seen in (*reading.seen, *reading.extra):
        assert 0 <= seen.at <= seen.end <= len(text)
        for part in seen.parts:
            assert 0 <= part.at <= part.end <= len(text)
    read_freely(text, PROGRAM)


@given(
    st.lists(st.fractions(max_denominator=1).map(int), min_size=3, max_size=3),
    st.sampled_from(["\n", ", ", "; so ", " and "]),
)
def test_what_is_written_is_what_is_read(numbers: list[int], between: str) -> None:
    text = between.join(f"{name} = {number}" for name, number in zip(NAMES, numbers, strict=True))
    assert values(read_freely(text, NAMES)) == dict(enumerate(map(Fraction, numbers)))


def test_the_members_of_a_value_are_no_steps() -> None:
    text = 'lines = [{"total": 4, "qty": 2}]\ntotal = 9\nlines: {\n "total": 5\n}\n'
    reading = read_freely(text, ["lines", "total"])
    assert [(seen.name, seen.result.value) for seen in reading.seen if seen.result] == [("total", 9)]

"""The checker as its users meet it, piece by piece."""

from __future__ import annotations

from fractions import Fraction
from time import process_time

import pytest

from guard.check.checker import VIOLATIONS, Checker
from guard.check.verdict import SHOWN, Ignored, Kind, StepVerified, Verdict, Violation
from guard.errors import InvalidState
from guard.procedure.execute import Program
from guard.procedure.expected import EndKind
from guard.procedure.load import load
from guard.procedure.model import StepKind
from guard.procedure.types import Value
from guard.trace.lines import Limits

TEXT = """\
numbers carry exact

procedure share(note: text, n: int) -> decimal(2)
  extract count: int from note quote where count >= 1 and count <= 9
  each: part = 10 / count to 2
  for i in [1, 2] at most 2
    part = part + n to 2
  check part < 100
  return part
"""
INPUTS: dict[str, Value] = {"note": "There are 3 of them.", "n": 5}
TRACE = """\
@begin share 3fa92c
1 count = 3 <- "3 of them"
2 part = 10 / 3 = 3.33
3 for i in [1, 2] = 2
3[1].1 part = 3.33 + 5 = 8.33
3[2].1 part = 8.33 + 5 = 13.33
4 check 13.33 < 100 = true
5 return 13.33
@end 3fa92c
"""
LINES = TRACE.splitlines(keepends=True)


@pytest.fixture(scope="module")
def program() -> Program:
    return load(TEXT, "share.proc").procedures["share"]


def start(program: Program, text: str = "", *, stop_at_first: bool = True) -> Checker:
    checker = Checker(program, INPUTS, nonce="3fa92c", stop_at_first=stop_at_first)
    checker.feed(text)
    return checker


def verdict(checker: Checker) -> Verdict:
    """What the verdict is now; it changes behind the type checker's back."""
    return checker.verdict


def test_a_step_is_judged_when_its_line_ends(program: Program) -> None:
    checker = start(program, "".join(LINES[:2]))
    assert checker.feed("2 part = 10 / 3 = 3.3") == []
    assert checker.feed("3") == []
    assert checker.feed("\n") == [
        StepVerified(
            path="2",
            kind=StepKind.ASSIGN,
            label="each",
            target="part",
            value=Fraction(333, 100),
            text=LINES[2],
            at=len("".join(LINES[:2])),
            end=len("".join(LINES[:3])),
            decided=False,
        )
    ]


def test_what_the_model_decides_is_marked_and_kept(program: Program) -> None:
    checker = start(program, LINES[0])
    [step] = checker.feed(LINES[1])
    assert isinstance(step, StepVerified)
    assert (step.decided, step.value, step.target) == (True, 3, "count")
    assert [(expected.path, value) for expected, value in checker.observed] == [("1", 3)]
    assert checker.sent == (3,)


def test_knows_what_is_due(program: Program) -> None:
    checker = start(program)
    paths = []
    for line in LINES:
        paths.append(checker.expected and checker.expected.path)
        checker.feed(line)
    assert paths == ["1", "1", "2", "3", "3[1].1", "3[2].1", "4", "5", None]
    assert checker.sent == (3, None, None, None, None, None, None)


def test_the_verdict_is_pending_until_the_closing_line(program: Program) -> None:
    checker = start(program, "".join(LINES[:-1]))
    assert verdict(checker) is Verdict.PENDING
    assert checker.ending is not None
    assert (checker.ending.kind, checker.ending.value) == (EndKind.RETURN, Fraction(1333, 100))
    checker.feed(LINES[-1])
    assert verdict(checker) is Verdict.PASSED
    assert checker.close() == []
    assert checker.verified == TRACE


def test_text_behind_the_closing_line_undoes_a_pass(program: Program) -> None:
    checker = start(program, TRACE)
    assert verdict(checker) is Verdict.PASSED
    checker.feed("P.S.\n")
    assert verdict(checker) is Verdict.FAILED
    assert checker.verified == TRACE


def test_verified_text_ends_with_the_last_verified_line(program: Program) -> None:
    checker = start(program, "".join(LINES[:3]) + "\n\n" + LINES[3][:5])
    assert checker.verified == "".join(LINES[:3])
    checker.feed(LINES[3][5:])
    assert checker.verified == "".join(LINES[:3]) + "\n\n" + LINES[3]


def test_what_is_ignored_is_said(program: Program) -> None:
    checker = start(program, LINES[0])
    assert checker.feed(" \n") == [Ignored(text=" \n", at=len(LINES[0]), why="a blank line")]


def test_goes_on_behind_verified_text_with_offsets_from_its_start(program: Program) -> None:
    verified = "".join(LINES[:4])
    checker = Checker(program, INPUTS, nonce="3fa92c", verified=verified)
    assert checker.expected is not None
    assert checker.expected.path == "3[1].1"
    [violation] = checker.feed("3[1].1 part = 3.33 + 5 = 9\n")
    assert isinstance(violation, Violation)
    assert violation.at == len(verified) + len("3[1].1 part = 3.33 + 5 = ")


def test_goes_on_behind_a_last_line_that_had_no_end(program: Program) -> None:
    old = start(program, "".join(LINES[:3]).rstrip("\n"))
    old.close()
    assert old.verified == "".join(LINES[:3]).rstrip("\n")
    new = Checker(program, INPUTS, nonce="3fa92c", verified=old.verified)
    assert new.verified == "".join(LINES[:3])
    assert new.feed("".join(LINES[3:]))
    assert new.verdict is Verdict.PASSED


@pytest.mark.parametrize("text", ["Hello", LINES[1], LINES[0] + LINES[2], TRACE + "x", LINES[0] + "\n"])
def test_a_prefix_that_is_not_verified_is_a_bug_of_ours(program: Program, text: str) -> None:
    with pytest.raises(InvalidState, match="not a verified prefix"):
        Checker(program, INPUTS, nonce="3fa92c", verified=text)


def test_feeding_a_closed_checker_is_a_bug_of_ours(program: Program) -> None:
    checker = start(program)
    checker.close()
    with pytest.raises(InvalidState):
        checker.feed("")


def test_closing_twice_says_nothing_new(program: Program) -> None:
    checker = start(program, LINES[0])
    [violation] = checker.close()
    assert isinstance(violation, Violation)
    assert violation.kind is Kind.MISSING_ANSWER
    assert checker.close() == []


def test_without_a_nonce_the_opening_lines_is_taken(program: Program) -> None:
    for text, expected in (
        (TRACE.replace("3fa92c", "000000"), Verdict.PASSED),
        (TRACE.replace("@end 3fa92c", "@end 000000"), Verdict.FAILED),
    ):
        checker = Checker(program, INPUTS, nonce=None)
        checker.feed(text)
        assert verdict(checker) is expected


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("stop", Kind.MISSING_ANSWER),
        ("eos_token", Kind.MISSING_ANSWER),
        ("tool_calls", Kind.TRUNCATED),
        ("abort", Kind.TRUNCATED),
        ("length", Kind.TRUNCATED),
        ("content_filter", Kind.TRUNCATED),
        (None, Kind.TRUNCATED),
    ],
)
def test_only_a_response_that_was_cut_is_truncated(program: Program, reason: str | None, kind: Kind) -> None:
    checker = start(program, "".join(LINES[:3]))
    [violation] = checker.close(reason)
    assert isinstance(violation, Violation)
    assert (violation.kind, violation.step, violation.step_kind) == (kind, "3", StepKind.LOOP)
    assert violation.at == len("".join(LINES[:3]))


def test_a_failed_procedure_is_not_the_models_fault(program: Program) -> None:
    checker = Checker(program, INPUTS | {"n": 60}, nonce="3fa92c")
    text = "".join(LINES[:4]) + "3[1].1 part = 3.33 + 60 = 63.33\n3[2].1 part = 63.33 + 60 = 123.33\n"
    assert len(checker.feed(text + "4 check 123.33 < 100 = false\nnonsense\n")) == 5
    assert checker.failed_procedure is not None
    assert checker.failed_procedure.path == "4"
    assert (checker.verdict, checker.violation, checker.verified) == (Verdict.PENDING, None, text)
    assert checker.feed("more\n") == []
    assert checker.close() == []
    assert Checker(program, INPUTS | {"n": 60}, nonce="3fa92c", verified=text).failed_procedure is not None


def test_a_wrong_value_may_make_the_procedure_fail_where_checking_goes_on(program: Program) -> None:
    checker = start(program, "".join(LINES[:5]), stop_at_first=False)
    checker.feed("3[2].1 part = 8.33 + 5 = 1000\n4 check 1000 < 100 = true\nnonsense\n" + LINES[-1])
    assert [violation.kind for violation in checker.violations] == [Kind.WRONG_VALUE]
    assert checker.failed_procedure is not None
    assert (checker.failed_procedure.path, checker.verdict) == ("4", Verdict.FAILED)


def test_a_procedure_may_fail_at_its_first_step() -> None:
    program = load("procedure p(n: int) -> int\n  check n > 0\n  return n\n", "p.proc").procedures["p"]
    checker = Checker(program, {"n": 0}, nonce="3fa92c")
    assert checker.feed("@begin p 3fa92c\n") == []
    assert checker.failed_procedure is not None
    assert (checker.expected, checker.verdict) == (None, Verdict.PENDING)


@pytest.mark.parametrize(
    ("limits", "at"),
    [
        (Limits(line=60), len("".join(LINES[:2]))),
        (Limits(lines=4), len("".join(LINES[:2]) + "2" * 50 + "\n\n")),
        (Limits(total=100), len("".join(LINES[:2]))),
    ],
)
def test_limits_are_violations_at_the_line_that_exceeds_them(
    program: Program, limits: Limits, at: int
) -> None:
    text = "".join(LINES[:2]) + ("2" * 50 + "\n\n\n" if limits.lines == 4 else "2" * 70)
    for step in (1, len(text)):
        checker = Checker(program, INPUTS, nonce="3fa92c", stop_at_first=False, limits=limits)
        judgements = [j for i in range(0, len(text), step) for j in checker.feed(text[i : i + step])]
        judgements += checker.close()
        last = judgements[-1]
        assert isinstance(last, Violation)
        assert (last.kind, last.at, last.step) == (Kind.LIMIT_EXCEEDED, at, "2")


def test_a_limit_that_the_last_line_exceeds_is_said_also_where_the_response_was_cut(program: Program) -> None:
    checker = Checker(program, INPUTS, nonce="3fa92c", limits=Limits(lines=2))
    checker.feed("".join(LINES[:2]) + "2 part")
    [violation] = checker.close("length")
    assert isinstance(violation, Violation)
    assert (violation.kind, violation.expected) == (Kind.LIMIT_EXCEEDED, "at most 2 lines")


def test_what_a_violation_quotes_is_printable_and_short(program: Program) -> None:
    checker = start(program, LINES[0])
    [violation] = checker.feed("\ud800\x1b[31m\u202e" + " ".join(map(str, range(1000))) + "\n")
    assert isinstance(violation, Violation)
    assert violation.found.startswith("\\ud800\\x1b[31m\\u202e")
    assert len(violation.found) == len(violation.expected) == SHOWN or len(violation.expected) < SHOWN
    assert violation.found.isprintable()
    violation.found.encode()


def test_lists_no_more_than_so_many_violations(program: Program) -> None:
    checker = start(program, LINES[0], stop_at_first=False)
    assert len(checker.feed("nonsense\n" * 500)) == VIOLATIONS == len(checker.violations)
    assert checker.feed("".join(LINES[1:])) == []


def test_the_first_violation_stays_the_violation(program: Program) -> None:
    checker = start(program, LINES[0] + "a\nb\n", stop_at_first=False)
    assert checker.violation is checker.violations[0]
    assert checker.violation is not None
    assert checker.violation.found == "a"


def test_behind_a_departure_nothing_more_is_verified_text(program: Program) -> None:
    checker = start(program, LINES[0] + "nonsense\n" + "".join(LINES[1:]), stop_at_first=False)
    assert checker.verified == LINES[0]
    assert len(checker.observed) == 7
    assert verdict(checker) is Verdict.FAILED


@pytest.mark.parametrize(
    "value",
    ["9**9**9", "1e999999", "9" * 5000, "NaN", "Infinity", "\u0663", "\uff13", "0x10", "1_000", "½", "³"],
    ids=lambda value: value[:12],
)
@pytest.mark.parametrize("line", ["1 count = {}", "2 part = 10 / 3 = {}", "2 part = {} / 3 = 3.33"])
def test_hostile_numbers_are_violations_decided_at_once(program: Program, line: str, value: str) -> None:
    before = "".join(LINES[:2]) if line[0] == "2" else LINES[0]
    checker = start(program, before)
    began = process_time()
    [violation] = checker.feed(line.format(value) + "\n")
    assert process_time() - began < 5  # microseconds; converting 1e999999 takes 25 s
    assert isinstance(violation, Violation)
    assert violation.kind in {
        Kind.MALFORMED,
        Kind.LIMIT_EXCEEDED,
        Kind.RUNAWAY,
        Kind.WRONG_EXPRESSION,
        Kind.INADMISSIBLE_VALUE,
    }


def test_a_far_step_is_told_from_one_that_never_comes_at_once() -> None:
    text = (
        "procedure p(xs: list of int) -> int\n  n = 0\n  for x in xs at most 10000\n    n = n + x\n"
        "  if n < 0\n    n = 0\n  return n\n"
    )
    program = load(text, "p.proc").procedures["p"]
    for line, kind in (
        ("2[9000].1 n = 1 + 1 = 2", Kind.SKIPPED_STEP),
        ("2[9001].1 n = 1 + 1 = 2", Kind.EXTRA_STEP),
        ("999999999 n = 2", Kind.EXTRA_STEP),
    ):
        checker = Checker(program, {"xs": (1,) * 9000}, nonce="3fa92c")
        checker.feed("@begin p 3fa92c\n1 n = 0\n2 for x in xs = 9000\n")
        began = process_time()
        [violation] = checker.feed(f"{line}\n")
        assert process_time() - began < 5
        assert isinstance(violation, Violation)
        assert violation.kind is kind


def test_a_long_row_of_digits_between_the_steps_is_left_out_in_time(program: Program) -> None:
    text = "".join([*LINES[:2], "1" * 16_000, "\n", *LINES[2:]])
    checker = Checker(program, INPUTS, nonce="3fa92c", tolerant=True)
    start = process_time()
    checker.feed(text)
    assert process_time() - start < 0.5  # a search that goes back over the digits takes some seconds
    assert checker.verdict is Verdict.PASSED

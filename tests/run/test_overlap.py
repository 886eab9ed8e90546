"""Whatever a continued generation says first, every step is counted and delivered once, and as it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from guard.check.checker import Checker
from guard.check.verdict import Ignored, Kind, Violation
from guard.procedure.expected import Expected
from guard.procedure.types import Value
from guard.procedure.values import spell
from guard.run.ladders import Action, always
from guard.run.lines import scaffold_cell
from guard.run.messages import (
    Command,
    Emit,
    Ended,
    Finish,
    Message,
    Observe,
    Open,
    Outcome,
    StepClass,
    Target,
    Text,
)
from guard.run.overlap import ASIDES, PASSES
from guard.run.policy import Policy
from guard.run.run import Job, Run
from guard.trace import render
from guard.trace.lines import LIMITS
from tests.run.procedures import (
    ASIDE,
    CALLER,
    DIALOGUE,
    NONCE,
    NOTE,
    ORDER,
    PREFILL,
    SHARES,
    STOCK,
    SUMS,
    WAYS,
    job,
    program,
)
from tests.strategies import Sample, samples

EVERY: Final[dict[str, tuple[dict[str, Value], dict[str, Value]]]] = {  # inputs, decisions by target
    SUMS: ({"x": 3, "y": 4}, {}),
    ORDER: ({"note": NOTE}, {"qty": 6, "loyal": True}),
    SHARES: ({"note": NOTE}, {"people": 6}),
    STOCK: ({"counts": (3, 4), "least": 5}, {}),
    ASIDE: ({"x": 3, "y": 4, "note": NOTE}, {"n": 6}),
    WAYS: ({"x": 3, "y": 4}, {}),
    CALLER: ({"x": 3, "z": 4}, {}),
}


def reference(text: str) -> list[tuple[Expected, str]]:
    """The steps of a procedure and their lines, without ends."""
    inputs, decisions = EVERY[text]
    execution = program(text).execute(inputs)
    steps: list[tuple[Expected, str]] = []
    sent: Value | None = None
    while True:
        try:
            step = execution.send(sent)
        except StopIteration:
            return steps
        sent = decision(step, decisions) if step.decision is not None else None
        quotes = ("Six panels",) if step.decision is not None and step.decision.quote else ()
        steps.append((step, render.line(step, sent, quotes)))


def decision(step: Expected, decisions: dict[str, Value]) -> Value:
    return decisions.get(step.target or "", "times")


# --- how a model may begin --------------------------------------------------------------------------


def respaced(line: str) -> str:
    """Other blanks, outside of strings."""
    if '"' in line:
        return f"{line}  "
    return re.sub(" ([-+*/]|=) ", r"   \1\t", line)


def respelled(line: str) -> str:
    """Another spelling of the same number at the end of a line."""
    return re.sub(r"(?<== )(-?[0-9]+)$", r"\1.0", re.sub(r"(\.[0-9]+)$", r"\g<1>0", line))


SPELLINGS: Final[dict[str, Callable[[str], str]]] = {
    "as it is": lambda line: line,
    "respaced": respaced,
    "respelled": respelled,
    "indented": lambda line: f"  \t{line}",
    "with a carriage return": lambda line: f"{line}\r",
    "and a blank line": lambda line: f"{line}\n",
}


@dataclass(frozen=True, kw_only=True)
class Start:
    """How an answer begins: what it repeats, and where in the due line it goes on."""

    fenced: bool
    preamble: str
    opening: bool
    last: int  # how many of the verified lines
    half: int  # where in the first of these it begins, in words; 0: at its start
    spelling: str
    begins: str

    def said(self, begin: str, stands: Sequence[str]) -> str:
        other = SPELLINGS[self.spelling]
        last = list(stands[max(0, len(stands) - self.last) :])
        if last and self.half and not self.opening:
            words = last[0].split(" ")
            rest = " ".join(words[min(self.half, len(words) - 1) :])
            again = [rest if "=" in rest or '"' in rest else last[0], *map(other, last[1:])]
        else:
            again = [*([other(begin)] if self.opening else []), *map(other, last)]
        lines = [*([self.preamble] if self.preamble else []), *(["```text"] if self.fenced else []), *again]
        return "".join(f"{line}\n" for line in lines)


STARTS: Final = st.builds(
    Start,
    fenced=st.booleans(),
    preamble=st.sampled_from(["", "Sure, here is the rest:", "\n\n"]),
    opening=st.booleans(),
    last=st.integers(0, 20),
    half=st.integers(0, 6),
    spelling=st.sampled_from(list(SPELLINGS)),
    begins=st.sampled_from(["whole", "head", "body", "given", "value", "= value", "tail"]),
)


def continued(start: Start, step: Expected, line: str, begun: str, *, prefilled: bool) -> str:
    """The due line as the answer has it."""
    nothing_before = not (start.opening or start.last or start.half)
    rests = {
        "head": line.removeprefix(f"{step.path} "),
        "body": line.removeprefix(f"{step.path} {step.head} "),
        "given": line.removeprefix(begun) if begun else line,
        "value": line.removeprefix(begun).strip() if len(begun) > len(step.path) else line,
        "= value": f"= {line.removeprefix(begun).strip()}" if begun.endswith("=") else line,
        "tail": line.removeprefix(begun) if prefilled and nothing_before else line,
    }
    rest = rests.get(start.begins, line)
    if step.decision is not None and start.begins == "body":
        return line  # a bare value decides only where nothing else was said
    return rest


def chunked(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


# --- runs --------------------------------------------------------------------------------------------


class Exchange:
    """A run and all that it has done."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.commands: list[Command] = run.start()

    def says(self, *pieces: str) -> None:
        """The upstream says something, until it is cut off."""
        number = self.opened.generation
        for piece in pieces:
            if self.over or self.opened.generation != number:
                return
            self.commands += self.run.handle(Text(piece))

    def ends(self) -> None:
        if not self.over:
            self.commands += self.run.handle(Ended("stop"))

    @property
    def opened(self) -> Open:
        return [command for command in self.commands if isinstance(command, Open)][-1]

    @property
    def over(self) -> bool:
        return isinstance(self.commands[-1], Finish)

    @property
    def finish(self) -> Finish:
        last = self.commands[-1]
        assert isinstance(last, Finish)
        return last

    @property
    def emitted(self) -> list[str]:
        return [command.text for command in self.commands if isinstance(command, Emit)]

    @property
    def violations(self) -> list[Violation]:
        return [judgement for judgement in self.judged if isinstance(judgement, Violation)]

    @property
    def settled(self) -> list[object]:
        """What was judged, but for text behind the end, which is cut off as soon as there is some."""
        return [j for j in self.judged if not (isinstance(j, Ignored) and j.why.startswith("behind all"))]

    @property
    def ignored(self) -> list[Ignored]:
        return [judgement for judgement in self.judged if isinstance(judgement, Ignored)]

    @property
    def judged(self) -> list[object]:
        return [command.judgement for command in self.commands if isinstance(command, Observe)]


def cut_at(text: str, at: int, target: Target, action: Action = Action.RESUME) -> Exchange:
    """A run that went wrong at one of its steps and was opened again there."""
    return cut_off(job(text, EVERY[text][0]), reference(text), at, target, action)


def cut_off(
    asked: Job, steps: Sequence[tuple[Expected, str]], at: int, target: Target, action: Action
) -> Exchange:
    policy = Policy(rules=always([action, Action.REJECT]))
    exchange = Exchange(Run(asked, policy, [target]))
    begin = "" if target.prefill else f"@begin {asked.program.name} {NONCE}\n"
    said = begin + "".join(f"{line}\n" for _, line in steps[:at])
    wrong = f"{steps[at][0].path} {steps[at][0].head} {{\n"
    exchange.says(f"{said}{wrong}".removeprefix(exchange.opened.prefix.rpartition("\n")[2]))
    assert len(exchange.violations) == 1
    assert not exchange.over, exchange.finish.error
    return exchange


@settings(max_examples=200, deadline=None)
@given(
    text=st.sampled_from(list(EVERY)),
    place=st.floats(0, 1, exclude_max=True),
    target=st.sampled_from([DIALOGUE, PREFILL]),
    scaffold=st.booleans(),
    start=STARTS,
    size=st.integers(1, 12) | st.just(10_000),
)
def test_every_step_is_delivered_once_however_the_answer_begins(
    *, text: str, place: float, target: Target, scaffold: bool, start: Start, size: int
) -> None:
    check_delivery(
        job(text, EVERY[text][0]), reference(text), place, target, scaffold=scaffold, start=start, size=size
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    sample=samples(shuffle=False),
    place=st.floats(0, 1, exclude_max=True),
    target=st.sampled_from([DIALOGUE, PREFILL]),
    scaffold=st.booleans(),
    start=STARTS,
    size=st.integers(1, 12) | st.just(10_000),
)
def test_so_is_every_step_of_procedures_that_nobody_thought_of(
    *, sample: Sample, place: float, target: Target, scaffold: bool, start: Start, size: int
) -> None:
    messages: tuple[Message, ...] = ({"role": "user", "content": "Go."},)
    asked = Job(program=sample.program, inputs=sample.inputs, messages=messages, nonce=NONCE)
    lines = render.trace(sample.program, sample.steps, NONCE).split("\n")[1:-2]
    steps = [(step, line) for (step, _), line in zip(sample.steps, lines, strict=True)]
    check_delivery(asked, steps, place, target, scaffold=scaffold, start=start, size=size)


def check_delivery(
    asked: Job,
    steps: Sequence[tuple[Expected, str]],
    place: float,
    target: Target,
    *,
    scaffold: bool,
    start: Start,
    size: int,
) -> None:
    """Cut a run at a place, let the model go on as `start` says, and look at what was delivered."""
    at = int(place * len(steps))
    step, line = steps[at]
    cell = scaffold_cell(step, None)
    scaffolded = scaffold and cell is not None
    if target.prefill and start.preamble.strip():
        return  # a prefix is gone on with, not talked about
    exchange = cut_off(asked, steps, at, target, Action.SCAFFOLD if scaffolded else Action.RESUME)
    begun = render.scaffold(step, cell) if scaffolded and cell is not None else ""
    if target.prefill:
        begun = begun or step.path
    begin = f"@begin {asked.program.name} {NONCE}"
    answer = start.said(begin, [before for _, before in steps[:at]])
    answer += continued(start, step, line, begun, prefilled=target.prefill) + "\n"
    answer += "".join(f"{behind}\n" for _, behind in steps[at + 1 :]) + ("```\n" if start.fenced else "")
    exchange.says(*chunked(answer, size))
    exchange.ends()
    assert exchange.over, (answer, exchange.violations)
    finish = exchange.finish
    assert finish.outcome is Outcome.ACCEPTED_AFTER_RETRY, (answer, finish.error)
    assert exchange.emitted == [f"{line}\n" for _, line in steps]
    assert finish.trace == f"{begin}\n{''.join(exchange.emitted)}@end {NONCE}\n"
    assert list(finish.classes) == [step.path for step, _ in steps]
    assert finish.steps.missing == 0
    expected = StepClass.MODEL_DECIDED if step.decision is not None else StepClass.VERIFIED
    assert finish.classes[step.path] is (StepClass.SCAFFOLDED if scaffolded else expected)


# --- what is wrong stays wrong --------------------------------------------------------------------------


ANSWERS: Final = st.builds(
    lambda start, lines, wrong: (start, lines, wrong),
    start=STARTS,
    lines=st.integers(0, 4),
    wrong=st.lists(
        st.tuples(
            st.floats(0, 1, exclude_max=True), st.sampled_from(["7", "1", " ", "\n", "=", '"', "true", ""])
        ),
        min_size=1,
        max_size=3,
    ),
)


def spoiled(text: str, wrong: Sequence[tuple[float, str]]) -> str:
    """A text with some characters put in place of others."""
    for place, instead in wrong:
        at = int(place * len(text))
        text = text[:at] + instead + text[at + 1 :]
    return text


@settings(max_examples=200, deadline=None)
@given(
    text=st.sampled_from(list(EVERY)),
    place=st.floats(0, 1, exclude_max=True),
    target=st.sampled_from([DIALOGUE, PREFILL]),
    action=st.sampled_from([Action.SCAFFOLD, Action.RESUME]),
    answer=ANSWERS,
    size=st.integers(1, 12),
)
def test_what_is_delivered_is_right_whatever_is_said_and_however_it_is_cut(
    *,
    text: str,
    place: float,
    target: Target,
    action: Action,
    answer: tuple[Start, int, list[tuple[float, str]]],
    size: int,
) -> None:
    steps = reference(text)
    at = int(place * len(steps))
    step, line = steps[at]
    action = action if scaffold_cell(step, None) is not None else Action.RESUME
    start, lines, wrong = answer
    begin = f"@begin {program(text).name} {NONCE}\n"
    said = start.said(begin.rstrip(), [before for _, before in steps[:at]])
    said += continued(start, step, line, "", prefilled=target.prefill) + "\n"
    said = spoiled(said + "".join(f"{line}\n" for _, line in steps[at + 1 : at + 1 + lines]), wrong)
    whole, cut = cut_at(text, at, target, action), cut_at(text, at, target, action)
    whole.says(said)
    cut.says(*chunked(said, size))
    assert whole.settled == cut.settled
    told = begin + "".join(whole.emitted)
    checker = Checker(program(text), EVERY[text][0], nonce=NONCE, verified=told)
    for observed, value in checker.observed:
        if observed.decision is not None and observed.path != step.path:
            continue
        if observed.decision is not None:
            assert spell(value, observed.decision.type) in said or value == decision(step, EVERY[text][1])


def test_a_repeated_line_with_another_value_is_a_violation_and_what_stands_stands() -> None:
    for target in (DIALOGUE, PREFILL):
        for line in ("1 a = 3 + 4 = 8", "1 a = 3 + 5 = 8", "1 a=3+4=7.5"):
            exchange = cut_at(SUMS, 2, target)
            exchange.says(f"@begin sums {NONCE}\n{line}\n2 b = 7 * 2 = 14\n")
            assert exchange.violations[-1].kind is Kind.SELF_CORRECTION, (target, line)
            assert exchange.emitted == ["1 a = 3 + 4 = 7\n", "2 b = 7 * 2 = 14\n"]


def test_a_repetition_behind_a_new_line_is_a_repeated_step() -> None:
    exchange = cut_at(SUMS, 2, DIALOGUE)
    exchange.says("3 c = 14 - 3 = 11\n1 a = 3 + 4 = 7\n")
    assert [violation.kind for violation in exchange.violations[1:]] == [Kind.REPEATED_STEP]


@pytest.mark.parametrize("again", ["", "\n", "1 y = do doubled(3)\n"])
@pytest.mark.parametrize("size", [1, 10_000])
def test_a_line_that_was_given_whole_needs_its_end_only(again: str, size: int) -> None:
    exchange = cut_at(CALLER, 0, PREFILL, Action.SCAFFOLD)
    assert exchange.opened.prefix.endswith("\n1 y = do doubled(3)")
    exchange.says(*chunked(f"\n{again}1.1 return 3 * 2 = 6\n2 return 6 + 4 = 10\n", size))
    exchange.ends()
    assert exchange.finish.outcome is Outcome.ACCEPTED_AFTER_RETRY
    assert len(exchange.violations) == 1
    assert exchange.emitted[0] == "1 y = do doubled(3)\n"
    assert exchange.finish.classes["1"] is StepClass.SCAFFOLDED


def test_a_line_that_was_completed_may_follow_whole_until_another_one_does() -> None:
    exchange = cut_at(SUMS, 2, DIALOGUE, Action.SCAFFOLD)
    exchange.says("11\n\n3 c = 14 - 3 = 11\n")
    assert exchange.emitted[-1] == "3 c = 14 - 3 = 11\n"
    assert [ignored.why for ignored in exchange.ignored if ignored.text.strip()] == [
        "a verified line, repeated"
    ]
    exchange.says("2 b = 7 * 2 = 14\n3 c=14-3=11\n", "4 return 11\n")
    assert len(exchange.violations) == 1
    exchange.ends()
    assert exchange.finish.outcome is Outcome.ACCEPTED_AFTER_RETRY
    exchange = cut_at(SUMS, 1, DIALOGUE, Action.SCAFFOLD)
    exchange.says("14\n3 c = 14 - 3 = 11\n2 b = 7 * 2 = 14\n")
    assert exchange.violations[-1].kind is Kind.REPEATED_STEP


def test_a_flood_of_repetitions_ends_at_its_limit() -> None:
    exchange = cut_at(SUMS, 2, DIALOGUE)
    exchange.says(*["2 b = 7 * 2 = 14\n"] * 1000)
    assert exchange.violations[1].kind is Kind.REPEATED_STEP
    assert len(exchange.ignored) == PASSES * (2 + 1)


def test_a_flood_of_talk_ends_at_its_limit() -> None:
    exchange = cut_at(SUMS, 2, DIALOGUE)
    exchange.says(*["Let me think.\n"] * 1000)
    assert exchange.violations[1].kind is Kind.MALFORMED
    assert len(exchange.ignored) == ASIDES


@pytest.mark.parametrize("size", [7, 500, 10**6])
@pytest.mark.parametrize("ends", ["", "\n"])
@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("x", Kind.RUNAWAY),
        ("blah ", Kind.RUNAWAY),
        ("4 return 1", Kind.RUNAWAY),
        (" ".join(map(str, range(LIMITS.line))), Kind.LIMIT_EXCEEDED),
    ],
)
@pytest.mark.parametrize("target", [DIALOGUE, PREFILL])
def test_a_line_without_end_is_too_long_however_it_is_cut(
    target: Target, said: str, kind: Kind, ends: str, size: int
) -> None:
    exchange = cut_at(SUMS, 2, target)
    text = (said * (LIMITS.line // len(said) + 10))[: LIMITS.line + 9] + ends
    exchange.says(*chunked(text, size))
    assert [violation.kind for violation in exchange.violations[1:]] == [kind]
    assert exchange.ignored == []
    assert len(exchange.emitted) == 2


def test_a_flood_of_blank_lines_is_never_told_as_new() -> None:
    exchange = cut_at(SUMS, 2, PREFILL)
    exchange.says(*["\n"] * 1000)
    assert exchange.emitted == ["1 a = 3 + 4 = 7\n", "2 b = 7 * 2 = 14\n"]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("15", Kind.WRONG_VALUE),
        ("= 15", Kind.WRONG_VALUE),
        ("14 - 3 = 15", Kind.WRONG_VALUE),
        ("3 c = 14 - 3 = 15", Kind.WRONG_VALUE),
        ("c = 14 - 3 = 15", Kind.WRONG_VALUE),
        ("14", Kind.WRONG_VALUE),  # also what the line before ends in
        ("15 - 3 = 11", Kind.WRONG_EXPRESSION),
        ("11 = 11", Kind.WRONG_EXPRESSION),
    ],
)
@pytest.mark.parametrize("target", [DIALOGUE, PREFILL])
def test_a_line_that_is_completed_wrong_is_blamed_for_what_is_wrong_with_it(
    target: Target, said: str, kind: Kind
) -> None:
    exchange = cut_at(SUMS, 2, target, Action.SCAFFOLD)
    exchange.says(f"{said}\n")
    violation = exchange.violations[-1]
    assert (violation.kind, violation.step) == (kind, "3")
    assert len(exchange.emitted) == 2


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ('= 6 <- "Six panels"', 6),
        ('6 <- "Six panels"', 6),
        ('qty = 6 <- "Six panels"', 6),
        ('1 qty = 6 <- "Six panels"', 6),
        ("6", None),  # no quote, and a bare number may be anything
        ("1", None),
        ("Six", None),
    ],
)
def test_what_the_model_decides_may_be_said_without_its_number_but_not_by_a_bare_one(
    said: str, value: int | None
) -> None:
    exchange = cut_at(ORDER, 0, DIALOGUE)
    exchange.says(f"{said}\n")
    assert exchange.emitted == ([] if value is None else ['1 qty = 6 <- "Six panels"\n'])


def test_a_half_line_that_stands_already_decides_nothing() -> None:
    exchange = cut_at(ORDER, 1, DIALOGUE)
    exchange.says('= 6 <- "Six panels"\n')
    assert [ignored.why for ignored in exchange.ignored] == ["the rest of a verified line, repeated"]
    exchange.says("true\n")
    assert exchange.emitted == ['1 qty = 6 <- "Six panels"\n'], "a bare value behind a repetition is unclear"


def test_a_cut_off_half_of_the_due_line_is_truncated_not_read() -> None:
    for target in (DIALOGUE, PREFILL):
        exchange = cut_at(SUMS, 2, target, Action.SCAFFOLD)
        exchange.says("11")
        exchange.commands += exchange.run.handle(Ended("length"))
        assert exchange.violations[-1].kind is Kind.TRUNCATED
        assert len(exchange.emitted) == 2


# --- where nothing stands yet, and what goes on the wire -------------------------------------------------


FIRST: Final = [f"{line}\n" for _, line in reference(SUMS)]


def refused_at_once() -> Exchange:
    """A run whose first answer did not begin as it was told."""
    exchange = Exchange(Run(job(SUMS, EVERY[SUMS][0]), Policy(), [DIALOGUE]))
    exchange.says("Sure! Here is the trace:\n")
    assert [violation.kind for violation in exchange.violations] == [Kind.MALFORMED]
    return exchange


@pytest.mark.parametrize("talk", ["", "Sure! Here is the trace:\n\n", "```\n"])
@pytest.mark.parametrize("begin", [f"@begin sums {NONCE}\n", f" @begin  sums {NONCE}\r\n", ""])
@pytest.mark.parametrize("size", [1, 10_000])
def test_a_second_answer_may_begin_with_talk_and_without_the_opening_line(
    talk: str, begin: str, size: int
) -> None:
    exchange = refused_at_once()
    exchange.says(*chunked(talk + begin + "".join(FIRST), size))
    exchange.ends()
    assert exchange.finish.outcome is Outcome.ACCEPTED_AFTER_RETRY
    assert exchange.emitted == FIRST
    assert exchange.finish.trace == f"@begin sums {NONCE}\n{''.join(FIRST)}@end {NONCE}\n"


def test_a_second_answer_is_not_one_to_another_request() -> None:
    exchange = refused_at_once()
    exchange.says("@begin sums 000000\n")
    assert [violation.kind for violation in exchange.violations] == [Kind.MALFORMED] * 2


def test_a_first_line_without_the_opening_one_is_blamed_for_what_is_wrong_with_it() -> None:
    exchange = refused_at_once()
    exchange.says("1 a = 3 + 4 = 8\n")
    assert (exchange.violations[-1].kind, exchange.violations[-1].step) == (Kind.WRONG_VALUE, "1")


@pytest.mark.parametrize("action", [Action.RESUME, Action.SCAFFOLD, Action.FEEDBACK, Action.FALLBACK])
@pytest.mark.parametrize("target", [DIALOGUE, PREFILL])
def test_nothing_on_the_wire_ends_in_white_space(action: Action, target: Target) -> None:
    policy = Policy(rules=always([action, Action.REJECT]))
    exchange = Exchange(Run(job(SUMS, EVERY[SUMS][0]), policy, [DIALOGUE, target]))
    exchange.says(f"@begin sums {NONCE}\n1 a = 3 + 4 = 7 \t\r\n  \n2 b = 7 * 2 = 15\n")
    opened = exchange.opened
    assert opened.generation == 2
    said = [opened.prefix, *(str(m["content"]) for m in opened.messages if m["role"] == "assistant")]
    assert any(said)
    assert said == [text.rstrip() for text in said]

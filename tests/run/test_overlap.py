"""Whatever a continued generation says first, every step is counted and delivered once, and as it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import hypothesis.strategies as st
from hypothesis import example, given, settings

from guard.check.verdict import Ignored, Kind, Violation
from guard.procedure.expected import Expected
from guard.procedure.types import Value
from guard.run.ladders import Action, always
from guard.run.messages import (
    Command,
    Emit,
    Ended,
    Finish,
    Observe,
    Open,
    Outcome,
    StepClass,
    Target,
    Text,
)
from guard.run.opening import scaffold_cell
from guard.run.overlap import ASIDES, PASSES
from guard.run.policy import Policy
from guard.run.run import Run
from guard.trace import render
from tests.run.procedures import (
    ASIDE,
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

EVERY: Final[dict[str, tuple[dict[str, Value], dict[str, Value]]]] = {  # inputs, decisions by target
    SUMS: ({"x": 3, "y": 4}, {}),
    ORDER: ({"note": NOTE}, {"qty": 6, "loyal": True}),
    SHARES: ({"note": NOTE}, {"people": 6}),
    STOCK: ({"counts": (3, 4), "least": 5}, {}),
    ASIDE: ({"x": 3, "y": 4, "note": NOTE}, {"n": 6}),
    WAYS: ({"x": 3, "y": 4}, {}),
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
    return decisions[step.target] if step.target in decisions else "times"


# --- how a model may begin --------------------------------------------------------------------------


def respaced(line: str) -> str:
    """Other blanks, outside of strings."""
    if '"' in line:
        return f"{line}  "
    return re.sub(" ([-+*/]|=) ", r"   \1\t", line)


def respelled(line: str) -> str:
    """Another spelling of the same number at the end of a line."""
    return re.sub(r"(?<== )(-?[0-9]+)$", r"\1.0", re.sub(r"(\.[0-9]+)$", r"\g<1>0", line))


SPELLINGS: Final = {
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
        spell = SPELLINGS[self.spelling]
        last = list(stands[max(0, len(stands) - self.last) :])
        if last and self.half and not self.opening:
            words = last[0].split(" ")
            last[0] = " ".join(words[min(self.half, len(words) - 1) :])
            again = [last[0], *map(spell, last[1:])]
        else:
            again = [*([spell(begin)] if self.opening else []), *map(spell, last)]
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
        return [judgement for judgement in self._judged if isinstance(judgement, Violation)]

    @property
    def ignored(self) -> list[Ignored]:
        return [judgement for judgement in self._judged if isinstance(judgement, Ignored)]

    @property
    def _judged(self) -> list[object]:
        return [command.judgement for command in self.commands if isinstance(command, Observe)]


def cut_at(text: str, at: int, target: Target, action: Action = Action.RESUME) -> Exchange:
    """A run that went wrong at one of its steps and was opened again there."""
    steps = reference(text)
    policy = Policy(rules=always([action, Action.REJECT]))
    exchange = Exchange(Run(job(text, EVERY[text][0]), policy, [target]))
    begin = "" if target.prefill else f"@begin {program(text).name} {NONCE}\n"
    said = begin + "".join(f"{line}\n" for _, line in steps[:at])
    wrong = f"{steps[at][0].path} {steps[at][0].head} {{\n"
    exchange.says(f"{said}{wrong}".removeprefix(exchange.opened.prefix.rpartition("\n")[2]))
    assert len(exchange.violations) == 1
    assert not exchange.over, exchange.finish.error
    return exchange


@settings(max_examples=400, deadline=None)
@given(
    text=st.sampled_from(list(EVERY)),
    place=st.floats(0, 1, exclude_max=True),
    target=st.sampled_from([DIALOGUE, PREFILL]),
    scaffold=st.booleans(),
    start=STARTS,
    size=st.integers(1, 12) | st.just(10_000),
)
def test_every_step_is_delivered_once_however_the_answer_begins(
    text: str, place: float, target: Target, scaffold: bool, start: Start, size: int
) -> None:
    steps = reference(text)
    at = int(place * len(steps))
    step, line = steps[at]
    cell = scaffold_cell(step, None)
    scaffolded = scaffold and cell is not None
    if target.prefill and start.preamble.strip():
        return  # a prefix is gone on with, not talked about
    exchange = cut_at(text, at, target, Action.SCAFFOLD if scaffolded else Action.RESUME)
    begun = render.scaffold(step, cell) if scaffolded and cell is not None else ""
    if target.prefill:
        begun = begun or step.path
    begin = f"@begin {program(text).name} {NONCE}"
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

"""How well a model does what the prompt says: `python -m tests.benchmarks.prompting`.

A table with a row for each number of worked examples and form of the trace, of four shares:

    trace   asked without a guard, the whole trace is right
    answer  the same, as far as its last answer goes
    lines   lines that are right at the first try, each behind right ones
    formed  the same, where a wrong result of a line that is right up to it is let pass

Nothing is drawn by the model (temperature 0), and all that is asked for is the same in every row. `chain`: procedures
of 5 arithmetic steps with several inputs each. `shipped`: a case of each procedure of `examples/`, of which only a few
lines are asked for; its other cases are the worked examples.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import perf_counter

from guard.check.checker import Checker
from guard.check.findings import Findings
from guard.check.freely import findings
from guard.check.verdict import Kind, StepVerified, Verdict, Violation
from guard.cli.amounts import whole
from guard.procedure.execute import Program, reference
from guard.procedure.expected import Expected, Form
from guard.procedure.load import load
from guard.procedure.types import Value
from guard.procedure.values import equal
from guard.run.messages import Ended, Message, Open, Strategy
from guard.trace import prompt, render
from guard.upstream.abilities import NoClient
from guard.upstream.http import Timeouts
from guard.upstream.local import LocalUpstream
from guard.upstream.model import resolve
from guard.wire.conversation import sent_on
from tests.corpus.chains import chain_text
from tests.worked import folders, worked

NONCE = "3fa92c"
STEPS = 5
LOOK_BACKS = (1, 2, 3, 4)
LINES = 5  # that are asked for of one trace, evenly spread over it
SLOTS = 4
CONTEXT = 6144  # tokens a slot: the longest prompt, with three worked examples
PATIENT = Timeouts(first_s=900, idle_s=900)  # a long prompt is read while others wait
SPARE = 1.3  # so much longer than the faithful trace one may be
CHARACTERS = 2  # of a trace, mostly digits and signs, in a token: about two
VALUES = frozenset({Kind.WRONG_VALUE, Kind.WRONG_ANSWER, Kind.INADMISSIBLE_VALUE, Kind.WRONG_BRANCH})
Z = 1.96  # for intervals of 95 %


HEAD = (
    "| examples | form | whole trace | answer | lines at the first try | lines in form |",
    "|---|---|---|---|---|---|",
)


def say(*lines: str) -> None:
    """Write lines at once, since a table takes its time."""
    sys.stdout.write("".join(f"{each}\n" for each in lines))
    sys.stdout.flush()


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked for, and further inputs and decisions of the same procedure to show."""

    program: Program
    inputs: dict[str, Value]
    decisions: dict[str, Value]
    shown: Sequence[prompt.Given]
    whole: bool  # also asked for as a whole


@dataclass(kw_only=True)
class Found:
    """What was right, of how much."""

    right: Counter[str]
    of: Counter[str]

    def note(self, what: str, *, right: bool) -> None:
        """Count one."""
        self.right[what] += right
        self.of[what] += 1

    def share(self, what: str) -> str:
        """A share with its interval, after Wilson."""
        n, k = self.of[what], self.right[what]
        if not n:
            return "-"
        middle = (k / n + Z * Z / (2 * n)) / (1 + Z * Z / n)
        half = Z / (1 + Z * Z / n) * math.sqrt(k / n * (1 - k / n) / n + Z * Z / (4 * n * n))
        low, high = (round(100 * bound) for bound in (middle - half, middle + half))
        return f"{k}/{n} ({max(0, low)}-{min(100, high)} %)"


def chains(runs: int, examples: int) -> Iterator[list[Question]]:
    """So many questions to each of the procedures."""
    for look_back in LOOK_BACKS:
        text, *_ = chain_text(STEPS, look_back)
        program = load(text).procedures["chain"]
        random = Random(look_back)
        drawn = [
            program.accept({"a": random.randint(1, 50), "b": random.randint(1, 50)}) for _ in range(runs)
        ]
        shown: list[prompt.Given] = [
            (program.accept({"a": random.randint(1, 50), "b": random.randint(1, 50)}), {}) for _ in "123"
        ]
        yield [
            Question(program=program, inputs=inputs, decisions={}, shown=shown[:examples], whole=True)
            for inputs in drawn
        ]


def shipped(most: int, examples: int) -> Iterator[list[Question]]:
    """One question to each of the shipped procedures that have as many cases as are wanted in any row."""
    fit = [cases for cases in map(worked, folders()) if len(cases) > 3]
    for case, *others in sorted(fit, key=lambda cases: len(cases[0].program.numbered))[:most]:
        shown = [(other.inputs, other.decisions) for other in others[:examples]]
        yield [
            Question(
                program=case.program, inputs=case.inputs, decisions=case.decisions, shown=shown, whole=False
            )
        ]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question in one form of the trace, and its right steps."""

    program: Program
    inputs: dict[str, Value]
    messages: tuple[Message, ...]
    steps: Sequence[tuple[Expected, Value]]


def put(question: Question, program: Program) -> tuple[Message, ...]:
    """The conversation, as the endpoint makes it."""
    closing = prompt.closing(program, question.inputs, NONCE)
    return sent_on([{"role": "user", "content": closing}], prompt.instructions(program, question.shown))


async def said(upstream: LocalUpstream, messages: Sequence[Message], begun: str, tokens: int) -> str:
    """What the model says; behind a beginning, until the end of its line."""
    command = Open(
        generation=1,
        attempt=1,
        upstream=upstream.target.name,
        strategy=Strategy.INITIAL,
        messages=tuple(messages),
        prefix=begun,
        grammar=None,
        max_tokens=tokens,
        temperature=0.0,
    )
    text = ""
    async with aclosing(upstream.stream(command, client=NoClient())) as pieces:
        async for piece in pieces:
            if not isinstance(piece, Ended):
                text += piece.text
                if begun and "\n" in text:
                    break
    return text


def is_right(program: Program, inputs: dict[str, Value], text: str) -> bool:
    """Whether a text has all lines of a right trace and none between; a frame is not asked for."""
    checker = Checker(program, inputs, nonce=NONCE, verified=f"{render.begin(program.name, NONCE)}\n")
    for said_line in text.splitlines():
        if said_line.strip() and not said_line.startswith("@"):
            checker.feed(f"{said_line}\n")
        if checker.verdict is Verdict.FAILED or checker.expected is None:
            break
    return checker.verdict is not Verdict.FAILED and checker.expected is None


def answer_is_right(program: Program, inputs: dict[str, Value], text: str) -> bool:
    """Whether the last answer in a text is the right one, read as lines of a trace or freely."""
    return any(
        _findings(program, inputs, read).answer == "right"
        for read in (text, f"{render.begin(program.name, NONCE)}\n{text}")
    )


def _findings(program: Program, inputs: dict[str, Value], text: str) -> Findings:
    looking = findings(program, inputs, text)
    while True:
        try:
            next(looking)
        except StopIteration as stop:
            found: Findings = stop.value
            return found


async def one(upstream: LocalUpstream, question: Question, form: Form, found: Found) -> None:
    """Ask one question and count."""
    program = question.program.in_form(form)
    messages = put(question, program)
    steps, _ = reference(program, question.inputs, question.decisions)
    right = render.trace(program, steps, NONCE)
    asked = Asked(program=program, inputs=question.inputs, messages=messages, steps=steps)
    if question.whole:
        text = await said(upstream, messages, "", round(len(right) / CHARACTERS * SPARE))
        found.note("trace", right=is_right(program, question.inputs, text))
        found.note("answer", right=answer_is_right(program, question.inputs, text))
    places = range(len(steps))[:: math.ceil(len(steps) / LINES)]
    for place in places:
        verified = "".join(right.splitlines(keepends=True)[: place + 1])
        await line(upstream, asked, verified, place, found)


async def line(upstream: LocalUpstream, asked: Asked, verified: str, place: int, found: Found) -> None:
    """Ask for one line behind right ones and count."""
    expected, value = asked.steps[place]
    stub = render.stub(expected)
    room = (
        round(
            len(render.line(expected, value, render.supporting_quotes(expected, value))) / CHARACTERS * SPARE
        )
        + 8
    )
    text = await said(upstream, asked.messages, verified + stub, room)
    checker = Checker(asked.program, asked.inputs, nonce=NONCE, verified=verified)
    heard = checker.feed(f"{stub}{text.partition(chr(10))[0]}\n")
    verdict = next((one for one in heard if isinstance(one, StepVerified | Violation)), None)
    match verdict:
        case StepVerified(decided=decided, value=given):
            right = not decided or equal(given, value)
        case _:
            right = False
    found.note("lines", right=right)
    formed = not isinstance(verdict, Violation) or verdict.kind in VALUES
    found.note("formed", right=verdict is not None and formed)


async def cell(upstream: LocalUpstream, questions: Sequence[Sequence[Question]], form: Form) -> Found:
    """Ask all questions; those to one procedure after each other, so that its prompt is read once."""
    found = Found(right=Counter(), of=Counter())
    free = asyncio.Semaphore(SLOTS)

    async def procedure(some: Sequence[Question]) -> None:
        async with free:
            for question in some:
                await one(upstream, question, form, found)

    await asyncio.gather(*map(procedure, questions))
    return found


async def measure(arguments: argparse.Namespace) -> None:
    """Print the table, row by row."""
    upstream = LocalUpstream(
        "local", arguments.model or resolve(), context=CONTEXT, slots=SLOTS, timeouts=PATIENT
    )
    asked = {"chain": chains, "shipped": shipped}[arguments.what]
    try:
        await upstream.start()
        say(f"{upstream.target.model}, {arguments.what}, {arguments.runs} of each", "", *HEAD)
        for examples in arguments.examples:
            for form in arguments.forms:
                began = perf_counter()
                found = await cell(upstream, list(asked(arguments.runs, examples)), form)
                shares = " | ".join(found.share(what) for what in ("trace", "answer", "lines", "formed"))
                say(f"| {examples} | `{form}` | {shares} |")
                sys.stderr.write(f"{perf_counter() - began:.0f} s\n")
    finally:
        await upstream.close()


def main() -> None:
    """Read what is to be measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.prompting")
    parser.add_argument("--what", choices=["chain", "shipped"], default="chain")
    parser.add_argument(
        "--runs",
        type=whole(1, 100_000),
        default=5,
        help="inputs for each of the chains, or most shipped procedures",
    )
    parser.add_argument("--examples", type=int, nargs="+", default=[0, 1, 3], choices=range(4))
    parser.add_argument("--forms", type=Form, nargs="+", default=list(Form), choices=list(Form))
    parser.add_argument("--model", type=Path, help="a GGUF file; default: the embedded model")
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()

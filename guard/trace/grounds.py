"""Warnings where an example decides what its own text does not say: its worked trace has no right quote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from guard.errors import Problem, RequestError
from guard.procedure.execute import Program, reference
from guard.procedure.expected import Expected
from guard.procedure.model import Quoting
from guard.procedure.types import Value
from guard.source import Source
from guard.trace.support import quotes_for

_ADVICE = "change the text or the value, or write quote loosely where the model says it in other words"


def ungrounded(programs: Mapping[str, Program], source: Source) -> Iterator[Problem]:
    """Give a warning for each decision of an example, in a file, that no words of its sources support."""
    for program in programs.values():
        example = program.example
        if example is None or program.runnable is None:
            continue
        names = {expected.target for expected, value in _steps(program) if _is_ungrounded(expected, value)}
        for name, constant in example.decisions.items():
            if name in names:
                message = f"{name!r} is decided as what the example's text does not say"
                yield source.problem(constant.at, message, help=_ADVICE, severity="warning")


def _steps(program: Program) -> list[tuple[Expected, Value]]:
    inputs, decisions = program.example_inputs, program.example_decisions
    if inputs is None or decisions is None:
        return []
    try:
        return reference(program, inputs, decisions)[0]
    except RequestError:  # which is reported where the example is executed
        return []


def _is_ungrounded(expected: Expected, value: Value) -> bool:
    decision = expected.decision
    if decision is None or decision.quote is not Quoting.SUPPORTING:
        return False
    return quotes_for(value, decision.type, [text for _, text in decision.sources]) is None

"""All procedures that are carried out faithfully, by where they are from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from guard.check.checker import Checker
from guard.check.verdict import Verdict
from guard.config.folder import Folder
from guard.procedure.expected import EndKind, Form
from guard.procedure.load import load
from guard.procedure.types import Value
from tests.corpus import chains, finqa, gsm8k, lists
from tests.corpus.problems import Problem
from tests.faults.faithful import Sample, carried_out
from tests.traces import Case, cases
from tests.worked import every

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
REFERENCE: Final = Path(__file__).parents[2] / "grammars" / "README.md"
_BLOCK: Final = re.compile(r"^```proc\n(.*?)^```", re.DOTALL | re.MULTILINE)
# Inputs and decisions of examples that have none of their own.
_DECIDED: Final[Mapping[str, tuple[dict[str, object], dict[str, Value]]]] = {
    "parcel": (
        {"note": "Please collect six parcels of 4 kilos each, standard service."},
        {"parcels": 6, "weight": 4, "service": "standard"},
    )
}


def from_problem(problem: Problem) -> Sample:
    return carried_out(problem.text, problem.program, problem.accepted, {})


def from_examples() -> Iterator[Sample]:
    """The procedures of `examples/` that say how they are carried out, and their worked cases."""
    for case in every():
        if case.end is not EndKind.FAILED:
            text = case.file.read_text("utf-8")
            yield carried_out(text, case.program, case.inputs, case.decisions)
    for file in sorted(EXAMPLES.glob("**/*.proc")):
        text = file.read_text("utf-8")
        for program in load(text, file.name, files=Folder(file.parent)).procedures.values():
            if program.runnable is None:
                continue  # for conversations
            if program.name in _DECIDED:
                raw, decisions = _DECIDED[program.name]
                yield carried_out(text, program, program.accept(raw), decisions)
            elif program.example_inputs is not None:
                yield carried_out(text, program, program.example_inputs, program.example_decisions or {})


def from_docs() -> Iterator[Sample]:
    """The procedures of the language reference that have an example, in each form of a trace."""
    for text in _BLOCK.findall(REFERENCE.read_text("utf-8")):
        for program in load(text, "README.md").procedures.values():
            if program.example_inputs is not None:
                for form in Form:
                    inputs, decisions = program.example_inputs, program.example_decisions or {}
                    yield carried_out(text, program.in_form(form), inputs, decisions)


def from_cases() -> Iterator[Sample]:
    """What the cases of `tests/cases` that pass carry out, each once."""
    seen: set[tuple[object, ...]] = set()
    for case in cases():
        sample = _from_case(case) if case.verdict == "passed" and not case.tolerant else None
        if sample is not None and (key := (id(sample.program), sample.trace)) not in seen:
            seen.add(key)
            yield sample


def _from_case(case: Case) -> Sample | None:
    checker = Checker(case.program, case.inputs, nonce=case.nonce)
    checker.feed(case.response)
    checker.close(case.finish_reason)
    assert checker.verdict is Verdict.PASSED
    assert checker.ending is not None
    return Sample(
        text=case.name,
        program=case.program,
        inputs=case.inputs,
        steps=tuple(checker.observed),
        ending=checker.ending,
    )


SOURCES: Final[Mapping[str, Callable[[], Iterator[Sample]]]] = {
    "FinQA": lambda: map(from_problem, finqa.problems()),
    "GSM8K": lambda: map(from_problem, gsm8k.problems()),
    "chains": chains.seeded,
    "lists": lists.seeded,
    "examples": from_examples,
    "docs": from_docs,
    "cases": from_cases,
}

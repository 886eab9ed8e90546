"""From the text of a file to procedures that can be executed, or all that is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from guard.errors import Problem, ProcedureError, RequestError
from guard.procedure.build import build
from guard.procedure.callees import calls, in_order
from guard.procedure.doubt import Doubt
from guard.procedure.execute import Program, compile_program, reference
from guard.procedure.expected import EndKind
from guard.procedure.faults import Faults
from guard.procedure.plainly import plainly
from guard.procedure.syntax import Reading, read
from guard.procedure.validate import validate
from guard.source import Source, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from guard.procedure.model import Module

MAX_PROBLEMS = 50


@dataclass(frozen=True, slots=True)
class Library:
    """What a file holds: its procedures by name, ready to be executed, and warnings about it."""

    procedures: dict[str, Program]
    warnings: tuple[Problem, ...]
    module: Module


def parse(source: Source) -> tuple[Module | None, list[Problem]]:
    """Give the model of a text, None where it has none, and what is wrong with its form.

    That is its syntax, its types and constants, and names that are declared twice.
    """
    reading = read(source)
    module, problems = _built(source, reading)
    return (None if problems else module), problems


def load(text: str, name: str = "<string>") -> Library:
    """Compile all procedures of a text and execute their examples. `name` is what messages call it.

    Raises `ProcedureError` with all that is wrong, in the order of the text, at most 50 problems.
    """
    source = Source(name, text)
    reading = read(source)
    module, problems = _built(source, reading)
    if module is None:
        raise _refusal(problems)
    found, types = validate(source, module, Doubt(tuple(reading.mended), reading.doubtful))
    problems += found
    if not problems and not module.procedures:
        problems.append(_empty(source))
    if any(problem.severity == "error" for problem in problems):
        raise _refusal(problems)
    module = plainly(module, types)
    compiled: dict[str, Program] = {}
    for procedure in in_order(module):
        callees = {step.procedure: compiled[step.procedure] for step in calls(procedure)}
        compiled[procedure.name] = compile_program(module, procedure, types[procedure.name], callees)
    programs = {name: compiled[name] for name in module.procedures}
    faults = Faults(source)
    for program in programs.values():
        _try_example(program, faults)
    if faults.problems:
        raise _refusal([*problems, *faults.problems])
    return Library(programs, tuple(_in_order(problems)), module)


def _empty(source: Source) -> Problem:
    return source.problem(
        Span(0, 0),
        "the file holds no procedure",
        help="write procedure name(a: int) -> int, and its steps below, indented",
    )


def _built(source: Source, reading: Reading) -> tuple[Module | None, list[Problem]]:
    if reading.tree is None:
        return None, list(reading.problems)
    faults = Faults(source, reading.doubtful)
    module = build(reading.tree, faults)
    return module, [*reading.problems, *faults.problems]


def _try_example(program: Program, faults: Faults) -> None:
    """Execute a program's example; where that does not come to an end, the example is wrong."""
    if program.example is None:
        return
    at = program.example.at
    try:
        _, ending = reference(program, program.example_inputs or {}, program.example_decisions or {})
    except RequestError as error:
        faults(at, f"the example cannot be executed: {error.message}", "change its inputs or decisions")
        return
    if ending.kind is EndKind.FAILED:
        faults(
            at,
            f"the example fails at step {ending.path}: {ending.reason}",
            "change its inputs or decisions, or the step",
        )


def _refusal(problems: Sequence[Problem]) -> ProcedureError:
    # Warnings wait: half of them come from the errors.
    errors = [problem for problem in problems if problem.severity == "error"]
    return ProcedureError(_in_order(errors)[:MAX_PROBLEMS])


def _in_order(problems: Sequence[Problem]) -> list[Problem]:
    return sorted(problems, key=attrgetter("line", "column"))

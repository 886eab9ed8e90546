"""The procedures that are shipped, each carried out on inputs of its own, and those of the tests."""

from __future__ import annotations

from functools import cache

from guard.config import default_config
from guard.procedure.load import load
from tests.dialect.texts import EVERYTHING
from tests.faults.faithful import carried_out
from tests.strategies import Sample
from tests.worked import folders, worked


@cache
def shipped() -> dict[str, Sample]:
    """Each procedure with its example, or the first case of its folder."""
    programs = [*default_config().bindable.values(), *load(EVERYTHING).procedures.values()]
    found = {
        program.name: carried_out("", program, dict(program.example_inputs), program.example_decisions or {})
        for program in programs
        if program.example_inputs is not None
    }
    for folder in folders():
        case = worked(folder)[0]
        found.setdefault(folder, carried_out("", case.program, case.inputs, case.decisions))
    return found

"""Two evaluators agree: the one that serves, and a plain one that walks the model."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, event, given, settings

from guard.errors import ProcedureError
from guard.procedure.execute import reference
from guard.procedure.expected import EndKind
from guard.procedure.load import Library, load
from guard.procedure.model import StepKind
from tests.procedure.plain import carry_out
from tests.procedure.programs import Written, modules

# What constants may come to by chance, and an author is told.
CHANCE = ("never equal", "division by zero")


def loaded(written: Written) -> Library:
    try:
        return load(written.text, "made.proc")
    except ProcedureError as error:
        assume(not all(problem.message.startswith(CHANCE) for problem in error.problems))
        raise


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(modules())
def test_the_evaluators_agree_on_whole_procedures(written: Written) -> None:
    library = loaded(written)
    program = library.procedures["main"]
    inputs = program.accept(written.inputs)
    decisions = program.decide(
        {name: value for name, value in written.decisions.items() if name in program.decisions}
    )
    steps, ending = reference(program, inputs, decisions)
    types = {name: one.types for name, one in library.procedures.items()}
    plain = carry_out(library.module, types, "main", inputs, decisions)
    served = [(step.path, None if step.kind is StepKind.DO else value) for step, value in steps]
    assert served == plain.lines
    event(plain.kind)
    if ending.kind is EndKind.FAILED:
        assert (plain.kind, plain.value) == ("failed", ending.path)
    else:
        assert (ending.kind.value, ending.value) == (plain.kind, plain.value)

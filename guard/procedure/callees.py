"""Which procedures carry out which: in what order they are compiled, and what may not be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from guard.procedure.advice import advice_for
from guard.procedure.faults import Faults, suggestion
from guard.procedure.lattice import kind_text, takes, type_text
from guard.procedure.listing import walk
from guard.procedure.model import Do, Module, Procedure
from guard.procedure.text import text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from guard.procedure.model import Parameter
from guard.procedure.nodes import Expr
from guard.procedure.types import Type

DEPTH: Final = 20  # of procedures that carry out others
STEPS: Final = 2_000  # of a procedure with those of all that it carries out, each as often as it does


def calls(procedure: Procedure) -> list[Do]:
    """Give the steps that carry out another procedure."""
    return [step for step in walk(procedure.body) if isinstance(step, Do)]


def in_order(module: Module) -> Iterator[Procedure]:
    """Give the procedures, each behind all that it carries out. None may carry out itself."""
    seen: set[str] = set()

    def visit(procedure: Procedure) -> Iterator[Procedure]:
        if procedure.name in seen:
            return
        seen.add(procedure.name)
        for step in calls(procedure):
            yield from visit(module.procedures[step.procedure])
        yield procedure

    for procedure in module.procedures.values():
        yield from visit(procedure)


def check_nesting(module: Module, faults: Faults) -> None:
    """Report procedures that carry out themselves, nest too deep or come to too many steps."""
    sizes: dict[str, tuple[int, int]] = {}  # steps in all, and how deep they nest
    for procedure in module.procedures.values():
        _measure(procedure, module, (), sizes, faults)


def _measure(
    procedure: Procedure,
    module: Module,
    around: tuple[str, ...],
    sizes: dict[str, tuple[int, int]],
    faults: Faults,
) -> tuple[int, int]:
    if procedure.name in sizes:
        return sizes[procedure.name]
    size, depth = sum(1 for _ in walk(procedure.body)), 1
    way = (*around, procedure.name)
    for step in calls(procedure):
        callee = module.procedures.get(step.procedure)
        if callee is None:
            continue
        if step.procedure in way:
            circle = " > ".join([*way[way.index(step.procedure) :], step.procedure])
            advice = "write its steps in a loop: while c at most 40, or for x in xs at most 40"
            faults(step.at, f"a procedure cannot carry out itself: {circle}", advice)
            continue
        if len(way) >= DEPTH:
            faults(step.at, f"procedures nest at most {DEPTH} deep", "write the steps of the innermost here")
            continue
        inner, below = _measure(callee, module, way, sizes, faults)
        size, depth = size + inner, max(depth, below + 1)
        if depth > DEPTH:
            faults(step.at, f"procedures nest at most {DEPTH} deep", "write the steps of the innermost here")
        elif size > STEPS >= size - inner:
            advice = "carry the other out in a loop, or less often"
            faults(step.at, f"with all that it carries out, a procedure has at most {STEPS:,} steps", advice)
    sizes[procedure.name] = min(size, STEPS + 1), min(depth, DEPTH)
    return sizes[procedure.name]


def check_call(
    step: Do, procedures: Mapping[str, Procedure], given: Sequence[Type | None], faults: Faults
) -> bool:
    """Report a procedure that is not there, and arguments that it does not take; whether there are none.

    `given` are the types of the arguments.
    """
    callee = procedures.get(step.procedure)
    if callee is None:
        if step.procedure not in faults.doubtful:
            advice = suggestion(step.procedure, procedures)
            faults(step.at, f"there is no procedure {step.procedure!r} in this file", advice)
        return False
    if len(given) != len(callee.parameters):
        wanted = ", ".join(f"{one.name}: {type_text(one.type)}" for one in callee.parameters)
        message = f"procedure {callee.name!r} takes ({wanted}), {len(given)} given"
        faults(step.at, message, f"write it as do {callee.name}({wanted})")
        return False
    fits = True
    for parameter, argument, found in zip(callee.parameters, step.arguments, given, strict=True):
        if found is not None and not takes(parameter.type, found):
            _misfit(callee, parameter, argument, found, faults)
            fits = False
    return fits


def _misfit(callee: Procedure, parameter: Parameter, argument: Expr, found: Type, faults: Faults) -> None:
    wanted = type_text(parameter.type)
    message = f"{parameter.name!r} of procedure {callee.name!r} is {wanted}"
    where = f"{parameter.name}: {{type}} in procedure {callee.name}"
    advice = advice_for(argument, found, parameter.type, where) or f"give it {wanted}"
    faults(argument.at, f"{message}, {text(argument)!r} is {kind_text(found)}", advice)

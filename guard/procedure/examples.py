"""Whether an example gives a procedure what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guard.procedure.doubt import MYSTERY
from guard.procedure.faults import Faults, quoted, suggestion
from guard.procedure.lattice import may_be_null, type_text
from guard.procedure.listing import walk
from guard.procedure.measured import odd_constant
from guard.procedure.model import Do, Example, Extract, Judge, Module, OneOf, Parameter, Procedure
from guard.procedure.nodes import Expr, ListOf, Literal, RecordOf
from guard.procedure.text import text
from guard.procedure.types import (
    BoolType,
    DatetimeType,
    DateType,
    DecimalType,
    EnumType,
    ListType,
    OptionalType,
    PercentType,
    RecordType,
    StringType,
    TextType,
    Type,
    Value,
)
from guard.procedure.values import conforms
from guard.source import Span

if TYPE_CHECKING:
    from collections.abc import Mapping

    from guard.procedure.doubt import Doubt


def check_example(example: Example, module: Module, doubt: Doubt, faults: Faults) -> None:
    procedure = module.own_procedures.get(example.procedure)
    if procedure is None:
        faults(
            example.at,
            f"there is no procedure {example.procedure!r} in this file",
            suggestion(example.procedure, module.own_procedures),
        )
        return
    inputs = {parameter.name: parameter.type for parameter in procedure.parameters}
    decisions = _decisions(procedure, module, set())
    _check_constants(example, example.inputs, inputs, "input", faults)
    if not doubt.touches(procedure):
        _check_constants(example, example.decisions, decisions, "decision", faults)
    below = "" if example.inputs or example.decisions else "below it, indented by two blanks, "
    needed = [one.name for one in procedure.parameters if not may_be_null(one.type) and one.default is None]
    missing = [name for name in needed if name not in example.inputs and name not in doubt.names]
    if missing:
        faults(
            example.at,
            f"the example lacks {', '.join(map(repr, missing))}",
            f"add {below}{missing[0]} = {_sample(inputs[missing[0]])}",
        )
    always = [step for step in procedure.body if isinstance(step, Extract | Judge)]
    undecided = [step for step in always if step.target not in example.decisions | dict.fromkeys(doubt.names)]
    if undecided:
        faults(
            example.at,
            f"the example lacks what the model decides: {', '.join(repr(s.target) for s in undecided)}",
            f"add {below}decide {undecided[0].target} = {_sample(undecided[0].type)}",
        )


def check_default(parameter: Parameter, faults: Faults) -> None:
    """Report what an input is given where a request leaves it out, if it is nothing the input can be."""
    if parameter.default is None:
        return
    if isinstance(parameter.type, TextType):
        advice = "leave it out: a request that gives no text has it in its last message"
        faults(parameter.default.at, f"{parameter.name!r} is a text, which has no default", advice)
    else:
        _check_constant(parameter.default, parameter.type, parameter.name, faults)


def _decisions(procedure: Procedure, module: Module, seen: set[str]) -> dict[str, Type]:
    """Give the type of what the model decides in a procedure and in those that it carries out."""
    seen.add(procedure.name)
    steps = list(walk(procedure.body))
    found: dict[str, Type] = {}
    for step in steps:
        callee = module.procedures.get(step.procedure) if isinstance(step, Do) else None
        if callee is not None and callee.name not in seen:
            found |= _decisions(callee, module, seen)
    found |= {
        step.label: EnumType(tuple(way.name for way in step.alternatives))
        for step in steps
        if isinstance(step, OneOf) and step.label is not None
    }
    return found | {step.target: step.type for step in steps if isinstance(step, Extract | Judge)}


def _check_constants(
    example: Example,
    given: Mapping[str, Literal | ListOf | RecordOf],
    known: Mapping[str, Type],
    what: str,
    faults: Faults,
) -> None:
    for name, constant in given.items():
        if name in known:
            _check_constant(constant, known[name], name, faults)
            continue
        if what == "decision":
            message = f"{name!r} is nothing the model decides in procedure {example.procedure!r}"
        else:
            message = f"the procedure {example.procedure!r} has no input {name!r}"
        start = faults.source.text.rfind(name, 0, constant.at.start)
        faults(Span(start, start + len(name)), message, suggestion(name, known) or "leave the line out")


def _check_constant(constant: Expr, wanted: Type, what: str, faults: Faults) -> None:
    match constant, wanted:
        case _, _ if wanted == MYSTERY:
            pass
        case ListOf() | RecordOf(), OptionalType(item):
            _check_constant(constant, item, what, faults)
        case Literal(value=value), _:
            reason = conforms(value, wanted)
            odd = odd_constant(constant, wanted)
            if odd is not None and reason is None:
                faults(constant.at, f"{what!r}: {odd}", "write the number in that unit")
            if reason is not None:
                faults(constant.at, f"{what!r} is {reason}, found {_spelt(constant)}", _advice(value, wanted))
        case ListOf(items), ListType(item):
            for part in items:
                _check_constant(part, item, what, faults)
        case RecordOf(fields), RecordType(types):
            _check_record(constant, dict(fields), {field.name: field.type for field in types}, faults)
        case _:
            faults(
                constant.at,
                f"{what!r} is {type_text(wanted)}, found {_spelt(constant)}",
                f"write {_sample(wanted)}",
            )


def _advice(value: Value, wanted: Type) -> str:
    match value, wanted:
        case str(word), EnumType(options):
            return suggestion(word, options)
        case _:
            return f"write {_sample(wanted)}"


def _check_record(
    constant: Expr, given: Mapping[str, Expr], types: Mapping[str, Type], faults: Faults
) -> None:
    for name, value in given.items():
        if name in types:
            _check_constant(value, types[name], name, faults)
        else:
            faults(value.at, f"the record has no field {name!r}", suggestion(name, types))
    missing = [name for name, type_ in types.items() if name not in given and not may_be_null(type_)]
    if missing:
        faults(
            constant.at,
            f"the record lacks {', '.join(map(repr, missing))}",
            f"add {missing[0]}: {_sample(types[missing[0]])}",
        )


def _sample(type_: Type) -> str:
    """Give a constant of a type, for people to write their own after."""
    match type_:
        case DecimalType(places):
            return "12." + "50000000000000000000"[: places or 2] if places != 0 else "12"
        case PercentType():
            return "5%"
        case BoolType():
            return "true"
        case DateType():
            return "2026-06-01"
        case DatetimeType():
            return "2026-06-01T09:30:00+02:00"
        case EnumType((option, *_)):
            return f'"{option}"'
        case StringType() | TextType() | EnumType():
            return '"..."'
        case ListType(item):
            return f"[{_sample(item)}]"
        case OptionalType(item):
            return _sample(item)
        case RecordType(fields):
            return "{ " + ", ".join(f"{field.name}: {_sample(field.type)}" for field in fields) + " }"
        case _:
            return "12"


def _spelt(expression: Expr) -> str:
    return text(expression) if isinstance(expression, Literal) else quoted(text(expression))

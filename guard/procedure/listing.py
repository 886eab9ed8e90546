"""A procedure as the model sees it: the declarations it uses, then every statement with its number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from guard.procedure import wording
from guard.procedure.clock import zone_of
from guard.procedure.lattice import fields_text, type_text
from guard.procedure.library import ROUNDING
from guard.procedure.model import (
    Always,
    AnyCell,
    AnyOrder,
    Assign,
    Branch,
    Cell,
    Check,
    Confirm,
    Demand,
    Deny,
    Do,
    End,
    Escalate,
    Extract,
    For,
    If,
    Invoke,
    Judge,
    Module,
    Next,
    Numbers,
    OneOf,
    Parameter,
    Procedure,
    Quoting,
    RangeCell,
    Require,
    Return,
    Say,
    Step,
    Table,
    Tool,
    ToolStep,
    ValuesCell,
    While,
)
from guard.procedure.nodes import Call, Expr, Literal, parts
from guard.procedure.text import text
from guard.procedure.types import ListType, OptionalType, RecordType, StringType, Type
from guard.procedure.values import spell


def listing(module: Module, procedure: Procedure) -> str:
    """Give the numbered text of a procedure, without a line feed at its end."""
    declared = [
        _numbers(module.numbers) if module.numbers.carry_exact or _rounds(procedure, module) else "",
        "\n".join(_records(procedure, module)),
        *(table_text(table) for table in _tables(procedure, module)),
        "\n".join(_tools(procedure, module)),
    ]
    steps = "\n".join(_lines(procedure.body, 0, "", module, full=False))
    return "\n\n".join([*filter(None, declared), f"{_head(procedure)}\n{steps}"])


def canonical(module: Module, procedure: Procedure) -> str:
    """Give the text of which a procedure's digest is made: all that decides what it does, and no more."""
    return "\n".join(
        [
            f'version "{module.version or ""}"',
            _numbers(module.numbers),
            *([] if (zone := zone_of(procedure, module)) is None else [f"now in {_quoted(zone)}"]),
            *(f"record {fields_text(record.fields)}" for record in _record_types(procedure, module)),
            *(table_text(table) for table in _tables(procedure, module)),
            *_tools(procedure, module),
            _head(procedure),
            *_lines(procedure.body, 0, "", module, full=True),
        ]
    )


# --- statements ----------------------------------------------------------------------------------


def _lines(steps: Iterable[Step], depth: int, base: str, module: Module, *, full: bool) -> Iterator[str]:
    """Give the lines of a block; `full` adds what the model need not see: names of steps and bounds.

    `base` is the number of the step that carries out the block's procedure, with a dot.
    """
    indent, start = "  " * depth, "  " * depth + base
    for step in steps:
        match step:
            case If(branches=branches):
                for branch in branches:
                    yield f"{start}{branch.number} {_name(branch.label, full)}{_branch(branch)}"
                    yield from _lines(branch.body, depth + 1, base, module, full=full)
            case For(body=body) | While(body=body):
                bound = f" at most {step.bound}" if full else ""
                yield f"{start}{step.number} {_name(step.label, full)}{statement(step)}{bound}"
                yield from _lines(body, depth + 1, base, module, full=full)
            case AnyOrder(body=body):
                yield f"{start}{step.number} {_name(step.label, full)}any order"
                yield from _lines(body, depth + 1, base, module, full=full)
            case OneOf():
                yield from _alternatives(step, depth, base, module, full=full)
            case Require(otherwise=Next()):
                yield f"{start}{step.number} {_name(step.label, full)}{statement(step)} else next"
            case Require(otherwise=Return() | Deny() | Escalate() as end) | Confirm(otherwise=end):
                yield f"{start}{step.number} {_name(step.label, full)}{statement(step)}"
                yield f"{indent}  {base}{end.number} else {_name(end.label, full)}{statement(end)}"
            case Do(procedure=name):
                yield f"{start}{step.number} {_name(step.label, full)}{statement(step)}"
                callee = module.procedures[name]
                other = callee.numbers != module.numbers
                yield f"{indent}  {_head(callee)}{', ' + _numbers(callee.numbers) if other else ''}"
                number, around = f"{base}{step.number}.", replace(module, numbers=callee.numbers)
                yield from _lines(callee.body, depth + 1, number, around, full=full)
            case _:
                yield f"{start}{step.number} {_name(step.label, full)}{statement(step)}"


def _alternatives(step: OneOf, depth: int, base: str, module: Module, *, full: bool) -> Iterator[str]:
    indent = "  " * depth
    bound = "" if step.attempts is None else f" at most {step.attempts}"
    yield f"{indent}{base}{step.number} {_name(step.label, full)}one of{bound}"
    for way in step.alternatives:
        yield f"{indent}  {base}{way.number} try {_quoted(way.name)}"
        yield from _lines(way.body, depth + 2, base, module, full=full)
    if step.otherwise is not None:
        yield f"{indent}{base}{step.otherwise.number} {_name(step.otherwise.label, full)}else"
        yield from _lines(step.otherwise.body, depth + 1, base, module, full=full)


def _name(label: str | None, full: bool) -> str:
    return f"{label}: " if full and label else ""


def statement(step: Assign | Do | Extract | Judge | For | While | Require | Check | ToolStep | End) -> str:
    """Give a statement as the model sees it, without its number."""
    match step:
        case Assign(target=target, expression=expression):
            return f"{target} = {text(expression)}{_rounding(step)}"
        case Do(target=target, procedure=name, arguments=arguments):
            return f"{target} = do {name}({', '.join(map(text, arguments))})"
        case Invoke(target=name, tool=tool, arguments=arguments):
            return f"{f'{name} = ' if name else ''}call {tool}({', '.join(map(text, arguments))})"
        case Confirm(tool=tool, arguments=arguments, details=details):
            more = f" with {', '.join(map(text, details))}" if details else ""
            return f"confirm {tool}({', '.join(map(text, arguments))}){more}"
        case Say(parts=said):
            return f"say {wording.written(said)}"
        case Extract() | Judge():
            return _decided(step)
        case For(variable=variable, items=items):
            return f"for {variable} in {text(items)}"
        case While(condition=condition):
            return f"while {text(condition)}"
        case Require(condition=condition):
            return f"require {text(condition)}"
        case Check(condition=condition):
            return f"check {text(condition)}"
        case Return(expression=expression):
            return f"return {text(expression)}{_rounding(step)}"
        case Deny(text=message):
            return f"deny {_quoted(message)}"
        case Escalate(text=message):
            return f"escalate {_quoted(message)}"


def _branch(branch: Branch) -> str:
    return branch.keyword if branch.condition is None else f"{branch.keyword} {text(branch.condition)}"


def _rounding(step: Assign | Return) -> str:
    if step.places is None:
        return ""
    return f" to {step.places}" + (f" {step.rounding.value}" if step.rounding is not None else "")


_QUOTED: Final = {None: "", Quoting.SUPPORTING: ", quoted", Quoting.LOOSE: ", quoted loosely"}


def _decided(step: Extract | Judge) -> str:
    where = f", where {text(step.where)}" if step.where is not None else ""
    quoted = _QUOTED[step.quote]
    question = f": {_quoted(step.question)}" if isinstance(step, Judge) else ""
    return f"{step.target}: {type_text(step.type)} from {', '.join(step.sources)}{where}{quoted}{question}"


def _quoted(message: str) -> str:
    return spell(message, StringType())


# --- declarations --------------------------------------------------------------------------------


def _numbers(numbers: Numbers) -> str:
    return f"numbers round {numbers.rounding.value}, carry {'exact' if numbers.carry_exact else 'shown'}"


def _parameters(parameters: Iterable[Parameter]) -> str:
    return ", ".join(f"{one.name}: {type_text(one.type)}{_default(one)}" for one in parameters)


def _default(parameter: Parameter) -> str:
    return "" if parameter.default is None else f" = {text(parameter.default)}"


def _head(procedure: Procedure) -> str:
    return f"procedure {procedure.name}({_parameters(procedure.parameters)}) -> {type_text(procedure.result)}"


def table_text(table: Table) -> str:
    """Give a table as the model sees it."""
    head = (
        f"table {table.name}({_parameters(table.parameters)}) -> {type_text(table.result)}, {table.hit.value}"
    )
    cells = [", ".join(map(_cell, row.cells)) for row in table.rows]
    width = max(map(len, cells), default=0)
    rows = [
        f"  {left.ljust(width)} => {spell(row.result.value, row.result.type)}"
        for left, row in zip(cells, table.rows, strict=True)
    ]
    return "\n".join([head, *rows])


def _cell(cell: Cell) -> str:
    match cell:
        case AnyCell():
            return "any"
        case ValuesCell(values):
            return " | ".join(map(text, values))
        case RangeCell(None, Literal() as high, _, included):
            return f"{'<=' if included else '<'} {text(high)}"
        case RangeCell(Literal() as low, None, included):
            return f"{'>=' if included else '>'} {text(low)}"
        case RangeCell(Literal() as low, Literal() as high):
            return range_text(cell, low, high)
        case _:
            return "any"


def range_text(cell: RangeCell, low: Literal, high: Literal) -> str:
    """Give a range of two ends as it is written: `1..9`, `0<..10`, `1..<10`."""
    above, below = "" if cell.low_included else "<", "" if cell.high_included else "<"
    return f"{text(low)}{above}..{below}{text(high)}"


# --- what a procedure uses -----------------------------------------------------------------------


def walk(steps: Iterable[Step]) -> Iterator[Step]:
    """Find every step of a block and of the blocks inside it, in the order of the text."""
    for step in steps:
        yield step
        match step:
            case If(branches=branches):
                for branch in branches:
                    yield from walk(branch.body)
            case For(body=body) | While(body=body) | AnyOrder(body=body):
                yield from walk(body)
            case OneOf(alternatives=ways, otherwise=otherwise):
                for way in ways:
                    yield from walk(way.body)
                if otherwise is not None:
                    yield from walk(otherwise.body)
            case Require(otherwise=Return() | Deny() | Escalate() as end) | Confirm(otherwise=end):
                yield end
            case _:
                pass


def expressions(step: Step) -> list[Expr]:
    """Give the expressions of a step itself, those of the blocks inside it left out."""
    match step:
        case Assign(expression=expression) | Return(expression=expression):
            return [expression]
        case Do(arguments=arguments) | Invoke(arguments=arguments):
            return list(arguments)
        case Confirm(arguments=arguments, details=details):
            return [*arguments, *details]
        case Say(parts=said):
            return wording.values(said)
        case Extract(where=where) | Judge(where=where):
            return [] if where is None else [where]
        case If(branches=branches):
            return [branch.condition for branch in branches if branch.condition is not None]
        case For(items=items):
            return [items]
        case While(condition=condition) | Require(condition=condition) | Check(condition=condition):
            return [condition]
        case Deny() | Escalate() | AnyOrder() | OneOf():
            return []


def _calls(expr: Expr) -> Iterator[str]:
    if isinstance(expr, Call):
        yield expr.function
    for part in parts(expr):
        yield from _calls(part)


def reached(procedure: Procedure, module: Module) -> list[Procedure]:
    """Give a procedure and all that are carried out with it, each once."""
    found = {procedure.name: procedure}
    waiting = [procedure]
    while waiting:
        for step in walk(waiting.pop().body):
            if isinstance(step, Do) and step.procedure not in found and step.procedure in module.procedures:
                found[step.procedure] = module.procedures[step.procedure]
                waiting.append(found[step.procedure])
    return list(found.values())


def _steps(procedure: Procedure, module: Module) -> Iterator[Step]:
    for one in reached(procedure, module):
        yield from walk(one.body)


def called(procedure: Procedure, module: Module) -> set[str]:
    """Find the names of the functions and tables that a procedure and those it carries out use."""
    return {name for step in _steps(procedure, module) for expr in expressions(step) for name in _calls(expr)}


def _tables(procedure: Procedure, module: Module) -> list[Table]:
    used = called(procedure, module)
    return [table for name, table in module.tables.items() if name in used]


def tools_of(procedure: Procedure, module: Module) -> dict[str, Tool]:
    """Give the tools that a procedure and those it carries out use, in the order of their declarations."""
    steps = _steps(procedure, module)
    used = {step.tool for step in steps if isinstance(step, Invoke | Confirm)}
    return {name: tool for name, tool in module.tools.items() if name in used}


def is_conversation(procedure: Procedure, module: Module) -> bool:
    """Whether a procedure or one that it carries out has steps that use tools or speak."""
    return any(isinstance(step, ToolStep) for step in _steps(procedure, module))


def _tools(procedure: Procedure, module: Module) -> Iterator[str]:
    """Give the tools that a procedure uses, and the rules that hold for them."""
    for tool in tools_of(procedure, module).values():
        head = f"tool {tool.name}({_parameters(tool.parameters)}) -> {type_text(tool.result)}"
        yield f"{head} {tool.effect.value}"
    yield from map(rule_text, rules_of(procedure, module))


def rules_of(procedure: Procedure, module: Module) -> list[Always]:
    """Give the rules that hold for the tools which a procedure and those it carries out use."""
    used = {word for tool in tools_of(procedure, module).values() for word in (tool.name, tool.effect.value)}
    return [rule for rule in module.rules if any(name.name in used for name in rule.then)]


def rule_text(rule: Always) -> str:
    """Give a rule as it is written."""
    first, then = (" or ".join(tool.name for tool in tools) for tools in (rule.first, rule.then))
    match rule.demand:
        case Demand.CONFIRM:
            return f"always confirm before {then}"
        case Demand.BEFORE:
            return f"always {first} before {then}"
        case Demand.NEVER_AFTER:
            return f"always no {then} after {first}"


def _rounds(procedure: Procedure, module: Module) -> bool:
    steps = _steps(procedure, module)
    return bool(ROUNDING & called(procedure, module)) or any(
        isinstance(step, Assign | Return) and step.places is not None for step in steps
    )


def _types(procedure: Procedure, module: Module) -> Iterator[Type]:
    for one in reached(procedure, module):
        yield from (parameter.type for parameter in one.parameters)
        yield one.result
    for table in _tables(procedure, module):
        yield from (parameter.type for parameter in table.parameters)
    for tool in tools_of(procedure, module).values():
        yield from (parameter.type for parameter in tool.parameters)
        yield tool.result
    for step in _steps(procedure, module):
        if isinstance(step, Extract | Judge):
            yield step.type


def _inside(type: Type) -> Iterator[RecordType]:  # noqa: A002
    match type:
        case ListType(item) | OptionalType(item):
            yield from _inside(item)
        case RecordType(fields):
            for field in fields:
                yield from _inside(field.type)
            yield type
        case _:
            pass


def _record_types(procedure: Procedure, module: Module) -> list[RecordType]:
    found: dict[str, RecordType] = {}
    for type in _types(procedure, module):  # noqa: A001
        for record in _inside(type):
            if record.name is not None:
                found.setdefault(record.name, record)
    return list(found.values())


def _records(procedure: Procedure, module: Module) -> list[str]:
    types = _record_types(procedure, module)
    return [f"record {record.name} {fields_text(record.fields)}" for record in types]

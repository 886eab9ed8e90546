"""Whether tools are used as they are declared, and whether rules are about tools that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guard.procedure.advice import advice_for
from guard.procedure.expression import infer
from guard.procedure.faults import Faults, quoted, suggestion
from guard.procedure.lattice import kind_text, takes, type_text
from guard.procedure.listing import tools_of
from guard.procedure.model import Always, Confirm, Effect, Invoke, Module, Say, ToolStep
from guard.procedure.scope import Scope
from guard.procedure.text import text
from guard.procedure.types import ListType, RecordType, TextType
from guard.procedure.wording import values

if TYPE_CHECKING:
    from guard.procedure.model import Tool


def check_tool_step(step: ToolStep, scope: Scope, faults: Faults) -> None:
    """Report a tool that is not there, arguments that it does not take, values that cannot be said."""
    match step:
        case Invoke():
            _use(step, scope, faults)
        case Confirm(details=details):
            _use(step, scope, faults)
            for detail in details:
                infer(detail, scope, faults)
        case Say(parts=said):
            for value in values(said):
                found = infer(value, scope, faults)
                if isinstance(found, ListType | RecordType | TextType):
                    advice = "name a field of it, or give what is to be said a name in a step before"
                    message = f"a say shows single values, {quoted(text(value))} is {type_text(found)}"
                    faults(value.at, message, advice)


def _use(step: Invoke | Confirm, scope: Scope, faults: Faults) -> None:
    given = [infer(argument, scope, faults) for argument in step.arguments]
    tool = scope.tools.get(step.tool)
    if tool is None:
        if step.tool not in faults.doubtful:
            faults(step.at, f"there is no tool {step.tool!r}", _meant(step, scope))
        return
    wanted = ", ".join(f"{one.name}: {type_text(one.type)}" for one in tool.parameters)
    if len(given) != len(tool.parameters):
        word = "call" if isinstance(step, Invoke) else "confirm"
        message = f"tool {tool.name!r} takes ({wanted}), {len(given)} given"
        faults(step.at, message, f"write it as {word} {tool.name}({wanted})")
        return
    for parameter, argument, found in zip(tool.parameters, step.arguments, given, strict=True):
        if found is not None and not takes(parameter.type, found):
            message = f"{parameter.name!r} of tool {tool.name!r} is {type_text(parameter.type)}"
            where = f"{parameter.name}: {{type}} in tool {tool.name}"
            advice = (
                advice_for(argument, found, parameter.type, where) or f"give it {type_text(parameter.type)}"
            )
            faults(argument.at, f"{message}, {quoted(text(argument))} is {kind_text(found)}", advice)
    if isinstance(step, Invoke) and step.target is None and tool.effect is Effect.READS:
        faults.warning(step.at, f"nothing keeps what {tool.name!r} reads", f"write x = call {tool.name}(...)")


def _meant(step: Invoke | Confirm, scope: Scope) -> str:
    if step.tool in scope.procedures and isinstance(step, Invoke):
        return f"a procedure is carried out: write {step.target or 'x'} = do {step.tool}(...)"
    return suggestion(step.tool, scope.tools) or f"declare it: tool {step.tool}(id: string) -> string writes"


def check_tools(module: Module, faults: Faults) -> None:
    """Report what a file says of tools: rules about none, and tools that nothing uses."""
    for rule in module.own_rules:
        _check_rule(rule, module.tools, faults)
    own = module.own_procedures.values()
    used = {name for procedure in own for name in tools_of(procedure, module)}
    for name, tool in module.own_tools.items():
        if own and name not in used:  # a file without procedures has them for others
            faults.warning(tool.at, f"the tool {name!r} is never used", "leave it out, or call it")


def _check_rule(rule: Always, tools: dict[str, Tool], faults: Faults) -> None:
    for name in (*rule.first, *rule.then):
        if name.name not in {*tools, *Effect, *faults.doubtful}:
            advice = suggestion(name.name, [*tools, *Effect])
            faults(name.at, f"there is no tool {name.name!r}", advice)

"""From syntax trees to tools, the steps that use them, and the rules that hold for their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guard.procedure import wording
from guard.procedure.model import Always, Confirm, Demand, Effect, End, Invoke, Origin, Say, Tool, ToolStep
from guard.procedure.nodes import Expr, Name
from guard.procedure.terms import Node, Part, Terms, parts, span, token, tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from lark import Token

    from guard.procedure.faults import Faults
    from guard.procedure.model import Parameter
    from guard.procedure.types import Type

RULES = frozenset({"confirmed", "preceded", "excluded"})
STEPS = frozenset({"invoke", "confirm", "say"})


def tool(word: Token, parameters: tuple[Parameter, ...], result: Type, effect: Token, faults: Faults) -> Tool:
    """Read a tool's declaration, but for its types."""
    if word in list(Effect):
        faults(span(word), f"{word.value!r} stands for all tools that do", "take another name")
    return Tool(str(word), parameters, result, Effect(str(effect)), span(word))


def rule(node: Node, faults: Faults) -> Always:
    """Read what an `always` asks for."""
    named = [tuple(Name(str(word), span(token(word))) for word in parts(tree(part))) for part in parts(node)]
    nothing: tuple[Name, ...] = ()
    demand, first, then = {
        "confirmed": (Demand.CONFIRM, nothing, named[0]),
        "preceded": (Demand.BEFORE, named[0], named[-1]),
        "excluded": (Demand.NEVER_AFTER, named[-1], named[0]),
    }[str(node.data)]
    line, _ = faults.source.position(span(node).start)
    return Always(demand, first, then, Origin(faults.source.name, line), span(node))


def step(
    node: Node, number: str, label: str | None, terms: Terms, end: Callable[[Node, str], End]
) -> ToolStep:
    """Read a step that uses tools or speaks; `end` reads what an `else` ends with, given its number."""
    children, at = parts(node), span(node)
    match node.data:
        case "invoke":
            target, name, arguments = children
            return Invoke(
                number=number,
                target=None if target is None else terms.name(target, "a value"),
                tool=str(token(name)),
                arguments=_expressions(arguments, terms),
                label=label,
                at=at,
            )
        case "confirm":
            name, arguments, details, otherwise = children
            return Confirm(
                number=number,
                tool=str(token(name)),
                arguments=_expressions(arguments, terms),
                details=_expressions(details, terms),
                otherwise=end(tree(otherwise), f"{number}.1"),
                label=label,
                at=at,
            )
        case _:
            said = wording.read(token(children[0]), terms.faults)
            return Say(number=number, parts=said, label=label, at=at)


def _expressions(part: Part, terms: Terms) -> tuple[Expr, ...]:
    given = () if part is None else parts(tree(part))
    return tuple(terms.expression(one) for one in given if one is not None)

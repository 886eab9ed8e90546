"""What an expression can refer to: names and their types, and which of them are known not to be null."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from guard.procedure.model import Numbers, Procedure, Table, Tool
from guard.procedure.nodes import Expr
from guard.procedure.presence import NOTHING, Paths, told, without
from guard.procedure.types import Type


@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression can refer to.

    A variable whose type is None has been complained about already; so are all that depend on it.
    """

    variables: Mapping[str, Type | None] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)
    numbers: Numbers = field(default_factory=Numbers)
    procedures: Mapping[str, Procedure] = field(default_factory=dict)
    tools: Mapping[str, Tool] = field(default_factory=dict)
    present: Paths = NOTHING  # what is known not to be null although its type says that it may

    def bind(self, name: str, type: Type | None) -> Scope:  # noqa: A002
        """Give a scope that has one variable more."""
        known = without(self.present, [name]) if self.present else self.present
        return replace(self, variables={**self.variables, name: type}, present=known)

    def where(self, condition: Expr, *, holds: bool) -> Scope:
        """Give the scope of what is evaluated only where a condition holds, or does not."""
        more = told(condition, holds=holds)
        return self.knowing(self.present | more) if more else self

    def knowing(self, paths: Paths) -> Scope:
        """Give the scope in which some paths are not null."""
        return replace(self, present=paths)

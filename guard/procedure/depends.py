"""Which steps that come wait for which others: those whose values they read, through what is copied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from guard.procedure.execute import Program
from guard.procedure.expected import Expected
from guard.procedure.located import Located, statements
from guard.procedure.model import Do, For, StepKind

NOTHING: Final[frozenset[str]] = frozenset()


class Dependencies:
    """Goes through the steps of one execution in order, and says of each what it waits for.

    A variable is known once the step that gave it its value is; a step that is `open` is one that is waited
    for. Within a procedure that another carries out names have another meaning.
    """

    def __init__(self, program: Program) -> None:
        self._statements: Mapping[str, Located] = statements(program)
        self._given: dict[tuple[str, str], frozenset[str]] = {}  # by scope and name
        self._scopes: list[tuple[str, str]] = [("", "")]  # what paths begin with there, and the name outside

    def reads(self, step: Expected) -> frozenset[str]:
        """Give the variables that a step takes the values of."""
        located = self._statements.get(step.number)
        return NOTHING if located is None else located.reads

    def take(self, step: Expected, *, open_: bool) -> frozenset[str]:
        """Give the paths of the open steps that a step waits for; it comes next, and may be open itself."""
        while not step.path.startswith(self._scopes[-1][0]):
            self._scopes.pop()
        scope, outside = self._scopes[-1]
        needs = NOTHING.union(*(self._given.get((scope, name), NOTHING) for name in self.reads(step)))
        own = frozenset({step.path}) if open_ else needs
        located = self._statements.get(step.number)
        match None if located is None else located.statement:
            case For(variable=variable):
                self._given[scope, variable] = needs
            case Do(target=target, procedure=name):
                inner = f"{step.path}."
                self._scopes.append((inner, target))
                assert located is not None
                callee = located.program.callees[name]
                self._given |= {(inner, one.name): needs for one in callee.parameters}
            case _ if step.kind is StepKind.RESULT:
                self._given[self._scopes[-2][0], outside] = own
            case _ if step.target is not None:
                self._given[scope, step.target] = own
            case _:
                pass
        return needs

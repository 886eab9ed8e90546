"""The passes of an aggregate over its list, counted where aggregates stand inside one another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from guard.procedure.expected import UNKNOWN, Unknown
from guard.procedure.functions import EvaluationError
from guard.procedure.nodes import Aggregate, Expr, parts
from guard.procedure.types import Value

MOST_PASSES: Final = 250_000  # of aggregates inside one another, all taken together
PASSES: Final = " passes"  # where an environment counts those; no variable has a blank

Env = dict[str, Value | Unknown]
Evaluate = Callable[[Env], Any]  # gives a Value, or UNKNOWN where it hangs on what nobody has decided


@dataclass(frozen=True, slots=True)
class Passes:
    """The passes of an aggregate over its list."""

    variable: str
    items: Evaluate
    condition: Evaluate | None
    around: bool  # there are other aggregates in it

    def over(
        self, env: Env, shown: Env, term: Callable[[], Any], most: int | None = None
    ) -> list[Any] | None:
        """Compute a term for each item that the condition lets through.

        None where the items or a condition are not known. Stops behind `most` terms and one more.
        """
        items = self.items(env)
        if items is UNKNOWN:
            return None
        inside = self._counted(env, len(items))
        terms: list[Any] = []
        before = env.get(self.variable), shown.get(self.variable)
        try:
            for item, seen in zip(items, items if env is shown else self.items(shown), strict=False):
                env[self.variable], shown[self.variable] = item, seen
                passes = True if self.condition is None else self.condition(env)
                if passes is UNKNOWN:
                    return None
                if passes:
                    terms.append(term())
                    if most is not None and len(terms) > most:
                        break
        finally:
            _restore(env, self.variable, before[0])
            _restore(shown, self.variable, before[1])
            if self.around and not inside:
                env.pop(PASSES, None)
        return terms

    def _counted(self, env: Env, passes: int) -> bool:
        """Count the passes of an aggregate that is in others; whether it is. Raises `EvaluationError`."""
        made = env.get(PASSES)
        if not isinstance(made, int):
            if self.around:
                env[PASSES] = 0
            return False
        env[PASSES] = made + passes
        if made + passes > MOST_PASSES:
            raise EvaluationError(f"lists are gone through more than {MOST_PASSES:,} times in one another")
        return True


def has_aggregate(expr: Expr) -> bool:
    return isinstance(expr, Aggregate) or any(map(has_aggregate, parts(expr)))


def _restore(env: Env, name: str, value: Value | Unknown | None) -> None:
    if value is None:
        env.pop(name, None)
    else:
        env[name] = value

"""How much one execution may do: its steps, and the items of lists that it goes through.

A step costs little by itself; what makes one long is lists. So items are counted wherever a list is gone
through, made or compared, over the whole execution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from guard.procedure.expected import UNKNOWN, Unknown
from guard.procedure.functions import EvaluationError
from guard.procedure.types import Value

MOST_STEPS: Final = 100_000  # so that loops in loops come to an end
MOST_PASSES: Final = 250_000
PASSES: Final = " passes"  # where an environment has how many are left, of how many; no variable has a blank

Env = dict[str, Value | Unknown]
Evaluate = Callable[[Env], Any]  # gives a Value, or UNKNOWN where it depends on what nobody has decided


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How far one execution may go: its `steps`, and its `passes` over items of lists."""

    steps: int = MOST_STEPS
    passes: int = MOST_PASSES


CEILING: Final = Extent()  # of the language; policies have lower ones


class TooMuchError(EvaluationError):
    """An execution has gone as far as it may. The message names the limit."""


def charge(env: Env, passes: int) -> None:
    """Count passes. Raises `TooMuchError` where there have been more than may be."""
    match env.get(PASSES):
        case (int(left), int(most)):
            env[PASSES] = (left - passes, most)
            if left < passes:
                raise TooMuchError(
                    f"items of lists are gone through more than {most:,} times (limit `passes`)"
                )
        case _:  # a value by itself, outside of any execution
            pass


def charged(items: Evaluate) -> Evaluate:
    """Give the list that an expression gives, its items counted."""

    def evaluate(env: Env) -> Any:
        found = items(env)
        if isinstance(found, tuple):
            charge(env, len(found))
        return found

    return evaluate


@dataclass(frozen=True, slots=True)
class Passes:
    """The passes of an aggregate over its list."""

    variable: str
    items: Evaluate
    condition: Evaluate | None

    def over(
        self, env: Env, shown: Env, term: Callable[[], Any], most: int | None = None
    ) -> list[Any] | None:
        """Compute a term for each item that the condition lets through.

        None where the items or a condition are not known. Stops after `most` terms and one more. An
        aggregate that belongs to no execution counts its own passes and those of the ones in it.
        """
        items = self.items(env)
        if items is UNKNOWN:
            return None
        outermost = PASSES not in env
        if outermost:
            env[PASSES] = (MOST_PASSES, MOST_PASSES)
        terms: list[Any] = []
        before = env.get(self.variable), shown.get(self.variable)
        try:
            charge(env, len(items))
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
            if outermost:
                env.pop(PASSES, None)
        return terms


def _restore(env: Env, name: str, value: Value | Unknown | None) -> None:
    if value is None:
        env.pop(name, None)
    else:
        env[name] = value

"""How many decimals keep a value: what advice on rounding goes by, measured on a procedure's example.

Where the example can be executed, its values say how many decimals are needed; else there are enough for
rates and shares. So that nothing is rounded on the way, the example is executed with exact values carried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from guard.errors import RequestError
from guard.procedure.callees import calls, in_order
from guard.procedure.cells import Key
from guard.procedure.compile import compile_program
from guard.procedure.execute import Program, reference
from guard.procedure.numbers import Number, round_to
from guard.procedure.plainly import plainly
from guard.procedure.types import Rounding

if TYPE_CHECKING:
    from guard.procedure.model import Module, Procedure
    from guard.procedure.types import Type

MOST_LOST: Final = Fraction(1, 100)  # of a value, before an author is told
UNMEASURED: Final = 6  # decimals for a value that no example shows
_LEAST: Final = 2
_MOST: Final = 20
_DIGITS: Final = 6  # that a number below 1 keeps, which is mostly a rate that much is multiplied by

Values = Mapping[tuple[str, Key], tuple[Number, ...]]  # by a step's number and the place in its line


@dataclass(frozen=True)
class Examples:
    """What the steps of a module come to on its examples, each procedure executed when it is asked for.

    `types` are those of each procedure's names. Nothing is known where a module has faults (not `sound`).
    """

    module: Module
    types: Mapping[str, Mapping[str, Type]]
    sound: bool

    def values(self, procedure: Procedure) -> Values:
        """Give the exact numbers that each step of a procedure comes to on its example, before rounding."""
        if not self.sound or procedure.name not in self.module.examples:
            return {}
        seen: dict[tuple[str, Key], list[Number]] = {}

        def watch(number: str, key: Key, value: Any) -> None:
            seen.setdefault((number, key), []).extend(numbers_in(value))

        program = self._compiled(procedure, watch)
        if program is not None:
            _execute(program)
        return {place: tuple(found) for place, found in seen.items()}

    def _compiled(self, procedure: Procedure, watch: Callable[[str, Key, Any], None]) -> Program | None:
        if self._plain is None or any(name not in self.types for name in self._plain.procedures):
            return None
        compile_one = partial(compile_program, self._plain)
        programs: dict[str, Program] = {}
        for one in in_order(self._plain):
            callees = {step.procedure: programs[step.procedure] for step in calls(one)}
            if one.name == procedure.name:
                return compile_one(one, self.types[one.name], callees, watch=watch)
            programs[one.name] = compile_one(one, self.types[one.name], callees)
        return None

    @cached_property
    def _plain(self) -> Module | None:
        """The module without units and with exact values; None where other files are needed to tell."""
        if self.module.own_procedures.keys() != self.module.procedures.keys():
            return None
        exact = replace(self.module, numbers=replace(self.module.numbers, carry_exact=True))
        return plainly(exact, self.types, {})


def _execute(program: Program) -> None:
    if program.tool_steps:
        return
    try:
        reference(program, program.example_inputs or {}, program.example_decisions or {})
    except RequestError:
        return  # which is reported where the example is tried


def numbers_in(value: Any) -> Iterator[Number]:
    """Find the numbers in a value."""
    match value:
        case bool():
            pass
        case int() | Fraction():
            yield value
        case tuple():
            for part in value:
                yield from numbers_in(part)
        case _:
            pass


def loses(value: Number, places: int, rounding: Rounding = Rounding.HALF_UP) -> bool:
    """Whether rounding takes or adds more than a hundredth of a value."""
    exact = Fraction(value)
    return abs(round_to(exact, places, rounding) - exact) > MOST_LOST * abs(exact)


def keeping(values: Iterable[Number]) -> int:
    """Give a number of decimals to which all of some values can be rounded without loss worth a word."""
    return max((_needed(abs(Fraction(value))) for value in values), default=UNMEASURED)


def _needed(value: Fraction) -> int:
    if value == 0 or value >= 1:
        return _LEAST
    leading = 0  # zeros behind the point
    while value * 10 ** (leading + 1) < 1 and leading < _MOST:
        leading += 1
    places = min(leading + _DIGITS, _MOST)
    while places > _LEAST and round_to(value, places - 1, Rounding.HALF_UP) == value:
        places -= 1  # 0.25 needs no more than it has
    return places

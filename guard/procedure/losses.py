"""Roundings that lose what they round, as an example shows: 0.0054 to two decimals is 0.01."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from guard.procedure.decimals import keeping, loses, numbers_in
from guard.procedure.execute import Program
from guard.procedure.lattice import type_text
from guard.procedure.listing import walk
from guard.procedure.model import Assign, Return
from guard.procedure.numbers import Number
from guard.procedure.text import text
from guard.procedure.types import DecimalType
from guard.procedure.unrounded import turned

if TYPE_CHECKING:
    from guard.procedure.cells import Key
    from guard.procedure.faults import Faults

Rounded = Assign | Return


class Losses:
    """What the roundings of a program lose on its example.

    A step that names its way of rounding (`to 2 half_up`) says that so rough a number is meant, and so does
    one that rounds to tens or hundreds.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.steps: Mapping[str, Rounded] = {step.number: step for step in _rounded(program)}
        self.lost: dict[str, list[Number]] = {}

    def watched(self) -> Program:
        """Give the program, compiled so that what it rounds is seen here."""
        if not self.steps:
            return self.program
        return self.program.compiled_for(self.program.callees, self.program.form, watch=self._see)

    def _see(self, number: str, key: Key, value: Any) -> None:  # noqa: ARG002 (what is rounded stands alone)
        step = self.steps.get(number)
        if step is None or step.places is None:
            return
        rounding = self.program.numbers.rounding
        lost = [number for number in numbers_in(value) if loses(number, step.places, rounding)]
        self.lost.setdefault(number, []).extend(lost)

    def warn(self, faults: Faults) -> None:
        """Warn of each step that has lost more of a value than is worth a word."""
        for number, values in self.lost.items():
            if values:
                self._warn(self.steps[number], values, faults)

    def _warn(self, step: Rounded, values: list[Number], faults: Faults) -> None:
        assert step.places is not None
        rounding, places, written = self.program.numbers.rounding, keeping(values), text(step.expression)
        if isinstance(step, Assign):
            more = f"{step.target} = {written} to {places}"
        else:
            result = type_text(self.program.result)
            more = f"return {written} to {places}, and {type_text(DecimalType(places))} for {result} after ->"
        happens = turned(values[0], step.places, rounding)
        faults.warning(
            step.at,
            f"rounding loses more than 1% of a value: {happens} on the example",
            f"write {more}; or to {step.places} {rounding.value} where so rough a number is meant",
        )


def _rounded(program: Program) -> Iterator[Rounded]:
    exact = program.numbers.carry_exact  # what an assignment rounds then is what is shown, and no more
    for step in walk(program.procedure.body):
        if not isinstance(step, Return) and (exact or not isinstance(step, Assign)):
            continue
        if step.places is not None and step.places >= 0 and step.rounding is None:
            yield step

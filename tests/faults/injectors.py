"""All injectors, by name, and whether a checker says of a mutant what is to be said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from guard.check.checker import Checker
from guard.check.verdict import Violation
from tests.faults import form, order, values, workings
from tests.faults.faithful import NONCE, Injector, Mutant, Sample

INJECTORS: Final[Mapping[str, Injector]] = {
    injector.__name__: injector
    for injector in (
        order.left_out,
        order.left_out_several,
        order.ended_early,
        order.again,
        order.corrected,
        order.made_up,
        order.of_another_arm,
        order.one_pass_more,
        order.behind_the_end,
        order.early,
        order.under_another_number,
        order.under_the_number_before,
        order.exchanged,
        workings.other_operand,
        workings.other_operator,
        workings.swapped,
        workings.regrouped,
        workings.without_working,
        workings.without_symbol,
        workings.with_working,
        workings.longer,
        workings.twice,
        workings.quoted,
        workings.other_head,
        workings.other_shape,
        values.wrong_value,
        values.inadmissible,
        values.ungrounded,
        values.worked_out,
        form.prose,
        form.decorated,
        form.run_together,
        form.misspelled,
        form.misframed,
        form.cut,
        form.too_long,
        form.runaway,
    )
}


def injected(sample: Sample, index: int) -> Iterator[Mutant]:
    """Every departure that a step of a faithful trace can have."""
    for injector in INJECTORS.values():
        yield from injector(sample, index)


def found(sample: Sample, mutant: Mutant) -> Violation | None:
    """What a checker says of a mutant."""
    checker = Checker(sample.program, sample.inputs, nonce=NONCE)
    checker.feed(mutant.text)
    checker.close(mutant.finish_reason)
    return checker.violation


def right(sample: Sample, mutant: Mutant) -> bool:
    """Whether that is its kind, its step and its place, and what was expected is not what was found."""
    said = found(sample, mutant)
    return (
        said is not None
        and (said.kind, said.step, said.at) == (mutant.kind, mutant.step, mutant.at)
        and said.expected not in {said.found, "another text", "something else"}
    )

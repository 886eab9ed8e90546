"""Steps that are left out, made up, repeated or come too early.

Most injectors insert a line *in front of* a step or leave the step out. What must be said of that follows from the
faithful trace alone: which lines stand in it, and in which order.
"""

from __future__ import annotations

from collections.abc import Iterator

from guard.procedure.model import StepKind
from tests.faults.faithful import ENDS, NONCE, Mutant, Sample, changed_line, come, inserted_line
from tests.faults.values import another


def _is_answer(sample: Sample, index: int) -> bool:
    return sample.steps[index][0].kind.value in ENDS


def _without(sample: Sample, index: int, count: int, name: str) -> Mutant:
    """A trace that lacks some steps from one on."""
    lines = sample.lines
    del lines[index + 1 : index + 1 + count]
    left = [place for place in range(len(sample.steps)) if not index <= place < index + count]
    came = list(come(sample.program, sample.inputs, [sample.steps[place] for place in left]))
    due, missed = came[-1][0], len(came) - 1  # of members of a group others may come, and it is missed later
    if missed >= len(left):
        kind = "missing_answer"
    else:
        kind = "premature_answer" if _is_answer(sample, left[missed]) else "skipped_step"
    text = "".join(f"{line}\n" for line in lines)
    at = sum(len(line) + 1 for line in lines[: missed + 1])
    return Mutant(name=name, text=text, kind=kind, step=due, at=at)


def left_out(sample: Sample, index: int) -> Iterator[Mutant]:
    yield _without(sample, index, 1, "left_out")


def left_out_several(sample: Sample, index: int) -> Iterator[Mutant]:
    for count in {2, 5, len(sample.steps) - index - 1}:
        if 2 <= count <= len(sample.steps) - index:
            yield _without(sample, index, count, "left_out_several")


def ended_early(sample: Sample, index: int) -> Iterator[Mutant]:
    """The closing line, or nothing more, instead of a step and all that follow."""
    text = "".join(f"{line}\n" for line in sample.lines[: index + 1])
    for rest in (f"@end {NONCE}\n", "", "\n\n"):
        yield Mutant(
            name="ended_early",
            text=text + rest,
            kind="missing_answer",
            step=sample.due[index],
            at=len(text) + (0 if rest.startswith("@") else len(rest)),
        )


def again(sample: Sample, index: int) -> Iterator[Mutant]:
    """A step once more, right behind it and later."""
    line = sample.lines[index + 1]
    for at in {index + 1, index + 3, len(sample.steps)}:
        if at <= len(sample.steps):
            yield inserted_line(sample, at, line, "repeated_step", name="again")
    head, _, rest = line.partition(" ")
    yield inserted_line(sample, index + 1, f"{head}   {rest} ", "repeated_step", name="again")


def corrected(sample: Sample, index: int) -> Iterator[Mutant]:
    """A step once more with another value, right behind it and later."""
    line = another(sample, index)
    if line is not None:
        for at in {index + 1, index + 2, len(sample.steps)}:
            if at <= len(sample.steps):
                yield inserted_line(sample, at, line, "self_correction", name="corrected")


def made_up(sample: Sample, index: int) -> Iterator[Mutant]:
    """A step that the procedure does not have."""
    for path in ("999", f"{sample.path(index)}.99", "999[2].1"):
        line = f"{path} zz = 1 + 1 = 2"
        yield inserted_line(sample, index, line, "extra_step", step=path, name="made_up")
    if sample.steps[index][0].head not in ENDS:
        path = f"{sample.path(index)}.99"
        line = f"{path} {sample.lines[index + 1].partition(' ')[2]}"
        yield inserted_line(sample, index, line, "extra_step", step=path, name="made_up")


def of_another_arm(sample: Sample, index: int) -> Iterator[Mutant]:
    """A step of an arm that is not taken. Where something is still to be decided nobody can know."""
    if any(expected.decision is not None for expected, _ in sample.steps[index:]):
        return
    kinds = sample.program.step_numbers
    loops = [number for number, kind in kinds.items() if kind in {StepKind.LOOP, StepKind.WHILE}]
    for number in kinds:
        in_loop = any(number == loop or number.startswith(f"{loop}.") for loop in loops)
        if not in_loop and number not in sample.paths:
            line = f"{number} zz = 1 + 1 = 2"
            yield inserted_line(sample, index, line, "extra_step", step=number, name="of_another_arm")


def one_pass_more(sample: Sample, index: int) -> Iterator[Mutant]:
    """A pass that a loop over a list does not have, in front of what follows the header."""
    expected, value = sample.steps[index]
    if expected.kind is StepKind.LOOP and isinstance(value, int):
        path = f"{expected.path}[{value + 1}].1"
        yield inserted_line(
            sample, index + 1, f"{path} zz = 1", "extra_step", step=path, name="one_pass_more"
        )


def behind_the_end(sample: Sample, index: int) -> Iterator[Mutant]:
    """Text behind the closing line: prose, a step again, another trace."""
    path, line = sample.path(index), sample.lines[index + 1]
    for more, step in (
        (line, path),
        ("I hope this helps!", ""),
        (sample.lines[0], ""),
        (sample.lines[-1], ""),
    ):
        yield Mutant(
            name="behind_the_end",
            text=f"{sample.trace}\n{more}\n",
            kind="extra_step",
            step=step,
            at=len(sample.trace) + 1,
        )


def early(sample: Sample, index: int) -> Iterator[Mutant]:
    """The answer in front of a step that is not the answer."""
    last = len(sample.steps) - 1
    if index == last:
        return
    answer = sample.lines[-2]
    yield inserted_line(sample, index, answer, "premature_answer", name="early")
    body = answer.partition(" ")[2]
    yield inserted_line(sample, index, f"999 {body}", "premature_answer", name="early")
    yield inserted_line(sample, index, '998 deny "No."', "premature_answer", name="early")


def under_another_number(sample: Sample, index: int) -> Iterator[Mutant]:
    """A step under the number of one that is long verified, or of none."""
    body = sample.lines[index + 1].partition(" ")[2]
    # Also the `return` that gives a step its value is an answer under another number.
    kind = "premature_answer" if sample.steps[index][0].head in ENDS else "extra_step"
    step = "999" if kind == "extra_step" else None
    yield changed_line(sample, index, f"999 {body}", kind, 0, step=step, name="under_another_number")


def under_the_number_before(sample: Sample, index: int) -> Iterator[Mutant]:
    """A step under the number of the one before, as if it were that one's other value."""
    if not index:
        return
    before, body = (sample.lines[each].partition(" ")[2] for each in (index, index + 1))
    if before != body and sorted(before) == sorted(body):
        return  # perhaps only operands changed their places, which is the same step
    kind = "repeated_step" if before == body else "self_correction"
    line = f"{sample.path(index - 1)} {body}"
    yield changed_line(sample, index, line, kind, 0, name="under_the_number_before")


def exchanged(sample: Sample, index: int) -> Iterator[Mutant]:
    """A step and the one behind it in the other order."""
    if index + 1 == len(sample.steps):
        return
    lines = sample.lines
    lines[index + 1 : index + 3] = reversed(lines[index + 1 : index + 3])
    yield Mutant(
        name="exchanged",
        text="".join(f"{line}\n" for line in lines),
        kind="premature_answer" if _is_answer(sample, index + 1) else "skipped_step",
        step=sample.path(index),
        at=sample.start(index),
    )

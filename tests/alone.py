"""What a model answers that is asked for one step by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from guard.check.replay import Walk
from guard.procedure.execute import Program
from guard.procedure.expected import Expected, Form
from guard.procedure.types import Value
from guard.run.messages import Open
from guard.trace.alone import question
from guard.trace.render import line, supporting_quotes

Steps = Sequence[tuple[Expected, Value]]


def shown(program: Program, inputs: Mapping[str, Value], steps: Steps, at: int) -> Expected:
    """A step of an execution as the question for it is made: with its working, while it is due."""
    sent = [value if step.decision is not None else None for step, value in steps[:at]]
    due = Walk.start(program.in_form(Form.WORK), inputs, sent).due
    assert due is not None
    return due


def answer(program: Program, inputs: Mapping[str, Value], steps: Steps, at: int) -> str:
    """The right answer to the question for a step of an execution, with its end."""
    step, value = steps[at]
    if step.decision is not None:
        written = line(step, value, supporting_quotes(step, value))
        return written.removeprefix(f"{step.path} {step.head} ") + "\n"
    cells = question(program, shown(program, inputs, steps, at)).cells
    return "".join(f"{step.cells[index].spelling}\n" for index in cells)


def texts(opened: Open) -> list[str]:
    """The texts of the messages of a request."""
    return [str(message["content"]) for message in opened.messages]

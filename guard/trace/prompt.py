"""What the model is told: the numbered procedure, how to write it down, and a trace to copy the form of.

The wording was measured with a model of 135 million parameters and no grammar. Most of it makes no
difference; that the prompt ends in the *form* of the answer does: 75 of 90 steps were begun in order
where it is shown, none where the same is said in a sentence or stands in front of the inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from guard.procedure.compile import head
from guard.procedure.execute import Program, reference
from guard.procedure.expected import Form
from guard.procedure.lattice import holds_null, may_be_null, required
from guard.procedure.listing import walk
from guard.procedure.model import AnyOrder, Extract, If, Judge, OneOf, Quoting, Step, StepKind, While
from guard.procedure.types import ListType, TextType, Type, Value
from guard.procedure.units import counts
from guard.procedure.values import spell
from guard.trace.render import begin, end, line, supporting_quotes

EXAMPLE_LINES: Final = 40  # of the worked example; more show nothing new

_TASK: Final = (
    "Carry out the procedure step by step. Write one line for each step, in order: its number, {shown}. "
    "Leave no step out, add none, and write nothing else."
)
_SHOWN: Final = {
    Form.VALUES: "its name and the result",
    Form.WORK: "the step with values in place of names, and the result",
    Form.FULL: "the step as it stands, the same with values in place of names, and the result",
}
_CONDITION: Final = (
    "A condition ends in `{true}` or `{false}`. Write only the steps below the one that is true."
)
_LOOP: Final = (
    "The line of a `for` ends in how many items there are. Then write its steps for each item, "
    "with the item's place in the number: `{first}` for the first, `{second}` for the second."
)
_WHILE: Final = (
    "The line of a `while` comes before each pass and once more when it is false, "
    "with the pass in its number: `{first}`, then its steps `{first}.1`, and so on; then `{second}`."
)
_DO: Final = (
    "The line of a `do` ends in the values that are given to the procedure below it. "
    "Then write the steps below it with these values; their `return` gives the name its value."
)
_ANY_ORDER: Final = (
    "The steps below `any order` may come in any order. "
    "Write each of them once, with all of its lines together."
)
_ONE_OF: Final = (
    "Of the alternatives below `one of` choose one and name it: `{first} try` and its name, then its steps, "
    "`{first}.1.1` and so on for the first alternative. "
    "Where its `require ... else next` is false, choose again with `{second} try`."
)
_READ: Final = "A step with `from` has its value from the text: read it there."
_QUOTE: Final = (
    "Behind such a value write `<-` and the words of the text that say so, "
    "in quotes and exactly as they stand there."
)
_QUOTE_EACH: Final = (
    "Behind a list write such a quote for each of its items, in their order, each with its own `<-`."
)

_NULL: Final = "Where the text does not say a value whose type ends in `?`, write `null`."
_NULL_QUOTED: Final = (
    "Where the text does not say a value whose type ends in `?`, write `null`, without a quote."
)

_UNIT: Final = (
    "What stands behind the type of such a value is its unit: write the number in that unit, alone."
)


Given = tuple[Mapping[str, Value], Mapping[str, Value]]  # the inputs and decisions of a worked example


def instructions(program: Program, examples: Iterable[Given] | None = None) -> str:
    """Give the text for the head of a prompt; it is the same for every request to this procedure.

    `examples` are worked, in their order; None: the procedure's own, where it has one.
    Raises `ConversationError` where the procedure cannot be run.
    """
    program.require_runnable()
    rules = "\n".join(f"- {rule}" for rule in _rules(program))
    worked = [_example(program, *given) for given in (_own(program) if examples is None else examples)]
    return "\n\n".join(
        filter(None, [_TASK.format(shown=_SHOWN[program.form]), program.numbered, rules, *worked])
    )


def closing(program: Program, inputs: Mapping[str, Value], nonce: str, *, above: Collection[str] = ()) -> str:
    """Give the text for the end of a prompt: the inputs, and the form of this request's trace.

    `above` names the text inputs that the conversation shows already; the others are written out.
    """
    form = f"{begin(program.name, nonce)}\n{_first(program)} ...\n...\n{end(nonce)}"
    parts = ["\n".join(_inputs(program, inputs, above)), "Answer in this form:", form]
    return "\n\n".join(filter(None, parts))


def _first(program: Program) -> str:
    """Give the beginning of the first line: what shows the form best is an answer that has begun."""
    step = program.procedure.body[0]
    while isinstance(step, AnyOrder):
        step = step.body[0]
    first = step.branches[0] if isinstance(step, If) else step
    turn = "[1]" if isinstance(first, OneOf | While) else ""
    return f"{first.number}{turn} {head(first)}"


def _rules(program: Program) -> Iterator[str]:
    """Give the rules for what the procedure holds: a small model heeds few, so none is given in vain."""
    kinds = set(program.step_numbers.values())
    if kinds & {StepKind.BRANCH, StepKind.WHILE, StepKind.REQUIRE, StepKind.CHECK}:
        sign = "" if program.form is Form.VALUES else "= "
        yield _CONDITION.format(true=f"{sign}true", false=f"{sign}false")
    loop = next((number for number, kind in program.step_numbers.items() if kind is StepKind.LOOP), None)
    if loop is not None:
        yield _LOOP.format(first=f"{loop}[1].1", second=f"{loop}[2].1")
    again = next((number for number, kind in program.step_numbers.items() if kind is StepKind.WHILE), None)
    if again is not None:
        yield _WHILE.format(first=f"{again}[1]", second=f"{again}[2]")
    choice = next((n for n, kind in program.step_numbers.items() if kind is StepKind.CHOICE), None)
    if choice is not None:
        yield _ONE_OF.format(first=f"{choice}[1]", second=f"{choice}[2]")
    if program.members:
        yield _ANY_ORDER
    if StepKind.DO in kinds:
        yield _DO
    read = [step for step in _steps(program) if isinstance(step, Extract | Judge)]
    if read:
        yield _READ
    if any(step.quote for step in read):
        yield _QUOTE
    if any(step.quote is Quoting.SUPPORTING and isinstance(required(step.type), ListType) for step in read):
        yield _QUOTE_EACH
    if any(counts(step.type) for step in read):
        yield _UNIT
    if any(holds_null(step.type) for step in read):
        yield _NULL_QUOTED if any(step.quote and may_be_null(step.type) for step in read) else _NULL


def _steps(program: Program) -> Iterator[Step]:
    yield from walk(program.procedure.body)
    for callee in program.callees.values():
        yield from _steps(callee)


def _inputs(program: Program, inputs: Mapping[str, Value], above: Collection[str]) -> Iterator[str]:
    for parameter in program.parameters:
        name, value = parameter.name, inputs[parameter.name]
        if name in above:
            yield f"{name}: the text above"
        else:
            yield f"{name} = {_spelled(value, parameter.type)}"


def _spelled(value: Value, type_: Type) -> str:
    if isinstance(type_, TextType):
        return f'"""\n{value}\n"""'
    return spell(value, type_)


def _own(program: Program) -> list[Given]:
    inputs, decisions = program.example_inputs, program.example_decisions
    return [] if inputs is None or decisions is None else [(inputs, decisions)]


def _example(program: Program, inputs: Mapping[str, Value], decisions: Mapping[str, Value]) -> str:
    """A trace on the inputs of an example: lines only, for only a request has a frame."""
    steps, _ = reference(program, inputs, decisions)
    lines = [
        line(expected, value if expected.decision else None, supporting_quotes(expected, value))
        for expected, value in steps[:EXAMPLE_LINES]
    ]
    return "\n".join(["Example. For", *_inputs(program, inputs, ()), "", "the lines are", *lines])

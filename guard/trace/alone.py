"""One step asked for by itself: what a model is shown of it, and what its answer makes of the step's line.

A computed line is asked for in the simplest equal form of its operands, after worked examples of the same
operations; what the model decides by its question, the type and bounds in words, and the texts to read.
Nothing of the trace is shown, so that nothing in it can mislead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from guard.procedure.execute import Program
from guard.procedure.expected import UNKNOWN, Expected, Unknown
from guard.procedure.inwords import in_words, put_in, type_in_words
from guard.procedure.lattice import may_be_null, required
from guard.procedure.listing import table_text
from guard.procedure.located import Located, statements
from guard.procedure.model import Extract, Judge, Quoting, StepKind
from guard.procedure.nodes import Call, Expr, names, within
from guard.procedure.simplest import simplest
from guard.procedure.text import text
from guard.procedure.types import BoolType, DecimalType, ListType, RecordType, TextType, Type, Value
from guard.procedure.units import bare
from guard.procedure.values import spell
from guard.trace.likewise import Problem, examples
from guard.trace.reread import expression
from guard.trace.working import same_working

DECIDED: Final = frozenset({StepKind.EXTRACT, StepKind.JUDGE})

Named = Mapping[str, Value | Unknown]

_COMPUTE: Final = "Compute the value. Write the value alone, nothing else."
_COMPUTE_EACH: Final = "Compute the value of each line. Write the values alone, one a line, nothing else."
_JUDGE_TRUTH: Final = "Say whether it is true. Write `true` or `false` alone, nothing else."
_ROUND: Final = "Round to {places} ({mode})."
_READ: Final = "Read `{name}` from {sources}."
_WHERE: Final = "It must hold: {bounds}."
_VALUE: Final = "Write {what}, alone on one line."
_QUOTED: Final = (
    "Write {what}, then `<-` and the words of the text that say so, in quotation marks and exactly as they "
    "stand there, all on one line: {form}"
)
_NULL: Final = "Where the text does not say it, write `null`{alone}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked about one line.

    `turns` are what is said in turn, by the one who asks and by the one who answers: worked examples, and at
    last the question. `cells` are those of the line whose values are asked for, in order, a line each.
    `asked` are the texts that a model may repeat in front of each of its answers.
    """

    turns: tuple[str, ...]
    cells: tuple[int, ...]
    asked: tuple[tuple[str, ...], ...]


def can_be_asked(due: Expected) -> bool:
    """Whether a step can be asked for by itself: it is read or judged, or it is seen how it is computed."""
    if due.decision is not None:
        return due.kind in DECIDED
    return due.known and bool(asked_cells(due))


def computed(due: Expected) -> bool:
    """Whether a step that can be asked for by itself is computed, so that the guard gives its operands."""
    return due.decision is None


def question(program: Program, due: Expected, values: Named | None = None, *, again: int = 0) -> Question:
    """Ask for a step that `can_be_asked` for, whose line shows how it is computed.

    `values` are those of the variables where the step was due; None: it is. `again`: how often it was asked
    for before, with other examples.
    """
    located = statements(program)[due.number]
    values = due.env if values is None else values
    if due.decision is not None:
        return _decision(located, due, values)
    return _Computed(located, due, values).question(again)


def asked(program: Program, due: Expected) -> str:
    """Give the question for a step that is due by itself, without examples; see `question`."""
    located = statements(program)[due.number]
    if due.decision is not None:
        return _decision(located, due, due.env).turns[-1]
    return _Computed(located, due, due.env).asked


def asked_cells(due: Expected) -> tuple[int, ...]:
    """Give the cells of a computed step whose values are asked for."""
    return tuple(
        index
        for index, cell in enumerate(due.cells)
        if not cell.bare and (cell.working is not None or due.kind is StepKind.LOOP)
    )


# --- what is computed --------------------------------------------------------------------------------


class _Computed:
    """Makes the question for a computed line."""

    def __init__(self, located: Located, due: Expected, values: Named) -> None:
        program = located.program
        self._located = located
        self._types = {name: bare(type_) for name, type_ in program.types.items()}
        self._indices = asked_cells(due)
        self._cells = [due.cells[index] for index in self._indices]
        self._workings = [_working(located, due, index) for index in self._indices]
        forms = [_simplest(working) for working in self._workings]
        self._texts = [
            working if form is None else text(form)
            for working, form in zip(self._workings, forms, strict=True)
        ]
        self._problems = [
            Problem(form, cell.type, cell.spelling or "")
            for form, cell in zip(forms, self._cells, strict=True)
            if form is not None
        ]
        self._shown = self._values_of(values)

    def question(self, again: int) -> Question:
        """Ask for it, after examples."""
        turns = [*self._examples(again), self.asked]
        turns[0] = f"{self._head}\n\n{turns[0]}"
        repeated = zip(self._texts, self._workings, strict=True)
        return Question(
            turns=tuple(turns),
            cells=self._indices,
            asked=tuple(tuple(dict.fromkeys(forms)) for forms in repeated),
        )

    @property
    def asked(self) -> str:
        """The question by itself."""
        return self._lines(self._shown, self._texts)

    def _examples(self, again: int) -> Iterator[str]:
        readable = len(self._problems) == len(self._cells)
        if not readable or any(isinstance(self._types[name], TextType) for name in self._shown):
            return
        for example in examples(self._problems, self._located, self._shown, again=again):
            yield self._lines(example.values, [one.text for one in example.problems])
            yield "\n".join(one.answer for one in example.problems)

    def _values_of(self, values: Named) -> dict[str, Value]:
        """Give the values of what stands by name, as far as they are known."""
        found: dict[str, Value] = {}
        for problem in self._problems:
            for name in names(problem.expression):
                value = values.get(name.name, UNKNOWN)
                if not isinstance(value, Unknown) and name.name in self._types:
                    found[name.name] = value
        return found

    def _lines(self, values: Mapping[str, Value], asked: Sequence[str]) -> str:
        known = [f"{name} = {_spelled(value, self._types[name])}" for name, value in values.items()]
        return "\n".join([*known, *(f"{form} =" for form in asked)])

    @property
    def _head(self) -> str:
        """What is to be done, and the tables that it takes."""
        truth = all(isinstance(cell.type, BoolType) for cell in self._cells)
        one = _JUDGE_TRUTH if truth else _COMPUTE
        task = _COMPUTE_EACH if len(self._cells) > 1 else one
        tables = self._located.program.module.tables
        used = dict.fromkeys(
            part.function
            for problem in self._problems
            for part in within(problem.expression)
            if isinstance(part, Call) and part.function in tables
        )
        rounding = _rounding(self._located, self._cells[0].type)
        return "\n\n".join(
            [" ".join(filter(None, [task, rounding])), *(table_text(tables[one]) for one in used)]
        )


def _working(located: Located, due: Expected, index: int) -> str:
    """Give the expression of a cell with the values of its operands: of a loop, how many items it has."""
    match due.cells[index].working:
        case (str(working),):
            return working
        case _:
            assert located.expression is not None, "what is computed has an expression"
            return text(located.expression)


def _simplest(working: str) -> Expr | None:
    """Give the simplest equal form of a working, None where it cannot be read as what it says."""
    expr = expression(working)
    return simplest(expr) if expr is not None and same_working(text(expr), working) else None


def _spelled(value: Value, type_: Type) -> str:
    return f'"""\n{value}\n"""' if isinstance(type_, TextType) else spell(value, type_)


def _rounding(located: Located, type_: Type) -> str:
    rule = located.rounding
    numbers = located.program.numbers
    if rule is None and numbers.carry_exact and isinstance(type_, DecimalType) and type_.places is not None:
        rule = type_.places, numbers.rounding
    if rule is None:
        return ""
    places, mode = rule
    if places < 0:
        what = f"multiples of {10**-places}"
    else:
        what = "a whole number" if places == 0 else f"{places} decimal{'' if places == 1 else 's'}"
    return _ROUND.format(places=what, mode=mode.value.replace("_", " "))


# --- what is decided ---------------------------------------------------------------------------------


def _decision(located: Located, due: Expected, values: Named) -> Question:
    assert due.decision is not None
    parts = [f'{name}:\n"""\n{source}\n"""' for name, source in due.decision.sources]
    parts.append(" ".join(_asked_for(located, due, values)))
    return Question(turns=("\n\n".join(parts),), cells=(0,), asked=((due.head.removesuffix(" ="),),))


def _asked_for(located: Located, due: Expected, values: Named) -> Iterator[str]:
    """Say what is to be read, what it must be, and in what form it is to be written."""
    step, decision = located.statement, due.decision
    assert isinstance(step, Extract | Judge)
    assert decision is not None
    types = {name: bare(type_) for name, type_ in located.program.types.items() if name != step.target}
    if isinstance(step, Judge):
        yield step.question
    else:
        sources = " and ".join(f"`{name}`" for name, _ in decision.sources)
        yield _READ.format(name=step.target, sources=sources)
    if step.where is not None:
        yield _WHERE.format(bounds=in_words(put_in(step.where, values, types)))
    what = type_in_words(step.type)
    if decision.at_most is not None:
        what += f", of at most {decision.at_most} items"
    if decision.quote is None:
        yield _VALUE.format(what=what)
    else:
        form = f'`{_form(required(decision.type))} <- "words of the text"`'
        each = decision.quote is Quoting.SUPPORTING and isinstance(required(decision.type), ListType)
        yield _QUOTED.format(what=what, form=f"{form}, with such a quote for each item" if each else form)
    if may_be_null(decision.type):
        yield _NULL.format(alone=", without a quote" if decision.quote is not None else "")


def _form(type_: Type) -> str:
    """Give the form of a value, dots in the place of what it says."""
    match required(type_):
        case ListType(item):
            return f"[{_form(item)}, ...]"
        case RecordType(fields):
            return "{" + ", ".join(f'"{field.name}": {_form(field.type)}' for field in fields) + "}"
        case _:
            return "..."

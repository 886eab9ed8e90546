"""Small procedures with inputs and decisions, made by hypothesis, and what may go wrong in their traces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby

from hypothesis import assume
from hypothesis import strategies as st

from guard.errors import RequestError
from guard.procedure.execute import Program, reference
from guard.procedure.expected import Ending, EndKind, Expected, Form, Pick
from guard.procedure.groups import around
from guard.procedure.load import load
from guard.procedure.steps import Sent
from guard.procedure.types import Value
from guard.trace import render

NONCE = "3fa92c"
NOTE = 'Dear all, please send  twelve\nhinges and 4 "oak" panels, caf\u00e9 style. Thanks!'

_PARAMETERS = "a: int, b: int, c: decimal(2), xs: list of int, note: text"
_HELPED = [
    "procedure helped(a: int, place: text) -> int",
    '  judge sure: bool from place asking "Is it sure?"',
    "  left = a",
    "  while left > 10 at most 20",
    "    left = left - 9",
    "  if sure and left > 0",
    "    return left * 2",
    "  return left",
    "",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A procedure carried out faithfully: its program, inputs, steps with their values, and its end."""

    text: str
    program: Program
    inputs: dict[str, Value]
    steps: tuple[tuple[Expected, Value], ...]
    ending: Ending
    due: tuple[
        str, ...
    ]  # which step is due in front of each, as the procedure is written; "" behind the last

    @property
    def lines(self) -> list[str]:
        """The faithful trace, line by line, with its frame."""
        return self.trace.splitlines()

    @property
    def trace(self) -> str:
        """The faithful trace."""
        return render.trace(self.program, self.steps, NONCE)


@dataclass(slots=True)
class _Writer:
    """Writes the statements of a procedure. Names by kind: what may be used at this point."""

    draw: st.DrawFn
    groups: bool = True  # of any order
    lines: list[str] = field(default_factory=list)
    ints: list[str] = field(default_factory=lambda: ["a", "b"])
    amounts: list[str] = field(default_factory=lambda: ["c"])
    flags: list[str] = field(default_factory=list)
    decided: dict[str, str] = field(default_factory=dict)  # target -> kind
    made: int = 0

    def pick(self, *options: str) -> str:
        return self.draw(st.sampled_from(options))

    def name(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}{self.made}"

    def whole(self, depth: int = 0) -> str:
        """A whole-number expression."""
        left = self.pick(*self.ints, "1", "7", "20")
        match self.pick("leaf", "+", "-", "*", "neg", "min", "if", "()") if depth < 2 else "leaf":
            case "leaf":
                return left
            case "neg":
                return f"-{left}"
            case "min":
                return f"{self.pick('min', 'max')}({self.whole(depth + 1)}, {left})"
            case "if":
                return f"(if {self.test()} then {left} else {self.pick(*self.ints, '3')})"
            case "*":
                return f"{left} * {self.draw(st.integers(2, 9))}"
            case "()":
                return f"({self.whole(depth + 1)}) - ({self.whole(depth + 1)})"
            case operator:
                return f"{left} {operator} {self.whole(depth + 1)}"

    def amount(self) -> str:
        """An expression of decimals, to be rounded."""
        left = self.pick(*self.amounts, "0.10", "12.50")
        right = self.pick(*self.ints, *self.amounts, "3%", "0.75")
        return f"{left} {self.pick('+', '-', '*')} {right}"

    def test(self) -> str:
        """A condition."""
        simple = (
            f"{self.pick(*self.ints)} {self.pick('<', '<=', '>', '==', '!=')} {self.pick(*self.ints, '5')}"
        )
        if not self.flags:
            return simple
        return f"{self.pick('', 'not ')}{self.pick(*self.flags)} {self.pick('and', 'or')} {simple}"

    def statement(self, indent: str, depth: int, *, member: bool = False) -> None:
        kinds = ["whole", "amount", "flag"]
        if depth == 0 or member:
            kinds += ["extract", "judge", "do"]
        if depth == 0 and not member:
            kinds += ["require"]
        if depth < 2:
            kinds += ["if", "for", "ways"] if member else ["if", "for", "ways", "while"]
            kinds += ["group"] if self.groups else []
        match self.pick(*kinds):
            case "whole":
                self.assign(indent, "n", self.ints, self.whole())
            case "amount":
                self.assign(indent, "d", self.amounts, f"{self.amount()} to 2")
            case "flag":
                self.assign(indent, "f", self.flags, self.test())
            case "extract":
                target = self.name("x")
                quote = self.pick(" quote", "")
                self.lines.append(f"{indent}extract {target}: int from note{quote} where {target} <= 50")
                self.ints.append(target)
                self.decided[target] = "int"
            case "judge":
                target = self.name("j")
                self.lines.append(f'{indent}judge {target}: bool from note asking "Is it so?"')
                self.flags.append(target)
                self.decided[target] = "bool"
            case "require":
                end = self.pick('deny "No."', 'escalate "Ask."', "return { whole: 0, part: c }")
                self.lines.append(f"{indent}require {self.test()} else {end}")
            case "do":
                self.assign(indent, "p", self.ints, f"do helped({self.whole(1)}, note)")
                self.decided["sure"] = "bool"
            case "if":
                self.branch(indent, depth)
            case "group":
                self.group(indent, depth)
            case "ways":
                self.ways(indent, depth)
            case "while":
                self.repeat(indent, depth)
            case _:
                self.loop(indent, depth)

    def assign(self, indent: str, prefix: str, names: list[str], expression: str) -> None:
        target = self.name(prefix)
        self.lines.append(f"{indent}{target} = {expression}")
        names.append(target)

    def block(self, indent: str, depth: int) -> None:
        kept = (list(self.ints), list(self.amounts), list(self.flags))
        for _ in range(self.draw(st.integers(1, 2))):
            self.statement(indent, depth)
        self.ints, self.amounts, self.flags = kept  # what a block makes is its own

    def ways(self, indent: str, depth: int) -> None:
        """Alternatives that may fail, and what holds where all have."""
        choice, result = self.name("c"), self.name("r")
        bound = self.pick("", " at most 1", " at most 3")
        self.lines.append(f"{indent}{choice}: one of{bound}")
        self.decided[choice] = "way"
        for way in ("one", "two"):
            self.lines.append(f'{indent}  try "{way}"')
            kept = (list(self.ints), list(self.amounts), list(self.flags))
            self.statement(f"{indent}    ", depth + 1)
            self.lines.append(f"{indent}    require {self.test()} else next")
            self.lines.append(f"{indent}    {result} = {self.whole()}")
            self.ints, self.amounts, self.flags = kept
        self.lines += [f"{indent}else", f"{indent}  {result} = {self.pick(*self.ints)}"]
        self.ints.append(result)

    def group(self, indent: str, depth: int) -> None:
        """Steps in any order: none uses what another one makes."""
        self.lines.append(f"{indent}any order")
        before = (self.ints, self.amounts, self.flags)
        after = tuple(list(names) for names in before)
        for _ in range(self.draw(st.integers(2, 3))):
            self.ints, self.amounts, self.flags = (list(names) for names in before)
            self.statement(f"{indent}  ", depth + 1, member=True)
            for names, kept in zip((self.ints, self.amounts, self.flags), after, strict=True):
                kept += [name for name in names if name not in kept]
        self.ints, self.amounts, self.flags = after

    def branch(self, indent: str, depth: int) -> None:
        self.lines.append(f"{indent}if {self.test()}")
        self.block(f"{indent}  ", depth + 1)
        if self.draw(st.booleans()):
            self.lines.append(f"{indent}elif {self.test()}")
            self.block(f"{indent}  ", depth + 1)
        if self.draw(st.booleans()):
            self.lines.append(f"{indent}else")
            self.block(f"{indent}  ", depth + 1)

    def loop(self, indent: str, depth: int) -> None:
        item = self.name("i")
        self.lines.append(f"{indent}for {item} in xs at most 4")
        self.ints.append(item)
        self.block(f"{indent}  ", depth + 1)
        self.ints.remove(item)

    def repeat(self, indent: str, depth: int) -> None:
        """A loop that ends by itself within its bound."""
        count = self.name("w")
        self.lines += [
            f"{indent}{count} = 0",
            f"{indent}while {count} < {self.pick('0', '2', 'a')} at most 60",
        ]
        self.ints.append(count)
        self.block(f"{indent}  ", depth + 1)
        self.lines.append(f"{indent}  {count} = {count} + {self.pick('1', '7')}")
        self.ints.remove(count)

    def procedure(self) -> str:
        for _ in range(self.draw(st.integers(1, 6))):
            self.statement("  ", 0)
        self.lines.append(f"  return {{ whole: {self.whole()}, part: {self.pick(*self.amounts)} }}")
        carry = self.pick("shown", "exact")
        return "\n".join(
            [
                f"numbers round {self.pick('half_up', 'half_even', 'down')}, carry {carry}",
                "",
                f"procedure made({_PARAMETERS}) -> {{ whole: int, part: decimal(2) }}",
                *self.lines,
                "",
                *_HELPED,
            ]
        )


DECISIONS: dict[str, st.SearchStrategy[Value]] = {
    "bool": st.booleans(),
    "int": st.integers(-9, 50),
    "way": st.sampled_from(["one", "two"]),
}


@lru_cache(maxsize=256)
def _compiled(text: str, form: Form) -> Program:
    return load(text, "made.proc").procedures["made"].in_form(form)


@st.composite
def samples(draw: st.DrawFn, *, groups: bool = True, shuffle: bool = True) -> Sample:
    """Procedures with inputs and decisions, carried out to their end.

    With `groups` some steps are in any order, and, unless not to `shuffle`, come in another one than written.
    """
    writer = _Writer(draw, groups)
    text = writer.procedure()
    program = _compiled(text, draw(st.sampled_from(Form)))
    small = st.integers(-9, 60)
    inputs: dict[str, Value] = program.accept(
        {
            "a": draw(small),
            "b": draw(small),
            "c": f"{draw(st.integers(0, 999))}.{draw(st.integers(0, 99)):02}",
            "xs": draw(st.lists(small, max_size=4)),
            "note": NOTE,
        }
    )
    decisions: dict[str, Value] = {target: draw(DECISIONS[kind]) for target, kind in writer.decided.items()}
    try:
        steps, ending = reference(program, inputs, decisions)
    except RequestError:
        assume(False)
        raise
    assume(ending.kind is not EndKind.FAILED)
    if shuffle and program.members:
        placed = [(around(step.path, program.members), (step, value)) for step, value in steps]
        steps = list(_shuffled(draw, placed, 0))
    due = tuple(_due(program, inputs, steps))
    return Sample(text=text, program=program, inputs=inputs, steps=tuple(steps), ending=ending, due=due)


def sent(
    program: Program, inputs: Mapping[str, Value], steps: Iterable[tuple[Expected, Value]]
) -> list[Sent]:
    """What an execution is sent that comes to steps in their order: values of decisions, None, and picks."""
    found: list[Sent] = []
    execution = program.execute(inputs)
    due = next(execution)
    for step, value in steps:
        if due.path != step.path:
            found.append(Pick(step.path))
            due = execution.send(found[-1])
        found.append(None if step.decision is None else value)
        try:
            due = execution.send(found[-1])
        except StopIteration:
            break
    return found


def _due(
    program: Program, inputs: Mapping[str, Value], steps: Sequence[tuple[Expected, Value]]
) -> Iterator[str]:
    execution = program.execute(inputs)
    came: Sent = None
    for value in [*sent(program, inputs, steps), None]:
        try:
            due = execution.send(came)
        except StopIteration:
            yield ""
            return
        if not isinstance(came, Pick):
            yield due.path
        came = value


Placed = tuple[tuple[tuple[str, int], ...], tuple[Expected, Value]]


def _shuffled(draw: st.DrawFn, steps: list[Placed], depth: int) -> Iterator[tuple[Expected, Value]]:
    for group, run in groupby(steps, lambda step: step[0][depth : depth + 1] and step[0][depth][0]):
        if not group:
            yield from (step for _, step in run)
            continue
        found = [list(member) for _, member in groupby(run, lambda step: step[0][depth])]
        for member in draw(st.permutations(found)):
            yield from _shuffled(draw, member, depth + 1)


# --- what may go wrong -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A trace with one departure, and what is to be said of it."""

    name: str
    text: str
    kind: str
    step: str
    at: int
    finish_reason: str = "stop"


@st.composite
def mutants(draw: st.DrawFn, sample: Sample) -> Mutant:
    """One departure from a faithful trace."""
    index = draw(st.integers(0, len(sample.steps) - 1))
    made = [
        mutate(sample, index)
        for mutate in (_ungrounded, _changed, _altered, _early, _again, _left_out, _alien, _prose, _cut)
    ]
    return draw(st.sampled_from([mutant for mutant in made if mutant is not None]))


def _mutant(
    sample: Sample,
    kind: str,
    step: str,
    lines: list[str],
    at: tuple[int, int],
    *,
    name: str,
    finish_reason: str = "stop",
) -> Mutant:
    """`at`: index of the line that is wrong, and how far in."""
    before = sum(len(line) + 1 for line in lines[: at[0]])
    return Mutant(
        name=name,
        text="".join(f"{line}\n" for line in lines),
        kind=kind,
        step=step,
        at=before + at[1],
        finish_reason=finish_reason,
    )


def _left_out(sample: Sample, index: int) -> Mutant:
    lines = sample.lines
    del lines[index + 1]
    expected = sample.steps[index][0]
    missed = index + _until_missed(sample, index)
    behind = sample.steps[missed + 1][0] if missed + 1 < len(sample.steps) else None
    if behind is None:
        kind = "missing_answer"
    else:
        kind = "premature_answer" if behind.kind in {"return", "deny", "escalate"} else "skipped_step"
    step = expected.path if missed > index else sample.due[index]
    return _mutant(sample, kind, step, lines, (missed + 1, 0), name="left out")


def _until_missed(sample: Sample, index: int) -> int:
    """How many lines may follow in place of one: members of its group, where it is all of a member."""
    members = sample.program.members
    places = [around(step.path, members) for step, _ in sample.steps]
    here = places[index]
    if not here or sum(place[: len(here)] == here for place in places) > 1:
        return 0
    depth, group = len(here) - 1, here[-1][0]
    later = [place for place in places[index + 1 :] if place[depth:] and place[depth][0] == group]
    return len(later)


def _again(sample: Sample, index: int) -> Mutant:
    lines = sample.lines
    lines.insert(index + 2, lines[index + 1])
    return _mutant(sample, "repeated_step", sample.due[index + 1], lines, (index + 2, 0), name="again")


def _changed(sample: Sample, index: int) -> Mutant | None:
    """Another value in a step of one value that the guard computes."""
    expected, value = sample.steps[index]
    if expected.decision is not None or len(expected.cells) != 1 or isinstance(value, str):
        return None
    spelling = expected.cells[0].spelling or ""
    other = {"true": "false", "false": "true", "0": "77"}.get(spelling, f"{spelling}7")
    lines = sample.lines
    line = lines[index + 1]
    lines[index + 1] = line[: len(line) - len(spelling)] + other
    kind = {
        "branch": "wrong_branch",
        "while": "wrong_branch",
        "require": "wrong_branch",
        "check": "wrong_branch",
        "return": "wrong_answer",
    }.get(expected.kind.value, "wrong_value")
    return _mutant(sample, kind, expected.path, lines, (index + 1, len(line) - len(spelling)), name="changed")


def _altered(sample: Sample, index: int) -> Mutant | None:
    """Another working."""
    expected, _ = sample.steps[index]
    cell = expected.cells[0]
    if not cell.working or cell.bare:
        return None
    start = len(f"{expected.path} {expected.head} {cell.given}")
    working = "".join(part for part in cell.working if isinstance(part, str))
    lines = sample.lines
    line = lines[index + 1]
    lines[index + 1] = f"{line[:start]}{working} + 1{line[start + len(working) :]}"
    return _mutant(sample, "wrong_expression", expected.path, lines, (index + 1, start), name="altered")


def _ungrounded(sample: Sample, index: int) -> Mutant | None:
    """Another quote."""
    expected, _ = sample.steps[index]
    lines = sample.lines
    value, arrow, _ = lines[index + 1].partition(" <- ")
    if expected.decision is None or not arrow:
        return None
    lines[index + 1] = f'{value} <- "thirteen hinges"'
    return _mutant(
        sample, "ungrounded_value", expected.path, lines, (index + 1, len(value) + 4), name="ungrounded"
    )


def _early(sample: Sample, index: int) -> Mutant | None:
    """The answer before its time."""
    if index == len(sample.steps) - 1:
        return None
    lines = sample.lines
    lines.insert(index + 1, lines[-2])
    return _mutant(sample, "premature_answer", sample.due[index], lines, (index + 1, 0), name="early")


def _alien(sample: Sample, index: int) -> Mutant:
    lines = sample.lines
    lines.insert(index + 1, "999 zz = 1 + 1 = 2")
    return _mutant(sample, "extra_step", "999", lines, (index + 1, 0), name="alien")


def _prose(sample: Sample, index: int) -> Mutant:
    lines = sample.lines
    lines.insert(index + 1, "Now let me compute the next step.")
    return _mutant(sample, "malformed", sample.due[index], lines, (index + 1, 0), name="prose")


def _cut(sample: Sample, index: int) -> Mutant:
    lines = sample.lines[: index + 1]
    return _mutant(
        sample,
        "truncated",
        sample.due[index],
        lines,
        (index + 1, 0),
        name="cut",
        finish_reason="length",
    )

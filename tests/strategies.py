"""Small procedures with inputs and decisions, made by hypothesis, and what may go wrong in their traces."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from hypothesis import assume
from hypothesis import strategies as st

from guard.errors import RequestError
from guard.procedure.execute import Program, reference
from guard.procedure.expected import Ending, EndKind, Expected, Form
from guard.procedure.load import load
from guard.procedure.types import NULL, Value
from guard.trace import render

NONCE = "3fa92c"
NOTE = 'Dear all, please send  twelve\nhinges and 4 "oak" panels, caf\u00e9 style. Thanks!'

_PARAMETERS = "a: int, b: int, c: decimal(2), xs: list of int, note: text, o: int?, q: decimal(2)? = 1.50"
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
    lines: list[str] = field(default_factory=list)
    ints: list[str] = field(default_factory=lambda: ["a", "b"])
    amounts: list[str] = field(default_factory=lambda: ["c"])
    flags: list[str] = field(default_factory=list)
    maybes: list[str] = field(default_factory=lambda: ["o", "q"])  # numbers that may be null
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
        if self.pick("null", "", "", "") == "null":
            simple = f"{self.pick(*self.maybes)} is {self.pick('', 'not ')}null and {simple}"
        if not self.flags:
            return simple
        return f"{self.pick('', 'not ')}{self.pick(*self.flags)} {self.pick('and', 'or')} {simple}"

    def statement(self, indent: str, depth: int) -> None:
        kinds = ["whole", "amount", "flag", "maybe", "default"]
        if depth == 0:
            kinds += ["extract", "judge", "require", "do"]
        if depth < 2:
            kinds += ["if", "for", "while", "there"]
        match self.pick(*kinds):
            case "whole":
                self.assign(indent, "n", self.ints, self.whole())
            case "amount":
                self.assign(indent, "d", self.amounts, f"{self.amount()} to 2")
            case "flag":
                self.assign(indent, "f", self.flags, self.test())
            case "maybe" | "default" | "there" as kind:
                self.nullable(kind, indent, depth)
            case "extract" if self.draw(st.booleans()):
                target = self.name("y")
                where = f" where {target} is null or {target} <= 50" if self.draw(st.booleans()) else ""
                self.lines.append(f"{indent}extract {target}: int? from note{self.pick(' quote', '')}{where}")
                self.maybes.append(target)
                self.decided[target] = "maybe"
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
            case "while":
                self.repeat(indent, depth)
            case _:
                self.loop(indent, depth)

    def nullable(self, kind: str, indent: str, depth: int) -> None:
        """A step that makes, fills or tests a value that may be null."""
        kept = self.pick(*self.maybes)
        match kind:
            case "maybe":
                choice = f"if {self.test()} then {self.pick(kept, 'null')} else {self.pick(*self.ints)}"
                self.assign(indent, "m", self.maybes, f"if b > 3 then null else {choice}")
            case "default":
                self.assign(indent, "d", self.amounts, f"({kept} else {self.pick(*self.ints)}) * 0.5 to 2")
            case _:
                self.lines.append(f"{indent}if {kept} is not null and {kept} > {self.pick(*self.ints)}")
                self.amounts.append(kept)
                self.block(f"{indent}  ", depth + 1)
                self.amounts.remove(kept)

    def assign(self, indent: str, prefix: str, names: list[str], expression: str) -> None:
        target = self.name(prefix)
        self.lines.append(f"{indent}{target} = {expression}")
        names.append(target)

    def block(self, indent: str, depth: int) -> None:
        kept = (list(self.ints), list(self.amounts), list(self.flags))
        maybes = list(self.maybes)
        for _ in range(self.draw(st.integers(1, 2))):
            self.statement(indent, depth)
        self.ints, self.amounts, self.flags = kept  # what a block makes is its own
        self.maybes = maybes

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


@lru_cache(maxsize=256)
def _compiled(text: str, form: Form) -> Program:
    return load(text, "made.proc").procedures["made"].in_form(form)


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    """Procedures with inputs and decisions, carried out to their end."""
    writer = _Writer(draw)
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
            **draw(st.fixed_dictionaries({}, optional={"o": st.none() | small, "q": st.none() | small})),
        }
    )
    kinds: dict[str, st.SearchStrategy[Value]] = {
        "bool": st.booleans(),
        "int": st.integers(-9, 50),
        "maybe": st.just(NULL) | st.integers(-9, 50),
    }
    decisions: dict[str, Value] = {target: draw(kinds[kind]) for target, kind in writer.decided.items()}
    try:
        steps, ending = reference(program, inputs, decisions)
    except RequestError:
        assume(False)
        raise
    assume(ending.kind is not EndKind.FAILED)
    return Sample(text=text, program=program, inputs=inputs, steps=tuple(steps), ending=ending)


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


def _path_behind(sample: Sample, index: int) -> str:
    return sample.steps[index + 1][0].path if index + 1 < len(sample.steps) else ""


def _left_out(sample: Sample, index: int) -> Mutant:
    lines = sample.lines
    del lines[index + 1]
    expected = sample.steps[index][0]
    behind = sample.steps[index + 1][0] if index + 1 < len(sample.steps) else None
    if behind is None:
        kind = "missing_answer"
    else:
        kind = "premature_answer" if behind.kind in {"return", "deny", "escalate"} else "skipped_step"
    return _mutant(sample, kind, expected.path, lines, (index + 1, 0), name="left out")


def _again(sample: Sample, index: int) -> Mutant:
    lines = sample.lines
    lines.insert(index + 2, lines[index + 1])
    return _mutant(sample, "repeated_step", _path_behind(sample, index), lines, (index + 2, 0), name="again")


def _changed(sample: Sample, index: int) -> Mutant | None:
    """Another value in a step of one value that the guard computes."""
    expected, value = sample.steps[index]
    if expected.decision is not None or len(expected.cells) != 1 or isinstance(value, str):
        return None
    spelling = expected.cells[0].spelling or ""
    other = {"true": "false", "false": "true", "0": "77", "null": "7"}.get(spelling, f"{spelling}7")
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
    return _mutant(
        sample, "premature_answer", sample.steps[index][0].path, lines, (index + 1, 0), name="early"
    )


def _alien(sample: Sample, index: int) -> Mutant:
    lines = sample.lines
    lines.insert(index + 1, "999 zz = 1 + 1 = 2")
    return _mutant(sample, "extra_step", "999", lines, (index + 1, 0), name="alien")


def _prose(sample: Sample, index: int) -> Mutant:
    lines = sample.lines
    lines.insert(index + 1, "Now let me compute the next step.")
    return _mutant(sample, "malformed", sample.steps[index][0].path, lines, (index + 1, 0), name="prose")


def _cut(sample: Sample, index: int) -> Mutant:
    lines = sample.lines[: index + 1]
    return _mutant(
        sample,
        "truncated",
        sample.steps[index][0].path,
        lines,
        (index + 1, 0),
        name="cut",
        finish_reason="length",
    )

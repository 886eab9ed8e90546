"""Small procedures with inputs and decisions, made by hypothesis, and what may go wrong in their traces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache
from itertools import groupby

from hypothesis import assume
from hypothesis import strategies as st

from guard.errors import RequestError
from guard.procedure.execute import Program
from guard.procedure.expected import EndKind, Expected, Form
from guard.procedure.groups import around
from guard.procedure.load import load
from guard.procedure.types import NULL, Value
from tests.faults.faithful import NONCE, Mutant, Sample, carried_out
from tests.faults.injectors import INJECTORS

__all__ = ["NONCE", "NOTE", "Mutant", "Sample", "mutants", "samples"]

NOTE = 'Dear all, please send  twelve\nhinges and 4 "oak" panels, caf\u00e9 style. Thanks!'

_PARAMETERS = (
    "a: int, b: int, c: decimal(2), day: date, at: datetime, xs: list of int, note: text, "
    "o: int?, q: decimal(2)? = 1.50"
)
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


_COMPUTED = [line.replace("if sure and left > 0", "if left > 0") for line in _HELPED if "judge" not in line]
_DECIDING = {"extract", "read", "judge", "ask", "ways"}


@dataclass(slots=True)
class _Writer:
    """Writes the statements of a procedure. Names by kind: what may be used at this point."""

    draw: st.DrawFn
    groups: bool = True  # of any order
    decides: bool = True  # whether there is something for the model to decide
    lines: list[str] = field(default_factory=list)
    ints: list[str] = field(default_factory=lambda: ["a", "b"])
    amounts: list[str] = field(default_factory=lambda: ["c"])
    flags: list[str] = field(default_factory=list)
    maybes: list[str] = field(default_factory=lambda: ["o", "q"])  # numbers that may be null
    lists: list[str] = field(default_factory=lambda: ["xs"])
    days: list[str] = field(default_factory=lambda: ["day"])
    moments: list[str] = field(default_factory=lambda: ["at"])
    decided: dict[str, str] = field(default_factory=dict)  # target -> kind
    made: int = 0

    def pick(self, *options: str) -> str:
        return self.draw(st.sampled_from(options))

    def name(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}{self.made}"

    @property
    def known(self) -> list[list[str]]:
        """The names of each kind."""
        return [
            self.ints,
            self.amounts,
            self.flags,
            self.lists,
            self.days,
            self.moments,
            self.maybes,
        ]

    def whole(self, depth: int = 0) -> str:
        """A whole-number expression."""
        left = self.pick(*self.ints, "1", "7", "20")
        match self.pick("leaf", "+", "-", "*", "neg", "min", "if", "()", "last") if depth < 2 else "leaf":
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
            case "last":
                return f"last(append({self.pick(*self.lists)}, {self.whole(depth + 1)}))"
            case "()":
                return f"({self.whole(depth + 1)}) - ({self.whole(depth + 1)})"
            case operator:
                return f"{left} {operator} {self.whole(depth + 1)}"

    def series(self) -> str:
        """A list of whole numbers."""
        items = self.pick(*self.lists)
        return self.pick(
            f"append({items}, {self.whole(1)})",
            f"[x * 2 for x in {items} if x > {self.pick(*self.ints)}]",
            f"[x for x in {items}]",
            f"{self.pick('sort', 'reverse', 'distinct')}({items})",
            f"sort(x for x in {items} by -x{self.pick('', ' desc')})",
            f"concat({items}, [{self.whole(1)}, 4])",
        )

    def shift(self) -> str:
        """What stands behind a date that is moved."""
        few = self.pick(*self.ints, "12", f"({self.whole(1)})")
        unit = self.pick("days", "weeks", "months down", "months up", "years down")
        return f"{self.pick('+', '-')} {few} mod 40 {unit}"

    def moment(self) -> str:
        """An expression of moments."""
        by = f"{self.pick(*self.ints, '36')} mod 90 {self.pick('hours', 'minutes', 'seconds', 'days')}"
        return f"{self.pick(*self.moments)} {self.pick('+', '-')} {by}"

    def later(self) -> str:
        """An expression of dates."""
        left = self.pick(*self.days, "2026-01-31")
        if self.draw(st.booleans()):
            return f"{left} {self.shift()}"
        return f"{self.pick('min', 'max')}({left}, {self.pick(*self.days)}, date({self.pick(*self.moments)}))"

    def amount(self) -> str:
        """An expression of decimals, to be rounded."""
        left = self.pick(*self.amounts, "0.10", "12.50")
        right = self.pick(*self.ints, *self.amounts, "3%", "0.75")
        return f"{left} {self.pick('+', '-', '*')} {right}"

    def test(self) -> str:
        """A condition."""
        left, right = self.pick(*self.ints), self.pick(*self.ints, "5")
        if self.draw(st.booleans()):
            left, right = self.pick(*self.days), self.pick(*self.days, "2026-02-28")
        simple = f"{left} {self.pick('<', '<=', '>', '==', '!=')} {right}"
        if self.pick("null", "", "", "") == "null":
            simple = f"{self.pick(*self.maybes)} is {self.pick('', 'not ')}null and {simple}"
        if not self.flags:
            return simple
        return f"{self.pick('', 'not ')}{self.pick(*self.flags)} {self.pick('and', 'or')} {simple}"

    def statement(self, indent: str, depth: int, *, member: bool = False) -> None:
        kinds = ["whole", "amount", "flag", "list", "date", "moment", "between", "maybe", "default"]
        if depth == 0 or member:
            kinds += ["extract", "read", "judge", "do", "ask"]
        if depth == 0 and not member:
            kinds += ["require"]
        if depth < 2:
            kinds += ["if", "for", "ways"] if member else ["if", "for", "ways", "while", "there"]
            kinds += ["group"] if self.groups else []
        match self.pick(*(kind for kind in kinds if self.decides or kind not in _DECIDING)):
            case "whole":
                self.assign(indent, "n", self.ints, self.whole())
            case "amount":
                self.assign(indent, "d", self.amounts, f"{self.amount()} to 2")
            case "list":
                self.assign(indent, "l", self.lists, self.series())
            case "flag":
                self.assign(indent, "f", self.flags, self.test())
            case "maybe" | "default" | "there" | "ask" as kind:
                self.nullable(kind, indent, depth)
            case "date":
                self.assign(indent, "t", self.days, self.later())
            case "moment":
                self.assign(indent, "m", self.moments, self.moment())
            case "between":
                names = self.pick("days", "moments")
                known = self.days if names == "days" else self.moments
                self.assign(indent, "n", self.ints, f"{self.pick(*known)} - {self.pick(*known)}")
            case "read" | "extract" | "judge" as kind:
                self.decide(kind, indent)
            case "require":
                end = self.pick('deny "No."', 'escalate "Ask."', "return { whole: 0, part: c }")
                self.lines.append(f"{indent}require {self.test()} else {end}")
            case "do":
                self.assign(indent, "p", self.ints, f"do helped({self.whole(1)}, note)")
                self.decided |= {"sure": "bool"} if self.decides else {}
            case kind:
                self.compound(kind, indent, depth)

    def compound(self, kind: str, indent: str, depth: int) -> None:
        match kind:
            case "if":
                self.branch(indent, depth)
            case "ways":
                self.ways(indent, depth)
            case "group":
                self.group(indent, depth)
            case "while":
                self.repeat(indent, depth)
            case _:
                self.loop(indent, depth)

    def decide(self, kind: str, indent: str) -> None:
        """A step whose value the model decides."""
        match kind:
            case "read":
                target = self.name("x")
                self.lines.append(f"{indent}extract {target}: date from note where {target} >= 2000-01-01")
                self.days.append(target)
                self.decided[target] = "date"
            case "extract":
                target = self.name("x")
                quote = self.pick(" quote loosely", "")
                self.lines.append(f"{indent}extract {target}: int from note{quote} where {target} <= 50")
                self.ints.append(target)
                self.decided[target] = "int"
            case _:
                target = self.name("j")
                self.lines.append(f'{indent}judge {target}: bool from note asking "Is it so?"')
                self.flags.append(target)
                self.decided[target] = "bool"

    def nullable(self, kind: str, indent: str, depth: int) -> None:
        """A step that makes, fills or tests a value that may be null."""
        kept = self.pick(*self.maybes)
        match kind:
            case "maybe":
                choice = f"if {self.test()} then {self.pick(kept, 'null')} else {self.pick(*self.ints)}"
                self.assign(indent, "m", self.maybes, f"if b > 3 then null else {choice}")
            case "ask":
                target = self.name("y")
                where = f" where {target} is null or {target} <= 50" if self.draw(st.booleans()) else ""
                self.lines.append(
                    f"{indent}extract {target}: int? from note{self.pick(' quote loosely', '')}{where}"
                )
                self.maybes.append(target)
                self.decided[target] = "maybe"
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
        kept = [list(names) for names in self.known]
        for _ in range(self.draw(st.integers(1, 2))):
            self.statement(indent, depth)
        self.ints, self.amounts, self.flags, self.lists, self.days, self.moments, self.maybes = kept

    def ways(self, indent: str, depth: int) -> None:
        """Alternatives that may fail, and what holds where all have."""
        choice, result = self.name("c"), self.name("r")
        bound = self.pick("", " at most 1", " at most 3")
        self.lines.append(f"{indent}{choice}: one of{bound}")
        self.decided[choice] = "way"
        for way in ("one", "two"):
            self.lines.append(f'{indent}  try "{way}"')
            kept = [list(names) for names in self.known]
            self.statement(f"{indent}    ", depth + 1)
            self.lines.append(f"{indent}    require {self.test()} else next")
            self.lines.append(f"{indent}    {result} = {self.whole()}")
            self.ints, self.amounts, self.flags, self.lists, self.days, self.moments, self.maybes = kept
        self.lines += [f"{indent}else", f"{indent}  {result} = {self.pick(*self.ints)}"]
        self.ints.append(result)

    def group(self, indent: str, depth: int) -> None:
        """Steps in any order: none uses what another one makes."""
        self.lines.append(f"{indent}any order")
        before, after = self.known, [list(names) for names in self.known]
        for _ in range(self.draw(st.integers(2, 3))):
            own = [list(names) for names in before]
            self.ints, self.amounts, self.flags, self.lists, self.days, self.moments, self.maybes = own
            self.statement(f"{indent}  ", depth + 1, member=True)
            for names, kept in zip(self.known, after, strict=True):
                kept += [name for name in names if name not in kept]
        self.ints, self.amounts, self.flags, self.lists, self.days, self.moments, self.maybes = after

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

    def procedure(self, *, grouped: bool = False) -> str:
        count = self.draw(st.integers(1, 6))
        group = self.draw(st.integers(0, count - 1)) if grouped else None
        for number in range(count):
            if number == group:
                self.group("  ", 0)
            else:
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
                *(_HELPED if self.decides else _COMPUTED),
            ]
        )


@lru_cache(maxsize=256)
def _compiled(text: str, form: Form) -> Program:
    return load(text, "made.proc").procedures["made"].in_form(form)


_DAYS = st.dates(date(1999, 12, 1), date(2040, 12, 31))
_MOMENTS = st.builds(
    lambda day, time, offset: f"{day}T{time}{offset}",
    _DAYS,
    st.sampled_from(["00:00:00", "09:30:00", "23:59:59"]),
    st.sampled_from(["Z", "+02:00", "-09:30"]),
)
_DECIDED: dict[str, st.SearchStrategy[Value]] = {
    "bool": st.booleans(),
    "int": st.integers(-9, 50),
    "date": _DAYS,
    "maybe": st.just(NULL) | st.integers(-9, 50),
    "way": st.sampled_from(["one", "two"]),
}


@st.composite
def samples(
    draw: st.DrawFn,
    *,
    groups: bool = True,
    grouped: bool = False,
    shuffle: bool = True,
    decides: bool = True,
) -> Sample:
    """Procedures with inputs and decisions, carried out to their end.

    Unless it `decides`, nothing is left to the model. With `groups` some steps may be in any order, if `grouped` some are, and, unless not to `shuffle`, they come in
    another one than written.
    """
    writer = _Writer(draw, groups, decides)
    text = writer.procedure(grouped=grouped)
    program = _compiled(text, draw(st.sampled_from(Form)))
    small = st.integers(-9, 60)
    inputs: dict[str, Value] = program.accept(
        {
            "a": draw(small),
            "b": draw(small),
            "c": f"{draw(st.integers(0, 999))}.{draw(st.integers(0, 99)):02}",
            "day": draw(_DAYS),
            "at": draw(_MOMENTS),
            "xs": draw(st.lists(small, max_size=4)),
            "note": NOTE,
            **draw(st.fixed_dictionaries({}, optional={"o": st.none() | small, "q": st.none() | small})),
        }
    )
    decisions: dict[str, Value] = {target: draw(_DECIDED[kind]) for target, kind in writer.decided.items()}
    try:
        sample = carried_out(text, program, inputs, decisions)
    except RequestError:
        assume(False)
        raise
    assume(sample.ending.kind is not EndKind.FAILED)
    if not shuffle or not program.members:
        return sample
    placed = [(around(step.path, program.members), (step, value)) for step, value in sample.steps]
    return replace(sample, steps=tuple(_shuffled(draw, placed, 0)))


Placed = tuple[tuple[tuple[str, int], ...], tuple[Expected, Value]]


def _shuffled(draw: st.DrawFn, steps: list[Placed], depth: int) -> Iterator[tuple[Expected, Value]]:
    for group, run in groupby(steps, lambda step: step[0][depth : depth + 1] and step[0][depth][0]):
        if not group:
            yield from (step for _, step in run)
            continue
        found = [list(member) for _, member in groupby(run, lambda step: step[0][depth])]
        for member in draw(st.permutations(found)):
            yield from _shuffled(draw, member, depth + 1)


@st.composite
def mutants(draw: st.DrawFn, sample: Sample) -> Mutant:
    """One departure from a faithful trace: of a step that is drawn, in a form that is drawn."""
    index = draw(st.integers(0, len(sample.steps) - 1))
    injector = draw(st.sampled_from(list(INJECTORS.values())))
    # What the step cannot have, another form gives: every step can be left out.
    return draw(st.sampled_from([*injector(sample, index)] or [*INJECTORS["left_out"](sample, index)]))

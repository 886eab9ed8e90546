"""Whole procedures of every kind of statement and expression, drawn from the language's grammar.

They are well-typed by construction and end on every path; at run time they may fail, as procedures may.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Protocol

from hypothesis import strategies as st

KINDS = ("int", "money", "percent", "bool", "string", "color", "ints", "lines", "line", "date", "datetime")
TYPES = {
    "int": "int",
    "money": "decimal(2)",
    "percent": "percent",
    "bool": "bool",
    "string": "string",
    "color": "Color",
    "ints": "list of int",
    "lines": "list of Line",
    "line": "Line",
    "date": "date",
    "datetime": "datetime",
}
DECLARATIONS = """\
const limit = 25
const duty = 7.50
const reduced = 7%
const code = "five"
const opening = 2026-03-31
record Line { name: string, qty: int, price: decimal(2) }
enum Color: "red" | "blue"

table rate(qty: int, color: Color) -> percent, first match
  < 0, any => 0%
  0..9, "red" => 5%
  10<..20, any => 12.5%

table fee(x: decimal(2)) -> decimal(2), sum
  < 10 => 1.50
  5..<50 => 0.25
  >= 50 => 3.00

table size(n: int) -> string, unique
  < 5 => "small"
  5 => "five"
  > 5 => "large"

table band(n: int) -> int, max
  0..10 => 1
  5..20 => 2
  any => -3

table least(n: int) -> int, min
  0..20 => 9
  10..30 => 4
  any => 7

table even(n: int) -> bool, any equal
  < 10 => true
  5..8 => true
  >= 10 => false

table season(on: date) -> int, first match
  2026-01-01..2026-06-30 => 1
  2026-03-15 | 2027-03-15 => 2
  > 2026-09-30 => 3
  any => 4
"""
MODES = ("half_up", "half_down", "half_even", "down", "up", "floor", "ceiling")
INPUTS = {
    "i": "int",
    "j": "int",
    "m": "money",
    "r": "percent",
    "b": "bool",
    "s": "string",
    "k": "color",
    "xs": "ints",
    "ls": "lines",
    "one": "line",
    "on": "date",
    "due": "date",
    "at": "datetime",
}


class Chance(Protocol):
    """What chooses: hypothesis, or a seed."""

    def pick(self, options: Sequence[str]) -> str: ...

    def number(self, least: int, most: int) -> int: ...


@dataclass(frozen=True, slots=True)
class Drawing:
    """Lets hypothesis choose."""

    draw: st.DrawFn

    def pick(self, options: Sequence[str]) -> str:
        return self.draw(st.sampled_from(options))

    def number(self, least: int, most: int) -> int:
        return self.draw(st.integers(least, most))


@dataclass(slots=True)
class Maker:
    """Writes one procedure. `names` are those with a value at this place, by kind."""

    chance: Chance
    own: str
    callees: tuple[str, ...] = ()
    names: dict[str, list[str]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    decided: dict[str, str] = field(default_factory=dict)
    made: int = 0
    apart: bool = False  # in a group: what a step gives a value has a name of its own

    def __post_init__(self) -> None:
        self.names = {kind: [name for name, its in INPUTS.items() if its == kind] for kind in KINDS}

    def pick(self, *options: str) -> str:
        return self.chance.pick(options)

    def number(self, least: int, most: int) -> int:
        return self.chance.number(least, most)

    def flag(self) -> bool:
        return self.chance.number(0, 1) == 1

    # --- expressions

    def expr(self, kind: str, depth: int = 2) -> str:
        """An expression of a kind, in parentheses where it is more than an operand."""
        if depth <= 0 or self.number(0, 3) == 0:
            return self.leaf(kind)
        makers: dict[str, Callable[[int], str]] = {
            "int": self.whole,
            "money": self.money,
            "percent": self.percent,
            "bool": self.test,
            "string": self.string,
            "ints": self.listed,
            "lines": self.chosen,
            "date": lambda deep: self.moment("date", deep),
            "datetime": lambda deep: self.moment("datetime", deep),
        }
        made = self.pick("plain", "plain", "choice")
        if made == "choice" or kind not in makers:
            return f"(if {self.test(depth - 1)} then {self.leaf(kind)} else {self.expr(kind, depth - 1)})"
        return f"({makers[kind](depth - 1)})"

    def leaf(self, kind: str) -> str:
        fields = {
            "int": ("one.qty", "3", "0", "17", "limit"),
            "money": ("one.price", "0.50", "12.35", "duty"),
            "percent": ("5%", "12.5%", "reduced"),
            "bool": ("true", "false"),
            "string": ("one.name", '"abc"', '"five"', "code"),
            "color": ('"red"', '"blue"'),
            "ints": ("[4, 4]", "[3, 1, 2]"),
            "lines": ("ls",),
            "line": ("one",),
            "date": ("2026-01-31", "2024-02-29", "opening"),
            "datetime": ("2026-06-01T23:30:00+02:00", "2026-06-01T21:30:00Z"),
        }
        return self.pick(*self.names[kind], *fields[kind])

    def whole(self, depth: int) -> str:
        left, right = self.expr("int", depth), self.expr("int", depth)
        match self.pick(
            "op",
            "op",
            "neg",
            "abs",
            "min",
            "len",
            "count",
            "sum",
            "round",
            "band",
            "item",
            "time",
            "between",
            "passed",
            "truth",
        ):
            case "op":
                return f"{left} {self.pick('+', '-', '*', 'div', 'mod')} {right}"
            case "neg":
                return f"-{left}"
            case "abs":
                return f"abs({left})"
            case "min":
                return f"{self.pick('min', 'max')}({left}, {right})"
            case "len":
                return f"len({self.pick(*self.names['ints'], *self.names['lines'])})"
            case "time":
                part = self.pick("year", "month", "day", "weekday", "season")
                return f"{part}({self.expr('date', depth)}) + {self.pick('hour', 'minute')}({self.leaf('datetime')})"
            case "between":
                kind = self.pick("date", "datetime")
                return f"{self.expr(kind, depth)} - {self.expr(kind, depth)}"
            case "passed":
                mode = self.pick("", ', "up"')
                ends = f"{self.expr('date', depth)}, {self.expr('date', depth)}"
                return f"{self.pick('full_months', 'full_years')}({ends}{mode})"
            case "truth":
                return f"number({self.expr('bool', depth)})"
            case "count":
                return f"count(x for x in {self.leaf('ints')} if x > {left})"
            case "sum":
                return f"sum(x * {right} for x in {self.pick(*self.names['ints'])} if x != {left})"
            case "round":
                return f"{self.pick('floor', 'ceil')}({self.expr('money', depth)})"
            case "item":
                items = self.expr("ints", depth)
                return self.pick(f"at({items}, {left})", f"last({items})", f"position({items}, {left})")
            case _:
                return f"{self.pick('band', 'least')}({left})"

    def string(self, depth: int) -> str:
        left, right = self.leaf("string"), self.expr("string", depth)
        made = self.pick("size", "upper", "concat", "name", "text")
        spelled = self.pick("int", "money", "percent", "bool", "date", "datetime")
        return {
            "size": f"size({self.expr('int', depth)})",
            "upper": f"upper({left})",
            "concat": f"concat({left}, {right})",
            "text": f"text({self.pick(*(name for name in self.names[spelled] if name in INPUTS))})",
            "name": f"first([l.name for l in {self.leaf('lines')}])",
        }[made]

    def listed(self, depth: int) -> str:
        """A list of whole numbers out of others."""
        items, item = self.expr("ints", depth), self.expr("int", depth)
        return self.pick(
            f"append({items}, {item})",
            f"{self.pick('sort', 'reverse', 'distinct', 'rest', 'drop_last')}({items})",
            f"filter(x for x in {items} if x > {item})",
            f"[x * {item} for x in {items}]",
            f"[l.qty for l in {self.expr('lines', depth)}]",
            f"sort(x for x in {items} by x * {item}{self.pick('', ' desc')})",
            f"concat({items}, [{item}])",
            f"put({items}, {item}, 7)",
        )

    def chosen(self, depth: int) -> str:
        """Some lines, or lines in another order."""
        items = self.leaf("lines")
        return self.pick(
            f"filter(l for l in {items} if l.qty > {self.expr('int', depth)})",
            f"sort(l for l in {items} by {self.pick('l.price', 'l.name', 'l.qty')}{self.pick('', ' desc')})",
            f"distinct({items})",
            f"reverse({items})",
        )

    def money(self, depth: int) -> str:
        left, right = self.expr("money", depth), self.expr("money", depth)
        match self.pick("op", "op", "share", "min", "sum", "fee", "abs"):
            case "op":
                return f"{left} {self.pick('+', '-')} {right}"
            case "share":
                return f"{self.expr('int', depth)} / {self.pick('100', '4', '-20', '0.5', '12.5%')}"
            case "min":
                return f"{self.pick('min', 'max')}({left}, {right})"
            case "sum":
                return f"{self.pick('sum', 'max')}(l.price for l in {self.leaf('lines')} if l.qty > 2)"
            case "fee":
                return f"fee({left})"
            case _:
                return f"abs({left})"

    def moment(self, kind: str, depth: int) -> str:
        left, right = self.expr(kind, depth), self.expr(kind, depth)
        even = ("days", "weeks") if kind == "date" else ("hours", "minutes", "seconds", "days")
        unit = self.pick(*even, "months down", "months up", "years down", "years up")
        match self.pick("shift", "shift", "min", "own"):
            case "shift":
                return f"{left} {self.pick('+', '-')} {self.expr('int', depth)} {unit}"
            case "min":
                return f"{self.pick('min', 'max')}({left}, {right})"
            case _ if kind == "date":
                return f"date({self.expr('datetime', depth)})"
            case _:
                return f'zoned({left}, "{self.pick("+05:30", "-09:00")}")'

    def percent(self, depth: int) -> str:
        return f"rate({self.expr('int', depth)}, {self.leaf('color')})"

    def test(self, depth: int) -> str:
        match self.pick("number", "number", "string", "logic", "not", "in", "all", "even"):
            case "number":
                kind = self.pick("int", "money", "date", "datetime")
                op = self.pick("<", "<=", ">", ">=", "==", "!=")
                return f"{self.expr(kind, depth)} {op} {self.expr(kind, depth)}"
            case "string":
                kind = self.pick("string", "color")
                known = self.pick(*self.names[kind])  # two constants that are never equal are an author error
                return f"{known} {self.pick('==', '!=')} {self.leaf(kind)}"
            case "logic":
                return f"{self.expr('bool', depth)} {self.pick('and', 'or')} {self.expr('bool', depth)}"
            case "not":
                return f"not {self.expr('bool', depth)}"
            case "even":
                return f"even({self.expr('int', depth)})"
            case "in":
                return f"{self.expr('int', depth)} {self.pick('in', 'not in')} {self.leaf('ints')}"
            case _:
                return f"{self.pick('all', 'any')}(l.qty > 1 for l in {self.leaf('lines')})"

    # --- statements

    def name(self, kind: str) -> str:
        self.made += 1
        return f"{kind[0]}{self.made}"

    def put(self, indent: str, kind: str, right: str) -> None:
        """Give a variable a value: a new one, or one of the kind that has been made before."""
        old = [name for name in self.names[kind] if name not in INPUTS and name[0] == kind[0]]
        target = (not self.apart and self.pick(*old, "")) or self.name(kind)
        self.lines.append(f"{indent}{target} = {right}")
        if target not in self.names[kind]:
            self.names[kind].append(target)

    def statement(self, indent: str, depth: int) -> None:
        kinds = ["assign", "assign", "chain", "share", "copy", "record", "list", "check", "extract", "judge"]
        if depth < 2:
            kinds += ["if", "for", "while", "group", "ways", "require", *(["do"] if self.callees else [])]
        match self.pick(*kinds):
            case "assign":
                kind = self.pick("int", "money", "bool", "string", "color", "date", "datetime")
                self.put(indent, kind, self.expr(kind))
            case "chain":
                first, second = self.pick("+", "-", "*"), self.pick("+", "-", "*")
                three = (self.leaf("int"), self.leaf("int"), self.leaf("int"))
                self.put(indent, "int", f"{three[0]} {first} {three[1]} {second} {three[2]}")
            case "share":
                left, right = self.expr("money", 1), self.pick("7", "3%", self.leaf("percent"))
                rounding = self.pick("", *(f" {mode}" for mode in MODES))
                if self.pick("cents", "cents", "tens") == "tens":
                    self.put(indent, "int", f"{left} * {right} to {self.pick('0', '-1', '-2')}{rounding}")
                else:
                    self.put(indent, "money", f"{left} {self.pick('*', '/')} {right} to 2{rounding}")
            case "copy":
                kind = self.pick("ints", "lines", "line", "percent")
                self.put(indent, kind, self.expr(kind, self.number(0, 1)))
            case "record":
                parts = f"name: {self.leaf('string')}, qty: {self.expr('int')}, price: {self.leaf('money')}"
                self.put(indent, "line", f"{{ {parts} }}")
            case "list":
                self.put(indent, "ints", f"[{self.expr('int', 1)}, {self.expr('int', 1)}]")
            case "check":
                self.lines.append(f"{indent}check {self.test(1)} or {self.leaf('bool')} or i > -3")
            case "require":
                self.lines.append(f"{indent}require {self.test(1)} else {self.end()}")
            case "extract":
                self.extract(indent)
            case "judge":
                self.judge(indent)
            case "do":
                arguments = ", ".join([*(self.expr(kind, 1) for kind in INPUTS.values()), "note"])
                self.put(indent, "money", f"do {self.pick(*self.callees)}({arguments})")
            case "group":
                self.group(indent)
            case "ways":
                self.ways(indent, depth)
            case "if":
                self.branch(indent, depth)
            case "for":
                self.loop(indent, depth)
            case _:
                self.repeat(indent, depth)

    def extract(self, indent: str) -> None:
        kind = self.pick("int", "int", "int", "date", "ints", "string")
        target, quote = self.name(kind), self.pick("", " quote")
        where = f" where {target} < 90" if kind == "int" else ""
        self.lines.append(f"{indent}extract {target}: {TYPES[kind]} from note{quote}{where}")
        self.decide(target, kind)

    def judge(self, indent: str) -> None:
        kind = self.pick("color", "color", "bool")
        target = self.name(kind)
        self.lines.append(f'{indent}judge {target}: {TYPES[kind]} from note asking "Which?"')
        self.decide(target, kind)

    def decide(self, target: str, kind: str) -> None:
        self.names[kind].append(target)
        self.decided[target] = kind

    def end(self) -> str:
        return self.pick(
            'deny "No."',
            'escalate "Ask."',
            f"return {self.leaf('money')}{self.pick('', ' to 1', ' / 3 to 2 half_down')}",
        )

    def block(self, indent: str, depth: int) -> None:
        kept = {kind: list(names) for kind, names in self.names.items()}
        for _ in range(self.number(1, 3)):
            self.statement(indent, depth)
        self.names = kept  # what a block makes may not be there behind it

    def ways(self, indent: str, depth: int) -> None:
        """Alternatives of which some may fail."""
        self.lines.append(f"{indent}one of{self.pick('', ' at most 1', ' at most 4')}")
        result = self.name("int")
        kept = {kind: list(names) for kind, names in self.names.items()}
        for way in ("one", "two", "three")[: self.number(2, 3)]:
            self.lines.append(f'{indent}  try "{way}"')
            for _ in range(self.number(0, 2)):
                self.statement(f"{indent}    ", depth + 1)
            self.lines.append(f"{indent}    require {self.test(1)} else next")
            self.lines.append(f"{indent}    {result} = {self.expr('int')}")
            self.names = {kind: list(names) for kind, names in kept.items()}
        self.lines += [f"{indent}else", f"{indent}  {result} = {self.leaf('int')}"]
        self.names["int"].append(result)

    def group(self, indent: str) -> None:
        """Steps in any order: none uses what another one makes."""
        self.lines.append(f"{indent}any order")
        before = {kind: list(names) for kind, names in self.names.items()}
        after = {kind: list(names) for kind, names in self.names.items()}
        self.apart = True
        for _ in range(self.number(2, 3)):
            self.names = {kind: list(names) for kind, names in before.items()}
            match self.pick("plain", "plain", "if", "for"):
                case "if":
                    self.branch(f"{indent}  ", 1)
                case "for":
                    self.loop(f"{indent}  ", 1)
                case _:
                    self.statement(f"{indent}  ", 2)
            for kind, names in self.names.items():
                after[kind] += [name for name in names if name not in after[kind]]
        self.apart, self.names = False, after

    def branch(self, indent: str, depth: int) -> None:
        self.lines.append(f"{indent}if {self.test(1)}")
        self.block(f"{indent}  ", depth + 1)
        if self.flag():
            self.lines.append(f"{indent}elif {self.test(1)}")
            self.block(f"{indent}  ", depth + 1)
        if self.flag():
            self.lines.append(f"{indent}else")
            self.block(f"{indent}  ", depth + 1)

    def loop(self, indent: str, depth: int) -> None:
        kind, items = ("int", "ints") if self.flag() else ("line", "lines")
        item = self.name("each")
        over = self.expr(items, 1) if items == "lines" else self.leaf(items)
        self.lines.append(f"{indent}for {item} in {over} at most 3")
        self.names[kind].append(item)
        self.block(f"{indent}  ", depth + 1)
        self.names[kind].remove(item)

    def repeat(self, indent: str, depth: int) -> None:
        count = self.name("while")
        self.lines += [f"{indent}{count} = 0", f"{indent}while {count} < {self.leaf('int')} at most 5"]
        self.block(f"{indent}  ", depth + 1)
        self.lines.append(f"{indent}  {count} = {count} + {self.pick('1', '4')}")

    def text(self) -> list[str]:
        """The procedure's lines."""
        for _ in range(self.number(1, 6)):
            self.statement("  ", 0)
        self.lines.append(f"  return {self.expr('money')}")
        parameters = ", ".join(f"{name}: {TYPES[kind]}" for name, kind in INPUTS.items())
        return [f"procedure {self.own}({parameters}, note: text) -> decimal(2)", *self.lines, ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The text of a module whose main procedure is `main`, and inputs and decisions for it as JSON data."""

    text: str
    inputs: dict[str, object]
    decisions: dict[str, object]


@st.composite
def modules(draw: st.DrawFn) -> Written:
    """Modules of one to three procedures, with what one of them is carried out on."""
    numbers = (
        f"numbers round {draw(st.sampled_from(MODES))}, carry {draw(st.sampled_from(['shown', 'exact']))}"
    )
    texts: list[str] = []
    decided: dict[str, str] = {}
    callees: tuple[str, ...] = ()
    for own in [*draw(st.sampled_from([[], ["help"], ["help", "aid"]])), "main"]:
        maker = Maker(Drawing(draw), own, callees)
        texts += maker.text()
        decided |= maker.decided
        callees += (own,)
    small, cents = st.integers(-9, 30), st.integers(-500, 9000).map(lambda n: f"{n / 100:.2f}")
    names = st.sampled_from(["abc", "hinge", ""])
    line = st.fixed_dictionaries({"name": names, "qty": small, "price": cents})
    values: dict[str, st.SearchStrategy[object]] = {
        "int": small,
        "money": cents,
        "percent": st.sampled_from(["5%", "0.1"]),
        "bool": st.booleans(),
        "string": names,
        "color": st.sampled_from(["red", "blue"]),
        "ints": st.lists(small, max_size=4),
        "lines": st.lists(line, max_size=4),
        "line": line,
        "date": st.dates(date(2020, 1, 1), date(2030, 12, 31)).map(str),
        "datetime": st.sampled_from(["2026-06-01T09:30:00+02:00", "2028-02-29T23:59:59Z"]),
    }
    return Written(
        text="\n".join([numbers, "", DECLARATIONS, *texts]),
        inputs={name: draw(values[kind]) for name, kind in INPUTS.items()} | {"note": "Two red ones."},
        decisions={name: draw(values[kind]) for name, kind in decided.items()},
    )

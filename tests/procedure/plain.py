"""A second evaluator, kept for tests: walks the model of a procedure in the plainest way and shares no code
with the one that serves, but for the model itself.

It follows the language's reference, not the compiler: numbers are fractions, names live in a dictionary, a
block is a loop over its statements. It knows no holes, no workings and no speed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

from guard.procedure import model as m
from guard.procedure import nodes as n
from guard.procedure import types as t

Env = dict[str, Any]
Seen = tuple[str, Any]  # path of a line, and its value

TIED = 2


class Failed(Exception):  # noqa: N818
    """The procedure cannot go on at a step."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class Stuck(Exception):  # noqa: N818
    """An expression has no value."""


class Missed(Exception):  # noqa: N818
    """The alternative around has failed."""


class Ended(Exception):  # noqa: N818
    """The procedure came to an end."""

    def __init__(self, kind: str, value: Any) -> None:
        super().__init__(kind)
        self.kind, self.value = kind, value


@dataclass
class Outcome:
    """All lines in order, and the end: `return`, `deny`, `escalate` or `failed`, with a value or a path."""

    lines: list[Seen]
    kind: str
    value: Any


def carry_out(
    module: m.Module,
    types: Mapping[str, Mapping[str, t.Type]],
    name: str,
    inputs: Mapping[str, Any],
    decisions: Mapping[str, Any],
) -> Outcome:
    """Carry out a procedure of a module. `types` has the type of each variable, by procedure."""
    lines: list[Seen] = []
    walk = Walk(module, types, module.procedures[name], dict(inputs), dict(inputs), decisions, lines)
    try:
        walk.block(walk.procedure.body)
    except Ended as ended:
        return Outcome(lines, ended.kind, ended.value)
    except Failed as failed:
        return Outcome(lines, "failed", failed.path)
    raise AssertionError("a procedure came to its last step without an end")


def rounded(value: Any, places: int, mode: t.Rounding) -> Fraction:
    """Round to so many decimals: by the neighbours below and above, and which of them is meant."""
    scaled = Fraction(value) * Fraction(10) ** places
    below = scaled.numerator // scaled.denominator
    rest = scaled - below
    towards_zero = below if scaled >= 0 else below + (rest != 0)
    from_zero = below + (rest != 0) if scaled >= 0 else below
    half = Fraction(1, TIED)
    match mode:
        case t.Rounding.FLOOR:
            chosen = below
        case t.Rounding.CEILING:
            chosen = below + (rest != 0)
        case t.Rounding.DOWN:
            chosen = towards_zero
        case t.Rounding.UP:
            chosen = from_zero
        case t.Rounding.HALF_EVEN if rest == half:
            chosen = below if below % TIED == 0 else below + 1
        case t.Rounding.HALF_DOWN if rest == half:
            chosen = towards_zero
        case t.Rounding.HALF_UP if rest == half:
            chosen = from_zero
        case _:
            chosen = below + (rest > half)
    return chosen / Fraction(10) ** places


def ends(value: Any) -> bool:
    """Whether a number's decimals come to an end."""
    rest = Fraction(value).denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


@dataclass
class Walk:
    """One procedure being carried out. `env` has what is carried, `shown` what the lines show of it."""

    module: m.Module
    types: Mapping[str, Mapping[str, t.Type]]
    procedure: m.Procedure
    env: Env
    shown: Env
    decisions: Mapping[str, Any]
    lines: list[Seen]
    prefix: str = ""
    passes: dict[str, int] = field(default_factory=dict)  # number of a loop -> the pass

    # --- lines

    def path(self, number: str) -> str:
        """Put the passes of the loops around a statement into its number."""
        done, parts = "", []
        for part in number.split("."):
            done = f"{done}.{part}" if done else part
            parts.append(f"{part}[{self.passes[done]}]" if done in self.passes else part)
        return self.prefix + ".".join(parts)

    def value(self, number: str, expr: n.Expr) -> Any:
        try:
            return self.of(expr, self.env)
        except Stuck:
            raise Failed(self.path(number)) from None

    def line(self, number: str, value: Any) -> None:
        self.lines.append((self.path(number), value))

    # --- statements

    def block(self, steps: Sequence[m.Step]) -> None:
        for step in steps:
            self.step(step)

    def step(self, step: m.Step) -> None:
        match step:
            case m.Assign():
                kept, seen = self.given(step, step.expression, self.type_of(step.target))
                self.line(step.number, seen)
                self.env[step.target], self.shown[step.target] = kept, seen
            case m.Extract() | m.Judge():
                path = self.path(step.number)
                value = self.decisions.get(path, self.decisions.get(step.target))
                self.lines.append((path, value))
                self.env[step.target] = self.shown[step.target] = value
            case m.Do():
                self.do(step)
            case m.If():
                self.branch(step)
            case m.For():
                self.loop(step)
            case m.While():
                self.repeat(step)
            case m.AnyOrder():
                self.block(step.body)
            case m.OneOf():
                self.one_of(step)
            case m.Require():
                holds = self.value(step.number, step.condition)
                self.line(step.number, holds)
                if not holds:
                    if isinstance(step.otherwise, m.Next):
                        raise Missed
                    self.step(step.otherwise)
            case m.Check():
                if not self.value(step.number, step.condition):
                    raise Failed(self.path(step.number))
                self.line(step.number, True)
            case m.Return():
                _, seen = self.given(step, step.expression, self.procedure.result)
                self.line(step.number, seen)
                raise Ended("return", seen)
            case m.Deny():
                self.line(step.number, step.text)
                raise Ended("deny", step.text)
            case m.Escalate():
                self.line(step.number, step.text)
                raise Ended("escalate", step.text)
            case m.Invoke() | m.Confirm() | m.Say():
                raise AssertionError(step)

    def type_of(self, name: str) -> t.Type:
        return self.types[self.procedure.name][name]

    def branch(self, step: m.If) -> None:
        for arm in step.branches:
            if arm.condition is None:
                self.block(arm.body)
                return
            holds = self.value(arm.number, arm.condition)
            self.line(arm.number, holds)
            if holds:
                self.block(arm.body)
                return

    def one_of(self, step: m.OneOf) -> None:
        left = {way.name: way for way in step.alternatives}
        for turn in range(1, (step.attempts or len(left)) + 1):
            self.passes[step.number] = turn
            path = self.path(step.number)
            name = self.decisions.get(path)
            way = left[name] if name in left else next(iter(left.values()))
            self.lines.append((path, way.name))
            try:
                self.block(way.body)
            except Missed:
                del left[way.name]
                left |= {way.name: way} if step.attempts is not None else {}
            else:
                return
            finally:
                del self.passes[step.number]
        if step.otherwise is not None:
            self.block(step.otherwise.body)

    def loop(self, step: m.For) -> None:
        items = self.value(step.number, step.items)
        if len(items) > step.bound:
            raise Failed(self.path(step.number))
        self.line(step.number, len(items))
        plain = isinstance(step.items, n.Name | n.FieldOf)
        seen = self.of(step.items, self.shown) if plain else items
        for index, item in enumerate(items):
            self.passes[step.number] = index + 1
            self.env[step.variable], self.shown[step.variable] = item, seen[index]
            self.block(step.body)
            del self.passes[step.number]

    def repeat(self, step: m.While) -> None:
        turn = 0
        while True:
            turn += 1
            self.passes[step.number] = turn
            holds = self.value(step.number, step.condition)
            if holds and turn > step.bound:
                raise Failed(self.path(step.number))
            self.line(step.number, holds)
            if holds:
                self.block(step.body)
            del self.passes[step.number]
            if not holds:
                return

    def do(self, step: m.Do) -> None:
        callee = self.module.procedures[step.procedure]
        inner = replace(self, procedure=callee, env={}, shown={}, prefix="", passes={})
        for parameter, argument in zip(callee.parameters, step.arguments, strict=True):
            kept, seen = self.given(step, argument, parameter.type)
            inner.env[parameter.name], inner.shown[parameter.name] = kept, seen
        self.line(step.number, None)  # its value comes below
        inner.prefix = f"{self.path(step.number)}."
        try:
            inner.block(callee.body)
        except Ended as ended:
            if ended.kind != "return":
                raise
            self.env[step.target] = self.shown[step.target] = ended.value

    # --- values as they are kept and shown

    def given(self, step: Any, expr: n.Expr, kind: t.Type) -> tuple[Any, Any]:
        """The value of a right side: what is carried on, and what its line shows."""
        places, mode = getattr(step, "places", None), getattr(step, "rounding", None)
        try:
            return self.finished(expr, kind, places, mode or self.module.numbers.rounding)
        except Stuck:
            raise Failed(self.path(step.number)) from None

    def finished(self, expr: n.Expr, kind: t.Type, places: int | None, mode: t.Rounding) -> tuple[Any, Any]:
        match expr, kind:
            case n.RecordOf() | n.ListOf((_, *_)), t.OptionalType(item=inner):
                return self.finished(expr, inner, places, mode)
            case n.RecordOf(fields), t.RecordType(fields=wanted):
                parts = dict(fields)
                both = {one.name: self.finished(parts[one.name], one.type, places, mode) for one in wanted}
                return {k: v[0] for k, v in both.items()}, {k: v[1] for k, v in both.items()}
            case n.ListOf(items), t.ListType(item=item) if items:
                pairs = [self.finished(one, item, places, mode) for one in items]
                return tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
        value = self.of(expr, self.env)
        if isinstance(kind, t.OptionalType):
            kind = kind.item
        if value is t.NULL:
            return value, value
        if not isinstance(kind, t.IntType | t.DecimalType | t.PercentType):
            plain = isinstance(expr, n.Name | n.FieldOf)
            return value, self.of(expr, self.shown) if plain else value
        if isinstance(kind, t.IntType):
            whole = value if places is None else rounded(value, places, mode)
            if Fraction(whole).denominator != 1:
                raise Stuck
            return whole, whole
        if not self.module.numbers.carry_exact:
            kept = value if places is None else rounded(value, places, mode)
            return kept, kept
        if isinstance(expr, n.Name | n.FieldOf | n.Literal) and places is None:
            return value, self.of(expr, self.shown)
        if places is None and isinstance(kind, t.DecimalType):
            places = kind.places
        if places is not None:
            return value, rounded(value, places, mode)
        return value, value if ends(value) else rounded(value, 10, mode)

    # --- expressions

    def of(self, expr: n.Expr, env: Env) -> Any:
        match expr:
            case n.Literal(value=value):
                return value
            case n.Name(name=name):
                return env[name]
            case n.FieldOf(record=record, name=name):
                return self.of(record, env)[name]
            case n.Negate(operand=operand):
                return -self.of(operand, env)
            case n.Arithmetic(op=op, left=left, right=right):
                return arithmetic(op, self.of(left, env), self.of(right, env))
            case n.Shift(date=moment, op=op, amount=amount, unit=unit, mode=mode):
                many = int(self.of(amount, env))
                return later(self.of(moment, env), many if op == "+" else -many, unit, mode)
            case n.Comparison(op=op, left=left, right=right):
                return compared(op, self.of(left, env), self.of(right, env))
            case n.IsNull(operand=operand, negated=negated):
                return (self.of(operand, env) is t.NULL) != negated
            case n.Default(value=left, fallback=right):
                found = self.of(left, env)
                return self.of(right, env) if found is t.NULL else found
            case n.Convert():
                raise AssertionError(expr)  # units are settled before anything is computed
            case n.Not(operand=operand):
                return not self.of(operand, env)
            case n.Logic(op="and", left=left, right=right):
                return self.of(left, env) and self.of(right, env)
            case n.Logic(left=left, right=right):
                return self.of(left, env) or self.of(right, env)
            case n.Choose(condition=condition, then=then, otherwise=otherwise):
                return self.of(then if self.of(condition, env) else otherwise, env)
            case n.Call(function=name, arguments=arguments):
                values = [self.of(argument, env) for argument in arguments]
                table = self.module.tables.get(name)
                if name == "text" and isinstance(arguments[0], n.Name):
                    return spelled(values[0], self.types[self.procedure.name][arguments[0].name])
                return self.function(name, values) if table is None else looked_up(table, values)
            case n.Aggregate():
                return self.collected(expr, list(self.terms(expr, env)))
            case n.ListOf(items=items):
                return tuple(self.of(item, env) for item in items)
            case n.RecordOf(fields=fields):
                return {name: self.of(value, env) for name, value in fields}

    def terms(self, expr: n.Aggregate, env: Env) -> Iterator[tuple[Any, Any]]:
        """Each term, and what it is sorted by."""
        for item in self.of(expr.items, env):
            inner = {**env, expr.variable: item}
            if expr.condition is None or self.of(expr.condition, inner):
                term = self.of(expr.term, inner)
                yield term, term if expr.key is None else self.of(expr.key, inner)

    def collected(self, expr: n.Aggregate, pairs: list[tuple[Any, Any]]) -> Any:
        if expr.function != "sort":
            return self.function(expr.function, [[term for term, _ in pairs]])
        done: list[tuple[Any, Any]] = []
        for term, key in pairs:  # by insertion, behind all that are as large
            place = 0
            while place < len(done) and (done[place][1] >= key if expr.descending else done[place][1] <= key):
                place += 1
            done.insert(place, (term, key))
        return tuple(term for term, _ in done)

    def function(self, name: str, values: list[Any]) -> Any:
        over = values[0] if len(values) == 1 and isinstance(values[0], list | tuple) else values
        match name:
            case "sum":
                return sum(over, Fraction(0))
            case "min" | "max":
                if not over:
                    raise Stuck
                return min(over) if name == "min" else max(over)
            case "count":
                return len(over)
            case "any":
                return any(over)
            case "all":
                return all(over)
            case "list" | "filter":
                return tuple(over)
            case "sort":
                return tuple(sorted(over))
            case "distinct":
                return tuple(one for index, one in enumerate(over) if one not in over[:index])
            case "first" | "last" | "rest" | "drop_last" if not over:
                raise Stuck
            case "first" | "last":
                return over[0] if name == "first" else over[-1]
            case "rest" | "drop_last":
                return tuple(over[1:] if name == "rest" else over[:-1])
            case "reverse":
                return tuple(reversed(over))
            case "append":
                return (*values[0], values[1])
            case "concat":
                return "".join(values) if isinstance(values[0], str) else sum(values, ())
            case "at" | "put":
                place = int(values[1])
                if not 1 <= place <= len(values[0]):
                    raise Stuck
                before, behind = values[0][: place - 1], values[0][place:]
                return values[0][place - 1] if name == "at" else (*before, values[2], *behind)
            case "position":
                return next((place + 1 for place, one in enumerate(values[0]) if one == values[1]), 0)
            case "upper":
                return values[0].upper()
            case "len":
                return len(values[0])
            case "abs":
                return max(values[0], -values[0])
            case "floor":
                return rounded(values[0], 0, t.Rounding.FLOOR)
            case "ceil":
                return rounded(values[0], 0, t.Rounding.CEILING)
            case "round":
                return rounded(values[0], int(values[1]), self.module.numbers.rounding)
            case "year" | "month" | "day" | "hour" | "minute":
                return getattr(values[0], name)
            case "weekday":
                return ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].index(f"{values[0]:%a}") + 1
            case "date":
                return values[0].date()
            case "number":
                return 1 if values[0] else 0
            case "full_months" | "full_years":
                many = months_passed(*values)
                return many if name == "full_months" else rounded(Fraction(many, 12), 0, t.Rounding.DOWN)
            case "zoned":
                hours, minutes = values[1][1:].split(":")
                away = timedelta(hours=int(hours), minutes=int(minutes))
                return values[0].astimezone(timezone(-away if values[1][0] == "-" else away))
            case _:
                raise AssertionError(name)


def later(moment: Any, many: int, unit: str, mode: str | None) -> Any:
    """A date so many units later; months by going back from a day that is not there to one that is."""
    seconds = {"weeks": 604_800, "days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1}
    try:
        if unit in seconds:
            return moment + timedelta(seconds=seconds[unit]) * many
    except OverflowError:
        raise Stuck from None
    months = moment.month - 1 + many * (12 if unit == "years" else 1)
    year, month = moment.year + months // 12, months % 12 + 1
    if not 1 <= year <= 9999:
        raise Stuck
    for gone in range(4):
        try:
            there = moment.replace(year=year, month=month, day=moment.day - gone)
        except ValueError:
            continue
        return there + timedelta(days=1) if gone and mode == "up" else there
    raise AssertionError(moment)


def months_passed(start: date, end: date, mode: str = "down") -> int:
    """Whole months from one date to another, by counting up to the last that has come."""
    if end < start:
        return -months_passed(end, start, mode)
    many = 0
    while (end.year, end.month) >= (start.year + (start.month + many) // 12, (start.month + many) % 12 + 1):
        many += 1
    try:
        return many if later(start, many, "months", mode) <= end else many - 1
    except OverflowError:
        return many - 1


def spelled(value: Any, kind: t.Type) -> str:
    """A value of a plain type as lines show it."""
    match kind:
        case t.BoolType():
            return "true" if value else "false"
        case t.PercentType():
            return spelled(value * 100, t.DecimalType(None)) + "%"
        case t.DecimalType(places=places):
            exact = Fraction(value)
            needed = next(n for n in range(60) if (exact * 10**n).denominator == 1)
            many = max(needed, places or 0)
            digits = f"{abs(exact * 10**many)}".rjust(many + 1, "0")
            whole, behind = digits[: len(digits) - many], digits[len(digits) - many :]
            return f"{'-' if exact < 0 else ''}{whole}{'.' if many else ''}{behind}"
        case t.DateType() | t.DatetimeType():
            return str(value.isoformat())
        case _:
            return str(value)


def arithmetic(op: str, left: Any, right: Any) -> Any:
    if op in {"/", "div", "mod"} and right == 0:
        raise Stuck
    match op:
        case "+":
            return left + right
        case "-" if isinstance(left, datetime):
            return round((left - right) / timedelta(seconds=1))
        case "-" if isinstance(left, date):
            return (left - right) // timedelta(days=1)
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return Fraction(left) / Fraction(right)
        case _:
            pass
    whole = rounded(Fraction(left) / Fraction(right), 0, t.Rounding.FLOOR)
    return whole if op == "div" else left - right * whole


def compared(op: str, left: Any, right: Any) -> bool:
    match op:
        case "==":
            return bool(left == right)
        case "!=":
            return bool(left != right)
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
        case ">=":
            return bool(left >= right)
        case "in":
            return left in right
        case _:
            return left not in right


def looked_up(table: m.Table, values: list[Any]) -> Any:
    """The result of a decision table."""
    hits: list[Any] = [row.result.value for row in table.rows if all(map(fits, row.cells, values))]
    match table.hit:
        case m.Hit.SUM:
            return sum(hits, Fraction(0))
        case _ if not hits:
            raise Stuck
        case m.Hit.MIN:
            return min(hits)
        case m.Hit.MAX:
            return max(hits)
        case m.Hit.FIRST:
            return hits[0]
        case _:
            if any(hit != hits[0] for hit in hits) or (table.hit is m.Hit.UNIQUE and len(hits) > 1):
                raise Stuck
            return hits[0]


def fits(cell: m.Cell, value: Any) -> bool:
    match cell:
        case m.AnyCell():
            return True
        case m.ValuesCell(values=values):
            return any(one.value == value for one in values)
        case m.RangeCell() if value is t.NULL:
            return False
        case m.RangeCell(low=low, high=high, low_included=with_low, high_included=with_high):
            above = low is None or value > low.value or (with_low and value == low.value)
            below = high is None or value < high.value or (with_high and value == high.value)
            return bool(above and below)

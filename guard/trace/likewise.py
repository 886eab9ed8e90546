"""Worked examples of the operations in some expressions: the same with other numbers, computed by the guard.

Which numbers is drawn from a digest of the expressions, so that the same are always worked alike. An answer
that is asked for stands in no example; of one that is true or false there are both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from hashlib import sha256
from typing import Any, Final

from guard.procedure.cells import Rule, body
from guard.procedure.expected import UNKNOWN, Form
from guard.procedure.expression import infer
from guard.procedure.functions import EvaluationError
from guard.procedure.library import FUNCTIONS
from guard.procedure.located import Located
from guard.procedure.model import RangeCell, Table, ValuesCell
from guard.procedure.nodes import Call, Comparison, Expr, ListOf, Literal, Name, mapped, names
from guard.procedure.numbers import decimals_of
from guard.procedure.passes import Env
from guard.procedure.scope import Scope
from guard.procedure.text import text
from guard.procedure.types import BoolType, DecimalType, PercentType, StringType, Type, Value
from guard.procedure.units import bare, bare_table

EXAMPLES: Final = 3
TRIES: Final = 80  # draws, of which some do not come out even, or have the answer in them
STRICT: Final = 60  # of them in which no part of a number may be the answer either
WORDS: Final = ("alder", "birch", "cedar", "maple")
YEARS: Final = (1960, 2030)
DAYS: Final = 28
LONGEST: Final = 4  # items of a list

_NUMBER: Final = re.compile(r"-?[0-9.]+%?|\w+")


@dataclass(frozen=True, slots=True)
class Problem:
    """An expression in a line, the type of its value, and how that is spelled."""

    expression: Expr
    type: Type
    answer: str

    @property
    def text(self) -> str:
        """The expression as it is asked for."""
        return text(self.expression)


@dataclass(frozen=True, slots=True)
class Example:
    """Some problems with the values of the names in them."""

    values: Mapping[str, Value]
    problems: tuple[Problem, ...]

    def says(self, answer: str, *, whole: bool) -> bool:
        """Whether an answer stands in it, as a part of a longer number or only `whole`."""
        said = [part for one in self.problems for part in (one.text, one.answer)]
        if not whole:
            return any(answer in part for part in said)
        return any(answer in (part, *_NUMBER.findall(part)) for part in said)


def examples(
    problems: Sequence[Problem], located: Located, values: Mapping[str, Value], *, again: int = 0
) -> list[Example]:
    """Work a few examples of the problems of one line. `again`: others, for a further try.

    `values` are those of the names in them. There may be none, where no draw comes to a value.
    """
    maker = _Maker(located, values)
    told = [one.answer for one in problems if not isinstance(one.type, BoolType)]
    asked = values, tuple(one.text for one in problems)
    found: list[Example] = []
    for number, example in enumerate(maker.drawn(problems, again)):
        if example is None or (example.values, tuple(one.text for one in example.problems)) == asked:
            continue
        if any(example.says(answer, whole=number >= STRICT) for answer in told):
            continue
        if _adds(example, found):
            found.append(example)
        if len(found) == EXAMPLES:
            break
    return found if told or _has_both(found) else []


def _adds(example: Example, found: Sequence[Example]) -> bool:
    """Whether an example shows something that the others do not: of what is true two are enough."""
    answers = [one.answer for one in example.problems]
    if example.problems in [one.problems for one in found]:
        return False
    alike = sum(answers == [one.answer for one in other.problems] for other in found)
    return alike < (EXAMPLES - 1 if isinstance(example.problems[0].type, BoolType) else 1)


def _has_both(found: Sequence[Example]) -> bool:
    return len({one.answer for example in found for one in example.problems}) > 1


class _Draws:
    """Numbers that a text determines."""

    def __init__(self, seed: str) -> None:
        self._seed, self._drawn = seed, 0

    def below(self, most: int) -> int:
        """Draw a whole number from 0 up to one below `most`."""
        self._drawn += 1
        digest = sha256(f"{self._seed}|{self._drawn}".encode()).digest()
        return int.from_bytes(digest[:8]) % most

    def between(self, low: int, high: int) -> int:
        """Draw a whole number, both ends included."""
        return low + self.below(high - low + 1)

    def of(self, options: Sequence[Any]) -> Any:
        """Draw one of some."""
        return options[self.below(len(options))]


class _Maker:
    """Makes examples for one statement."""

    def __init__(self, located: Located, values: Mapping[str, Value]) -> None:
        program = located.program
        self._tables = {name: bare_table(table) for name, table in program.module.tables.items()}
        types = {name: bare(type_) for name, type_ in program.types.items()}
        self._scope = Scope(types, self._tables, program.numbers)
        places, mode = located.rounding or (None, None)
        self._rule = Rule(places, mode)
        self._values = values

    def drawn(self, problems: Sequence[Problem], again: int) -> Iterator[Example | None]:
        """Draw examples; None for a draw that comes to nothing."""
        seed = "|".join(one.text for one in problems)
        for number in range(TRIES):
            draws = _Draws(f"{seed}|{again}|{number}")
            varied = _Varied(draws, self._tables, zero=number % 2 > 0, wide=number > TRIES // 2)
            values = {name: varied.value(value) for name, value in self._values.items()}
            made = [self._worked(one, varied, values) for one in problems]
            whole = [one for one in made if one is not None]
            yield Example(values, tuple(whole)) if len(whole) == len(problems) else None

    def _worked(self, problem: Problem, varied: _Varied, values: Mapping[str, Value]) -> Problem | None:
        expression = varied.expression(problem.expression)
        named: dict[str, Value] = {}
        computed = self._computed(expression, named)
        scope = replace(
            self._scope, variables={**self._scope.variables, **dict.fromkeys(named, StringType())}
        )
        wrong: list[str] = []
        infer(computed, scope, lambda _, message, __: wrong.append(message))
        if wrong:
            return None
        env: Env = {name.name: UNKNOWN for name in names(computed)} | dict(values) | named
        made = body(computed, problem.type, scope, Form.WORK, self._rule)
        try:
            _, cells = made.fill(env, env)
        except EvaluationError:
            return None
        match cells:
            case [only] if only.spelling is not None and not only.key:
                return Problem(expression, problem.type, only.spelling)
            case _:
                return None

    def _computed(self, expr: Expr, named: dict[str, Value]) -> Expr:
        """Give an expression that the language takes: it compares no constant texts, and adds up lists."""
        match expr:
            case Literal(str() as value):
                named[f" {len(named)}"] = value
                return Name(f" {len(named) - 1}")
            case Call(function) if function in self._tables:
                return expr
            case Call(function, (Literal() as only,)) if function in FUNCTIONS and FUNCTIONS[function].over:
                return Call(function, (ListOf((only,)),))
            case _:
                return mapped(expr, lambda part: self._computed(part, named))


class _Varied:
    """Other values in the place of some.

    `zero`: also in the place of nothing. `wide`: numbers have as many digits as each other.
    """

    def __init__(self, draws: _Draws, tables: Mapping[str, Table], *, zero: bool, wide: bool) -> None:
        self._draws, self._tables = draws, tables
        self._zero, self._wide = zero, wide
        self._digits = draws.between(1, 3)

    def expression(self, expr: Expr) -> Expr:
        """Give an expression with other constants."""
        match expr:
            case Literal(value, type_):
                return Literal(self.constant(value, type_), type_)
            case Call(function, arguments) if function in self._tables:
                cells = zip(*(row.cells for row in self._tables[function].rows), strict=True)
                given = zip(arguments, cells, strict=True)
                return Call(function, tuple(self._looked_up(one, column) for one, column in given))
            case Call(function, (first, *rest)) if function in FUNCTIONS and FUNCTIONS[function].fixed:
                kept = (one if isinstance(one, Literal) else self.expression(one) for one in rest)
                return Call(function, (self.expression(first), *kept))  # how many decimals is no number
            case Comparison("==" | "!=", Literal() as left, Literal()):
                one = self.expression(left)  # two that are drawn are hardly ever equal
                return replace(expr, left=one, right=one if self._draws.below(2) else self.expression(left))
            case _:
                return mapped(expr, self.expression)

    def _looked_up(self, argument: Expr, column: Sequence[object]) -> Expr:
        """Give another argument of a table: mostly one that some row is for."""
        match argument, self._draws.of(column):
            case Literal(_, type_), ValuesCell(values):
                return Literal(self._draws.of(values).value, type_)
            case Literal(int(), type_), RangeCell(Literal(int() as low), Literal(int() as high)):
                return Literal(self._draws.between(low, high), type_)
            case _:
                return self.expression(argument)

    def constant(self, value: Value, type_: Type) -> Value:
        """Give another constant of a type, with as many decimals."""
        match value, type_:
            case Fraction() | int() as share, PercentType():
                return self._scaled(share * 100, max(0, _places(share) - 2)) / 100
            case Fraction() | int() as number, DecimalType(int(places)):
                return self._scaled(number, places)
            case _:
                return self.value(value)

    def value(self, value: Value) -> Value:
        """Give another value of the same kind."""
        draws = self._draws
        match value:
            case bool():
                return draws.below(2) > 0
            case int():
                return self._whole(value)
            case Fraction():
                return self._scaled(value, _places(value))
            case datetime():
                return value + timedelta(days=draws.between(-DAYS, DAYS), minutes=draws.below(60))
            case date():
                year = draws.between(*YEARS) if self._wide else value.year
                return date(year, draws.between(1, 12), draws.between(1, DAYS))
            case str():
                return str(draws.of(WORDS))
            case tuple():
                return (
                    tuple(self.value(draws.of(value)) for _ in range(draws.between(1, LONGEST)))
                    if value
                    else ()
                )
            case dict():
                return {name: self.value(part) for name, part in value.items()}
            case _:
                return value

    def _scaled(self, number: Fraction | int, places: int) -> Fraction:
        """Give another number of so many decimals: of another whole part and others behind the point."""
        if number == 0 and not self._zero:
            return Fraction(0)
        whole, behind = self._whole(int(number)), self._draws.below(10**places)
        return whole + Fraction(-behind if number < 0 else behind, 10**places)

    def _whole(self, number: int) -> int:
        """Give another whole number of as many digits and the same sign."""
        if number == 0 and not self._zero:
            return 0
        low = 10 ** ((self._digits if self._wide else len(str(abs(number)))) - 1)
        drawn = self._draws.between(max(2, low), max(9, 10 * low - 1))
        return -drawn if number < 0 else drawn


def _places(number: Fraction | int) -> int:
    """How many decimals a number has, as far as it has an end of them."""
    return (decimals_of(number.denominator) or 0) if isinstance(number, Fraction) else 0

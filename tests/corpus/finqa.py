"""FinQA's operator programs (`subtract(388, 421), divide(#0, 421)`) as procedures, one step an operator."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from math import prod
from statistics import mean
from typing import Any, Final

from tests.corpus.problems import Problem, as_json, canonical, kind_of, rows

_OPERATOR: Final = re.compile(r"(\w+)\((.*?)\)(?:, |$)")
_SIGNS: Final = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "greater": ">"}
_BINARY: Final[dict[str, Callable[[Fraction, Fraction], Fraction | bool]]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "greater": lambda a, b: a > b,
    "exp": lambda a, b: prod([a] * int(b), start=Fraction(1)),
}
_ROW: Final[dict[str, Callable[[list[Fraction]], Fraction]]] = {
    "table_sum": lambda cells: sum(cells, Fraction(0)),
    "table_average": mean,
    "table_min": min,
    "table_max": max,
}
SHOWN: Final = 10  # decimals of a number that is carried on exactly


@dataclass
class _Translation:
    """A program as far as it is translated."""

    table: list[list[str]]
    lines: list[str] = field(default_factory=list)
    inputs: dict[str, str] = field(default_factory=dict)  # number as written -> name
    lists: dict[str, list[str]] = field(default_factory=dict)  # name -> cells as written
    golds: list[Fraction | bool] = field(default_factory=list)

    def step(self, operator: str, written: list[str]) -> None:
        """Translate one operator."""
        if operator in _ROW:
            expression = self._over_row(operator, written[0])
        else:
            a, b = (self._operand(argument) for argument in written)
            self.golds.append(_BINARY[operator](*(self._value(argument) for argument in written)))
            repeated = " * ".join([a] * int(self._value(written[1]))) if operator == "exp" else ""
            # A power has more digits than a number may have.
            expression = f"{repeated} to {SHOWN}" if repeated else f"{a} {_SIGNS[operator]} {b}"
        self.lines.append(f"s{len(self.lines)} = {expression}")

    def _over_row(self, operator: str, row: str) -> str:
        cells = cells_of(next(cells for label, *cells in self.table if label == row))
        name = next(
            (name for name, known in self.lists.items() if known == cells), f"row{len(self.lists) + 1}"
        )
        self.lists[name] = cells
        self.golds.append(_ROW[operator]([value_of(cell) for cell in cells]))
        if operator == "table_average":
            return f"sum({name}) / len({name})"
        return f"{operator.removeprefix('table_')}({name})"

    def _operand(self, written: str) -> str:
        if written.startswith("#"):
            return f"s{written[1:]}"
        if written.startswith("const_"):
            return written.removeprefix("const_").replace("m", "-")
        return self.inputs.setdefault(canonical(written), f"v{len(self.inputs) + 1}")

    def _value(self, written: str) -> Fraction:
        if written.startswith("#"):
            return Fraction(self.golds[int(written[1:])])
        return value_of(written.removeprefix("const_").replace("m", "-"))


def value_of(written: str) -> Fraction:
    """`62%` is 0.62."""
    number = Fraction(written.removesuffix("%"))
    return number / 100 if written.endswith("%") else number


def cells_of(row: list[str]) -> list[str]:
    """The numbers of a row: `$ -5974 ( 5974 )` is -5974, `26% ( 26 % )` is 26%."""
    return [canonical(re.sub(r"[$,\s]", "", cell.partition("(")[0])) for cell in row]


def translated(index: int, row: dict[str, Any]) -> Problem:
    """A program as a procedure."""
    made = _Translation(row["table"])
    for operator, arguments in _OPERATOR.findall(row["program"]):
        made.step(operator, arguments.split(", "))
    inputs: dict[str, Any] = {name: as_json(number) for number, name in made.inputs.items()}
    inputs |= {name: [as_json(cell) for cell in cells] for name, cells in made.lists.items()}
    answer = row["exe_ans"]
    return Problem(
        name=f"finqa-{index}",
        text=_text(f"finqa_{index}", made),
        inputs=inputs,
        golds={str(number): gold for number, gold in enumerate(made.golds, 1)},
        answer=answer if isinstance(answer, str) else Fraction(str(answer)),
        shown=SHOWN,
        answer_shown=5,
    )


def _text(name: str, made: _Translation) -> str:
    parameters = [f"{name}: {kind_of(number)}" for number, name in made.inputs.items()]
    parameters += [f"{name}: list of {widest(cells)}" for name, cells in made.lists.items()]
    last = f"s{len(made.lines) - 1}"
    kind, answer = "decimal", last
    if isinstance(made.golds[-1], bool):
        kind, answer = 'enum("yes", "no")', f'if {last} then "yes" else "no"'
    head = f"procedure {name}({', '.join(parameters)}) -> {kind}"
    body = "\n  ".join([head, *made.lines, f"return {answer}"])
    return f"numbers round half_even, carry exact\n\n{body}\n"


def widest(cells: list[str]) -> str:
    """The type that all cells of a row have."""
    kinds = {kind_of(cell) for cell in cells}
    return kinds.pop() if len(kinds) == 1 else "decimal"


@cache
def problems() -> tuple[Problem, ...]:
    """All programs of the corpus."""
    return tuple(translated(index, row) for index, row in enumerate(rows("finqa_100.jsonl"), 1))

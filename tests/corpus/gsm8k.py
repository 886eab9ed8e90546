"""Annotated solutions of GSM8K (`<<48/2=24>>`) as procedures, one step an annotation."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from operator import add, mul, sub, truediv
from typing import Any, Final

from tests.corpus.problems import Gold, Problem, as_json, canonical, kind_of, rows

_ANNOTATION: Final = re.compile(r"<<\+?(.*?)=(.*?)>>")
_NUMBER: Final = re.compile(r"\d*\.?\d+|\d+\.")

_OPERATORS: Final[dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.Div: truediv,
}


@dataclass
class _Translation:
    """A solution as far as it is translated. A number that an earlier step gave is that step's name."""

    lines: list[str] = field(default_factory=list)
    inputs: dict[str, str] = field(default_factory=dict)  # number as written -> name
    values: list[Fraction] = field(default_factory=list)  # what the steps give

    def step(self, calculation: str, gold: str) -> None:
        """Translate one annotation."""
        places = len(gold.partition(".")[2])
        rounded = f" to {places}" if re.search(r"[/.]", calculation) or self._fractional(calculation) else ""
        expression = _NUMBER.sub(lambda number: self._operand(number[0]), calculation)
        self.lines.append(f"s{len(self.lines) + 1} = {expression}{rounded}")
        self.values.append(exactly(calculation))

    def _fractional(self, calculation: str) -> bool:
        return any(Fraction(number).denominator > 1 for number in _NUMBER.findall(calculation))

    def _operand(self, written: str) -> str:
        number = canonical(written)
        for index, value in reversed(list(enumerate(self.values, 1))):
            if value == Fraction(number):
                return f"s{index}"
        return self.inputs.setdefault(number, f"v{len(self.inputs) + 1}")


def exactly(calculation: str) -> Fraction:
    """What a calculation of `+ - * /` gives, worked out without the language."""
    # Zeros in front are no Python; a number is a string until it is exact.
    text = _NUMBER.sub(lambda number: f'"{number[0]}"', calculation)
    return _worked_out(ast.parse(text, mode="eval").body)


def _worked_out(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=str(number)):
            return Fraction(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_worked_out(operand)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            return _OPERATORS[type(operator)](_worked_out(left), _worked_out(right))
        case _:
            raise ValueError(ast.dump(node))


def annotated(answer: str) -> list[tuple[str, str]]:
    """The calculations of a solution, each with what is written as its result."""
    return [(calculation, canonical(gold)) for calculation, gold in _ANNOTATION.findall(answer)]


def translated(index: int, row: dict[str, Any]) -> Problem | None:
    """A solution as a procedure; None where nothing is annotated."""
    steps = annotated(row["answer"])
    if not steps:
        return None
    made = _Translation()
    for calculation, gold in steps:
        made.step(calculation, gold)
    answer = Fraction(row["answer"].rpartition("####")[2].strip().replace(",", ""))
    golds: dict[str, Gold] = {str(number): Fraction(gold) for number, (_, gold) in enumerate(steps, 1)}
    return Problem(
        name=f"gsm8k-{index}",
        text=_text(f"gsm8k_{index}", made, answer),
        inputs={name: as_json(number) for number, name in made.inputs.items()},
        golds=golds,
        answer=answer,
    )


def _text(name: str, made: _Translation, answer: Fraction) -> str:
    parameters = ", ".join(f"{name}: {kind_of(number)}" for number, name in made.inputs.items())
    # The last annotation is not always the answer: later ones may be asides.
    gives = [number for number, value in enumerate(made.values, 1) if value == answer]
    last = gives[-1] if gives else len(made.values)
    lines = [f"procedure {name}({parameters}) -> decimal", *made.lines, f"return s{last}"]
    return "\n  ".join(lines) + "\n"


@cache
def problems() -> tuple[Problem, ...]:
    """All annotated solutions of the corpus."""
    return tuple(_all())


def _all() -> Iterator[Problem]:
    for index, row in enumerate(rows("gsm8k_400.jsonl"), 1):
        problem = translated(index, row)
        if problem is not None:
            yield problem

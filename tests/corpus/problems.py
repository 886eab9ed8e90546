"""Public problems with known answers as procedures: what a problem is, and how its procedure is carried out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import yaml

from guard.procedure.execute import Program, reference
from guard.procedure.expected import Ending, Expected
from guard.procedure.load import load
from guard.procedure.types import Value

FOLDER: Final = os.environ.get("STEPGUARD_CORPUS")
NOISY: Final = Path(__file__).with_name("noisy.yaml")
Gold = Fraction | bool | str


@dataclass(frozen=True)
class Problem:
    """A problem: its procedure as text, inputs as JSON, and what each step gives, by path.

    `shown` and `answer_shown` are how many decimals the golds of its steps and its answer are rounded to,
    None where they are exact.
    """

    name: str
    text: str
    inputs: dict[str, Any]
    golds: dict[str, Gold]
    answer: Gold
    shown: int | None = None
    answer_shown: int | None = None

    @cached_property
    def program(self) -> Program:
        """The compiled procedure."""
        [program] = load(self.text, f"{self.name}.proc").procedures.values()
        return program

    @cached_property
    def accepted(self) -> dict[str, Value]:
        """The inputs as values."""
        return self.program.accept(self.inputs)

    def execute(self) -> tuple[list[tuple[Expected, Value]], Ending]:
        """The steps with their values, and the end."""
        return reference(self.program, self.accepted, {})

    def disagreements(self) -> Iterator[Disagreement]:
        """Steps that do not give their gold; the step of the answer is `answer`."""
        steps, ending = self.execute()
        values: dict[str, object] = {expected.path: value for expected, value in steps}
        for path, gold in self.golds.items():
            if not _same(values.get(path), gold, self.shown):
                yield Disagreement(self.name, path, str(gold), str(values.get(path)))
        if not _same(ending.value, self.answer, self.answer_shown):
            yield Disagreement(self.name, "answer", str(self.answer), str(ending.value))


@dataclass(frozen=True)
class Disagreement:
    """A step whose gold is not what its own calculation gives."""

    problem: str
    step: str
    gold: str
    gives: str


def _same(value: object, gold: Gold, places: int | None) -> bool:
    if isinstance(gold, bool | str) or isinstance(value, bool | str):
        return value is gold or value == gold
    if not isinstance(value, int | Fraction):
        return False
    # Rounded by whom, and how ties go, is not said: half a unit, and a hair for a gold that was a float.
    slack = Fraction(0) if places is None else Fraction(1, 2 * 10**places) * (1 + Fraction(1, 10**6))
    return abs(value - gold) <= slack


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of a file of the corpus; none where there is no corpus."""
    if not FOLDER:
        return []
    return [json.loads(line) for line in (Path(FOLDER) / name).read_text("utf-8").splitlines()]


def known_noise() -> dict[str, list[dict[str, Any]]]:
    """What of the corpora is known not to be as it looks, each with the reason."""
    entries: dict[str, list[dict[str, Any]]] = yaml.safe_load(NOISY.read_text("utf-8"))
    return entries


def as_json(number: str) -> object:
    """A number as it is written, as an input of a procedure."""
    return int(number) if number.lstrip("-").isdigit() else number


def kind_of(number: str) -> str:
    """The narrowest type of what is written."""
    if number.endswith("%"):
        return "percent"
    _, point, decimals = number.partition(".")
    return f"decimal({len(decimals)})" if point else "int"


def canonical(number: str) -> str:
    """A number as the language spells it: `.455` is `0.455`, `05` is `5`."""
    sign, digits = ("-", number[1:]) if number.startswith("-") else ("", number)
    whole, point, decimals = digits.partition(".")
    return f"{sign}{whole.lstrip('0') or '0'}{point if decimals else ''}{decimals}"

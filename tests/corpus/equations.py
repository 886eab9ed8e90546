"""Equations as people wrote them: those that GSM8K's solutions annotate, after a step's name, in five settings.

An equation is the text around `<<48/2=24>>` as it stands there: the working before it, from its first figure
on, and the result after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

NAME: Final = "total"
SETTINGS: Final = ("plain", "units", "currency", "letters", "sentence")

_ANNOTATION: Final = re.compile(r"<<\+?(.*?)=(.*?)>>")
_FIGURE: Final = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?|\.[0-9]+")
_EQUALS: Final = re.compile(r"=\s*[$£€]*\s*$|\bequals\s*$")
_RESULT: Final = re.compile(rf"\s*[$£€]?\s*-?(?:{_FIGURE.pattern})(?:%|(?=[^\d]|$))")
_OPERAND: Final = re.compile(rf"(?<![\w.,/])(?:{_FIGURE.pattern})(?!\s*[%\w.,]*\w)")
_SIGNS: Final = (
    (re.compile(r"(?<=[\w%)])\s*\*\s*(?=[$£€\d(.])"), " x "),
    (re.compile(r"(?<=[\w%)])\s*-\s*(?=[$£€\d(.])"), " – "),  # noqa: RUF001
)


@dataclass(frozen=True)
class Equation:
    """One equation: what it comes to, how it is written, the words after its result, and the first of them."""

    gold: str
    working: str
    link: str
    result: str
    rest: str

    @property
    def value(self) -> Fraction:
        """What it comes to."""
        return Fraction(self.gold.replace(",", ""))

    @property
    def unit(self) -> str:
        """The word of the solution that says what the result counts."""
        found = re.match(r"\s*([A-Za-z]{2,})", self.rest)
        return found[1] if found else "units"


def equations(answer: str) -> Iterator[Equation]:
    """Give the annotated equations of a solution."""
    for line in answer.split("\n"):
        for match in _ANNOTATION.finditer(line):
            before, after = (
                _ANNOTATION.sub("", part) for part in (line[: match.start()], line[match.end() :])
            )
            link = _EQUALS.search(before)
            result = _RESULT.match(after)
            assert result is not None
            working = _working(before[: link.start()], match[1]) if link else ""
            sign = link[0].replace("$$", "$") if link else ""
            yield Equation(
                gold=match[2],
                working=working,
                link=f" {sign.strip()} ".replace(" = $", " = $"),
                result=result[0].strip(),
                rest=after[result.end() :],
            )


def _working(before: str, calculation: str) -> str:
    """Give as much of the end of a text as has the figures of a calculation."""
    figures = len(_FIGURE.findall(calculation))
    text = before.rpartition("=")[2]
    found = list(_FIGURE.finditer(text))
    if len(found) < figures or not found:
        return ""
    start = found[-figures].start()
    while start and text[start - 1] in "($£€ -":
        start -= 1
    return text[start:].strip(" ")


def written(equation: Equation, setting: str) -> str:
    """Write an equation after a step's name, in a setting."""
    whole = f"{NAME} = {_whole(equation)}"
    match setting:
        case "units":
            return _after_operands(whole, f" {equation.unit}")
        case "currency":
            return _OPERAND.sub(lambda figure: f"${figure[0]}", whole.replace("$", "").replace("= =", "="))
        case "letters":
            for sign, spelled in _SIGNS:
                whole = sign.sub(spelled, whole)
            return whole
        case "sentence":
            return f"From this it follows that {whole}{_to_the_stop(equation.rest)}"
        case _:
            return whole


def _whole(equation: Equation) -> str:
    if not equation.working:
        return equation.result
    return f"{equation.working}{equation.link.rstrip()} {equation.result}".replace("$ ", "$")


def _after_operands(text: str, unit: str) -> str:
    return _OPERAND.sub(lambda figure: f"{figure[0]}{unit}", text)


def _to_the_stop(rest: str) -> str:
    sentence = re.split(r"(?<=[^\d])[.;!?](?:\s|$)|(?<=\d)[.](?:\s|$)|\n", rest, maxsplit=1)[0]
    return f"{sentence.rstrip('.')}."

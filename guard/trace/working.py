"""Comparing the workings of two lines by their structure, leaving out of account what does not matter."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache

from lark import Token, Tree, UnexpectedInput

from guard.procedure.dates import parse_date, parse_moment, spelled
from guard.procedure.normal import normal
from guard.procedure.numbers import parse_number
from guard.trace.grammar import TooManyWords, lark, nested_too_deep, parse, read_string


def same_working(left: str, right: str) -> bool:
    """Whether two workings are the same but for what does not matter.

    That is: white space, redundant parentheses, the order of the two operands of one `+` or `*`, and
    spellings of equal numbers or of one moment. A text that is no working, or too long a one to be read,
    is the same as nothing but itself.
    """
    if left == right:
        return True
    if _words(left) != _words(right):
        return False  # neither needs to be parsed for that
    forms = _Forms()
    mine = _normal(left, forms)
    return mine is not None and mine == _normal(right, forms)


def _words(text: str) -> int:
    """How many words and signs a text has, without parentheses and minus signs (`-0` is `0`).

    Equal workings have equally many, and that is cheap to see.
    """
    return len(_word().findall(text))


@cache
def _word() -> re.Pattern[str]:
    names = ("STRING", "NAME", "DATETIME", "DATE", "NUMBER")
    terminals = (lark().get_terminal(name).pattern.to_regexp() for name in names)
    return re.compile("|".join((*(f"(?:{terminal})" for terminal in terminals), "[=!<>]=", r"[^\s()-]")))


def _normal(text: str, forms: _Forms) -> int | None:
    if nested_too_deep(text) is not None:
        return None
    try:
        return forms.number(parse(text, "expression"))
    except (UnexpectedInput, TooManyWords):
        return None


class _Forms:
    """Numbers the normal forms of trees, so that equal forms have equal numbers.

    Each tree is numbered from the numbers of its parts, bottom up: nothing recurses, however long a
    chain of operators is, and a comparison takes time linear in the texts.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._forms: list[tuple[object, ...]] = []

    def number(self, tree: Tree[Token]) -> int | None:
        known: dict[int, int] = {}
        for part in tree.iter_subtrees():
            children = [
                known[id(child)] if isinstance(child, Tree) else str(child) for child in part.children
            ]
            form = self._form(part.data, children)
            if form is None:
                return None
            known[id(part)] = form if isinstance(form, int) else self._number(form)
        return known[id(tree)]

    def _number(self, form: tuple[object, ...]) -> int:
        if form not in self._numbers:
            self._numbers[form] = len(self._forms)
            self._forms.append(form)
        return self._numbers[form]

    def _form(self, data: str, children: list[int | str]) -> tuple[object, ...] | int | None:
        match data, children:
            case "parenthesis" | "alone", [int() as only]:
                return only
            case "number", [str() as token]:
                value = parse_number(token)
                return None if value is None else ("number", value)
            case "date", [str() as token]:
                day = parse_date(token)
                return None if day is None else ("date", day)
            case "datetime", [str() as token]:
                moment = parse_moment(token)
                return None if moment is None else ("datetime", spelled(moment))
            case "negate", [int() as operand]:
                return self._negated(operand)
            case "string", [str() as token]:
                text = read_string(token)
                return None if text is None else ("string", normal(text))
            case "add" | "multiply", [int() as left, int() as right]:
                return (data, min(left, right), max(left, right))
            case "field", [str() as name, int() as value]:
                return ("field", read_string(name), value)
            case "bare_field", [str() as name, int() as value]:
                return ("field", name, value)
            case "worked" | "explained", _:
                return None
            case _:
                return (data, *children)

    def _negated(self, operand: int) -> tuple[object, ...]:
        match self._forms[operand]:
            case ("number", int() | Fraction() as value) if value >= 0:
                return ("number", -value)
            case _:
                return ("negate", operand)

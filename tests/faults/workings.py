"""Lines of the right step with a wrong head or working.

That a changed working is another one, also after what may be changed, follows from what no allowed change touches: which
numbers and which operators stand in it, and which operand of `-` or `/` comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from tests.faults.faithful import Mutant, Sample, Spot, changed_line, spots
from tests.faults.values import DATE, later

_TOKEN: Final = re.compile(
    rf'"(?:[^"\\]|\\.)*"|{DATE.pattern}|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*|\d+(?:\.\d+)?%?|[<>=!]=|\S'
)
_NUMBER: Final = r"-?\d+(?:\.\d+)?%?"
_OPERAND: Final = rf"{DATE.pattern}|{_NUMBER}"
_ORDERED: Final = re.compile(rf"({_OPERAND}) (-|/|div|mod|<=|>=|==|!=|<|>) ({_OPERAND})")
_APPLIED: Final = re.compile(rf"(\w+)\(({_OPERAND}), ({_OPERAND})\)")
_THREE: Final = re.compile(rf"({_NUMBER}) ([-+*/]) ({_NUMBER}) ([-+*/]) ({_NUMBER})")
_OTHER_UNIT: Final = {
    "days": "weeks",
    "weeks": "days",
    "months": "years",
    "years": "months",
    "hours": "minutes",
    "minutes": "hours",
}
_OTHER: Final = {
    "+": "-",
    "-": "+",
    "*": "+",
    "/": "*",
    "div": "mod",
    "mod": "div",
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "and": "or",
    "or": "and",
}
_OTHER_WORD: Final = {
    "if": "elif",
    "elif": "if",
    "while": "if",
    "try": "check",
    "require": "check",
    "check": "require",
    "return": "check",
    "deny": "escalate",
    "escalate": "deny",
}


def _number(text: str) -> Fraction:
    return Fraction(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


def _differ(one: str, other: str) -> bool:
    """Whether two operands are not the same."""
    if DATE.fullmatch(one) or DATE.fullmatch(other):
        return one != other
    return _number(one) != _number(other)


def _workings(sample: Sample, index: int) -> Iterator[tuple[Spot, str]]:
    expected, value = sample.steps[index]
    if expected.decision is None:
        for spot in spots(expected, value):
            if spot.working is not None:
                yield spot, spot.working


def _mutant(sample: Sample, index: int, spot: Spot, working: str, name: str) -> Mutant:
    line = sample.lines[index + 1]
    behind = spot.working_at + len(spot.working or "")
    changed = f"{line[: spot.working_at]}{working}{line[behind:]}"
    return changed_line(sample, index, changed, "wrong_expression", spot.working_at, name=name)


def other_operand(sample: Sample, index: int) -> Iterator[Mutant]:
    """Another number, in the first and the last place where one stands."""
    for spot, working in _workings(sample, index):
        numbers = [token for token in _TOKEN.finditer(working) if token[0][0].isdigit()]
        for token in {numbers[0], numbers[-1]} if numbers else set():
            if DATE.fullmatch(token[0]):
                for other in later(token[0]):
                    changed = f"{working[: token.start()]}{other}{working[token.end() :]}"
                    yield _mutant(sample, index, spot, changed, "other_operand")
                continue
            whole, rest = re.fullmatch(r"(\d+)(.*)", token[0]).groups()  # type: ignore[union-attr]
            if len(whole) < 30:
                other = f"{working[: token.start()]}{int(whole) + 1}{rest}{working[token.end() :]}"
                yield _mutant(sample, index, spot, other, "other_operand")


def other_operator(sample: Sample, index: int) -> Iterator[Mutant]:
    """Another operator between two operands."""
    for spot, working in _workings(sample, index):
        for token in _TOKEN.finditer(working):
            between = working[: token.start()].endswith(" ") and working[token.end() :].startswith(" ")
            if token[0] in _OTHER and between:
                other = f"{working[: token.start()]}{_OTHER[token[0]]}{working[token.end() :]}"
                yield _mutant(sample, index, spot, other, "other_operator")
            if token[0] in _OTHER_UNIT and working[: token.start()].endswith(" "):
                other = f"{working[: token.start()]}{_OTHER_UNIT[token[0]]}{working[token.end() :]}"
                yield _mutant(sample, index, spot, other, "other_operator")


def swapped(sample: Sample, index: int) -> Iterator[Mutant]:
    """Two operands in the other order, where that is not that of one `+` or `*`."""
    for spot, working in _workings(sample, index):
        if (found := _ORDERED.fullmatch(working)) and _differ(found[1], found[3]):
            yield _mutant(sample, index, spot, f"{found[3]} {found[2]} {found[1]}", "swapped")
        if (found := _APPLIED.fullmatch(working)) and _differ(found[2], found[3]):
            yield _mutant(sample, index, spot, f"{found[1]}({found[3]}, {found[2]})", "swapped")


def regrouped(sample: Sample, index: int) -> Iterator[Mutant]:
    """Three operands in another order or grouping: not the two operands of one `+` or `*` swapped."""
    for spot, working in _workings(sample, index):
        found = _THREE.fullmatch(working)
        if found is None:
            continue
        a, first, b, second, c = found.groups()
        tight = second in "*/" and first in "+-"
        grouped = f"({a} {first} {b}) {second} {c}" if tight else f"{a} {first} ({b} {second} {c})"
        # (a + b) + c is not a + (b + c), but the same as c + (a + b): that needs other operands.
        if not (first == second and first in "+*" and _number(a) == _number(c)):
            yield _mutant(sample, index, spot, grouped, "regrouped")
        if first == second and _number(b) != _number(c):
            yield _mutant(sample, index, spot, f"{a} {first} {c} {second} {b}", "regrouped")


def without_working(sample: Sample, index: int) -> Iterator[Mutant]:
    """The value alone."""
    for spot, _ in _workings(sample, index):
        if spot.value is not None:
            line = sample.lines[index + 1]
            changed = f"{line[: spot.at]}{line[spot.value_at :]}"
            yield changed_line(sample, index, changed, "wrong_expression", spot.at, name="without_working")


def without_symbol(sample: Sample, index: int) -> Iterator[Mutant]:
    """The working alone, where the line must also show the expression as it is written; another expression."""
    for spot, _ in _workings(sample, index):
        if spot.symbol is not None:
            line = sample.lines[index + 1]
            for other in ("", f"{spot.symbol} + 1 = ", f"1 + ({spot.symbol}) = "):
                changed = f"{line[: spot.at]}{other}{line[spot.working_at :]}"
                yield changed_line(sample, index, changed, "wrong_expression", spot.at, name="without_symbol")


def with_working(sample: Sample, index: int) -> Iterator[Mutant]:
    """A working in front of a value that stands alone."""
    expected, value = sample.steps[index]
    if expected.decision is not None:
        return
    for spot in spots(expected, value):
        if spot.working is None and spot.value and re.fullmatch(_NUMBER, spot.value):
            line = sample.lines[index + 1]
            changed = f"{line[: spot.value_at]}{spot.value} + 0 = {line[spot.value_at :]}"
            yield changed_line(sample, index, changed, "wrong_expression", spot.value_at, name="with_working")


def longer(sample: Sample, index: int) -> Iterator[Mutant]:
    """A term more."""
    for spot, working in _workings(sample, index):
        if spot.value is not None:
            yield _mutant(sample, index, spot, f"{working} + 1", "longer")


def twice(sample: Sample, index: int) -> Iterator[Mutant]:
    """The working once more, where the line shows no expression besides; a value that stands alone once more."""
    expected, value = sample.steps[index]
    if expected.decision is not None:
        return
    line = sample.lines[index + 1]
    for spot in spots(expected, value):
        said = spot.value if spot.working is None else spot.working
        if said and spot.symbol is None and spot.value is not None and re.match(r"-?[0-9]", said):
            again = f"{line[: spot.at]}{said} = {line[spot.at :]}"
            yield changed_line(sample, index, again, "wrong_expression", spot.at, name="twice")


def quoted(sample: Sample, index: int) -> Iterator[Mutant]:
    """A quote behind a value that is computed."""
    expected, value = sample.steps[index]
    line = sample.lines[index + 1]
    if expected.decision is None and all(spot.value is not None for spot in spots(expected, value)):
        yield changed_line(
            sample, index, f'{line} <- "said so"', "wrong_expression", len(line) + 4, name="quoted"
        )


def other_head(sample: Sample, index: int) -> Iterator[Mutant]:
    """Another variable, or another word for what is done."""
    expected, _ = sample.steps[index]
    line = sample.lines[index + 1]
    head, rest = expected.head, line[len(expected.path) + 1 + len(expected.head) :]
    word = _OTHER_WORD.get(head)
    if word is None:
        name = head.split()[1] if head.startswith("for ") else head.split()[0]
        changed = head.replace(name, f"{name}_too", 1)
    else:
        changed = word
    yield changed_line(
        sample, index, f"{expected.path} {changed}{rest}", "wrong_expression", 0, name="other_head"
    )


def other_shape(sample: Sample, index: int) -> Iterator[Mutant]:
    """Something else where a line shows a list or record part by part."""
    expected, _ = sample.steps[index]
    if expected.decision is None and expected.cells and all(cell.key for cell in expected.cells):
        start = len(f"{expected.path} {expected.head} ")
        for body in ("[]", "{}", "1", '"all of it"'):
            line = f"{expected.path} {expected.head} {body}"
            yield changed_line(sample, index, line, "wrong_expression", start, name="other_shape")

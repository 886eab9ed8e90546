"""Lines of the right step with a wrong value: computed by the guard, or decided by the model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Final

from guard.procedure.expected import Cell, Decision, Expected
from guard.procedure.types import (
    NULL,
    BoolType,
    DatetimeType,
    DateType,
    DecimalType,
    EnumType,
    IntType,
    ListType,
    NothingType,
    NullType,
    OptionalType,
    PercentType,
    RecordType,
    StringType,
    TextType,
    Type,
    Value,
)
from guard.procedure.values import spell
from tests.faults.faithful import Mutant, Sample, Spot, changed_line, spots

_WRONG: Final = {
    "branch": "wrong_branch",
    "while": "wrong_branch",
    "require": "wrong_branch",
    "check": "wrong_branch",
    "return": "wrong_answer",
    "deny": "wrong_answer",
    "escalate": "wrong_answer",
}
_FLIPPED: Final = {"true": "false", "false": "true"}
DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?:T[0-9:]+(?:Z|[-+][0-9:]+))?")
_NOWHERE: Final = "thirteen purple hinges"


def others(spelling: str) -> list[str]:
    """Spellings of other values: not equal to this one, nor to anything that would be rounded to it."""
    if spelling in _FLIPPED:
        return [_FLIPPED[spelling]]
    if spelling == "null":
        return ["7", '"null"']
    if spelling.startswith('"'):
        return [f'{spelling[:-1]}x"', '"Something else."'] if len(spelling) < 10_000 else []
    if DATE.fullmatch(spelling):
        return [*later(spelling), f'"{spelling}"', "20260601"]
    if not re.fullmatch(r"-?[0-9.]+%?", spelling):
        return []
    sign = "%" if spelling.endswith("%") else ""
    digits = spelling.removesuffix("%")
    places = len(digits.partition(".")[2])
    found = [_moved(digits, step, places) + sign for step in (Fraction(1), Fraction(-1, 10**places))]
    negated = [digits[1:] if digits.startswith("-") else f"-{digits}"] if float(digits) else []
    return [*found, *(f"{other}{sign}" for other in negated), f'"{spelling}"']


def later(spelling: str) -> list[str]:
    """The day or the hour behind a date or moment, where there is one."""
    try:
        if "T" in spelling:
            return [(datetime.fromisoformat(spelling) + timedelta(hours=1)).isoformat()]
        return [(date.fromisoformat(spelling) + timedelta(days=1)).isoformat()]
    except OverflowError:
        return []


def _moved(digits: str, by: Fraction, places: int) -> str:
    value = Fraction(digits) + by
    scaled = str(abs(value.numerator * 10**places // value.denominator)).rjust(places + 1, "0")
    whole, decimals = scaled[: len(scaled) - places], scaled[len(scaled) - places :]
    return f"{'-' if value < 0 else ''}{whole}{'.' if places else ''}{decimals}"


def _with(line: str, at: int, old: str, new: str) -> str:
    return f"{line[:at]}{new}{line[at + len(old) :]}"


def wrong_value(sample: Sample, index: int) -> Iterator[Mutant]:
    """Another value in a cell that the guard computes."""
    expected, value = sample.steps[index]
    if expected.decision is not None:
        return
    kind = _WRONG.get(expected.kind.value, "wrong_value")
    line = sample.lines[index + 1]
    for cell, spot in zip(expected.cells, spots(expected, value), strict=True):
        for other in _others_of(cell, spot):
            changed = _with(line, spot.value_at, spot.value or "", other)
            yield changed_line(sample, index, changed, kind, spot.value_at, name="wrong_value")


def _others_of(cell: Cell, spot: Spot) -> list[str]:
    """Spellings of other values of a cell; of a list also one that lacks an item and one in another order."""
    if spot.value is None:
        return []
    match cell.value:
        case tuple() as items:
            changed = [items[:-1], items[::-1], (*items, *items[:1])]
            return [*(spell(other, cell.type) for other in changed if other != items), "true"]
        case dict() as record:
            return ["{}", "1", *(['{"x": 1}'] if list(record) != ["x"] else [])]
        case _:
            return others(spot.value)


def another(sample: Sample, index: int) -> str | None:
    """The line of a step with another value, or with another argument where it has none."""
    expected, value = sample.steps[index]
    line = sample.lines[index + 1]
    for spot in spots(expected, value):
        for other in others(spot.value or ""):
            return _with(line, spot.value_at, spot.value or "", other)
        if expected.decision is not None and spot.value is not None and spot.value.startswith("["):
            return _with(line, spot.value_at, spot.value, "[]" if spot.value != "[]" else "[1]")
    return None


# --- what the model decides ----------------------------------------------------------------------------


def inadmissible(sample: Sample, index: int) -> Iterator[Mutant]:
    """A decided value of another type, or one that its bounds forbid."""
    expected, value = sample.steps[index]
    if expected.decision is None:
        return
    [spot] = spots(expected, value)
    line = sample.lines[index + 1]
    refused = [spell(other, type_) for other, type_ in _refused(expected, expected.decision, value)]
    for other in [*_of_another_type(expected.decision.type), *refused]:
        changed = _with(line, spot.value_at, spot.value or "", other)
        yield changed_line(sample, index, changed, "inadmissible_value", spot.value_at, name="inadmissible")


def _of_another_type(type_: Type) -> list[str]:
    match type_:
        case IntType():
            return ['"many"', "2.5", "true", "[]"]
        case DecimalType(places=places):
            return ['"much"', "false", *([f"1.{'0' * places}1"] if places is not None else [])]
        case PercentType():
            return ['"much"', "true"]
        case BoolType():
            return ['"true"', "1", "[]"]
        case EnumType(options=options):
            return [f'"{options[0]}x"', "1", '""']
        case ListType():
            return ["1", '"[]"', "{}"]
        case RecordType():
            return ["1", "{}", '{"no such field": 1}']
        case DateType():
            return ["1", '"2026-06-01"', "2026-06-01T09:30:00+00:00"]
        case DatetimeType():
            return ["1", '"2026-06-01T09:30:00+00:00"', "2026-06-01"]
        case StringType() | TextType():
            return ["1", "true", "[]"]
        case OptionalType(item=item):
            return [*_of_another_type(item), '"null"'] if not isinstance(item, StringType) else ["1", "[]"]
        case NullType():
            return ["0", '"null"']
        case NothingType():
            return []


def _refused(expected: Expected, decision: Decision, value: Value) -> Iterator[tuple[Value, Type]]:
    """Values of the right type that the step's bounds forbid."""
    candidates: list[Value] = []
    match value:
        case int() | Fraction() if _is_number(value):
            candidates = [-(10**6), -1, 0, 51, 10**6]
        case tuple() if value and decision.at_most is not None:
            candidates = [(value * (decision.at_most + 1))[: decision.at_most + 1]]
        case tuple() if value:
            candidates = [_emptied(value)]
        case _:
            pass
    for candidate in candidates:
        if decision.admissible(candidate) is not None:
            yield candidate, decision.type


def _emptied(items: tuple[Value, ...]) -> Value:
    """Numbers of the items made 0."""
    return tuple(
        {name: 0 if _is_number(part) else part for name, part in item.items()}
        if isinstance(item, dict)
        else item
        for item in items
    )


def _is_number(value: Value) -> bool:
    return isinstance(value, int | Fraction) and not isinstance(value, bool)


def ungrounded(sample: Sample, index: int) -> Iterator[Mutant]:
    """No quote where one is required; words that stand nowhere in the source."""
    expected, value = sample.steps[index]
    decision = expected.decision
    if decision is None:
        return
    [spot] = spots(expected, value)
    kept = sample.lines[index + 1][: spot.value_at + len(spot.value or "")]
    if decision.quote and value is not NULL:
        yield changed_line(sample, index, kept, "ungrounded_value", spot.value_at, name="ungrounded")
    for words in _foreign(decision):
        quote = f"{kept} <- {spell(words, StringType())}"
        yield changed_line(sample, index, quote, "ungrounded_value", len(kept) + 4, name="ungrounded")
    right = sample.lines[index + 1]
    if right != kept:  # the second of two quotes
        second = f'{right} <- "{_NOWHERE}"'
        yield changed_line(sample, index, second, "ungrounded_value", len(right) + 4, name="ungrounded")


def _foreign(decision: Decision) -> list[str]:
    """Words that stand in no source, which is found out in another way than the guard's."""
    told = ["".join(text.split()) for _, text in decision.sources]
    first = next((text.split()[0] for _, text in decision.sources if text.split()), "")
    candidates = [_NOWHERE, first.swapcase(), f"{first} {first}", ""]
    return [
        words for words in candidates if not words or not any("".join(words.split()) in text for text in told)
    ]


def worked_out(sample: Sample, index: int) -> Iterator[Mutant]:
    """A decided value with a working, which only computed ones have."""
    expected, value = sample.steps[index]
    if expected.decision is not None and not isinstance(value, str | tuple | dict | date):
        [spot] = spots(expected, value)
        same = f"{spot.value} and {spot.value}" if isinstance(value, bool) else f"{spot.value} + 0"
        line = _with(sample.lines[index + 1], spot.value_at, "", f"{same} = ")
        yield changed_line(sample, index, line, "wrong_expression", spot.value_at, name="worked_out")

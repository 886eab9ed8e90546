"""Text that runs on: what no right line can have, known while the line still grows.

A line is judged at its end, which may never come: a model that repeats itself writes until its tokens are
spent. So one that has grown long is looked at now and then, and what is certain by then ends it. What stands
in the inputs may be copied, whatever it looks like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from guard.procedure.expected import Expected
from guard.procedure.numbers import DIGITS
from guard.procedure.types import ListType, OptionalType, Type, Value
from guard.trace import render
from guard.trace.usual import VALUES

BLANKS: Final = 1_024  # in a row, within a line
BLANK_LINES: Final = 512  # in a row
SAME: Final = 256  # times one character, or a few of them again and again
PERIOD: Final = 32  # characters that are few
FIGURES: Final = 3 * DIGITS  # in a row
WORDY: Final = 4  # times what the guard writes that a line may take which it knows
SPARE: Final = 256  # characters that any line may have

_BLANK: Final = " \t\r"


def why(text: str, due: Expected | None, inputs: Mapping[str, Value], stands: Callable[[], str]) -> str:
    """Say what a line may have at most that begins so and has more; "": it can still be right.

    `due` is the step that the line is of, None where it is of none that may come; `stands` gives the text
    that was verified, which a model may write again.
    """
    if len(text) - len(text.rstrip(_BLANK)) >= BLANKS:
        return f"{BLANKS - 1} blanks in a row"
    tail, known = text[-SAME:], None if due is None else due.text or render.canonical(due)
    figures = tail[-FIGURES:].isdecimal()
    if not (figures or _is_again(tail)):
        return ""
    part = tail[-FIGURES:] if figures else tail
    if any(part in copied for copied in (known or "", stands(), *_texts(inputs))):
        return ""
    if figures and '"' not in text:
        return f"{DIGITS} digits of a number"
    if tail == tail[0] * SAME and not tail.isspace():
        return f"{SAME - 1} times {tail[0]!r}"
    most = _longest(text, due, known)
    return "" if most is None or len(text) <= most else f"{most} characters of the same again and again"


def _is_again(tail: str) -> bool:
    """Whether a text is a few characters again and again."""
    return any(tail[period:] == tail[:-period] for period in range(1, PERIOD + 1))


def _texts(inputs: Mapping[str, Value]) -> Iterator[str]:
    """Give all texts in the inputs."""
    waiting: list[Value] = [*inputs.values()]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case dict() as fields:
                waiting += fields.values()
            case tuple() as items:
                waiting += items
            case _:
                pass


def _longest(text: str, due: Expected | None, known: str | None) -> int | None:
    """Give how many characters a line may have that begins so; None: any number of them."""
    if due is None:
        return SPARE
    if known is not None:
        return SPARE + WORDY * len(known)
    if due.decision is None or '"' in text:
        return None  # a string, or a quote, of any length
    most = _values(due.decision.type, due.decision.at_most)
    return None if most is None or text.count(",") < most else SPARE


def _values(type_: Type, at_most: int | None) -> int | None:
    """Give how many values a line may have as long as no string has begun; None: that is not known."""
    match type_:
        case OptionalType(item):
            return _values(item, at_most)
        case ListType(item) if isinstance(item, ListType | OptionalType):
            return None
        case ListType():
            return VALUES if at_most is None else min(at_most, VALUES)
        case _:
            return 0

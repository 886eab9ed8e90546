"""Writes a trace: the canonical line of every step, whole or up to where the model goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from guard.errors import InvalidState
from guard.procedure.expected import Cell, Expected
from guard.procedure.types import NULL, StringType, Value
from guard.procedure.values import spell
from guard.trace.support import opening, quotes_for

HOLE: Final = "…"  # in outlines, where the guard does not know what must stand
_STRING: Final = StringType()


class Named(Protocol):
    """A procedure, as far as its frame is concerned."""

    @property
    def name(self) -> str: ...


def begin(procedure: str, nonce: str) -> str:
    """The opening line, without its end."""
    return f"@begin {procedure} {nonce}"


def end(nonce: str) -> str:
    """The closing line, without its end."""
    return f"@end {nonce}"


def stub(expected: Expected) -> str:
    """What a prefix ends in that leaves the whole line to the model: the step's number."""
    return expected.path


def line(expected: Expected, value: Value | None = None, quotes: Iterable[str] = ()) -> str:
    """The canonical line of a step, without its end.

    `value` is what was decided where the value is the model's to decide, or what is to stand instead of
    the computed one in a line of a single cell. `quotes` go behind a decision. Raises InvalidState
    where the line has a hole that `value` does not fill.
    """
    text = canonical(expected, value)
    if text is None:
        raise InvalidState(f"the line of step {expected.path} hangs on what is not decided yet")
    return text + "".join(f" <- {spell(quote, _STRING)}" for quote in quotes)


def canonical(expected: Expected, value: Value | None = None) -> str | None:
    """The canonical line of a step as far as `line` has no quotes; None where it has a hole."""
    parts = [expected.path, " ", expected.head, " "]
    for cell in expected.cells:
        spelling = spell(value, cell.type) if value is not None and not cell.key else cell.spelling
        if spelling is None:
            return None
        match cell.working:
            case None:
                parts += (cell.lead, spelling)
            case (str(working),) if cell.bare:
                parts += (cell.lead, working)
            case (str(working),):
                parts += (cell.given, working, " = ", spelling)
            case _:
                return None
    parts.append(expected.tail)
    return "".join(parts)


def outline(expected: Expected) -> str:
    """The line for people: `…` stands for what the guard does not know."""
    parts: list[str | None] = [f"{expected.path} {expected.head} "]
    for cell in expected.cells:
        parts += [*_working(cell), *([] if cell.bare else [cell.spelling])]
    return "".join(HOLE if part is None else part for part in [*parts, expected.tail])


def scaffold(expected: Expected, cell_index: int = 0) -> str:
    """The line up to and including the ` =` in front of a cell's value, or the head where there is none.

    Ends earlier where something in front of that is not known. Never ends in white space.
    """
    parts: list[str | None] = [f"{expected.path} {expected.head} "]
    for cell in expected.cells[:cell_index]:
        parts += [*_working(cell), cell.spelling]
    parts += _working(expected.cells[cell_index])
    return "".join(_known(parts)).rstrip()


def trace(
    procedure: Named,
    steps: Iterable[tuple[Expected, Value]],
    nonce: str,
    quotes: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """A whole trace. `steps` are those of an execution with their values, `quotes` by step path.

    A decision that needs a quote and is given none has `supporting_quotes`.
    """
    given = quotes or {}
    lines = [
        line(
            expected,
            value if expected.decision else None,
            given[expected.path] if expected.path in given else supporting_quotes(expected, value),
        )
        for expected, value in steps
    ]
    return "".join(f"{text}\n" for text in [begin(procedure.name, nonce), *lines, end(nonce)])


def supporting_quotes(expected: Expected, value: Value) -> tuple[str, ...]:
    """Quotes that support a value, where the step must have them; its sources' beginning where none can."""
    decision = expected.decision
    if decision is None or not decision.quote or value in (NULL, ()):
        return ()
    sources = [text for _, text in decision.sources]
    found = quotes_for(value, decision.type, sources)
    return tuple(opening(sources))[:1] if found is None else found


def _working(cell: Cell) -> Iterator[str | None]:
    """The parts of a cell up to its value in order, None for a hole."""
    yield cell.given
    if cell.working is not None:
        yield from (part if isinstance(part, str) else None for part in cell.working)
    if cell.working is not None and not cell.bare:
        yield " = "


def _known(parts: Iterable[str | None]) -> Iterator[str]:
    for part in parts:
        if part is None:
            return
        yield part

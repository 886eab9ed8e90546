"""One line against the step it claims to be: the first thing that is wrong with it, and its value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from guard.check.quotes import Sources
from guard.check.verdict import Kind
from guard.procedure.expected import Cell, Decision, Expected, Unknown
from guard.procedure.model import StepKind
from guard.procedure.numbers import parse_number
from guard.procedure.types import StringType, Value
from guard.procedure.values import coerce, conforms, equal, spell, wanted
from guard.trace import render
from guard.trace.events import Fields, Items, Line, Scalar, Written
from guard.trace.parser import same_working

_STRING = StringType()
_WRONG_VALUE = {
    StepKind.BRANCH: Kind.WRONG_BRANCH,
    StepKind.WHILE: Kind.WRONG_BRANCH,
    StepKind.REQUIRE: Kind.WRONG_BRANCH,
    StepKind.CHECK: Kind.WRONG_BRANCH,
    StepKind.RETURN: Kind.WRONG_ANSWER,
    StepKind.DENY: Kind.WRONG_ANSWER,
    StepKind.ESCALATE: Kind.WRONG_ANSWER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong with a line; `at`, `expected`, `found` and `cell` as in a violation."""

    kind: Kind
    at: int
    expected: str
    found: str
    cell: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`fault` is None where the line is right. `value` is the one it carries, None if it can carry none."""

    fault: Fault | None
    value: Value | None


def examine(expected: Expected, line: Line, sources: Sources) -> Finding:
    """Compare a line with the step that is due. Its number has been found to be the step's."""
    if not same_head(expected.head, line.head):
        return Finding(fault=_wrong_head(expected, line), value=None)
    if expected.decision is not None:
        return _examine_decision(expected.decision, line, sources)
    fault = next(_faults(expected, line), None)
    return Finding(fault=fault, value=_observed(expected, line))


def same_step(expected: Expected, value: Value, line: Line, sources: Sources) -> bool:
    """Whether a line says what a verified line of its step said: a computed one, or one of this value."""
    finding = examine(expected, line, sources)
    if expected.decision is None:
        return finding.fault is None
    return finding.value is not None and equal(finding.value, value)


def same_head(expected: str, written: str) -> bool:
    """Whether two heads are the same. A loop's list may be an expression, which is compared as one."""
    if expected == written:
        return True
    mine, keyword, items = expected.removesuffix(" =").partition(" in ")
    other, _, others = written.removesuffix(" =").partition(" in ")
    return bool(keyword) and mine == other and same_working(items, others)


def _wrong_head(expected: Expected, line: Line) -> Fault:
    return Fault(
        kind=Kind.WRONG_EXPRESSION,
        at=line.at,
        expected=f"{expected.path} {expected.head}",
        found=f"{line.path} {line.head}",
    )


# --- what the model decides ------------------------------------------------------------------------


def _examine_decision(decision: Decision, line: Line, sources: Sources) -> Finding:
    written = line.text[line.body_at - line.at :]
    computed = next(_workings(line.body), None)
    value = plain(line.body)
    kept = None if value is None else coerce(value, decision.type)
    if kept is None:
        fault = Fault(
            kind=Kind.INADMISSIBLE_VALUE,
            at=line.body_at,
            expected=wanted(decision.type),
            found=written,
            cell=0,
        )
        return Finding(fault=fault, value=None)
    reason = conforms(kept, decision.type) or decision.admissible(kept)
    if computed is not None:
        fault = Fault(
            kind=Kind.WRONG_EXPRESSION,
            at=computed.working_at if computed.symbol is None else computed.symbol_at,
            expected=spell(kept, decision.type) if reason is None else reason,
            found=written,
            cell=0,
        )
    elif reason is not None:
        fault = Fault(kind=Kind.INADMISSIBLE_VALUE, at=line.body_at, expected=reason, found=written, cell=0)
    else:
        return Finding(fault=_ungrounded(decision, kept, line, sources), value=kept)
    return Finding(fault=fault, value=kept if conforms(kept, decision.type) is None else None)


def _ungrounded(decision: Decision, value: Value, line: Line, sources: Sources) -> Fault | None:
    doubt = sources.doubt(decision, value, [quote.text for quote in line.quotes])
    if doubt is None:
        return None
    wrong = None if doubt.index is None else line.quotes[doubt.index]
    return Fault(
        kind=Kind.LIMIT_EXCEEDED if doubt.beyond else Kind.UNGROUNDED_VALUE,
        at=line.body_at if wrong is None else wrong.at,
        expected=doubt.expected,
        found="no quote" if wrong is None else wrong.text,
    )


def plain(written: Written) -> Value | None:
    """The value of what is written, None where a part has no value or a record has a name twice."""
    match written:
        case Scalar():
            return written.value
        case Items():
            parts = [plain(item) for item in written.items]
            kept = tuple(part for part in parts if part is not None)
            return kept if len(kept) == len(parts) else None
        case Fields():
            record = {name: plain(field) for name, field in written.fields}
            whole = {name: value for name, value in record.items() if value is not None}
            return whole if len(whole) == len(written.fields) else None


def _workings(written: Written) -> Iterator[Scalar]:
    match written:
        case Scalar():
            if written.working is not None:
                yield written
        case Items():
            for item in written.items:
                yield from _workings(item)
        case Fields():
            for _, field in written.fields:
                yield from _workings(field)


# --- what the guard computes -----------------------------------------------------------------------


def _faults(expected: Expected, line: Line) -> Iterator[Fault]:
    """What is wrong, in the order of the text."""
    leaves: list[Written] = []
    shape = "".join(_shape(line.body, (), {cell.key for cell in expected.cells}, leaves))
    if shape == _expected_shape(expected):
        for index, (cell, written) in enumerate(zip(expected.cells, leaves, strict=True)):
            yield from _cell_faults(expected.kind, cell, index, written)
        for quote in line.quotes:
            yield Fault(kind=Kind.WRONG_EXPRESSION, at=quote.at, expected="no quote", found=quote.text)
    else:
        yield Fault(
            kind=Kind.WRONG_EXPRESSION,
            at=line.body_at,
            expected=_body(expected),
            found=line.text[line.body_at - line.at :],
        )


def _body(expected: Expected) -> str:
    return render.outline(expected).removeprefix(f"{expected.path} {expected.head} ")


def _expected_shape(expected: Expected) -> str:
    return "".join(f"{cell.lead}\0" for cell in expected.cells) + expected.tail


def _shape(
    written: Written, key: tuple[str | int, ...], cells: set[tuple[str | int, ...]], leaves: list[Written]
) -> Iterator[str]:
    """What stands around the cells, in canonical spelling; the cells themselves go to `leaves`."""
    if key in cells or isinstance(written, Scalar):
        leaves.append(written)
        yield "\0"
        return
    match written:
        case Items():
            for index, item in enumerate(written.items):
                yield ", " if index else "["
                yield from _shape(item, (*key, index), cells, leaves)
            yield "]" if written.items else "[]"
        case Fields():
            for index, (name, field) in enumerate(written.fields):
                yield f"{', ' if index else '{'}{spell(name, _STRING)}: "
                yield from _shape(field, (*key, name), cells, leaves)
            yield "}" if written.fields else "{}"


def _cell_faults(kind: StepKind, cell: Cell, index: int, written: Written) -> Iterator[Fault]:
    working, working_at, value, value_at, text = _parts(written)
    wanted_working = "".join(part if isinstance(part, str) else render.HOLE for part in cell.working or ())
    wrong_symbol = _symbol_fault(cell, wanted_working, index, written)
    if wrong_symbol is not None:
        yield wrong_symbol
    elif working is None and cell.working is not None:
        value_text = "" if cell.bare else f" = {cell.spelling or render.HOLE}"
        yield _fault(Kind.WRONG_EXPRESSION, value_at, f"{wanted_working}{value_text}", text, index)
    elif working is not None and not _same(cell, wanted_working, working):
        shown = wanted_working or cell.spelling or render.HOLE
        found = working if wanted_working else _text_of(written)
        yield _fault(Kind.WRONG_EXPRESSION, working_at, shown, found, index)
    elif not cell.bare and not _right_value(cell, value):
        yield _fault(
            _WRONG_VALUE.get(kind, Kind.WRONG_VALUE),
            value_at,
            cell.spelling or wanted(cell.type),
            text or "no value",
            index,
        )


def _symbol_fault(cell: Cell, working: str, index: int, written: Written) -> Fault | None:
    """What is wrong with the expression as the procedure has it, in front of the working."""
    symbol = written.symbol if isinstance(written, Scalar) else None
    if cell.symbol is None and symbol is None:
        return None
    if cell.symbol is not None and symbol is not None and same_working(cell.symbol, symbol):
        return None
    expected = working if cell.symbol is None else f"{cell.symbol} = {working}"
    if isinstance(written, Scalar) and symbol is not None and cell.symbol is None:  # one part too many
        value = "" if cell.bare else cell.spelling or render.HOLE
        whole = " = ".join(filter(None, (expected, value)))
        found = f"{symbol} = {_text_of(written)}"
        return _fault(Kind.WRONG_EXPRESSION, written.symbol_at, whole, found, index)
    if isinstance(written, Scalar) and symbol is not None:
        return _fault(Kind.WRONG_EXPRESSION, written.symbol_at, expected, symbol, index)
    first = written.working_at if isinstance(written, Scalar) else written.at
    return _fault(Kind.WRONG_EXPRESSION, first, expected, _text_of(written), index)


def _text_of(written: Written) -> str:
    match written:
        case Scalar(working=str(working), value_text=value):
            return f"{working} = {value}" if value else working
        case Scalar(value_text=value):
            return value
        case Items() | Fields():
            return written.text


def _fault(kind: Kind, at: int, expected: str, found: str, cell: int) -> Fault:
    return Fault(kind=kind, at=at, expected=expected, found=found, cell=cell)


def _parts(written: Written) -> tuple[str | None, int, Value | None, int, str]:
    match written:
        case Scalar():
            return written.working, written.working_at, written.value, written.value_at, written.value_text
        case Items() | Fields():
            return None, written.at, plain(written), written.at, written.text


def _same(cell: Cell, wanted_working: str, working: str) -> bool:
    if cell.working is None:
        return False
    if any(not isinstance(part, str) for part in cell.working):
        return True  # offline, behind a decision that was never made: nobody knows better
    return same_working(wanted_working, working)


def _right_value(cell: Cell, value: Value | None) -> bool:
    """Exactly the value, or as it is shown where more is carried than shown."""
    if value is None or isinstance(cell.value, Unknown):
        return value is not None and conforms(value, cell.type) is None
    if equal(value, cell.value):
        return True
    shown = parse_number(cell.spelling) if cell.spelling else None
    return shown is not None and equal(value, shown)


def _observed(expected: Expected, line: Line) -> Value | None:
    """The value of a line, None where a single one is not of its step's type."""
    value = plain(line.body)
    match expected.cells:
        case (Cell(key=(), type=type_),) if value is not None:
            kept = coerce(value, type_)
            return kept if kept is not None and conforms(kept, type_) is None else None
        case _:
            return value

"""Reads the recorded outputs of small models: their line formats to a trace of ours, our verdict to their labels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from guard.check.checker import Checker
from guard.check.verdict import Kind
from guard.procedure.execute import Program
from guard.procedure.load import load
from guard.trace.freeform import Reading, Seen, read_freely
from guard.trace.working import same_working

NONCE: Final = "0a0b0c"
_TOKEN: Final = re.compile(r"[A-Za-z_]\w*|[0-9]+|[-+*/]")
# Formats whose lines carry a label `[3]`; without it a line is not of the format.
_LABELLED: Final = frozenset({"F1_full", "F2_nosubst"})
# What each of their labels is in our vocabulary. Ours does not part operands from expressions.
OURS: Final[dict[str, set[Kind | None]]] = {
    "ok": {None},
    "arithmetic_error": {Kind.WRONG_VALUE},
    "input_copy_error": {Kind.WRONG_VALUE},
    "operand_copy_error": {Kind.WRONG_EXPRESSION},
    "wrong_expression_or_format": {Kind.WRONG_EXPRESSION, Kind.MALFORMED},
    "skipped_step": {Kind.SKIPPED_STEP},
    "extra_text_after_answer": {Kind.EXTRA_STEP, Kind.REPEATED_STEP},
}


@dataclass(frozen=True)
class Labelled:
    """Our reading of one output, in their vocabulary too. `line` is that of the first wrong step."""

    kind: Kind | None
    step: int
    theirs: str
    line: int | None


def program(row: dict[str, Any]) -> Program:
    """The procedure that a row's steps spell."""
    inputs = ", ".join(f"{name}: int" for name in row["inputs"])
    # Their division always comes out even.
    lines = [f"  {name} = {working}{' to 0' if '/' in working else ''}" for name, working, _ in row["steps"]]
    text = "\n".join([f"procedure p({inputs}) -> decimal(0)", *lines, f"  return {row['steps'][-1][0]}"])
    return load(text).procedures["p"]


def label(row: dict[str, Any]) -> Labelled:
    """Read an output freely, write what was read as a trace, and have that checked."""
    bound = program(row)
    reading = read_freely(row["output"], [name for name, *_ in row["steps"]], given=row["inputs"])
    checker = Checker(bound, bound.accept(row["inputs"]), nonce=NONCE)
    checker.feed(f"@begin p {NONCE}\n")
    at = None
    for at, line in _lines(row, reading):  # noqa: B007 (where it stopped is used)
        checker.feed(f"{line}\n")
        if checker.violation:
            break
    else:
        checker.feed(f"@end {NONCE}\n")
        checker.close()
    kind = checker.violation.kind if checker.violation else None
    step = len(checker.observed)
    seen = next((seen for seen in reading.seen if seen.at == at), None)
    line_number = row["output"].count("\n", 0, at) if kind and at is not None else None
    return Labelled(kind, step, _theirs(row, kind, step, seen), line_number)


def _lines(row: dict[str, Any], reading: Reading) -> Iterator[tuple[int, str]]:
    """What was read, as lines of a trace, each with its place."""
    results = {seen.parts[-1].at for seen in reading.seen if seen.parts}
    ends = [answer for answer in reading.answers if answer.at not in results]
    found = [(seen.at, _line(row, seen)) for seen in (*reading.seen, *reading.extra)]
    found += [(answer.at, f"{len(row['steps']) + 1} return {answer.text}") for answer in ends]
    yield from sorted(found)


def _line(row: dict[str, Any], seen: Seen) -> str:
    if seen.step is None or (row["format"] in _LABELLED and seen.number is None):
        return row["output"][seen.at : seen.end]  # type: ignore[no-any-return]
    name, source, _ = row["steps"][seen.step]
    parts = _parts(row, seen, source)
    return f"{seen.step + 1} {name} = {' = '.join(parts)}"


def _parts(row: dict[str, Any], seen: Seen, source: str) -> list[str]:
    """The working and the value: as written, or the right working where the format has none in figures."""
    parts = [part.text for part in seen.parts]
    right = source if source not in row["inputs"] else ""
    working = [_substituted(row, right)] if right else []
    match row["format"], parts:
        case ("F1_full", [symbols, *rest]) if rest and same_working(symbols, source):
            return rest
        case ("F2_nosubst", [symbols, value]) if same_working(symbols, source):
            return [*working, value]
        case ("F3_value", [value]):
            return [*working, value]
        case _:
            return parts


def _substituted(row: dict[str, Any], source: str) -> str:
    values = {name: str(value) for name, _, value in row["steps"]}
    values |= {name: str(value) for name, value in row["inputs"].items()}
    return re.sub(r"[A-Za-z_]\w*", lambda name: values[name[0]], source)


def _theirs(row: dict[str, Any], kind: Kind | None, step: int, seen: Seen | None) -> str:
    if kind is Kind.WRONG_EXPRESSION and seen is not None and step < len(row["steps"]):
        source = row["steps"][step][1]
        *symbols, working = [part.text for part in seen.parts][:-1] or [""]
        copied = source not in row["inputs"] and _same_shape(source, working)
        copied &= all(same_working(symbol, source) for symbol in symbols)
        return "operand_copy_error" if copied else "wrong_expression_or_format"
    if kind is Kind.WRONG_VALUE and row["steps"][step][1] in row["inputs"]:
        return "input_copy_error"
    ours: dict[Kind | None, str] = {
        None: "ok",
        Kind.WRONG_VALUE: "arithmetic_error",
        Kind.MALFORMED: "wrong_expression_or_format",
        Kind.SKIPPED_STEP: "skipped_step",
        Kind.EXTRA_STEP: "extra_text_after_answer",
        Kind.REPEATED_STEP: "extra_text_after_answer",
    }
    return ours.get(kind, str(kind))


def _same_shape(source: str, working: str) -> bool:
    """Whether only figures differ that stand for variables."""
    wanted, read = _TOKEN.findall(source), _TOKEN.findall(working)
    return len(wanted) == len(read) and all(
        theirs.isdigit() if mine[0].isalpha() else mine == theirs
        for mine, theirs in zip(wanted, read, strict=True)
    )

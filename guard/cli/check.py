"""`stepguard check`: a written response, a trace or any other text, and all that is wrong with it."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from typing import Final

from guard.check.checker import Checker
from guard.check.findings import Findings
from guard.check.freely import findings
from guard.check.report import Report, report
from guard.check.verdict import Verdict, Violation
from guard.check.whole import whole
from guard.cli.exits import OK, UNDECIDED, VIOLATIONS
from guard.cli.given import json_object, nonce, procedure_arguments, program_of, read_text
from guard.cli.terminal import WIDTH, Style, Terminal, cut
from guard.errors import RequestError
from guard.procedure.execute import Program
from guard.procedure.types import Value
from guard.source import Source
from guard.wire.thinking import without_thoughts

_STYLES: Final = {
    Verdict.PASSED: Style.GOOD,
    Verdict.FAILED: Style.BAD,
    Verdict.PENDING: Style.BAD,
    Verdict.UNDECIDED: Style.DOUBTFUL,
}
_EXITS: Final = {
    Verdict.PASSED: OK,
    Verdict.FAILED: VIOLATIONS,
    Verdict.PENDING: VIOLATIONS,  # the procedure itself fails
    Verdict.UNDECIDED: UNDECIDED,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    procedure_arguments(parser)
    parser.add_argument("--inputs", metavar="JSON", default="{}", help="the inputs, a JSON object, or @FILE")
    parser.add_argument(
        "--trace", metavar="FILE", required=True, help="the response to check; - for standard input"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--nonce", metavar="N", type=nonce, help="the nonce it must carry; without it any is taken"
    )
    how.add_argument(
        "--free", action="store_true", help="read a text in no agreed format, as far as it can be read"
    )
    parser.add_argument(
        "--tolerant", action="store_true", help="leave out what is no line of a trace: a preamble, prose"
    )
    parser.add_argument(
        "--json", action="store_true", help="as JSON: verdict, violations, steps, unread, ..."
    )
    parser.set_defaults(command=check)


def check(arguments: argparse.Namespace, out: Terminal) -> int:
    """Check a response; returns the exit code."""
    program = program_of(arguments)
    inputs = program.accept(json_object(arguments.inputs, "--inputs"))
    response = _response(arguments.trace)
    text = without_thoughts(response)
    if arguments.free:
        found = _found(program, inputs, text)
        out.json(_as_json(found)) if arguments.json else _print_findings(found, response, out)
        return _EXITS[found.verdict]
    checker = Checker(
        program, inputs, nonce=arguments.nonce, stop_at_first=False, tolerant=arguments.tolerant
    )
    rest = whole(checker, text)
    result = report(checker, rest=rest)
    out.json(result.to_json()) if arguments.json else _print_report(result, response, out)
    return _EXITS[result.verdict]


def _response(file: str) -> str:
    try:
        return read_text(file)
    except ValueError as error:
        raise RequestError(f"--trace: {file} {error}") from None


def _found(program: Program, inputs: dict[str, Value], text: str) -> Findings:
    work = findings(program, inputs, text)
    while True:
        try:
            next(work)
        except StopIteration as stop:
            found: Findings = stop.value
            return found


# --- what is printed -------------------------------------------------------------------------------


def _print_violations(violations: Iterable[Violation], response: str, out: Terminal) -> None:
    source = Source("response", response)
    for violation in violations:
        line, column = source.position(violation.at)
        where = f"step {violation.step}, " if violation.step else ""
        out.line(f"{out.styled(violation.kind.value, Style.BAD)} at {where}line {line}, column {column}")
        out.line(f"  expected  {cut(violation.expected, WIDTH - 12)}")
        out.line(f"  found     {cut(violation.found, WIDTH - 12)}")


def _print_report(result: Report, response: str, out: Terminal) -> None:
    _print_violations(result.violations, response, out)
    failed = result.procedure_failed
    if failed is not None:
        out.line(f"{out.styled('procedure failed', Style.BAD)} at step {failed.path}: {failed.reason}")
    if result.rest is not None:
        count = f"{result.rest.characters} character{'s' * (result.rest.characters != 1)}"
        out.line(out.styled(f"{count} after the answer not read, as the endpoint does not", Style.FAINT))
    steps = result.steps
    expected = "an undetermined number of" if steps.expected is None else steps.expected
    counts = {
        "verified": steps.verified,
        "model-decided and supported": steps.supported,
        "model-decided and unsupported": steps.unsupported,
        "missing": steps.missing,
    }
    listed = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    word = out.styled(result.verdict.value, _STYLES[result.verdict])
    out.line(f"{word}: {expected} steps expected: {listed or 'none seen'}")


def _print_findings(found: Findings, response: str, out: Terminal) -> None:
    _print_violations(found.violations, response, out)
    for path in found.unread:
        out.line(f"{out.styled('unread', Style.DOUBTFUL)} step {path}")
    counts = Counter(how.replace("_", "-") for _, how in found.classes.values())
    listed = ", ".join(f"{count} {name}" for name, count in counts.items())
    word = out.styled(found.verdict.value, _STYLES[found.verdict])
    out.line(f"{word}: read as {found.reading} text, answer {found.answer}: {listed or 'no step judged'}")


def _as_json(found: Findings) -> dict[str, object]:
    return {
        "verdict": found.verdict.value,
        "reading": found.reading,
        "answer": found.answer,
        "answer_at": found.answer_at,
        "violations": [violation.to_json() for violation in found.violations],
        "steps": {path: how for path, (_, how) in found.classes.items()},
        "unread": list(found.unread),
        "too_long": found.too_long,
    }

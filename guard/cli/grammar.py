"""`stepguard grammar`: the grammar that a generation is sent, in the notation of a backend."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from guard.check.verdict import Violation
from guard.cli.given import SHOWN_NONCE, choice, given_values, nonce, procedure_arguments, program_of
from guard.cli.terminal import Terminal, cut
from guard.dialect.json_schema import Patterns
from guard.dialect.lark import Level
from guard.dialect.notation import Dialect
from guard.errors import RequestError
from guard.procedure.execute import carried_out
from guard.procedure.types import Value
from guard.run.messages import StepClass, Target
from guard.run.opening import NO_REASON, Job, opening
from guard.run.progress import Progress
from guard.trace import render
from guard.upstream.capabilities import Api, Place
from guard.upstream.proven import refused
from guard.upstream.request import grammar_fields

DESCRIPTION: Final = """\
Prints the grammar that a generation would be sent behind a step, byte for byte but for the nonce. Where the
server continues an answer that has begun (--prefill, what the notations of llama.cpp, vLLM and SGLang are
for) the grammar goes on from the number of the step that is due; else it begins with the line.
"""

# What is printed in these is the fields of a request.
APIS: Final = {"openai": Api.CHAT, "openai-responses": Api.RESPONSES}
DIALECTS: Final = {
    **dict.fromkeys(APIS, Dialect.LARK),
    **{dialect.value.replace("_", "-"): dialect for dialect in Dialect},
}
LISTED: Final = 20  # steps of a trace that a message names
LEVELS: Final = (Level.SHAPE, Level.OPERANDS, Level.VALUES)
CONTINUED: Final = frozenset({Dialect.GBNF, Dialect.LLGUIDANCE, Dialect.XGRAMMAR})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.description, parser.formatter_class = DESCRIPTION, argparse.RawDescriptionHelpFormatter
    procedure_arguments(parser)
    add = parser.add_argument
    add("--inputs", metavar="JSON", help="the inputs, a JSON object, or @FILE; default: those of its example")
    add(
        "--decide",
        metavar="JSON",
        help="the values that were decided by then, a JSON object, or @FILE; default: those of its example",
    )
    add("--after", metavar="STEP", help="the last step that is verified, as `5[2].1`; default: none is")
    add(
        "--level",
        type=choice(*LEVELS),
        default=Level.OPERANDS,
        metavar="|".join(LEVELS),
        help="how much of a line is given (default %(default)s)",
    )
    add("--dialect", choices=list(DIALECTS), required=True, metavar="|".join(DIALECTS), help="the notation")
    add(
        "--prefill",
        action=argparse.BooleanOptionalAction,
        help="whether the server continues a prefix; default: as servers with this notation do",
    )
    add(
        "--patterns",
        type=choice(*Patterns),
        default=Patterns.PLAIN,
        metavar="|".join(Patterns),
        help="what the server makes of a JSON schema's patterns (default %(default)s)",
    )
    add("--nonce", metavar="N", type=nonce, default=SHOWN_NONCE, help="six hex digits (default %(default)s)")
    add("--json", action="store_true", help="as JSON: grammar, prefix, last, level, given, refused")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace, out: Terminal) -> int:
    """Carry the command out. Raises `RequestError` for an input, a decision or a step that does not fit."""
    program = program_of(arguments)
    inputs, decisions = given_values(program, arguments)
    job = Job(program=program, inputs=inputs, messages=(), nonce=arguments.nonce)
    dialect = DIALECTS[arguments.dialect]
    prefill = dialect in CONTINUED if arguments.prefill is None else arguments.prefill
    target = Target(name="", model="", prefill=prefill, dialect=dialect, patterns=arguments.patterns)
    made = opening(job, _progress(job, decisions, arguments), target, arguments.level, NO_REASON)
    if made.grammar is None:
        raise RequestError(f"--dialect: {arguments.dialect} cannot say what may come here; none is sent")
    if made.loosened is not None:
        _remark(f"{arguments.dialect} cannot say that; this is the grammar at level {made.loosened}")
    why = refused(dialect, made.grammar)
    if why:
        _remark(f"llguidance refuses this grammar: {cut(why, 400)}")
    text = _sent(arguments.dialect, made.grammar)
    if arguments.json:
        members = {"grammar": text, "prefix": made.prefix, "last": made.stop or None}
        level = made.loosened or arguments.level
        out.json({**members, "level": level, "given": sorted(made.given), "refused": why or None})
    else:
        out.line(text.removesuffix("\n"))
    return 0


def _sent(dialect: str, grammar: str) -> str:
    """Give the text as it stands in a request."""
    if dialect not in APIS:
        return grammar
    fields = grammar_fields(Place.CUSTOM_TOOL, Dialect.LARK, grammar, APIS[dialect])
    return json.dumps(fields, indent=2, ensure_ascii=False)


def _progress(job: Job, decisions: Mapping[str, Value], arguments: argparse.Namespace) -> Progress:
    """Come to where the generation is opened: behind the step that was named, and what the guard writes."""
    progress = _verified(job, decisions, arguments.after)
    if arguments.level is not Level.VALUES:
        return progress
    first = len(progress.lines)
    while progress.expected is not None and progress.expected.known:
        progress.write(StepClass.COMPUTED)
    if progress.expected is None:
        _remark("the guard writes all that is left and sends nothing: this would be its grammar")
        return _verified(job, decisions, arguments.after)
    if len(progress.lines) > first:
        _remark(f"the guard writes the lines in front of step {progress.expected.path} itself")
    return progress


def _listed(paths: Sequence[str]) -> str:
    """Name the steps of a trace: all, or the first ones and the last."""
    named = paths if len(paths) <= LISTED else [*paths[: LISTED - 1], "...", paths[-1]]
    return ", ".join(named)


def _verified(job: Job, decisions: Mapping[str, Value], after: str | None) -> Progress:
    """Write the reference trace up to a step, as the model would."""
    progress = Progress(job.program, job.inputs, job.nonce)
    if after is None:
        return progress
    progress.open_frame()
    paths: list[str] = []
    for step, value in carried_out(job.program, job.inputs, decisions):
        decided = value if step.decision is not None else None
        line = render.line(step, decided, render.supporting_quotes(step, value))
        judgements = progress.read(f"{line}\n", frozenset())
        for judgement in judgements:
            if isinstance(judgement, Violation):
                found = f"{judgement.kind}: expected {cut(judgement.expected, 200)}"
                raise RequestError(f"--after: no trace stands up to there, step {step.path} is {found}")
        if step.path == after:
            break
        paths.append(step.path)
    else:
        raise RequestError(f"--after: the trace has no step {cut(after, 40)!r}; it has {_listed(paths)}")
    if progress.failed is not None:
        raise RequestError(f"--after: the procedure fails at step {progress.failed.path}")
    if progress.expected is None:
        raise RequestError(f"--after: nothing is left to write behind step {after}")
    return progress


def _remark(text: str) -> None:
    print(f"stepguard: {text}", file=sys.stderr)  # noqa: T201 (this is where people are told)

"""The command line: its arguments, and what each command does with them.

Whatever a command prints for programs it prints in ASCII; files and standard input are UTF-8, whatever
the locale says.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from guard.cli import check, demo, grammar, policy, probe, upstream
from guard.cli.amounts import MOST_SEED, whole
from guard.cli.exits import MEANINGS, OK, UNAVAILABLE, USAGE, VIOLATIONS
from guard.cli.given import (
    SHOWN_NONCE,
    chosen,
    given_values,
    json_object,
    library_of,
    nonce,
    procedure_arguments,
    procedure_text,
    program_of,
    root_argument,
)
from guard.cli.terminal import Style, Terminal
from guard.config import build, default_config, load_config
from guard.config.policies import PolicySettings
from guard.engine import read_clock
from guard.errors import ConfigError, GuardError, Problem, ProcedureError, RequestError, UpstreamError
from guard.foreign import Sink
from guard.procedure.execute import Program, reference
from guard.procedure.expected import EndKind
from guard.procedure.format import formatted
from guard.procedure.interchange import compiled
from guard.proxy.app import Addresses, run
from guard.source import Source
from guard.telemetry import foreign_log
from guard.trace import prompt, render
from guard.trace.grounds import ungrounded
from guard.upstream import model
from guard.upstream.local import require_runtime


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command line (without the program's name); returns the exit code."""
    arguments = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace, Terminal], int] = arguments.command
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # characters that the locale has not are no reason to fail
            stream.reconfigure(errors="backslashreplace")
    try:
        return command(arguments, Terminal(sys.stdout))
    except (ProcedureError, ConfigError, RequestError) as error:
        print(error, file=sys.stderr)  # noqa: T201 (this is where people are told)
        return USAGE
    except GuardError as error:
        _complain(": ".join(filter(None, (str(error), _said(error)))))
        return UNAVAILABLE
    except KeyboardInterrupt:
        return demo.STOPPED
    except BrokenPipeError:  # `stepguard show F | head`
        _drop_output()
        return OK
    except OSError as error:  # a full disk
        _drop_output()
        _complain(str(error))
        return UNAVAILABLE


def _drop_output() -> None:
    """Let what is still buffered go nowhere, so that the interpreter's end does not fail on it, too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# --- the command line ----------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stepguard",
        description="Makes a language model carry out a written procedure, and checks every step.",
        epilog=MEANINGS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"stepguard {version('stepguard')}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(
        name: str, command: Callable[[argparse.Namespace, Terminal], int], summary: str
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        sub.set_defaults(command=command)
        return sub

    serve = add("serve", _serve, "serve the endpoint")
    serve.add_argument(
        "--config",
        metavar="F",
        type=Path,
        help="the configuration; without it: the embedded model and the shipped procedures",
    )

    demo = add("demo", _demo, "show the main job with the embedded model")
    demo.add_argument("--model", metavar="FILE.gguf", type=Path, help="another model than the default")
    demo.add_argument("--keep", action="store_true", help="leave the endpoint running afterwards")
    demo.add_argument(
        "--seed", metavar="N", type=whole(0, MOST_SEED), default=0, help="draws the order (default 0)"
    )

    lint = add("lint", _lint, "check procedure files, all problems at once")
    lint.add_argument("files", metavar="F", nargs="+", type=Path, help="procedure files")
    root_argument(lint)
    lint.add_argument("--json", action="store_true", help="problems as JSON")

    fmt = add("fmt", _fmt, "lay procedure files out canonically, in place")
    fmt.add_argument("files", metavar="F", nargs="+", type=Path, help="procedure files")
    fmt.add_argument("--check", action="store_true", help="change nothing, name the files that would change")

    show = add("show", _show, "print the numbered procedure and the prompt as the model gets them")
    procedure_arguments(show)
    show.add_argument("--inputs", metavar="JSON", help="the inputs to show; default: those of its example")
    show.add_argument("--json", action="store_true", help="as JSON")

    trace = add("trace", _trace, "print the reference trace")
    procedure_arguments(trace)
    trace.add_argument(
        "--inputs", metavar="JSON", help="the inputs, a JSON object, or @FILE; default: those of its example"
    )
    trace.add_argument(
        "--decide",
        metavar="JSON",
        help="the values that the model would decide, a JSON object, or @FILE; default: those of its example",
    )
    trace.add_argument(
        "--nonce", metavar="N", type=nonce, default=SHOWN_NONCE, help="six hex digits (default %(default)s)"
    )
    trace.add_argument("--json", action="store_true", help="as JSON: trace, end, answer, steps")

    check.add_arguments(
        commands.add_parser("check", help="check a written response and list every violation")
    )
    grammar.add_arguments(commands.add_parser("grammar", help="print the grammar that a model is held to"))

    config = commands.add_parser("config", help="look after the configuration")
    config_commands = config.add_subparsers(title="commands", required=True, metavar="COMMAND")
    config_check = config_commands.add_parser(
        "check", help="read a configuration and all it names, all errors at once"
    )
    config_check.add_argument("file", metavar="F", type=Path, help="a configuration")
    config_check.set_defaults(command=_config_check)

    policy.register(commands)
    upstream.register(commands)
    probe.add_arguments(
        commands.add_parser("probe", help="measure a model and write the policy that fits it")
    )

    model = commands.add_parser("model", help="look after the embedded model")
    model_commands = model.add_subparsers(title="commands", required=True, metavar="COMMAND")
    pull = model_commands.add_parser("pull", help="get the default model into the cache")
    pull.set_defaults(command=_model_pull)
    return parser


# --- commands ------------------------------------------------------------------------------------


def _lint(arguments: argparse.Namespace, out: Terminal) -> int:
    problems: list[Problem] = []
    programs: dict[str, Program] = {}
    for file in arguments.files:
        try:
            library = library_of(file, arguments.root)
            programs |= library.procedures
            source = Source(str(file), procedure_text(file))
            found = (*library.warnings, *ungrounded(library.procedures, source))
        except ProcedureError as error:
            found = (*error.problems, *error.warnings)
        problems += [problem for problem in found if problem not in problems]  # files may share imports
    errors = sum(problem.severity == "error" for problem in problems)
    if arguments.json:
        fields = ("file", "line", "column", "severity", "message", "help")
        out.json([{name: getattr(problem, name) for name in fields} for problem in problems])
    else:
        for problem in problems:
            out.line(str(problem))
        for name, program in programs.items():
            out.line(f"{name}: at most {_count(program.largest, 'step')}")
        counts = {"file": len(arguments.files), "error": errors, "warning": len(problems) - errors}
        out.line(", ".join(_count(number, noun) for noun, number in counts.items()))
    return USAGE if errors else OK


def _fmt(arguments: argparse.Namespace, out: Terminal) -> int:
    problems: list[Problem] = []
    changed = 0
    for file in arguments.files:
        try:
            laid_out = formatted(procedure_text(file), str(file)).encode()
        except ProcedureError as error:
            problems.extend(error.problems)
            continue
        if laid_out == file.read_bytes():
            continue
        changed += 1
        out.line(str(file))
        if not arguments.check:
            _replace(file, laid_out)
    if problems:
        raise ProcedureError(problems)
    return VIOLATIONS if changed and arguments.check else OK


def _replace(file: Path, data: bytes) -> None:
    """Write a file as a whole or not at all; a link still leads to it, and its mode is kept."""
    target = file.resolve()
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as new:
        try:
            new.write(data)
            new.flush()
            shutil.copymode(target, new.name)
            Path(new.name).replace(target)
        except BaseException:
            Path(new.name).unlink(missing_ok=True)
            raise


def _show(arguments: argparse.Namespace, out: Terminal) -> int:
    library = library_of(arguments.file, arguments.root)
    program = chosen(library, arguments)
    given = arguments.inputs
    inputs = (
        program.example_inputs
        if given is None
        else program.accept(json_object(given, "--inputs"), read_clock())
    )
    run = not program.tool_steps
    instructions = prompt.instructions(program) if run else None
    closing = prompt.closing(program, inputs, SHOWN_NONCE) if run and inputs is not None else None
    if arguments.json:
        out.json(
            {
                "procedure": program.name,
                "version": program.version,
                "digest": program.digest,
                "numbered": program.numbered,
                "instructions": instructions,
                "closing": closing,
                "compiled": compiled(library.module, program),
            }
        )
        return OK
    if instructions is None:
        out.line(program.numbered)
        out.line()
        out.line(out.styled("# it has tool steps and is not run yet: there is no prompt for it", Style.FAINT))
        return OK
    out.line(out.styled("# in the leading system message", Style.FAINT))
    out.line(instructions)
    out.line()
    if closing is None:
        out.line(
            out.styled("# the last user message ends with the inputs: give them with --inputs", Style.FAINT)
        )
    else:
        out.line(out.styled("# at the end of the last user message", Style.FAINT))
        out.line(closing)
    return OK


def _trace(arguments: argparse.Namespace, out: Terminal) -> int:
    program = program_of(arguments)
    inputs, decisions = given_values(program, arguments)
    steps, ending = reference(program, inputs, decisions)
    text = render.trace(program, steps, arguments.nonce)
    failed = ending.kind is EndKind.FAILED
    if failed:  # it has no closing line, since it came to no end
        text = text[: text.rindex(render.end(arguments.nonce))]
    if arguments.json:
        reason = {"step": ending.path, "reason": ending.reason} if failed else None
        out.json({"trace": text, "steps": len(steps), "end": ending.kind.value, "procedure_failed": reason})
    else:
        out.line(text.rstrip("\n"))
    if failed:
        _complain(f"the procedure fails at step {ending.path}: {ending.reason}")
    return VIOLATIONS if failed else OK


def _config_check(arguments: argparse.Namespace, out: Terminal) -> int:
    config = load_config(arguments.file)
    build(config)  # what only shows when it is made: scripts, model files, the runtime
    out.line(
        f"{arguments.file}: {_count(len(config.programs), 'procedure')}, "
        f"{_count(len(config.upstreams), 'upstream')}, {_count(len(config.routes), 'route')}"
    )
    for line in _runs(policy.policies(config), config.bindable):
        out.line(line)
    return OK


def _runs(written: Mapping[str, PolicySettings], programs: Mapping[str, Program]) -> Iterator[str]:
    """Say how long the runs of procedures can be, and which policies end the longest of them."""
    for name, program in programs.items():
        short = [key for key, settings in written.items() if settings.steps < program.largest]
        ended = f", more than {', '.join(short)} {'allows' if len(short) == 1 else 'allow'}" if short else ""
        yield f"{name}: at most {_count(program.largest, 'step')}{ended}"


def _serve(arguments: argparse.Namespace, out: Terminal) -> int:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the server, which says so, is there to ignore it
    config = default_config() if arguments.config is None else load_config(arguments.config)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    if config.server.log_foreign:
        foreign_log.switch_on()
    if arguments.config is None:
        require_runtime()  # before there is a download
        _pull()

    def ready(addresses: Addresses) -> None:
        out.line(f"serving {addresses.client}/v1, admin {addresses.admin}")
        out.line(f"procedures: {', '.join(config.bindable)}")

    run(build(config), ready=ready)
    return OK


def _model_pull(arguments: argparse.Namespace, out: Terminal) -> int:
    del arguments
    out.line(str(_pull()))
    return OK


def _pull() -> Path:
    err = Terminal(sys.stderr)  # standard output is for what was asked for
    return model.pull(lambda done, total: err.progress("getting the model", done, total))


def _demo(arguments: argparse.Namespace, out: Terminal) -> int:
    demo.require_extra()
    path = _pull() if arguments.model is None else model.resolve(arguments.model)
    return asyncio.run(demo.show(path, out, keep=arguments.keep, seed=arguments.seed))


# --- words ---------------------------------------------------------------------------------------


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _said(error: GuardError) -> str:
    """Give what a server or a program that could not be used says of it."""
    return Sink().shown(error.said.text) if isinstance(error, UpstreamError) else ""


def _complain(message: str) -> None:
    print(f"stepguard: {message}", file=sys.stderr)  # noqa: T201 (this is where people are told)

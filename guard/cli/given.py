"""What commands are given: a procedure, which one of a file, its inputs and what the model would decide."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from guard.cli.terminal import cut
from guard.config.folder import Folder, decoded
from guard.engine import read_clock
from guard.errors import Problem, ProcedureError, RequestError
from guard.procedure.execute import Program
from guard.procedure.expected import Form
from guard.procedure.load import Library, load
from guard.procedure.numbers import DIGITS
from guard.procedure.types import Value

Word = TypeVar("Word", bound=StrEnum)

MAX_TEXT: Final = 40_000_000  # bytes of a file or of standard input: more than a checker reads
SHOWN_NONCE: Final = "3fa92c"  # in what is printed for people to read; requests draw their own


def procedure_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="F", type=Path, help="a procedure file")
    parser.add_argument(
        "--procedure", metavar="NAME", help="which one; default: the only one that no other carries out"
    )
    root_argument(parser)
    parser.add_argument(
        "--form",
        type=choice(*Form),
        default=Form.WORK,
        metavar="|".join(Form),
        help="what a line of a trace shows (default %(default)s)",
    )


def choice(*words: Word) -> Callable[[str], Word]:
    """Give what reads one of some words: with `choices` a message would show them as Python does."""

    def read(text: str) -> Word:
        for word in words:
            if text == word.value:
                return word
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(words)}, found {cut(repr(text), 40)}")

    return read


def root_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root", metavar="DIR", type=Path, help="the folder that imports stay in; default: the file's own"
    )


def nonce(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{6}", text):
        found = cut(repr(text), 40)
        raise argparse.ArgumentTypeError(f"expected six hex digits such as {SHOWN_NONCE}, found {found}")
    return text


def read_text(file: str | Path) -> str:
    """Give a file's text, `-` for standard input, as it stands there but for a byte order mark.

    Raises `ValueError`, which says what is wrong with it.
    """
    try:
        if file == "-":
            return decoded(sys.stdin.buffer.read(MAX_TEXT + 1), MAX_TEXT)
        with Path(file).open("rb") as opened:  # a device has no end, and a file may be larger than the memory
            data = opened.read(MAX_TEXT + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {(error.strerror or str(error)).lower()}") from None
    return decoded(data, MAX_TEXT)


def procedure_text(file: Path) -> str:
    """Give the text of a procedure file. Raises `ProcedureError` where it cannot be read."""
    try:
        return read_text(file)
    except ValueError as error:
        raise ProcedureError([Problem(file=str(file), line=1, column=1, message=str(error))]) from None


def library_of(file: Path, root: Path | None) -> Library:
    """Load a procedure file; what it imports is below the folder `root`, by default its own."""
    inside = file.parent if root is None else root
    try:
        path = Path(os.path.normpath(file.absolute())).relative_to(os.path.normpath(inside.absolute()))
    except ValueError:
        raise RequestError(f"--root: {file} is not below {inside}") from None
    return load(procedure_text(file), str(file), files=Folder(inside), path=path.as_posix())


def program_of(arguments: argparse.Namespace) -> Program:
    """Give the procedure that is to be run. Raises `ConversationError` where it cannot be."""
    program = chosen(library_of(arguments.file, arguments.root), arguments)
    program.require_runnable()
    return program


def chosen(library: Library, arguments: argparse.Namespace) -> Program:
    return _named(library, arguments).in_form(arguments.form)


def _named(library: Library, arguments: argparse.Namespace) -> Program:
    programs = library.procedures
    if arguments.procedure in programs:
        return programs[arguments.procedure]
    names = ", ".join(programs)
    if arguments.procedure:
        raise RequestError(f"{arguments.file}: has no procedure {arguments.procedure!r}; it has {names}")
    if not programs:
        raise RequestError(f"{arguments.file}: has no procedure, only what others import")
    inner = {name for program in programs.values() for name in program.callees}
    outer = [program for name, program in programs.items() if name not in inner]
    if len(outer) != 1:
        raise RequestError(
            f"{arguments.file}: has several procedures ({names}); say which with --procedure NAME"
        )
    return outer[0]


def json_object(text: str, option: str) -> dict[str, object]:
    """Read an object from JSON text or `@FILE`; numbers with a point stay exact."""
    try:
        text = read_text(text[1:]) if text.startswith("@") else text
        value = json.loads(text, parse_float=Decimal, parse_int=_whole, object_pairs_hook=_once)
    except ArithmeticError:  # `1e-99999999999999999999`
        raise RequestError(f"{option}: a number has an exponent beyond what can be read") from None
    except ValueError as error:
        raise RequestError(f"{option}: expected a JSON object or @FILE: {error}") from None
    except RecursionError:
        raise RequestError(f"{option}: expected a JSON object, found one that is nested too deeply") from None
    if not isinstance(value, dict):
        raise RequestError(f"{option}: expected a JSON object, found {cut(text, 60)!r}")
    return value


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Make an object of its members, each of which may be given once."""
    members: dict[str, object] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"{name!r} is given twice")
        members[name] = value
    return members


def _whole(digits: str) -> int:
    """Convert at most as many digits as show that the number is too long."""
    return int(digits[: DIGITS + 2])


def given_values(
    program: Program, arguments: argparse.Namespace
) -> tuple[dict[str, Value], dict[str, Value]]:
    """Give inputs and decisions: those of the command line, else those of the example."""
    raw, decide = arguments.inputs, arguments.decide
    inputs = program.example_inputs if raw is None else None
    if inputs is None:
        inputs = program.accept(json_object(raw or "{}", "--inputs"), read_clock())
    decisions = program.example_decisions if raw is None and decide is None else None
    if decisions is None:
        decisions = program.decide(json_object(decide or "{}", "--decide"))
    return inputs, decisions

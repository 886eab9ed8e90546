"""From the text of a file to procedures that can be executed, or all that is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

from guard.errors import Problem, ProcedureError, RequestError
from guard.procedure import constants
from guard.procedure.build import build
from guard.procedure.callees import calls, in_order
from guard.procedure.compile import compile_program
from guard.procedure.doubt import Doubt
from guard.procedure.execute import Program, reference
from guard.procedure.expected import EndKind
from guard.procedure.faults import EnoughError, Faults, quoted
from guard.procedure.imports import MAX_CHAIN, MAX_FILES, Files, Imported, chain, resolved, text_of
from guard.procedure.losses import Losses
from guard.procedure.plainly import plainly
from guard.procedure.syntax import Reading, read
from guard.procedure.terms import Node, token, tree
from guard.procedure.validate import validate
from guard.source import Source, Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lark import Token

    from guard.procedure.model import Module
    from guard.procedure.types import Type

MAX_PROBLEMS = 50

_HOW = 'write its path from the folder of this file, such as import "tables/fees.proc"'


@dataclass(frozen=True, slots=True)
class Library:
    """What a file holds: its procedures by name, ready to be executed, and warnings about it.

    Procedures of files that it imports are for its own to carry out, and in `module` only.
    """

    procedures: dict[str, Program]
    warnings: tuple[Problem, ...]
    module: Module


def parse(source: Source) -> tuple[Module | None, list[Problem]]:
    """Give the model of a text, None where it has none, and what is wrong with its form.

    That is its syntax, its types and constants, and names that are declared twice. Files that it imports
    are not looked for.
    """
    reading = read(source)
    if reading.tree is None:
        return None, list(reading.problems)
    faults = Faults(source, reading.doubtful)
    module = build(reading.tree, faults)
    problems = [*reading.problems, *faults.problems]
    return (None if problems else module), problems


def load(
    text: str, name: str = "<string>", *, files: Files | None = None, path: str | None = None
) -> Library:
    """Compile all procedures of a text and execute their examples. `name` is what messages call it.

    `files` gives the texts that it may import, by their paths from the folder that imports stay below:
    a mapping, or a function that raises `ValueError` or `OSError` where there is no such text. `path` is
    the path of `text` itself from there; without it, it is in that folder.

    Raises `ProcedureError` with all that is wrong, file by file in the order of the text, at most 50
    problems.
    """
    path = name.rpartition("/")[2] if path is None else path
    loading = _Loading(files, name.removesuffix(path) if name.endswith(path) else "")
    root = loading.unit(path, Source(name, text))
    if root.module is None:
        raise _refusal(loading.units.values())
    if not root.problems and not root.module.origins and not root.imports:
        root.problems.append(_empty(root.source))
    if any(unit.errors for unit in loading.units.values()):
        raise _refusal(loading.units.values())
    for unit in loading.finished:
        unit.compile()
    if any(unit.errors for unit in loading.units.values()):
        raise _refusal(loading.units.values())
    programs = {name: root.programs[name] for name in root.module.own_procedures}
    return Library(programs, tuple(_in_order(root.problems)), root.module)


@dataclass(slots=True)
class _Unit:
    """A file that is being loaded; `module` is None where too little of it could be read."""

    source: Source
    module: Module | None = None
    problems: list[Problem] = field(default_factory=list)
    doubtful: frozenset[str] = frozenset()
    types: dict[str, dict[str, Type]] = field(default_factory=dict)
    imports: list[_Unit] = field(default_factory=list)
    programs: dict[str, Program] = field(default_factory=dict)  # those of the imported files included

    @property
    def errors(self) -> list[Problem]:
        # Warnings wait: half of them come from the errors.
        return [problem for problem in self.problems if problem.severity == "error"]

    def compile(self) -> None:
        """Compile the procedures of a valid file, all that it imports being compiled."""
        assert self.module is not None
        for unit in self.imports:
            self.programs |= unit.programs
        done = {name: program.procedure for name, program in self.programs.items()}
        self.module = plainly(self.module, self.types, done)
        for procedure in in_order(self.module):
            if procedure.name not in self.programs:
                callees = {step.procedure: self.programs[step.procedure] for step in calls(procedure)}
                types = self.types[procedure.name]
                compiled = compile_program(self.module, procedure, types, callees)
                self.programs[procedure.name] = compiled
        faults = Faults(self.source)
        for name in self.module.own_procedures:
            _try_example(self.programs[name], faults)
        self.problems += faults.problems


@dataclass(slots=True)
class _Loading:
    """Reads a file and all that it imports, each once. `folder` is what messages put before a path."""

    files: Files | None
    folder: str
    units: dict[str, _Unit] = field(default_factory=dict)
    chain: list[str] = field(default_factory=list)  # of the files that are being read
    finished: list[_Unit] = field(default_factory=list)  # each behind those that it imports

    def unit(self, path: str, source: Source) -> _Unit:
        """Read a file, and before it is judged all that it imports."""
        unit = self.units[path] = _Unit(source)
        reading = read(source)
        unit.problems += reading.problems
        unit.doubtful = reading.doubtful
        if reading.tree is None:
            return unit
        faults = Faults(source, reading.doubtful)
        self.chain.append(path)
        try:
            imported = self._imports(unit, reading.tree, faults)
            faults.doubtful = unit.doubtful
            # Where a file is missing, every name that is not known may be one of its.
            module = None if imported is None else build(reading.tree, faults, imported)
            unit.problems += faults.problems
            if module is not None:
                self._judge(unit, module, reading)
        except EnoughError as enough:
            unit.problems += [problem for problem in enough.problems if problem not in unit.problems]
        finally:
            self.chain.pop()
        self.finished.append(unit)
        return unit

    def _judge(self, unit: _Unit, module: Module, reading: Reading) -> None:
        unit.module = module
        found, unit.types = validate(
            unit.source, module, Doubt(tuple(reading.mended), unit.doubtful), sound=not unit.errors
        )
        unit.problems += found

    def _imports(self, unit: _Unit, root: Node, faults: Faults) -> Imported | None:
        imported, complete = Imported(), True
        seen: dict[str, Token] = {}
        for node in map(tree, root.children):
            if node.data == "importing":
                word = token(node.children[0])
                other = self._import(unit, word, seen, faults)
                if other is None or other.module is None:
                    complete = False
                else:
                    unit.doubtful |= other.doubtful
                    imported.add(other.module, constants.place(word), faults)
        return imported if complete else None

    def _import(self, unit: _Unit, word: Token, seen: dict[str, Token], faults: Faults) -> _Unit | None:
        """Give the file that an import names, read; None where there is none, which is reported."""
        at, written = constants.place(word), constants.unescaped(word, faults)
        try:
            path = resolved(self.chain[-1], written)
        except ValueError as error:
            faults(at, f"the import {quoted(written)} {error}", _HOW)
            return None
        first = seen.setdefault(path, word)
        if first is not word:
            line, _ = unit.source.position(constants.place(first).start)
            faults(at, f"{quoted(path)} is imported already, in line {line}", "leave one of them out")
        elif path in self.chain:
            advice = "move what both need to a file of its own, and import that in both"
            faults(at, f"a file cannot import itself: {chain(self.chain, path)}", advice)
        elif path not in self.units:
            self._read(path, at, faults)
        found = self.units.get(path)
        if found is None or found.module is None:
            return None
        if found not in unit.imports:
            unit.imports.append(found)
        return found

    def _read(self, path: str, at: Span, faults: Faults) -> None:
        """Read a file that is imported for the first time; where that cannot be, it is reported."""
        if len(self.units) > MAX_FILES or len(self.chain) > MAX_CHAIN:
            limit = f"a file imports at most {MAX_FILES} others, {MAX_CHAIN} of them in a row"
            faults(at, limit, "join some of them")
            return
        try:
            text = text_of(self.files, path)
        except ValueError as error:
            faults(at, f"the file {quoted(path)} {error}", _HOW)
            return
        self.unit(path, Source(f"{self.folder}{path}", text))


def _empty(source: Source) -> Problem:
    return source.problem(
        Span(0, 0),
        "the file holds no procedure",
        help="write procedure name(a: int) -> int, and its steps below, indented",
    )


def _try_example(program: Program, faults: Faults) -> None:
    """Execute a program's example; where that does not come to an end, the example is wrong."""
    if program.example is None or program.tool_steps:  # there are no results of its calls
        return
    at, losses = program.example.at, Losses(program)
    program = losses.watched()
    try:
        _, ending = reference(program, program.example_inputs or {}, program.example_decisions or {})
    except RequestError as error:
        faults(at, f"the example cannot be executed: {error.message}", "change its inputs or decisions")
        return
    if ending.kind is EndKind.FAILED:
        faults(
            at,
            f"the example fails at step {ending.path}: {ending.reason}",
            "change its inputs or decisions, or the step",
        )
    losses.warn(faults)


def _refusal(units: Iterable[_Unit]) -> ProcedureError:
    units = list(units)
    problems = [problem for unit in units for problem in _in_order(unit.errors)]
    warnings = [
        problem for unit in units for problem in _in_order(unit.problems) if problem.severity == "warning"
    ]
    return ProcedureError(problems[:MAX_PROBLEMS], warnings[:MAX_PROBLEMS])


def _in_order(problems: Sequence[Problem]) -> list[Problem]:
    return sorted(problems, key=attrgetter("line", "column"))

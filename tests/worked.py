"""The cases of `examples/*/cases.yaml`: inputs, how they end, what a faithful trace is and what a wrong one must give."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from guard.procedure.execute import Program
from guard.procedure.expected import EndKind
from guard.procedure.load import load
from guard.procedure.types import Value
from guard.procedure.values import from_json
from tests.traces import Blame, blame_of, changed

FOLDER = Path(__file__).parent.parent / "examples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A faithful trace with one change, and the violation that it must give."""

    name: str
    response: str
    blame: Blame


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """One case of an example. `wanted` is the answer, or the text of a refusal."""

    folder: str
    name: str
    program: Program
    given: dict[str, Any]
    inputs: dict[str, Value]
    decisions: dict[str, Value]
    end: EndKind
    wanted: Value
    trace: str | None
    mutants: tuple[Mutant, ...]

    @property
    def file(self) -> Path:
        """Where its procedure stands."""
        return procedure_file(self.folder)


def folders() -> list[str]:
    """The examples that have cases."""
    return sorted(file.parent.name for file in FOLDER.glob("*/cases.yaml"))


def procedure_file(folder: str) -> Path:
    """A folder, its file and its procedure have one name."""
    return FOLDER / folder / f"{folder}.proc"


@cache
def procedure(folder: str) -> Program:
    """The procedure that an example is about; its file may have others, which this one carries out."""
    file = procedure_file(folder)
    return load(file.read_text("utf-8"), file.name).procedures[folder]


@cache
def worked(folder: str) -> tuple[Worked, ...]:
    """All cases of an example."""
    data = yaml.safe_load((FOLDER / folder / "cases.yaml").read_text("utf-8"))
    return tuple(_read(folder, raw) for raw in data["cases"])


def every() -> list[Worked]:
    """All cases of all examples."""
    return [case for folder in folders() for case in worked(folder)]


def _read(folder: str, raw: dict[str, Any]) -> Worked:
    program = procedure(folder)
    trace = raw.get("trace")
    end, wanted = _wanted(program, raw)
    return Worked(
        folder=folder,
        name=raw["name"],
        program=program,
        given=raw["inputs"],
        inputs=program.accept(raw["inputs"]),
        decisions=program.decide(raw.get("decide", {})),
        end=end,
        wanted=wanted,
        trace=trace,
        mutants=tuple(_mutant(mutant, raw["trace"]) for mutant in raw.get("mutants", [])),
    )


def _wanted(program: Program, raw: dict[str, Any]) -> tuple[EndKind, Value]:
    if "answer" in raw:
        return EndKind.RETURN, from_json(raw["answer"], program.result)
    [end] = (end for end in (EndKind.DENY, EndKind.ESCALATE) if end.value in raw)
    return end, raw[end.value]


def _mutant(raw: dict[str, Any], faithful: str) -> Mutant:
    response, marks = changed(raw, faithful)
    [at] = marks
    return Mutant(name=raw["name"], response=response, blame=blame_of(raw["violation"], at))

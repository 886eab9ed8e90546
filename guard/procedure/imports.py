"""What a file takes over from others: where they are, and what they declare, each name once.

Nothing here reads a file: whoever loads a procedure gives the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from guard.procedure.model import Always, Module, Origin, Procedure, Table, Tool
from guard.procedure.types import Type, Unit

if TYPE_CHECKING:
    from guard.procedure.faults import Faults
    from guard.procedure.nodes import Literal
    from guard.source import Span

# Texts by their paths from the folder that imports stay below, with / between folders. A function raises
# `ValueError` or `OSError`, which say what is wrong with a file.
Files = Mapping[str, str] | Callable[[str], str]

MAX_FILES: Final = 100  # that one file imports, with all that these do
MAX_CHAIN: Final = 20  # files that import each other in a row
_ABSOLUTE: Final = "is a path from the root of a disk"
_OUTSIDE: Final = "leads out of the folder that imports stay in"


def resolved(path: str, written: str) -> str:
    """Give the path of a file as it is named in the one at `path`.

    Raises `ValueError` where it is none, or leads out of the folder that both are in.
    """
    if not written.strip() or written.endswith("/"):
        raise ValueError("names no file")
    if "\\" in written:
        raise ValueError("has a \\ in it: folders are separated by /")
    if written.startswith("/") or written[1:2] == ":":
        raise ValueError(_ABSOLUTE)
    if not written.isprintable():
        raise ValueError("has a character in it that cannot be printed")
    way = path.split("/")[:-1]
    for part in written.split("/"):
        if part == "..":
            if not way:
                raise ValueError(_OUTSIDE)
            way.pop()
        elif part not in ("", "."):
            way.append(part)
    return "/".join(way)


def text_of(files: Files | None, path: str) -> str:
    """Give the text of a file. Raises `ValueError` where there is none."""
    if files is None:
        raise ValueError("cannot be read: this text was given without others")
    if isinstance(files, Mapping):
        if path not in files:
            raise ValueError("cannot be read: no such file")
        return files[path]
    try:
        return files(path)
    except OSError as error:
        raise ValueError(f"cannot be read: {(error.strerror or str(error)).lower()}") from None


@dataclass(frozen=True, slots=True)
class Imported:
    """All that the files which one imports declare, those that they import included."""

    types: dict[str, Type] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    procedures: dict[str, Procedure] = field(default_factory=dict)
    tools: dict[str, Tool] = field(default_factory=dict)
    units: dict[str, Unit] = field(default_factory=dict)
    constants: dict[str, Literal] = field(default_factory=dict)
    rules: dict[Origin, Always] = field(default_factory=dict)  # each stands in a line of its own
    origins: dict[tuple[str, str], Origin] = field(default_factory=dict)

    def add(self, module: Module, at: Span, faults: Faults) -> None:
        """Take over what a module declares; a name that another one has declared is reported."""
        for key, origin in module.origins.items():
            first = self.origins.setdefault(key, origin)
            if first != origin:
                kind, name = key
                message = f"the {kind} {name!r} is declared in {first.place}, and in {origin.place}"
                faults(at, message, "rename one of them, or import only one of the files")
        self.types.update({**module.records, **module.enums})
        self.tables.update(module.tables)
        self.procedures.update(module.procedures)
        self.tools.update(module.tools)
        self.constants.update(module.constants)
        for name, unit in module.units.items():
            if self.units.setdefault(name, unit) != unit:
                faults(at, f"the unit {name!r} is another one in this file", "rename one of them")
        self.rules.update({rule.origin: rule for rule in module.rules})


def chain(paths: Iterable[str], path: str) -> str:
    """Write the way on which a file comes to import itself: `a.proc > b.proc > a.proc`."""
    way = list(paths)
    return " > ".join([*way[way.index(path) :], path])

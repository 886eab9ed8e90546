"""Procedure files and folders of them, compiled; all their problems at once."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from os.path import realpath  # unlike pathlib's, never at a loss where links go round in a circle
from pathlib import Path
from types import MappingProxyType

from guard.config.folder import Folder
from guard.errors import ConfigError, ProcedureError
from guard.procedure.execute import Program
from guard.procedure.load import load

log = logging.getLogger(__name__)

SHIPPED = "guard.examples"
SUFFIX = ".proc"

Problems = list[tuple[str, str]]  # (path of the key, what is wrong)


def load_procedures(paths: Sequence[Path] | None) -> Mapping[str, Program]:
    """Compile the procedures of some files and folders, or those that ship with stepguard, by name.

    Raises `ConfigError` with all that is wrong: files that are not there, procedures that cannot be
    compiled, names that are defined twice.
    """
    if paths is None:
        return shipped()
    problems: Problems = []
    return _all(_files(paths, problems), problems)


@cache
def shipped() -> Mapping[str, Program]:
    """The procedures that ship with stepguard, by name; compiled once, since they never change."""
    return _all(_shipped(), [])


def _all(
    files: Iterable[tuple[str, Traversable | Path, Traversable | Path]], problems: Problems
) -> Mapping[str, Program]:
    programs: dict[str, Program] = {}
    origins: dict[str, str] = {}
    for key, root, file in files:
        for name, program in _compile(key, root, file, problems).items():
            if name in programs:
                message = f"procedure {name!r} is defined twice, in {origins[name]} and in {file}; rename one"
                problems.append((key, message))
            else:
                programs[name], origins[name] = program, str(file)
    if problems:
        raise ConfigError(problems)
    return MappingProxyType(programs)


def _shipped() -> Iterator[tuple[str, Traversable, Traversable]]:
    folders = sorted(resources.files(SHIPPED).iterdir(), key=lambda entry: entry.name)
    for folder in folders:
        if folder.is_dir():
            files = sorted(folder.iterdir(), key=lambda entry: entry.name)
            yield from (("procedures", folder, file) for file in files if file.name.endswith(SUFFIX))


def _files(paths: Sequence[Path], problems: Problems) -> Iterator[tuple[str, Path, Path]]:
    """Each file with the key that names it and the folder that it may import from.

    A folder stands for all procedure files below it, which may import each other. A file that is there
    already is a mistake of the list, not of its procedures.
    """
    named: dict[str, str] = {}
    for index, path in enumerate(paths):
        key = f"procedures[{index}]"
        try:
            files, root = _below(path)
        except ValueError as error:
            problems.append((key, str(error)))
            continue
        for file in files:
            before = named.setdefault(realpath(file), key)
            if before != key:
                problems.append(
                    (key, f"{str(file)!r} stands in this list already, by {before}: leave it out")
                )
            else:
                yield key, root, file


def _below(path: Path) -> tuple[list[Path], Path]:
    """Give the procedure files that a path names, and the folder that they may import from.

    Raises `ValueError`, which says why there are none.
    """
    try:
        if path.is_dir():
            files = sorted(path.rglob(f"*{SUFFIX}"))
            if not files:
                raise ValueError(f"no file below {str(path)!r} ends in {SUFFIX}")
            return files, path
        if path.is_file():
            return [path], path.parent
    except OSError as error:  # a name that is too long, say
        raise ValueError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    raise ValueError(f"there is no file or folder {str(path)!r}")


def _compile(
    key: str, root: Traversable | Path, file: Traversable | Path, problems: Problems
) -> Mapping[str, Program]:
    folder, name = Folder(root), str(file)
    path = name.removeprefix(str(root)).lstrip("/")
    try:
        library = load(folder(path), name, files=folder, path=path)
    except ProcedureError as error:
        said = [(key, str(problem)) for problem in error.problems]
        problems.extend(pair for pair in said if pair not in problems)  # an imported file is read often
    except ValueError as error:
        problems.append((key, f"{file} {error}"))
    except OSError as error:
        problems.append((key, f"{file} cannot be read: {error.strerror}"))
    else:
        for warning in library.warnings:
            log.warning("%s", warning)
        return library.procedures
    return {}

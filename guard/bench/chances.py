"""How likely a model gets each step right: one number for all, or a file that says it step by step."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

import yaml

from guard.errors import ConfigError
from guard.nesting import FlatLoader

MAX_STEPS: Final = 1_000
MAX_BYTES: Final = 1_000_000

_COLUMNS: Final = ("p", "retry", "scaffold", "kind", "isolate", "stuck")
_STEPS: Final = re.compile(r"([0-9]{1,6})(?:\s*-\s*([0-9]{1,6}))?")
_YAML: Final = frozenset({".yaml", ".yml", ".json"})


class Decides(StrEnum):
    """Who knows what a step's value must be."""

    ASSIGN = "assign"  # the guard: a wrong line is always found
    JUDGE = "judge"  # only the model: a wrong value that may stand is never found


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """The chances that a step's line is right: at the first try, at a retry, with its operands given, alone.

    A `retry` of None is as good as a first try, a `scaffold` and an `isolate` of None as a retry.
    `stuck` is the chance that a line which was wrong once stays wrong in its context, however often
    it is tried there: in the trace, or by itself.
    """

    p: float
    retry: float | None = None
    scaffold: float | None = None
    isolate: float | None = None
    stuck: float = 0.0
    kind: Decides = Decides.ASSIGN

    @property
    def again(self) -> float:
        """The chance of a retry."""
        return self.p if self.retry is None else self.retry

    @property
    def given(self) -> float:
        """The chance of a retry whose operands are given."""
        return self.again if self.scaffold is None else self.scaffold

    @property
    def alone(self) -> float:
        """The chance of a try that is asked for by itself."""
        return self.again if self.isolate is None else self.isolate


Chances = tuple[Chance, ...]  # one a step
Problem = tuple[str, str]  # (where, what is wrong)


def chances(
    steps: int | None, usual: Chance | None, said: Mapping[int, Chance], judged: frozenset[int] = frozenset()
) -> Chances:
    """Put the chances of all steps together.

    `said` has what is known of single steps by their numbers from 1, `usual` counts for the others; without
    `steps` there are as many as `said` has. `judged` are the steps that only the model can decide.
    Raises `ConfigError`.
    """
    last = max(said, default=0)
    count = last if steps is None else steps
    problems: list[Problem] = []
    if not 1 <= count <= MAX_STEPS:
        problems.append(("--steps", f"expected 1 to {MAX_STEPS}, found {count}"))
    if last > count:
        problems.append(("--p-step-file", f"says something of step {last}, but there are {count}"))
    if any(step > count for step in judged):
        problems.append(("--judge", f"names step {max(judged)}, but there are {count}"))
    for where, is_judged in {
        "--judge": count in judged,
        "--p-step-file": count in said and said[count].kind is Decides.JUDGE,
    }.items():
        if is_judged:
            problems.append((where, f"step {count} is the last one, the answer, which is always computed"))
    missing = [step for step in range(1, min(count, MAX_STEPS) + 1) if step not in said]
    if usual is None and missing:
        problems.append(("--p", f"is needed for step {missing[0]}, of which no file says anything"))
    if problems or (usual is None and missing):
        raise ConfigError(problems)
    of = [said.get(step, usual) for step in range(1, count + 1)]
    return tuple(
        replace(chance, kind=Decides.JUDGE) if step in judged else chance
        for step, chance in enumerate(of, 1)
        if chance is not None
    )


def numbered(text: str) -> frozenset[int]:
    """Read numbers of steps such as `1,20-25`. Raises `ValueError`."""
    return frozenset(step for part in text.split(",") for step in _steps(part))


def _steps(text: str) -> range:
    found = _STEPS.fullmatch(text.strip())
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= first <= last:
        raise ValueError(
            f"expected a step's number such as 17, or a range such as 17-20, found {text[:60]!r}"
        )
    if last > MAX_STEPS:
        raise ValueError(f"expected steps up to {MAX_STEPS}, found {text[:60]!r}")
    return range(first, last + 1)


# --- the file ------------------------------------------------------------------------------------


def read_chances(path: Path) -> dict[int, Chance]:
    """Read what a file says of single steps: YAML or JSON where its name says so, else CSV.

    Raises `ConfigError` with every line that is wrong.
    """
    try:
        data = path.read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError([("", f"cannot be read: {error.strerror}")], file=str(path)) from None
    except UnicodeDecodeError as error:
        raise ConfigError([("", f"is not UTF-8 text at byte {error.start}")], file=str(path)) from None
    if len(data) > MAX_BYTES:
        raise ConfigError([("", f"is larger than {MAX_BYTES} bytes")], file=str(path))
    table = _Table()
    try:
        for line, steps, fields in (_of_yaml if path.suffix in _YAML else _of_csv)(text, table):
            table.add(line, steps, fields)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        table.wrong(mark.line + 1 if mark else 1, f"is not YAML: {getattr(error, 'problem', None) or error}")
    except RecursionError:
        table.wrong(1, "is nested too deeply")
    if not table.said and not table.problems:
        table.wrong(1, "says nothing of any step")
    if table.problems:
        raise ConfigError(table.problems, file=str(path))
    return table.said


class _Table:
    """What was read, and what was wrong."""

    def __init__(self) -> None:
        self.said: dict[int, Chance] = {}
        self.problems: list[Problem] = []

    def wrong(self, line: int, message: str) -> None:
        """Note a mistake."""
        self.problems.append((f"line {line}", message))

    def add(self, line: int, steps: str, fields: Mapping[str, str]) -> None:
        """Take what one place says of some steps."""
        try:
            numbers, chance = _steps(steps), _chance(fields)
        except ValueError as error:
            self.wrong(line, str(error))
            return
        twice = [step for step in numbers if step in self.said]
        if twice:
            self.wrong(line, f"step {twice[0]} has been said before")
        self.said.update(dict.fromkeys(numbers, chance))


def _chance(fields: Mapping[str, str]) -> Chance:
    for name in fields:
        if name not in _COLUMNS:
            raise ValueError(f"there is no {name[:60]!r}; there are: step, {', '.join(_COLUMNS)}")
    said = {name: text.strip() for name, text in fields.items() if text.strip()}
    if "p" not in said:
        raise ValueError("the chance `p` is missing")
    kind = said.pop("kind", Decides.ASSIGN.value)
    if kind not in set(Decides):
        raise ValueError(f"kind: expected assign or judge, found {kind[:60]!r}")
    parts = {name: probability(text, name) for name, text in said.items()}
    return Chance(**parts, kind=Decides(kind))


def probability(text: str, name: str = "p") -> float:
    """Read a chance from 0 to 1. Raises `ValueError`."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError(f"{name}: expected a chance from 0 to 1, found {text[:60]!r}")
    return value


_Row = tuple[int, str, Mapping[str, str]]  # line, steps, fields


def _of_csv(text: str, table: _Table) -> Iterator[_Row]:
    """Read lines such as `0.98,0.6`, in order or behind a line of names such as `step,p,retry`."""
    names: Sequence[str] | None = None
    count = 0
    for line, raw in enumerate(text.splitlines(), 1):
        content = raw.partition("#")[0].strip()
        if not content:
            continue
        cells = [cell.strip() for cell in next(csv.reader([content]))]
        if names is None:
            names = cells if "p" in cells else _COLUMNS
            if names is cells:
                continue
        if len(cells) > len(names):
            table.wrong(line, f"expected at most {len(names)} values, found {len(cells)}")
            continue
        count += 1
        fields = dict(zip(names, cells, strict=False))
        yield line, fields.pop("step", str(count)), fields


def _of_yaml(text: str, table: _Table) -> Iterator[_Row]:
    """Read a list in the order of the steps, or a mapping from their numbers."""
    match FlatLoader(text).get_single_node():
        case yaml.SequenceNode(value=entries):
            for step, entry in enumerate(entries, 1):
                yield from _entry(str(step), entry, table)
        case yaml.MappingNode(value=pairs):
            for key, entry in pairs:
                yield from _entry(str(key.value), entry, table)
        case None:
            return
        case node:
            table.wrong(
                node.start_mark.line + 1, "expected a list, or step numbers with what is said of them"
            )


def _entry(steps: str, node: yaml.Node, table: _Table) -> Iterator[_Row]:
    line = node.start_mark.line + 1
    match node:
        case yaml.ScalarNode(value=value):
            yield line, steps, {"p": value}
        case yaml.MappingNode(value=pairs) if all(isinstance(value, yaml.ScalarNode) for _, value in pairs):
            yield line, steps, {str(key.value): value.value for key, value in pairs}
        case _:
            table.wrong(line, f"expected a chance, or some of {', '.join(_COLUMNS)}")

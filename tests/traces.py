"""The cases of `tests/cases/traces`: procedures, traces of them and what each comes to. Read by several tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from guard.procedure.execute import Program
from guard.procedure.expected import Form
from guard.procedure.load import load
from guard.procedure.types import Value

FOLDER = Path(__file__).parent / "cases" / "traces"
MARK = "«"  # stands in front of the first wrong character; not part of the text


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """What a case says of a violation: its kind, the step, where it is, and more where that matters."""

    kind: str
    step: str
    at: int
    expected: str | None = None
    found: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One response to one procedure. `blames` is empty where it passes (or the procedure fails)."""

    name: str
    program: Program
    inputs: dict[str, Value]
    nonce: str
    response: str
    finish_reason: str | None
    verdict: str
    blames: tuple[Blame, ...]
    fails_at: str | None  # the step at which the procedure itself fails
    tolerant: bool

    @property
    def first(self) -> Blame | None:
        """The violation that stops a checker."""
        return self.blames[0] if self.blames else None


@cache
def cases() -> tuple[Case, ...]:
    """All cases of all files."""
    return tuple(case for file in sorted(FOLDER.glob("*.yaml")) for case in _read(file))


def _read(file: Path) -> Iterator[Case]:
    data: dict[str, Any] = yaml.safe_load(file.read_text("utf-8"))
    loaded = load(data["procedure"], file.name).procedures[data["name"]]
    program = loaded.in_form(Form(data.get("form", "work")))
    for raw in data["cases"]:
        inputs = program.accept(data["inputs"] | raw.get("inputs", {}))
        response, marks = changed(raw, data["faithful"])
        blames = [blame_of(blame, at) for blame, at in zip(raw.get("blames", []), marks, strict=True)]
        yield Case(
            name=f"{file.stem}: {raw['name']}",
            program=program,
            inputs=inputs,
            nonce=data["nonce"],
            response=response,
            finish_reason=raw.get("finish_reason", "stop"),
            verdict=raw.get("verdict", "failed" if blames else "passed"),
            blames=tuple(blames),
            fails_at=raw.get("fails_at"),
            tolerant=data.get("tolerant", False),
        )


def changed(raw: dict[str, Any], faithful: str) -> tuple[str, list[int]]:
    """Give the response of a case, and where the marks in it stand. `raw` is as `_response` reads it."""
    marked = _response(raw, faithful)
    return marked.replace(MARK, ""), [place - index for index, place in enumerate(_places(marked))]


def _places(text: str) -> Iterator[int]:
    return (place for place, char in enumerate(text) if char == MARK)


def _response(raw: dict[str, Any], faithful: str) -> str:
    """Give the response as written, or the faithful one with its changes.

    `lines`: by first word, what stands instead of that line ("": nothing). `change`: by text, what stands
    instead of it. `open`: the last line has no end.
    """
    lines = raw.get("lines", {})
    if "response" in raw:
        return str(raw["response"])
    text = faithful
    words = [line.split()[0] for line in text.split("\n")[:-1]]
    assert set(lines) <= set(words), f"{raw['name']}: no such lines: {set(lines) - set(words)}"
    kept = [lines.get(word, line) for word, line in zip(words, text.split("\n"), strict=False)]
    text = "".join(f"{line}\n" for line in kept if line)
    for old, new in raw.get("change", {}).items():
        assert text.count(old) == 1, f"{raw['name']}: {old!r} occurs {text.count(old)} times"
        text = text.replace(old, new)
    return text.removesuffix("\n") if raw.get("open") else text


def blame_of(raw: str | dict[str, str], at: int) -> Blame:
    """`kind at step`, or a mapping of `blame: kind at step` with `expected` and `found`."""
    more = raw if isinstance(raw, dict) else {"blame": raw}
    kind, _, step = more["blame"].partition(" at ")
    return Blame(kind=kind, step=step, at=at, expected=more.get("expected"), found=more.get("found"))

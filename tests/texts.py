"""The short texts of `cases/texts.yaml`: what must be read out of each, and what that comes to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from guard.procedure.execute import Program
from guard.procedure.load import load
from guard.procedure.types import Value
from guard.procedure.values import from_json
from tests.worked import procedure

FILE = Path(__file__).parent / "cases" / "texts.yaml"

Half = Literal["tune", "report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortText:
    """One text. `wanted` is the answer, None where the procedure refuses with the words of `refusal`."""

    number: int
    program: Program
    half: Half
    inputs: dict[str, Value]
    decisions: dict[str, Value]
    wanted: Value | None
    refusal: str | None

    @property
    def name(self) -> str:
        """What it is called in a table."""
        return f"{self.program.name} {self.number}"


@cache
def texts() -> tuple[ShortText, ...]:
    """All of them, in the order of the file."""
    data = yaml.safe_load(FILE.read_text("utf-8"))
    own = {name: load(text, f"{name}.proc").procedures[name] for name, text in data["procedures"].items()}
    return tuple(_read(number, raw, own) for number, raw in enumerate(data["texts"], 1))


def _read(number: int, raw: dict[str, Any], own: dict[str, Program]) -> ShortText:
    program = own.get(raw["procedure"]) or procedure(raw["procedure"])
    return ShortText(
        number=number,
        program=program,
        half=raw["half"],
        inputs=program.accept(raw["inputs"]),
        decisions=program.decide(raw["decide"]),
        wanted=from_json(raw["answer"], program.result) if "answer" in raw else None,
        refusal=raw.get("refusal"),
    )

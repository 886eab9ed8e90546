"""Small procedures, carried out."""

from collections.abc import Mapping
from itertools import chain, repeat
from typing import Any

from guard.procedure.execute import Program, reference
from guard.procedure.expected import Ending, Expected
from guard.procedure.load import load
from guard.procedure.types import Value
from guard.procedure.values import spell

ORDER = """
record Line { name: string, qty: int }

procedure p(note: text, floor_: int) -> int
  extract lines: list of Line from note quote
    where all(l.qty >= floor_ for l in lines)
  judge mood: enum("good", "bad") from note asking "How is the writer?"
  n = 0
  for l in lines at most 3
    judge ok: bool from note asking "Is it in stock?"
    if ok
      n = n + l.qty
  return n
"""


def program(text: str) -> Program:
    (found,) = load(text).procedures.values()
    return found


def steps(body: str, signature: str = "p(a: int) -> int", before: str = "") -> Program:
    indented = "".join(f"  {line}\n" for line in body.strip("\n").splitlines())
    return program(f"{before}\nprocedure {signature}\n{indented}")


def line(expected: Expected, value: Value | None = None) -> str:
    """The line of a step, with `_` and `…` for holes and `?` for values that nobody has decided."""
    parts = [f"{expected.path} {expected.head} "]
    for cell in expected.cells:
        parts.append(cell.lead)
        if cell.working is not None:
            parts += [part if isinstance(part, str) else "…" if part.free else "_" for part in cell.working]
            parts.append(" = ")
        parts.append(cell.spelling or ("?" if value is None else spell(value, cell.type)))
    return "".join([*parts, expected.tail])


def run(
    made: Program, decisions: Mapping[str, object] | None = None, **inputs: object
) -> tuple[list[str], Ending]:
    taken, ending = reference(made, made.accept(inputs), made.decide(decisions or {}))
    return [line(expected, value) for expected, value in taken], ending


def drive(made: Program, sent: list[Any], **inputs: object) -> tuple[list[Expected], Ending | None]:
    """Execute with what is sent for each step in turn; behind the last, what was computed."""
    execution = made.execute(made.accept(inputs))
    seen: list[Expected] = []
    ending: Ending | None = None
    try:
        for value in chain([None], sent, repeat(None)):
            seen.append(execution.send(value))  # noqa: PERF401 (its end would end a comprehension oddly)
    except StopIteration as stop:
        ending = stop.value
    return seen, ending

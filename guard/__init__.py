"""stepguard: a model carries out a written procedure, step by step, and every step is checked.

What programs may import from here is public and keeps its names:

* `load(text, name="<string>")` gives a `Library`, whose `procedures` are compiled `Procedure`s by name;
  it raises `ProcedureError`, which has every problem of the text. Texts that it imports are given as
  `files={"tables/fees.proc": ...}`, or as a function from such a path to a text.
* `Procedure`: `accept` reads inputs from JSON data; `reference` carries it out. `formatted` lays a text out.
* `Checker(procedure, inputs, nonce=...)`: `feed` it a trace in pieces, `close` it, then see its `verdict`
  and `violations`; `report` sums it up.
* `read_freely(text, procedure)` reads steps and answers out of a text that keeps to no format.
* `without_thoughts(text)` blanks what a model has thought in tags in front of a trace, for a `Checker`.
"""

from __future__ import annotations

from guard.check.checker import Checker
from guard.check.report import report
from guard.check.verdict import Kind, Verdict, Violation
from guard.errors import GuardError, Problem, ProcedureError, RequestError
from guard.procedure.execute import Program as Procedure
from guard.procedure.execute import reference
from guard.procedure.format import formatted
from guard.procedure.load import Library, load
from guard.trace.freeform import Reading, read_freely
from guard.wire.thinking import without_thoughts

__all__ = [
    "Checker",
    "GuardError",
    "Kind",
    "Library",
    "Problem",
    "Procedure",
    "ProcedureError",
    "Reading",
    "RequestError",
    "Verdict",
    "Violation",
    "formatted",
    "load",
    "read_freely",
    "reference",
    "report",
    "without_thoughts",
]

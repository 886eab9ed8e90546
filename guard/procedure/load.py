"""From the text of a file to procedures that can be executed, or all that is wrong with it."""

from __future__ import annotations

from guard.errors import Problem
from guard.procedure.build import build
from guard.procedure.faults import Faults
from guard.procedure.model import Module
from guard.procedure.syntax import read
from guard.source import Source


def parse(source: Source) -> tuple[Module | None, list[Problem]]:
    """The model of a text, None where it has none, and what is wrong with its form.

    That is its syntax, its types and constants, and names that are declared twice.
    """
    tree, problems = read(source)
    if tree is None:
        return None, problems
    faults = Faults(source)
    module = build(tree, faults)
    return (None if faults.problems else module), faults.problems

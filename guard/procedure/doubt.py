"""What is not known of a text that is faulty: lines that were replaced, types that nothing declares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from guard.procedure.listing import expressions, walk
from guard.procedure.types import EnumType, ListType, OptionalType, RecordType

if TYPE_CHECKING:
    from guard.procedure.model import Procedure, Table
    from guard.procedure.types import Type
    from guard.source import Span


@dataclass(frozen=True, slots=True)
class Doubt:
    """The places of the replaced lines, and the names in them."""

    places: tuple[Span, ...] = ()
    names: frozenset[str] = frozenset()

    def touches(self, procedure: Procedure) -> bool:
        """Whether a faulty line stands in a procedure."""
        steps = list(walk(procedure.body))
        parts = [part for step in steps for part in (step, *expressions(step))]
        end = max((part.at.end for part in parts), default=procedure.at.end)
        return any(procedure.at.start <= place.start <= end for place in self.places)


CERTAIN = Doubt()

# Stands for a type that a text names and nothing declares. No text can write an enumeration of nothing.
MYSTERY: Final = EnumType(())


def is_known(type_: Type) -> bool:
    """Whether a type is known in all its parts."""
    match type_:
        case ListType(item) | OptionalType(item):
            return is_known(item)
        case RecordType(fields):
            return all(is_known(field.type) for field in fields)
        case _:
            return type_ != MYSTERY


def is_certain(table: Table) -> bool:
    """Whether all types of a table are known."""
    return is_known(table.result) and all(is_known(parameter.type) for parameter in table.parameters)

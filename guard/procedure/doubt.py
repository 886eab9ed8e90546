"""What is not known of a text whose faulty lines were replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from guard.procedure.listing import walk

if TYPE_CHECKING:
    from guard.procedure.model import Procedure
    from guard.source import Span


@dataclass(frozen=True, slots=True)
class Doubt:
    """The places of the replaced lines, and the names in them."""

    places: tuple[Span, ...] = ()
    names: frozenset[str] = frozenset()

    def touches(self, procedure: Procedure) -> bool:
        """Whether a faulty line stands in a procedure."""
        end = max((step.at.end for step in walk(procedure.body)), default=procedure.at.end)
        return any(procedure.at.start <= place.start <= end for place in self.places)


CERTAIN = Doubt()

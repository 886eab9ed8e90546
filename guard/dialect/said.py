"""Values that can only be right: the numbers and dates that can be read in the sources of a quote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from hashlib import sha256
from itertools import chain
from typing import Final

from guard.dialect.tree import Literal, Node, Terminal, choice
from guard.procedure.types import DateType, DecimalType, IntType, PercentType, Type, Value
from guard.procedure.values import coerce, conforms, spell
from guard.trace.spellings import Spelled, spelled_in
from guard.trace.support import flat

MAX_VALUES: Final = 200  # of one type; where there are more, the value is left open and the checker looks


class Said:
    """What can be read in texts that are short enough to be read for a grammar."""

    def __init__(self, texts: Sequence[str], admissible: Callable[[Value], str | None] | None) -> None:
        """`admissible` says why a single value may not stand, if these are the values of a whole decision."""
        self._texts, self._admissible = texts, admissible

    def __call__(self, kind: Type) -> Node | None:
        """Give the spellings of all values of a type that the texts support.

        None where no list says that: the type's values are not readable in so many words, there are too many
        of them, or none. The values of a moment are not listed, for what offset it has is seldom written.
        """
        match kind:
            case IntType() | DecimalType():
                scaled = kind.unit is not None and bool(kind.unit.scales)
                numbers = (one.numbers + one.unscaled if scaled else one.numbers for one in self._spelled)
                return self._node(chain.from_iterable(numbers), kind)
            case PercentType():
                return self._node((value for one in self._spelled for value in one.shares), kind)
            case DateType():
                return self._node((day for one in self._spelled for day in one.days), kind)
            case _:
                return None

    @cached_property
    def _spelled(self) -> list[Spelled]:
        return [one for text in self._texts for one in spelled_in(flat(text))]

    def _node(self, found: Iterable[Value], kind: Type) -> Node | None:
        spellings: dict[str, None] = {}
        for value in dict.fromkeys(found):
            kept = coerce(value, kind)
            if kept is None or conforms(kept, kind) is not None:
                continue
            if self._admissible is None or self._admissible(kept) is None:
                spellings[spell(kept, kind)] = None
        if not 0 < len(spellings) <= MAX_VALUES:
            return None
        name = f"v{sha256(repr(list(spellings)).encode()).hexdigest()[:8]}"
        return Terminal(name, choice(*map(Literal, spellings)))

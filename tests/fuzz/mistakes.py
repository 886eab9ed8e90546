"""The forms of a model's mistakes: those that traces are tried with elsewhere, and what only a run can be told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tests.faults.faithful import NONCE, Injector, Mutant, Sample
from tests.faults.injectors import INJECTORS

_ANOTHER: Final = "0" * len(NONCE)


def forged(sample: Sample, index: int) -> Iterator[Mutant]:
    """A right trace under another nonce, as somebody's text may hold one."""
    if not index:
        text = sample.trace.replace(NONCE, _ANOTHER)
        yield Mutant(name="forged", text=text, kind="malformed", step="", at=0)


MISTAKES: Final[Mapping[str, Injector]] = {**INJECTORS, "forged": forged}

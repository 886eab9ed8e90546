"""Counts injected faults that are found: `python -m tests.corpus.faults [EVERY]`.

Into the faithful traces of all corpora one fault each is injected, of every form, at every step; with EVERY each so
manieth form of a step. A fault counts as right where the checker names its kind, its step and its place. Public corpora lie where
`STEPGUARD_CORPUS` says; without it they are left out.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Final

from guard.check.verdict import Kind
from tests.corpus.sources import SOURCES
from tests.faults.faithful import Mutant, Sample
from tests.faults.injectors import INJECTORS, found, right

# Procedures with steps that call tools are for conversations; no trace of one is checked.
KINDS: Final = tuple(kind for kind in Kind if kind not in {Kind.WRONG_CALL, Kind.UNCONFIRMED_CALL})


def every(samples: Iterable[Sample], some: int = 1) -> Iterator[tuple[Sample, Mutant]]:
    """Each so manieth of all forms of faults of all steps: all faults of that form."""
    # Each step starts one form further on, so that all forms have their turn whatever their number is.
    steps = count()
    for sample in samples:
        for index in range(len(sample.steps)):
            for turn, injector in enumerate(INJECTORS.values(), next(steps)):
                if turn % some == 0:
                    for mutant in injector(sample, index):
                        yield sample, mutant


def disagreement(sample: Sample, mutant: Mutant) -> str:
    """What was injected and what was found, for people."""
    said = found(sample, mutant)
    name = sample.program.name
    wanted = f"{mutant.name}: {mutant.kind} at {mutant.step or 'the frame'}, offset {mutant.at}"
    reported = f"{said.kind} at {said.step or 'the frame'}, offset {said.at}" if said else "nothing"
    return f"{name}: {wanted}; found {reported}: {mutant.text[mutant.at :][:80]!r}"


def main(arguments: Sequence[str]) -> int:
    """Print the table of corpora and kinds, injected and right, and every disagreement."""
    some = int(arguments[0]) if arguments else 1
    made: Counter[tuple[str, str]] = Counter()
    agreed: Counter[tuple[str, str]] = Counter()
    wrong: list[str] = []
    for source, samples in SOURCES.items():
        for sample, mutant in every(samples(), some):
            made[source, mutant.kind] += 1
            if right(sample, mutant):
                agreed[source, mutant.kind] += 1
            else:
                wrong.append(disagreement(sample, mutant))
    sys.stdout.write(_table(made, agreed))
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    return 1 if wrong else 0


def _table(made: Counter[tuple[str, str]], agreed: Counter[tuple[str, str]]) -> str:
    """`injected/right` by kind and corpus; blank where a corpus has no such step."""
    rows = [["kind", *SOURCES]]
    for kind in KINDS:
        cells = [(made[source, kind], agreed[source, kind]) for source in SOURCES]
        rows.append([kind, *(f"{injected}/{right}" if injected else "" for injected, right in cells)])
    totals = [
        f"{sum(made[source, kind] for kind in KINDS)}/{sum(agreed[source, kind] for kind in KINDS)}"
        for source in SOURCES
    ]
    rows.append(["all", *totals])
    return "".join(" ".join(cell.rjust(18) for cell in row) + "\n" for row in rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

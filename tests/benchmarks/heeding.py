"""What it takes to hold what is written against its grammar: `python -m tests.benchmarks.heeding`.

A faithful trace in pieces of 4 characters, in processor time, the quickest of several rounds: of 95 steps of
arithmetic, and the median of the shipped procedures.
"""

from __future__ import annotations

import sys
from statistics import median

from guard.dialect.lark import Level
from guard.dialect.notation import Dialect
from guard.procedure.execute import Program
from guard.run.heeding import Heeding
from guard.run.messages import Target
from guard.run.opening import NO_REASON, Job, opening
from guard.run.progress import Progress
from tests.benchmarks.checking import NONCE, STEPS, Inputs, chain, cut, seconds, traced
from tests.dialect.shipped import shipped

LEVELS = (Level.SHAPE, Level.OPERANDS)
NOTATIONS = (Dialect.GBNF, Dialect.REGEX)
SIZE = 4


def heed(program: Program, inputs: Inputs, trace: str, dialect: Dialect, level: Level) -> float | None:
    """Give the seconds that a line of a trace takes; None where there is no grammar."""
    job = Job(program=program, inputs=inputs, messages=(), nonce=NONCE)
    target = Target(name="u", model="m", prefill=False, dialect=dialect)
    promised = opening(job, Progress(program, inputs, NONCE), target, level, NO_REASON).promised
    if promised is None:
        return None
    lines = trace.splitlines(keepends=True)
    pieces = [piece for line in lines for piece in cut(line, SIZE)]

    def read() -> None:
        heeding = Heeding(promised)
        for piece in pieces:
            heeding.read(piece)
        assert not heeding.strayed

    return seconds(read) / len(lines)


def main() -> None:
    """Print a line for each level and notation."""
    program, inputs = chain(STEPS)
    samples = shipped().values()
    for level in LEVELS:
        for dialect in NOTATIONS:
            whole = heed(program, inputs, traced(program, inputs), dialect, level)
            each = [heed(one.program, one.inputs, one.trace, dialect, level) for one in samples]
            shown = median([one for one in each if one is not None])
            long = "no grammar" if whole is None else f"{whole * 1e6:.0f} us a line"
            sys.stdout.write(
                f"{level.value:9} {dialect.value:6} {long}, shipped {shown * 1e6:.0f} us a line\n"
            )


if __name__ == "__main__":
    main()

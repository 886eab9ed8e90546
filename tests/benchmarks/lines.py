"""What the guard itself costs where each line is a generation of its own: `python -m tests.benchmarks.lines`.

In processor time, the quickest of several rounds, with a model that is always right. The time for a line must
not grow with the lines that stand: nothing may be checked, executed or looked through once more.
"""

from __future__ import annotations

import sys
from time import process_time

from guard.procedure.execute import reference
from guard.run.messages import Ended, Finish, Open, Outcome, Target, Text
from guard.run.policy import ForceBy, Policy
from guard.run.run import Job, Run
from guard.trace import render
from tests.benchmarks.checking import NONCE, chain

ROUNDS = 3
TARGET = Target(name="u", model="m", prefill=True, dialect=None)
POLICY = Policy(force_by=ForceBy.LINES, output_tokens=10**6)


def line_by_line(steps: int) -> float:
    """Give the seconds that a run of so many steps takes."""
    program, inputs = chain(steps)
    lines = {step.path: render.line(step) for step, _ in reference(program, inputs, {})[0]}
    job = Job(program=program, inputs=inputs, messages=({"role": "user", "content": "Go."},), nonce=NONCE)
    return min(_carried_out(Run(job, POLICY, [TARGET]), lines) for _ in range(ROUNDS))


def _carried_out(run: Run, lines: dict[str, str]) -> float:
    before = process_time()
    last = run.start()[-1]
    while isinstance(last, Open):
        begun = last.prefix.rpartition("\n")[2]
        run.handle(Text(lines[last.resume_from].removeprefix(begun)))
        last = run.handle(Ended("stop"))[-1]
    spent = process_time() - before
    assert isinstance(last, Finish)
    assert last.outcome is Outcome.ACCEPTED_FIRST
    return spent


def main() -> None:
    """Print a line for each number of steps."""
    for steps in (24, 95, 380, 1520):
        seconds = line_by_line(steps)
        sys.stdout.write(f"{steps} steps: {seconds * 1e3:.1f} ms, {seconds / steps * 1e6:.0f} us a line\n")


if __name__ == "__main__":
    main()

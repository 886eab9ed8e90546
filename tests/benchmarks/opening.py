"""How long the text of a generation takes to make: `python -m tests.benchmarks.opening`.

The grammar, its notation and the end of the prompt for 95 steps whose inputs no request had before, in
processor time, the quickest of several. Machines differ, so one execution of the procedure is the measure.
Besides, how long it takes to prove that the grammar can be read: by reading it, and by its skeleton.
Then the same for a procedure all of whose steps hang on what the model decides first.
"""

from __future__ import annotations

import sys

from guard.dialect.lark import Level, narrow
from guard.dialect.notation import Dialect, written
from guard.procedure.execute import Program
from guard.procedure.load import load
from guard.run.messages import Target
from guard.run.opening import NO_REASON, Job, opening
from guard.run.progress import Progress
from guard.trace import prompt
from guard.upstream.proven import refused
from guard.upstream.skeleton import skeleton
from tests.benchmarks.checking import NONCE, STEPS, Inputs, chain, execute, seconds

LEVELS = (Level.SHAPE, Level.OPERANDS, Level.VALUES)
PREFILLED = frozenset({Dialect.GBNF, Dialect.LLGUIDANCE, Dialect.XGRAMMAR})


def undecided(steps: int) -> tuple[Program, Inputs]:
    """Give arithmetic that begins with a decision, on which one of its ways depends every fifth step."""
    lines = ["procedure undecided(note: text) -> int", "  extract s0: int from note quote"]
    for index in range(1, steps - 1):
        if index % 5:
            lines.append(f"  s{index} = (s{index - 1} * 3) mod 1000")
        else:
            lines += [f"  if s{index - 1} > 500", f"    s{index} = s{index - 1} - 500"]
            lines += ["  else", f"    s{index} = s{index - 1} + 1"]
    program = load("\n".join([*lines, f"  return s{steps - 2}", ""])).procedures["undecided"]
    return program, program.accept({"note": "The first number is 812, as was said on Monday."})


def make(program: Program, inputs: Inputs, dialect: Dialect, level: Level) -> int:
    """Make all text that a request needs; give the characters of the grammar."""
    told = prompt.closing(program, inputs, NONCE)
    narrowed = narrow(program, inputs, (), level=level, nonce=NONCE, stop_at_decision=True)
    assert narrowed.grammar is not None
    return len(written(narrowed.grammar, dialect) or "") if told else 0


def open_first(
    program: Program,
    inputs: Inputs,
    dialect: Dialect,
    level: Level,
    prefilled: frozenset[Dialect] = PREFILLED,
) -> int:
    """Open the first generation of a run; give the characters of its grammar."""
    target = Target(name="u", model="m", prefill=dialect in prefilled, dialect=dialect)
    message: dict[str, object] = {"role": "user", "content": prompt.closing(program, inputs, NONCE)}
    job = Job(program=program, inputs=inputs, messages=(message,), nonce=NONCE)
    made = opening(job, Progress(program, inputs, NONCE), target, level, NO_REASON)
    return len(made.grammar or "")


def prove(program: Program, inputs: Inputs, dialect: Dialect, level: Level) -> str:
    """Measure how long a grammar is read, and how long it is recognised."""
    narrowed = narrow(program, inputs, (), level=level, nonce=NONCE, stop_at_decision=True)
    assert narrowed.grammar is not None
    text = written(narrowed.grammar, dialect)
    if text is None:
        return "not written"
    read, known = seconds(lambda: refused(dialect, text)), seconds(lambda: skeleton(dialect, text))
    return f"read {read * 1e6:.0f} us, known again {known * 1e6:.0f} us"


def main() -> None:
    """Print what is measured."""
    program, inputs = chain(STEPS)
    measure = seconds(lambda: execute(program, inputs))
    sys.stdout.write(f"one execution of {STEPS} steps: {measure * 1e6:.0f} us\n")
    for level in LEVELS:
        for dialect in Dialect:
            text = seconds(lambda: make(program, inputs, dialect, level))  # noqa: B023 (called at once)
            whole = seconds(lambda: open_first(program, inputs, dialect, level))  # noqa: B023
            sys.stdout.write(
                f"{level.value:9} {dialect.value:12} {text * 1e6:6.0f} us, {text / measure:4.1f} executions; "
                f"with the run around it {whole * 1e6:6.0f} us; {prove(program, inputs, dialect, level)}\n"
            )
    program, inputs = undecided(STEPS)
    sys.stdout.write("the same where the model decides first, and no prefix is continued:\n")
    for level in LEVELS:
        for dialect in Dialect:
            whole = seconds(lambda: open_first(program, inputs, dialect, level, frozenset()))  # noqa: B023
            sys.stdout.write(
                f"{level.value:9} {dialect.value:12} with the run around it {whole * 1e6:6.0f} us\n"
            )


if __name__ == "__main__":
    main()

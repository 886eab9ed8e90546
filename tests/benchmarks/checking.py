"""How fast traces are checked and steps executed: `python -m tests.benchmarks.checking`.

Machines differ, so checking is compared with Lark on the same text in the same run.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from time import process_time

from guard.check.checker import Checker
from guard.check.verdict import Verdict
from guard.engine import SLICE
from guard.procedure.execute import Program, reference
from guard.procedure.load import load
from guard.procedure.types import Value
from guard.trace import render
from guard.trace.grammar import lark

NONCE = "3fa92c"
STEPS = 95
PIECE = 4  # characters, about a token

Inputs = dict[str, Value]


def source(steps: int) -> str:
    """Give the text of straight-line arithmetic with look-back."""
    lines = [
        f"  s{i} = s{i - 1} + s{max(0, i - 5)} mod 97" if i % 2 else f"  s{i} = (s{i - 1} * 3) mod 1000"
        for i in range(1, steps)
    ]
    return "\n".join(["procedure chain(s0: int) -> int", *lines, f"  return s{steps - 1}", ""])


def chain(steps: int) -> tuple[Program, Inputs]:
    """Give straight-line arithmetic as a program, and inputs for it."""
    program = load(source(steps)).procedures["chain"]
    return program, program.accept({"s0": 6})


def loop(passes: int) -> tuple[Program, Inputs]:
    """Ten steps a pass, and three."""
    lines = ["    n = (n + x) mod 1000"] * 10
    text = "\n".join(
        [
            "procedure p(xs: list of int) -> int",
            "  n = 0",
            "  for x in xs at most 10000",
            *lines,
            "  return n",
            "",
        ]
    )
    program = load(text).procedures["p"]
    return program, program.accept({"xs": list(range(passes))})


def traced(program: Program, inputs: Inputs) -> str:
    """Give the faithful trace."""
    steps, _ = reference(program, inputs, {})
    return render.trace(program, steps, NONCE)


def cut(text: str, size: int) -> list[str]:
    """Cut a text into pieces of a size."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def check(program: Program, inputs: Inputs, pieces: list[str]) -> Checker:
    """Check a faithful trace that arrives in pieces."""
    checker = Checker(program, inputs, nonce=NONCE)
    for piece in pieces:
        checker.feed(piece)
    checker.close()
    assert checker.verdict is Verdict.PASSED
    return checker


def parse(lines: list[str]) -> None:
    """Parse lines by Lark alone."""
    for line in lines:
        lark().parse(line, start="start")


def execute(program: Program, inputs: Inputs) -> int:
    """Execute a program to its end, give the number of its steps."""
    return sum(1 for _ in program.execute(inputs))


def seconds(call: Callable[[], object], repeats: int = 7) -> float:
    """Give the processor time of the quickest of several calls."""
    times: list[float] = []
    for _ in range(repeats):
        start = process_time()
        call()
        times.append(process_time() - start)
    return min(times)


def speedup() -> float:
    """How many times faster a trace is checked in pieces than Lark parses it line by line."""
    program, inputs = chain(STEPS)
    text = traced(program, inputs)
    pieces = cut(text, PIECE)
    return seconds(lambda: parse(text.splitlines())) / seconds(lambda: check(program, inputs, pieces))


def steps_per_second() -> float:
    """How many steps of straight-line arithmetic are executed in a second."""
    program, inputs = chain(1_000)
    return execute(program, inputs) / seconds(lambda: execute(program, inputs))


def memory(checkers: int = 20) -> float:
    """How many bytes a checker holds that has read its whole trace."""
    program, inputs = chain(STEPS)
    text = traced(program, inputs)
    check(program, inputs, [text])  # what is made once
    gc.collect()
    tracemalloc.start()
    live = [check(program, inputs, [text]) for _ in range(checkers)]
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held / len(live)


def growth(passes: int) -> float:
    """How much longer checking takes for twice the steps; ten steps a pass."""

    def time(passes: int) -> float:
        program, inputs = loop(passes)
        pieces = cut(traced(program, inputs), SLICE)
        gc.collect()
        return seconds(lambda: check(program, inputs, pieces), 3)

    return time(2 * passes) / time(passes)


def main() -> None:
    """Print what is measured."""
    out = sys.stdout
    out.write(f"checking {STEPS} steps in pieces of {PIECE}: {speedup():.1f} times as fast as Lark by line\n")
    out.write(f"executing straight-line arithmetic: {steps_per_second():,.0f} steps/s\n")
    out.write(f"a live checker at {STEPS} steps: {memory() / 1024:.1f} KiB\n")
    for passes in (1_000, 4_999):
        steps = f"checking {20 * passes + 3:,} steps against {10 * passes + 3:,}"
        out.write(f"{steps}: {growth(passes):.2f} times as long\n")


if __name__ == "__main__":
    main()

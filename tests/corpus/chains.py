"""Arithmetic chains: 5 to 95 steps, each of which looks back 1 to 7 steps (after arXiv:2605.00817).

A chain is made of its length, its look-back and a seed, and is the same wherever it is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from hypothesis import strategies as st

from guard.procedure.load import load
from tests.faults.faithful import Sample, carried_out

LENGTHS: Final = range(5, 96, 10)
LOOK_BACKS: Final = range(1, 8)
_LARGE: Final = 10_000  # what is larger is made smaller by the next step


def chain(length: int, look_back: int, seed: int = 0) -> Sample:
    """A chain of some steps, the last of which returns; each uses the value of `look_back` steps before."""
    text, a, b = chain_text(length, look_back, seed)
    program = load(text, "chain.proc").procedures["chain"]
    return carried_out(text, program, program.accept({"a": a, "b": b}), {})


def chain_text(length: int, look_back: int, seed: int = 0) -> tuple[str, int, int]:
    """The procedure of a chain, and its two inputs."""
    random = Random(f"{length} {look_back} {seed}")
    a, b = random.randint(1, 50), random.randint(1, 50)
    values = {"a": a, "b": b}
    lines: list[str] = []
    for number in range(1, length):
        far = f"s{number - look_back}" if number > look_back else random.choice(["a", "b"])
        near = f"s{number - 1}" if number > 1 and look_back > 1 else str(random.randint(2, 9))
        expression, values[f"s{number}"] = _step(random, values, far, near)
        lines.append(f"  s{number} = {expression}")
    head = "procedure chain(a: int, b: int) -> int"
    return "\n".join([head, *lines, f"  return s{length - 1}", ""]), a, b


def _step(random: Random, values: dict[str, int], far: str, near: str) -> tuple[str, int]:
    left = values[far]
    right = values[near] if near in values else int(near)
    if abs(left) > _LARGE:
        divisor = random.randint(11, 99)
        return f"{far} mod {divisor}", left % divisor
    match random.choice("+-*" if abs(right) <= _LARGE else "-"):
        case "+":
            return f"{far} + {near}", left + right
        case "-":
            return f"{far} - {near}", left - right
        case _:
            return f"{far} * {near}", left * right


def seeded(seeds: int = 1) -> Iterator[Sample]:
    """A chain of every length and look-back, for so many seeds."""
    for seed in range(seeds):
        for length in LENGTHS:
            for look_back in LOOK_BACKS:
                yield chain(length, look_back, seed)


def chains(longest: int = 95) -> st.SearchStrategy[Sample]:
    """Chains of any length up to one, for hypothesis."""
    return st.builds(chain, st.integers(5, longest), st.sampled_from(LOOK_BACKS), st.integers(0, 10_000))

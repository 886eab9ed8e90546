# ruff: noqa: T201
"""python -m tests.fuzz [RUNS] [--fresh] [--seed N] [--parsers]: random runs by hand, in as many processes as asked for."""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from time import monotonic
from typing import Final

from tests.fuzz import drawn
from tests.fuzz.campaign import Report, campaign, reproducer
from tests.fuzz.parsers import PARSERS
from tests.fuzz.strange import strange

BLOCK: Final = 200  # runs that a process is given at a time: a whole number of procedures
FRESH: Final = 10**9  # seeds from here on are nobody's


def _blocks(first: int, runs: int) -> Iterator[range]:
    yield from (range(at, min(at + BLOCK, first + runs)) for at in range(first, first + runs, BLOCK))


def _runs(first: int, runs: int, processes: int) -> Report:
    report, began = Report(), monotonic()
    with ProcessPoolExecutor(processes) as pool:
        for done in as_completed([pool.submit(campaign, block) for block in _blocks(first, runs)]):
            part = done.result()
            report.add(part)
            for failure in part.failures:
                print(f"\n{failure}", flush=True)
            spent = monotonic() - began
            print(
                f"\r{report.runs} of {runs} runs, {len(report.failures)} wrong, {spent:.0f} s",
                end="",
                flush=True,
            )
    return report


def _strange(first: int, texts: int, processes: int) -> int:
    """Let each parser read so many strange texts; give how many were read wrong."""
    wrong = 0
    with ProcessPoolExecutor(processes, max_tasks_per_child=1) as pool:
        asked = {
            pool.submit(_of_parser, name, range(first, first + texts)): name for name in range(len(PARSERS))
        }
        for done in as_completed(asked):
            print(f"{PARSERS[asked[done]].name}: {texts} texts, {len(done.result())} wrong", flush=True)
            print("".join(f"{oddity}\n" for oddity in done.result()), end="", flush=True)
            wrong += len(done.result())
    return wrong


def _of_parser(place: int, seeds: range) -> list[str]:
    return [str(oddity) for oddity in strange(PARSERS[place], seeds)]


def main() -> int:
    """Play what is asked for; 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("runs", nargs="?", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first run")
    parser.add_argument("--fresh", action="store_true", help="begin at a seed that nobody has had")
    parser.add_argument("--seed", type=int, help="tell the run of this seed, as small as it goes")
    parser.add_argument(
        "--parsers", action="store_true", help="strange texts for every parser instead, RUNS for each"
    )
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    if asked.seed is not None:
        print("\n".join(reproducer(asked.seed)))
        return 0
    first = FRESH + secrets.randbelow(FRESH) * BLOCK if asked.fresh else asked.first
    if asked.parsers:
        return 1 if _strange(first, asked.runs, asked.processes) else 0
    report = _runs(first, asked.runs, asked.processes)
    never = drawn.never(report.tally)
    print(f"\n{drawn.table(report.tally)}")
    print("".join(f"never drawn: {what}\n" for what in never), end="")
    return 1 if report.failures or never else 0


if __name__ == "__main__":
    sys.exit(main())

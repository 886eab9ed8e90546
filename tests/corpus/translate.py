"""Translates the public corpora into procedures: `python -m tests.corpus.translate [PROBLEM ...]`.

With names (`finqa-3`, `gsm8k-17`) it prints their procedures, inputs and faithful traces; without, how many problems and
steps there are and which do not come to what is written. The corpora lie where `STEPGUARD_CORPUS` says.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from guard.trace import render
from tests.corpus import finqa, gsm8k
from tests.corpus.problems import FOLDER, Problem, known_noise

NONCE = "3fa92c"


def problems() -> dict[str, Problem]:
    """All problems of the corpora by name."""
    return {problem.name: problem for problem in (*finqa.problems(), *gsm8k.problems())}


def shown(problem: Problem) -> str:
    """A problem for people."""
    steps, _ = problem.execute()
    trace = render.trace(problem.program, steps, NONCE)
    return f"{problem.text}\n{json.dumps(problem.inputs)}\n\n{trace}"


def summary(name: str, found: Sequence[Problem]) -> str:
    """How many problems and steps there are, and which disagree."""
    known = {entry["problem"]: entry["why"] for entry in known_noise()["answers"]}
    disagreements = [one for problem in found for one in problem.disagreements()]
    right = sum(len(problem.golds) + 1 for problem in found) - len(disagreements)
    steps = sum(len(problem.golds) for problem in found)
    counts = f"{right} golds of steps and answers agree, {len(disagreements)} do not"
    lines = [f"{name}: {len(found)} problems, {steps} steps; {counts}"]
    for one in disagreements:
        why = known.get(one.problem, "NOT KNOWN")
        lines.append(f"  {one.problem} {one.step}: {one.gold} is written, {one.gives} comes out ({why})")
    return "\n".join(lines)


def main(names: Sequence[str]) -> int:
    """Print what is asked for."""
    if not FOLDER:
        sys.stderr.write("STEPGUARD_CORPUS names no folder with finqa_100.jsonl and gsm8k_400.jsonl\n")
        return 1
    if unknown := [name for name in names if name not in problems()]:
        sys.stderr.write(f"no such problems: {', '.join(unknown)}\n")
        return 1
    texts = [shown(problems()[name]) for name in names]
    texts = texts or [summary("FinQA", finqa.problems()), summary("GSM8K", gsm8k.problems())]
    sys.stdout.write("\n\n".join(texts) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

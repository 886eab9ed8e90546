"""A model that goes wrong at the same steps however often it is asked, and right everywhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from guard.run.messages import Command, Ended, Finish, Open, Target, Text, Wait, Waited
from guard.run.race import machine
from guard.run.run import Job, Policy, Run
from tests.alone import answer
from tests.faults.faithful import NONCE, Mutant, Sample

MOST = 2_000  # events of one run


class Model(Protocol):
    """What may be asked."""

    def says(self, opened: Open, /) -> tuple[str, str | None]: ...


class Hopeless:
    """Writes a sample's trace, with a departure at each step that `wrong` has one for, by the step's index."""

    def __init__(self, sample: Sample, wrong: Mapping[int, Mutant]) -> None:
        self.sample, self.wrong = sample, wrong

    def says(self, opened: Open) -> tuple[str, str | None]:
        """What it writes in a generation, and how that ends."""
        sample = self.sample
        at = next(i for i, (step, _) in enumerate(sample.steps) if step.path == opened.resume_from)
        if opened.isolated:
            said = (
                "what was it?\n"
                if at in self.wrong
                else answer(sample.program, sample.inputs, sample.steps, at)
            )
            return said, "stop"
        begun = opened.prefix.rpartition("\n")[2]
        first = next((i for i in sorted(self.wrong) if i >= at), None)
        start = sample.start(at) if at or opened.prefix else 0
        if first is None:
            return _behind(begun, sample.trace[start:]), "stop"
        mutant, faulty = self.wrong[first], sample.start(first)
        departed = mutant.text[faulty:] if mutant.text.startswith(sample.trace[:faulty]) else mutant.text
        return _behind(begun, sample.trace[start:faulty] + departed), mutant.finish_reason


@dataclass(frozen=True)
class Constant:
    """Writes one text, whatever it is asked."""

    text: str
    finish_reason: str | None

    def says(self, opened: Open) -> tuple[str, str | None]:  # noqa: ARG002
        """What it writes in a generation, and how that ends."""
        return self.text, self.finish_reason


def _behind(begun: str, text: str) -> str:
    """Go on from the beginning of a line, if the line has it; else write the line all the same."""
    return text.removeprefix(begun) if text.startswith(begun) else f" {text}"


def played(run: Run, model: Model) -> Finish:
    """Let the model answer whatever is asked, to the end."""
    commands: Sequence[Command] = run.start()
    for _ in range(MOST):
        match commands[-1]:
            case Finish() as finish:
                return finish
            case Wait():
                commands = run.handle(Waited())
            case Open() as opened:
                text, reason = model.says(opened)
                commands = run.handle(Text(text, 1))
                if not any(isinstance(c, Open | Finish) for c in commands):
                    commands = run.handle(Ended(reason))
            case _:
                raise AssertionError(f"nothing follows {commands[-1]!r}")
    raise AssertionError("the run never ends")


def asked(sample: Sample, policy: Policy, targets: Sequence[Target], **fields: object) -> Run:
    """A run of a sample's procedure."""
    message = {"role": "user", "content": "Go."}
    known = {"program": sample.program, "inputs": sample.inputs, "messages": (message,), "nonce": NONCE}
    run = machine(Job(**(known | fields)), policy, targets)  # type: ignore[arg-type]
    assert isinstance(run, Run)
    return run

"""A real model is asked for a trace, and everything that happens is kept: for tests and for measuring."""

from __future__ import annotations

from contextlib import aclosing

from guard.check.replay import Walk
from guard.check.verdict import Judgement, StepVerified, Violation
from guard.engine import drive
from guard.procedure.expected import Expected, Hole
from guard.run.messages import Close, Finish, Open
from guard.run.opening import Job
from guard.run.policy import Policy
from guard.run.progress import Progress
from guard.run.run import Run
from guard.telemetry.observer import Observer, RunInfo, RunObserver
from guard.upstream.abilities import NoClient
from guard.upstream.base import Upstream


class Heard(RunObserver):
    """One run: what was opened, what was made of it, and what was known when it was opened."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.opened_with: list[Open] = []
        self.closes: list[Close] = []
        self.violations: list[Violation] = []
        self.verified: list[StepVerified] = []
        self.written: list[StepVerified] = []  # those that a model wrote
        self.known: list[
            frozenset[str]
        ] = []  # for each of `opened_with`, the steps whose operands were known
        self.end: Finish | None = None

    def opened(self, command: Open) -> None:
        self.opened_with.append(command)
        self.known.append(self._known())

    def closed(self, command: Close) -> None:
        self.closes.append(command)

    def observed(self, judgement: Judgement, generation: int = 0) -> None:  # noqa: ARG002 (one at a time)
        match judgement:
            case Violation():
                self.violations.append(judgement)
            case StepVerified():
                self.verified.append(judgement)
                if len(self.closes) < len(self.opened_with):
                    self.written.append(judgement)
            case _:
                pass

    def finished(self, command: Finish, duration_s: float) -> None:  # noqa: ARG002
        self.end = command

    def _known(self) -> frozenset[str]:
        """The steps ahead all of whose operands follow from the inputs and from what is verified."""
        progress = Progress(self.job.program, self.job.inputs, self.job.nonce)
        progress.open_frame()
        for step in self.verified:
            progress.read(step.text, frozenset())
        walk = Walk.start(self.job.program, self.job.inputs, progress.checker.sent)
        known = set[str]()
        while walk.due is not None:
            known |= {walk.due.path} if _operands_known(walk.due) else set()
            walk.skip()
        return frozenset(known)


def _operands_known(step: Expected) -> bool:
    workings = [cell.working for cell in step.cells if cell.working is not None]
    return (
        step.decision is None
        and bool(workings)
        and not any(isinstance(part, Hole) for working in workings for part in working)
    )


class _One(Observer):
    def __init__(self, heard: Heard) -> None:
        self._heard = heard

    def run_started(self, info: RunInfo) -> RunObserver:  # noqa: ARG002
        return self._heard


async def ask(upstream: Upstream, job: Job, policy: Policy) -> Heard:
    """Carry one run out at an upstream."""
    heard = Heard(job)
    info = RunInfo(
        procedure=job.program.name,
        version=job.program.version,
        digest=job.program.digest,
        audit_id=job.nonce,
        mode="enforce",
        stream=False,
        model=upstream.target.model,
    )
    machine = Run(job, policy, [upstream.target])
    upstreams = {upstream.target.name: upstream}
    steps = drive(machine, upstreams, _One(heard), info, client=NoClient(), seconds=policy.seconds)
    async with aclosing(steps) as commands:
        async for _ in commands:
            pass
    return heard

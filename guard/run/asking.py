"""The next generation: what is remembered of it, and the command that opens it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from guard.dialect.lark import Level
from guard.procedure.expected import Expected
from guard.run import lines, varying
from guard.run import policy as retry
from guard.run.ahead import Coming
from guard.run.generation import Generation
from guard.run.heeding import Heeding
from guard.run.history import History
from guard.run.isolating import Answering, isolated
from guard.run.messages import Open, Ours, Strategy, Target
from guard.run.opening import Job, Opening, Reason, opening
from guard.run.overlap import Overlap
from guard.run.policy import ForceBy, Policy, Vary
from guard.run.progress import Progress
from guard.trace.alone import can_be_asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """Which generation it is: where, why, and how much it may write."""

    upstream: int
    strategy: Strategy
    counted: bool
    reason: Reason
    max_tokens: int


def ask(
    job: Job,
    policy: Policy,
    progress: Progress,
    targets: Sequence[Target],
    *,
    history: History,
    following: Next,
    coming: Coming | None = None,
) -> tuple[Generation, Open]:
    """Go on from what is verified, in the way that the strategy and the tries so far call for.

    `coming` is a step that is asked for before it is due, None: the one that is due.
    """
    due = progress.expected if coming is None else coming.step
    assert due is not None, "there is nothing left to ask for"
    target, step = targets[following.upstream], due.path
    draws = varying.draws(history.attempts, following.strategy)
    tries = varying.tries(history.attempts, following.strategy, step, following.upstream)
    again = tries if Vary.PHRASING in policy.vary else 0
    made, alone = _alone(job, policy, progress, target, following, coming, again=tries) or (
        _in_trace(job, policy, progress, target, following, again=again),
        None,
    )
    bounded = made.bounded and not policy.releases
    room = _room(due, following.max_tokens) if bounded else None
    generation = Generation(
        number=history.generations,
        upstream=following.upstream,
        strategy=following.strategy,
        counted=following.counted,
        step=step,
        prefix=progress.verified + made.tail if alone is None else alone.question,
        given=made.given,
        scaffold=following.reason.cell is not None,
        stop=step if policy.isolates else made.stop,
        cut=policy.force is Level.VALUES or made.one_line or policy.isolates,
        overlap=None if alone else _overlap(policy, progress, made, first=not history.violations),
        alone=alone,
        asked=made.tokens,
        level=Level.NONE if made.grammar is None else made.loosened or policy.force,
        heeding=None if made.promised is None else Heeding(made.promised),
        one_line=made.one_line or policy.isolates,
        cell=made.cell,
        since=len(progress.lines),
        room=room,
    )
    asked = target.temperature if job.temperature is None else job.temperature
    command = Open(
        generation=history.generations,
        attempt=1 + history.retries,
        upstream=target.name,
        strategy=following.strategy,
        messages=made.messages,
        prefix=made.prefix,
        grammar=made.grammar,
        loosened=made.loosened,
        max_tokens=following.max_tokens if room is None else room,
        temperature=asked if target.plain else varying.temperature(policy, asked, tries),
        top_p=job.top_p,
        seed=job.seed if target.plain else varying.seed(policy, job.seed, draws),
        resume_from=step,
        model=target.model,
        last=retry.further(history.attempts, targets, here=following.upstream) is None,
        # A further try may begin anew, and an answer to a question with an empty line.
        stop=lines.ENDS if bounded and not (tries or target.plain or alone) else (),
        isolated=alone is not None,
    )
    history_told = bool(progress.lines) and alone is None
    generation.ours = frozenset(_added(command, job, asked, history=history_told))
    return generation, command


def _in_trace(
    job: Job, policy: Policy, progress: Progress, target: Target, following: Next, *, again: int
) -> Opening:
    """Give the text of a generation that goes on with the trace."""
    one_by_one = following.strategy is Strategy.LINE and not policy.isolates  # as for the line before
    by = ForceBy.LINES if one_by_one else policy.force_by
    return opening(job, progress, target, policy.force, replace(following.reason, again=again), by=by)


def _alone(  # noqa: PLR0917 (as for one in the trace)
    job: Job,
    policy: Policy,
    progress: Progress,
    target: Target,
    following: Next,
    coming: Coming | None,
    *,
    again: int,
) -> tuple[Opening, Answering] | None:
    """Give the text of a generation for one step alone, and what reads its answer; None: it is no such."""
    if coming is not None:
        step, shown, values = coming.step, coming.shown, coming.values
        return isolated(
            job, progress, target, policy.force, due=step, shown=shown, values=values, again=again
        )
    due = progress.expected
    assert due is not None
    if not (following.reason.alone or policy.isolates) or not can_be_asked(progress.shown):
        return None
    return isolated(job, progress, target, policy.force, due=due, shown=progress.shown, again=again)


def _added(command: Open, job: Job, asked: float | None, *, history: bool) -> Iterator[Ours]:
    """Say what a request has that its client did not ask for."""
    if command.grammar is not None:
        yield Ours.GRAMMAR
    if command.temperature != asked or command.seed != job.seed or command.stop:
        yield Ours.FIELDS
    if command.prefix:
        yield Ours.PREFIX
    if history:
        yield Ours.HISTORY


def _room(due: Expected, left: int) -> int | None:
    """Give the tokens that one line may have; None: all that are left."""
    needed = lines.room(due)
    return None if needed is None or needed >= left else needed


def _overlap(policy: Policy, progress: Progress, made: Opening, *, first: bool) -> Overlap | None:
    if not progress.verified and first:
        return None  # the first answer has to begin as it was told
    return Overlap(progress, tail=made.tail, begun=made.begun, turn=made.turn or policy.tolerant)

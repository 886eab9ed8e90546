"""The sans-I/O run: what the upstream did goes in, what to do next comes out.

Theory of operation. A run is in one of four states:

    state     leaves by                                      to
    new       start()                                        open | over
    open      a violation                                    open (the policy's choice) | over
              the end of a generation at a decided step      open (strategy `decision`)
              the end of the one line it was opened for      open (strategy `line`)
              the end of a generation behind the answer      over
              a violation, released, and the end             over
              a fault of the network                         waiting | open (the next upstream) | over
              a request with a grammar that was refused      open (strategy `unforced`)
    waiting   Waited                                         open
    over                                                     `handle` raises InvalidState

    OutOfTime and Cancelled lead from open and waiting to over.

All text goes line by line into one checker, which outlives the generations: behind a cut it is made anew
from the verified prefix. A line is the client's only when it is verified and the procedure did not fail
right behind it. Once the answer is verified the run is decided: what comes behind it is read only as long
as it is the closing line, so that a server reports its usage. That of the trace is always the guard's own.

With votes, a line of an `extract` or `judge` step ends its generation, too: it is taken back, counted and
asked for again until the votes on it are settled (see `guard.run.votes`). Steps that are asked for ahead of
their turn are told when it comes (see `guard.run.ahead`).

What bounds a run: the ladder and `attempts` for violations, `transport_retries` on each upstream for faults.
A generation that is opened behind a decision or a repair needs a newly verified line, one for a vote counts
against the cap of its step; a truncated one is resumed without a new line as often as the ladder allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from guard.check.verdict import Judgement, Kind, StepVerified, Violation
from guard.dialect.lark import Level
from guard.errors import InvalidState, UpstreamError
from guard.run import endings, reading, thoughts, writing
from guard.run import policy as retry
from guard.run.accounts import Accounts
from guard.run.ahead import Ahead
from guard.run.blame import Blame
from guard.run.choosing import Choosing
from guard.run.faults import Faults, of_end
from guard.run.finishing import Finishing
from guard.run.forcing import Forcing
from guard.run.generation import Generation
from guard.run.history import History
from guard.run.ladders import GENERATING, Action
from guard.run.messages import (
    Cancelled,
    Close,
    Command,
    Ended,
    Failed,
    Observe,
    OutOfTime,
    Result,
    RunEvent,
    StepClass,
    Strategy,
    Target,
    Text,
    Wait,
    Waited,
)
from guard.run.opener import Opener
from guard.run.opening import NO_REASON, Job, Reason
from guard.run.policy import Choice, Policy
from guard.run.progress import Progress
from guard.run.release import Release, unverified
from guard.run.votes import Polls
from guard.wire import finish

__all__ = ["Job", "Policy", "Run"]


class Run:
    """One client request, however many generations.

    `targets` are the upstreams in the order of fallback. The commands that `start` and `handle` return are
    to be performed in order; the next event is what happens when all of them are.
    """

    def __init__(self, job: Job, policy: Policy, targets: Sequence[Target]) -> None:
        if not targets:
            raise InvalidState("a run needs an upstream")
        self._job, self._policy = job, policy
        self._forcing = Forcing(targets, again=policy.without_grammar)
        self._progress = Progress(job.program, job.inputs, job.nonce, tolerant=policy.tolerant)
        self._polls = Polls(policy.votes)
        self._thoughts = thoughts.Thoughts(policy)
        self._faults = Faults(policy, job.nonce)
        self._history = History()
        self._accounts = Accounts(
            policy.output_tokens if job.max_tokens is None else min(policy.output_tokens, job.max_tokens)
        )
        self._opener = Opener(
            job=job,
            policy=policy,
            progress=self._progress,
            forcing=self._forcing,
            history=self._history,
            accounts=self._accounts,
            ahead=Ahead(job.program, job.inputs, policy.parallel if policy.isolates else 1),
        )
        self._finishing = Finishing(opener=self._opener, polls=self._polls, faults=self._faults)
        self._choosing = Choosing(opener=self._opener, polls=self._polls)
        self._blame = Blame(
            forcing=self._forcing,
            faults=self._faults,
            progress=self._progress,
            attempts=self._history.attempts,
        )
        self._upstream = 0
        self._generation: Generation | None = None
        self._started = False
        self._waiting: Strategy | None = None  # to open a generation so when a wait is over
        self._release: Release | None = None  # why the generation is read on unchecked
        self._reason = NO_REASON  # why the last generation was opened

    def start(self) -> list[Command]:
        """Begin. Raises InvalidState the second time."""
        if self._started:
            raise InvalidState("a run is started once")
        self._started = True
        if self._accounts.limit == self._job.max_tokens:  # counting takes an execution
            fewest = self._progress.fewest_lines(written=self._policy.force is Level.VALUES)
            if fewest > self._accounts.limit:
                return [self._finishing.too_few_tokens(fewest)]
        return self._go_on(Strategy.INITIAL)

    def handle(self, event: RunEvent, generation: int = 0) -> list[Command]:
        """Take what happened, return what to do about it.

        `generation` is the one that it happened to; 0 is the one that is open, or none. Raises InvalidState
        for an event that has no place in the state of the run.
        """
        over = self._finishing.over
        if not self._started or over:
            raise InvalidState(f"{event!r} came {'behind the end' if over else 'before the start'}")
        if self._opener.ahead.has(generation):
            assert isinstance(event, Text | Ended | Failed), "all else happens to the run"
            self._opener.hear(event, generation)
            return [*self._opener.given_up(), *self._opener.open_ahead(self._upstream, self._generation)]
        if generation and (self._generation is None or self._generation.number != generation):
            raise InvalidState(f"{event!r} came for generation {generation}, which is not open")
        commands: list[Command] = []
        told: RunEvent | None = event
        while told is not None:
            made = self._handled(told)
            commands += [*self._opener.given_up(), *made]  # after what was opened for the event before
            told = None if self._generation is None else self._opener.ahead.replayed()
        return self._thoughts.in_front(commands)

    def _handled(self, event: RunEvent) -> list[Command]:
        match event:
            case Text():
                return self._text(event, self._current(event))
            case Ended():
                return self._ended(event, self._current(event))
            case Failed():
                return self._failed(event, self._current(event))
            case Waited():
                return self._waited(event)
            case OutOfTime():
                return self._out_of_time()
            case Cancelled():
                return [*self._close_open(Result.CANCELLED), self._finishing.cancelled()]
            case _:
                assert_never(event)

    def deliver_steps(self) -> list[Command]:
        """Hold nothing back any longer, whatever the policy said: give what is verified, and go on so."""
        self._policy = replace(self._policy, deliver="hold_step")
        deciding = self._generation is not None and self._generation.done and not self._progress.answered
        thought = self._thoughts.let_go()
        return [] if self._finishing.over else [*thought, *([] if deciding else self._deliver())]

    @property
    def lines(self) -> int:
        """How many lines are verified."""
        return len(self._progress.lines)

    @property
    def decided(self) -> bool:
        """Whether nothing that its open generation still says counts: only its usage is waited for."""
        return self._generation is not None and self._generation.done and not self._opener.ahead.live

    @property
    def releases(self) -> bool:
        """Whether it reads on unchecked, to release what is there."""
        return self._release is not None

    def share_budget(self, spent: int) -> None:
        """Say how many tokens of the same budget other runs have spent by now."""
        self._accounts.elsewhere = spent

    @property
    def spent(self) -> int:
        """The tokens that its generations have written."""
        return self._accounts.completion + self._accounts.ahead + self._opener.tokens(self._generation)

    def __repr__(self) -> str:
        over, generation = self._finishing.over, self._generation
        state = "over" if over else "waiting" if self._waiting else "open" if generation else "new"
        return f"<Run of {self._job.program.name}: {state}, {len(self._progress.lines)} lines>"

    # --- what happened ---------------------------------------------------------------------------

    def _current(self, event: RunEvent) -> Generation:
        if self._generation is None:
            raise InvalidState(f"{event!r} came while no generation was open")
        return self._generation

    def _text(self, event: Text, generation: Generation) -> list[Command]:
        generation.hear(event)
        commands = self._thoughts.hear(generation, event)
        if event.text:
            commands += thoughts.ended(generation, len(self._progress.verified))
        for piece in reading.pieces(event.text):
            generation.heed(piece)
            commands += self._piece(generation, piece)
            if self._generation is not generation:
                return commands
        if generation.done:
            return commands
        if generation.tokens > self._accounts.left:
            commands += self._close_checker(generation, "length")  # the server does not keep to the budget
        elif self._release is None and event.thought and thoughts.run_on(generation, self._accounts.limit):
            commands += self._judged(generation, [thoughts.runaway(self._progress)])
        return commands

    def _piece(self, generation: Generation, piece: str) -> list[Command]:
        if self._release is not None:
            generation.take(self._release.take(piece))
            return [] if self._release.left else self._let_go(generation, "length")
        if not generation.done:
            return self._judged(generation, reading.read(generation, self._progress, piece))
        foreign = reading.read_behind(generation, self._progress, piece)
        return [] if foreign is None else [Observe(foreign), *self._complete(generation)]

    def _ended(self, event: Ended, generation: Generation) -> list[Command]:
        fault = of_end(event.finish_reason)
        if fault is not None:
            return self._failed(Failed(fault), generation)
        generation.end(event)
        commands = thoughts.ended(generation, len(self._progress.verified))
        if self._release is not None:
            return commands + self._let_go(generation, generation.ended)
        whole = finish.is_own(event.finish_reason) or generation.overran
        if generation.line.strip() and not generation.done and whole:
            commands += self._piece(generation, "\n")
        if self._generation is not generation:
            return commands
        if generation.done or reading.at_stop(generation, self._progress):
            return commands + self._complete(generation)
        return commands + self._close_checker(generation, "stop" if whole else event.finish_reason)

    def _close_checker(self, generation: Generation, finish_reason: str | None) -> list[Command]:
        generation.ended = finish.told(finish_reason)
        if self._release is not None:
            return self._let_go(generation, generation.ended)
        reading.break_off(generation, self._progress)
        commands: list[Command] = []
        while self._generation is generation and not generation.done:
            judgements = self._progress.close(finish_reason, generation.given)
            assert judgements, "the end of an unfinished trace is a violation"
            commands += self._judged(generation, judgements)
        return commands + (self._complete(generation) if self._generation is generation else [])

    def _failed(self, event: Failed, generation: Generation) -> list[Command]:
        if generation.done:
            return self._complete(generation)
        error = event.error
        if self._release is not None:
            return self._let_go(generation, "length", endings.of_fault(error), error)
        self._history.fail(generation)
        reaction = self._blame.react(event, generation)
        self._progress.rewind()
        closed = self._close(generation, reaction.result, error=error)
        if reaction.restart:
            self._choosing.restart()
        if self._progress.due != generation.step:
            self._reason = NO_REASON  # it got past the line that it was opened for, or back
        if reaction.strategy is None and reaction.otherwise:
            return [closed, *self._otherwise(error)]
        if reaction.strategy is None:
            return [closed, *(self._end_by_guard() or [self._finishing.failed(error)])]
        if reaction.upstream is not None:
            self._upstream = reaction.upstream
        if reaction.wait_s is None:
            return [closed, *self._go_on(reaction.strategy, reason=self._reason)]
        self._waiting = reaction.strategy
        further = retry.further(self._history.attempts, self._forcing.targets)
        return [
            closed,
            Wait(reaction.wait_s, self._forcing.targets[self._upstream].name, last=further is None),
        ]

    def _otherwise(self, error: UpstreamError) -> list[Command]:
        """Go on without this upstream, which does not take what the run has come to, or end."""
        violation = self._history.give_up(self._progress)
        choice = self._choosing.decide(None, here="the upstream does not take what it is to go on from")
        match choice.action:
            case Action.REPAIR:
                return self._repair(all_known=True)
            case Action.FALLBACK:
                return self._ask_again(choice)
            case _ if choice.barred:
                return [self._finishing.out_of_tokens()]
            case _ if violation is None:
                return [self._finishing.failed(error, ours=True)]
            case _:
                return [self._finishing.rejected(violation, choice.reason)]

    def _waited(self, event: Waited) -> list[Command]:
        strategy, self._waiting = self._waiting, None
        if strategy is None:
            raise InvalidState(f"{event!r} came although no wait was asked for")
        return self._go_on(strategy, reason=self._reason)

    def _out_of_time(self) -> list[Command]:
        generation = self._generation
        if generation is not None and generation.done:
            return self._complete(generation)
        if generation is not None and self._release is not None:
            return self._let_go(generation, "length", Result.TIMEOUT)
        closed = self._close_open(Result.TIMEOUT)
        self._progress.rewind()
        return [*closed, *(self._end_by_guard() or [self._finishing.out_of_time()])]

    def _end_by_guard(self) -> list[Command]:
        """Repair all that is left, where the model has gone wrong before and has nothing to decide there."""
        if not self._history.violations or not self._progress.can_end(self._policy.repairs):
            return []
        return self._repair(all_known=True)

    # --- what it means ---------------------------------------------------------------------------

    def _judged(self, generation: Generation, judgements: list[Judgement]) -> list[Command]:
        """Draw the consequences of what the checker made of a line, or of the end."""
        violation = next((j for j in judgements if isinstance(j, Violation)), None)
        if any(isinstance(j, StepVerified) for j in judgements):
            generation.settled = generation.length
        number = generation.number if self._opener.ahead.most > 1 else 0
        settled: list[Command] = [Observe(j, number) for j in judgements if not isinstance(j, Violation)]
        if self._progress.answered:
            generation.done = True
        elif violation is not None:
            return [*settled, Observe(violation, number), *self._violated(generation, violation)]
        elif self._progress.failed is not None:
            return settled + self._procedure_failed(generation)
        elif (generation.cut and reading.at_stop(generation, self._progress)) or self._polls.wants(
            self._progress
        ):
            generation.done = True
            return settled  # delivered when it is known that the procedure does not fail behind it
        return settled + self._deliver()

    def _complete(self, generation: Generation) -> list[Command]:
        """Close a generation that did what it was opened for."""
        self._progress.rewind()
        generation.vote = self._polls.wants(self._progress)
        again = generation.vote and not self._polls.count(self._progress)
        self._history.remember(generation.attempt())
        result = Result.PASSED if self._progress.answered else Result.DECIDED
        one_by_one = generation.one_line and self._policy.force is not Level.VALUES
        further = Strategy.LINE if one_by_one else Strategy.DECISION
        if generation.alone is not None and not self._policy.isolates:
            further = Strategy.CONTINUE
        return [self._close(generation, result), *self._go_on(Strategy.VOTE if again else further)]

    def _violated(self, generation: Generation, violation: Violation) -> list[Command]:
        if generation.ignored:
            generation.given = frozenset()
        self._progress.rewind()
        cell = self._history.depart(generation, violation, self._progress)
        choice = self._choosing.decide(generation)
        if choice.action is Action.RELEASE:
            self._release = Release(violation=violation, why=choice.reason)
            return self._let_go(generation, generation.ended) if generation.ended else []
        if choice.action is Action.RESTART:
            self._choosing.restart()
        closed = self._close(generation, Result.VIOLATION)
        return [closed, *self._act(choice, violation, cell)]

    def _act(self, choice: Choice, violation: Violation, cell: int | None) -> list[Command]:
        match choice.action:
            case Action.REJECT if choice.barred:
                return [self._finishing.out_of_tokens()]
            case Action.REJECT:
                return [self._finishing.rejected(violation, choice.reason)]
            case Action.REPAIR:
                return self._repair(all_known=choice.rest)
            case _:
                mistake = (violation.kind, self._history.attempts[-1].failed_at)
                return self._ask_again(choice, mistake, cell)

    def _ask_again(
        self, choice: Choice, mistake: tuple[Kind, str] | None = None, cell: int | None = None
    ) -> list[Command]:
        """Open the generation that the policy has chosen."""
        if choice.upstream is not None:
            self._upstream = choice.upstream
        reason = Reason(
            cell=cell if choice.action is Action.SCAFFOLD else None,
            violation=mistake if choice.action is Action.FEEDBACK else None,
            alone=choice.action is Action.ISOLATE,
        )
        return self._go_on(Strategy(choice.action.value), counted=choice.counted, reason=reason)

    def _repair(self, *, all_known: bool) -> list[Command]:
        """Write the line that is due, or all that are known, in the guard's hand."""
        progress = self._progress
        written = (
            progress.write_on(StepClass.REPAIRED, lambda due: due.known)
            if all_known
            else progress.write(StepClass.REPAIRED)
        )
        return [*map(Observe, written), *self._go_on(Strategy.REPAIR)]

    def _procedure_failed(self, generation: Generation | None) -> list[Command]:
        """Ask again for the last decision that is still ours to change, or give up."""
        failed = self._progress.failed
        assert failed is not None
        if generation is not None:
            self._history.attempts.append(generation.attempt())
        choice = self._choosing.blame_decision(generation)
        again = choice is not None and choice.action in GENERATING
        commands = [] if generation is None else [self._close(generation, Result.DECIDED)]
        if choice is not None and again:
            return commands + self._ask_again(
                choice, (Kind.INADMISSIBLE_VALUE, self._history.attempts[-1].failed_at)
            )
        why = "no decision of the model's can still be asked for again" if choice is None else choice.reason
        return [*commands, self._finishing.procedure_failed(failed, why)]

    def _let_go(
        self,
        generation: Generation,
        finish_reason: str,
        result: Result = Result.VIOLATION,
        error: UpstreamError | None = None,
    ) -> list[Command]:
        """End with what the generation has written, unchecked."""
        assert self._release is not None
        text = unverified(generation, self._progress.verified)
        generation.cut_short = None  # it was read on
        closed = self._close(generation, result, error=error, kept=generation.length)
        delivered = self._progress.deliver()
        return [closed, *delivered, self._finishing.released(self._release, text, finish_reason)]

    # --- what to do ------------------------------------------------------------------------------

    def _go_on(
        self, strategy: Strategy, *, counted: bool = False, reason: Reason = NO_REASON
    ) -> list[Command]:
        """Open the next generation, or finish where there is nothing left to ask for."""
        commands: list[Command] = []
        self._polls.settle(self._progress)
        commands += map(Observe, writing.before(self._opener, self._upstream, strategy))
        if self._progress.failed is not None:
            return commands + self._procedure_failed(None)
        commands += self._deliver()
        if self._progress.answered:
            self._progress.close_frame()
            answered = self._finishing.answered(fallen_back=self._upstream > 0)
            return [*commands, *self._progress.deliver(), answered]
        if self._accounts.left <= 0:
            return [*commands, self._finishing.out_of_tokens()]
        self._reason = reason
        self._generation, opened = self._opener.open(self._upstream, strategy, counted=counted, reason=reason)
        return [*commands, *opened, *self._opener.open_ahead(self._upstream, self._generation)]

    def _deliver(self) -> list[Command]:
        if self._policy.deliver == "hold_all":
            return []
        if self._job.whole:
            self._progress.settle()
            return []
        return list(self._progress.deliver())

    def _close_open(self, result: Result) -> list[Command]:
        self._waiting = None
        return [] if self._generation is None else [self._close(self._generation, result)]

    def _close(
        self,
        generation: Generation,
        result: Result,
        *,
        error: UpstreamError | None = None,
        kept: int | None = None,
    ) -> Close:
        """Close the generation that is open; the verified prefix is what of it stands, unless `kept` says."""
        self._generation = None
        self._opener.ahead.forget(generation)
        return self._accounts.close(generation, result, self._progress.lines, error=error, kept=kept)

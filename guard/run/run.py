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
as it is the closing line, so that a server that ends by itself reports its usage, and changes nothing. The
closing line in the trace is always the guard's own.

With votes, a line of an `extract` or `judge` step ends its generation, too: it is taken back, counted and
asked for again (strategy `vote`) until the votes on the step are settled; then the winning line is put in
its place. See `guard.run.votes`.

What bounds a run: the ladder and `attempts` for violations, `transport_retries` on each upstream for faults;
neither takes from the other. A generation that is opened behind a decision or a repair needs a newly verified
line, so there are no more of them than the trace has steps, and one for a vote counts against the cap of its
step; a truncated one is resumed so often without a new line as the ladder allows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, assert_never

from guard.check.verdict import Ignored, Judgement, Kind, StepVerified, Violation
from guard.dialect.lark import Level
from guard.errors import InvalidState, UpstreamError, UpstreamStatusError
from guard.run import endings, thoughts
from guard.run import policy as retry
from guard.run.accounts import Accounts
from guard.run.asking import Next, ask
from guard.run.faults import Faults
from guard.run.forcing import Forcing
from guard.run.generation import Cut, Generation
from guard.run.ladders import GENERATING, Action
from guard.run.lines import can, is_given, must, scaffold_cell
from guard.run.messages import (
    Cancelled,
    Close,
    Command,
    Ended,
    Failed,
    Finish,
    Observe,
    Open,
    Outcome,
    OutOfTime,
    Result,
    RunError,
    RunEvent,
    StepClass,
    Strategy,
    Target,
    Text,
    Wait,
    Waited,
)
from guard.run.opening import NO_REASON, Job, Reason
from guard.run.overlap import NO_LINE
from guard.run.policy import Attempt, Choice, Policy
from guard.run.progress import Progress
from guard.run.release import Release, unverified
from guard.run.votes import Polls

__all__ = ["Job", "Policy", "Run"]

CLIENTS_FAULT: Final = frozenset({400, 413, 422})  # another upstream would say the same
BLANK: Final = 16  # characters of white space around the closing line
_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")


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
        self._limit = min(
            policy.output_tokens, policy.output_tokens if job.max_tokens is None else job.max_tokens
        )
        self._progress = Progress(job.program, job.inputs, job.nonce, tolerant=policy.tolerant)
        self._polls = Polls(policy.votes)
        self._upstream = 0
        self._generation: Generation | None = None
        self._waiting = False
        self._release: Release | None = None  # why the generation is read on unchecked
        self._reason = NO_REASON  # why the last generation was opened
        self._history: list[Attempt] = []
        self._violations: list[Violation] = []
        self._accounts = Accounts()
        self._thoughts = thoughts.Thoughts(policy)
        self._faults = Faults(policy, job.nonce)
        self._generations = self._retries = 0
        self.spent_elsewhere = 0  # tokens of the same budget that other runs have used
        self._started = self._over = False

    def start(self) -> list[Command]:
        """Begin. Raises InvalidState the second time."""
        if self._started:
            raise InvalidState("a run is started once")
        self._started = True
        if self._limit == self._job.max_tokens:  # counting takes an execution
            fewest = self._progress.fewest_lines(written=self._policy.force is Level.VALUES)
            if fewest > self._limit:
                error = endings.too_few_tokens(
                    self._job.program.name, self._limit, fewest, field=self._job.budget_field
                )
                return [self._finish(Outcome.ERROR, error=error)]
        return self._go_on(Strategy.INITIAL)

    def handle(self, event: RunEvent, generation: int = 0) -> list[Command]:
        """Take what happened, return what to do about it.

        `generation` is the one that it happened to; 0 is the one that is open, or none. Raises InvalidState
        for an event that has no place in the state of the run.
        """
        if not self._started or self._over:
            raise InvalidState(f"{event!r} came {'behind the end' if self._over else 'before the start'}")
        if generation and (self._generation is None or self._generation.number != generation):
            raise InvalidState(f"{event!r} came for generation {generation}, which is not open")
        return self._thoughts.in_front(self._handled(event))

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
                return [*self._close_open(Result.CANCELLED), self._finish(Outcome.CANCELLED)]
            case _:
                assert_never(event)

    def deliver_steps(self) -> list[Command]:
        """Hold nothing back any longer, whatever the policy said: give what is verified, and go on so."""
        self._policy = replace(self._policy, deliver="hold_step")
        deciding = self._generation is not None and self._generation.done and not self._progress.answered
        thought = self._thoughts.let_go()
        return [] if self._over else [*thought, *([] if deciding else self._deliver())]

    @property
    def lines(self) -> int:
        """How many lines are verified."""
        return len(self._progress.lines)

    @property
    def releases(self) -> bool:
        """Whether it reads on unchecked, to release what is there."""
        return self._release is not None

    @property
    def spent(self) -> int:
        """The tokens that its generations have written."""
        return self._accounts.completion + (0 if self._generation is None else self._generation.tokens)

    def __repr__(self) -> str:
        state = (
            "over" if self._over else "waiting" if self._waiting else "open" if self._generation else "new"
        )
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
        for piece in _LINES.findall(event.text):
            commands += self._piece(generation, piece)
            if self._generation is not generation:
                return commands
        too_much = generation.tokens > self._left or generation.thought > thoughts.LONGEST
        if too_much and not generation.done:
            commands += self._close_checker(generation, "length")  # the server does not keep to the budget
        return commands

    def _piece(self, generation: Generation, piece: str) -> list[Command]:
        if generation.heeding is not None:
            generation.heeding.read(piece)
        if self._release is not None:
            generation.take(self._release.take(piece))
            return [] if self._release.left else self._let_go(generation, "length")
        return self._behind(generation, piece) if generation.done else self._read(generation, piece)

    def _read(self, generation: Generation, piece: str) -> list[Command]:
        line = generation.line + piece
        generation.take(piece)
        if generation.overlap is None or not generation.overlap.open:
            return self._judged(generation, self._progress.read(piece, generation.given))
        if generation.overlap.waits(line):
            return []
        text = generation.overlap.read(line)
        if isinstance(text, Ignored):
            generation.settled = generation.settled if text.why == NO_LINE else len(generation.text)
            return [Observe(text)]
        self._progress.lend(len(text) - len(line))
        return self._judged(generation, self._progress.read(text, generation.given))

    def _ended(self, event: Ended, generation: Generation) -> list[Command]:
        generation.usage = event.usage
        generation.ended = event.finish_reason or "length"
        if generation.heeding is not None:
            generation.heeding.end(event.finish_reason)
            generation.strays(strayed=event.strayed)
        commands = thoughts.ended(generation, len(self._progress.verified))
        if self._release is not None:
            return commands + self._let_go(generation, generation.ended)
        reason = event.finish_reason
        if reason == "length" and generation.room is not None:
            reason = "stop"  # it had more than the line needs
        if generation.line.strip() and not generation.done and reason == "stop":
            commands += self._read(generation, "\n")
        if self._generation is not generation:
            return commands
        if generation.done or self._at_stop(generation):
            return commands + self._complete(generation)
        return commands + self._close_checker(generation, reason)

    def _close_checker(self, generation: Generation, finish_reason: str | None) -> list[Command]:
        generation.ended = finish_reason or "length"
        if self._release is not None:
            return self._let_go(generation, generation.ended)
        commands: list[Command] = []
        if not generation.line.strip():
            self._progress.rewind()  # the number that it was given is no line of its own
        elif generation.overlap is not None and generation.overlap.open:
            self._progress.read(generation.overlap.cut(generation.line), generation.given)
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
        if self._forcing.refused(generation, error):
            return self._unforced(generation, error)
        self._history.append(replace(generation.attempt(), fault=True))
        clients = isinstance(error, UpstreamStatusError) and error.upstream_status in CLIENTS_FAULT
        further = None if clients else retry.further(self._history, self._forcing.targets)
        pause = self._faults.pause(event, self._upstream, further=further is not None)
        self._progress.rewind()
        closed = self._close(generation, endings.of_fault(error), error=error)
        if self._due != generation.step:
            self._reason = NO_REASON  # it got past the line that it was opened for
        if pause is not None:
            self._waiting = True
            return [closed, Wait(pause)]
        if further is not None:
            self._upstream = further
            return [closed, *self._go_on(Strategy.FALLBACK, reason=self._reason)]
        return [closed, self._finish(Outcome.ERROR, error=self._faults.ending(error))]

    def _unforced(self, generation: Generation, error: UpstreamError) -> list[Command]:
        """Ask for the same without a grammar: it may be for that alone that it was refused."""
        self._history.append(replace(generation.attempt(), fault=True))
        self._progress.rewind()
        closed = self._close(generation, Result.REFUSED, error=error)
        return [closed, *self._go_on(Strategy.UNFORCED, reason=self._reason)]

    def _waited(self, event: Waited) -> list[Command]:
        if not self._waiting:
            raise InvalidState(f"{event!r} came although no wait was asked for")
        self._waiting = False
        return self._go_on(Strategy.TRANSPORT, reason=self._reason)

    def _out_of_time(self) -> list[Command]:
        generation = self._generation
        if generation is not None and generation.done:
            return self._complete(generation)
        if generation is not None and self._release is not None:
            return self._let_go(generation, "length", Result.TIMEOUT)
        closed = self._close_open(Result.TIMEOUT)
        error = endings.out_of_time(self._job.program.name, self._due, self._policy.seconds)
        return [*closed, self._finish(Outcome.ERROR, error=error)]

    # --- what it means ---------------------------------------------------------------------------

    def _judged(self, generation: Generation, judgements: list[Judgement]) -> list[Command]:
        """Draw the consequences of what the checker made of a line, or of the end."""
        violation = next((j for j in judgements if isinstance(j, Violation)), None)
        if any(isinstance(j, StepVerified) for j in judgements):
            generation.settled = len(generation.text)
        settled: list[Command] = [Observe(j) for j in judgements if not isinstance(j, Violation)]
        if self._progress.answered:
            generation.done = True
        elif violation is not None:
            return [*settled, Observe(violation), *self._violated(generation, violation)]
        elif self._progress.failed is not None:
            return settled + self._procedure_failed(generation)
        elif (generation.cut and self._at_stop(generation)) or self._polls.wants(self._progress):
            generation.done = True
            return settled  # delivered when it is known that the procedure does not fail behind it
        return settled + self._deliver()

    def _at_stop(self, generation: Generation) -> bool:
        """Whether the last line is the last one that the generation was opened for."""
        lines = self._progress.lines
        if generation.one_line:
            return len(lines) > generation.since  # of steps in any order it may be another one
        return bool(lines) and lines[-1].step.path == generation.stop

    def _behind(self, generation: Generation, piece: str) -> list[Command]:
        """Take text behind all that a generation was opened for."""
        tail = generation.tail + piece
        closing = self._progress.end if self._progress.answered else ""
        if closing.startswith(tail.strip()) and len(tail) <= len(closing) + BLANK:
            generation.tail, generation.closing = tail, len(tail)
            return []
        ignored = Ignored(text=tail, at=len(self._progress.verified), why="behind all that was asked for")
        return [Observe(ignored), *self._complete(generation)]

    def _complete(self, generation: Generation) -> list[Command]:
        """Close a generation that did what it was opened for."""
        self._progress.rewind()
        generation.vote = self._polls.wants(self._progress)
        again = generation.vote and not self._polls.count(self._progress)
        self._remember(generation.attempt())
        result = Result.PASSED if self._progress.answered else Result.DECIDED
        one_by_one = generation.one_line and self._policy.force is not Level.VALUES
        further = Strategy.LINE if one_by_one else Strategy.DECISION
        return [self._close(generation, result), *self._go_on(Strategy.VOTE if again else further)]

    def _remember(self, attempt: Attempt) -> None:
        """Remember a generation that did what it was opened for; of lines in a row the last one will do."""
        if self._history and self._history[-1].is_plain and attempt.is_plain:
            self._history.pop()
        self._history.append(attempt)

    def _violated(self, generation: Generation, violation: Violation) -> list[Command]:
        self._violations.append(violation)
        if generation.ignored:
            generation.given = frozenset()
        self._progress.rewind()
        if not generation.ended:
            left = self._progress.steps_to(generation.stop) if generation.stop else None
            generation.cut_short = Cut(lines=len(self._progress.lines), left=left)
        due = self._progress.expected
        assert due is not None, "a violation behind the answer is none"
        cell = scaffold_cell(due, violation.cell)
        attempt = generation.failed(violation, due, delivered=self._progress.delivered > 0, cell=cell)
        written = self._progress.lines or unverified(generation, self._progress.verified).strip()
        self._history.append(replace(attempt, written=bool(written)))
        choice = self._decide(generation)
        if choice.action is Action.RELEASE:
            self._release = Release(violation=violation, why=choice.reason)
            return self._let_go(generation, generation.ended) if generation.ended else []
        if choice.action is Action.RESTART:
            self._restart()
        closed = self._close(generation, Result.VIOLATION)
        return [closed, *self._act(choice, violation, cell)]

    def _restart(self) -> None:
        self._progress.restart()
        self._polls.forget()

    def _decide(self, generation: Generation | None) -> Choice:
        """Ask the policy, `generation` being the one that is still to be closed."""
        left = self._left - (generation.cost.completion if generation is not None else 0)
        barred = f"all {self._limit} tokens are spent" if left <= 0 else ""
        return retry.decide(self._policy, self._history, upstreams=self._forcing.targets, barred=barred)

    def _act(self, choice: Choice, violation: Violation, cell: int | None) -> list[Command]:
        match choice.action:
            case Action.REJECT if choice.barred:
                return [self._out_of_tokens()]
            case Action.REJECT:
                return [self._reject(violation, choice.reason)]
            case Action.REPAIR:
                return self._repair(all_known=choice.rest)
            case _:
                mistake = (violation.kind, self._history[-1].failed_at)
                return self._ask_again(choice, mistake, cell)

    def _ask_again(self, choice: Choice, mistake: tuple[Kind, str], cell: int | None = None) -> list[Command]:
        """Open the generation that the policy has chosen."""
        if choice.upstream is not None:
            self._upstream = choice.upstream
        reason = Reason(
            cell=cell if choice.action is Action.SCAFFOLD else None,
            violation=mistake if choice.action is Action.FEEDBACK else None,
        )
        return self._go_on(Strategy(choice.action.value), counted=choice.counted, reason=reason)

    def _repair(self, *, all_known: bool) -> list[Command]:
        """Write the line that is due, or all that are known, in the guard's hand."""
        commands = self._write(StepClass.REPAIRED, only_one=not all_known)
        return commands + self._go_on(Strategy.REPAIR)

    def _procedure_failed(self, generation: Generation | None) -> list[Command]:
        """Ask again for the last decision that is still ours to change, or give up."""
        failed = self._progress.failed
        assert failed is not None
        if generation is not None:
            self._history.append(generation.attempt())
        choice = self._blame_decision(generation)
        again = choice is not None and choice.action in GENERATING
        commands = [] if generation is None else [self._close(generation, Result.DECIDED)]
        if choice is not None and again:
            return commands + self._ask_again(choice, (Kind.INADMISSIBLE_VALUE, self._history[-1].failed_at))
        why = "no decision of the model's can still be asked for again" if choice is None else choice.reason
        error = endings.procedure_failed(self._job.program.name, failed, why)
        return [*commands, self._finish(Outcome.REJECTED, error=error)]

    def _blame_decision(self, generation: Generation | None) -> Choice | None:
        """Choose how to ask again for the last decision, and go back to it; None: there is none."""
        last = self._progress.last_decided()
        if last is None:
            return None
        step = self._progress.lines[last].step
        self._history[-1] = retry.blamed(
            self._history[-1],
            step=step.path,
            kind=step.kind,
            value=repr(step.value),
            delivered=self._progress.delivered > 0,
        )
        choice = self._decide(generation)
        if choice.action is Action.RESTART:
            self._restart()
        elif choice.action in GENERATING:
            struck = self._polls.strike(self._progress.lines[last])
            if struck is not None:
                return replace(choice, action=Action.REJECT, reason=struck)
            self._progress.rewind(last)
        return choice

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
        closed = self._close(generation, result, error=error, kept=len(generation.text))
        delivered = self._progress.deliver()
        finish = self._finish(Outcome.RELEASED, finish_reason=finish_reason)
        lines = "".join(line.step.text for line in self._progress.lines)
        return [closed, *delivered, self._release.finish(finish, self._job.program, text, lines)]

    # --- what to do ------------------------------------------------------------------------------

    def _go_on(
        self, strategy: Strategy, *, counted: bool = False, reason: Reason = NO_REASON
    ) -> list[Command]:
        """Open the next generation, or finish where there is nothing left to ask for."""
        commands: list[Command] = []
        self._polls.settle(self._progress)
        if self._policy.force is Level.VALUES:
            commands += self._write(StepClass.COMPUTED)
        elif self._by_lines(strategy):
            while (due := self._progress.expected) is not None and is_given(due):
                commands += map(Observe, self._progress.write(StepClass.SCAFFOLDED))
        if self._progress.failed is not None:
            return commands + self._procedure_failed(None)
        commands += self._deliver()
        if self._progress.answered:
            return commands + self._answer()
        if self._left <= 0:
            return [*commands, self._out_of_tokens()]
        return [*commands, self._open(strategy, counted=counted, reason=reason)]

    def _by_lines(self, strategy: Strategy) -> bool:
        """Whether the next generation is for one line, as far as that is known before it is opened."""
        held = self._forcing.targets[self._upstream], self._policy.force, self._policy.force_by
        return can(*held) if strategy is Strategy.LINE else must(*held)

    def _write(self, step_class: StepClass, *, only_one: bool = False) -> list[Command]:
        commands: list[Command] = []
        while (due := self._progress.expected) is not None and due.known:
            commands += map(Observe, self._progress.write(step_class))
            if only_one:
                break
        return commands

    def _deliver(self) -> list[Command]:
        if self._policy.deliver == "hold_all":
            return []
        if self._job.whole:
            self._progress.settle()
            return []
        return list(self._progress.deliver())

    def _open(self, strategy: Strategy, *, counted: bool, reason: Reason) -> Open:
        self._generations += 1
        self._retries += counted
        self._reason = reason
        self._progress.writer = self._generations
        following = Next(
            number=self._generations,
            attempt=1 + self._retries,
            upstream=self._upstream,
            strategy=strategy,
            counted=counted,
            reason=reason,
            max_tokens=self._left,
            first=not self._violations,
        )
        self._generation, command = ask(
            self._job,
            self._policy,
            self._progress,
            self._forcing.targets,
            history=self._history,
            following=following,
        )
        self._forcing.opened(self._generation)
        return command

    def _close_open(self, result: Result) -> list[Command]:
        self._waiting = False
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
        discarded = self._accounts.enter(generation, self._progress.lines, kept=kept)
        if result is Result.VIOLATION and self._left <= 0:
            result = Result.BUDGET_EXHAUSTED
        cost = generation.cost
        return Close(
            generation=generation.number,
            result=result,
            usage=cost,
            discarded=discarded,
            error=error,
            ignored=generation.ignored,
        )

    def _answer(self) -> list[Command]:
        self._progress.close_frame()
        classes = {line.step_class for line in self._progress.lines}
        outcome = endings.of_answer(classes, retried=self._retries > 0, fallen_back=self._upstream > 0)
        return [*self._progress.deliver(), self._finish(outcome)]

    def _reject(self, violation: Violation, why: str) -> Finish:
        error = endings.rejected(self._job.program.name, violation.kind, violation.step, why)
        return self._finish(Outcome.REJECTED, error=error)

    def _out_of_tokens(self) -> Finish:
        clients = self._limit < self._policy.output_tokens
        error = endings.out_of_tokens(
            self._job.program.name,
            self._due,
            self._limit,
            field=self._job.budget_field if clients else None,
        )
        return self._finish(Outcome.REJECTED, error=error, finish_reason="length")

    def _finish(
        self, outcome: Outcome, *, error: RunError | None = None, finish_reason: str = "stop"
    ) -> Finish:
        self._over = True
        end, answer = self._progress.answer if outcome in endings.ACCEPTED else (None, None)
        served = self._progress.delivered_lines if answer is None else self._progress.lines
        return Finish(
            outcome=outcome,
            end=end,
            answer=answer,
            trace=self._progress.trace,
            attempts=1 + self._retries if self._generations else 0,
            generations=self._generations,
            violations=tuple(self._violations),
            steps=self._progress.counts,
            usage=self._accounts.usage,
            error=error,
            reason=endings.reason(outcome, error),
            finish_reason=finish_reason,
            classes=self._progress.classes,
            votes=self._polls.report,
            discarded=self._accounts.discarded(
                served, answered=answer is not None, released=outcome is Outcome.RELEASED
            ),
            saved=self._accounts.saved(self._progress),
            forced=self._forcing.level,
        )

    # --- what is known ---------------------------------------------------------------------------

    @property
    def _due(self) -> str:
        """The path of the first step that is not verified."""
        due = self._progress.expected
        return due.path if due is not None else ""

    @property
    def _left(self) -> int:
        """The tokens that may still be written."""
        return self._limit - self.spent_elsewhere - self._accounts.completion

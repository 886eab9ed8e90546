"""Measures a model with short requests of known answers: the real run, the real prompt, a live upstream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from random import Random
from time import perf_counter
from typing import Final

from guard.bench.measured import Abilities, Measured, Seen, Try, Way
from guard.bench.player import Pace
from guard.bench.tasks import TASKS, Instance, Task, instances
from guard.check.verdict import Judgement, Kind, StepVerified, Violation
from guard.dialect.lark import Level
from guard.engine import drive
from guard.errors import InvalidState, UpstreamStatusError
from guard.procedure.values import equal
from guard.run.ladders import Action, Rung, always
from guard.run.messages import Close, Ended, Finish, Message, Open, Strategy, Text
from guard.run.policy import ForceBy, Policy
from guard.run.run import Run
from guard.telemetry.observer import Observer, RunInfo, RunObserver
from guard.upstream.abilities import CONTINUATIONS, GRAMMARS, ODD, SHORT, Ability, NoClient, goes_on
from guard.upstream.base import ClientCall, Passage, PassageAnswer, Upstream
from guard.upstream.proven import ProvenUpstream

RUNS: Final = 5  # of each task, at each level
RETRIES: Final = 2  # of one line, before its operands are given
ATTEMPTS: Final = 12  # of one request, at wrong lines
TRANSPORT: Final = 2  # further ones of one request where the network fails
TOKENS: Final = 1_500  # of one request
SECONDS: Final = 120.0  # for one request


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured."""

    model: str
    runs: int = RUNS
    seed: int = 1
    tasks: tuple[Task, ...] = TASKS

    def ways(self, *, grammar: bool, prefill: bool) -> tuple[tuple[Level, ForceBy], ...]:
        """Say what is tried: operands are given in prefixes or in a grammar, where the server can."""
        nothing, lines = (Level.NONE, ForceBy.GRAMMAR), (Level.OPERANDS, ForceBy.LINES)
        forced = (Level.OPERANDS, ForceBy.GRAMMAR)
        return (nothing, *((lines,) if prefill else ()), *((forced,) if grammar else ()))

    def most_requests(self, *, grammar: bool, prefill: bool) -> int:
        """Count the requests there may be: a line may be written by the guard, and the model goes on."""
        drawn = list(instances(self.tasks, self.runs, Random(self.seed)))  # noqa: S311 (a draw, no secret)
        one_level = sum(1 + ATTEMPTS + TRANSPORT + len(instance.steps) for instance in drawn)
        return len(CONTINUATIONS) + 2 + one_level * len(self.ways(grammar=grammar, prefill=prefill))


Progress = Callable[[int, int], None]  # requests for procedures that are answered, of how many


async def probe(upstream: Upstream, plan: Plan, progress: Progress = lambda _done, _of: None) -> Measured:
    """Measure a model. Raises `UpstreamError` where the server cannot be used; nothing is left open then."""
    stopwatch = Stopwatch(upstream)
    proven = ProvenUpstream(stopwatch)  # what the server does with a bad grammar was asked beside it
    abilities = await _abilities(stopwatch, plan)
    offered = upstream.target.dialect is not None
    ways = plan.ways(
        grammar=offered and abilities.grammar is Ability.WORKS,
        prefill=upstream.target.prefill and abilities.prefill is Ability.WORKS,
    )
    total = len(ways) * plan.runs * len(plan.tasks)
    seen: list[Seen] = []
    lines = 0
    stopwatch.forget()
    for level, by in ways:
        tries: list[Try] = []
        random = Random(plan.seed)  # noqa: S311 (a draw, no secret)
        for done, instance in enumerate(instances(plan.tasks, plan.runs, random)):
            progress(len(seen) * plan.runs * len(plan.tasks) + done, total)
            tries += await _tries(proven, instance, calibration(level, by), plan)
        lines += len(tries)
        seen.append(Seen(level=level, tries=tuple(tries), by=by))
    progress(total, total)
    return Measured(
        upstream=upstream.target.name,
        model=plan.model,
        abilities=abilities,
        seen=tuple(seen),
        first_s=stopwatch.first_s,
        tokens_per_s=stopwatch.tokens_per_s,
        line_tokens=max(1, round(stopwatch.tokens / max(1, lines))),
        requests=stopwatch.all_requests,
        tokens=stopwatch.all_tokens,
        prefill=upstream.target.prefill,
    )


# --- what the server can do ----------------------------------------------------------------------


async def _abilities(upstream: Stopwatch, plan: Plan) -> Abilities:
    ask = _Asking(upstream, plan.model)
    continued = False
    reported = False
    for question, begun, then in CONTINUATIONS:
        answer = await ask.short(question, begun=begun)
        continued = continued or goes_on(answer.text, then)
        reported = reported or answer.reported
    grammar = bad = Ability.UNTRIED
    if upstream.target.dialect is not None:
        odd, none = GRAMMARS[upstream.target.dialect]
        grammar, bad = await ask.grammar(odd), await ask.grammar(none)
    return Abilities(
        prefill=Ability.WORKS if continued else Ability.IGNORED,
        grammar=grammar,
        bad_grammar=bad,
        stream_options=Ability.WORKS if reported else Ability.IGNORED,
    )


@dataclass(frozen=True, slots=True)
class _Answer:
    text: str
    reported: bool  # the server said how many tokens it were


@dataclass(frozen=True, slots=True)
class _Asking:
    upstream: Upstream
    model: str

    async def grammar(self, grammar: str) -> Ability:
        """Ask for something, and see whether the grammar made it something else."""
        try:
            answer = await self.short("Say hello.", grammar=grammar)
        except UpstreamStatusError:
            return Ability.REFUSED
        return Ability.WORKS if ODD in answer.text else Ability.IGNORED

    async def short(self, question: str, *, begun: str = "", grammar: str | None = None) -> _Answer:
        """Ask for a few tokens; what was `begun` is sent as an assistant's message, whatever the server."""
        messages: list[Message] = [{"role": "user", "content": question}]
        prefix = begun if self.upstream.target.prefill else ""
        if begun and not prefix:
            messages.append({"role": "assistant", "content": begun})
        command = Open(
            generation=1,
            attempt=1,
            upstream=self.upstream.target.name,
            strategy=Strategy.INITIAL,
            messages=tuple(messages),
            prefix=prefix,
            grammar=grammar,
            max_tokens=SHORT,
            temperature=0.0,
            model=self.model,
        )
        text, tokens, reported = "", 0, False
        async with aclosing(self.upstream.stream(command, client=NoClient())) as pieces:
            async for piece in pieces:
                match piece:
                    case Text():
                        text += piece.text
                        tokens += piece.tokens
                    case Ended(usage=usage):
                        reported = usage is not None and not usage.estimated
                if tokens > 4 * SHORT:  # it does not keep to the budget
                    break
        return _Answer(text.removeprefix(begun), reported)


# --- how well the model does -----------------------------------------------------------------------


def calibration(level: Level, by: ForceBy = ForceBy.GRAMMAR) -> Policy:
    """Give the policy that measures: a wrong line is tried again, scaffolded, and then repaired."""
    ladder = (Rung(Action.RESUME, RETRIES), Rung(Action.SCAFFOLD, 1), Action.REPAIR, Action.REJECT)
    return Policy(
        attempts=ATTEMPTS,
        transport_retries=TRANSPORT,
        rules=always(ladder),
        force=level,
        force_by=by,
        output_tokens=TOKENS,
        seconds=SECONDS,
        deliver="hold_all",
    )


async def _tries(upstream: Upstream, instance: Instance, policy: Policy, plan: Plan) -> Sequence[Try]:
    """Carry one request out; give the lines that the model wrote."""
    target = upstream.target.asked_for(plan.model)
    gauge = Gauge(instance)
    program = instance.job.program
    info = RunInfo(
        procedure=program.name,
        version=program.version,
        digest=program.digest,
        audit_id=instance.job.nonce,
        mode="enforce",
        stream=False,
        model=plan.model,
    )
    run = Run(instance.job, policy, [target])
    names = {target.name: upstream}
    steps = drive(run, names, _One(gauge), info, client=NoClient(), seconds=policy.seconds)
    async with aclosing(steps) as commands:
        async for command in commands:
            if isinstance(command, Finish) and command.error is not None:
                if command.error.cause is not None:
                    raise command.error.cause
                if command.error.code == "internal_error":
                    raise InvalidState(f"a run of {program.name} failed; the log says why")
    return gauge.tries


class _One(Observer):
    """Hears one run."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge

    def run_started(self, info: RunInfo) -> RunObserver:  # noqa: ARG002
        return self._gauge


class Gauge(RunObserver):
    """Hears which lines a model wrote in a run, and how they came out."""

    def __init__(self, instance: Instance) -> None:
        self.tries: list[Try] = []
        self._instance = instance
        self._open: Open | None = None
        self._verified = 0

    def opened(self, command: Open) -> None:
        """See `RunObserver`."""
        self._open = command

    def closed(self, command: Close) -> None:  # noqa: ARG002 (any end will do)
        """See `RunObserver`: what is verified from here to the next generation, the guard wrote."""
        self._open = None

    def observed(self, judgement: Judgement, generation: int = 0) -> None:  # noqa: ARG002 (one at a time)
        """See `RunObserver`."""
        match judgement:
            case StepVerified(path=path, decided=decided, value=value):
                right = self._instance.value(path)
                self._tried(path, right=not decided or (right is not None and equal(value, right)))
                self._verified += 1
            case Violation(kind=kind) if kind is not Kind.TRUNCATED:  # which no model is to blame for
                steps = self._instance.steps
                due, _ = steps[min(self._verified, len(steps) - 1)]
                self._tried(due.path, right=False, kind=kind)
            case _:
                pass

    def _tried(self, path: str, *, right: bool, kind: Kind | None = None) -> None:
        if self._open is not None:
            way = _WAYS.get(self._open.strategy, Way.FIRST) if path == self._open.resume_from else Way.FIRST
            self.tries.append(Try(skill=self._instance.skill(path), way=way, right=right, kind=kind))


_WAYS: Final = {Strategy.RESUME: Way.RETRY, Strategy.SCAFFOLD: Way.SCAFFOLD}


class Stopwatch:
    """An upstream that is timed: how long until something is said, and how fast it goes on then."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self.target = upstream.target
        self.requests = self.tokens = 0
        self.all_requests = self.all_tokens = 0
        self._waited = self._spoke = 0.0

    def forget(self) -> None:
        """Begin anew with the times, but not with what was spent."""
        self.requests = self.tokens = 0
        self._waited = self._spoke = 0.0

    @property
    def first_s(self) -> float:
        """The mean time to a first token."""
        return self._waited / self.requests if self.requests else Pace().first_s

    @property
    def tokens_per_s(self) -> float:
        """The tokens that come in a second, once the first one is there."""
        behind = self.tokens - self.requests
        return behind / self._spoke if behind > 0 and self._spoke > 0 else Pace().tokens_per_s

    async def start(self) -> None:
        """Start the upstream."""
        await self._upstream.start()

    async def close(self) -> None:
        """Close the upstream."""
        await self._upstream.close()

    def forward(self, request: Passage, *, client: ClientCall) -> AbstractAsyncContextManager[PassageAnswer]:
        """Pass a request on, untimed."""
        return self._upstream.forward(request, client=client)

    async def stream(self, command: Open, *, client: ClientCall) -> AsyncGenerator[Text | Ended]:
        """Open a generation and time it."""
        self.all_requests += 1
        started = perf_counter()
        first = last = None
        tokens = 0
        try:
            async with aclosing(self._upstream.stream(command, client=client)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Text):
                        last = perf_counter()
                        first = first or last
                        tokens += piece.tokens
                    elif piece.usage is not None and not piece.usage.estimated:
                        tokens = piece.usage.completion
                    yield piece
        finally:
            self.all_tokens += tokens
            if first is not None and last is not None:
                self.requests += 1
                self.tokens += tokens
                self._waited += first - started
                self._spoke += last - first

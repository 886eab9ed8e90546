"""Prometheus: what the endpoint did, as counters and histograms in a registry of its own.

Label values come from closed sets, never from a client: unknown models count as `other`, requests
without a procedure as `(none)`. Every combination of a procedure's closed sets exists from the start
with 0, so that the first failure is visible to `rate()`; its children are looked up once and kept.
"""

from __future__ import annotations

import platform
import re
from collections import Counter as Tally
from collections.abc import Collection, Iterable, Mapping
from itertools import product
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from guard.check.report import StepCounts
from guard.check.verdict import Judgement, Kind, Violation
from guard.dialect.line import Level
from guard.procedure.model import StepKind
from guard.run.messages import (
    Close,
    Emit,
    Finish,
    Margin,
    Open,
    Outcome,
    Result,
    StepClass,
    Strategy,
    Usage,
)
from guard.telemetry.observer import (
    CLIENT_GONE,
    Observation,
    Observed,
    Observer,
    Refusal,
    RunInfo,
    RunObserver,
    Stage,
)

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

NO_PROCEDURE: Final = "(none)"  # no name: parentheses cannot occur in one
NO_STEP: Final = "none"
OTHER: Final = "other"
MAX_CODES: Final = 100  # different values of `code`; more are folded into `other`

# What requests without a procedure can come to.
UNBOUND: Final = (Outcome.PASSTHROUGH, Outcome.ERROR, Outcome.CANCELLED)

# Outcomes after which a step that is missing is nobody's infidelity: the run was stopped from outside.
STOPPED: Final = frozenset({Outcome.ERROR, Outcome.CANCELLED})

TOKEN_TYPES: Final = ("input", "output")
LOOSENED: Final = (Level.OPERANDS, Level.SHAPE, Level.NONE)
VOTES: Final = ("agreed", "outvoted")
SUPPORT: Final = ("supported", "unsupported")
DISPOSITIONS: Final = ("delivered", "discarded")
SOURCES: Final = ("reported", "estimated")
SPARED: Final = ("breaker", "budget")  # why an upstream was not asked
BREAKER_STATES: Final = ("closed", "half_open", "open")
MODES: Final = ("enforce", "observe")
ANSWERS: Final = ("right", "wrong", "none", "unknown")

# How steps can end that were asked for by themselves.
ISOLATED: Final = (StepClass.SCAFFOLDED, StepClass.MODEL_DECIDED)

# How steps can end that nobody forced.
UNFORCED: Final = (StepClass.VERIFIED, StepClass.MODEL_DECIDED, StepClass.MISSING)

SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640)
SHARES: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
OVERHEAD_SECONDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1)

PASSES: Final = re.compile(r"\[[0-9]+\]")


class _Children(dict[tuple[str, ...], Counter]):
    """The children of a counter whose first label is fixed: made at their first use, then kept."""

    def __init__(self, family: Counter, first: str, closed: Iterable[tuple[str, ...]]) -> None:
        super().__init__()
        self._family, self._first = family, first
        for rest in closed:
            self[rest]  # creates it with 0

    def __missing__(self, rest: tuple[str, ...]) -> Counter:
        child = self[rest] = self._family.labels(self._first, *rest)
        return child


class _Procedure:
    """What is counted for one procedure; without `kinds`, for requests that have none."""

    def __init__(self, metrics: Metrics, name: str, kinds: Collection[StepKind] = ()) -> None:
        outcomes = tuple(Outcome) if kinds else UNBOUND
        strategies = tuple(Strategy) if kinds else ()
        modes = MODES if kinds else ()
        blamed = (*sorted(set(kinds)), NO_STEP) if kinds else ()
        self.requests = _Children(metrics.requests, name, product(outcomes))
        self.attempts = _Children(metrics.attempts, name, product(strategies, Result))
        enforced = product(sorted(set(kinds)), StepClass, MODES[:1])
        self.steps = _Children(
            metrics.steps, name, (*enforced, *product(sorted(set(kinds)), UNFORCED, MODES[1:]))
        )
        alone = product(sorted(set(kinds)), ISOLATED)
        self.isolated = _Children(metrics.isolated, name, alone)
        self.decisions = _Children(metrics.decisions, name, product(SUPPORT if kinds else (), modes))
        self.violations = _Children(metrics.violations, name, product(Kind, blamed, modes))
        self.observed = _Children(metrics.observed, name, product(Observed) if kinds else ())
        self.answers = _Children(metrics.answers, name, product(ANSWERS) if kinds else ())
        self.answer_position = metrics.answer_position.labels(name) if kinds else None
        self.votes = _Children(metrics.votes, name, product(VOTES if kinds else ()))
        self.voted = _Children(metrics.voted, name, product(Margin if kinds else ()))
        self.loosened = _Children(metrics.loosened, name, product(LOOSENED if kinds else ()))
        self.saved = metrics.saved.labels(name)
        self.duration = metrics.duration.labels(name)
        self.first_step = metrics.first_step.labels(name)

    def count_decisions(self, steps: StepCounts, mode: str) -> None:
        """Count the steps that the model decided."""
        self.decisions["supported", mode].inc(steps.supported)
        self.decisions["unsupported", mode].inc(steps.unsupported)


class Metrics(Observer):
    """Counts what it hears; `render` gives the text that Prometheus scrapes.

    `procedures` are the names that can be bound, each with the kinds of its steps; `models` the models
    that upstreams are configured with, `upstreams` their names.
    """

    def __init__(
        self,
        procedures: Mapping[str, Collection[StepKind]],
        *,
        models: Collection[str],
        version: str,
        upstreams: Collection[str] = (),
    ) -> None:
        # Process-wide, and harmless: creation times would double the number of series.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._declare_runs()
        self._declare_observations()
        self._declare_service(version)
        self._declare_upstreams(upstreams)
        self._models = frozenset(models)
        self._codes: set[str] = set()
        self._tokens = self._token_children()
        models = (*self._models, OTHER)
        self._thoughts = {name: _Children(self.reasoning, name, product(SOURCES)) for name in models}
        self._procedures = {name: _Procedure(self, name, kinds) for name, kinds in procedures.items()}
        self._unbound = _Procedure(self, NO_PROCEDURE)
        self._stages = {stage: self.overhead_seconds.labels(stage) for stage in Stage}

    def _declare_runs(self) -> None:
        self.requests = self._counter(
            "stepguard_requests", "Requests, by what they came to.", "procedure", "outcome"
        )
        self.attempts = self._counter(
            "stepguard_attempts",
            "Upstream generations, by why they were opened and what became of them.",
            "procedure",
            "strategy",
            "result",
        )
        self.loosened = self._counter(
            "stepguard_grammar_loosened",
            "Generations whose grammar could not be written at the level asked for, by the level it had.",
            "procedure",
            "level",
        )
        self.steps = self._counter(
            "stepguard_steps",
            "Expected steps of finished runs, by how each ended; missing ones not where a run was stopped"
            " by an error or its client.",
            "procedure",
            "step_kind",
            "verdict",
            "mode",
        )
        self.decisions = self._counter(
            "stepguard_decisions",
            "Steps of finished runs that the model decided, by whether its quotes had to say the value.",
            "procedure",
            "support",
            "mode",
        )
        self.violations = self._counter(
            "stepguard_violations",
            "Departures from the procedure, over all attempts.",
            "procedure",
            "violation",
            "step_kind",
            "mode",
        )
        self.tokens = self._counter(
            "stepguard_tokens",
            "Tokens of upstream generations of finished runs; discarded ones served no client.",
            "model",
            "token_type",
            "disposition",
            "source",
        )
        self.reasoning = self._counter(
            "stepguard_reasoning_tokens",
            "Those of the output tokens of stepguard_tokens that were thoughts.",
            "model",
            "source",
        )

        self.saved = self._counter(
            "stepguard_tokens_saved",
            "Output tokens that finished runs did not generate because a violation cut them, estimated.",
            "procedure",
        )
        self.votes = self._counter(
            "stepguard_votes",
            "Votes of finished runs on what the model decides: whether they were for the value that leads.",
            "procedure",
            "vote",
        )
        self.voted = self._counter(
            "stepguard_voted_steps",
            "Steps of finished runs that were put to the vote, by how it was settled.",
            "procedure",
            "margin",
        )

        self.isolated = self._counter(
            "stepguard_isolated_steps",
            "Steps of finished runs that were asked for by themselves, without the trace, by how they ended.",
            "procedure",
            "step_kind",
            "step_class",
        )

    def _declare_observations(self) -> None:
        self.observed = self._counter(
            "stepguard_observed",
            "Requests in mode observe, by what the look at them came to.",
            "procedure",
            "result",
        )
        self.answers = self._counter(
            "stepguard_observed_answers",
            "Answers that were checked in mode observe, by how the last of each text compares with the"
            " procedure's.",
            "procedure",
            "answer",
        )
        self.answer_position = self._histogram(
            "stepguard_observed_answer_position",
            "Where the first answer stands in a text that was checked in mode observe, as a share of it.",
            SHARES,
            "procedure",
        )

    def _declare_service(self, version: str) -> None:
        self.overhead_seconds = self._histogram(
            "stepguard_overhead_seconds",
            "Time of our own in a request, by stage.",
            OVERHEAD_SECONDS,
            "stage",
        )
        self.duration = self._histogram(
            "stepguard_request_duration_seconds",
            "From the request that was read to the end of its answer.",
            SECONDS,
            "procedure",
        )
        self.first_step = self._histogram(
            "stepguard_time_to_first_step_seconds",
            "From the request that was read to the first verified step that left.",
            SECONDS,
            "procedure",
        )
        self.refused = self._counter(
            "stepguard_requests_refused", "Requests that got an error and had no run, by its code.", "code"
        )
        self.observer_failures = self._counter(
            "stepguard_observer_failures", "Exceptions of what listens to the endpoint.", "observer"
        )
        build = Gauge("stepguard_build_info", "1.", ("version", "python"), registry=self.registry)
        build.labels(version, platform.python_version()).set(1)
        ProcessCollector(registry=self.registry)

    def _declare_upstreams(self, upstreams: Collection[str]) -> None:
        self.spared = self._counter(
            "stepguard_upstream_spared",
            "Generations that were not opened: the upstream failed, or its retries were spent.",
            "upstream",
            "reason",
        )
        self.breaker = Gauge(
            "stepguard_upstream_breaker",
            "1 for the state that the circuit breaker of an upstream is in.",
            ("upstream", "state"),
            registry=self.registry,
        )
        self.grammar_refused_total = self._counter(
            "stepguard_grammar_refused",
            "Requests that an upstream took only without their grammar.",
            "upstream",
        )
        self.grammar_ignored = self._counter(
            "stepguard_grammar_ignored",
            "Generations that wrote what the grammar forbids that was sent with them.",
            "upstream",
        )
        for upstream in upstreams:
            self.grammar_refused_total.labels(upstream)
            self.grammar_ignored.labels(upstream)
            for reason in SPARED:
                self.spared.labels(upstream, reason)
            self.breaker_changed(upstream, "closed")

    def _counter(self, name: str, help: str, *labels: str) -> Counter:  # noqa: A002 (Prometheus' word)
        return Counter(name, help, labels, registry=self.registry)

    def _histogram(
        self,
        name: str,
        help: str,  # noqa: A002 (Prometheus' word)
        buckets: tuple[float, ...],
        label: str,
    ) -> Histogram:
        return Histogram(name, help, (label,), buckets=buckets, registry=self.registry)

    def _token_children(self) -> dict[str, _Children]:
        closed = tuple(product(TOKEN_TYPES, DISPOSITIONS, SOURCES))
        return {model: _Children(self.tokens, model, closed) for model in (*self._models, OTHER)}

    def run_started(self, info: RunInfo) -> RunObserver:
        """See `Observer`."""
        procedure = self._procedures.get(info.procedure, self._unbound)
        if info.mode == "observe":
            return _ObservedMetrics(procedure, info.step_kinds)
        return _RunMetrics(self, procedure, info.step_kinds)

    def request_refused(self, refusal: Refusal) -> None:
        """See `Observer`: counts as an `error`, or as `cancelled` by its client, and by its code."""
        procedure = self._procedures.get(refusal.procedure or "", self._unbound)
        gone = refusal.status == CLIENT_GONE
        procedure.requests[Outcome.CANCELLED if gone else Outcome.ERROR,].inc()
        if refusal.code in self._codes or len(self._codes) < MAX_CODES:
            self._codes.add(refusal.code)
            self.refused.labels(refusal.code).inc()
        else:
            self.refused.labels(OTHER).inc()

    def passthrough(self, *, status: int, duration_s: float) -> None:  # noqa: ARG002 (the upstream's affair)
        """See `Observer`."""
        self._unbound.requests[Outcome.PASSTHROUGH,].inc()
        self._unbound.duration.observe(duration_s)

    def upstream_spared(self, upstream: str, reason: str) -> None:
        """See `Observer`."""
        self.spared.labels(upstream, reason).inc()

    def breaker_changed(self, upstream: str, state: str) -> None:
        """See `Observer`."""
        for known in BREAKER_STATES:
            self.breaker.labels(upstream, known).set(known == state)

    def grammar_refused(self, upstream: str) -> None:
        """See `Observer`."""
        self.grammar_refused_total.labels(upstream).inc()

    def overhead(self, stage: Stage, seconds: float) -> None:
        """See `Observer`."""
        self._stages[stage].observe(seconds)

    def observer_failed(self, name: str) -> None:
        """See `Observer`."""
        self.observer_failures.labels(name).inc()

    def count_tokens(self, model: str, usage: Usage, discarded: int) -> None:
        """Count one generation, `discarded` of whose output tokens served no client.

        Its input counts as discarded where all of its output does.
        """
        name = model if model in self._models else OTHER
        children = self._tokens[name]
        source = "estimated" if usage.estimated else "reported"
        thought = "estimated" if usage.reasoning_estimated else "reported"
        self._thoughts[name][thought,].inc(usage.reasoning)
        delivered = max(usage.completion - discarded, 0)
        children["input", "delivered" if delivered else "discarded", source].inc(usage.prompt)
        children["output", "delivered", source].inc(delivered)
        children["output", "discarded", source].inc(usage.completion - delivered)

    def render(self) -> bytes:
        """Everything counted so far, in Prometheus' text format (`CONTENT_TYPE`)."""
        return generate_latest(self.registry)


class _RunMetrics(RunObserver):
    __slots__ = ("_delivered", "_generations", "_kinds", "_metrics", "_opened", "_procedure")

    def __init__(self, metrics: Metrics, procedure: _Procedure, kinds: Mapping[str, StepKind]) -> None:
        self._metrics, self._procedure, self._kinds = metrics, procedure, kinds
        self._opened: dict[int, tuple[Strategy, str, str]] = {}
        self._generations: list[tuple[int, str, Usage]] = []
        self._delivered = False

    def opened(self, command: Open) -> None:
        if command.loosened is not None:
            self._procedure.loosened[command.loosened,].inc()
        self._opened[command.generation] = (command.strategy, command.model, command.upstream)

    def closed(self, command: Close) -> None:
        strategy, model, upstream = self._opened.pop(command.generation, (Strategy.INITIAL, OTHER, OTHER))
        if command.ignored:
            self._metrics.grammar_ignored.labels(upstream).inc()
        self._procedure.attempts[strategy, command.result].inc()
        self._generations.append((command.generation, model, command.usage))

    def observed(self, judgement: Judgement, generation: int = 0) -> None:  # noqa: ARG002 (any will do)
        if isinstance(judgement, Violation):
            self._procedure.violations[judgement.kind, judgement.step_kind or NO_STEP, "enforce"].inc()

    def emitted(self, command: Emit, elapsed_s: float) -> None:  # noqa: ARG002 (any step will do)
        if not self._delivered:
            self._delivered = True
            self._procedure.first_step.observe(elapsed_s)

    def finished(self, command: Finish, duration_s: float) -> None:
        self._procedure.requests[command.outcome,].inc()
        self._procedure.duration.observe(duration_s)
        self._count_steps(command)
        for voted in command.votes:
            self._procedure.votes["agreed",].inc(voted.agreed)
            self._procedure.votes["outvoted",].inc(voted.cast - voted.agreed)
            self._procedure.voted[voted.margin,].inc()
        self._procedure.saved.inc(command.saved)
        # What a later restart took back, or nobody got, is known only now; of a run that broke, nothing is.
        for number, model, usage in self._generations:
            known = number <= len(command.discarded)
            discarded = command.discarded[number - 1] if known else usage.completion
            self._metrics.count_tokens(model, usage, discarded)

    def _count_steps(self, command: Finish) -> None:
        tally = Tally((self._kind(path), how) for path, how in command.classes.items())
        listed = sum(count for (_, how), count in tally.items() if how is StepClass.MISSING)
        tally[NO_STEP, StepClass.MISSING] += max((command.steps.missing or 0) - listed, 0)
        for (kind, how), count in tally.items():
            if count and not (how is StepClass.MISSING and command.outcome in STOPPED):
                self._procedure.steps[kind, how, "enforce"].inc(count)
        for path in command.isolated:
            self._procedure.isolated[self._kind(path), command.classes[path]].inc()
        self._procedure.count_decisions(command.steps, "enforce")

    def _kind(self, path: str) -> str:
        return self._kinds.get(PASSES.sub("", path), NO_STEP)


class _ObservedMetrics(RunObserver):
    """A request in mode `observe`: nothing was opened, cut or delivered because of what it shows."""

    __slots__ = ("_kinds", "_procedure")

    def __init__(self, procedure: _Procedure, kinds: Mapping[str, StepKind]) -> None:
        self._procedure, self._kinds = procedure, kinds

    def observed(self, judgement: Judgement, generation: int = 0) -> None:  # noqa: ARG002 (there is none)
        if isinstance(judgement, Violation):
            self._procedure.violations[judgement.kind, judgement.step_kind or NO_STEP, "observe"].inc()

    def concluded(self, observation: Observation) -> None:
        self._procedure.observed[observation.result,].inc()
        if observation.answer is not None:
            self._procedure.answers[observation.answer,].inc()
        if observation.answer_at is not None and self._procedure.answer_position is not None:
            self._procedure.answer_position.observe(observation.answer_at)

    def finished(self, command: Finish, duration_s: float) -> None:
        self._procedure.requests[command.outcome,].inc()
        self._procedure.duration.observe(duration_s)
        for path, how in command.classes.items():
            kind = self._kinds.get(PASSES.sub("", path), NO_STEP)
            self._procedure.steps[kind, how, "observe"].inc()
        self._procedure.count_decisions(command.steps, "observe")

"""What the endpoint tells about its work: an observer hears it, a fan-out keeps observers apart.

    observer = FanOut([metrics, spans])
    run = observer.run_started(info)        one bound request
    run.opened(command)                     before each generation
    run.observed(judgement, generation)     for each `Observe`
    run.closed(command)                     behind each generation
    run.emitted(command, elapsed_s)         for each `Emit`
    run.concluded(observation)              once, only in mode `observe`: what the look at it came to
    run.finished(command, duration_s)       exactly once, last
    observer.request_refused(refusal)       a request that never became a run and got an error
    observer.passthrough(status=..., duration_s=...)
    observer.upstream_spared(upstream, reason), observer.breaker_changed(upstream, state)
    observer.grammar_refused(upstream)

Observers are called from the event loop's thread, between two pieces of a stream: they return at once
and never block.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from traceback import format_tb
from typing import Final, Literal

from guard.check.verdict import Judgement
from guard.foreign import Sink
from guard.procedure.model import StepKind
from guard.run.messages import Close, Emit, Finish, Open

log = logging.getLogger(__name__)

CLIENT_GONE: Final = 499  # nginx's number for a client that went away


class Stage(StrEnum):
    """Where the endpoint spends time of its own; the label `stage` of metrics."""

    BIND = "bind"  # authentication, reading the body, finding the procedure and its inputs
    PROMPT = "prompt"  # the prompt, the run and its first grammar
    CHECK = "check"  # all of the run's handling of upstream events: parser, checker, policy, grammars
    DELIVER = "deliver"  # making the client's bytes
    OBSERVE = "observe"  # reading and checking, in mode `observe`, what its client has already got


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What is known of a bound request before its first generation.

    `model` is the one that the client named. `step_kinds` gives the kind of every static step number of
    the procedure. `traceparent` is the client's header of that name, if it sent one. `sink` is what
    foreign text of it passes.
    """

    procedure: str
    version: str | None
    digest: str
    audit_id: str
    mode: Literal["enforce", "observe"]
    stream: bool
    model: str
    step_kinds: Mapping[str, StepKind] = field(default_factory=dict)
    traceparent: str | None = None
    sink: Sink = field(default_factory=Sink, compare=False)


class Observed(StrEnum):
    """What became of a request in mode `observe`; the label `result` of metrics."""

    PASSED = "passed"
    FAILED = "failed"  # at least one violation
    UNDECIDED = "undecided"  # nothing wrong was found, but not all of it could be judged
    NOT_SAMPLED = "not_sampled"
    NO_INPUTS = "no_inputs"  # the request does not say what the procedure is about
    NO_TEXT = "no_text"  # tool calls, or nothing
    UNREADABLE = "unreadable"  # an encoding or a body that is not understood
    TOO_LONG = "too_long"
    BUSY = "busy"  # too much was waiting to be checked
    UPSTREAM_ERROR = "upstream_error"
    CANCELLED = "cancelled"
    CHECK_FAILED = "check_failed"  # a fault of the guard's own


CHECKED: Final = frozenset({Observed.PASSED, Observed.FAILED, Observed.UNDECIDED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a look at a request in mode `observe` came to.

    Where it was checked, `reading` says as what its text was read, `answer` how the last answer compares
    with the procedure's, and `answer_at` where the first one stands, as a share of the text.
    """

    result: Observed
    reading: Literal["trace", "free"] | None = None
    answer: Literal["right", "wrong", "none", "unknown"] | None = None
    answer_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A request that was answered with an error before, or without, a run.

    `code` is the error's code on the wire, `procedure` the one it was bound to, if it came that far;
    `status` is CLIENT_GONE where nobody waited for the answer.
    """

    code: str
    status: int
    procedure: str | None = None


class RunObserver:
    """Hears one run. The methods of this class do nothing: override what is of interest."""

    def opened(self, command: Open) -> None:
        """Hear that a generation is opened."""

    def closed(self, command: Close) -> None:
        """Hear that a generation is closed; `command` says why and what it cost."""

    def observed(self, judgement: Judgement, generation: int = 0) -> None:
        """Hear that a piece of the response was judged; 0 is the only generation that is open."""

    def emitted(self, command: Emit, elapsed_s: float) -> None:
        """Hear that a step goes to the client, so many seconds after its request was read."""

    def concluded(self, observation: Observation) -> None:
        """Hear what a request in mode `observe` shows."""

    def finished(self, command: Finish, duration_s: float) -> None:
        """Hear that the run is over, so many seconds after its request was read: the last call."""


class Observer:
    """Hears everything the endpoint does. The methods do nothing: override what is of interest."""

    @property
    def name(self) -> str:
        """What failures of this observer are counted under."""
        return type(self).__name__.lower()

    def run_started(self, info: RunInfo) -> RunObserver:  # noqa: ARG002 (for those who override it)
        """Hear that a request is bound to a procedure and accepted; give what hears its run."""
        return RunObserver()

    def request_refused(self, refusal: Refusal) -> None:
        """Hear that a request was answered with an error and had no run."""

    def passthrough(self, *, status: int, duration_s: float) -> None:
        """Hear that an unbound request was forwarded; `status` is what the upstream answered."""

    def upstream_spared(self, upstream: str, reason: str) -> None:
        """Hear that a generation was not opened, since its upstream fails or had enough retries."""

    def breaker_changed(self, upstream: str, state: str) -> None:
        """Hear that the breaker of an upstream is now `closed`, `half_open` or `open`."""

    def grammar_refused(self, upstream: str) -> None:
        """Hear that an upstream took a request only without its grammar."""

    def overhead(self, stage: Stage, seconds: float) -> None:
        """Hear how long a request spent in a stage, summed; called once a request and stage."""

    def observer_failed(self, name: str) -> None:
        """Hear that another observer raised an exception."""

    def close(self) -> None:
        """Send what is still held back, within seconds. Called once, when the endpoint has drained."""


class FanOut(Observer):
    """Tells several observers; one that raises harms neither the request nor the others.

    `failures` counts exceptions by observer. The first of each observer is logged with its place,
    the others only counted. Without observers it is the one that does nothing.
    """

    def __init__(self, observers: Iterable[Observer] = ()) -> None:
        self.observers = tuple(observers)
        self.failures: Counter[str] = Counter()

    def run_started(self, info: RunInfo) -> RunObserver:
        """See `Observer`."""
        runs: list[tuple[str, RunObserver]] = []
        for observer in self.observers:
            self.isolate(observer.name, self._join, runs, observer, info)
        return _FanOutRun(self, runs)

    def request_refused(self, refusal: Refusal) -> None:
        """See `Observer`."""
        for observer in self.observers:
            self.isolate(observer.name, observer.request_refused, refusal)

    def passthrough(self, *, status: int, duration_s: float) -> None:
        """See `Observer`."""
        for observer in self.observers:
            tell = partial(observer.passthrough, status=status, duration_s=duration_s)
            self.isolate(observer.name, tell)

    def upstream_spared(self, upstream: str, reason: str) -> None:
        """See `Observer`."""
        for observer in self.observers:
            self.isolate(observer.name, observer.upstream_spared, upstream, reason)

    def breaker_changed(self, upstream: str, state: str) -> None:
        """See `Observer`."""
        for observer in self.observers:
            self.isolate(observer.name, observer.breaker_changed, upstream, state)

    def grammar_refused(self, upstream: str) -> None:
        """See `Observer`."""
        for observer in self.observers:
            self.isolate(observer.name, observer.grammar_refused, upstream)

    def overhead(self, stage: Stage, seconds: float) -> None:
        """See `Observer`."""
        for observer in self.observers:
            self.isolate(observer.name, observer.overhead, stage, seconds)

    def close(self) -> None:
        """See `Observer`."""
        for observer in self.observers:
            self.isolate(observer.name, observer.close)

    def observer_failed(self, name: str) -> None:
        """Count a failure and tell the other observers."""
        self.failures[name] += 1
        for observer in self.observers:
            if observer.name != name:
                try:
                    observer.observer_failed(name)
                except Exception:  # noqa: BLE001 (one that cannot even hear this is only counted)
                    self.failures[observer.name] += 1

    def isolate(self, name: str, tell: Callable[..., None], *args: object) -> None:
        """Call one observer; an exception of it ends here."""
        try:
            tell(*args)
        except Exception as error:  # noqa: BLE001 (whatever it is, the request goes on)
            if not self.failures[name]:  # its message may hold what a model or a server wrote
                places, kind = "".join(format_tb(error.__traceback__)), type(error).__name__
                log.error("observer %r failed; further failures are only counted: %s\n%s", name, kind, places)  # noqa: TRY400
            self.observer_failed(name)

    @staticmethod
    def _join(runs: list[tuple[str, RunObserver]], observer: Observer, info: RunInfo) -> None:
        runs.append((observer.name, observer.run_started(info)))


class _FanOutRun(RunObserver):
    __slots__ = ("_isolate", "_runs")

    def __init__(self, fan_out: FanOut, runs: list[tuple[str, RunObserver]]) -> None:
        self._isolate, self._runs = fan_out.isolate, runs

    def opened(self, command: Open) -> None:
        for name, run in self._runs:
            self._isolate(name, run.opened, command)

    def closed(self, command: Close) -> None:
        for name, run in self._runs:
            self._isolate(name, run.closed, command)

    def observed(self, judgement: Judgement, generation: int = 0) -> None:
        for name, run in self._runs:
            self._isolate(name, run.observed, judgement, generation)

    def emitted(self, command: Emit, elapsed_s: float) -> None:
        for name, run in self._runs:
            self._isolate(name, run.emitted, command, elapsed_s)

    def concluded(self, observation: Observation) -> None:
        for name, run in self._runs:
            self._isolate(name, run.concluded, observation)

    def finished(self, command: Finish, duration_s: float) -> None:
        for name, run in self._runs:
            self._isolate(name, run.finished, command, duration_s)

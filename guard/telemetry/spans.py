"""OpenTelemetry: a span for each bound request and one below it for each generation.

    invoke_workflow {procedure}    INTERNAL   the request, child of the client's span if it names one
    ├ chat {model}                 CLIENT     generation 1
    └ chat {model}                 CLIENT     generation 2, linked to generation 1

A violation leaves its generation UNSET, because the model server did nothing wrong; only its own
failures mark it. The request is an ERROR where its client got no accepted answer. No text of a prompt or
a response is ever put on a span. No span is made unless an exporter is configured.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Thread
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from guard.check.verdict import Judgement, Violation
from guard.errors import ConfigError
from guard.run.messages import Close, Finish, Margin, Open, Outcome, Result
from guard.telemetry.observer import Observation, Observer, RunInfo, RunObserver

Attributes = dict[str, str | bool | float]

# What our server kinds are called in `gen_ai.provider.name`; the others go by their own name.
PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "mistral": "mistral_ai",
    "llama.cpp": "llama_cpp",
    "local": "llama_cpp",
    "generic": "openai_compatible",
}

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

# Results that are the model server's fault, and outcomes in which the client got no accepted answer.
FAULTS: Final = frozenset({Result.UPSTREAM_ERROR, Result.TIMEOUT})
UNANSWERED: Final = frozenset({Outcome.REJECTED, Outcome.ERROR})


def from_environment(
    environment: Mapping[str, str], *, version: str, upstreams: Mapping[str, str]
) -> Spans | None:
    """Make the observer that OpenTelemetry's own variables ask for; None where they ask for none.

    `upstreams` gives the server kind of each upstream. The exporter is OTLP over HTTP and reads the rest
    of its settings (headers, timeout, certificate) itself. Raises `ConfigError` where it is not installed.
    """
    endpoint = next((name for name in ENDPOINTS if environment.get(name)), None)
    disabled = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if endpoint is None or disabled or environment.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    except ImportError as error:
        problem = "spans need the exporter: pip install 'stepguard[otlp]', or unset the variable"
        raise ConfigError([(endpoint, problem)]) from error
    return Spans(OTLPSpanExporter(), version=version, upstreams=upstreams)


class Spans(Observer):
    """Makes spans of what it hears and hands them to `exporter` in batches, from a thread of its own.

    `upstreams` gives the server kind of each upstream; `flush_s` is how long `close` may take.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        *,
        version: str,
        upstreams: Mapping[str, str],
        flush_s: float = 5.0,
    ) -> None:
        ours = Resource.create({"service.name": "stepguard", "service.version": version})
        resource = ours.merge(OTELResourceDetector().detect())  # the operator's variables win
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("stepguard", version)
        self._providers = {name: PROVIDERS.get(kind, kind) for name, kind in upstreams.items()}
        self._flush_s = flush_s
        self._propagator = TraceContextTextMapPropagator()

    def run_started(self, info: RunInfo) -> RunObserver:
        """See `Observer`."""
        carrier = {"traceparent": info.traceparent} if info.traceparent else {}
        return _RunSpans(self._tracer, self._providers, info, self._propagator.extract(carrier))

    def close(self) -> None:
        """See `Observer`: gives the exporter `flush_s` seconds, then drops what it did not take."""
        # The SDK's own shutdown waits for half a minute, and its flush for as long as it takes.
        last = Thread(target=self._provider.shutdown, daemon=True)
        last.start()
        last.join(self._flush_s)


class _RunSpans(RunObserver):
    __slots__ = (
        "_attempts",
        "_audit_id",
        "_blamed",
        "_last",
        "_previous",
        "_providers",
        "_request",
        "_streams",
        "_tracer",
    )

    def __init__(self, tracer: Tracer, providers: Mapping[str, str], info: RunInfo, parent: Context) -> None:
        self._tracer, self._providers, self._audit_id = tracer, providers, info.audit_id
        self._streams = info.stream or info.mode == "enforce"  # a guarded generation is always read as one
        self._attempts: dict[int, Span] = {}  # by the number of the generation
        self._last = 0  # the generation that was opened last
        self._previous: SpanContext | None = None
        self._blamed: set[int] = set()
        self._request = tracer.start_span(
            f"invoke_workflow {info.procedure}", parent, SpanKind.INTERNAL, _request_attributes(info)
        )

    def opened(self, command: Open) -> None:
        self._last = command.generation
        provider = self._providers.get(command.upstream, command.upstream)
        self._attempts[command.generation] = self._tracer.start_span(
            f"chat {command.model}",
            set_span_in_context(self._request),
            SpanKind.CLIENT,
            _attempt_attributes(command, provider, self._audit_id, stream=self._streams),
            [Link(self._previous)] if self._previous else [],
        )

    def observed(self, judgement: Judgement, generation: int = 0) -> None:
        number = generation or self._last
        # The first violation ends an attempt; where only observing, the first is the one to see.
        if isinstance(judgement, Violation) and number in self._attempts and number not in self._blamed:
            self._blamed.add(number)
            self._attempts[number].set_attributes(_violation_attributes(judgement))

    def closed(self, command: Close) -> None:
        span = self._attempts.pop(command.generation, None)
        if span is None:  # never opened on the wire: there is nothing to show
            return
        span.set_attributes(_close_attributes(command))
        if command.result in FAULTS:
            code = command.error.code if command.error else command.result
            span.set_attribute("error.type", code)
            span.set_status(Status(StatusCode.ERROR))
        span.end()
        self._previous = span.get_span_context()

    def concluded(self, observation: Observation) -> None:
        self._request.set_attributes(
            _known(
                {
                    "stepguard.observed.result": observation.result,
                    "stepguard.observed.reading": observation.reading,
                    "stepguard.observed.answer": observation.answer,
                    "stepguard.observed.answer_position": observation.answer_at,
                }
            )
        )

    def finished(self, command: Finish, duration_s: float) -> None:  # noqa: ARG002 (spans have clocks)
        span = self._request
        span.set_attributes(_finish_attributes(command))
        if command.outcome in UNANSWERED:
            span.set_attribute("error.type", command.error.code if command.error else command.outcome)
            span.set_status(Status(StatusCode.ERROR))
        span.end()


def _request_attributes(info: RunInfo) -> Attributes:
    return _known(
        {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": info.procedure,
            "stepguard.procedure.version": info.version,
            "stepguard.procedure.digest": info.digest,
            "stepguard.audit.id": info.audit_id,
            "stepguard.mode": info.mode,
            "stepguard.stream": info.stream,
        }
    )


def _attempt_attributes(command: Open, provider: str, audit_id: str, *, stream: bool) -> Attributes:
    return _known(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": command.model,
            "gen_ai.request.max_tokens": command.max_tokens or None,
            "gen_ai.request.temperature": command.temperature,
            "gen_ai.request.top_p": command.top_p,
            "gen_ai.request.seed": command.seed,
            "gen_ai.request.stream": stream,
            "stepguard.audit.id": audit_id,
            "stepguard.upstream": command.upstream,
            "stepguard.generation.number": command.generation,
            "stepguard.attempt.number": command.attempt,
            "stepguard.attempt.strategy": command.strategy,
            "stepguard.attempt.resume_from_step": command.resume_from or None,
            "stepguard.attempt.grammar": command.grammar is not None,
            "stepguard.attempt.isolated": command.isolated,
        }
    )


def _violation_attributes(violation: Violation) -> Attributes:
    return _known(
        {
            "stepguard.violation.kind": violation.kind,
            "stepguard.step.id": violation.step,
            "stepguard.step.kind": violation.step_kind,
        }
    )


def _close_attributes(command: Close) -> Attributes:
    return _known(
        {
            "gen_ai.usage.input_tokens": command.usage.prompt,
            "gen_ai.usage.output_tokens": command.usage.completion,
            "stepguard.usage.reasoning_output_tokens": command.usage.reasoning or None,
            "stepguard.usage.estimated": command.usage.estimated,
            "stepguard.usage.discarded_output_tokens": command.discarded,
            "stepguard.attempt.result": command.result,
        }
    )


def _finish_attributes(command: Finish) -> Attributes:
    steps = command.steps
    lost = () if command.raced is None else command.raced.lost
    return _known(
        {
            "stepguard.request.outcome": command.outcome,
            "stepguard.attempt.count": command.attempts,
            "stepguard.generation.count": command.generations,
            "stepguard.violation.count": len(command.violations) + len(lost),
            "stepguard.race.lanes": None if command.raced is None else command.raced.lanes,
            "stepguard.race.lane": None if command.raced is None else command.raced.lane,
            "stepguard.vote.count": sum(voted.cast for voted in command.votes) or None,
            "stepguard.vote.steps": len(command.votes) or None,
            "stepguard.vote.steps_capped": _capped(command) if command.votes else None,
            "stepguard.usage.discarded_output_tokens": sum(command.discarded),
            "stepguard.usage.saved_output_tokens": command.saved,
            "stepguard.steps.expected": steps.expected,
            "stepguard.steps.verified": steps.verified,
            "stepguard.steps.scaffolded": steps.scaffolded,
            "stepguard.steps.model_decided": steps.model_decided,
            "stepguard.steps.supported": steps.supported,
            "stepguard.steps.unsupported": steps.unsupported,
            "stepguard.steps.isolated": steps.isolated,
            "stepguard.steps.repaired": steps.repaired,
            "stepguard.steps.computed": steps.computed,
            "stepguard.steps.missing": steps.missing,
        }
    )


def _capped(command: Finish) -> int:
    return sum(voted.margin is Margin.CAPPED for voted in command.votes)


def _known(attributes: Mapping[str, str | bool | float | None]) -> Attributes:
    return {name: value for name, value in attributes.items() if value is not None}

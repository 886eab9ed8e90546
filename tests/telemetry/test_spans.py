from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from guard.check.verdict import Kind
from guard.run.messages import Outcome, Result, Strategy
from guard.telemetry.spans import Spans, from_environment
from tests import happenings as play

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


def spans_of(*plays: object, exporter: InMemorySpanExporter | None = None) -> tuple[ReadableSpan, ...]:
    """The finished spans, in the order in which they began."""
    exporter = exporter or InMemorySpanExporter()
    spans = Spans(exporter, version="9.8.7", upstreams={"main": "llama.cpp"})
    for run in plays:
        run(spans)  # type: ignore[operator]
    spans.close()
    return tuple(sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0))


def test_a_run_is_a_span_with_one_below_it_for_each_generation() -> None:
    request, first, second = spans_of(play.play_resumed)
    assert (request.name, request.kind) == ("invoke_workflow invoice", SpanKind.INTERNAL)
    assert (first.name, first.kind) == ("chat smol", SpanKind.CLIENT)
    assert request.parent is None
    for attempt in (first, second):
        assert attempt.parent is not None
        assert attempt.parent.span_id == request.context.span_id
        assert attempt.context.trace_id == request.context.trace_id


def test_a_generation_is_linked_to_the_one_before_it() -> None:
    _, first, second = spans_of(play.play_resumed)
    assert first.links == ()
    assert [link.context.span_id for link in second.links] == [first.context.span_id]


def test_a_request_that_was_observed_says_what_was_seen() -> None:
    checked, first, unsampled, second = spans_of(play.play_observed)
    assert checked.attributes is not None
    assert first.attributes is not None
    seen = {
        name: checked.attributes.get(f"stepguard.observed.{name}") for name in ("result", "reading", "answer")
    }
    assert seen == {"result": "failed", "reading": "free", "answer": "wrong"}
    assert checked.attributes["stepguard.mode"] == "observe"
    assert checked.attributes["stepguard.request.outcome"] == "passthrough"
    assert checked.status.status_code is StatusCode.UNSET
    assert first.attributes["gen_ai.request.stream"] is False
    assert first.attributes["stepguard.violation.kind"] == "wrong_value"
    assert unsampled.attributes is not None
    assert unsampled.attributes["stepguard.observed.result"] == "not_sampled"
    assert "stepguard.observed.answer" not in unsampled.attributes
    assert second.parent is not None


def test_a_request_says_what_was_asked_and_what_it_came_to() -> None:
    request = spans_of(play.play_resumed)[0]
    wanted = {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": "invoice",
        "stepguard.procedure.version": "1.2",
        "stepguard.procedure.digest": "0123456789abcdef",
        "stepguard.audit.id": play.info().audit_id,
        "stepguard.mode": "enforce",
        "stepguard.request.outcome": "accepted_after_retry",
        "stepguard.usage.discarded_output_tokens": 12,
        "stepguard.usage.saved_output_tokens": 25,
        "stepguard.steps.expected": 5,
        "stepguard.steps.verified": 4,
        "stepguard.steps.scaffolded": 1,
    }
    assert request.attributes is not None
    assert wanted.items() <= dict(request.attributes).items()
    # The generations carry the usage; a sum over all spans must not count it twice.
    assert not any(name.startswith("gen_ai.usage") for name in request.attributes)


def test_a_generation_says_how_it_was_asked_for_and_what_became_of_it() -> None:
    _, first, second = spans_of(play.play_resumed)
    assert first.attributes is not None
    assert second.attributes is not None
    wanted = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "llama_cpp",
        "gen_ai.request.model": "smol",
        "gen_ai.request.max_tokens": 800,
        "gen_ai.request.temperature": 0.2,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 40,
        "stepguard.attempt.strategy": "initial",
        "stepguard.attempt.result": "violation",
        "stepguard.attempt.grammar": True,
        "stepguard.usage.discarded_output_tokens": 12,
        "stepguard.violation.kind": "wrong_value",
        "stepguard.step.id": "2[1].1",
        "stepguard.step.kind": "assign",
    }
    assert wanted.items() <= dict(first.attributes).items()
    assert "gen_ai.request.top_p" not in first.attributes
    assert second.attributes["stepguard.attempt.resume_from_step"] == "2[1].1"
    assert second.attributes["stepguard.usage.estimated"] is True
    assert "stepguard.violation.kind" not in second.attributes


def test_lanes_of_a_race_have_spans_of_their_own() -> None:
    request, *lanes = spans_of(play.play_raced)
    told = [dict(lane.attributes or {}) for lane in lanes]
    assert [lane["stepguard.attempt.strategy"] for lane in told] == ["initial", "race", "race"]
    assert [lane["stepguard.attempt.result"] for lane in told] == ["lost", "violation", "pass"]
    assert ["stepguard.violation.kind" in lane for lane in told] == [False, True, False]
    assert request.attributes is not None
    wanted = {
        "stepguard.race.lanes": 3,
        "stepguard.race.lane": 3,
        "stepguard.violation.count": 1,
        "stepguard.usage.discarded_output_tokens": 42,
    }
    assert wanted.items() <= dict(request.attributes).items()


def test_votes_are_told_of_on_the_requests_span() -> None:
    request = spans_of(play.play_voted)[0]
    assert request.attributes is not None
    wanted = {"stepguard.vote.count": 5, "stepguard.vote.steps": 2, "stepguard.vote.steps_capped": 1}
    assert wanted.items() <= dict(request.attributes).items()
    assert "stepguard.race.lanes" not in request.attributes
    assert "stepguard.vote.count" not in (spans_of(play.play_resumed)[0].attributes or {})


def test_of_several_violations_of_one_generation_the_first_is_shown() -> None:
    def observe(spans: Spans) -> None:
        run = spans.run_started(play.info(mode="observe"))
        run.opened(play.opened())
        run.observed(play.violation("2", Kind.SKIPPED_STEP))
        run.observed(play.violation("3", Kind.WRONG_ANSWER))
        run.closed(play.closed())
        run.finished(play.finished(Outcome.RELEASED), 1.0)

    _, attempt = spans_of(observe)
    assert attempt.attributes is not None
    assert attempt.attributes["stepguard.violation.kind"] == "skipped_step"


def test_a_violation_is_no_error_of_the_model_server_but_a_rejection_is_one_of_the_request() -> None:
    request, attempt = spans_of(play.play_rejected)
    assert attempt.status.status_code is StatusCode.UNSET
    assert attempt.attributes is not None
    assert "error.type" not in attempt.attributes
    assert request.status.status_code is StatusCode.ERROR
    assert request.attributes is not None
    assert request.attributes["error.type"] == "premature_answer"


def test_a_fault_of_the_model_server_is_an_error_of_its_generation() -> None:
    request, attempt = spans_of(play.play_timed_out)
    for span in (request, attempt):
        assert span.status.status_code is StatusCode.ERROR
        assert span.attributes is not None
        assert span.attributes["error.type"] == "upstream_timeout"


@pytest.mark.parametrize(
    "outcome", [outcome for outcome in Outcome if outcome not in {Outcome.REJECTED, Outcome.ERROR}]
)
def test_an_answered_or_cancelled_request_is_no_error(outcome: Outcome) -> None:
    [request] = spans_of(lambda spans: spans.run_started(play.info()).finished(play.finished(outcome), 1.0))
    assert request.status.status_code is StatusCode.UNSET


def test_a_request_continues_the_clients_trace() -> None:
    def traced(spans: Spans) -> None:
        info = play.info(traceparent=f"00-{TRACE}-{PARENT}-01")
        spans.run_started(info).finished(play.finished(Outcome.ACCEPTED_FIRST), 1.0)

    [request] = spans_of(traced)
    assert request.parent is not None
    assert f"{request.parent.span_id:016x}" == PARENT
    assert f"{request.context.trace_id:032x}" == TRACE


@pytest.mark.parametrize("header", ["", "00", "00-zz-yy-01", f"00-{'0' * 32}-{PARENT}-01", "\x00" * 55])
def test_a_broken_header_begins_a_trace_of_its_own(header: str) -> None:
    [request] = spans_of(
        lambda spans: spans.run_started(play.info(traceparent=header)).finished(
            play.finished(Outcome.ACCEPTED_FIRST), 1.0
        )
    )
    assert request.parent is None


def test_a_trace_that_the_client_does_not_sample_is_not_exported() -> None:
    header = f"00-{TRACE}-{PARENT}-00"
    assert not spans_of(lambda spans: spans.run_started(play.info(traceparent=header)))


def test_no_text_of_a_prompt_or_a_response_is_on_a_span() -> None:
    for span in spans_of(*play.PLAYS):
        assert play.SECRET not in span.to_json()
        assert not span.events


def test_the_resource_names_the_service_and_its_version() -> None:
    resource = spans_of(play.play_accepted)[0].resource.attributes
    assert (resource["service.name"], resource["service.version"]) == ("stepguard", "9.8.7")


def test_a_run_whose_last_generation_was_never_opened_still_ends_its_span() -> None:
    def close_only(spans: Spans) -> None:
        run = spans.run_started(play.info())
        run.closed(play.closed(1, Result.CANCELLED))
        run.finished(play.finished(Outcome.CANCELLED), 1.0)

    assert [span.name for span in spans_of(close_only)] == ["invoke_workflow invoice"]


class Stuck(SpanExporter):
    """A collector that never answers."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002 (it never looks)
        self.released.wait(60)
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """Nothing is held."""


def test_a_collector_that_never_answers_does_not_hold_up_the_end() -> None:
    exporter = Stuck()
    spans = Spans(exporter, version="1", upstreams={}, flush_s=0.1)
    play.play_accepted(spans)
    began = time.monotonic()
    spans.close()
    assert time.monotonic() - began < 60
    exporter.released.set()


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_there_are_no_spans_unless_an_exporter_is_configured(environment: dict[str, str]) -> None:
    assert from_environment(environment, version="1", upstreams={}) is None


class Collector(HTTPServer):
    """Takes OTLP over HTTP on a free port of the loopback."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.paths: list[str] = []
        self.received = ExportTraceServiceRequest()


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        self.server.paths.append(self.path)
        self.server.received.MergeFromString(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep quiet."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_spans_arrive_at_the_collector_that_the_standard_variable_names(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)  # the exporter reads them itself
    spans = from_environment(environment, version="1", upstreams={"main": "local"})
    assert spans is not None
    play.play_resumed(spans)
    spans.close()
    assert collector.paths == ["/v1/traces"]
    [batch] = collector.received.resource_spans
    received = [span for scope in batch.scope_spans for span in scope.spans]
    assert sorted(span.name for span in received) == ["chat smol", "chat smol", "invoke_workflow invoice"]
    strategies = {
        attribute.value.string_value
        for span in received
        for attribute in span.attributes
        if attribute.key == "stepguard.attempt.strategy"
    }
    assert strategies == {Strategy.INITIAL, Strategy.SCAFFOLD}

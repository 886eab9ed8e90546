from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from guard.check.verdict import Kind
from guard.procedure.model import StepKind
from guard.run.messages import Outcome, Result, RunError, StepClass, Strategy
from guard.telemetry.metrics import MAX_CODES, Metrics
from guard.telemetry.observer import Refusal, Stage
from tests import happenings as play

Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def metrics() -> Metrics:
    return Metrics({"invoice": play.KINDS.values()}, models=[play.MODEL], version="9.8.7")


def scrape(metrics: Metrics) -> Samples:
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def total(metrics: Metrics | Samples, name: str, **labels: str) -> float:
    """The sum of all series of `name` that have these labels. Whoever asks for many scrapes once."""
    samples = scrape(metrics) if isinstance(metrics, Metrics) else metrics
    wanted = set(labels.items())
    found = [value for (sample, has), value in samples.items() if sample == name and wanted <= has]
    assert found, f"no series {name} {labels}"
    return sum(found)


def test_everything_of_the_closed_sets_is_there_with_zero_before_the_first_request(metrics: Metrics) -> None:
    samples = scrape(metrics)
    assert total(samples, "stepguard_requests_total", procedure="invoice", outcome="rejected") == 0
    assert total(samples, "stepguard_requests_total", procedure="(none)", outcome="passthrough") == 0
    for strategy in Strategy:
        for result in Result:
            assert total(samples, "stepguard_attempts_total", strategy=strategy, result=result) == 0
    for kind in Kind:
        assert total(samples, "stepguard_violations_total", violation=kind, step_kind="assign") == 0
        assert total(samples, "stepguard_violations_total", violation=kind, step_kind="none") == 0
    for how in StepClass:
        assert total(samples, "stepguard_steps_total", step_kind="extract", verdict=how) == 0
    for stage in Stage:
        assert total(samples, "stepguard_overhead_seconds_count", stage=stage) == 0
    assert total(samples, "stepguard_time_to_first_step_seconds_count", procedure="invoice") == 0
    assert total(samples, "stepguard_build_info", version="9.8.7") == 1


def test_a_scrape_after_work_has_no_series_that_was_not_there_before_it(metrics: Metrics) -> None:
    before = set(scrape(metrics))
    for run in (
        play.play_accepted,
        play.play_resumed,
        play.play_repaired,
        play.play_rejected,
        play.play_observed,
    ):
        run(metrics)
    assert set(scrape(metrics)) == before


def test_requests_are_counted_by_what_they_came_to(metrics: Metrics) -> None:
    play.play_all(metrics)
    for outcome, count in {
        "accepted_first": 1,
        "accepted_after_retry": 1,
        "repaired": 1,
        "rejected": 1,
        "error": 2,  # one timed out, one was refused
        "cancelled": 0,
    }.items():
        assert total(metrics, "stepguard_requests_total", procedure="invoice", outcome=outcome) == count
    assert total(metrics, "stepguard_requests_total", procedure="(none)", outcome="passthrough") == 1
    assert total(metrics, "stepguard_requests_total", procedure="(none)", outcome="error") == 1
    assert total(metrics, "stepguard_requests_refused_total") == 2
    assert total(metrics, "stepguard_requests_refused_total", code="missing_input") == 1


def test_generations_are_counted_by_why_they_were_opened_and_what_became_of_them(metrics: Metrics) -> None:
    play.play_all(metrics)
    count = {
        ("initial", "pass"): 1,
        ("initial", "violation"): 3,
        ("initial", "timeout"): 1,
        ("scaffold", "pass"): 1,
    }
    samples = scrape(metrics)
    for strategy in Strategy:
        for result in Result:
            found = total(samples, "stepguard_attempts_total", strategy=strategy, result=result)
            assert found == count.get((strategy, result), 0)


def test_votes_are_counted_and_how_each_was_settled(metrics: Metrics) -> None:
    before = set(scrape(metrics))
    play.play_voted(metrics)
    assert set(scrape(metrics)) == before
    for vote, count in {"agreed": 4, "outvoted": 1}.items():
        assert total(metrics, "stepguard_votes_total", procedure="invoice", vote=vote) == count
    for margin, count in {"reached": 1, "capped": 1, "open": 0}.items():
        assert total(metrics, "stepguard_voted_steps_total", procedure="invoice", margin=margin) == count
    assert total(metrics, "stepguard_attempts_total", strategy="vote", result="decided") == 2


def test_what_lanes_of_a_race_wrote_that_lost_served_nobody(metrics: Metrics) -> None:
    play.play_raced(metrics)
    assert total(metrics, "stepguard_attempts_total", strategy="initial", result="lost") == 1
    assert total(metrics, "stepguard_attempts_total", strategy="race", result="violation") == 1
    assert total(metrics, "stepguard_attempts_total", strategy="race", result="pass") == 1
    output = {"token_type": "output", "source": "reported"}
    assert total(metrics, "stepguard_tokens_total", disposition="delivered", **output) == 40
    assert total(metrics, "stepguard_tokens_total", disposition="discarded", **output) == 42
    assert total(metrics, "stepguard_tokens_total", disposition="discarded", model="other", **output) == 30


def test_each_expected_step_is_counted_once_by_its_kind_and_how_it_ended(metrics: Metrics) -> None:
    play.play_resumed(metrics)
    assert total(metrics, "stepguard_steps_total") == 5
    assert total(metrics, "stepguard_steps_total", step_kind="assign", verdict="scaffolded") == 1
    assert total(metrics, "stepguard_steps_total", step_kind="assign", verdict="verified") == 1
    assert total(metrics, "stepguard_steps_total", step_kind="extract", verdict="verified") == 1


def test_steps_that_a_rejected_run_did_not_come_to_are_missing(metrics: Metrics) -> None:
    play.play_rejected(metrics)
    assert total(metrics, "stepguard_steps_total", verdict="missing") == 2
    assert total(metrics, "stepguard_steps_total", verdict="missing", step_kind="return") == 1


@pytest.mark.parametrize("outcome", [Outcome.ERROR, Outcome.CANCELLED])
def test_steps_that_a_stopped_run_did_not_come_to_are_nobodys_infidelity(
    metrics: Metrics, outcome: Outcome
) -> None:
    run = metrics.run_started(play.info())
    run.finished(play.finished(outcome, s3=StepClass.MISSING), 1.0)
    assert total(metrics, "stepguard_steps_total") == 4
    assert total(metrics, "stepguard_steps_total", verdict="missing") == 0


def test_violations_are_counted_by_kind_and_step_kind(metrics: Metrics) -> None:
    play.play_all(metrics)
    assert total(metrics, "stepguard_violations_total", mode="enforce") == 3
    wrong = {"violation": "wrong_value", "step_kind": "assign"}
    assert total(metrics, "stepguard_violations_total", mode="enforce", **wrong) == 1
    assert total(metrics, "stepguard_violations_total", violation="premature_answer", step_kind="return") == 1
    metrics.run_started(play.info()).observed(play.violation("", Kind.MALFORMED))
    assert total(metrics, "stepguard_violations_total", violation="malformed", step_kind="none") == 1


def test_what_is_only_observed_is_counted_apart(metrics: Metrics) -> None:
    play.play_observed(metrics)
    requests, steps = "stepguard_requests_total", "stepguard_steps_total"
    assert total(metrics, requests, procedure="invoice", outcome="passthrough") == 2
    assert total(metrics, requests) == 2
    assert total(metrics, "stepguard_observed_total", result="failed") == 1
    assert total(metrics, "stepguard_observed_total", result="not_sampled") == 1
    assert total(metrics, "stepguard_observed_total") == 2
    assert total(metrics, "stepguard_observed_answers_total", answer="wrong") == 1
    assert total(metrics, "stepguard_observed_answers_total") == 1
    assert total(metrics, "stepguard_observed_answer_position_sum", procedure="invoice") == 0.9
    assert total(metrics, "stepguard_violations_total", mode="observe", violation="wrong_value") == 1
    assert total(metrics, "stepguard_violations_total", mode="enforce") == 0
    assert total(metrics, steps, mode="observe", verdict="verified") == 3
    assert total(metrics, steps, mode="observe", verdict="missing", step_kind="assign") == 1
    assert total(metrics, steps, mode="enforce") == 0
    assert total(metrics, "stepguard_attempts_total") == 0
    assert total(metrics, "stepguard_tokens_total") == 0


def test_tokens_of_cut_text_are_discarded_and_the_others_delivered(metrics: Metrics) -> None:
    play.play_resumed(metrics)
    tokens = "stepguard_tokens_total"
    reported = {"model": play.MODEL, "source": "reported"}
    assert total(metrics, tokens, token_type="output", disposition="discarded", **reported) == 12
    assert total(metrics, tokens, token_type="output", disposition="delivered", **reported) == 28
    assert total(metrics, tokens, token_type="input", disposition="delivered", **reported) == 100
    assert total(metrics, tokens, source="estimated", disposition="delivered", token_type="output") == 40


def test_what_a_later_restart_took_back_is_discarded(metrics: Metrics) -> None:
    run = metrics.run_started(play.info())
    for generation in (1, 2):
        run.opened(play.opened(generation))
        run.closed(play.closed(generation, discarded=5))
    run.finished(play.finished(Outcome.ACCEPTED_AFTER_RETRY, discarded=(40, 0)), 1.0)
    output = {"token_type": "output"}
    assert total(metrics, "stepguard_tokens_total", disposition="delivered", **output) == 40
    assert total(metrics, "stepguard_tokens_total", disposition="discarded", **output) == 40


def test_saved_tokens_are_counted_apart(metrics: Metrics) -> None:
    play.play_resumed(metrics)
    assert total(metrics, "stepguard_tokens_saved_total", procedure="invoice") == 25


def test_a_generation_of_which_nothing_was_kept_discards_its_input_too(metrics: Metrics) -> None:
    play.play_repaired(metrics)
    assert total(metrics, "stepguard_tokens_total", token_type="input", disposition="discarded") == 100
    assert total(metrics, "stepguard_tokens_total", token_type="input", disposition="delivered") == 0


def test_tokens_of_a_run_that_gave_its_client_nothing_are_discarded(metrics: Metrics) -> None:
    play.play_rejected(metrics)
    assert total(metrics, "stepguard_tokens_total", disposition="delivered") == 0
    assert total(metrics, "stepguard_tokens_total", disposition="discarded") == 140


def test_steps_that_left_before_a_run_failed_did_serve_the_client(metrics: Metrics) -> None:
    run = metrics.run_started(play.info())
    run.opened(play.opened())
    run.emitted(play.emitted("1"), 0.2)
    run.closed(play.closed(1, Result.UPSTREAM_ERROR, discarded=5))
    error = RunError(status=502, type="upstream_error", code="upstream_error", message="gone")
    run.finished(play.finished(Outcome.ERROR, error=error, discarded=(5,)), 1.0)
    assert total(metrics, "stepguard_tokens_total", disposition="delivered", token_type="output") == 35


def test_a_model_that_is_not_configured_counts_as_other(metrics: Metrics) -> None:
    play.play_timed_out(metrics)
    assert total(metrics, "stepguard_tokens_total", model="other", token_type="input") == 100
    assert "a-model-nobody-configured" not in metrics.render().decode()


def test_a_procedure_named_by_a_client_never_becomes_a_label(metrics: Metrics) -> None:
    metrics.request_refused(Refusal(code="unknown_procedure", status=400, procedure="x" * 1000))
    assert "xxx" not in metrics.render().decode()
    assert total(metrics, "stepguard_requests_total", procedure="(none)", outcome="error") == 1


def test_a_client_that_left_before_its_run_began_is_no_error(metrics: Metrics) -> None:
    metrics.request_refused(Refusal(code="client_gone", status=499, procedure="invoice"))
    metrics.request_refused(Refusal(code="client_gone", status=499))
    assert total(metrics, "stepguard_requests_total", outcome="error") == 0
    assert total(metrics, "stepguard_requests_total", outcome="cancelled", procedure="invoice") == 1
    assert total(metrics, "stepguard_requests_total", outcome="cancelled", procedure="(none)") == 1


def test_error_codes_beyond_a_limit_are_folded_into_other(metrics: Metrics) -> None:
    for number in range(MAX_CODES + 7):
        metrics.request_refused(Refusal(code=f"code_{number}", status=400))
    metrics.request_refused(Refusal(code="code_0", status=400))
    assert total(metrics, "stepguard_requests_refused_total", code="other") == 7
    assert total(metrics, "stepguard_requests_refused_total", code="code_0") == 2
    assert total(metrics, "stepguard_requests_refused_total") == MAX_CODES + 8


def test_durations_and_the_first_step_are_observed_once_a_request(metrics: Metrics) -> None:
    play.play_accepted(metrics)
    assert total(metrics, "stepguard_request_duration_seconds_count", procedure="invoice") == 1
    assert total(metrics, "stepguard_request_duration_seconds_sum", procedure="invoice") == 2
    assert total(metrics, "stepguard_time_to_first_step_seconds_count", procedure="invoice") == 1
    assert total(metrics, "stepguard_time_to_first_step_seconds_sum", procedure="invoice") == 0.3


def test_overhead_is_observed_by_stage_and_failures_by_observer(metrics: Metrics) -> None:
    play.play_others(metrics)
    metrics.observer_failed("spans")
    assert total(metrics, "stepguard_overhead_seconds_bucket", stage="check", le="0.0005") == 1
    assert total(metrics, "stepguard_overhead_seconds_bucket", stage="check", le="0.00025") == 0
    assert total(metrics, "stepguard_observer_failures_total", observer="spans") == 1


def test_no_text_of_a_request_is_in_a_scrape(metrics: Metrics) -> None:
    play.play_all(metrics)
    assert play.SECRET not in metrics.render().decode()


def test_two_registries_do_not_share_counts(metrics: Metrics) -> None:
    other = Metrics({"invoice": [StepKind.ASSIGN]}, models=[], version="1")
    play.play_accepted(other)
    assert total(metrics, "stepguard_requests_total") == 0


def test_a_scrape_keeps_to_the_naming_rules(metrics: Metrics) -> None:
    play.play_all(metrics)
    for family in text_string_to_metric_families(metrics.render().decode()):
        assert family.documentation
        assert family.name.startswith(("stepguard_", "process_"))
        for sample in family.samples:
            assert not sample.name.endswith("_created")


def test_missing_steps_that_a_run_only_counts_are_counted_without_a_kind(metrics: Metrics) -> None:
    finish = play.finished(Outcome.REJECTED, s2_2=StepClass.MISSING, s3=StepClass.MISSING)
    written: dict[str, StepClass] = {
        path: how for path, how in finish.classes.items() if how is not StepClass.MISSING
    }
    metrics.run_started(play.info()).finished(replace(finish, classes=written), 1.0)
    assert total(metrics, "stepguard_steps_total", verdict="missing", step_kind="none") == 2
    assert total(metrics, "stepguard_steps_total") == 5

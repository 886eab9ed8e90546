# ruff: noqa: ARG002 (what is told is not what these tests look at)
from __future__ import annotations

import logging

import pytest

from guard.run.messages import Open
from guard.telemetry.observer import FanOut, Observer, RunInfo, RunObserver, Stage
from tests.happenings import info, opened, play_all


class Recorder(Observer):
    """Writes down the name of every call."""

    def __init__(self, name: str = "recorder") -> None:
        self._name = name
        self.calls: list[str] = []

    @property
    def name(self) -> str:
        return self._name

    def run_started(self, info: RunInfo) -> RunObserver:
        self.calls.append("run_started")
        return RecordedRun(self.calls)

    def request_refused(self, refusal: object) -> None:
        self.calls.append("request_refused")

    def passthrough(self, *, status: int, duration_s: float) -> None:
        self.calls.append("passthrough")

    def overhead(self, stage: Stage, seconds: float) -> None:
        self.calls.append("overhead")

    def observer_failed(self, name: str) -> None:
        self.calls.append(f"observer_failed {name}")

    def close(self) -> None:
        self.calls.append("close")


class RecordedRun(RunObserver):
    def __init__(self, calls: list[str]) -> None:
        self.calls = calls

    def opened(self, command: object) -> None:
        self.calls.append("opened")

    def closed(self, command: object) -> None:
        self.calls.append("closed")

    def observed(self, judgement: object, generation: int = 0) -> None:
        self.calls.append("observed")

    def emitted(self, command: object, elapsed_s: float) -> None:
        self.calls.append("emitted")

    def finished(self, command: object, duration_s: float) -> None:
        self.calls.append("finished")


class BrokenRun(RunObserver):
    def opened(self, command: Open) -> None:
        raise RuntimeError("no room")


class Broken(Observer):
    """Fails at the first generation of each run, or at everything."""

    def __init__(self, *, everywhere: bool = False) -> None:
        self.everywhere = everywhere

    def run_started(self, info: RunInfo) -> RunObserver:
        if self.everywhere:
            raise RuntimeError("no room")
        return BrokenRun()

    def overhead(self, stage: Stage, seconds: float) -> None:
        raise RuntimeError("no room")

    def observer_failed(self, name: str) -> None:
        raise RuntimeError("no room")

    def close(self) -> None:
        raise RuntimeError("no room")


def test_an_observer_hears_all_that_the_fan_out_hears() -> None:
    alone, told = Recorder(), Recorder()
    play_all(alone)
    alone.close()
    fan_out = FanOut([told])
    play_all(fan_out)
    fan_out.close()
    assert told.calls == alone.calls
    assert set(alone.calls) >= {"run_started", "opened", "closed", "observed", "emitted", "finished", "close"}


def test_an_observer_that_fails_harms_neither_the_caller_nor_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    first, last, alone = Recorder("first"), Recorder("last"), Recorder()
    fan_out = FanOut([first, Broken(), last])
    play_all(alone)
    play_all(fan_out)
    for recorder in (first, last):
        assert [call for call in recorder.calls if call != "observer_failed broken"] == alone.calls
    assert first.calls.count("observer_failed broken") == fan_out.failures["broken"] > 1


def test_an_observer_that_does_not_even_start_a_run_is_left_out_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    fan_out = FanOut([Broken(everywhere=True)])
    run = fan_out.run_started(info())
    run.opened(opened())
    assert fan_out.failures["broken"] == 1


def test_only_the_first_failure_of_an_observer_is_logged_with_its_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fan_out = FanOut([Broken()])
    for _ in range(3):
        fan_out.overhead(Stage.CHECK, 0.1)
    assert fan_out.failures["broken"] == 3
    [record] = caplog.records
    assert "'broken'" in record.message
    assert __file__ in record.message
    assert record.exc_info is None  # what an exception says may be a model's word


def test_two_observers_that_fail_at_everything_do_not_fail_each_other_for_ever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    fan_out = FanOut([Broken(), type("Worse", (Broken,), {})()])
    fan_out.overhead(Stage.CHECK, 0.1)
    assert set(fan_out.failures) == {"broken", "worse"}
    assert sum(fan_out.failures.values()) == 4


def test_a_fan_out_without_observers_does_nothing() -> None:
    fan_out = FanOut()
    play_all(fan_out)
    fan_out.close()
    assert not fan_out.failures


def test_a_signal_to_stop_is_no_failure_of_an_observer() -> None:
    class Interrupted(Observer):
        def close(self) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FanOut([Interrupted()]).close()

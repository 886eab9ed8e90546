"""What has passed is looked at within bounds: of room, of time, and of what the server's end leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import process_time, thread_time
from typing import Any

import pytest

from guard.engine import BUSY_S
from guard.procedure.execute import Program
from guard.procedure.load import load
from guard.proxy.observe import Passed, Watch
from guard.proxy.sighting import MAX_BYTES, MAX_LINE, Asked, Sighting
from guard.run.messages import Finish, Outcome
from guard.telemetry.observer import Observation, Observer, RunObserver, Stage
from guard.wire.chat import Envelope
from tests.proxy.running import run

PROGRAM = load("procedure p(a: int) -> int\n  b = a * 2\n  return b + 1\n").procedures["p"]
ENVELOPE = Envelope(id="1", model="m", created=0)
RIGHT = ENVELOPE.completion("b = 8\nAnswer: 9")
LONG = ENVELOPE.completion("b = 8, and so on.\n" * 7_000 + "Answer: 9")


@dataclass
class Listener(RunObserver, Observer):
    """Notes what it is told, in order."""

    results: list[str] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)

    def concluded(self, observation: Observation) -> None:
        self.results.append(observation.result)

    def finished(self, command: Finish, duration_s: float) -> None:  # noqa: ARG002
        self.outcomes.append(command.outcome)

    def overhead(self, stage: Stage, seconds: float) -> None:
        assert seconds > 0
        self.stages.append(stage)


def asked(program: Program = PROGRAM, control: bytes = b'{"inputs": {"a": 4}}') -> Asked:
    return Asked(program=program, control=control, said="", moment=datetime(2026, 6, 1, tzinfo=UTC))


def sighted(watch: Watch, *pieces: bytes, **known: Any) -> Sighting:
    sighting = Sighting()
    watch.expect(sighting, asked(**known))
    sighting.begin(200, ())
    for piece in pieces:
        if sighting.readable:
            watch.keep(sighting, piece)
    return sighting


def passed(sighting: Sighting, listener: Listener) -> Passed:
    outcome = Outcome.PASSTHROUGH
    return Passed(sighting=sighting, heard=listener, observer=listener, outcome=outcome, duration_s=1.0)


def looked_at(watch: Watch, *sightings: Sighting, close_s: float = 9.0) -> Listener:
    async def body() -> Listener:
        listener = Listener()
        for sighting in sightings:
            watch.add(passed(sighting, listener))
        await watch.close(close_s)
        return listener

    return run(body())


def test_each_is_looked_at_once_and_in_order() -> None:
    watch = Watch()
    listener = looked_at(
        watch,
        sighted(watch, RIGHT[:9], RIGHT[9:]),
        sighted(watch, RIGHT.replace(b"8", b"7")),
        sighted(watch, RIGHT, control=b"{}"),
        sighted(watch, RIGHT),
    )
    assert listener.results == ["passed", "failed", "no_inputs", "passed"]
    assert listener.outcomes == ["passthrough"] * 4
    assert listener.stages == [Stage.OBSERVE] * 3


def test_one_that_cannot_be_looked_at_does_not_stop_the_next() -> None:
    watch = Watch()
    broken: Mapping[str, Any] = {"program": None}
    listener = looked_at(watch, sighted(watch, RIGHT, **broken), sighted(watch, RIGHT))
    assert listener.results == ["check_failed", "passed"]


def test_together_they_have_so_much_room_and_give_it_back() -> None:
    watch = Watch(room=3 * len(RIGHT))
    first, second, third = (sighted(watch, RIGHT) for _ in range(3))
    assert (first.ended, second.ended, third.ended) == (None, None, "busy")
    assert looked_at(watch, first, second, third).results == ["busy", "passed", "passed"]
    again = [sighted(watch, RIGHT) for _ in range(2)]
    assert looked_at(watch, *again).results == ["passed", "passed"]


def test_one_alone_may_only_be_so_long() -> None:
    watch = Watch()
    sighting = sighted(watch, b" " * MAX_BYTES, b" ")
    assert (sighting.ended, sighting.kept, sighting.size) == ("too_long", [], 0)


def test_an_answer_that_takes_too_long_is_given_up() -> None:
    watch = Watch(seconds=0.0)
    assert looked_at(watch, sighted(watch, LONG), sighted(watch, RIGHT)).results[0] == "too_long"


def test_the_end_of_the_server_leaves_nothing_uncounted() -> None:
    watch = Watch()
    listener = looked_at(watch, *(sighted(watch, LONG) for _ in range(9)), close_s=0.02)
    assert len(listener.results) == 9
    assert set(listener.results) <= {"busy", "passed", "failed"}
    assert "busy" in listener.results


@pytest.mark.parametrize("size", [7, 1_000_000])
def test_others_get_their_turn_while_a_long_answer_is_looked_at(size: int) -> None:
    pieces = [LONG[at : at + size] for at in range(0, len(LONG), size)]

    async def body() -> int:
        watch, listener = Watch(), Listener()
        watch.add(passed(sighted(watch, *pieces), listener))
        before, waits = process_time(), 0
        while not listener.results:
            await asyncio.sleep(0)
            waits += process_time() - before > BUSY_S / 2  # somebody else had a turn
            before = process_time()
        return waits

    assert run(body()) > 20


LINES = {
    "equations": "1+1=2 ",
    "names": "b = ",
    "signs": "$",
    "answers": "answer: 5 ",
    "quotes": 'b = 8 <- "ab" ',
}


@pytest.mark.parametrize("shape", LINES)
def test_a_long_line_is_read_in_another_thread(shape: str) -> None:
    """It is read in one go, which may take 0.4 s; the thread of the server works little meanwhile."""
    line = (LINES[shape] * MAX_LINE)[:MAX_LINE]

    async def body() -> tuple[float, Listener]:
        watch, listener = Watch(seconds=60), Listener()
        watch.add(passed(sighted(watch, ENVELOPE.completion(f"{line}\nAnswer: 9")), listener))
        before = thread_time()
        await watch.close(60)
        return thread_time() - before, listener

    began = process_time()
    spent, listener = run(body())
    assert listener.results[0] in {"passed", "failed", "undecided"}
    assert spent < (process_time() - began) / 2


def test_the_end_of_the_server_waits_for_what_another_thread_does() -> None:
    watch = Watch()
    line = ("1+1=2 " * MAX_LINE)[:MAX_LINE]
    listener = looked_at(watch, sighted(watch, ENVELOPE.completion(line)), close_s=0.05)
    assert len(listener.results) == 1

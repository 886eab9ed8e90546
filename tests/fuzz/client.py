"""The client: what it reads of a run that was played, as a stream or in one piece, read by eyes of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from guard.config.policies import PolicySettings
from guard.config.service import Enforced
from guard.foreign import Sink
from guard.proxy.binding import Bound
from guard.proxy.responses import Answer
from guard.run.messages import Emit, Finish, Relay
from guard.wire.chat import ChatRequest
from tests.faults.faithful import NONCE
from tests.fuzz.play import Played

DONE: Final = "[DONE]"


@dataclass(slots=True)
class Read:
    """What a client has read: the answer, the steps beside it, the report, the code of an error; and whether it ended."""

    content: str = ""
    refusal: str = ""
    steps: str = ""
    thoughts: str = ""
    report: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    done: bool = False

    def take(self, event: dict[str, Any]) -> None:
        """Take an event of a stream, or a whole answer."""
        if "error" in event:
            self.error = event["error"]["code"]
        mark = event.get("stepguard") or {}
        for choice in event.get("choices", ()):
            said = choice.get("delta") or choice.get("message") or {}
            self.content += said.get("content") or ""
            self.refusal += said.get("refusal") or ""
            beside = said.get("reasoning_content") or ""
            if isinstance(mark.get("reasoning"), str):
                self.thoughts += mark["reasoning"]
            else:
                self.steps += beside
        if "outcome" in mark:
            self.report = mark


def read(played: Played) -> Read:
    """Read what the client of a run gets."""
    scenario = played.scenario
    settings = PolicySettings(content=scenario.content)  # type: ignore[arg-type]
    bound = Bound(
        request=ChatRequest(model="m", messages=[{"role": "user", "content": "Go."}], stream=not scenario.job.whole),
        program=scenario.program,
        inputs=scenario.inputs,
        enforced=Enforced(settings=settings, policy=scenario.policy, procedures={}),
        targets=scenario.targets,
        instructions="",
        content=settings.content,
        extra={},
        above=frozenset(),
    )  # fmt: skip
    answer = Answer(bound, audit_id="a", nonce=NONCE, created=0, sink=Sink(), asking=played.asking)
    found = Read()
    for data in _streamed(answer, played) if bound.request.stream else _whole(answer, played):
        if data == DONE:
            found.done = True
        else:
            assert not found.done, "nothing comes after the end"
            found.take(json.loads(data))
    return found


def _whole(answer: Answer, played: Played) -> Iterator[str]:
    for command in played.commands:
        if isinstance(command, Relay):
            answer.keep(command)
    assert played.finish is not None
    yield answer.whole(played.finish)[2].decode()
    yield DONE


def _streamed(answer: Answer, played: Played) -> Iterator[str]:
    for command in played.commands:
        match command:
            case Emit():
                sent = answer.step(command)
            case Relay():
                sent = answer.thought(command)
            case Finish():
                sent = answer.last(command)
            case _:
                continue
        yield from (event.removeprefix("data: ") for event in sent.decode().split("\n\n") if event)

"""The scripted server: what a model says as the bytes of its API, in the manner and with the mishap of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final

import orjson

from guard.dialect.notation import Dialect
from guard.errors import (
    UpstreamBusy,
    UpstreamConnectError,
    UpstreamError,
    UpstreamStatusError,
)
from guard.run.messages import Cancelled, Ended, Failed, Open, OutOfTime, RunEvent
from guard.upstream.capabilities import Api, Backend, Place, Thinking
from guard.upstream.reading import AnswerReader
from guard.wire.chat import text_of
from tests.fuzz.scenario import OWN_ENDS, Manner, Mishap, Plan

THOUGHT: Final = "Let me see: 1 n = 5, I think."
_LONGEST: Final = 600  # pieces of a text that never ends


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a server answers: text and how it ends. `usage` is what it says that it took, None: nothing."""

    text: str
    finish_reason: str | None
    usage: int | None
    manner: Manner
    mishap: Mishap


def reader(backend: Backend, command: Open) -> AnswerReader:
    """What reads the answer to a request, as the upstream over HTTP makes it."""
    forced = command.grammar is not None
    members = forced and backend.dialect is Dialect.JSON_SCHEMA
    return AnswerReader(
        api=backend.api,
        most=command.max_tokens,
        prefix=command.prefix,
        prompt_tokens=sum(len(text_of(message)) for message in command.messages) // 4,
        token_per_chunk=backend.token_per_chunk,
        reasoning=backend.reasoning_fields,
        thinks=backend.thinks,
        members=members,
        required=len(orjson.loads(command.grammar or "{}").get("required", ())) if members else 0,
        tool=forced and backend.grammar is Place.CUSTOM_TOOL,
        thoughtless=forced and backend.thinking is Thinking.FORBIDDEN,
    )


def stopped(backend: Backend, command: Open, text: str) -> str:
    """Stop a text where the request says so, if the server can be told."""
    at = [place for stop in command.stop if (place := text.find(stop)) >= 0]
    return text[: min(at)] if at and backend.stop_field is not None else text


def events(backend: Backend, command: Open, answer: Answer, random: Random) -> Iterator[RunEvent]:
    """What a run is told of an answer, through the real reader, until it wants no more."""
    failure = _at_once(answer.mishap)
    if failure is not None:
        yield Failed(failure, 100.0)
        return
    reading = reader(backend, command)
    for data in cut_into_reads(b"".join(wire(backend, command, answer, random)), random):
        if reading.over:
            break
        yield from reading.feed(data)
        if answer.mishap in {Mishap.OUT_OF_TIME, Mishap.CLIENT_GONE} and random.random() < 0.5:
            yield OutOfTime() if answer.mishap is Mishap.OUT_OF_TIME else Cancelled()
            return
    if answer.mishap is Mishap.RESET and not reading.over:
        yield Failed(UpstreamConnectError("the connection was reset"), 100.0)
        return
    if not reading.over:
        yield from reading.close()
    yield Failed(reading.fault, 100.0) if reading.fault is not None else reading.ended()


def _at_once(mishap: Mishap) -> UpstreamError | None:
    match mishap:
        case Mishap.BUSY:
            return UpstreamBusy("busy", upstream_status=503, retry_after_s=0)
        case Mishap.REFUSED:
            return UpstreamStatusError("no", upstream_status=400)
        case _:
            return None


def cut_into_reads(data: bytes, random: Random) -> Iterator[bytes]:
    """Bytes as they may arrive: whole, in pieces of any size, one by one."""
    size = random.choice([len(data) or 1, 4000, 1000, 333, 61])
    at = 0
    while at < len(data):
        length = size if random.random() < 0.9 else random.randint(1, size)
        yield data[at : at + length]
        at += length


# --- the bytes -----------------------------------------------------------------------------------


def wire(backend: Backend, command: Open, answer: Answer, random: Random) -> Iterator[bytes]:
    """The bytes of an answer, event by event."""
    text = answer.text
    if answer.mishap is Mishap.RESET:
        text = text[: random.randint(0, max(0, len(text) - 1))]
    if answer.manner is Manner.ECHO and command.prefix and backend.api is Api.CHAT:
        text = command.prefix + text
    tags = answer.manner is Manner.THOUGHT_TAGS and not command.prefix and not backend.thinks
    if tags:
        text = f"<think>\n{THOUGHT}\n</think>\n{text}"
    if backend.thinks and not command.prefix:
        text = f"{THOUGHT}</think>\n{text}"
    forms = _Chat if backend.api is Api.CHAT else _Responses
    form = forms(backend, command, answer)
    if answer.manner is Manner.WHOLE and answer.mishap is not Mishap.RESET:
        yield form.whole(text)
        return
    frame = partial(_framed, end=b"\r\n" if answer.manner is Manner.CRLF else b"\n")
    yield from map(frame, form.start())
    if answer.manner is Manner.THOUGHT_FIELD:
        yield from map(frame, form.thought(THOUGHT))
    pieces = list(_pieces(text, random))
    broken = random.randrange(len(pieces) + 1)
    for number, piece in enumerate(pieces):
        if answer.manner is Manner.COMMENTS and number % 3 == 0:
            yield b": still here\n\n"
        if number == broken and answer.mishap in {Mishap.BROKEN, Mishap.IN_BAND}:
            yield frame(b"{no JSON" if answer.mishap is Mishap.BROKEN else form.error())
            return
        yield from map(frame, form.piece(piece))
    if answer.mishap is not Mishap.RESET:
        yield from map(frame, form.end())


def _framed(data: bytes, end: bytes) -> bytes:
    return b"data: " + data + end + end


def _pieces(text: str, random: Random) -> Iterator[str]:
    size = random.choice([4, 13, 40, 200])
    yield from (text[at : at + size] for at in range(0, len(text), size))


class _Chat:
    """Chunks of a chat completion."""

    def __init__(self, backend: Backend, command: Open, answer: Answer) -> None:
        self._tool = command.grammar is not None and backend.grammar is Place.CUSTOM_TOOL
        self._field = (*backend.reasoning_fields, "reasoning_content")[0]
        self._answer = answer
        self._called = False

    def start(self) -> list[bytes]:
        return [self._chunk({"role": "assistant", "content": ""})]

    def thought(self, text: str) -> list[bytes]:
        return [self._chunk({self._field: text})]

    def piece(self, text: str) -> list[bytes]:
        if not self._tool:
            return [self._chunk({"content": text})]
        call: dict[str, Any] = {"index": 0, "custom": {"input": text}}
        if not self._called:
            call |= {"id": "call_1", "type": "custom", "custom": {"name": "trace", "input": text}}
            self._called = True
        return [self._chunk({"tool_calls": [call]})]

    def error(self) -> bytes:
        return orjson.dumps({"error": {"message": "it fell over", "type": "server_error", "code": 500}})

    @property
    def _reason(self) -> str | None:
        reason = self._answer.finish_reason
        return "tool_calls" if self._tool and reason == "stop" else reason

    def end(self) -> list[bytes]:
        usage = (
            None
            if self._answer.usage is None
            else {"prompt_tokens": 9, "completion_tokens": self._answer.usage}
        )
        last = [self._chunk({}, self._reason)]
        if usage is not None and self._answer.manner is not Manner.NO_USAGE:
            last.append(orjson.dumps({"choices": [], "usage": usage}))
        return last if self._answer.manner is Manner.NO_DONE else [*last, b"[DONE]"]

    def whole(self, text: str) -> bytes:
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if self._tool:
            call = {"id": "call_1", "type": "custom", "custom": {"name": "trace", "input": text}}
            message |= {"content": None, "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": self._reason}
        usage = {"prompt_tokens": 9, "completion_tokens": self._answer.usage or 0}
        return orjson.dumps({"object": "chat.completion", "choices": [choice], "usage": usage})

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        return orjson.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})


class _Responses:
    """Events of a response."""

    def __init__(self, backend: Backend, command: Open, answer: Answer) -> None:
        self._tool = command.grammar is not None and backend.grammar is Place.CUSTOM_TOOL
        self._answer = answer

    def start(self) -> list[bytes]:
        return [
            orjson.dumps({"type": "response.created", "response": {"status": "in_progress", "output": []}})
        ]

    def thought(self, text: str) -> list[bytes]:
        return [
            orjson.dumps({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": text})
        ]

    def piece(self, text: str) -> list[bytes]:
        kind = "custom_tool_call_input" if self._tool else "output_text"
        place = {"output_index": 1, "content_index": 0}
        return [orjson.dumps({"type": f"response.{kind}.delta", "delta": text, **place})]

    def error(self) -> bytes:
        return orjson.dumps({"type": "error", "code": "server_error", "message": "it fell over"})

    def _response(self, output: Sequence[dict[str, Any]]) -> dict[str, Any]:
        cut = self._answer.finish_reason not in OWN_ENDS
        filtered = self._answer.finish_reason == "content_filter"
        response: dict[str, Any] = {
            "object": "response",
            "status": "incomplete" if cut else "completed",
            "output": list(output),
            "incomplete_details": {"reason": "content_filter" if filtered else "max_output_tokens"}
            if cut
            else None,
        }
        if self._answer.usage is not None:
            response["usage"] = {"input_tokens": 9, "output_tokens": self._answer.usage}
        return response

    def end(self) -> list[bytes]:
        response = self._response(())
        return [orjson.dumps({"type": f"response.{response['status']}", "response": response})]

    def whole(self, text: str) -> bytes:
        said: dict[str, Any] = {"type": "message", "content": [{"type": "output_text", "text": text}]}
        if self._tool:
            said = {"type": "custom_tool_call", "call_id": "c", "name": "trace", "input": text}
        return orjson.dumps(self._response([said]))


# --- what becomes of what a model says ------------------------------------------------------------


def answered(text: str, plan: Plan, generation: int, random: Random, *, ends: str | None = "stop") -> Answer:
    """Answer with what a model says, as the plan has it for a generation.

    `ends` is how the model itself ends, "stop" where it does so in the server's own words.
    """
    mishap = plan.mishaps[min(generation, len(plan.mishaps)) - 1]
    manner = plan.manners[(generation - 1) % len(plan.manners)]
    reason = plan.own_end if ends == "stop" else ends
    match mishap:
        case Mishap.CUT:
            text, reason = text[: random.randint(0, max(0, len(text) - 1))], plan.cut
        case Mishap.LATE:
            reason = plan.cut
        case Mishap.EMPTY:
            text = ""
        case Mishap.RUNAWAY:
            at = random.randint(0, len(text))
            text = text[:at] + random.choice(["\n", "7", " ", "1, "]) * _LONGEST
        case _:
            pass
    usage = len(text) // 4 + 1 if random.random() < 0.7 else None
    return Answer(text=text, finish_reason=reason, usage=usage, manner=manner, mishap=mishap)


def is_ended(event: RunEvent) -> bool:
    """Whether nothing can follow of the same generation."""
    return isinstance(event, Ended | Failed)

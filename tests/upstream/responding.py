"""What OpenAI's Responses API answers, event by event, each checked against the models that OpenAI publishes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, get_args

from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel

USAGE: Final = {
    "input_tokens": 400,
    "input_tokens_details": {"cached_tokens": 256, "cache_write_tokens": 0},
    "output_tokens": 90,
    "output_tokens_details": {"reasoning_tokens": 64},
    "total_tokens": 490,
}
# What they call how an answer ends.
ENDS: Final[Mapping[str, tuple[str, str | None]]] = {
    "stop": ("completed", None),
    "length": ("incomplete", "max_output_tokens"),
    "content_filter": ("incomplete", "content_filter"),
}


@cache
def models() -> dict[str, type[BaseModel]]:
    """The published model of each type of event."""
    union, *_ = get_args(ResponseStreamEvent)
    return {get_args(each.model_fields["type"].annotation)[0]: each for each in get_args(union)}


def checked(event: Mapping[str, Any]) -> bytes:
    """An event as bytes, after a look at whether it is one."""
    models()[event["type"]].model_validate(event, strict=True)
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


@dataclass
class Answer:
    """One answer. What it says is added piece by piece; every method gives the events that say it."""

    model: str = "gpt-5-mini"
    output: list[dict[str, Any]] = field(default_factory=list)
    number: int = 0

    def start(self) -> list[bytes]:
        response = self.response("in_progress")
        return [
            self.event("response.created", response=response),
            self.event("response.in_progress", response=response),
        ]

    def tool(self, pieces: Iterable[str]) -> list[bytes]:
        """Something is written into the tool."""
        item = {
            "id": f"ctc_{len(self.output)}",
            "type": "custom_tool_call",
            "call_id": "call_7",
            "name": "trace",
        }
        return list(self._item(item, {"input": ""}, pieces, "custom_tool_call_input", "input"))

    def text(self, pieces: Iterable[str]) -> list[bytes]:
        """Something is said."""
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        return list(self._message(part, pieces, "output_text", "text", logprobs=[]))

    def refusal(self, pieces: Iterable[str]) -> list[bytes]:
        """It is said that nothing will be."""
        return list(self._message({"type": "refusal", "refusal": ""}, pieces, "refusal", "refusal"))

    def summary(self, pieces: Iterable[str]) -> list[bytes]:
        """What was thought, in short."""
        item = {"id": f"rs_{len(self.output)}", "type": "reasoning"}
        known = {"summary_index": 0}
        return list(self._item(item, {"summary": []}, pieces, "reasoning_summary_text", "text", **known))

    def thoughts(self, pieces: Iterable[str]) -> list[bytes]:
        """What was thought, as it was."""
        item = {"id": f"rs_{len(self.output)}", "type": "reasoning", "summary": []}
        known = {"content_index": 0}
        return list(self._item(item, {"content": []}, pieces, "reasoning_text", "text", **known))

    def end(self, finish_reason: str = "stop") -> list[bytes]:
        status, _ = ENDS[finish_reason]
        return [self.event(f"response.{status}", response=self.ended(finish_reason))]

    def ended(self, finish_reason: str = "stop") -> dict[str, Any]:
        """The response in one piece."""
        status, reason = ENDS[finish_reason]
        details = None if reason is None else {"reason": reason}
        return self.response(status, usage=USAGE, incomplete_details=details)

    def failed(self, code: str, message: str) -> list[bytes]:
        error = {"code": code, "message": message}
        return [self.event("response.failed", response=self.response("failed", error=error))]

    def error(self, code: str | None, message: str) -> list[bytes]:
        return [self.event("error", code=code, message=message, param=None)]

    # --- what these are made of ------------------------------------------------------------------

    def event(self, kind: str, **members: Any) -> bytes:
        self.number += 1
        return checked({"type": kind, "sequence_number": self.number - 1, **members})

    def response(self, status: str, **members: Any) -> dict[str, Any]:
        known = {
            "id": "resp_1",
            "object": "response",
            "created_at": 1.0,
            "status": status,
            "model": self.model,
        }
        rest: dict[str, Any] = {
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "usage": None,
        }
        asked = {"parallel_tool_calls": False, "tool_choice": "auto", "tools": [], "store": False}
        response = {**known, "output": list(self.output), **rest, **asked, **members}
        Response.model_validate(response, strict=True)
        return response

    def _item(
        self,
        item: dict[str, Any],
        empty: dict[str, Any],
        pieces: Iterable[str],
        kind: str,
        name: str,
        **known: Any,
    ) -> Iterator[bytes]:
        place = len(self.output)
        where = {"item_id": item["id"], "output_index": place, **known}
        yield self.event("response.output_item.added", output_index=place, item={**item, **empty})
        said = ""
        for piece in pieces:
            said += piece
            yield self.event(f"response.{kind}.delta", delta=piece, **where)
        yield self.event(f"response.{kind}.done", **{name: said}, **where)
        whole = {
            "input": said,
            "summary": [{"type": "summary_text", "text": said}],
            "content": [{"type": "reasoning_text", "text": said}],
        }
        done = {**item, **{member: whole[member] for member in empty}}
        self.output.append(done)
        yield self.event("response.output_item.done", output_index=place, item=done)

    def _message(
        self, part: dict[str, Any], pieces: Iterable[str], kind: str, name: str, **known: Any
    ) -> Iterator[bytes]:
        place = len(self.output)
        item = {"id": f"msg_{place}", "type": "message", "role": "assistant"}
        where = {"item_id": item["id"], "output_index": place, "content_index": 0}
        begun = {**item, "status": "in_progress", "content": []}
        yield self.event("response.output_item.added", output_index=place, item=begun)
        yield self.event("response.content_part.added", part=part, **where)
        said = ""
        for piece in pieces:
            said += piece
            yield self.event(f"response.{kind}.delta", delta=piece, **where, **known)
        yield self.event(f"response.{kind}.done", **{name: said}, **where, **known)
        yield self.event("response.content_part.done", part={**part, name: said}, **where)
        done = {**item, "status": "completed", "content": [{**part, name: said}]}
        self.output.append(done)
        yield self.event("response.output_item.done", output_index=place, item=done)

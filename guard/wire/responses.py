"""OpenAI's Responses API on the wire: what the events of a stream, or a response in one piece, say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from guard.foreign import Said
from guard.wire.apart import Apart
from guard.wire.chat import SILENT, Call, InBandError, Piece, WireUsage, error_in, usage_of
from guard.wire.lenient import NOT_JSON, paired, read_json
from guard.wire.statuses import status_of

# What is thought comes as the deltas of these, and in the parts of an item `reasoning`.
THOUGHTS: Final = ("reasoning_text", "reasoning_summary_text")

_TEXT: Final = "response.output_text.delta"
_INPUT: Final = "response.custom_tool_call_input.delta"
_LAST: Final = {f"response.{status}": status for status in ("completed", "incomplete", "failed")}


class Events:
    """Reads one answer, event by event. `read` never raises.

    Events that it does not know, or cannot read, say nothing. Where no piece of a text came beforehand, the
    text is taken from the response that the last event holds; an answer in one piece is such a response. Each
    part of a message begins on a line of its own.

    `thoughts`: of which deltas are thoughts.
    """

    def __init__(self, thoughts: tuple[str, ...] = THOUGHTS) -> None:
        self._thoughts = frozenset(f"response.{name}.delta" for name in thoughts)
        self._heard = False  # whether something was said or written into a tool
        self._thought = False
        self._parts = Apart()  # of messages
        self._names: dict[int, str] = {}  # of the tools that are called, by the place of the call

    def read(self, data: bytes) -> Piece | InBandError | None:
        """Read the data of an event, or the whole response; None where it is no JSON."""
        event = read_json(data)
        match event:
            case {"type": str(kind), "delta": str(text)} if self._told(kind):
                return self._piece(kind, text, event)
            case {"type": str(kind)} if kind in _LAST:
                response = event.get("response")
                return self._end(_LAST[kind], response if isinstance(response, dict) else {})
            case {
                "type": "response.output_item.added",
                "item": {"name": str(name)},
                "output_index": int(place),
            }:
                self._names[place] = name
                return SILENT
            case {"type": "error"}:
                told = event.get("error")
                return _error(told if isinstance(told, dict) else event)
            case {"message": str(), "code": int() | str()}:
                return _error(event)
            case {"type": str()}:
                return SILENT
            case {"object": "response"}:
                return self._end("", event)
            case {"error": dict(told)}:
                return _error(told)
            case _:
                return None if event is NOT_JSON else error_in(event, data) or SILENT

    def _told(self, kind: str) -> bool:
        return kind in {_TEXT, _INPUT} or kind in self._thoughts

    def _piece(self, kind: str, text: str, event: Mapping[str, Any]) -> Piece:
        if kind in self._thoughts:
            self._thought = self._thought or bool(text)
            return Piece("", text, None, None)
        self._heard = self._heard or bool(text)
        place = event.get("output_index")
        if kind == _TEXT:
            return Piece(self._parts.join((place, event.get("content_index")), text), "", None, None)
        known = event.get("item_id")
        place = place if isinstance(place, int) else 0
        call = Call(place, text, known if isinstance(known, str) else None, self._names.get(place))
        return Piece("", "", None, None, (call,) if text else ())

    def _end(self, said: str, response: Mapping[str, Any]) -> Piece | InBandError:
        """Read the end. `said` is the status that the event stands for; the response may know better."""
        told = response.get("status")
        status = said if told is None or said not in {"", "completed"} else told
        if status == "failed":
            error = response.get("error")
            return _error(error if isinstance(error, dict) else {})
        items = response.get("output")
        items = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        unheard = () if self._heard else enumerate(_said(items))
        return Piece(
            "".join(self._parts.join(place, said) for place, said in unheard),
            "" if self._thought else "".join(_thought(items)),
            _finish_reason(status, response.get("incomplete_details"), items),
            _usage(response.get("usage")),
            () if self._heard else tuple(_inputs(items)),
        )


def _finish_reason(status: object, details: object, items: list[dict[str, Any]]) -> str | None:
    """Give the finish reason that a chat completion would have; None where a response has not ended."""
    if status not in ("completed", "incomplete"):
        return None
    reason = details.get("reason") if isinstance(details, dict) else details
    if reason == "content_filter":
        return "content_filter"
    cut = status == "incomplete" or reason or any(item.get("status") == "incomplete" for item in items)
    return "length" if cut else "stop"


def _usage(told: object) -> WireUsage | None:
    if not isinstance(told, dict):
        return None
    return usage_of(
        {
            "prompt_tokens": told.get("input_tokens"),
            "completion_tokens": told.get("output_tokens"),
            "completion_tokens_details": told.get("output_tokens_details"),
        }
    )


def _error(told: Mapping[str, Any]) -> InBandError:
    message, code = told.get("message"), told.get("code")
    kind = told.get("type")
    said = Said.of(
        paired(message) if isinstance(message, str) else "",
        code=code,
        type=None if kind == "error" else kind,  # which is the event's
        param=told.get("param"),
    )
    return InBandError(said, _status(code, told))


def _status(code: object, told: Mapping[str, Any]) -> int | None:
    known = status_of(code, told.get("status"))
    if known is not None:
        return known
    if isinstance(code, str):  # of which there are many for what is wrong with a request
        ours = code.startswith("invalid_") or code.endswith(("_policy", "_policy_violation"))
        if ours or "image" in code:
            return 400
    return status_of(told.get("type"))


# --- items ---------------------------------------------------------------------------------------


def _said(items: list[dict[str, Any]]) -> Iterator[str]:
    for item in items:
        if item.get("type") == "message":
            yield from _texts(item.get("content"), "output_text")


def _thought(items: list[dict[str, Any]]) -> Iterator[str]:
    for item in items:
        if item.get("type") == "reasoning":
            yield from _texts(item.get("content"), "reasoning_text")
            yield from _texts(item.get("summary"), "summary_text")


def _inputs(items: list[dict[str, Any]]) -> Iterator[Call]:
    for place, item in enumerate(items):
        match item:
            case {"type": "custom_tool_call", "input": str(written)} if written:
                known, name = item.get("id"), item.get("name")
                yield Call(
                    place,
                    written,
                    known if isinstance(known, str) else None,
                    name if isinstance(name, str) else None,
                )
            case _:
                pass


def _texts(parts: object, kind: str) -> Iterator[str]:
    for part in parts if isinstance(parts, list) else ():
        match part:
            case {"type": str(found), "text": str(text)} if found == kind:
                yield text

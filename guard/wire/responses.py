"""OpenAI's Responses API on the wire: what the events of a stream, or a response in one piece, say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from guard.foreign import Said
from guard.wire.apart import Apart
from guard.wire.chat import InBandError, Piece, WireUsage, read_error
from guard.wire.statuses import status_of

# What is thought comes as the deltas of these, and in the parts of an item `reasoning`.
THOUGHTS: Final = ("reasoning_text", "reasoning_summary_text")

_TEXT: Final = "response.output_text.delta"
_INPUT: Final = "response.custom_tool_call_input.delta"
_LAST: Final = {f"response.{status}": status for status in ("completed", "incomplete", "failed")}
_NOTHING: Final = Piece("", "", None, None)


class Events:
    """Reads one answer, event by event. `read` never raises.

    Events that it does not know say nothing. Where no piece of a text came beforehand, the text is taken
    from the response that the last event holds; an answer in one piece is such a response. Each part of a
    message begins on a line of its own.

    `thoughts`: of which deltas are thoughts.
    """

    def __init__(self, thoughts: tuple[str, ...] = THOUGHTS) -> None:
        self._thoughts = frozenset(f"response.{name}.delta" for name in thoughts)
        self._heard = False  # whether something was said or written into a tool
        self._thought = False
        self._parts = Apart()  # of messages

    def read(self, data: bytes) -> Piece | InBandError | None:
        """Read the data of an event, or the whole response; None where it is neither."""
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            return None
        match event:
            case {"type": str(kind), "delta": str(text)} if self._told(kind):
                return self._piece(kind, text, event)
            case {"type": str(kind), "response": dict(response)} if kind in _LAST:
                return self._end(_LAST[kind], response)
            case {"type": "error"}:
                told = event.get("error")
                return _error(told if isinstance(told, dict) else event)
            case {"message": str(), "code": int() | str()}:
                return _error(event)
            case {"type": str(kind)}:
                return None if self._told(kind) or kind in _LAST else _NOTHING
            case {"object": "response"}:
                return self._end(event.get("status"), event)
            case {"error": dict(told)}:
                return _error(told)
            case _:
                return read_error(data)

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
        return Piece("", "", None, None, ((place if isinstance(place, int) else 0, text),))

    def _end(self, status: object, response: Mapping[str, Any]) -> Piece | InBandError:
        if status == "failed":
            error = response.get("error")
            return _error(error if isinstance(error, dict) else {})
        items = response.get("output")
        items = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        unheard = () if self._heard else enumerate(_said(items))
        return Piece(
            "".join(self._parts.join(place, said) for place, said in unheard),
            "" if self._thought else "".join(_thought(items)),
            _finish_reason(status, response.get("incomplete_details")),
            _usage(response.get("usage")),
            () if self._heard else tuple(_inputs(items)),
        )


def _finish_reason(status: object, details: object) -> str | None:
    """Give the finish reason that a chat completion would have; None where a response has not ended."""
    match status, details:
        case "completed", _:
            return "stop"
        case "incomplete", {"reason": "content_filter"}:
            return "content_filter"
        case "incomplete", _:
            return "length"
        case _:
            return None


def _usage(told: object) -> WireUsage | None:
    if not isinstance(told, dict):
        return None
    return WireUsage.model_validate(
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
        message if isinstance(message, str) else "",
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


def _inputs(items: list[dict[str, Any]]) -> Iterator[tuple[int, str]]:
    for place, item in enumerate(items):
        written = item.get("input")
        if item.get("type") == "custom_tool_call" and isinstance(written, str) and written:
            yield place, written


def _texts(parts: object, kind: str) -> Iterator[str]:
    for part in parts if isinstance(parts, list) else ():
        match part:
            case {"type": str(found), "text": str(text)} if found == kind:
                yield text

"""An answer of a model server as it came, unread by a run: what it says, and in which form it says it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

from guard.foreign import Foreign
from guard.upstream.capabilities import Api
from guard.wire import finish, sse
from guard.wire.chat import InBandError, Piece, read_error, text_of
from guard.wire.lenient import paired, read_json
from guard.wire.responses import Events

OK: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came.

    `text`: of the first choice, with what it writes into tools. `thoughts`: fields beside it that had text.
    `choices`: how many there were. `problem`: why it is no answer, empty where it is one; `said` is what the
    server says of that, or what it is instead.
    """

    status: int
    text: str = ""
    streamed: bool = False
    usage: bool = False
    choices: int = 0
    finish_reason: str | None = None
    thoughts: frozenset[str] = field(default_factory=frozenset)
    problem: str = ""
    said: Foreign = Foreign()

    @property
    def cut(self) -> bool:
        """Whether it ended before the model had."""
        return self.finish_reason is not None and not finish.is_own(self.finish_reason)

    @property
    def thinks(self) -> bool:
        """Whether there are thoughts in it, in fields or in tags."""
        return bool(self.thoughts) or "</think>" in self.text

    @property
    def begun(self) -> bool:
        """Whether it begins among thoughts: the prompt has opened them, so that they are only closed."""
        return "</think>" in self.text and "<think>" not in self.text

    @property
    def good(self) -> bool:
        """Whether it is an answer to the question."""
        return self.status == OK and not self.problem


def read_answer(status: int, body: bytes, api: Api = Api.CHAT) -> Answer:
    """Read the whole body of an answer. Never raises."""
    streamed = body.lstrip()[:1] not in {b"{", b"<", b""}
    decoder = sse.Decoder()
    events = [*decoder.feed(body), *decoder.close()] if streamed else [body]
    if api is Api.RESPONSES and status == OK:
        return _response(events, streamed=streamed)
    pieces = [_object(event) for event in events if event.strip() != sse.DONE]
    errors = [error.said.text for event in events if (error := read_error(event)) is not None]
    if status != OK or errors:
        problem = f"it answered {status}" if status != OK else "it reported an error"
        return Answer(status=status, problem=problem, said=errors[0] if errors else Foreign(body))
    choices = [choice for piece in pieces for choice in _choices(piece)]
    first = [_said(choice) for choice in choices if not choice.get("index")]
    reasons = [finish.plain(choice.get("finish_reason")) for choice in choices]
    return Answer(
        status=status,
        text=paired("".join(_text(said) for said in first)),
        streamed=streamed,
        usage=any(piece.get("usage") for piece in pieces),
        choices=len({choice.get("index") or 0 for choice in choices}),
        finish_reason=reduce(finish.worse, reasons, None),
        thoughts=frozenset(name for said in first for name in _thoughts(said)),
        problem="" if choices else _no_answer(body),
        said=Foreign() if choices else Foreign(body),
    )


def _response(events: list[bytes], *, streamed: bool) -> Answer:
    reader = Events()
    told = [reader.read(event) for event in events if event != sse.DONE]
    errors = [each.said.text for each in told if isinstance(each, InBandError)]
    pieces = [each for each in told if isinstance(each, Piece)]
    ends = [piece.finish_reason for piece in pieces if piece.finish_reason]
    thoughts = {
        str(kind).removeprefix("response.").removesuffix(".delta")
        for kind in (_object(event).get("type") for event in events)
        if str(kind).startswith("response.reasoning") and str(kind).endswith(".delta")
    }
    problem = "" if ends else "the answer is no response, or has no end"
    return Answer(
        status=OK,
        text="".join(piece.text + "".join(call.text for call in piece.inputs) for piece in pieces),
        streamed=streamed,
        usage=any(piece.usage for piece in pieces),
        choices=1,
        finish_reason=ends[-1] if ends else None,
        thoughts=frozenset(thoughts),
        problem="it reported an error" if errors else problem,
        said=errors[0] if errors else Foreign(),
    )


def _no_answer(body: bytes) -> str:
    if not body.strip():
        return "the answer is empty"
    return "a web page came" if body.lstrip().startswith(b"<") else "the answer has no choices"


_NO_THOUGHTS = frozenset(
    {"role", "content", "refusal", "tool_calls", "function_call", "audio", "annotations"}
)


def _object(event: bytes) -> dict[str, Any]:
    value = read_json(event)
    return value if isinstance(value, dict) else {}


def _choices(piece: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    choices = piece.get("choices")
    yield from (choice for choice in choices if isinstance(choice, dict)) if isinstance(choices, list) else ()


def _said(choice: Mapping[str, Any]) -> dict[str, Any]:
    said = choice.get("delta") or choice.get("message")
    return said if isinstance(said, dict) else {}


def _text(said: dict[str, Any]) -> str:
    calls = said.get("tool_calls")
    text = text_of(said)
    for call in calls if isinstance(calls, list) else ():
        custom = call.get("custom") if isinstance(call, dict) else None
        written = custom.get("input") if isinstance(custom, dict) else None
        text += written if isinstance(written, str) else ""
    return text


def _thoughts(said: Mapping[str, Any]) -> Iterator[str]:
    for name, value in said.items():
        if name not in _NO_THOUGHTS and isinstance(value, str) and value:
            yield name

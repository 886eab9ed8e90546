"""Chat completions on the wire: the request as it comes in, what is sent on, and what comes back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from guard.errors import RequestError
from guard.foreign import Said
from guard.wire import finish
from guard.wire.body import encode, read_exactly, read_object
from guard.wire.lenient import NOT_JSON, paired, read_json
from guard.wire.statuses import status_of

Message = dict[str, object]

MODEL_CHARACTERS: Final = 512  # of a model's name, which is remembered with what its server can do
MAX_TOKENS = 10**9  # that a model server can believably have read or written
REASONING: Final = ("reasoning_content", "reasoning")  # where most servers put thoughts


# --- the client's request ------------------------------------------------------------------------


class Control(BaseModel):
    """The body field `stepguard`: what binds a request, consumed and never sent on."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    procedure: str | None = None
    inputs: dict[str, Any] = Field(default_factory=dict)
    policy: str | None = None
    mode: str | None = None
    content: Literal["answer", "trace", "both"] | None = None


class StreamOptions(BaseModel):
    """`stream_options`: whether the last chunk tells the usage."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    include_usage: bool | None = None


class ChatRequest(BaseModel):
    """A chat completion request. Fields that are not named here survive in `model_extra`."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    model: str = Field(max_length=MODEL_CHARACTERS)
    messages: list[Message] = Field(min_length=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    seed: int | None = None
    stepguard: Control | None = None

    @field_validator("messages")
    @classmethod
    def _roles(cls, messages: list[Message]) -> list[Message]:
        for position, message in enumerate(messages):
            if not isinstance(message.get("role"), str):
                raise ValueError(f"message {position} has no role")  # noqa: TRY004 (pydantic reports it)
            if not isinstance(message.get("content"), str | list | None):
                raise ValueError(f"message {position}: content is no text, no list of parts")  # noqa: TRY004
        return messages

    @property
    def budget(self) -> int | None:
        """How many tokens the client allows over all generations, if it says."""
        limits = [limit for limit in (self.max_tokens, self.max_completion_tokens) if limit is not None]
        return min(limits) if limits else None

    @property
    def budget_field(self) -> str:
        """The field that sets the budget."""
        old = self.max_tokens is not None and self.max_tokens == self.budget
        return "max_tokens" if old else "max_completion_tokens"

    @property
    def wants_usage(self) -> bool:
        """Whether a stream has to end with a chunk that tells the usage."""
        return bool(self.stream_options and self.stream_options.include_usage)


def parse_request(body: bytes, raw: Mapping[str, Any] | None = None) -> ChatRequest:
    """Read a request body; `raw` is what `read_object` gives of it, where that is known.

    Numbers are as they are written: in `stepguard.inputs`, in messages and in fields that are not named
    here. Raises `RequestError`, which names the first field that is wrong.
    """
    read = read_object(body) if raw is None else raw
    exact = read_exactly(body)
    encode(read)  # what cannot be sent on is refused before anything is spent
    ours = {name: value for name, value in read.items() if name in _READ}
    try:
        return ChatRequest.model_validate({**exact, **ours})
    except ValidationError as error:
        raise _first_problem(error) from None


# Fields that hold no number which is sent on as it was written.
_READ: Final = frozenset(ChatRequest.model_fields) - {"messages", "stepguard"}


def _first_problem(error: ValidationError) -> RequestError:
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] in {"model_type", "dict_type"}:  # pydantic would name a class of ours
        message = "expected an object"
    return RequestError(f"{where}: {message[:1].lower()}{message[1:]}", param=where, code="invalid_value")


def text_of(message: Message) -> str:
    """The text of a message: its content, or its text parts one below the other."""
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


# --- the upstream's answer -----------------------------------------------------------------------


class _Details(BaseModel):
    reasoning: int | None = Field(default=None, alias="reasoning_tokens")

    @field_validator("reasoning", mode="before")
    @classmethod
    def _plausible(cls, tokens: Any) -> Any:
        return tokens if type(tokens) is int and 0 <= tokens <= MAX_TOKENS else None


class WireUsage(BaseModel):
    """`usage`, as far as it is read. Numbers that cannot be meant count as not told."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    completion_tokens_details: _Details | None = None

    @property
    def reasoning_tokens(self) -> int | None:
        """Of the completion tokens, those that were thoughts."""
        return None if self.completion_tokens_details is None else self.completion_tokens_details.reasoning

    @field_validator("completion_tokens_details", mode="before")
    @classmethod
    def _told(cls, details: Any) -> Any:
        return details if isinstance(details, dict) else None

    @field_validator("prompt_tokens", "completion_tokens", mode="before")
    @classmethod
    def _plausible(cls, tokens: Any) -> Any:
        return tokens if type(tokens) is int and 0 <= tokens <= MAX_TOKENS else None


def usage_of(told: object) -> WireUsage | None:
    """Read `usage`; None where it is no object."""
    return WireUsage.model_validate(told) if isinstance(told, dict) else None


@dataclass(frozen=True, slots=True)
class Call:
    """What a piece writes into a tool that takes a text.

    `place`, `id` and `name` tell which call it belongs to; what follows the first piece may leave out the
    last two.
    """

    place: int
    text: str
    id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """What one chunk, or a whole answer, says of the first choice.

    `thought`: the reasoning that came beside it, which is none of the answer but was paid for. `inputs`: what
    it writes into tools that take a text. `finish_reason` is as `guard.wire.finish` lists it.
    """

    text: str
    thought: str
    finish_reason: str | None
    usage: WireUsage | None
    inputs: tuple[Call, ...] = ()


SILENT: Final = Piece("", "", None, None)  # what carries nothing, such as a sign of life


@dataclass(frozen=True, slots=True)
class InBandError:
    """An error that came as data, with what was said of it. `status` where it names one of HTTP's."""

    said: Said
    status: int | None


def read_piece(data: bytes, reasoning: tuple[str, ...] = REASONING) -> Piece | InBandError | None:
    """Read the data of a chunk or the body of a whole answer; None where it is no JSON.

    `reasoning`: the fields that may hold thoughts. What nobody reads may be of any form.
    """
    return read_usual_piece(data) or read_any_piece(data, reasoning)


def read_usual_piece(data: bytes) -> Piece | None:
    """Read a chunk that is some text of one choice, as nearly all are; None where it may be more."""
    try:
        raw = orjson.loads(data)
        (choice,) = raw["choices"]
        (text,) = choice["delta"].values()
        usual = "content" in choice["delta"] and choice["index"] == 0 and choice["finish_reason"] is None
        extra = raw.get("usage") or raw.get("error")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return Piece(text, "", None, None) if usual and not extra and isinstance(text, str) else None


def read_any_piece(data: bytes, reasoning: tuple[str, ...] = REASONING) -> Piece | InBandError | None:
    """Read whatever may come; `read_piece` with nothing taken for granted."""
    raw = read_json(data)
    if raw is NOT_JSON:
        return None
    if not isinstance(raw, dict):
        return SILENT
    choices = raw.get("choices")
    if raw.get("error") or not isinstance(choices, list):
        error = error_in(raw, data)
        if error is not None:
            return error
    usage = usage_of(raw.get("usage"))
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and not choice.get("index"):
            return _of_choice(choice, reasoning, usage)
    return SILENT if usage is None else Piece("", "", None, usage)


def _of_choice(choice: Mapping[str, Any], reasoning: tuple[str, ...], usage: WireUsage | None) -> Piece:
    """Read what a choice says, in a delta or in a message. Content that comes in parts is joined."""
    delta, message = choice.get("delta"), choice.get("message")
    said = delta if isinstance(delta, dict) else message if isinstance(message, dict) else {}
    return Piece(
        text_of(said),
        _thought(said, reasoning),
        finish.plain(choice.get("finish_reason")),
        usage,
        tuple(_inputs(said.get("tool_calls"))),
    )


def _inputs(calls: object) -> Iterator[Call]:
    for place, call in enumerate(calls if isinstance(calls, list) else ()):
        match call:
            case {"custom": {"input": str(text)} as custom} if text:
                index, known = call.get("index"), call.get("id")
                name = custom.get("name")
                yield Call(
                    index if isinstance(index, int) else place,
                    text,
                    known if isinstance(known, str) and known else None,
                    name if isinstance(name, str) and name else None,
                )
            case {"custom": {"name": str(name)}, "id": str(known)}:
                index = call.get("index")
                yield Call(index if isinstance(index, int) else place, "", known, name)
            case _:
                pass


def _thought(said: Mapping[str, Any], fields: tuple[str, ...]) -> str:
    """Give what is thought in the first of these fields that is there, else in parts of the content."""
    texts = (text for name in fields if isinstance(text := said.get(name), str))
    return next(filter(None, texts), "") or _thought_in(said.get("content"))


def _thought_in(content: Any) -> str:
    """Join the thoughts among the parts of a content."""
    parts = content if isinstance(content, list) else ()
    return "".join(
        text_of({"content": part["thinking"]})
        for part in parts
        if isinstance(part, dict) and part.get("type") == "thinking" and "thinking" in part
    )


def read_error(data: bytes) -> InBandError | None:
    """Read an error body of one of the usual shapes; None where it has none of them."""
    return error_in(read_json(data), data)


def error_in(raw: Any, data: bytes) -> InBandError | None:
    """Find the error that a value is, in one of the usual shapes. `data` is the value as it came."""
    match raw:
        case {"error": {"message": str(message), **rest}}:
            return InBandError(_said(message, rest), _status(rest))
        case (
            {"error": str(message)}
            | {"object": "error", "message": str(message)}
            | {"message": str(message), "code": int() | str()}  # what an event of the name `error` holds
            | {"detail": str(message)}
        ) if message:
            return InBandError(_said(message, raw), _status(raw))
        case {"error": error} if error:  # as it came: it may be nested more deeply than can be written
            return InBandError(Said.of(data), _status(error if isinstance(error, dict) else raw))
        case _:
            return None


def _said(message: str, error: Mapping[Any, object]) -> Said:
    return Said.of(paired(message), code=error.get("code"), type=error.get("type"), param=error.get("param"))


def _status(error: Mapping[Any, object]) -> int | None:
    return status_of(error.get("code"), error.get("status"), error.get("type"))


# --- our own answer ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What all chunks of one answer share; one id, one `created`, however many generations it took."""

    id: str
    model: str
    created: int

    def completion(
        self,
        content: str | None,
        *,
        refusal: str | None = None,
        reasoning: str | None = None,
        finish_reason: str = "stop",
        usage: dict[str, object] | None = None,
        stepguard: dict[str, object] | None = None,
    ) -> bytes:
        """Give the body of an answer in one piece."""
        message: dict[str, object] = {"role": "assistant", "content": content, "refusal": refusal}
        if reasoning is not None:
            message["reasoning_content"] = reasoning
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}
        extra = {"usage": usage, "stepguard": stepguard}
        said = {name: value for name, value in extra.items() if value is not None}
        return orjson.dumps(self._body("chat.completion") | {"choices": [choice]} | said)

    def role(self) -> bytes:
        """The first chunk's data."""
        return self._chunk({"role": "assistant", "content": ""})

    def content(self, text: str, *, stepguard: dict[str, object] | None = None) -> bytes:
        """Some of the answer."""
        return self._chunk({"content": text}, extra=_marked(stepguard))

    def refusal(self, text: str, *, stepguard: dict[str, object] | None = None) -> bytes:
        """What is said instead of an answer."""
        return self._chunk({"refusal": text}, extra=_marked(stepguard))

    def reasoning(self, text: str, *, stepguard: dict[str, object] | None = None) -> bytes:
        """Some of the steps."""
        return self._chunk({"reasoning_content": text}, extra=_marked(stepguard))

    def thought(self, text: str, *, stepguard: dict[str, object]) -> bytes:
        """Something that a model thought; without text where the field for it is for steps."""
        return self._chunk({"reasoning_content": text} if text else {}, extra=_marked(stepguard))

    def finish(self, finish_reason: str, stepguard: dict[str, object] | None = None) -> bytes:
        """The chunk that ends the choice and carries the report."""
        return self._chunk({}, finish_reason, _marked(stepguard))

    def usage(self, usage: dict[str, object]) -> bytes:
        """The chunk behind the last, where the client asked for the usage."""
        return orjson.dumps(self._body("chat.completion.chunk") | {"choices": [], "usage": usage})

    def _chunk(
        self,
        delta: dict[str, object],
        finish_reason: str | None = None,
        extra: dict[str, object] | None = None,
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return orjson.dumps(self._body("chat.completion.chunk") | {"choices": [choice]} | (extra or {}))

    def _body(self, kind: str) -> dict[str, object]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def _marked(stepguard: dict[str, object] | None) -> dict[str, object]:
    return {} if stepguard is None else {"stepguard": stepguard}

"""Whatever went wrong, as OpenAI's error object with its status and headers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import orjson

from guard.errors import GuardError, RequestError, UpstreamDenied, UpstreamError
from guard.foreign import NOTHING, Foreign, Said, Sink

MAX_MESSAGE: Final = 4_000  # characters
MAX_PARAM: Final = 200
CLIENT_WAITS_S: Final = 120.0  # OpenAI's clients would not wait for longer, and try again at once


class Failure(Protocol):
    """What a run says of its failure; `guard.run.messages.RunError` is one."""

    @property
    def status(self) -> int: ...
    @property
    def type(self) -> str: ...
    @property
    def code(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def param(self) -> str | None: ...
    @property
    def retry_after_s(self) -> float | None: ...
    @property
    def cause(self) -> UpstreamError | None: ...
    @property
    def foreign(self) -> Foreign: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorAnswer:
    """An answer that is an error. `retry` says whether sending the same request again may help."""

    status: int
    type: str
    code: str
    message: str
    param: str | None = None
    retry: bool = False
    retry_after_s: float | None = None

    @property
    def body(self) -> bytes:
        """The JSON body."""
        return orjson.dumps({"error": self._error()})

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Headers, `content-type` among them.

        `x-should-retry` is what OpenAI's clients obey before they look at the status; without it they
        would multiply our own retries.
        """
        headers = [
            ("content-type", "application/json"),
            ("x-should-retry", "true" if self.retry else "false"),
        ]
        if self.retry_after_s is not None:
            headers.append(("retry-after", str(max(0, -int(-self.retry_after_s // 1)))))
        return tuple(headers)

    def _error(self) -> dict[str, object]:
        """The error object. What a client wrote may be in it, of any length: it is cut."""
        return {
            "message": _cut(self.message, MAX_MESSAGE),
            "type": self.type,
            "param": self.param and _cut(self.param, MAX_PARAM),
            "code": self.code,
        }


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "..."


def of_failure(failure: Failure, sink: Sink, *, reveal: bool = False) -> ErrorAnswer:
    """What a client reads of a run that has no answer.

    Names that a server has for it are told on, what else it says only with `reveal`; all of it by the sink.
    """
    said = _told_on(failure.cause)
    return ErrorAnswer(
        status=failure.status,
        type=sink.name(said.type) or failure.type,
        code=sink.name(said.code) or failure.code,
        message=": ".join(filter(None, (failure.message, sink.shown(failure.foreign) if reveal else ""))),
        param=sink.name(said.param) or failure.param,
        retry=failure.retry_after_s is not None and failure.retry_after_s <= CLIENT_WAITS_S,
        retry_after_s=failure.retry_after_s,
    )


def of_error(error: GuardError, sink: Sink) -> ErrorAnswer:
    """What a client reads of an exception of ours.

    The text of our own bugs and of the operator's mistakes stays with us.
    """
    match error:
        case RequestError():
            return ErrorAnswer(
                status=error.http_status,
                type=error.type,
                code=error.code,
                message=error.message,
                param=error.param,
            )
        case UpstreamError():
            said = _told_on(error)
            return ErrorAnswer(
                status=error.http_status,
                type=sink.name(said.type) or "upstream_error",
                code=sink.name(said.code) or error.code,
                message=error.message,
                param=sink.name(said.param) or None,
                retry=error.retryable and (error.retry_after_s or 0) <= CLIENT_WAITS_S,
                retry_after_s=error.retry_after_s,
            )
        case _:
            return ErrorAnswer(
                status=error.status, type="server_error", code="internal_error", message="internal error"
            )


def _told_on(cause: UpstreamError | None) -> Said:
    """Give what may be told on by name: nothing of what only the operator can do something about."""
    return NOTHING if cause is None or isinstance(cause, UpstreamDenied) else cause.said

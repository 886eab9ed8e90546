"""Whatever went wrong, as OpenAI's error object with its status and headers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import orjson

from guard.errors import GuardError, RequestError, UpstreamError, UpstreamStatusError

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


def of_failure(failure: Failure) -> ErrorAnswer:
    """What a client reads of a run that has no answer."""
    return ErrorAnswer(
        status=failure.status,
        type=failure.type,
        code=failure.code,
        message=failure.message,
        param=failure.param,
        retry=failure.retry_after_s is not None and failure.retry_after_s <= CLIENT_WAITS_S,
        retry_after_s=failure.retry_after_s,
    )


def of_error(error: GuardError) -> ErrorAnswer:
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
        case UpstreamStatusError(upstream_status=429 as status) | UpstreamError(status=status):
            return ErrorAnswer(
                status=status,
                type="upstream_error",
                code=error.code,
                message=error.message,
                retry=error.retryable and (error.retry_after_s or 0) <= CLIENT_WAITS_S,
                retry_after_s=error.retry_after_s,
            )
        case _:
            return ErrorAnswer(
                status=error.status, type="server_error", code="internal_error", message="internal error"
            )

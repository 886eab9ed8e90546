"""What went wrong with a connection or an answer, as one of our exceptions with a message to act on."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

import aiohttp

from guard.errors import (
    UpstreamConnectError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamStatusError,
    UpstreamTimeout,
)
from guard.upstream.reading import shown, status_error
from guard.wire.chat import read_error

MAX_RETRY_AFTER_S: Final = 86_400.0
_NUMBER: Final = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")


def of_exception(error: Exception) -> UpstreamError:
    """The exception for what aiohttp or the system raised."""
    match error:
        case UpstreamError():
            return error
        case aiohttp.ConnectionTimeoutError():
            return UpstreamTimeout("no connection in time")
        case TimeoutError():
            return UpstreamTimeout("nothing came in time")
        case aiohttp.ClientConnectorDNSError():
            return UpstreamConnectError(f"no address for the host {error.host!r}")
        case aiohttp.ClientSSLError():
            return UpstreamConnectError(f"no trusted connection: {_cause(error)}")
        case aiohttp.ClientConnectorError():
            return UpstreamConnectError(f"no connection: {_cause(error)}")
        case aiohttp.ServerDisconnectedError():
            return UpstreamProtocolError("it closed the connection without an answer")
        case aiohttp.ClientResponseError():
            return UpstreamProtocolError(f"the answer is no HTTP: {error.message[:200]!r}")
        case aiohttp.ClientPayloadError():
            return UpstreamProtocolError("the connection broke off in the middle of the answer")
        case _:
            return UpstreamProtocolError(f"the connection broke: {_cause(error)}")


def _cause(error: Exception) -> str:
    cause = getattr(error, "os_error", None) or error
    number = getattr(cause, "errno", None)
    return (os.strerror(number) if isinstance(number, int) and number > 0 else str(cause)).lower()[:200]


def of_status(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamStatusError:
    """The exception for an answer whose status is not 200."""
    error = read_error(body)
    said = error.message[:500] if error else shown(body)
    return status_error(
        status, f"it answered {status}: {said}", body=body, retry_after_s=retry_after_s(headers)
    )


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """How long the server asks to wait: `retry-after-ms`, seconds, or a date against the server's own.

    Never negative, at most a day; None where nothing sensible is said.
    """
    seconds = _number(headers.get("retry-after-ms"))
    if seconds is not None:
        seconds /= 1000
    else:
        seconds = _number(headers.get("retry-after"))
    if seconds is None:
        seconds = _seconds_between(headers.get("date"), headers.get("retry-after"))
    return None if seconds is None else min(max(0.0, seconds), MAX_RETRY_AFTER_S)


def _number(text: str | None) -> float | None:
    if text is None or not _NUMBER.fullmatch(text):
        return None
    return float(text)  # infinite where there are too many digits: very long


def _seconds_between(now: str | None, then: str | None) -> float | None:
    if not now or not then:
        return None
    try:
        return (_moment(then) - _moment(now)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return None


def _moment(text: str) -> datetime:
    """Read a date of HTTP, whose third spelling has no zone; all are in GMT. Raises `ValueError`."""
    moment = parsedate_to_datetime(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment

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
    UpstreamConnectTimeout,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamStatusError,
    UpstreamTimeout,
)
from guard.foreign import Said
from guard.upstream.reading import DENIED, status_error
from guard.wire.chat import read_error

MAX_RETRY_AFTER_S: Final = 86_400.0
# Fields that no client asks for and some servers refuse, with what keeps them from being sent.
SWITCHES: Final = {"stream_options": "capabilities: {stream_options: false, usage: false}"}
_NUMBER: Final = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")


def of_exception(error: Exception) -> UpstreamError:
    """The exception for what aiohttp or the system raised."""
    match error:
        case UpstreamError():
            return error
        case aiohttp.ConnectionTimeoutError():
            return UpstreamConnectTimeout("no connection in time")
        case TimeoutError():
            return UpstreamTimeout("nothing came in time")
        case aiohttp.ClientConnectorDNSError():
            return UpstreamConnectError("no address for its host", said=Said.of(error.host))
        case aiohttp.ClientSSLError():
            return UpstreamConnectError(f"no trusted connection{_of_system(error)}", said=_cause(error))
        case aiohttp.ClientConnectorError():
            return UpstreamConnectError(f"no connection{_of_system(error)}", said=_cause(error))
        case aiohttp.ServerDisconnectedError():
            return UpstreamProtocolError("it closed the connection without an answer")
        case aiohttp.ClientResponseError():
            return UpstreamProtocolError("the answer is no HTTP", said=Said.of(error.message))
        case aiohttp.ClientPayloadError():
            return UpstreamProtocolError("the connection broke off in the middle of the answer")
        case _:
            return UpstreamProtocolError(f"the connection broke{_of_system(error)}", said=_cause(error))


def _of_system(error: Exception) -> str:
    """Give the system's own words for an error of it."""
    number = getattr(_origin(error), "errno", None)
    return f": {os.strerror(number).lower()}" if isinstance(number, int) and number > 0 else ""


def _cause(error: Exception) -> Said:
    return Said.of(str(_origin(error)))


def _origin(error: Exception) -> object:
    return getattr(error, "os_error", None) or error


def of_status(
    status: int, headers: Mapping[str, str], body: bytes, *, clients_key: bool = False
) -> UpstreamStatusError:
    """The exception for an answer whose status is not 200.

    `clients_key`: the key that was sent was the client's own, who has to hear what is wrong with it.
    """
    error = read_error(body)
    said = error.said if error else Said.of(body)
    message = f"it answered {status}{_switch(said)}"
    if clients_key and status in DENIED:
        return UpstreamStatusError(message, upstream_status=status, said=said)
    return status_error(status, message, said=said, retry_after_s=retry_after_s(headers))


def _switch(said: Said) -> str:
    """Say how a field is switched off that a server complains of, where it is one of ours."""
    named = next((field for field in SWITCHES if said.param == field or field in said.text), None)
    return "" if named is None else f"; it names {named}, which is not sent with `{SWITCHES[named]}`"


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """How long the server asks to wait: `retry-after-ms`, seconds, or a date against the server's own.

    At most a day. None where nothing sensible is said: a time that is over is no answer to "when?".
    """
    now, then = headers.get("date"), headers.get("retry-after")
    milliseconds = _number(headers.get("retry-after-ms"))
    told = (None if milliseconds is None else milliseconds / 1000, _number(then), _seconds_between(now, then))
    seconds = next((one for one in told if one is not None and one >= 0), None)
    return None if seconds is None else min(seconds, MAX_RETRY_AFTER_S)


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

"""HTTP on the wire, as uvicorn reads it, with a bound on all that is no body and deaf to offers of HTTP/2."""

from __future__ import annotations

import re
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from guard.wire.problem import ErrorAnswer

MAX_HEAD_BYTES: Final = 64 * 1024  # request line and headers; the size of one read may come on top of it
FRAMING: Final = 8  # bytes of chunk sizes and the like that a byte of the body may take

# Java's own client offers HTTP/2 with each request. httptools takes a request with such an offer for one
# without a body, so the offer is hidden; the prefix keeps the header from being passed on.
_OFFER: Final = re.compile(rb"(?i)(?<=\n)(?=upgrade[ \t]*:)")
_HIDDEN: Final = b"x-stepguard-ignored-"

_TOO_LARGE: Final = ErrorAnswer(
    status=431,
    type="invalid_request_error",
    code="headers_too_large",
    message=f"the request's headers are longer than {MAX_HEAD_BYTES} bytes",
)


class Protocol(HttpToolsProtocol):
    """One connection. Headers, and trailers, of any length would be kept in memory otherwise."""

    _heading = True  # whether the next byte belongs to a head
    _began = False  # whether a request began in the bytes that are being read
    _body = 0  # bytes of it
    _beside = 0  # all others

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        self._began = False
        super().data_received(_without_offer(data) if self._heading else data)
        if self._began or self.transport.is_closing():
            return
        self._beside += len(data)
        if self._beside > MAX_HEAD_BYTES + FRAMING * self._body:
            self._refuse()

    def on_message_begin(self) -> None:
        """See httptools."""
        self._began = True
        self._body = self._beside = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """See httptools."""
        self._heading = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """See httptools."""
        self._heading = True
        super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        """See httptools."""
        self._body += len(body)
        self._beside -= len(body)
        super().on_body(body)

    def _refuse(self) -> None:
        """Say why where no answer is on its way, and close."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            body = _TOO_LARGE.body
            headers = [*_TOO_LARGE.headers, ("content-length", str(len(body))), ("connection", "close")]
            lines = ["HTTP/1.1 431 Request Header Fields Too Large", *(f"{n}: {v}" for n, v in headers)]
            self.transport.write("\r\n".join([*lines, "", ""]).encode("ascii") + body)
        self.transport.close()


def _without_offer(data: bytes) -> bytes:
    """Hide the header `upgrade` of the first head in this, which nearly always comes in one piece."""
    head, end, rest = data.partition(b"\r\n\r\n")
    return _OFFER.sub(_HIDDEN, head) + end + rest

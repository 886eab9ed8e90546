"""HTTP on the wire, as uvicorn reads it: heads are bounded and final, offers of an upgrade are ignored."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from guard.wire.problem import ErrorAnswer

MAX_HEAD_BYTES: Final = 64 * 1024  # request line and headers; the size of one read may come on top of it
FRAMING: Final = 8  # bytes of chunk sizes and the like that a byte of the body may take

_TOO_LARGE: Final = ErrorAnswer(
    status=431,
    type="invalid_request_error",
    code="headers_too_large",
    message=f"the request's headers are longer than {MAX_HEAD_BYTES} bytes",
)
_MALFORMED: Final = ErrorAnswer(
    status=400,
    type="invalid_request_error",
    code="malformed_request",
    message="the bytes on this connection are not a valid HTTP request",
)
_CONNECT: Final = "CONNECT"  # asks for a tunnel, which is another protocol on this connection


class Protocol(HttpToolsProtocol):
    """One connection.

    Headers, and trailers, of any length would be kept in memory otherwise. Trailers are dropped: a message's
    head is final when it ends, so what follows the body can neither authenticate nor bind a request.
    """

    _heading = True  # whether the next byte belongs to a head
    _began = False  # whether a request began in the bytes that are being read
    _body = 0  # bytes of it
    _beside = 0  # all others

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        self._unset_keepalive_if_required()
        self._began = False
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self._refuse(_MALFORMED)
            return
        if self._began or self.transport.is_closing():
            return
        self._beside += len(data)
        if self._beside > MAX_HEAD_BYTES + FRAMING * self._body:
            self._refuse(_TOO_LARGE)

    def _feed(self, data: bytes) -> None:
        """Parse bytes. A request that offers an upgrade is parsed again without the offer.

        llhttp ends a request at the head that offers one (Java's own client offers HTTP/2 with each request)
        and takes its body for the other protocol. RFC 9110, section 7.8: a server may ignore the offer.
        """
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                head = self._head_without_offer()
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
                data = head + data[offer.args[0] :]
            else:
                return

    def _head_without_offer(self) -> bytes:
        method, version = self.parser.get_method(), self.parser.get_http_version().encode("ascii")
        lines = [b"%s %s HTTP/%s" % (method, self.url, version)]
        for name, value in self.headers:
            kept = _without_upgrade(value) if name == b"connection" else value
            lines.append(b"%s: %s" % (name, kept))
        return b"\r\n".join([*lines, b"", b""])

    @property
    def _offers(self) -> bool:
        """Whether the parser will stop after this head, so that the request is to be parsed again."""
        offers: bool = self.parser.should_upgrade()
        return offers

    def on_message_begin(self) -> None:
        """See httptools."""
        self._began = self._heading = True
        self._body = self._beside = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """See httptools."""
        if self._heading:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """See httptools."""
        if self.parser.get_method().decode("ascii") == _CONNECT:
            raise httptools.HttpParserError("a tunnel is asked for")
        if self._offers:
            return
        self._heading = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """See httptools."""
        if self._offers:
            return
        self._heading = True
        super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        """See httptools."""
        self._body += len(body)
        self._beside -= len(body)
        super().on_body(body)

    def _refuse(self, answer: ErrorAnswer) -> None:
        """Say why where no answer is on its way, and close."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            status = HTTPStatus(answer.status)
            headers = [*answer.headers, ("content-length", str(len(answer.body))), ("connection", "close")]
            lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{n}: {v}" for n, v in headers)]
            self.transport.write("\r\n".join([*lines, "", ""]).encode("ascii") + answer.body)
        self.transport.close()


def _without_upgrade(value: bytes) -> bytes:
    """Give a `connection` header without its token `upgrade`."""
    return b", ".join(token for token in value.split(b",") if token.strip().lower() != b"upgrade")

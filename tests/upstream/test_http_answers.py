"""Answers of HTTP upstreams that are none: error statuses, pages, broken streams, and what has no end."""

from __future__ import annotations

import json

import pytest

from guard.errors import (
    UpstreamBusy,
    UpstreamDenied,
    UpstreamProtocolError,
    UpstreamStatusError,
)
from guard.foreign import Foreign, Said, Sink
from guard.run.messages import Ended, Text
from tests.upstream.servers import (
    STREAM_HEAD,
    Call,
    Connection,
    answered,
    answers,
    chunked,
    connected,
    event,
    fault,
    head,
    opening,
    run,
    said,
    serving,
    streams,
    whole,
)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(status, UpstreamStatusError) for status in (400, 404, 413, 422)]
    + [(status, UpstreamDenied) for status in (401, 402, 403)],
)
def test_an_error_status_is_final_and_keeps_what_is_said(
    status: int, kind: type[UpstreamStatusError]
) -> None:
    told = {"message": "no such model", "type": "x", "code": "Not a name", "param": "messages"}
    error = fault(answers(whole(f"{status} Oh", json.dumps({"error": told}).encode())))
    assert type(error) is kind
    assert (error.upstream_status, error.retryable) == (status, False)
    assert error.message == f"upstream 'main': it answered {status}"
    assert error.said == Said(text=Foreign("no such model"), type="x", param="messages")


def test_a_clients_own_key_that_is_refused_is_the_clients_mistake() -> None:
    refused = fault(answers(whole("401 No", b"{}")), pass_key=True, call=Call(authorization="Bearer k"))
    assert type(refused) is UpstreamStatusError
    assert refused.http_status == 401


@pytest.mark.parametrize("told", [{"param": "stream_options"}, {"message": "unknown field `stream_options`"}])
def test_a_refused_field_of_ours_is_told_with_its_switch(told: dict[str, str]) -> None:
    error = fault(answers(whole("400 No", json.dumps({"error": {"message": "no"} | told}).encode())))
    assert "capabilities: {stream_options: false, usage: false}" in error.message


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_a_status_that_may_pass_may_be_tried_again(status: int) -> None:
    error = fault(answers(whole(f"{status} Oh", b'{"detail": "overloaded"}', "Retry-After: 2")))
    assert type(error) is UpstreamBusy
    assert error.retryable
    assert error.retry_after_s == 2
    assert "overloaded" in error.said.text


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        (["Retry-After: 2"], 2),
        (["Retry-After: 1.5"], 1.5),
        (["retry-after-ms: 250", "Retry-After: 9"], 0.25),
        (["Retry-After: -5"], None),
        (["Retry-After: -0.001"], None),
        (["Retry-After: 0"], 0),
        (["retry-after-ms: -1", "Retry-After: 9"], 9),
        (["retry-after-ms: nan", "Retry-After: -3"], None),
        (["Retry-After: 3600"], 3600),
        (["Retry-After: 1e12"], 86_400),
        (["Retry-After: " + "9" * 400], 86_400),
        (["Retry-After: -" + "9" * 400], None),
        (["Retry-After: inf"], None),
        (["Retry-After: nan"], None),
        (["Retry-After: soon"], None),
        (["Retry-After: 1_0"], None),
        (["Retry-After: ٣"], None),
        (["Date: Mon, 30 Nov 2026 03:00:00 GMT", "Retry-After: Fri, 31 Dec 99999999999 23:59:59 GMT"], None),
        (["Date: Mon, 30 Nov 2026 03:00:00 GMT", "Retry-After: Mon, 30 Nov 2026 03:00:07 GMT"], 7),
        (["Date: Mon, 30 Nov 2026 03:00:00 GMT", "Retry-After: Mon, 30 Nov 2026 02:00:07 GMT"], None),
        (["Date: Mon, 30 Nov 2026 03:00:00 GMT", "Retry-After: Mon Nov 30 03:00:07 2026"], 7),
        (["Retry-After: Mon, 30 Nov 2026 03:00:07 GMT"], None),
        ([], None),
    ],
)
def test_how_long_to_wait_is_read_in_every_spelling(headers: list[str], seconds: float | None) -> None:
    assert fault(answers(whole("429 Slow Down", b"{}", *headers))).retry_after_s == seconds


def test_our_key_stays_with_us_where_the_server_repeats_it() -> None:
    body = b'{"error": {"message": "Incorrect API key provided: sk-secret"}}'
    error = fault(answers(whole("401 No", body)), api_key="sk-secret")
    assert isinstance(error, UpstreamDenied)
    assert Sink().shown(error.said.text) == "'Incorrect API key provided: ***'"
    assert "sk-secret" not in error.message


def test_an_endless_error_body_is_cut() -> None:
    error = fault(answers(head("500 Oh", content_type="text/plain"), *[b"x" * 65536] * 40))
    assert isinstance(error, UpstreamBusy)
    assert len(error.message) < 300
    assert len(Sink().shown(error.said.text)) < 600


def test_an_error_body_may_come_in_pieces_or_not_at_all() -> None:
    body = b'{"error": {"message": "no such model"}}'
    raw = whole("404 No", body)
    assert "no such model" in fault(answers(raw[:-20], raw[-20:], pause_s=0.02)).said.text
    assert "it answered 404" in fault(answers(raw[:-20])).message


def test_a_redirect_is_not_followed() -> None:
    error = fault(answers(whole("302 Found", b"", "Location: http://169.254.169.254/latest")))
    assert isinstance(error, UpstreamStatusError)
    assert error.upstream_status == 302
    assert not error.retryable


@pytest.mark.parametrize("content_type", ["text/html", "text/event-stream", "application/json"])
def test_a_web_page_is_no_answer(content_type: str) -> None:
    page = b"\n<!DOCTYPE html><html><body>Log in</body></html>"
    error = fault(answers(whole("200 OK", page, content_type=content_type)))
    assert isinstance(error, UpstreamProtocolError)
    assert error.message.endswith("a web page came instead of a stream")
    assert "<!DOCTYPE html>" in error.said.text


@pytest.mark.parametrize(
    ("body", "said_so"),
    [
        (b"", "the answer is empty"),
        (b"\n\n \n", "the answer is empty"),
        (b"Hello.", "broke off in the middle of a chunk"),
        (b"{}", "ended without a finish reason"),
        (b'{"choices": [', "something came that is no chunk"),
        (b'{"choices": 3}', "ended without a finish reason"),
        (b"data: {\n\n", "something came that is no chunk of a chat completion"),
        (b"data: null\n\n", "ended without a finish reason"),
        (b'data: {"choices": [{"delta": 5}]}\n\n', "ended without a finish reason"),
        (b"data: " + b"[" * 100_000 + b"\n\n", "something came that is no chunk"),
        (said("1 a"), "ended without a finish reason and without [DONE]"),
        (said("1 a") + b'data: {"choi', "broke off in the middle of a chunk"),
    ],
)
def test_what_is_not_the_protocol_is_named(body: bytes, said_so: str) -> None:
    error = fault(answers(whole("200 OK", body)))
    assert isinstance(error, UpstreamProtocolError)
    assert said_so in error.message
    assert error.retryable
    assert len(error.message) < 300


@pytest.mark.parametrize(
    "raw", [b"\x00\x01\x02 hello\r\n\r\n", b"HTTP/1.1 abc OK\r\n\r\n", b"SSH-2.0-OpenSSH\r\n"]
)
def test_an_answer_that_is_no_http_is_named(raw: bytes) -> None:
    assert isinstance(fault(answers(raw)), UpstreamProtocolError)


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        ({"error": {"message": "Overloaded", "type": "overloaded_error"}}, 503, UpstreamBusy),
        ({"error": {"message": "Bad grammar", "type": "invalid_request_error"}}, 400, UpstreamStatusError),
        ({"message": "Bad grammar", "code": 400}, 400, UpstreamStatusError),
        ({"error": {"message": "Slow down", "code": 429}}, 429, UpstreamBusy),
        ({"error": {"message": "Too long", "code": 400}}, 400, UpstreamStatusError),
        ({"error": "gone"}, 502, UpstreamBusy),
        ({"error": {"reason": "odd"}}, 502, UpstreamBusy),
        ({"object": "error", "message": "vllm", "code": 400}, 400, UpstreamStatusError),
        (
            {"choices": [{"delta": {}, "finish_reason": "error"}], "error": {"message": "x", "code": 502}},
            502,
            UpstreamBusy,
        ),
    ],
)
def test_an_error_inside_the_stream_ends_it(
    error: object, status: int, kind: type[UpstreamStatusError]
) -> None:
    for behave in (streams(said("1"), event(error)), answers(whole("200 OK", json.dumps(error).encode()))):
        caught = fault(behave)
        assert type(caught) is kind
        assert caught.upstream_status == status


@pytest.mark.parametrize("line", [b"error: %s\n\n", b"event: error\ndata: %s\n\n"])
def test_an_error_may_be_an_event_of_its_own(line: bytes) -> None:
    caught = fault(streams(said(""), line % b'{"code": 400, "message": "Bad grammar", "type": "x"}'))
    assert type(caught) is UpstreamStatusError
    assert caught.upstream_status == 400
    assert "Bad grammar" in caught.said.text


def test_text_before_an_error_is_given() -> None:
    async def body() -> list[Text | Ended]:
        behave = streams(said("1 a"), event({"error": {"message": "Overloaded"}}))
        async with serving(behave) as server, connected(server) as upstream:
            async for piece in upstream.stream(opening(), client=Call()):
                heard.append(piece)  # noqa: PERF401
        return heard

    heard: list[Text | Ended] = []
    with pytest.raises(UpstreamBusy, match=r"it reported an error$") as caught:
        run(body())
    assert "Overloaded" in caught.value.said.text
    assert heard == [Text("1 a", 1)]


def test_a_connection_that_breaks_off_is_no_end() -> None:
    short = head("200 OK", "Content-Length: 9999")
    for raw in ([STREAM_HEAD, chunked(said("1"))], [short, said("1")], [STREAM_HEAD, b"40\r\ndata: {"]):
        error = fault(answers(*raw))
        assert isinstance(error, UpstreamProtocolError)
        assert "broke off" in error.message


def test_a_reset_is_no_end() -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(STREAM_HEAD, chunked(said("1")), pause_s=0.05)
        connection.reset()

    assert isinstance(fault(behave), UpstreamProtocolError)


def test_a_break_behind_the_finish_reason_does_no_harm() -> None:
    heard = answered(answers(STREAM_HEAD, chunked(said("1")), chunked(said(None, "stop"))))
    assert heard[0] == Text("1", 1)
    assert isinstance(heard[-1], Ended)


def test_a_line_without_end_is_bounded() -> None:
    endless = [chunked(b"x" * 65536)] * 64
    error = fault(answers(STREAM_HEAD, chunked(b"data: "), *endless))
    assert "a chunk is longer than 1048576 bytes" in error.message


def test_a_body_without_end_is_bounded() -> None:
    error = fault(answers(STREAM_HEAD, chunked(b"{"), *[chunked(b" " * 65536)] * 200))
    assert "the answer is longer than 2097152 bytes" in error.message

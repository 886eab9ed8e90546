"""The HTTP upstream against real loopback servers that fail in every way a server can."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from contextlib import suppress
from typing import Any

import pytest

from guard.errors import (
    InvalidState,
    RequestError,
    UpstreamConnectError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeout,
)
from guard.run.messages import Ended, Text, Usage
from guard.upstream.base import Passage
from guard.upstream.http import LONG_BODY_BYTES, HttpUpstream, Timeouts
from tests.upstream.servers import (
    DONE,
    HANGS_S,
    KEPT_STREAM_HEAD,
    SHORT,
    STREAM_HEAD,
    USAGE,
    Call,
    Connection,
    answered,
    answers,
    chunked,
    connected,
    event,
    fault,
    head,
    hear,
    opening,
    run,
    said,
    serving,
    streams,
    text_in,
    then_holds,
    until_closed,
    whole,
)

# --- what goes right -----------------------------------------------------------------------------


def test_a_stream_gives_its_text_and_the_servers_usage() -> None:
    heard = answered(
        streams(said(None, role="assistant"), said("1 a"), said(" = 3"), said(None, "stop"), USAGE, DONE)
    )
    assert heard == [Text("1 a", 1), Text(" = 3", 1), Ended("stop", Usage(prompt=7, completion=3))]


@pytest.mark.parametrize(
    "told",
    [
        b"",
        event({"choices": [], "usage": {"completion_tokens": None}}),
        event({"choices": None, "usage": {}}),
    ],
)
def test_without_usage_the_tokens_are_estimated(told: bytes) -> None:
    heard = answered(streams(said("x" * 40), said("y"), said(None, "length"), told, DONE))
    assert heard[-1] == Ended("length", Usage(prompt=4, completion=11, estimated=True))


def test_llama_cpp_sends_one_token_a_chunk() -> None:
    heard = answered(streams(said("x" * 40), said("y"), said(None, "stop"), DONE), kind="llama.cpp")
    assert heard[-1] == Ended("stop", Usage(prompt=4, completion=2, estimated=True))


def test_the_request_has_our_fields_and_the_clients_others() -> None:
    seen: list[dict[str, Any]] = []
    heads: list[str] = []

    async def behave(connection: Connection) -> None:
        seen.append(await connection.request())
        heads.append(connection.head)
        await connection.stream(said("1", "stop"), DONE)

    async def body() -> None:
        async with serving(behave) as server, connected(server, api_key="sk-ours") as upstream:
            call = Call(
                extra={"user": "ann", "stream": False, "max_tokens": 1}, authorization="Bearer theirs"
            )
            await hear(upstream, opening(temperature=None, seed=4, max_tokens=50, model="big"), call)

    run(body())
    assert seen == [
        {
            "user": "ann",
            "model": "big",
            "messages": [{"role": "user", "content": "Add one and two."}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": 50,
            "seed": 4,
        }
    ]
    assert heads[0].startswith("POST /v1/chat/completions HTTP/1.1")
    assert "bearer sk-ours" in heads[0].lower()
    assert "theirs" not in heads[0]
    assert "accept-encoding: identity" in heads[0].lower()


def test_the_clients_key_is_passed_on_only_where_the_operator_says_so() -> None:
    heads: list[str] = []

    async def behave(connection: Connection) -> None:
        await connection.request()
        heads.append(connection.head)
        await connection.stream(said("1", "stop"), DONE)

    async def body() -> None:
        async with serving(behave) as server, connected(server, pass_key=True, api_key="sk-ours") as upstream:
            await hear(upstream, call=Call(authorization="Bearer theirs"))
            await hear(upstream, call=Call())

    run(body())
    assert "Bearer theirs" in heads[0]
    assert "sk-ours" not in heads[0]
    assert "Bearer sk-ours" in heads[1]


def test_a_prefix_and_a_grammar_go_where_llama_cpp_wants_them() -> None:
    seen: list[dict[str, Any]] = []

    async def behave(connection: Connection) -> None:
        seen.append(await connection.request())
        await connection.stream(said(" = 3\n", "stop"), DONE)

    async def body() -> None:
        async with serving(behave) as server, connected(server, kind="llama.cpp") as upstream:
            assert upstream.target.prefill
            assert upstream.target.dialect == "gbnf"
            await hear(upstream, opening(prefix="@begin p aaaaaa\n1 a", grammar='root ::= "x"'))

    run(body())
    assert seen[0]["messages"][-1] == {"role": "assistant", "content": "@begin p aaaaaa\n1 a"}
    assert seen[0]["grammar"] == 'root ::= "x"'


def test_a_generic_server_is_never_asked_for_what_it_cannot_do() -> None:
    for command in (opening(prefix="1"), opening(grammar="root")):
        with pytest.raises(InvalidState):
            answered(streams(DONE), command)


def test_connections_are_reused() -> None:
    async def body() -> int:
        async with serving(streams(said("1", "stop"), DONE)) as server, connected(server) as upstream:
            for _ in range(3):
                await hear(upstream)
            return len(server.connections)

    assert run(body()) == 1


def test_characters_and_lines_may_be_split_anywhere() -> None:
    stream = b": hello\r\n\r\n" + said("Grüße 語").replace(b"\n", b"\r\n") + said("!", "stop") + DONE
    stream = (
        stream.replace(rb"\u00fc", "ü".encode())
        .replace(rb"\u00df", "ß".encode())
        .replace(rb"\u8a9e", "語".encode())
    )
    for size in (1, 2, 3, 7):
        pieces = [chunked(stream[at : at + size]) for at in range(0, len(stream), size)]
        assert text_in(answered(answers(STREAM_HEAD, *pieces, b"0\r\n\r\n"))) == "Grüße 語!"


def test_thoughts_are_paid_for_and_not_read() -> None:
    heard = answered(
        streams(
            said(None, reasoning_content="x" * 80),
            said("", reasoning="y"),
            said("3"),
            said(None, "stop"),
            DONE,
        )
    )
    assert heard == [
        Text("", 20, thought="x" * 80),
        Text("", 1, thought="y"),
        Text("3", 1),
        Ended("stop", Usage(prompt=4, completion=22, estimated=True, reasoning=21)),
    ]


def test_thoughts_that_nothing_follows_are_paid_for_too() -> None:
    heard = answered(streams(said(None, reasoning_content="x" * 80), said(None, "stop"), DONE))
    assert heard == [
        Text("", 20, thought="x" * 80),
        Ended("stop", Usage(prompt=4, completion=20, estimated=True, reasoning=20)),
    ]


def test_usage_that_comes_with_the_chunks_is_told_with_them() -> None:
    told = [
        event(
            {
                "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}],
                "usage": {"prompt_tokens": 9, "completion_tokens": tokens},
            }
        )
        for text, tokens in (("1 a", 0), (" = 3", 5), ("\n", 6))
    ]
    heard = answered(streams(*told, said("2"), said(None, "stop"), DONE))
    assert heard == [
        Text("1 a", 1),
        Text(" = 3", 1, usage=Usage(prompt=9, completion=5)),
        Text("\n", 1, usage=Usage(prompt=9, completion=6)),
        Text("2", 1),
        Ended("stop", Usage(prompt=9, completion=6)),
    ]


def test_content_in_parts_and_other_choices_are_understood() -> None:
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "3"}]
    second = {"index": 1, "delta": {"content": "no"}, "finish_reason": None}
    both = {"choices": [second, {"index": 0, "delta": {"content": parts}, "finish_reason": None}]}
    assert text_in(answered(streams(event(both), said(None, "stop"), DONE))) == "3"


@pytest.mark.parametrize("size", [1, 5, 100])
def test_a_prefix_that_is_repeated_is_taken_away(size: int) -> None:
    prefix = "@begin p aaaaaa\n1"
    answer = prefix + " a = 3\n"
    pieces = [said(answer[at : at + size]) for at in range(0, len(answer), size)]
    heard = answered(streams(*pieces, said(None, "stop"), DONE), opening(prefix=prefix), kind="llama.cpp")
    assert text_in(heard) == " a = 3\n"


@pytest.mark.parametrize("answer", ["@be", "@begin p bbbbbb\n1", "@begin p aaaaaa"])
def test_what_only_begins_like_the_prefix_is_kept(answer: str) -> None:
    pieces = [said(character) for character in answer]
    heard = answered(
        streams(*pieces, said(None, "stop"), DONE), opening(prefix="@begin p aaaaaa\n1"), kind="llama.cpp"
    )
    assert text_in(heard) == answer
    assert isinstance(heard[-1], Ended)


def test_an_answer_in_one_piece_will_do() -> None:
    message = {"role": "assistant", "content": "1 a = 3\n"}
    body = {
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 4},
    }
    heard = answered(answers(whole("200 OK", json.dumps(body, indent=1).encode())))
    usage = Usage(prompt=5, completion=4)
    assert heard == [Text("1 a = 3\n", 2, usage=usage), Ended("stop", usage)]


@pytest.mark.parametrize(
    ("events", "finish_reason"),
    [((said("1"), said(None, "stop")), "stop"), ((said("1"), DONE), None), ((said("1"), DONE[:-2]), None)],
)
def test_a_finish_reason_or_done_is_an_end(events: tuple[bytes, ...], finish_reason: str | None) -> None:
    last = answered(streams(*events))[-1]
    assert isinstance(last, Ended)
    assert last.finish_reason == finish_reason


def test_what_comes_behind_done_is_not_read() -> None:
    assert text_in(answered(streams(said("1", "stop"), DONE, said("2"), b"data: rubbish\n\n"))) == "1"


# --- connections that fail -----------------------------------------------------------------------


def to_nowhere(url: str) -> UpstreamError:
    async def body() -> None:
        upstream = HttpUpstream("main", url, timeouts=SHORT)
        try:
            await hear(upstream)
        finally:
            await upstream.close()

    with pytest.raises(UpstreamError) as caught:
        run(body())
    return caught.value


def test_a_refused_connection_says_so() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening
        error = to_nowhere(f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
    assert isinstance(error, UpstreamConnectError)
    assert error.message == "upstream 'main': no connection: connection refused"
    assert error.retryable


def test_an_unknown_host_says_so() -> None:
    error = to_nowhere("http://no-such-host.invalid/v1")
    assert isinstance(error, UpstreamConnectError)
    assert error.message.endswith("no address for its host")
    assert "no-such-host.invalid" in error.said.text


def test_tls_to_a_server_without_it_is_a_connection_that_failed() -> None:
    async def behave(connection: Connection) -> None:
        await connection.reader.read(100)
        await connection.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async def body() -> None:
        async with serving(behave) as server:
            upstream = HttpUpstream("main", server.url.replace("http:", "https:"), timeouts=SHORT)
            try:
                await hear(upstream)
            finally:
                await upstream.close()

    with pytest.raises(UpstreamConnectError):
        run(body())


def test_a_host_that_swallows_connections_is_given_up() -> None:
    with socket.socket() as deaf, socket.socket() as first, socket.socket() as second:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for waiting in (first, second):  # fills the queue: further SYNs are dropped
            waiting.setblocking(False)
            waiting.connect_ex(deaf.getsockname())
        error = to_nowhere(f"http://127.0.0.1:{deaf.getsockname()[1]}/v1")
    assert isinstance(error, UpstreamTimeout)
    assert error.message == "upstream 'main': no connection in time"


def test_a_server_that_accepts_and_never_answers_is_given_up() -> None:
    assert isinstance(fault(then_holds(), timeouts=SHORT), UpstreamTimeout)


def test_headers_that_come_byte_by_byte_are_given_up() -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(*(bytes([byte]) for byte in STREAM_HEAD * 9), pause_s=0.05)

    assert isinstance(fault(behave, timeouts=SHORT), UpstreamTimeout)


def test_a_stream_that_only_sends_comments_is_given_up() -> None:
    busy = [chunked(b": processing\n\n")] * 200
    assert isinstance(fault(answers(STREAM_HEAD, *busy, pause_s=0.02), timeouts=SHORT), UpstreamTimeout)


def test_silence_after_some_text_is_a_timeout_that_keeps_the_text() -> None:
    heard: list[Text | Ended] = []

    async def body() -> None:
        behave = then_holds(STREAM_HEAD, chunked(said("1 a")))
        async with serving(behave) as server, connected(server, timeouts=SHORT) as upstream:
            async for piece in upstream.stream(opening(), client=Call()):
                heard.append(piece)  # noqa: PERF401 (it ends with an error)

    with pytest.raises(UpstreamTimeout):
        run(body())
    assert heard == [Text("1 a", 1)]


def test_comments_after_some_text_do_not_count_as_saying_something() -> None:
    drip = [chunked(b": still here\n\n")] * 200
    error = fault(answers(STREAM_HEAD, chunked(said("1")), *drip, pause_s=0.02), timeouts=SHORT)
    assert isinstance(error, UpstreamTimeout)


@pytest.mark.parametrize("thought", [said(None, reasoning_content="hmm"), said("")])
def test_thinking_is_saying_something_and_empty_chunks_are_not(thought: bytes) -> None:
    events = [chunked(thought)] * 20
    limits = Timeouts(connect_s=HANGS_S, first_s=HANGS_S, idle_s=1, linger_s=HANGS_S)
    behave = answers(STREAM_HEAD, chunked(said("1")), *events, chunked(said("2", "stop") + DONE), pause_s=0.1)
    if thought == said(""):
        assert isinstance(fault(behave, timeouts=limits), UpstreamTimeout)
    else:
        assert text_in(answered(behave, timeouts=limits)) == "12"


@pytest.mark.parametrize(
    ("raw", "limit"),
    [
        ((), "first_s"),
        ((STREAM_HEAD,), "first_s"),
        ((STREAM_HEAD, chunked(said("1"))), "idle_s"),
        ((STREAM_HEAD, chunked(said("1", "stop"))), "linger_s"),
    ],
)
def test_each_limit_is_kept_on_its_own(raw: tuple[bytes, ...], limit: str) -> None:
    """The others are longer than a test may take."""
    long = dict.fromkeys(("connect_s", "first_s", "idle_s", "linger_s"), 10.0 * HANGS_S)
    limits = Timeouts(**{**long, limit: 0.2})

    async def body() -> float:
        clock = asyncio.get_running_loop().time
        async with serving(then_holds(*raw)) as server, connected(server, timeouts=limits) as upstream:
            began = clock()
            with suppress(UpstreamTimeout):
                await hear(upstream)
            return clock() - began

    assert run(body()) >= 0.18


def test_a_slow_client_is_no_silent_server() -> None:
    async def body() -> str:
        events = [said(str(number)) for number in range(5)]
        behave = streams(*events, said(None, "stop"), DONE, pause_s=0.01)
        text = ""
        async with serving(behave) as server, connected(server, timeouts=SHORT) as upstream:
            async for piece in upstream.stream(opening(), client=Call()):
                await asyncio.sleep(SHORT.idle_s * 1.5)
                text += piece.text if isinstance(piece, Text) else ""
        return text

    assert run(body()) == "01234"


def test_usage_that_never_comes_is_not_waited_for() -> None:
    limits = Timeouts(first_s=10 * HANGS_S, idle_s=10 * HANGS_S, linger_s=0.1)
    heard = answered(then_holds(STREAM_HEAD, chunked(said("1", "stop"))), timeouts=limits)
    assert heard[-1] == Ended("stop", Usage(prompt=4, completion=1, estimated=True))


def test_a_connection_that_stays_open_behind_done_is_closed_and_not_reused() -> None:
    async def body() -> None:
        behave = then_holds(STREAM_HEAD, chunked(said("1", "stop") + DONE))
        async with serving(behave) as server, connected(server) as upstream:
            await hear(upstream)
            await hear(upstream)
            assert len(server.connections) == 2
            await until_closed(*server.connections)

    run(body())


def test_a_new_connection_that_breaks_is_no_reason_to_keep_none() -> None:
    broken = False

    async def behave(connection: Connection) -> None:
        nonlocal broken
        if broken:
            await streams(said("1", "stop"), DONE)(connection)
        broken = True

    async def body() -> None:
        async with serving(behave) as server, connected(server) as upstream:
            with pytest.raises(UpstreamError):
                await hear(upstream)
            for _ in range(3):
                await hear(upstream)
            assert len(server.connections) == 2

    run(body())


@pytest.mark.parametrize("idle_s", [0.0, 0.05])
def test_a_pooled_connection_that_the_server_has_closed_costs_nothing(idle_s: float) -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.stream(said("1", "stop"), DONE)
        await asyncio.sleep(idle_s)  # as servers do that close what is idle, though usually after seconds

    async def body() -> None:
        async with serving(behave) as server, connected(server) as upstream:
            for _ in range(3):
                assert text_in(await hear(upstream)) == "1"
                await asyncio.sleep(idle_s + 0.1)
            assert [connection.requests for connection in server.connections] == [1, 1, 1]

    run(body())


@pytest.mark.parametrize("how", ["closed", "reset", "cut"])
@pytest.mark.parametrize("long", [False, True])
def test_a_request_that_a_pooled_connection_takes_along_is_a_fault_and_not_sent_again(
    how: str, long: bool
) -> None:
    """The server may have read it: closing a connection that was idle looks the same from here."""

    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.stream(said("1", "stop"), DONE, head=KEPT_STREAM_HEAD)
        if how == "cut":
            await connection.reader.readexactly(10)
        else:
            await connection.request()
        if how == "reset":
            connection.reset()

    async def body() -> None:
        messages = ({"role": "user", "content": "x" * LONG_BODY_BYTES * long},)
        async with serving(behave) as server, connected(server) as upstream:
            assert text_in(await hear(upstream)) == "1"
            with pytest.raises(UpstreamError):
                await hear(upstream, opening(messages=messages))
            assert [connection.requests for connection in server.connections] == [1 if how == "cut" else 2]
            for _ in range(3):
                assert text_in(await hear(upstream)) == "1"
            assert [connection.requests for connection in server.connections[1:]] == [1, 1, 1], "none is kept"

    run(body())


def test_connections_are_kept_again_after_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("guard.upstream.http.APART_S", 0.2)
    broken = True

    async def behave(connection: Connection) -> None:
        while True:
            await connection.request()
            if broken and connection.requests == 2:
                return
            await connection.stream(said("1", "stop"), DONE, head=KEPT_STREAM_HEAD)

    async def body() -> None:
        nonlocal broken
        async with serving(behave) as server, connected(server) as upstream:
            await hear(upstream)
            with pytest.raises(UpstreamError):
                await hear(upstream)
            broken = False
            await hear(upstream)
            await asyncio.sleep(0.3)
            for _ in range(3):
                await hear(upstream)
            assert [connection.requests for connection in server.connections] == [2, 1, 3]

    run(body())


def test_a_connection_that_was_idle_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("guard.upstream.http.KEPT_S", 0.1)

    async def body() -> None:
        async with serving(streams(said("1", "stop"), DONE)) as server, connected(server) as upstream:
            for pause_s in (0.0, 0.3, 0.0):
                await hear(upstream)
                await asyncio.sleep(pause_s)
            assert [connection.requests for connection in server.connections] == [2, 1]

    run(body())


def test_a_fresh_connection_that_is_dropped_is_a_fault_at_once() -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()

    async def body() -> int:
        async with serving(behave) as server, connected(server) as upstream:
            with pytest.raises(UpstreamProtocolError, match="closed the connection without an answer"):
                await hear(upstream)
            return len(server.connections)

    assert run(body()) == 1


def test_llama_cpp_closes_behind_streams_though_it_promises_not_to() -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        assert connection.header("connection") == "close"
        keep = head("200 OK", "Transfer-Encoding: chunked", "Keep-Alive: timeout=5, max=100")
        await connection.stream(said("1", "stop"), DONE, head=keep)

    async def body() -> None:
        async with serving(behave) as server, connected(server, kind="llama.cpp") as upstream:
            for _ in range(5):
                assert text_in(await hear(upstream)) == "1"
            assert len(server.connections) == 5

    run(body())


# --- passing on ----------------------------------------------------------------------------------


def passage(method: str = "POST", path: str = "/embeddings", body: bytes = b"{}", **headers: str) -> Passage:
    pairs = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Passage(method=method, path=path, headers=pairs, body=body)


def test_a_passage_is_byte_for_byte() -> None:
    packed = gzip.compress(b'{"data": []}')

    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(
            whole("207 Multi", packed, "Content-Encoding: gzip", "X-Request-Id: 7", "Set-Cookie: a=b")
        )

    async def body() -> None:
        async with serving(behave) as server, connected(server, api_key="sk-ours") as upstream:
            request = passage(
                path="/files/a%2Fb?limit=2&q=%20x",
                body=b'{ "a":1}',
                content_type="application/json",
                authorization="Bearer theirs",
                connection="keep-alive, x-drop",
                x_drop="1",
                x_stepguard_procedure="p",
                accept_encoding="gzip",
                transfer_encoding="chunked",
            )
            async with upstream.forward(request, client=Call()) as answer:
                assert answer.status == 207
                assert b"".join([data async for data in answer.body]) == packed
                names = {name.lower(): value for name, value in answer.headers}
            sent = server.connections[0]
        assert names["content-encoding"] == "gzip"
        assert names["content-length"] == str(len(packed))
        assert names["x-request-id"] == "7"
        assert sent.head.startswith("POST /v1/files/a%2Fb?limit=2&q=%20x HTTP/1.1")
        assert sent.body == b'{ "a":1}'
        assert sent.header("authorization") == "Bearer sk-ours"
        assert sent.header("accept-encoding") == "gzip"
        for gone in ("x-drop", "x-stepguard-procedure", "transfer-encoding"):
            assert sent.header(gone) is None

    run(body())


def test_a_passed_stream_comes_chunk_by_chunk() -> None:
    async def body() -> None:
        go_on = asyncio.Event()

        async def behave(connection: Connection) -> None:
            await connection.request()
            await connection.send(STREAM_HEAD, chunked(said("1")))
            await go_on.wait()
            await connection.send(chunked(said("2")), b"0\r\n\r\n")

        async with (
            serving(behave) as server,
            connected(server) as upstream,
            upstream.forward(passage(), client=Call()) as answer,
        ):
            pieces = aiter(answer.body)
            assert await anext(pieces) == said("1")
            go_on.set()
            assert await anext(pieces) == said("2")
            assert [data async for data in pieces] == []

    run(body())


def test_leaving_a_passage_closes_the_connection() -> None:
    async def body() -> None:
        behave = then_holds(STREAM_HEAD, chunked(said("1")))
        async with serving(behave) as server, connected(server) as upstream:
            async with upstream.forward(passage(), client=Call()) as answer:
                await anext(aiter(answer.body))
            await until_closed(server.connections[0])

    run(body())


def test_a_passage_that_breaks_off_says_so() -> None:
    async def body() -> None:
        async with (
            serving(answers(STREAM_HEAD, chunked(said("1")))) as server,
            connected(server) as upstream,
            upstream.forward(passage(), client=Call()) as answer,
        ):
            async for _ in answer.body:
                pass

    with pytest.raises(UpstreamProtocolError, match="broke off"):
        run(body())


def test_error_answers_are_passed_like_any_other() -> None:
    async def body() -> int:
        async with (
            serving(answers(whole("404 No", b"{}"))) as server,
            connected(server) as upstream,
            upstream.forward(passage("GET"), client=Call()) as answer,
        ):
            return answer.status

    assert run(body()) == 404


@pytest.mark.parametrize("path", ["/../admin", "/a/%2e%2E/b", "/a/./b", "/..%2fadmin", "/a\\..\\b"])
def test_a_path_cannot_leave_the_base(path: str) -> None:
    async def body() -> None:
        async with (
            serving(answers()) as server,
            connected(server) as upstream,
            upstream.forward(passage("GET", path), client=Call()),
        ):
            pass

    with pytest.raises(RequestError):
        run(body())


PASSED_ON = [
    ("Content-Type", "text/plain"),
    ("User-Agent", "tests"),
    ("X-Api-Key", "theirs"),
    ("Cookie", "a=b"),
    ("X-Acme-Team", "blue"),
]
OWN = {"api_key": "ours"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (OWN, {"content-type", "user-agent"}),
        ({}, {"content-type", "user-agent"}),
        (OWN | {"forward_headers": ("x-acme-*",)}, {"content-type", "user-agent", "x-acme-team"}),
        ({"pass_key": True}, {"content-type", "user-agent", "x-api-key", "cookie", "x-acme-team"}),
    ],
)
def test_credentials_of_a_client_reach_only_an_upstream_that_is_to_have_them(
    settings: dict[str, Any], expected: set[str]
) -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(head("200 OK", "Content-Length: 0", content_type="text/plain"))

    async def body() -> None:
        async with serving(behave) as server:
            upstream = HttpUpstream("main", server.url, **settings)
            passage = Passage(method="POST", path="/embeddings", headers=tuple(PASSED_ON), body=b"x")
            try:
                async with upstream.forward(passage, client=Call()) as answer:
                    assert answer.status == 200
            finally:
                await upstream.close()
            told = {name.lower() for name, _ in PASSED_ON if server.connections[0].header(name.lower())}
            assert told == expected
            own = "Bearer ours" if settings.get("api_key") else None
            assert server.connections[0].header("authorization") == own

    asyncio.run(body())

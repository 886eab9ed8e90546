"""Mode `observe`: the bytes pass as they are, and what they show is counted beside them."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import Generator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from guard.config import Service
from guard.config.service import Instructed
from guard.procedure.expected import Ending, Expected
from guard.run.messages import Open
from guard.telemetry.observer import Observation, Observer, RunInfo, RunObserver
from tests.proxy.running import (
    BODY,
    CHAIN,
    INPUTS,
    TRACE,
    WRONG,
    Endpoint,
    behind,
    read_chunks,
    read_head,
    request,
    run,
    running,
    scripted,
    until,
)
from tests.upstream.servers import DONE, USAGE, Connection, chunked, event, head, said, serving, whole

CHAIN_FILE = Path(__file__).parents[2] / "examples" / "quickstart" / "chain.proc"
OBSERVED = f"procedures: [{CHAIN_FILE}]\nroutes: [{{model: chain, procedure: chain, mode: observe}}]\n"
FRAMED = TRACE.replace("{nonce}", "3fa92c")
WRONG_FRAMED = WRONG.replace("{nonce}", "3fa92c")
PROSE = "s1 = 5, s2 = 15, s3 = 13, s4 = 18, s5 = 15, s6 = 30, s7 = 43.\n\nThe answer is **38**."
CHAT = "/v1/chat/completions"


def completion(text: str | None, finish_reason: str | None = "stop", **message: Any) -> bytes:
    choice = {"index": 0, "message": {"content": text, **message}, "finish_reason": finish_reason}
    return json.dumps({"choices": [choice]}, ensure_ascii=False).encode()


def streamed(text: str, finish_reason: str | None = "stop", size: int = 5) -> list[bytes]:
    pieces = [said(text[at : at + size]) for at in range(0, len(text), size)]
    return [*pieces, said(None, finish_reason), USAGE, DONE]


async def counted(endpoint: Endpoint, procedure: str = "chain") -> dict[str, int]:
    """What has been counted of observed requests, once it changes no more."""
    previous: dict[str, int] = {}
    while True:
        now: dict[str, int] = {}
        for line in (await endpoint.admin("/metrics")).body.decode().splitlines():
            if line.startswith(f'stepguard_observed_total{{procedure="{procedure}"') and not line.endswith(
                " 0.0"
            ):
                now[line.split('result="')[1].split('"')[0]] = int(float(line.rsplit(" ", 1)[1]))
        if now and now == previous:
            return now
        previous = now
        await asyncio.sleep(0.02)


def results(
    folder: Path,
    answer: bytes,
    *headers: str,
    config: str = OBSERVED,
    status: str = "200 OK",
    able: dict[str, Any] | None = None,
    **body: Any,
) -> dict[str, int]:
    """What one request comes to at a server that answers so; what its client gets is looked at, too."""

    async def work() -> dict[str, int]:
        async def behave(connection: Connection) -> None:
            await connection.request()
            await connection.send(whole(status, answer, *headers))

        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(serving(behave))
            service = behind(folder, server.url, config=config, capabilities=able or {})
            endpoint = await stack.enter_async_context(running(service))
            reply = await endpoint.post({**BODY, **body})
            assert (reply.status, reply.body) == (int(status[:3]), answer)
            assert not [name for name in reply.headers if name.startswith("x-stepguard")]
            return await counted(endpoint)

    return run(work())


# --- what is counted -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "result"),
    [
        (FRAMED, "passed"),
        (WRONG_FRAMED, "failed"),
        (CHAIN, "passed"),
        (PROSE, "passed"),
        (PROSE.replace("18", "19"), "failed"),
        ("I think it is 38.", "failed"),
    ],
    ids=["a trace", "a wrong trace", "lines without a frame", "prose", "wrong prose", "an answer alone"],
)
def test_what_an_answer_shows_is_counted(tmp_path: Path, text: str, result: str) -> None:
    assert results(tmp_path, completion(text)) == {result: 1}


THOUGHT = f"Maybe s1 = 6?\n{WRONG_FRAMED}\nThe answer is **39**.\n"


@pytest.mark.parametrize("said_behind", [TRACE.replace("{nonce}", "3fa92c"), PROSE])
@pytest.mark.parametrize("tag", ["think", "reasoning"])
def test_thoughts_are_no_steps_and_no_answers(tmp_path: Path, said_behind: str, tag: str) -> None:
    text = f"<{tag}>\n{THOUGHT}</{tag}>\n\n{said_behind}"
    assert results(tmp_path, completion(text)) == {"passed": 1}
    assert results(tmp_path, completion(said_behind, reasoning_content=THOUGHT)) == {"passed": 1}
    assert results(tmp_path, completion(f"<{tag}>\n{said_behind}")) == {"no_text": 1}
    assert results(tmp_path, completion(f"{THOUGHT}\n{said_behind}")) != {"passed": 1}


@pytest.mark.parametrize("said_behind", [TRACE.replace("{nonce}", "3fa92c"), PROSE])
def test_thoughts_that_the_prompt_has_opened_are_none_either(tmp_path: Path, said_behind: str) -> None:
    answer = completion(f"{THOUGHT}</think>\n{said_behind}")
    assert results(tmp_path, answer, able={"thinks": True, "prefix": "none"}) == {"passed": 1}
    assert results(tmp_path, answer) != {"passed": 1}


def test_violations_steps_and_answers_are_counted_apart_from_those_of_enforced_requests(
    tmp_path: Path,
) -> None:
    config = OBSERVED + "policies: {default: {force: none, actions: [reject]}}\n"

    async def body() -> None:
        service = scripted(tmp_path, WRONG, config=config.replace("mode: observe", "modes: [observe]"))
        async with running(service) as endpoint:
            assert (await endpoint.post(BODY)).status == 422
            asked = {**BODY, "stepguard": {"inputs": INPUTS, "mode": "observe"}}
            asked["messages"] = [{"role": "user", "content": "@begin chain 3fa92c"}]
            assert (await endpoint.post(asked)).json["choices"][0]["message"]["content"] == WRONG_FRAMED
            assert await counted(endpoint) == {"failed": 1}
            for mode, right in (("enforce", 3), ("observe", 6)):
                violations = (
                    f'stepguard_violations_total{{mode="{mode}",procedure="chain",step_kind="assign",'
                )
                assert await endpoint.counted(violations + 'violation="wrong_value"}') == 1
                steps = f'stepguard_steps_total{{mode="{mode}",procedure="chain",step_kind="assign",'
                assert await endpoint.counted(steps + 'verdict="verified"}') == right - (mode == "observe")
            requests = 'stepguard_requests_total{outcome="%s",procedure="chain"}'
            assert await endpoint.counted(requests % "rejected") == 1
            assert await endpoint.counted(requests % "passthrough") == 1
            answers = 'stepguard_observed_answers_total{answer="right",procedure="chain"}'
            assert await endpoint.counted(answers) == 1
            position = 'stepguard_observed_answer_position_bucket{le="%s",procedure="chain"}'
            assert (await endpoint.counted(position % "0.7"), await endpoint.counted(position % "0.9")) == (
                0,
                1,
            )
            assert await endpoint.counted('stepguard_overhead_seconds_count{stage="observe"}') == 1

    run(body())


def test_a_stream_is_read_like_an_answer_in_one_piece(tmp_path: Path) -> None:
    async def body() -> None:
        async def behave(connection: Connection) -> None:
            asked = await connection.request()
            assert asked["stream"] is True
            await connection.stream(*streamed(FRAMED))

        async with (
            serving(behave) as server,
            running(behind(tmp_path, server.url, config=OBSERVED)) as endpoint,
        ):
            reply = await endpoint.post({**BODY, "stream": True})
            assert reply.body == b"".join(streamed(FRAMED))
            assert reply.headers["content-type"] == "text/event-stream"
            assert await counted(endpoint) == {"passed": 1}

    run(body())


def test_pieces_are_relayed_as_they_come(tmp_path: Path) -> None:
    async def body() -> None:
        heard = asyncio.Event()

        async def behave(connection: Connection) -> None:
            await connection.request()
            first, *rest = streamed(FRAMED)
            await connection.stream(first, end=False)
            await heard.wait()  # until the client has it
            await connection.send(*map(chunked, rest), b"0\r\n\r\n")

        async with (
            serving(behave) as server,
            running(behind(tmp_path, server.url, config=OBSERVED)) as endpoint,
        ):
            reader, writer = await endpoint.connect()
            writer.write(request(json.dumps({**BODY, "stream": True}).encode()))
            await read_head(reader)
            pieces = read_chunks(reader)
            got = [await anext(pieces)]
            heard.set()
            got += [piece async for piece in pieces]
            assert b"".join(got) == b"".join(streamed(FRAMED))
            assert await counted(endpoint) == {"passed": 1}
            writer.close()

    run(body())


@pytest.mark.parametrize(
    ("coding", "encode", "result"),
    [
        ("gzip", gzip.compress, "passed"),
        ("gzip", lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:]), "passed"),
        ("deflate", zlib.compress, "passed"),
        ("deflate", lambda data: zlib.compress(data)[2:-4], "passed"),
        ("identity", lambda data: data, "passed"),
        ("br", lambda data: data, "unreadable"),
        ("zstd", lambda data: data, "unreadable"),
        ("gzip, br", lambda data: data, "unreadable"),
        ("gzip", lambda data: data, "unreadable"),
        ("gzip", lambda data: gzip.compress(data)[:-20], "unreadable"),
        ("gzip", lambda data: gzip.compress(b" " * 9_000_000 + data), "too_long"),
    ],
    ids=["gzip", "two of it", "zlib", "raw", "none", "br", "zstd", "both", "not at all", "cut", "a bomb"],
)
def test_encodings_that_can_be_undone_are(tmp_path: Path, coding: str, encode: Any, result: str) -> None:
    assert results(tmp_path, encode(completion(FRAMED)), f"Content-Encoding: {coding}") == {result: 1}


CALLS = {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}


@pytest.mark.parametrize(
    ("answer", "status", "result"),
    [
        (completion(None, "tool_calls", **CALLS), "200 OK", "no_text"),
        (completion("Let me look.", "tool_calls", **CALLS), "200 OK", "no_text"),
        (completion(""), "200 OK", "no_text"),
        (completion(FRAMED[:90], "length"), "200 OK", "undecided"),
        (b"<html>", "200 OK", "unreadable"),
        (b"null", "200 OK", "unreadable"),
        (b"", "200 OK", "unreadable"),
        (b'{"error": {"message": "no", "code": 500}}', "200 OK", "upstream_error"),
        (b'{"error": {"message": "no"}}', "429 Too Many Requests", "upstream_error"),
        (completion(FRAMED), "500 Internal Server Error", "upstream_error"),
        (b"".join(streamed(FRAMED)[:-3]), "200 OK", "upstream_error"),
        (completion(FRAMED + "x" * 20_000), "200 OK", "too_long"),
        (completion("x\n" * 200_000), "200 OK", "too_long"),
        (completion(FRAMED) + b" " * 9_000_000, "200 OK", "too_long"),
    ],
)
def test_what_cannot_be_checked_is_counted_by_its_reason(
    tmp_path: Path, answer: bytes, status: str, result: str
) -> None:
    assert results(tmp_path, answer, status=status) == {result: 1}


def test_of_several_choices_the_first_one_counts(tmp_path: Path) -> None:
    choices = [
        {"index": 1, "message": {"content": WRONG_FRAMED}, "finish_reason": "stop"},
        {"index": 0, "message": {"content": FRAMED}, "finish_reason": "stop"},
    ]
    assert results(tmp_path, json.dumps({"choices": choices}).encode(), n=2) == {"passed": 1}


def test_what_an_enforced_request_may_not_have_passes(tmp_path: Path) -> None:
    extra: dict[str, Any] = {
        "tools": [{"type": "function"}],
        "stop": ["x"],
        "logprobs": True,
        "temperature": "hot",
    }
    assert results(tmp_path, completion(FRAMED), **extra) == {"passed": 1}


# --- inputs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "control",
    [
        {},
        {"inputs": {"a": 2}},
        {"inputs": {"a": "two", "b": 3}},
        {"inputs": [1]},
        {"inputs": {"a": 2, "b": 3, "c": 4}},
    ],
)
def test_a_request_without_its_inputs_passes_and_is_counted(tmp_path: Path, control: Any) -> None:
    assert results(tmp_path, completion(FRAMED), stepguard=control) == {"no_inputs": 1}


READING = """
procedure reading(note: text, rate: decimal(2)) -> decimal(2)
  extract qty: int from note
  total = qty * rate to 2
  return total
"""


@pytest.mark.parametrize(
    ("asked", "result"),
    [
        ({"messages": [{"role": "user", "content": "Four of them."}]}, "passed"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "Four."}]}]}, "passed"),
        (
            {"messages": [{"role": "user", "content": "Four."}, {"role": "assistant", "content": "x"}]},
            "passed",
        ),
        ({"stepguard": {"inputs": {"note": "Four.", "rate": 0.1}}}, "passed"),
        ({"messages": [{"role": "system", "content": "Four."}]}, "no_inputs"),
        ({"messages": "Four."}, "no_inputs"),
        ({"messages": []}, "no_inputs"),
    ],
)
def test_the_one_text_is_the_last_message_of_the_user(
    tmp_path: Path, asked: dict[str, Any], result: str
) -> None:
    (tmp_path / "reading.proc").write_text(READING)
    config = "procedures: [reading.proc]\nroutes: [{model: r, procedure: reading, mode: observe}]"
    answer = completion("qty = 4, so total = 4 * 0.10 = 0.40. The answer is 0.40.")

    async def work() -> dict[str, int]:
        async def behave(connection: Connection) -> None:
            await connection.request()
            await connection.send(whole("200 OK", answer))

        async with (
            serving(behave) as server,
            running(behind(tmp_path, server.url, config=config)) as endpoint,
        ):
            body = {"model": "r", "stepguard": {"inputs": {"rate": 0.1}}, **asked}
            assert (await endpoint.post(body)).body == answer
            return await counted(endpoint, "reading")

    assert run(work()) == {result: 1}


@pytest.mark.parametrize(
    ("control", "status", "code"),
    [
        ({"procedure": "none"}, 400, "binding_conflict"),
        ({"policy": "none"}, 400, "unknown_policy"),
        ({"mode": "watch"}, 400, "invalid_value"),
        ({"mode": "off"}, 403, "mode_not_allowed"),
        ({"content": "all"}, 400, "invalid_value"),
        ({"imputs": {}}, 400, "invalid_value"),
        (5, 400, "invalid_value"),
    ],
)
def test_control_fields_that_mean_nothing_are_refused(
    tmp_path: Path, control: Any, status: int, code: str
) -> None:
    async def body() -> None:
        async with running(scripted(tmp_path, FRAMED, config=OBSERVED)) as endpoint:
            reply = await endpoint.post({**BODY, "stepguard": control})
            assert (reply.status, reply.error["code"]) == (status, code)

    run(body())


# --- what goes on to the upstream ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "sent", "received"),
    [
        (
            OBSERVED,
            b'{ "model":"chain",\t"stepguard" : {"inputs": {"a": 2, "b": 3}} , "x": 1.50e1,"messages":[]}\n',
            b'{ "model":"chain",\t"x": 1.50e1,"messages":[]}\n',
        ),
        (OBSERVED, b'{"model": "chain", "n": 1, "n": 2}', b'{"model": "chain", "n": 1, "n": 2}'),
        (OBSERVED, b'{"stepguard": null,"model": "chain"}', b'{"model": "chain"}'),
        (
            OBSERVED.replace("mode:", "upstream_model: gpt-x, mode:"),
            b'{"stepguard": {}, "model": "chain", "z": "\\u00e9"}',
            b'{"model": "gpt-x", "z": "\\u00e9"}',
        ),
    ],
)
def test_the_upstream_gets_every_byte_but_those_of_the_control_fields(
    tmp_path: Path, config: str, sent: bytes, received: bytes
) -> None:
    async def body() -> None:
        async def behave(connection: Connection) -> None:
            await connection.request()
            await connection.send(whole("200 OK", completion(FRAMED)))

        async with (
            serving(behave) as server,
            running(behind(tmp_path, server.url, config=config)) as endpoint,
        ):
            await endpoint.post(
                sent, x_stepguard_mode="observe", x_request_id="1", x_other="1", path="/p/chain" + CHAT
            )
            [connection] = server.connections
            assert connection.body == received
            assert (connection.header("x-request-id"), connection.header("x-other")) == ("1", None)
            assert connection.header("x-stepguard-mode") is None
            assert connection.head.startswith("POST /v1/chat/completions ")

    run(body())


# --- any bytes -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """What a server sends: a head, pieces, and whether it closes the connection before it should."""

    status: int
    headers: tuple[str, ...]
    pieces: tuple[bytes, ...]
    broken: bool

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)


BODIES = st.one_of(
    st.sampled_from([FRAMED, WRONG_FRAMED, PROSE, "", "é" * 99]).map(completion),
    st.sampled_from([FRAMED, WRONG_FRAMED, PROSE]).map(lambda text: b"".join(streamed(text))),
    st.binary(max_size=300),
    st.text(max_size=99).map(completion),
    st.lists(st.sampled_from([b"data: ", b"\n\n", b"\r", b"{", b"[DONE]", b"\xc3", event({"choices": [None]})])).map(b"".join),
)  # fmt: skip


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    body = draw(BODIES)
    if draw(st.booleans()):
        body = body[: draw(st.integers(0, len(body)))]
    coding = draw(st.sampled_from(["", "", "gzip", "deflate", "br"]))
    if coding in {"gzip", "deflate"} and draw(st.booleans()):
        body = gzip.compress(body) if coding == "gzip" else zlib.compress(body)
    cuts = sorted(draw(st.lists(st.integers(0, len(body)), max_size=5)))
    pieces = [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    return Answer(
        status=draw(st.sampled_from([200, 200, 200, 201, 400, 404, 429, 500, 503])),
        headers=(f"Content-Encoding: {coding}",) if coding else (),
        pieces=tuple(piece for piece in pieces if piece),
        broken=draw(st.booleans()) and draw(st.booleans()),
    )


async def give(connection: Connection, answer: Answer) -> None:
    await connection.request()
    begin = head(f"{answer.status} Some", "Transfer-Encoding: chunked", *answer.headers)
    await connection.send(begin, *map(chunked, answer.pieces), pause_s=0.001)
    if not answer.broken:
        await connection.send(b"0\r\n\r\n")


async def got(endpoint: Endpoint, body: bytes) -> tuple[int, bytes, bool]:
    """The status and the body that a client gets, and whether it came to its end."""
    reader, writer = await endpoint.connect()
    writer.write(request(body))
    status, _ = await read_head(reader)
    parts: list[bytes] = []
    try:
        async for part in read_chunks(reader):
            parts.append(part)  # noqa: PERF401 (it may break off)
    except (asyncio.IncompleteReadError, ConnectionError):
        return status, b"".join(parts), False
    finally:
        writer.close()
    return status, b"".join(parts), True


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(answers(), min_size=1, max_size=8), st.sampled_from(["", "policies: {default: {sample: 0.5}}\n"])
)
def test_whatever_an_upstream_sends_its_client_gets(plays: Sequence[Answer], policies: str) -> None:
    async def work(folder: Path) -> None:
        left = iter(plays)

        async def behave(connection: Connection) -> None:
            await give(connection, next(left))

        async with (
            serving(behave) as server,
            running(behind(folder, server.url, config=OBSERVED + policies)) as endpoint,
        ):
            for place, answer in enumerate(plays):
                sent = b'{"model": "chain", "stepguard": {"inputs": {"a": 2, "b": 3}}, "at": %d}' % place
                assert await got(endpoint, sent) == (answer.status, answer.body, not answer.broken)
                assert server.connections[-1].body == b'{"model": "chain", "at": %d}' % place
            assert sum((await counted(endpoint)).values()) == len(plays)
            assert "check_failed" not in await counted(endpoint)

    with TemporaryDirectory() as folder:
        run(work(Path(folder)))


# --- faults of the guard's own -------------------------------------------------------------------


class Raising(RunObserver):
    """Fails whatever it hears."""

    def opened(self, command: Open) -> None:  # noqa: ARG002
        raise RuntimeError("opened")

    def concluded(self, observation: Observation) -> None:  # noqa: ARG002
        raise RuntimeError("concluded")


class Deaf(Observer):
    """Fails as soon as a run starts, or all through it."""

    def __init__(self, *, at_once: bool) -> None:
        self._at_once = at_once

    def run_started(self, info: RunInfo) -> RunObserver:  # noqa: ARG002
        if self._at_once:
            raise RuntimeError("run_started")
        return Raising()


class Broken:
    """Steps that cannot be executed."""

    def run(self, frame: object, prefix: str) -> Generator[Expected, Any, Ending]:  # noqa: ARG002
        raise RuntimeError("a fault of the executor")


def with_program(service: Service, **changes: Any) -> Service:
    def changed(name: str, one: Instructed) -> Instructed:
        return replace(one, program=replace(one.program, **changes)) if name == "chain" else one

    policies = {
        key: replace(policy, procedures={name: changed(name, one) for name, one in policy.procedures.items()})
        for key, policy in service.policies.items()
    }
    return replace(service, policies=policies)


def spoilt(service: Service, how: str) -> Service:
    match how:
        case "the executor":
            return with_program(service, runnable=Broken())
        case "the inputs":
            return with_program(service, parameters=None)
        case "the observer":
            return replace(service, observer=Deaf(at_once=False))
        case _:
            return replace(service, observer=Deaf(at_once=True))


@pytest.mark.parametrize("how", ["the executor", "the inputs", "the observer", "the observer at once"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_fault_beside_a_request_changes_none_of_its_bytes(tmp_path: Path, how: str, stream: bool) -> None:
    async def body() -> None:
        async def behave(connection: Connection) -> None:
            await connection.request()
            await connection.stream(*streamed(FRAMED))

        async with serving(behave) as server:
            service = spoilt(behind(tmp_path, server.url, config=OBSERVED), how)
            async with running(service) as endpoint:
                for _ in range(3):
                    reply = await endpoint.post({**BODY, "stream": stream})
                    assert (reply.status, reply.body) == (200, b"".join(streamed(FRAMED)))
                if how in {"the executor", "the inputs"}:
                    assert await counted(endpoint) == {"check_failed": 3}

    run(body())


# --- the client's part ---------------------------------------------------------------------------


def test_a_client_that_leaves_is_counted_and_its_upstream_let_go(tmp_path: Path) -> None:
    async def body() -> None:
        async def behave(connection: Connection) -> None:
            await connection.request()
            await connection.stream(*streamed(FRAMED)[:9], end=False)
            await connection.until_gone()

        async with (
            serving(behave) as server,
            running(behind(tmp_path, server.url, config=OBSERVED)) as endpoint,
        ):
            reader, writer = await endpoint.connect()
            writer.write(request(json.dumps({**BODY, "stream": True}).encode()))
            await reader.readuntil(b"s1")
            writer.close()
            await until(lambda: server.connections[0].gone is not None)
            assert await counted(endpoint) == {"cancelled": 1}
            assert (
                await endpoint.counted('stepguard_requests_total{outcome="cancelled",procedure="chain"}') == 1
            )
            assert (
                await endpoint.counted(
                    'stepguard_steps_total{mode="observe",procedure="chain",step_kind="assign",verdict="verified"}'
                )
                == 0
            )

    run(body())


def test_an_upstream_that_is_down_is_said_and_counted_once(tmp_path: Path) -> None:
    async def body() -> None:
        async with running(behind(tmp_path, "http://127.0.0.1:9", config=OBSERVED)) as endpoint:
            reply = await endpoint.post(BODY)
            assert (reply.status, reply.error["code"]) == (502, "upstream_connect_error")
            assert await counted(endpoint) == {"upstream_error": 1}
            assert await endpoint.counted('stepguard_requests_total{outcome="error",procedure="chain"}') == 1

    run(body())


# --- sampling ------------------------------------------------------------------------------------


def test_only_the_share_that_is_asked_for_is_checked(tmp_path: Path) -> None:
    config = OBSERVED + "policies: {default: {sample: 0.3}}\n"

    async def body() -> None:
        async with running(scripted(tmp_path, {"text": FRAMED, "chunk": 999}, config=config)) as endpoint:
            for _ in range(10):
                replies = await asyncio.gather(*(endpoint.post(BODY) for _ in range(20)))
                assert {reply.json["choices"][0]["message"]["content"] for reply in replies} == {FRAMED}
            found = await counted(endpoint)
            assert found.keys() == {"passed", "not_sampled"}
            assert sum(found.values()) == 200
            assert 25 <= found["passed"] <= 95  # 60 of 200, give or take more than five deviations

    run(body())


def test_other_endpoints_and_mode_off_are_as_they_were(tmp_path: Path) -> None:
    config = OBSERVED.replace("mode: observe", "mode: observe, modes: ['off']")

    async def body() -> None:
        async with running(scripted(tmp_path, FRAMED, config=config)) as endpoint:
            reply = await endpoint.post(BODY, path="/v1/completions")
            assert (reply.status, reply.error["code"]) == (400, "unsupported_endpoint")
            asked = {**BODY, "stepguard": {"mode": "off"}}
            assert (await endpoint.post(asked)).json["choices"][0]["message"]["content"] == FRAMED
            assert (
                await endpoint.counted('stepguard_requests_total{outcome="passthrough",procedure="(none)"}')
                == 1
            )
            observed = [
                line
                for line in (await endpoint.admin("/metrics")).body.decode().splitlines()
                if line.startswith("stepguard_observed_total")
            ]
            assert observed
            assert all(line.endswith(" 0.0") for line in observed)

    run(body())

"""Servers that misbehave over real sockets, and what the raw client and the official one read through it."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import hypothesis.strategies as st
import openai
from hypothesis import given, settings

from tests.proxy.reading_clients import Asked, check_heard, read_stream, read_whole
from tests.proxy.running import ASK, BODY, INPUTS, TRACE, WRONG, behind, nonce_in, policy, running
from tests.upstream.servers import DONE, STREAM_HEAD, USAGE, Connection, chunked, event, said, serving, whole

End = Literal["done", "no done", "error", "cut", "reset", "stall", "length"]
ENDS: Final[tuple[End, ...]] = ("done", "no done", "error", "cut", "reset", "stall", "length")
HIDDEN: Final = "HIDDEN"


@dataclass(frozen=True)
class Behaviour:
    """What a server does with one request: a trace in pieces of some bytes, so much of it, and then an end."""

    trace: str
    lines: int
    size: int
    end: End
    thinks: bool

    async def carry_out(self, connection: Connection) -> None:
        await connection.request()
        if self.lines == 0 and self.end == "error":
            await connection.send(whole("503 Busy", b'{"error": {"message": "HIDDEN"}}'))
            return
        lines = self.trace.replace("{nonce}", nonce_in(connection)).splitlines(keepends=True)[: self.lines]
        data = b"".join(map(said, lines))
        if self.thinks:
            data = said(None, reasoning_content=HIDDEN, tool_calls=[{"id": HIDDEN}]) + data
        await connection.send(STREAM_HEAD)
        await connection.send(
            *(chunked(data[at : at + self.size]) for at in range(0, len(data), self.size)), pause_s=0
        )
        match self.end:
            case "done" | "length":
                last = said(None, "stop" if self.end == "done" else "length") + USAGE + DONE
                await connection.send(chunked(last), b"0\r\n\r\n")
            case "no done":
                await connection.send(chunked(said(None, "stop")), b"0\r\n\r\n")
            case "error":
                await connection.send(chunked(event({"error": {"message": HIDDEN, "code": 500}})))
            case "cut":
                await connection.send(chunked(said(HIDDEN)[:-9]))
            case "reset":
                connection.reset()
            case "stall":
                await connection.until_gone()


BEHAVIOURS: Final = st.builds(
    Behaviour,
    st.sampled_from(
        [TRACE, WRONG, TRACE.replace("15 > 100 = false", "15 > 100 = true"), f"{HIDDEN}\n{TRACE}"]
    ),
    st.integers(0, 11),
    st.sampled_from([5, 64, 5000]),
    st.sampled_from(ENDS),
    st.booleans(),
)
POLICIES: Final = st.sampled_from(
    ["deliver: hold_step", "deliver: hold_all", "content: both", "usage: last\ncommit_after_s: 0"]
)


@given(behaviours=st.lists(BEHAVIOURS, min_size=1, max_size=4), settings_=POLICIES)
@settings(max_examples=6, deadline=None)
def test_every_client_reads_one_whole_answer_of_verified_steps(
    behaviours: list[Behaviour], settings_: str
) -> None:
    config = policy(
        f"{settings_}\nactions: [resume, restart, repair, reject]\ntransport_retries: 1\nattempts: 3\nseconds: 4"
    )

    async def body() -> None:
        played = 0

        async def behave(connection: Connection) -> None:
            nonlocal played
            played += 1
            await behaviours[(played - 1) % len(behaviours)].carry_out(connection)

        with tempfile.TemporaryDirectory() as folder:
            async with serving(behave) as server:
                service = behind(Path(folder), server.url, config=config, idle_s=0.1, first_s=0.2)
                program = service.policies["default"].procedures["chain"].program
                asked = Asked(
                    program=program,
                    inputs=program.accept(INPUTS),
                    content=service.policies["default"].settings.content,
                    steps_as="reasoning",
                )
                async with running(service) as endpoint:
                    outcomes = [await _raw(endpoint, asked, stream=stream) for stream in (True, False)]
                    assert None not in outcomes
                    await _official(endpoint)

    async def _raw(endpoint: Any, asked: Asked, *, stream: bool) -> str:
        reply = await endpoint.post({**BODY, "stream": stream})
        text = reply.body.decode()
        assert HIDDEN not in text.split('"error"')[0]
        streamed = reply.headers["content-type"].startswith("text/event-stream")
        heard = read_stream(text, asked, whole=True) if streamed else read_whole(text)
        begin = heard.content if heard.content.startswith("@begin") else "@begin chain abcdef"
        check_heard(heard, asked, begin.split()[2])
        assert heard.report is not None
        assert streamed or (heard.error is None) == (reply.status == 200)
        return str(heard.report["outcome"])

    async def _official(endpoint: Any) -> None:
        async with endpoint.client() as client:
            chunks: list[Any] = []
            with suppress(openai.APIError):
                stream = await client.chat.completions.create(stream=True, **ASK)
                chunks.extend([chunk async for chunk in stream])
                assert chunks[-1].choices[0].finish_reason == "stop"
                assert "38" in "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
            assert HIDDEN not in str(chunks)

    asyncio.run(asyncio.wait_for(body(), 60))

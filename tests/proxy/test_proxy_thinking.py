"""Models that think first, behind a real server: what they think, what it costs, and who gets to see it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.running import (
    ASK,
    BODY,
    CHAIN,
    TRACE,
    Endpoint,
    Reply,
    before,
    nonce_in,
    policy,
    run,
)
from tests.upstream.servers import DONE, Connection, event, said, whole

CANARY = "CANARY"
QUOTED = f"Let me see.\n{TRACE.replace('= 38', '= 39')}No: {CANARY}.\n"
USAGE = {"prompt_tokens": 70, "completion_tokens": 90, "total_tokens": 160}
COUNTED = {**USAGE, "completion_tokens_details": {"reasoning_tokens": 40}}

Says = Callable[[str], list[bytes]]


def in_fields(name: str, size: int = 7) -> Says:
    """Thoughts in a field of their own, content null as long as they last."""

    def says(trace: str) -> list[bytes]:
        thought = QUOTED.replace("{nonce}", trace.split()[2])
        pieces = [thought[at : at + size] for at in range(0, len(thought), size)]
        return [said(None, **{name: piece}) for piece in pieces] + [said(trace)]

    return says


def in_tags(opening: str, closing: str, size: int = 3) -> Says:
    """Thoughts in the content."""

    def says(trace: str) -> list[bytes]:
        text = f"{opening}\n{QUOTED.replace('{nonce}', trace.split()[2])}{closing}\n\n{trace}"
        return [said(text[at : at + size]) for at in range(0, len(text), size)]

    return says


def plainly(trace: str) -> list[bytes]:
    return [said(trace)]


WAYS: dict[str, Says] = {
    "deepseek": in_fields("reasoning_content"),
    "openrouter": in_fields("reasoning"),
    "tags": in_tags("<think>", "</think>"),
    "tags at once": in_tags("<thinking>", "</thinking>", 100_000),
    "mistral": in_tags("[THINK]", "[/THINK]", 1),
}


def asked(
    tmp_path: Path,
    says: Says,
    settings: str = "reveal: true",
    *,
    stream: bool,
    usage: dict[str, Any] | None = None,
    counts: tuple[str, ...] = (),
    **upstream: Any,
) -> tuple[Reply, list[float]]:
    """What a client gets of a server that answers so, and what was counted."""

    async def behave(connection: Connection) -> None:
        await connection.request()
        trace = TRACE.replace("{nonce}", nonce_in(connection))
        last = [said(None, "stop")] + ([] if usage is None else [event({"choices": [], "usage": usage})])
        await connection.stream(*says(trace), *last, DONE)

    async def body() -> tuple[Reply, list[float]]:
        async with before(tmp_path, behave, config=policy(settings), **upstream) as (endpoint, _):
            options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
            reply = await endpoint.post({**BODY, **options})
            return reply, [await endpoint.counted(series) for series in counts]

    return run(body())


def report_of(reply: Reply) -> dict[str, Any]:
    if "json" in reply.headers["content-type"]:
        return dict(reply.json["stepguard"])
    return next(e["stepguard"] for e in reversed(reply.events) if "outcome" in e.get("stepguard", {}))


def deltas(reply: Reply) -> list[dict[str, Any]]:
    return [event["choices"][0]["delta"] for event in reply.events if event["choices"]]


def joined(reply: Reply, name: str) -> str:
    return "".join(delta.get(name) or "" for delta in deltas(reply))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_nothing_of_a_thought_reaches_the_client(tmp_path: Path, way: str, stream: bool) -> None:
    reply, _ = asked(tmp_path, WAYS[way], stream=stream)
    plain, _ = asked(tmp_path, plainly, stream=stream)
    assert CANARY.encode() not in reply.body
    report, expected = report_of(reply), report_of(plain)
    assert report["outcome"] == "accepted_first"
    assert report["steps"] == expected["steps"]
    assert report["usage"]["completion_tokens_details"]["reasoning_tokens"] > len(QUOTED) // 8
    assert report["usage"]["discarded_tokens"] == 0
    if stream:
        assert [d for d in deltas(reply) if d] == [d for d in deltas(plain) if d]
        assert (joined(reply, "reasoning_content"), joined(reply, "content")) == (CHAIN, "38")
    else:
        assert reply.json["choices"] == plain.json["choices"]


@pytest.mark.parametrize("stream", [False, True])
def test_what_the_server_says_that_thoughts_cost_is_what_the_client_reads(
    tmp_path: Path, stream: bool
) -> None:
    reply, counted = asked(
        tmp_path,
        WAYS["deepseek"],
        stream=stream,
        usage=COUNTED,
        counts=('stepguard_reasoning_tokens_total{model="m",source="reported"}',),
    )
    assert counted == [40]
    usage = reply.events[-1]["usage"] if stream else reply.json["usage"]
    assert usage == COUNTED


def test_thoughts_that_the_server_did_not_count_are_an_estimate_of_ours(tmp_path: Path) -> None:
    series = 'stepguard_reasoning_tokens_total{model="m",source="%s"}'
    reply, (reported, estimated) = asked(
        tmp_path,
        WAYS["deepseek"],
        stream=False,
        usage=USAGE,
        counts=(series % "reported", series % "estimated"),
    )
    told = report_of(reply)["usage"]
    assert (reported, told["completion_tokens"], told["estimated"]) == (0, 90, True)
    assert 0 < estimated == told["completion_tokens_details"]["reasoning_tokens"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("settings", "free"),
    [("", False), ("steps_as: none", True), ("content: trace", True), ("content: both", True)],
)
def test_a_policy_can_relay_thoughts_marked_as_what_they_are(
    tmp_path: Path, way: str, settings: str, free: bool
) -> None:
    settings = f"reasoning: relay\n{settings}"
    for stream in (False, True):
        reply, _ = asked(tmp_path, WAYS[way], settings, stream=stream)
        report = report_of(reply)
        assert (report["outcome"], report["steps"]["verified"]) == ("accepted_first", 9)
        if stream:
            marks = [e["stepguard"] for e in reply.events if "reasoning" in e.get("stepguard", {})]
            assert all(m["unverified"] is True and m["generation"] == 1 for m in marks)
            thought = "".join(mark["reasoning"] for mark in marks)
            field = joined(reply, "reasoning_content")
        else:
            (mark,) = report["reasoning"]
            assert (mark["generation"], mark["unverified"]) == (1, True)
            thought = mark["text"]
            field = reply.json["choices"][0]["message"].get("reasoning_content")
        assert CANARY in thought
        assert thought.strip().startswith("Let me see.")
        assert field == (thought if free else CHAIN)


def test_held_thoughts_leave_with_the_answer_and_none_with_an_error(tmp_path: Path) -> None:
    settings = "reasoning: relay\ndeliver: hold_all\nactions: [reject]"
    reply, _ = asked(tmp_path, WAYS["tags"], settings, stream=True)
    assert CANARY in "".join(e.get("stepguard", {}).get("reasoning", "") for e in reply.events)

    def wrong(trace: str) -> list[bytes]:
        return WAYS["tags"](trace.replace("= 13 + 5 = 18", "= 13 + 5 = 19"))

    for stream in (True, False):
        reply, _ = asked(tmp_path, wrong, settings, stream=stream)
        assert reply.status == 422 or "error" in reply.json
        assert CANARY.encode() not in reply.body


def test_an_answer_in_one_piece_may_think_too(tmp_path: Path) -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        trace = TRACE.replace("{nonce}", nonce_in(connection))
        message = {
            "role": "assistant",
            "content": f"<think>{CANARY}</think>{trace}",
            "reasoning_content": CANARY,
        }
        answer = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": COUNTED}
        await connection.send(whole("200 OK", json.dumps(answer).encode()))

    async def body() -> None:
        async with before(tmp_path, behave) as (endpoint, _):
            reply = await endpoint.post(BODY)
            assert reply.json["choices"][0]["message"]["content"] == "38"
            assert CANARY.encode() not in reply.body

    run(body())


def test_the_official_client_reads_relayed_thoughts(tmp_path: Path) -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        trace = TRACE.replace("{nonce}", nonce_in(connection))
        await connection.stream(*WAYS["deepseek"](trace), said(None, "stop"), DONE)

    async def reads(endpoint: Endpoint) -> None:
        async with endpoint.client() as client:
            stream = await client.chat.completions.create(stream=True, **ASK)
            chunks = [chunk async for chunk in stream]
            marks = [(chunk.model_extra or {}).get("stepguard", {}) for chunk in chunks]
            assert CANARY in "".join(mark.get("reasoning", "") for mark in marks)
            assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "38"

    async def body() -> None:
        async with before(tmp_path, behave, config=policy("reasoning: relay")) as (endpoint, _):
            await asyncio.wait_for(reads(endpoint), 10)

    run(body())

"""Races through the whole endpoint, with a raw stream for each lane."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.proxy.running import (
    BODY,
    CHAIN,
    TRACE,
    WRONG,
    Endpoint,
    before,
    nonce_in,
    policy,
    request,
    run,
    until,
)
from tests.upstream.servers import DONE, STREAM_HEAD, USAGE, Connection, chunked, said, until_closed

LANES = 3


def lines_of(connection: Connection, trace: str) -> list[str]:
    return trace.replace("{nonce}", nonce_in(connection)).splitlines(keepends=True)


@pytest.mark.parametrize("stream", [False, True])
def test_the_first_lane_wins_and_the_others_are_closed(tmp_path: Path, *, stream: bool) -> None:
    bodies: list[dict[str, object]] = []

    async def behave(connection: Connection) -> None:
        bodies.append(await connection.request())
        lane = len(bodies)
        await connection.send(STREAM_HEAD)
        lines = lines_of(connection, TRACE)
        if lane < LANES:
            await connection.send(*(chunked(said(line)) for line in lines[: 2 * lane]))
            await connection.until_gone()
            return
        await until(lambda: len(bodies) == LANES)
        await asyncio.sleep(0.05)
        await connection.send(*(chunked(said(line)) for line in lines))
        await connection.send(chunked(said(None, "stop") + USAGE + DONE), b"0\r\n\r\n")
        await asyncio.sleep(1)

    async def body() -> None:
        config = policy(f"race: {LANES}\nseed: 3")
        async with before(tmp_path, behave, config=config) as (endpoint, server):
            reply = await endpoint.post({**BODY, "stream": stream, "temperature": 0})
            await until_closed(*server.connections[: LANES - 1])
            last = reply.events[-1] if stream else reply.json
            report = last["stepguard"]
            assert report["race"]["lanes"] == LANES
            assert (report["outcome"], report["attempts"], report["generations"]) == (
                "accepted_first",
                1,
                LANES,
            )
            assert report["usage"]["completion_tokens"] >= 3
            if stream:
                deltas = [event["choices"][0]["delta"] for event in reply.events]
                steps = [delta["reasoning_content"] for delta in deltas if "reasoning_content" in delta]
                assert steps == CHAIN.splitlines(keepends=True)
            assert len({body["seed"] for body in bodies}) == LANES
            assert sorted(str(body["temperature"]) for body in bodies) == ["0.0", "0.5", "0.5"]
            for strategy, result, times in (("initial", "", 1), ("race", "", LANES - 1), ("", "lost", 2)):
                assert await counted(endpoint, strategy, result) == times

    async def counted(endpoint: Endpoint, strategy: str, result: str) -> float:
        text = (await endpoint.admin("/metrics")).body.decode()
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in text.splitlines()
            if line.startswith('stepguard_attempts_total{procedure="chain"')
            and f'strategy="{strategy}' in line
            and f'result="{result}' in line
        )

    run(body())


def test_a_lane_that_departs_leaves_the_field_to_the_others_and_is_reported(tmp_path: Path) -> None:
    seen: list[Connection] = []

    async def behave(connection: Connection) -> None:
        await connection.request()
        seen.append(connection)
        right = len(seen) == LANES
        await until(lambda: len(seen) >= LANES)
        await connection.send(STREAM_HEAD)
        if not right:
            await connection.send(*(chunked(said(line)) for line in lines_of(connection, WRONG)))
            await connection.until_gone()
            return
        await until_closed(*seen[:-1])
        await connection.send(*(chunked(said(line)) for line in lines_of(connection, TRACE)))
        await connection.send(chunked(said(None, "stop") + USAGE + DONE), b"0\r\n\r\n")

    async def body() -> None:
        async with before(tmp_path, behave, config=policy(f"race: {LANES}")) as (
            endpoint,
            _,
        ):
            reply = await endpoint.post({**BODY, "stream": True})
            report = reply.events[-1]["stepguard"]
            assert report["outcome"] == "accepted_first"
            assert report["generations"] == LANES
            marked = [(one["kind"], one["step"], one["lost"]) for one in report["violations"]]
            assert marked == [("wrong_value", "4", True)] * 2
            lanes = {one["lane"] for one in report["violations"]} | {report["race"]["lane"]}
            assert lanes == {1, 2, 3}

    run(body())


def test_a_client_that_leaves_closes_every_lane(tmp_path: Path) -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(STREAM_HEAD)
        await connection.until_gone()

    async def body() -> None:
        async with before(tmp_path, behave, config=policy(f"race: {LANES}")) as (
            endpoint,
            server,
        ):
            _, writer = await endpoint.connect()
            writer.write(request(json.dumps(BODY).encode()))
            await until(lambda: len(server.connections) == LANES)
            await asyncio.sleep(0.05)
            writer.transport.abort()
            await until_closed(*server.connections)

    run(body())

"""How many requests an upstream gets, when it is left alone, and when nobody waits any longer: counted there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.proxy.running import (
    BODY,
    PORTS,
    TRACE,
    WRONG,
    Endpoint,
    configured,
    nonce_in,
    request,
    run,
    running,
    until,
)
from tests.upstream.servers import (
    DONE,
    HANGS_S,
    STREAM_HEAD,
    Connection,
    Server,
    chunked,
    event,
    said,
    serving,
    until_closed,
    whole,
)

Behaviour = Callable[[Connection], Awaitable[None]]
CHAIN = Path(__file__).parents[2] / "examples" / "quickstart" / "chain.proc"
PATIENT = {"connect_s": 5, "first_s": 5, "idle_s": 5}
QUICK = {"first_s": 0.5, "idle_s": 0.5}
PLENTY = {"retry_budget": {"minimum": 1000}, "breaker": {"failures": 0}}


def facing(folder: Path, *servers: Server, policy: dict[str, Any] | None = None, **settings: Any) -> Any:
    """A service whose route has these servers as its upstreams, in this order."""
    names = ["first", "second", "third"][: len(servers)]
    common: dict[str, Any] = {"kind": "generic", "model": "m", **PATIENT, **settings}
    upstreams = {
        name: {**common, "base_url": server.url} for name, server in zip(names, servers, strict=True)
    }
    content = {
        "procedures": [str(CHAIN)],
        "upstreams": upstreams,
        "routes": [{"model": "chain", "procedure": "chain", "upstream": names}],
        "policies": {"default": policy or {}},
        "defaults": {"unbound": "pass"},
    }
    return configured(folder, PORTS + yaml.safe_dump(content))


@asynccontextmanager
async def asked(
    folder: Path, *behaviours: Behaviour, policy: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[tuple[Endpoint, list[Server]]]:
    """An endpoint in front of servers that behave so."""
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serving(behave)) for behave in behaviours]
        service = facing(folder, *servers, policy=policy, **settings)
        yield await stack.enter_async_context(running(service)), servers


def requests(server: Server) -> int:
    """How many requests a server has read."""
    return sum(bool(connection.head) for connection in server.connections)


# --- servers -------------------------------------------------------------------------------------


async def answers(connection: Connection, trace: str = TRACE) -> None:
    await connection.request()
    lines = trace.replace("{nonce}", nonce_in(connection)).splitlines(keepends=True)
    await connection.stream(*map(said, lines), said(None, "stop"), DONE)


async def errs(connection: Connection) -> None:
    await answers(connection, WRONG)


async def is_broken(connection: Connection) -> None:
    await connection.request()
    await connection.send(whole("500 Oops", b"trouble"))


async def is_overloaded(connection: Connection) -> None:
    await connection.request()
    await connection.send(whole("429 Too Many", b'{"error": {"message": "slow down"}}'))


async def closes_without_an_answer(connection: Connection) -> None:
    await connection.request()


async def resets(connection: Connection) -> None:
    await connection.request()
    connection.reset()


async def breaks_off(connection: Connection) -> None:
    await connection.request()
    await connection.send(STREAM_HEAD, chunked(said("@begin ")))


async def ends_without_an_end(connection: Connection) -> None:
    await connection.request()
    await connection.stream(said("@begin "))


async def sends_html(connection: Connection) -> None:
    await connection.request()
    await connection.send(whole("200 OK", b"<html>Sign in</html>", content_type="text/html"))


async def sends_an_error_in_the_stream(connection: Connection) -> None:
    await connection.request()
    await connection.stream(event({"error": {"message": "overloaded", "code": 503}}))


async def is_silent(connection: Connection) -> None:
    await connection.request()
    await connection.until_gone()


async def drips(connection: Connection) -> None:
    """Send a byte now and then which says nothing."""
    await connection.request()
    await connection.send(STREAM_HEAD)
    with suppress(ConnectionError):
        for _ in range(100):
            await connection.send(chunked(b":"), pause_s=0.1)


async def knows_no_such_model(connection: Connection) -> None:
    await connection.request()
    await connection.send(whole("404 Not Found", b'{"error": {"message": "no such model"}}'))


async def finds_it_wrong(connection: Connection) -> None:
    await connection.request()
    await connection.send(whole("400 Bad Request", b'{"error": {"message": "too long"}}'))


SILENT = [is_silent, drips]
PASSING = [
    is_broken,
    is_overloaded,
    closes_without_an_answer,
    resets,
    breaks_off,
    ends_without_an_end,
    sends_html,
    sends_an_error_in_the_stream,
    *SILENT,
]


# --- how many requests ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behave", "upstreams"), [*((behave, 1) for behave in PASSING), (is_broken, 2), (breaks_off, 2)]
)
def test_an_upstream_that_always_fails_gets_one_request_and_its_retries(
    tmp_path: Path, behave: Behaviour, upstreams: int
) -> None:
    async def body() -> None:
        policy = {"attempts": 1, "transport_retries": 1}
        timeouts = QUICK if behave in SILENT else {}
        async with asked(tmp_path, *[behave] * upstreams, policy=policy, **timeouts) as (endpoint, servers):
            reply = await endpoint.post(BODY)
            assert reply.json["stepguard"]["outcome"] == "error"
            assert reply.json["stepguard"]["attempts"] == 1
            assert reply.json["stepguard"]["generations"] == 2 * upstreams
            assert [requests(server) for server in servers] == [2] * upstreams

    run(body())


@pytest.mark.parametrize(("behave", "counts"), [(knows_no_such_model, [1, 1]), (finds_it_wrong, [1, 0])])
def test_a_fault_that_stays_is_not_tried_again(tmp_path: Path, behave: Behaviour, counts: list[int]) -> None:
    async def body() -> None:
        async with asked(tmp_path, behave, behave) as (endpoint, servers):
            assert (await endpoint.post(BODY)).status in {400, 404}
            assert [requests(server) for server in servers] == counts

    run(body())


def test_a_race_against_a_server_that_always_fails_is_so_many_requests_more(tmp_path: Path) -> None:
    async def body() -> None:
        policy = {"race": 3, "transport_retries": 1}
        async with asked(tmp_path, is_broken, is_broken, policy=policy, **PLENTY) as (endpoint, servers):
            assert (await endpoint.post(BODY)).status == 500
            assert [requests(server) for server in servers] == [3 + 1, 2]

    run(body())


@pytest.mark.parametrize(("faults", "outcome"), [(0, "rejected"), (1, "rejected"), (3, "rejected")])
def test_retries_of_both_kinds_are_counted_apart(tmp_path: Path, faults: int, outcome: str) -> None:
    """Every answer is wrong in another way, and comes only behind so many faults."""
    count = 0

    async def behave(connection: Connection) -> None:
        nonlocal count
        count += 1
        if count % (faults + 1):
            await is_broken(connection)
        else:
            await answers(connection, TRACE.replace("= 13 + 5 = 18", f"= 13 + 5 = {count}"))

    async def body() -> None:
        policy = {"attempts": 2, "transport_retries": 3, "attempts_per_step": 2, "actions": ["resume"]}
        async with asked(tmp_path, behave, policy=policy, **PLENTY) as (endpoint, servers):
            report = (await endpoint.post(BODY)).json["stepguard"]
            assert report["outcome"] == outcome
            made = {0: 1 + 2, 1: 1 + 2 + 3, 3: 3 + 1 + 1}[faults]
            assert requests(servers[0]) == report["generations"] == made
            assert report["attempts"] == (2 if faults == 3 else 3)  # the last one is never answered

    run(body())


def test_a_client_that_tries_again_itself_gets_fewer_retries_of_ours(tmp_path: Path) -> None:
    async def body() -> None:
        async with asked(tmp_path, is_broken, policy={"transport_retries": 2}) as (endpoint, servers):
            for retried, sum_of_requests in [("2", 1), ("1", 3), ("-1", 6)]:
                await endpoint.post(BODY, x_stainless_retry_count=retried)
                assert requests(servers[0]) == sum_of_requests

    run(body())


# --- a server that asks to wait ------------------------------------------------------------------


def overloaded(*headers: str, times: int = 1) -> Behaviour:
    """A server that is overloaded so often, then answers."""
    left = times

    async def behave(connection: Connection) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            await answers(connection)
        else:
            await connection.request()
            await connection.send(whole("429 Too Many", b'{"error": {"message": "slow down"}}', *headers))

    return behave


DATE = "Date: Mon, 30 Nov 2026 03:00:00 GMT"


@pytest.mark.parametrize(
    ("headers", "least_s"),
    [
        (["Retry-After: 1"], 1.0),
        (["Retry-After: 60", "Retry-After-Ms: 700"], 0.7),
        ([DATE, "Retry-After: Mon, 30 Nov 2026 03:00:01 GMT"], 1.0),
        ([DATE, "Retry-After: Mon, 30 Nov 2026 02:00:00 GMT"], 0.0),  # it has passed
        (["Retry-After: -5"], 0.0),
        (["Retry-After: inf"], 0.25),  # says nothing: back-off
        (["Retry-After: soon"], 0.25),
    ],
)
def test_a_server_that_asks_to_wait_is_given_that_time(
    tmp_path: Path, headers: list[str], least_s: float
) -> None:
    async def body() -> None:
        async with asked(tmp_path, overloaded(*headers)) as (endpoint, servers):
            began = asyncio.get_running_loop().time()
            reply = await endpoint.post(BODY)
            assert reply.status == 200
            assert least_s <= asyncio.get_running_loop().time() - began < least_s + 30
            assert requests(servers[0]) == 2

    run(body())


@pytest.mark.parametrize(
    ("asks", "seconds", "retry_after", "should_retry"),
    [
        ("Retry-After: 60", 50, "60", "true"),
        ("Retry-After-Ms: 59500", 50, "60", "true"),
        ("Retry-After: 120", 100, "120", "true"),
        ("Retry-After: 121", 100, "121", "false"),  # for which OpenAI's clients would not wait
        ("Retry-After: 3600", 100, "3600", "false"),
        ("X-Nothing: 1", 100, None, "false"),
    ],
)
def test_what_there_is_no_time_for_is_passed_on(
    tmp_path: Path, asks: str, seconds: float, retry_after: str | None, should_retry: str
) -> None:
    async def body() -> None:
        policy = {"seconds": seconds, "transport_retries": 0 if retry_after is None else 2}
        async with asked(tmp_path, overloaded(asks, times=9), policy=policy) as (endpoint, servers):
            began = asyncio.get_running_loop().time()
            reply = await endpoint.post(BODY)
            assert asyncio.get_running_loop().time() - began < 40, "nothing was waited for"
            assert (reply.status, reply.error["code"]) == (429, "upstream_busy")
            assert reply.headers.get("retry-after") == retry_after
            assert reply.headers["x-should-retry"] == should_retry
            assert requests(servers[0]) == 1

    run(body())


def test_a_long_wait_is_not_waited_where_another_upstream_can_be_asked(tmp_path: Path) -> None:
    async def body() -> None:
        async with asked(tmp_path, overloaded("Retry-After: 11"), answers) as (endpoint, servers):
            began = asyncio.get_running_loop().time()
            reply = await endpoint.post(BODY)
            assert reply.json["stepguard"]["outcome"] == "accepted_by_fallback"
            assert asyncio.get_running_loop().time() - began < 11
            assert [requests(server) for server in servers] == [1, 1]

    run(body())


@pytest.mark.parametrize("further", [True, False])
def test_a_retry_that_will_not_be_made_is_not_waited_for(tmp_path: Path, further: bool) -> None:
    async def body() -> None:
        nothing = {"retry_budget": {"minimum": 0, "percent": 0}}
        busy = overloaded("Retry-After: 9")
        behaviours = [busy, answers] if further else [busy]
        async with asked(tmp_path, *behaviours, **nothing) as (endpoint, servers):
            began = asyncio.get_running_loop().time()
            reply = await endpoint.post(BODY)
            assert asyncio.get_running_loop().time() - began < 9
            assert reply.status == (200 if further else 429)
            assert [requests(server) for server in servers] == [1] * len(servers)
            spared = 'stepguard_upstream_spared_total{reason="budget",upstream="first"}'
            assert await endpoint.counted(spared) == 1

    run(body())


# --- many at once --------------------------------------------------------------------------------


def test_a_burst_of_requests_to_a_broken_server_costs_it_a_fifth_more_and_the_breaker_opens(
    tmp_path: Path,
) -> None:
    burst = 40

    async def body() -> None:
        async with asked(tmp_path, is_broken) as (endpoint, servers):
            replies = await asyncio.gather(*(endpoint.post(BODY) for _ in range(burst)))
            assert {reply.status for reply in replies} == {500}
            assert requests(servers[0]) <= burst * 1.2 + 3
            denied = await endpoint.counted(
                'stepguard_upstream_spared_total{reason="budget",upstream="first"}'
            )
            assert denied >= burst / 2
            assert all("it answered 500" in reply.error["message"] for reply in replies), "the cause is told"
            assert any(
                "not asked again: upstream 'first': the retries" in r.error["message"] for r in replies
            )
            assert await endpoint.counted('stepguard_upstream_breaker{state="open",upstream="first"}') == 1
            spared = 'stepguard_upstream_spared_total{reason="breaker",upstream="first"}'
            assert await endpoint.counted(spared) == 0, "there is no other upstream"

    run(body())


def test_an_open_breaker_sends_everybody_on_and_one_request_tries_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = True
    proceed = asyncio.Event()

    async def recovers(connection: Connection) -> None:
        if broken:
            await is_broken(connection)
        else:
            await connection.request()
            await proceed.wait()
            lines = TRACE.replace("{nonce}", nonce_in(connection)).splitlines(keepends=True)
            await connection.stream(*map(said, lines), said(None, "stop"), DONE)

    async def body() -> None:
        nonlocal broken
        breaker = {"failures": 3, "open_s": 0.5}
        policy = {"transport_retries": 0}
        async with asked(tmp_path, recovers, answers, policy=policy, breaker=breaker) as (endpoint, servers):
            for _ in range(5):
                reply = await endpoint.post(BODY)
                assert reply.json["stepguard"]["outcome"] == "accepted_by_fallback"
            assert requests(servers[0]) == 3, "two were not even sent there"
            state = 'stepguard_upstream_breaker{{state="{}",upstream="first"}}'.format
            assert await endpoint.counted(state("open")) == 1
            broken = False
            await asyncio.sleep(0.6)
            crowd = [asyncio.create_task(endpoint.post(BODY)) for _ in range(10)]
            await until(lambda: sum(task.done() for task in crowd) == 9)
            assert requests(servers[0]) == 4, "one of the crowd tries"
            assert await endpoint.counted(state("half_open")) == 1
            proceed.set()
            outcomes = [(await task).json["stepguard"]["outcome"] for task in crowd]
            assert sorted(outcomes) == ["accepted_by_fallback"] * 9 + ["accepted_first"]
            assert await endpoint.counted(state("closed")) == 1
            assert (await endpoint.post(BODY)).json["stepguard"]["outcome"] == "accepted_first"
            spared = 'stepguard_upstream_spared_total{reason="breaker",upstream="first"}'
            assert await endpoint.counted(spared) == 2 + 9

    run(body())
    told = [record.getMessage() for record in caplog.records if "upstream first" in record.getMessage()]
    assert told[0] == "upstream first fails: it is left alone for 0.5 s"
    assert told[-1] == "upstream first is there again"


@pytest.mark.parametrize("behave", [errs, knows_no_such_model, is_overloaded])
def test_what_is_no_fault_of_the_network_opens_no_breaker(tmp_path: Path, behave: Behaviour) -> None:
    async def body() -> None:
        policy = {"transport_retries": 0, "attempts": 1, "actions": ["resume", "reject"]}
        settings = {"breaker": {"failures": 1}}
        async with asked(tmp_path, behave, answers, policy=policy, **settings) as (endpoint, servers):
            for count in range(1, 4):
                await endpoint.post(BODY)
                assert requests(servers[0]) >= count
            assert await endpoint.counted('stepguard_upstream_breaker{state="closed",upstream="first"}') == 1

    run(body())


def test_what_passes_through_opens_a_breaker_but_is_never_stopped_by_one(tmp_path: Path) -> None:
    async def body() -> None:
        free = {**BODY, "model": "any"}
        del free["stepguard"]
        async with asked(tmp_path, is_broken, answers, breaker={"failures": 3}) as (endpoint, servers):
            for count in range(1, 6):
                assert (await endpoint.post(free)).status == 500
                assert requests(servers[0]) == count
            reply = await endpoint.post(BODY)
            assert reply.json["stepguard"]["outcome"] == "accepted_by_fallback"
            assert requests(servers[0]) == 5

    run(body())


@pytest.mark.parametrize("race", [1, 2])
def test_a_server_that_lets_a_run_s_time_pass_in_silence_is_at_fault(tmp_path: Path, race: int) -> None:
    async def body() -> None:
        policy = {"seconds": 0.5, "race": race}
        settings = {"breaker": {"failures": 1}, "first_s": 60, "idle_s": 0.2}
        async with asked(tmp_path, is_silent, answers, policy=policy, **settings) as (endpoint, _):
            assert (await endpoint.post(BODY)).error["code"] == "out_of_time"
            assert (await endpoint.post(BODY)).json["stepguard"]["outcome"] == "accepted_by_fallback"

    run(body())


# --- clients that leave --------------------------------------------------------------------------


async def leaves(endpoint: Endpoint, ready: Callable[[], bool], *, stream: bool = True) -> None:
    """Ask, wait until something is so, and leave."""
    _, writer = await endpoint.connect()
    writer.write(request(json.dumps({**BODY, "stream": stream}).encode()))
    await until(ready)
    writer.transport.abort()


async def cancelled(endpoint: Endpoint) -> None:
    """Wait until a run was cancelled."""
    count = endpoint.service.metrics.requests.labels("chain", "cancelled")
    await until(lambda: bool(count._value.get()))


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_ends_the_waiting_before_a_retry(tmp_path: Path, stream: bool) -> None:
    async def body() -> None:
        async with asked(tmp_path, overloaded("Retry-After: 60", times=9)) as (endpoint, servers):
            failed = endpoint.service.metrics.attempts.labels("chain", "initial", "upstream_error")
            await leaves(endpoint, lambda: bool(failed._value.get()), stream=stream)
            await cancelled(endpoint)
            assert requests(servers[0]) == 1

    run(body())


async def says_one_line(connection: Connection) -> None:
    await connection.request()
    line = TRACE.replace("{nonce}", nonce_in(connection)).splitlines(keepends=True)[0]
    await connection.send(STREAM_HEAD, chunked(said(line)))
    await connection.until_gone()


@pytest.mark.parametrize("behave", [is_silent, says_one_line])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_closes_the_connection_at_once(
    tmp_path: Path, behave: Behaviour, stream: bool
) -> None:
    async def body() -> None:
        async with asked(tmp_path, behave, first_s=10 * HANGS_S, idle_s=10 * HANGS_S) as (endpoint, servers):
            await leaves(endpoint, lambda: requests(servers[0]) == 1, stream=stream)
            await until_closed(servers[0].connections[0])

    run(body())


def test_a_client_that_leaves_while_it_tries_a_server_again_leaves_that_to_the_next(tmp_path: Path) -> None:
    async def body() -> None:
        settings = {"breaker": {"failures": 1, "open_s": 0.2}}
        count = 0

        async def behave(connection: Connection) -> None:
            nonlocal count
            count += 1
            await {1: is_broken, 2: is_silent}.get(count, answers)(connection)

        policy = {"transport_retries": 0}
        async with asked(tmp_path, behave, answers, policy=policy, **settings) as (endpoint, servers):
            await endpoint.post(BODY)
            await asyncio.sleep(0.25)
            await leaves(endpoint, lambda: requests(servers[0]) == 2)
            await until_closed(servers[0].connections[1])
            assert (await endpoint.post(BODY)).json["stepguard"]["outcome"] == "accepted_first"

    run(body())


# --- a stream that has begun ---------------------------------------------------------------------


@pytest.mark.parametrize("retries", [0, 1])
def test_a_stream_that_cannot_be_brought_to_its_end_says_so_in_its_last_event(
    tmp_path: Path, retries: int
) -> None:
    async def tells_some_steps(connection: Connection) -> None:
        await connection.request()
        lines = TRACE.replace("{nonce}", nonce_in(connection)).splitlines(keepends=True)
        await connection.send(STREAM_HEAD, *(chunked(said(line)) for line in lines[:4]))

    async def body() -> None:
        policy = {"transport_retries": retries}
        async with asked(tmp_path, tells_some_steps, policy=policy) as (endpoint, servers):
            reply = await endpoint.post({**BODY, "stream": True})
            *steps, last = reply.events
            assert reply.status == 200
            told = "".join(step["choices"][0]["delta"].get("reasoning_content", "") for step in steps)
            assert told.count("s1 =") == told.count("s3 =") == 1
            assert not any(step["choices"][0]["finish_reason"] for step in steps)
            assert last["error"]["code"] == "upstream_protocol_error"
            assert requests(servers[0]) == 1 + retries

    run(body())


def test_a_server_that_goes_on_sending_behind_a_cut_loses_its_connection(tmp_path: Path) -> None:
    stopped = 0

    async def errs_and_goes_on(connection: Connection) -> None:
        nonlocal stopped
        await connection.request()
        lines = WRONG.replace("{nonce}", nonce_in(connection)).splitlines(keepends=True)[:5]
        await connection.send(STREAM_HEAD, *(chunked(said(line)) for line in lines))
        try:
            while True:
                await connection.send(chunked(said("and on ")), pause_s=0.005)
        finally:
            stopped += 1

    async def body() -> None:
        policy = {"actions": ["resume"], "attempts": 1, "attempts_per_step": 1}
        async with asked(tmp_path, errs_and_goes_on, policy=policy) as (endpoint, servers):
            reply = await endpoint.post(BODY)
            assert reply.json["stepguard"]["generations"] == 2
            assert len(servers[0].connections) == 2, "the first one was not used again"
            await until(lambda: stopped == 2)

    run(body())

"""A server that refuses grammars, and one that ignores them, behind a running endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.running import BODY, TRACE, WRONG, Endpoint, before, policy, run
from tests.upstream.servers import DONE, Connection, said, whole

REFUSAL = b'{"error": {"message": "unknown field", "type": "invalid_request_error"}}'


@dataclass
class LlamaCpp:
    """A server that goes on from the prefix with a trace that it is told, whatever the grammar says."""

    trace: str = TRACE
    refuses: bool = False
    always: bool = False  # refuses, grammar or not
    asked: list[dict[str, Any]] = field(default_factory=list)

    async def __call__(self, connection: Connection) -> None:
        body = await connection.request()
        self.asked.append(body)
        if self.always or (self.refuses and "grammar" in body):
            await connection.send(whole("400 Bad Request", REFUSAL))
            return
        prefix = body["messages"][-1]["content"]
        trace = self.trace.replace("{nonce}", prefix.split()[2])
        left = trace.removeprefix(prefix)
        await connection.stream(*map(said, left.splitlines(keepends=True)), said(None, "stop"), DONE)

    @property
    def forced(self) -> list[bool]:
        return ["grammar" in body for body in self.asked]


def asking(
    tmp_path: Path,
    server: LlamaCpp,
    body: Callable[[Endpoint], Awaitable[None]],
    *,
    config: str = policy("attempts: 4\nforce_by: grammar"),
) -> None:
    async def whole_test() -> None:
        async with before(tmp_path, server, kind="llama.cpp", config=config) as (endpoint, _):
            await body(endpoint)

    run(whole_test())


def test_lines_are_asked_for_one_by_one_where_the_grammar_is_refused(tmp_path: Path) -> None:
    server = LlamaCpp(refuses=True)

    async def body(endpoint: Endpoint) -> None:
        replies = [await endpoint.post(BODY) for _ in range(2)]
        assert [reply.status for reply in replies] == [200] * 2
        first, second = (reply.report["generations"] for reply in replies)
        assert first == second + 1 > 3
        assert server.forced == [True] + [False] * (first + second - 1)

    asking(tmp_path, server, body, config=policy("attempts: 4"))


def test_a_refused_grammar_is_left_out_counted_and_remembered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = LlamaCpp(refuses=True)

    async def body(endpoint: Endpoint) -> None:
        replies = [await endpoint.post(BODY) for _ in range(3)]
        assert [reply.status for reply in replies] == [200] * 3
        reports = [reply.report for reply in replies]
        assert [(one["attempts"], one["generations"], one["forced"]) for one in reports] == [
            (1, 2, "none"),
            (1, 1, "none"),
            (1, 1, "none"),
        ]
        assert await endpoint.counted('stepguard_grammar_refused_total{upstream="main"}') == 1
        assert await endpoint.counted('stepguard_upstream_breaker{state="closed",upstream="main"}') == 1

    asking(tmp_path, server, body)
    assert server.forced == [True, False, False, False]
    first, second, *_ = server.asked
    assert second == {name: value for name, value in first.items() if name != "grammar"}
    assert sum("refuses the grammar" in record.message for record in caplog.records) == 1


def test_a_refusal_for_another_reason_goes_to_the_client_and_is_not_remembered(tmp_path: Path) -> None:
    server = LlamaCpp(always=True)

    async def body(endpoint: Endpoint) -> None:
        for _ in range(2):
            reply = await endpoint.post(BODY)
            assert reply.status == 400
            assert reply.error["message"] == "upstream 'main': it answered 400"
        server.always = False
        assert (await endpoint.post(BODY)).report["forced"] == "operands"
        assert await endpoint.counted('stepguard_grammar_refused_total{upstream="main"}') == 0

    asking(tmp_path, server, body)
    once = [True, False, False]  # with all that is ours, without the grammar, and without the prefix as well
    assert server.forced == [*once, *once, True]


def test_a_policy_may_insist_on_the_grammar(tmp_path: Path) -> None:
    server = LlamaCpp(refuses=True)

    async def body(endpoint: Endpoint) -> None:
        assert (await endpoint.post(BODY)).status == 400

    asking(tmp_path, server, body, config=policy("without_grammar: false"))
    assert server.forced == [True, True]  # the second time without the prefix


def test_requests_at_the_same_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    server = LlamaCpp(refuses=True)

    async def body(endpoint: Endpoint) -> None:
        replies = await asyncio.gather(*(endpoint.post(BODY) for _ in range(4)))
        assert [reply.status for reply in replies] == [200] * 4

    asking(tmp_path, server, body)


def test_lanes_of_a_race_go_on_without_their_grammars(tmp_path: Path) -> None:
    server = LlamaCpp(refuses=True)

    async def body(endpoint: Endpoint) -> None:
        reply = await endpoint.post(BODY)
        assert (reply.status, reply.report["outcome"]) == (200, "accepted_first")

    asking(tmp_path, server, body, config=policy("race: 2"))


def test_a_grammar_that_is_ignored_is_noticed_and_the_checker_enforces(tmp_path: Path) -> None:
    server = LlamaCpp(trace=TRACE.replace("2 s2", "So, 2 s2"))

    async def body(endpoint: Endpoint) -> None:
        reply = await endpoint.post(BODY)
        assert reply.status == 422
        assert reply.report["violations"]
        assert await endpoint.counted('stepguard_grammar_ignored_total{upstream="main"}') == 1

    asking(tmp_path, server, body, config=policy("actions: [reject]"))


def test_a_wrong_value_under_a_grammar_is_no_sign_of_that(tmp_path: Path) -> None:
    server = LlamaCpp(trace=WRONG)

    async def body(endpoint: Endpoint) -> None:
        assert (await endpoint.post(BODY)).status == 422
        assert await endpoint.counted('stepguard_grammar_ignored_total{upstream="main"}') == 0

    asking(tmp_path, server, body, config=policy("actions: [reject]"))

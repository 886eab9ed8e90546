"""An upstream that is asked by OpenAI's Responses API, behind the whole endpoint: what may happen on the way."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.forms import LINES, Responses
from tests.proxy.running import (
    ASK,
    BODY,
    CHAIN,
    TRACE,
    WRONG,
    Endpoint,
    before,
    policy,
    run,
)
from tests.upstream.openai_types import published
from tests.upstream.responding import Answer
from tests.upstream.servers import Connection, whole

REFUSAL = {
    "error": {"message": "Invalid grammar", "type": "invalid_request_error", "param": "tools", "code": None}
}
IGNORED = 'stepguard_grammar_ignored_total{upstream="main"}'
REFUSED = 'stepguard_grammar_refused_total{upstream="main"}'

Says = Callable[[Answer, str], list[bytes]]


def into_the_tool(answer: Answer, trace: str) -> list[bytes]:
    return [*answer.tool(trace.splitlines(keepends=True)), *answer.end()]


@dataclass
class Server:
    """Says one thing after the other, the last one again and again. `refuses`: tools with a grammar."""

    says: Sequence[Says] = (into_the_tool,)
    trace: str = TRACE
    refuses: bool = False
    asked: list[dict[str, Any]] = field(default_factory=list)

    async def __call__(self, connection: Connection) -> None:
        while True:
            body = await connection.request()
            published(body)
            self.asked.append(body)
            if self.refuses and "tools" in body:
                await connection.send(whole("400 Bad Request", json.dumps(REFUSAL).encode()))
                continue
            nonce = json.dumps(body["input"]).rpartition("@begin chain ")[2][:6]
            says = self.says[min(len(self.asked), len(self.says)) - 1]
            answer = Answer()
            await connection.stream(*answer.start(), *says(answer, self.trace.replace("{nonce}", nonce)))


def asking(
    tmp_path: Path, server: Server, body: Callable[[Endpoint], Awaitable[None]], settings: str = "attempts: 4"
) -> None:
    async def whole_test() -> None:
        async with before(tmp_path, server, config=policy(settings), **Responses().settings) as (endpoint, _):
            await body(endpoint)

    run(whole_test())


def test_openais_own_client_gets_a_chat_completion(tmp_path: Path) -> None:
    async def body(endpoint: Endpoint) -> None:
        async with endpoint.client() as client:
            done = await client.chat.completions.create(**ASK)
            assert done.choices[0].message.content == "38"
            assert done.choices[0].finish_reason == "stop"
            assert done.usage is not None
            assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (400, 90)
            stream = await client.chat.completions.create(**ASK, stream=True)
            chunks = [chunk async for chunk in stream]
            assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "38"

    asking(tmp_path, Server(), body)


def test_fields_of_the_client_go_where_that_api_has_them(tmp_path: Path) -> None:
    server = Server()
    theirs = {"reasoning_effort": "low", "verbosity": "low", "user": "ann", "metadata": {"a": "b"}, "seed": 7}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    said = [{"role": "user", "content": [{"type": "text", "text": "This one."}, picture]}]

    async def body(endpoint: Endpoint) -> None:
        reply = await endpoint.post({**BODY, **theirs, "messages": said, "max_tokens": 900})
        assert (reply.status, reply.report["outcome"]) == (200, "accepted_first")

    asking(tmp_path, server, body)
    [asked] = server.asked
    assert asked["reasoning"] == {"effort": "low"}
    assert asked["text"] == {"verbosity": "low"}
    assert (asked["user"], asked["metadata"]) == ("ann", {"a": "b"})
    assert (asked["max_output_tokens"], asked["store"], asked["stream"]) == (900, False, True)
    assert "seed" not in asked
    last = asked["input"][-1]["content"]
    assert [part["type"] for part in last] == ["input_text", "input_image", "input_text"]


@pytest.mark.parametrize("reasoning", ["drop", "relay"])
def test_thoughts_are_counted_and_leave_only_where_the_policy_says_so(tmp_path: Path, reasoning: str) -> None:
    def says(answer: Answer, trace: str) -> list[bytes]:
        thought = trace.replace("= 38", "= 39")  # a trace in the thoughts is none
        return [*answer.thoughts([thought]), *answer.summary(["CANARY"]), *into_the_tool(answer, trace)]

    async def body(endpoint: Endpoint) -> None:
        reply = await endpoint.post(BODY)
        assert (reply.status, reply.report["outcome"]) == (200, "accepted_first")
        message = reply.json["choices"][0]["message"]
        assert message["content"] == "38"
        assert (b"CANARY" in reply.body) is (reasoning == "relay")
        assert reply.json["usage"]["completion_tokens_details"]["reasoning_tokens"] == 64

    asking(tmp_path, Server([says]), body, f"reasoning: {reasoning}")


def test_a_refused_grammar_is_left_out_counted_and_remembered(tmp_path: Path) -> None:
    def plainly(answer: Answer, trace: str) -> list[bytes]:
        return [*answer.text(trace.splitlines(keepends=True)), *answer.end()]

    server = Server([plainly], refuses=True)

    async def body(endpoint: Endpoint) -> None:
        reports = [(await endpoint.post(BODY)).report for _ in range(2)]
        assert [(one["outcome"], one["generations"], one["forced"]) for one in reports] == [
            ("accepted_first", 2, "none"),
            ("accepted_first", 1, "none"),
        ]
        assert await endpoint.counted(REFUSED) == 1

    asking(tmp_path, server, body)
    assert ["tools" in asked for asked in server.asked] == [True, False, False]
    assert not {"tool_choice", "parallel_tool_calls"} & set(server.asked[1])


def test_a_policy_may_insist_on_the_grammar(tmp_path: Path) -> None:
    async def body(endpoint: Endpoint) -> None:
        reply = await endpoint.post(BODY)
        assert reply.status == 400
        assert reply.error["message"] == "upstream 'main': it answered 400"

    asking(tmp_path, Server(refuses=True), body, "without_grammar: false")


def test_a_grammar_that_is_ignored_is_noticed_and_the_checker_enforces(tmp_path: Path) -> None:
    def chatting(answer: Answer, trace: str) -> list[bytes]:
        return [*answer.text(["Sure! ", f"{trace}"]), *answer.end()]

    async def body(endpoint: Endpoint) -> None:
        reply = await endpoint.post(BODY)
        assert reply.status == 422
        assert reply.report["violations"][0]["kind"] == "malformed"
        assert await endpoint.counted(IGNORED) == 1

    asking(tmp_path, Server([chatting]), body, "actions: [reject]")


def test_a_faithful_trace_counts_wherever_it_is_written(tmp_path: Path) -> None:
    def plainly(answer: Answer, trace: str) -> list[bytes]:
        return [*answer.text(trace), *answer.end()]

    async def body(endpoint: Endpoint) -> None:
        reply = await endpoint.post(BODY)
        assert (reply.json["choices"][0]["message"]["content"], reply.report["outcome"]) == (
            "38",
            "accepted_first",
        )

    asking(tmp_path, Server([plainly]), body)


def test_a_wrong_value_never_comes_back_into_the_conversation(tmp_path: Path) -> None:
    def wrong(answer: Answer, trace: str) -> list[bytes]:
        return into_the_tool(answer, trace.replace("= 13 + 5 = 18", "= 13 + 5 = 19"))

    def rest(answer: Answer, trace: str) -> list[bytes]:
        return into_the_tool(answer, "".join(trace.splitlines(keepends=True)[4:]))

    server = Server([wrong, rest])

    async def body(endpoint: Endpoint) -> None:
        reply = await endpoint.post(BODY)
        assert reply.json["choices"][0]["message"]["reasoning_content"] == CHAIN
        assert reply.report["outcome"] == "accepted_after_retry"

    asking(tmp_path, server, body, "actions: [resume, reject]")
    *_, stands, turn = server.asked[1]["input"]
    assert stands["role"] == "assistant"
    assert stands["content"].endswith("".join(LINES[:3]).rstrip())
    assert turn["role"] == "user"
    assert "13 + 5 = 19" not in json.dumps(server.asked[1])


def test_a_refusal_is_an_answer_that_is_missing(tmp_path: Path) -> None:
    def refusing(answer: Answer, _: str) -> list[bytes]:
        return [*answer.refusal(["I cannot."]), *answer.end()]

    async def body(endpoint: Endpoint) -> None:
        reply = await endpoint.post(BODY)
        assert reply.status == 422
        assert [one["kind"] for one in reply.report["violations"]] == ["missing_answer"]
        assert await endpoint.counted(IGNORED) == 0

    asking(tmp_path, Server([refusing]), body, "actions: [reject]")


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_an_answer_that_was_cut_is_truncated_and_gone_on_with(tmp_path: Path, reason: str) -> None:
    def cut(answer: Answer, trace: str) -> list[bytes]:
        return [*answer.tool([*trace.splitlines(keepends=True)[:3], "3 s3 = 15"]), *answer.end(reason)]

    def rest(answer: Answer, trace: str) -> list[bytes]:
        return into_the_tool(answer, "".join(trace.splitlines(keepends=True)[3:]))

    async def body(endpoint: Endpoint) -> None:
        found = (await endpoint.post(BODY)).report
        assert [(one["kind"], one["step"]) for one in found["violations"]] == [("truncated", "3")]
        assert found["generations"] == 2

    asking(tmp_path, Server([cut, rest]), body)


def test_a_stream_that_fails_is_asked_for_again_from_where_it_stood(tmp_path: Path) -> None:
    def failing(answer: Answer, trace: str) -> list[bytes]:
        return [*answer.tool(trace.splitlines(keepends=True)[:4]), *answer.failed("server_error", "Oh.")]

    def unended(answer: Answer, trace: str) -> list[bytes]:
        return answer.tool(trace.splitlines(keepends=True)[4:6])

    def rest(answer: Answer, trace: str) -> list[bytes]:
        return into_the_tool(answer, "".join(trace.splitlines(keepends=True)[6:]))

    server = Server([failing, unended, rest])

    async def body(endpoint: Endpoint) -> None:
        reply = await endpoint.post(BODY)
        assert reply.json["choices"][0]["message"]["reasoning_content"] == CHAIN
        assert (reply.report["violations"], reply.report["generations"]) == ([], 3)

    asking(tmp_path, server, body, "transport_retries: 3")


def test_an_error_of_the_request_is_the_clients(tmp_path: Path) -> None:
    def failing(answer: Answer, _: str) -> list[bytes]:
        return answer.failed("invalid_prompt", "Not that.")

    async def body(endpoint: Endpoint) -> None:
        reply = await endpoint.post(BODY)
        assert 400 <= reply.status < 500
        assert reply.error["code"] == "invalid_prompt"
        assert "Not that." not in reply.body.decode()

    asking(tmp_path, Server([failing]), body, "without_grammar: false")


def test_a_wrong_trace_is_rejected_on_a_stream_as_well(tmp_path: Path) -> None:
    async def body(endpoint: Endpoint) -> None:
        reply = await endpoint.post({**BODY, "stream": True})
        assert b"13 + 5 = 19" not in reply.body
        assert b'"wrong_value"' in reply.body

    asking(tmp_path, Server(trace=WRONG), body, "actions: [reject]")

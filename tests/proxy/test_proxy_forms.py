"""Servers whose answers are no plain text, behind the whole endpoint: OpenAI's custom tools, Ollama's JSON."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from llguidance import LLMatcher, LLTokenizer

from tests.proxy.running import (
    BODY,
    BOUND,
    CHAIN,
    Reply,
    behind,
    policy,
    read_chunks,
    read_head,
    request,
    run,
    running,
)
from tests.upstream.servers import DONE, Connection, chunked, event, serving, whole

LINES: Final = CHAIN.splitlines(keepends=True)
USAGE: Final = {"prompt_tokens": 400, "completion_tokens": 90, "total_tokens": 490}
WRONG: Final = [*LINES[:3], "4 s4 = 13 + 5 = 19\n", *LINES[4:]]


@dataclass(frozen=True)
class Written:
    """One answer of the model: lines of the trace, how it ends, and whether the connection does before that."""

    lines: Sequence[str]
    finish_reason: str | None = None  # the usual one
    breaks: bool = False

    @property
    def cut(self) -> bool:
        return self.breaks or self.finish_reason is not None


@dataclass(frozen=True)
class Asked:
    """A request as the server has it."""

    text: str

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.text)
        return body

    @property
    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = self.body["response_format"]["json_schema"]["schema"]
        return schema


class Openai:
    """Speaks as OpenAI's chat completions do when a custom tool is forced."""

    kind = "openai"
    model = "gpt-5-mini"
    finish_reason = "tool_calls"

    def grammar(self, asked: Asked) -> str:
        (tool,) = asked.body["tools"]
        return LLMatcher.grammar_from_lark(tool["custom"]["format"]["grammar"]["definition"])

    def text(self, asked: Asked, written: Written) -> str:
        procedure, nonce = re.findall(r"@begin (\S+) ([0-9a-f]{6})", asked.text)[-1]
        begin = f"@begin {procedure} {nonce}\n" if written.lines[0].startswith("1 ") else ""
        return f"{begin}{''.join(written.lines)}" + ("" if written.cut else f"@end {nonce}\n")

    def events(self, text: str) -> list[bytes]:
        custom = {"name": "trace", "input": ""}
        call = {"index": 0, "id": "call_7", "type": "custom", "custom": custom}
        more = {"index": 0, "id": None, "type": None, "function": None}
        pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
        deltas: list[dict[str, Any]] = [
            {"role": "assistant", "content": None, "refusal": None},
            {"tool_calls": [call]},
            *({"tool_calls": [more | {"custom": {"name": None, "input": piece}}]} for piece in pieces),
        ]
        return list(map(self.chunk, deltas))

    def chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        known = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5-mini"}
        extra = {"service_tier": "default", "system_fingerprint": None, "usage": None, "obfuscation": "x1"}
        return event(known | extra | {"choices": [choice]})


class Ollama:
    """Speaks as Ollama's compatible endpoint does with a schema in `response_format`."""

    kind = "ollama"
    model = "llama3.2"
    finish_reason = "stop"
    indent: int | None = None

    def grammar(self, asked: Asked) -> str:
        return LLMatcher.grammar_from_json_schema(asked.schema)

    def text(self, asked: Asked, written: Written) -> str:
        members = {}
        for line in written.lines:
            name = next(name for name in asked.schema["properties"] if line.startswith(name))
            members[name] = line.removeprefix(name).rstrip("\n")
        text = json.dumps(members, indent=self.indent)
        return text[: text.rindex('"')] if written.cut else text

    def events(self, text: str) -> list[bytes]:
        return [self.chunk({"content": text[at : at + 5]}) for at in range(0, len(text), 5)]

    def chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        delta = {"role": "assistant", "content": ""} | delta
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        known = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "llama3.2"}
        return event(known | {"system_fingerprint": "fp_ollama", "choices": [choice]})


class Indented(Ollama):
    indent = 2


Form = Openai | Ollama
both = pytest.mark.parametrize("form", [Openai(), Ollama(), Indented()], ids=["tool", "members", "indented"])
streamed = pytest.mark.parametrize("stream", [False, True])


@dataclass
class Heard:
    """What the server was asked, and how much of what its model wrote the grammar did not allow."""

    requests: list[dict[str, Any]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def messages(self, position: int) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.requests[position]["messages"]
        return messages

    def hold(self, grammar: str, text: str) -> None:
        taken = LLMatcher(LLTokenizer("byte"), grammar).try_consume_tokens(list(text.encode()))
        self.refused += [rest] if (rest := text.encode()[taken:].decode()) else []


def asked(
    tmp_path: Path,
    form: Form,
    *answers: Written | bytes,
    stream: bool = False,
    config: str = BOUND,
    body: dict[str, Any] | None = None,
) -> tuple[Reply, Heard]:
    """Ask a service in front of a server that gives these answers in turn, or what else comes in their stead."""
    heard = Heard()

    async def behave(connection: Connection) -> None:
        while True:
            heard.requests.append(await connection.request())
            answer = answers[min(len(heard.requests), len(answers)) - 1]
            if isinstance(answer, bytes):
                await connection.send(answer)
                continue
            told = Asked(connection.body.decode())
            text = form.text(told, answer)
            heard.hold(form.grammar(told), text)
            events = form.events(text)
            if answer.breaks:
                await connection.stream(*events, end=False)
                return connection.reset()
            end = form.chunk({}, answer.finish_reason or form.finish_reason)
            usage = event({"id": "chatcmpl-1", "choices": [], "usage": USAGE})
            await connection.stream(*events, end, usage, DONE)

    async def ask() -> Reply:
        async with serving(behave) as server:
            service = behind(tmp_path, server.url, kind=form.kind, model=form.model, config=config)
            async with running(service) as endpoint:
                return await endpoint.post({**(body or BODY), "stream": stream})

    reply = run(ask())
    assert heard.refused == []
    return reply, heard


def report_of(reply: Reply, *, stream: bool) -> dict[str, Any]:
    report: dict[str, Any] = (reply.events[-1] if stream else reply.json)["stepguard"]
    return report


def said_in(reply: Reply, *, stream: bool) -> tuple[str, str]:
    """The steps and the answer as a client has them."""
    if not stream:
        message = reply.json["choices"][0]["message"]
        return message["reasoning_content"], message["content"]
    deltas = [choice["delta"] for one in reply.events for choice in one["choices"]]
    steps, answer = (
        "".join(delta.get(name) or "" for delta in deltas) for name in ("reasoning_content", "content")
    )
    return steps, answer


@both
@streamed
def test_a_faithful_trace_is_accepted_at_once(tmp_path: Path, form: Form, stream: bool) -> None:
    reply, heard = asked(tmp_path, form, Written(LINES), stream=stream)
    assert reply.status == 200
    assert said_in(reply, stream=stream) == (CHAIN, "38")
    report = report_of(reply, stream=stream)
    assert (report["outcome"], report["generations"], report["upheld"]) == ("accepted_first", 1, 1)
    usage = report["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["estimated"]) == (400, 90, False)
    assert len(heard.requests) == 1


@both
@streamed
def test_a_wrong_value_is_cut_and_the_rest_is_asked_for(tmp_path: Path, form: Form, stream: bool) -> None:
    reply, heard = asked(tmp_path, form, Written(WRONG), Written(LINES[3:]), stream=stream)
    assert said_in(reply, stream=stream) == (CHAIN, "38")
    report = report_of(reply, stream=stream)
    assert (report["outcome"], report["generations"]) == ("accepted_after_retry", 2)
    assert [(one["kind"], one["step"]) for one in report["violations"]] == [("wrong_value", "4")]
    *_, stands, turn = heard.messages(1)
    assert stands["role"] == "assistant"
    assert stands["content"].split("\n", 1)[1] == "".join(LINES[:3]).rstrip("\n")
    assert "Go on with step 4" in turn["content"]
    assert "13 + 5 = 19" not in json.dumps(heard.messages(1))


@both
def test_an_answer_that_was_cut_off_is_gone_on_with(tmp_path: Path, form: Form) -> None:
    cut = Written([*LINES[:3], "4 s4 = 13 + 5 = 1"], finish_reason="length")
    reply, _ = asked(tmp_path, form, cut, Written(LINES[3:]))
    assert said_in(reply, stream=False) == (CHAIN, "38")
    report = report_of(reply, stream=False)
    assert [(one["kind"], one["step"]) for one in report["violations"]] == [("truncated", "4")]


@both
def test_a_connection_that_breaks_off_is_made_again_and_what_stood_is_kept(
    tmp_path: Path, form: Form
) -> None:
    broken = Written([*LINES[:3], "4 s4 = 13 + 5 = 1"], breaks=True)
    config = policy("transport_retries: 1")
    reply, heard = asked(tmp_path, form, broken, Written(LINES[3:]), config=config)
    assert said_in(reply, stream=False) == (CHAIN, "38")
    report = report_of(reply, stream=False)
    assert (report["violations"], report["generations"]) == ([], 2)
    assert "Go on with step 4" in heard.messages(1)[-1]["content"]


@both
def test_an_error_of_the_server_is_the_clients(tmp_path: Path, form: Form) -> None:
    error = {"message": "Unsupported value", "type": "invalid_request_error", "param": "tools", "code": None}
    refused = whole("401 Unauthorized", json.dumps({"error": error}).encode())
    reply, _ = asked(tmp_path, form, refused)
    assert reply.status >= 400
    assert "Unsupported value" in reply.error["message"] or "401" in reply.error["message"]


def test_the_grammar_is_the_format_of_the_one_tool_that_must_be_called(tmp_path: Path) -> None:
    _, heard = asked(tmp_path, Openai(), Written(LINES))
    request = heard.requests[0]
    (tool,) = request["tools"]
    grammar = tool["custom"]["format"]["grammar"]
    assert tool["type"] == "custom"
    assert tool["custom"]["format"] == {"type": "grammar", "grammar": grammar}
    assert grammar["syntax"] == "lark"
    assert grammar["definition"].startswith("start: begin s1 ")
    assert tool["custom"]["name"] == "trace"
    assert request["tool_choice"] == {"type": "custom", "custom": {"name": "trace"}}
    assert request["parallel_tool_calls"] is False
    assert request["messages"][-1]["role"] == "user"


def test_the_schema_has_the_lines_in_order_and_the_last_words_show_the_first(tmp_path: Path) -> None:
    _, heard = asked(tmp_path, Ollama(), Written(LINES))
    request = heard.requests[0]
    form = request["response_format"]["json_schema"]
    assert (request["response_format"]["type"], form["strict"]) == ("json_schema", True)
    names = list(form["schema"]["properties"])
    assert names == form["schema"]["required"]
    assert [line.startswith(name) for line, name in zip(LINES, names, strict=True)] == [True] * len(LINES)
    assert request["messages"][-1]["content"].endswith('\n{"1 s1 = 2 + 3 = ": ...')
    assert "tools" not in request


@both
def test_a_clients_own_tools_are_refused(tmp_path: Path, form: Form) -> None:
    tool = {"type": "custom", "custom": {"name": "mine"}}
    reply, heard = asked(tmp_path, form, Written(LINES), body={**BODY, "tools": [tool]})
    assert (reply.status, reply.error["param"]) == (400, "tools")
    assert heard.requests == []


def test_a_server_that_heeds_no_schema_is_read_as_it_writes(tmp_path: Path) -> None:
    class Plain(Ollama):
        def grammar(self, _asked: Asked) -> str:
            return LLMatcher.grammar_from_regex(r"(.|\n)*")

        def text(self, asked: Asked, written: Written) -> str:
            return Openai().text(asked, written)

    reply, _ = asked(tmp_path, Plain(), Written(LINES))
    assert said_in(reply, stream=False) == (CHAIN, "38")
    assert report_of(reply, stream=False)["outcome"] == "accepted_first"


PICK: Final = """\
procedure pick(note: text) -> int
  extract n: int from note
    where n > 0
  twice = n * 2
  return twice
"""


def test_behind_a_decision_the_next_schema_has_what_it_decides(tmp_path: Path) -> None:
    (tmp_path / "pick.proc").write_text(PICK)
    lines = ["1 n = 3\n", "2 twice = 3 * 2 = 6\n", "3 return 6\n"]
    config = "procedures: [pick.proc]\nroutes: [{model: pick, procedure: pick}]\n"
    body = {"model": "pick", "messages": [{"role": "user", "content": "Three."}]}
    reply, heard = asked(tmp_path, Ollama(), Written(lines[:1]), Written(lines[1:]), config=config, body=body)
    assert said_in(reply, stream=False) == ("".join(lines), "6")
    report = report_of(reply, stream=False)
    assert (report["outcome"], report["attempts"], report["generations"]) == ("accepted_first", 1, 2)
    asked_for = [
        list(one["response_format"]["json_schema"]["schema"]["properties"]) for one in heard.requests
    ]
    assert asked_for == [["1 n = "], ["2 twice = 3 * 2 = ", "3 return "]]


@both
def test_a_step_is_the_clients_before_the_next_one_is_written(tmp_path: Path, form: Form) -> None:
    async def ask() -> None:
        seen = asyncio.Event()

        async def behave(connection: Connection) -> None:
            await connection.request()
            events = form.events(form.text(Asked(connection.body.decode()), Written(LINES)))
            half = next(at for at in range(len(events)) if "6 if" in text_of(events[:at]))
            await connection.stream(*events[:half], end=False)
            await seen.wait()
            rest = [*events[half:], form.chunk({}, form.finish_reason), DONE]
            await connection.send(*map(chunked, rest), b"0\r\n\r\n")

        def text_of(events: list[bytes]) -> str:
            return "".join(re.findall(r'"(?:input|content)": "((?:[^"\\]|\\.)*)"', b"".join(events).decode()))

        async with serving(behave) as server:
            service = behind(tmp_path, server.url, kind=form.kind, model=form.model, idle_s=5)
            async with running(service) as endpoint:
                reader, writer = await endpoint.connect()
                writer.write(request(json.dumps({**BODY, "stream": True}).encode()))
                await read_head(reader)
                got = b""
                async for piece in read_chunks(reader):
                    got += piece
                    if b"5 s5 = 18 - 3 = 15" in got:
                        seen.set()
                writer.close()
                assert got.endswith(b"data: [DONE]\n\n")
                assert b"38" in got

    run(ask())

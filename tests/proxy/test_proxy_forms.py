"""Servers whose answers are no plain text, behind the whole endpoint: OpenAI's custom tools, Ollama's JSON."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Final

import pytest
from llguidance import LLMatcher

from tests.proxy.forms import (
    LINES,
    WRONG,
    Asked,
    Indented,
    Members,
    Ollama,
    Openai,
    Responses,
    Written,
    asked,
    report_of,
    said_in,
)
from tests.proxy.running import (
    BODY,
    CHAIN,
    before,
    policy,
    read_chunks,
    read_head,
    request,
    run,
)
from tests.upstream.servers import Connection, chunked, whole

both = pytest.mark.parametrize(
    "form",
    [Openai(), Ollama(), Indented(), Responses(), Members()],
    ids=["tool", "members", "indented", "responses", "members in responses"],
)
streamed = pytest.mark.parametrize("stream", [False, True])


@both
@streamed
def test_a_faithful_trace_is_accepted_at_once(tmp_path: Path, form: Openai, stream: bool) -> None:
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
def test_a_wrong_value_is_cut_and_the_rest_is_asked_for(tmp_path: Path, form: Openai, stream: bool) -> None:
    config = policy("actions: [resume, reject]")
    reply, heard = asked(tmp_path, form, Written(WRONG), Written(LINES[3:]), stream=stream, config=config)
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
def test_an_answer_that_was_cut_off_is_gone_on_with(tmp_path: Path, form: Openai) -> None:
    cut = Written([*LINES[:3], "4 s4 = 13 + 5 = 1"], finish_reason="length")
    reply, _ = asked(tmp_path, form, cut, Written(LINES[3:]))
    assert said_in(reply, stream=False) == (CHAIN, "38")
    report = report_of(reply, stream=False)
    assert [(one["kind"], one["step"]) for one in report["violations"]] == [("truncated", "4")]


@both
def test_a_connection_that_breaks_off_is_made_again_and_what_stood_is_kept(
    tmp_path: Path, form: Openai
) -> None:
    broken = Written([*LINES[:3], "4 s4 = 13 + 5 = 1"], breaks=True)
    config = policy("transport_retries: 1")
    reply, heard = asked(tmp_path, form, broken, Written(LINES[3:]), config=config)
    assert said_in(reply, stream=False) == (CHAIN, "38")
    report = report_of(reply, stream=False)
    assert (report["violations"], report["generations"]) == ([], 2)
    assert "Go on with step 4" in heard.messages(1)[-1]["content"]


@both
def test_an_error_of_the_server_is_the_clients(tmp_path: Path, form: Openai) -> None:
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
def test_a_clients_own_tools_are_refused(tmp_path: Path, form: Openai) -> None:
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
def test_a_step_is_the_clients_before_the_next_one_is_written(tmp_path: Path, form: Openai) -> None:
    async def ask() -> None:
        seen = asyncio.Event()

        async def behave(connection: Connection) -> None:
            await connection.request()
            events = form.events(form.text(Asked(connection.body.decode()), Written(LINES)))
            half = next(at for at in range(len(events)) if "6 if" in text_of(events[:at]))
            await connection.stream(*events[:half], end=False)
            await seen.wait()
            rest = [*events[half:], *form.ending(None)]
            await connection.send(*map(chunked, rest), b"0\r\n\r\n")

        def text_of(events: list[bytes]) -> str:
            return "".join(
                re.findall(r'"(?:input|content|delta)": "((?:[^"\\]|\\.)*)"', b"".join(events).decode())
            )

        async with before(tmp_path, behave, idle_s=5, **form.settings) as (endpoint, _):
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

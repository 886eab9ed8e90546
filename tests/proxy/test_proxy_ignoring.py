"""Servers that take a grammar and do not heed it: noticed and counted once, while the checker enforces."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.proxy.running import BODY, CHAIN, TRACE, WRONG, before, policy, run
from tests.upstream.servers import DONE, Connection, said

COUNT: Final = 'stepguard_grammar_ignored_total{upstream="main"}'
LINES: Final = CHAIN.splitlines(keepends=True)

# A kind of server and what it is to answer, given the request and the faithful trace.
Answer = Callable[[dict[str, Any], str], list[bytes]]


def plain(text: str = TRACE) -> Answer:
    """The trace as a text, behind what the assistant has said already."""

    def answer(body: dict[str, Any], nonce: str) -> list[bytes]:
        last = body["messages"][-1]
        begun = last["content"] if last["role"] == "assistant" else ""
        return [said(text.replace("{nonce}", nonce).removeprefix(begun))]

    return answer


def with_thoughts(**thought: str) -> Answer:
    def answer(body: dict[str, Any], nonce: str) -> list[bytes]:
        front = [said(None, reasoning_content="Hm.")] if "field" in thought else []
        return [*front, *plain()(body, nonce)]

    return answer


def called(front: str = "", text: str = TRACE) -> Answer:
    """The trace as the input of the tool, something said in front of it."""

    def answer(_body: dict[str, Any], nonce: str) -> list[bytes]:
        written = {"name": "trace", "input": text.replace("{nonce}", nonce)}
        call = {"index": 0, "id": "c", "type": "custom", "custom": written}
        return [said(front), said(None, tool_calls=[call]), said(None, "tool_calls")]

    return answer


def members(change: Callable[[dict[str, Any]], object] = lambda _: None, wrap: str = "{}") -> Answer:
    """The trace as an object, changed and wrapped up."""

    def answer(body: dict[str, Any], _nonce: str) -> list[bytes]:
        names = list(body["response_format"]["json_schema"]["schema"]["properties"])
        found: dict[str, Any] = {
            name: line.removeprefix(name).rstrip("\n") for name, line in zip(names, LINES, strict=True)
        }
        change(found)
        return [said(wrap.replace("{}", json.dumps(found)))]

    return answer


def first(found: dict[str, Any]) -> str:
    return next(iter(found))


def asked(tmp_path: Path, answer: Answer, *, settings: str, **upstream: Any) -> tuple[int, float]:
    """Ask a server that answers so; give the status and what was counted."""

    async def behave(connection: Connection) -> None:
        body = await connection.request()
        nonce = re.findall(r"@begin \S+ ([0-9a-f]{6})", json.dumps(body["messages"]))[-1]
        events = answer(body, nonce)
        await connection.stream(*events, said(None, "stop"), DONE)

    async def ask() -> tuple[int, float]:
        async with before(tmp_path, behave, config=policy(settings), **upstream) as (endpoint, _):
            reply = await endpoint.post(BODY)
            return reply.status, await endpoint.counted(COUNT)

    return run(ask())


TOOL: Final = {"kind": "openai", "model": "gpt-5-mini"}
OBJECT: Final = {"kind": "ollama", "model": "llama3.2"}
TURN: Final = {"kind": "vllm", "capabilities": {"prefix": "none"}}
TOLERANT: Final = "tolerant: true\nactions: [reject]\nforce_by: grammar"


@pytest.mark.parametrize(
    ("upstream", "answer", "status", "count"),
    [
        ({"kind": "llama.cpp"}, plain(), 200, 0),
        ({"kind": "llama.cpp"}, plain(WRONG), 422, 0),
        ({"kind": "llama.cpp"}, plain(TRACE.replace("2 s2 =", "2  s2  =")), 200, 1),
        ({"kind": "llama.cpp"}, plain(TRACE.replace("2 s2", "\n2 s2")), 200, 1),
        ({"kind": "llama.cpp"}, plain(TRACE.replace("2 s2", "Well then.\n2 s2")), 200, 1),
        ({"kind": "llama.cpp"}, plain(TRACE.replace("4 s4 = 13 + 5", "4 s4 = 5 + 13")), 200, 1),
        ({"kind": "llama.cpp"}, plain(f"{TRACE}I hope that this helps."), 200, 1),
        ({"kind": "llama.cpp"}, with_thoughts(field="yes"), 200, 1),
        (TURN, plain(), 200, 0),
        (TURN, plain(f"\n{TRACE}"), 200, 0),
        (TURN, plain(TRACE.rstrip("\n")), 200, 0),
        (TURN, with_thoughts(field="yes"), 200, 0),
        (TURN, plain(f"Here it is:\n{TRACE}"), 200, 1),
        (TURN, plain(f"```\n{TRACE}```\n"), 200, 1),
        (TOOL, called(), 200, 0),
        (TOOL, plain(), 200, 1),
        (TOOL, called("Calling it now.\n"), 200, 1),
        (TOOL, called(text=TRACE.replace("2 s2 =", "2  s2 =")), 200, 1),
        (OBJECT, members(), 200, 0),
        (OBJECT, plain(CHAIN), 200, 1),
        (OBJECT, members(wrap="```json\n{}\n```"), 200, 1),
        (OBJECT, members(wrap="{} {}"), 200, 1),
        (OBJECT, members(lambda found: found.update({first(found): 5})), 200, 1),
        (OBJECT, members(lambda found: found.update({first(found): "five"})), 422, 1),
        (OBJECT, members(lambda found: found.pop(list(found)[-1])), 422, 1),
        (OBJECT, members(lambda found: found.update({"10 more = ": "1"})), 200, 1),
    ],
)
def test_an_answer_that_the_grammar_could_not_have_brought_forth_is_counted_once(
    tmp_path: Path, upstream: dict[str, Any], answer: Answer, status: int, count: int
) -> None:
    assert asked(tmp_path, answer, settings=TOLERANT, **upstream) == (status, count)

"""The scripted upstream: plays what the file says, as a model server would."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from guard.errors import (
    ConfigError,
    UpstreamBusy,
    UpstreamConnectError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeout,
)
from guard.run.messages import Ended, Open, Text, Usage
from guard.upstream.base import Passage
from guard.upstream.reading import AnswerReader
from guard.upstream.scripted import ScriptedUpstream, load_script
from tests.upstream.servers import Call, opening, text_in

SCRIPT = """
model: tiny
grammar: true
replies:
  - text: |
      @begin chain {nonce}
      1 a = 3
      @end {nonce}
    chunk: 5
  - text: "no trace"
    finish_reason: length
"""


def scripted(tmp_path: Path, text: str = SCRIPT) -> ScriptedUpstream:
    path = tmp_path / "script.yaml"
    path.write_text(text)
    return ScriptedUpstream("main", load_script(path))


def play(upstream: ScriptedUpstream, command: Open) -> list[Text | Ended]:
    async def body() -> list[Text | Ended]:
        return [piece async for piece in upstream.stream(command, client=Call())]

    return asyncio.run(body())


def passed(upstream: ScriptedUpstream, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    async def forward() -> tuple[int, bytes]:
        data = json.dumps(body).encode()
        request = Passage(method=method, path=path, headers=(), body=data)
        async with upstream.forward(request, client=Call()) as answer:
            return answer.status, b"".join([piece async for piece in answer.body])

    return asyncio.run(forward())


PROMPT = ({"role": "user", "content": "@begin chain ffffff in a message, then: @begin chain 3fa92c"},)


def test_replies_are_played_in_order_and_over_again(tmp_path: Path) -> None:
    upstream = scripted(tmp_path)
    trace = "@begin chain 3fa92c\n1 a = 3\n@end 3fa92c\n"
    heard = [play(upstream, opening(messages=PROMPT)) for _ in range(3)]
    assert [text_in(pieces) for pieces in heard] == [trace, "no trace", trace]
    assert heard[1][-1] == Ended("length", Usage(prompt=14, completion=2))
    assert heard[0][0] == Text("@begi", 1)


def test_a_prefix_is_continued_and_names_the_nonce_too(tmp_path: Path) -> None:
    heard = play(scripted(tmp_path), opening(prefix="@begin chain 3fa92c\n1"))
    assert text_in(heard) == " a = 3\n@end 3fa92c\n"


def test_it_says_what_it_can_do(tmp_path: Path) -> None:
    target = scripted(tmp_path).target
    assert (target.name, target.model, target.prefill, target.dialect) == ("main", "tiny", True, "gbnf")
    plain = scripted(tmp_path, "prefill: false\nreplies: [{text: x}]").target
    assert (plain.model, plain.prefill, plain.dialect) == ("scripted", False, None)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("connect", UpstreamConnectError),
        ("timeout", UpstreamTimeout),
        ("busy", UpstreamBusy),
        ("broken", UpstreamProtocolError),
    ],
)
def test_it_fails_as_told_behind_so_many_characters(
    tmp_path: Path, kind: str, error: type[UpstreamError]
) -> None:
    upstream = scripted(
        tmp_path,
        f"replies: [{{text: 123456789, fail: {{after: 6, kind: {kind}}}}}]".replace(
            "123456789", "'123456789'"
        ),
    )
    heard: list[str] = []

    async def body() -> None:
        async for piece in upstream.stream(opening(), client=Call()):
            assert isinstance(piece, Text)
            heard.append(piece.text)

    with pytest.raises(error):
        asyncio.run(body())
    assert heard == ["1234", "56"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("replies: []", "replies: "),
        ("replies: [{text: x, speed: 3}]", "replies.0.speed: "),
        ("replies: [{text: x, chunk: 0}]", "replies.0.chunk: "),
        ("replies: [", "script: "),
        ("just text", "script: "),
        ("", "script: "),
    ],
)
def test_a_script_that_cannot_be_played_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        scripted(tmp_path, text)
    assert problem in str(caught.value)
    assert "script.yaml" in str(caught.value)


def test_a_script_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_script(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    "value",
    ["2026-02-30", "9" * 5000, "[" * 5000, "\x1b"],
    ids=["no date", "too long", "nested", "a control character"],
)
def test_a_script_with_what_cannot_be_read_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError):
        scripted(tmp_path, f"model: {value}\nreplies: [{{text: a}}]\n")


def test_requests_that_are_passed_on_are_answered_as_a_server_would(tmp_path: Path) -> None:
    upstream = scripted(tmp_path)
    status, body = passed(upstream, "POST", "/chat/completions", {"messages": PROMPT})
    assert status == 200
    assert json.loads(body)["choices"][0]["message"]["content"].startswith("@begin chain 3fa92c\n1 a")
    _, stream = passed(upstream, "POST", "/chat/completions", {"messages": PROMPT, "stream": True})
    reader = AnswerReader()
    assert text_in([*reader.feed(stream)]) == "no trace"
    assert reader.over
    assert reader.fault is None
    assert reader.finish_reason == "length"
    assert json.loads(passed(upstream, "GET", "/models")[1])["data"][0]["id"] == "tiny"
    assert passed(upstream, "GET", "/files?limit=2")[0] == 404

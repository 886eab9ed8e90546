"""How servers speak whose answers are no plain text: OpenAI's custom tools by either API, JSON of a schema."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from llguidance import LLMatcher, LLTokenizer

from tests.proxy.running import BODY, BOUND, CHAIN, Reply, before, run
from tests.upstream.openai_types import published
from tests.upstream.responding import Answer
from tests.upstream.servers import DONE, Connection, event

LINES: Final = CHAIN.splitlines(keepends=True)
WRONG: Final = [*LINES[:3], "4 s4 = 13 + 5 = 19\n", *LINES[4:]]
USAGE: Final = {"prompt_tokens": 400, "completion_tokens": 90, "total_tokens": 490}


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
        text: dict[str, Any] = self.body.get("text", {})
        schema: dict[str, Any] = (text["format"] if text else self.body["response_format"]["json_schema"])[
            "schema"
        ]
        return schema


class Openai:
    """Speaks as OpenAI's chat completions do when a custom tool is forced."""

    kind = "openai"
    model = "gpt-5-mini"
    finish_reason = "tool_calls"
    api = "chat"

    @property
    def settings(self) -> dict[str, Any]:
        """How the upstream is configured."""
        return {"kind": self.kind, "model": self.model, "capabilities": {"api": self.api}}

    def ending(self, finish_reason: str | None) -> list[bytes]:
        usage = event({"id": "chatcmpl-1", "choices": [], "usage": USAGE})
        return [self.chunk({}, finish_reason or self.finish_reason), usage, DONE]

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


class Ollama(Openai):
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


class Responses(Openai):
    """Speaks as OpenAI's Responses API does when a custom tool is forced."""

    api = "responses"

    def grammar(self, asked: Asked) -> str:
        (tool,) = asked.body["tools"]
        return LLMatcher.grammar_from_lark(tool["format"]["definition"])

    def events(self, text: str) -> list[bytes]:
        self._answer = Answer()
        thoughts = self._answer.summary(["Add ", "up."])
        return [
            *self._answer.start(),
            *thoughts,
            *self._answer.tool(text[at : at + 7] for at in range(0, len(text), 7)),
        ]

    def ending(self, finish_reason: str | None) -> list[bytes]:
        return self._answer.end(finish_reason or "stop")


class Members(Responses, Ollama):
    """Speaks as it does with a schema in `text.format`."""

    kind = "openai"
    model = "gpt-4o"

    def grammar(self, asked: Asked) -> str:
        return Ollama.grammar(self, asked)

    def events(self, text: str) -> list[bytes]:
        self._answer = Answer(self.model)
        return [*self._answer.start(), *self._answer.text(text[at : at + 5] for at in range(0, len(text), 5))]


@dataclass
class Heard:
    """What the server was asked, and how much of what its model wrote the grammar did not allow."""

    requests: list[dict[str, Any]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def messages(self, position: int) -> list[dict[str, Any]]:
        asked = self.requests[position]
        messages: list[dict[str, Any]] = asked["messages"] if "messages" in asked else asked["input"]
        return messages

    def hold(self, grammar: str, text: str) -> None:
        taken = LLMatcher(LLTokenizer("byte"), grammar).try_consume_tokens(list(text.encode()))
        self.refused += [rest] if (rest := text.encode()[taken:].decode()) else []


def asked(
    tmp_path: Path,
    form: Openai,
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
            published(heard.requests[-1])
            told = Asked(connection.body.decode())
            text = form.text(told, answer)
            heard.hold(form.grammar(told), text)
            events = form.events(text)
            if answer.breaks:
                await connection.stream(*events, end=False)
                return connection.reset()
            await connection.stream(*events, *form.ending(answer.finish_reason))

    async def ask() -> Reply:
        async with before(tmp_path, behave, config=config, **form.settings) as (endpoint, _):
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

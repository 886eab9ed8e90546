"""A chat server on the loopback whose habits are the test's to choose."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from guard.dialect.notation import Dialect
from guard.upstream.abilities import CONTINUATIONS, GRAMMARS, ODD, ROOMS
from guard.upstream.capabilities import HELD, Api, Place, Prefix
from guard.upstream.request import TOOL, grammar_fields
from tests.upstream.responding import Answer
from tests.upstream.servers import DONE, USAGE, Connection, Server, event, serving, whole

IN_TEXT = frozenset({"tags", "unopened"})  # where its thoughts stand in the text
WORDS = "seven eight nine ten eleven twelve"


@dataclass
class Able:
    """What it does. `place`: where it takes a grammar, `picky`: and refuses a bad one. `refuses`: fields that are
    answered with 400; `role`: of instructions, or that is refused. `thinks`: the field of its thoughts, which come
    even where it is held to a grammar if `thinks_first`; `tags`: they stand in the text, `unopened`: the prompt
    has opened them. `busy`: so many requests are answered with 503 first.
    """

    key: str = ""
    api: Api = Api.CHAT
    models: tuple[str, ...] | None = ("m",)
    prefix: Prefix = Prefix.NONE
    echo_stream: bool = False
    echo_whole: bool = False
    place: Place | None = None
    dialect: Dialect | None = None
    picky: bool = True
    usage: bool = True
    streams: bool = True
    system: bool = True
    refuses: frozenset[str] = frozenset()
    thinks: str = ""
    thinks_first: bool = True
    both: bool = True  # a grammar holds behind a prefix, too
    many: bool = True
    stops: bool = True
    busy: int = 0
    slow: int = 0  # the tokens that it spends on thoughts first
    asked: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, body: Mapping[str, Any]) -> str:
        """Give the text of an answer. Raises `ValueError` for what is refused."""
        if wrong := sorted(self.refuses & set(body)):
            raise ValueError(f"unknown field {wrong[0]}")
        messages = body["messages"] if self.api is Api.CHAT else body["input"]
        if not self.system and any(message["role"] == "system" for message in messages):
            raise ValueError("System role not supported")
        bounds = ("max_tokens", "max_completion_tokens", "max_output_tokens")
        if sum(body.get(name, 0) for name in bounds) <= self.slow:
            return ""
        if (held := self._held(body)) is not None:
            return self._thought(body) + held if self.thinks_first else held
        if (room := self._room(body)) is not None:
            return room
        last = messages[-1]
        if last["role"] == "assistant":
            return self._continued(body)
        if "Count" in last["content"]:
            return self._stopped(f"one two three four five six {WORDS}", body)
        if self.thinks in IN_TEXT:
            return f"{self._thought(body)}Hello!"
        return ODD if any("one word" in str(message["content"]) for message in messages) else "Hello!"

    def _thought(self, body: Mapping[str, Any]) -> str:
        """Give the thoughts that stand in the text; behind a prefix there are none."""
        if body.get("messages", [{}])[-1].get("role") == "assistant":
            return ""
        return {"tags": "<think>\nHm.\n</think>\n\n", "unopened": "Let me think.</think>"}.get(
            self.thinks, ""
        )

    def _room(self, body: Mapping[str, Any]) -> str | None:
        """Give an answer under a grammar with room for thoughts that the prompt has opened."""
        for dialect in HELD[self.place] if self.place and self.thinks == "unopened" else ():
            text = ROOMS.get(dialect)
            if text is not None and self.place is not None:
                wanted = grammar_fields(self.place, dialect, text, self.api)
                if all(body.get(name) == value for name, value in wanted.items()):
                    return f"Hm.</think>\n{ODD}"
        return None

    def _held(self, body: Mapping[str, Any]) -> str | None:
        if not self.both and body.get("messages", [{}])[-1].get("role") == "assistant":
            return None
        for dialect in HELD[self.place] if self.place else ():
            good, bad = (
                (grammar_fields(self.place, dialect, text, self.api) for text in GRAMMARS[dialect])
                if self.place
                else ({}, {})
            )
            if all(body.get(name) == value for name, value in good.items()):
                return json.dumps({"word": ODD}) if dialect is Dialect.JSON_SCHEMA else ODD
            if self.picky and all(body.get(name) == value for name, value in bad.items()):
                raise ValueError("the grammar is none")
        return None

    def _continued(self, body: Mapping[str, Any]) -> str:
        said = body["messages"][-1]
        asked = Prefix.TRAILING
        if said.get("prefix"):
            asked = Prefix.FLAGGED
        if body.get("continue_final_message"):
            asked = Prefix.CONTINUE
        if asked is not self.prefix:
            return "Sure! Here they are."
        [then] = [then for _, begun, then in CONTINUATIONS if begun == said["content"]]
        echo = self.echo_stream if body["stream"] else self.echo_whole
        return (said["content"] if echo else "") + self._stopped(
            f" {WORDS if then == 'seven' else then}", body
        )

    def _stopped(self, text: str, body: Mapping[str, Any]) -> str:
        for stop in body.get("stop", ()) if self.stops else ():
            text = text.partition(stop)[0]
        return text

    async def behave(self, connection: Connection) -> None:
        """Answer all requests of a connection."""
        while True:
            body = await connection.request()
            if self.key and connection.header("authorization") != f"Bearer {self.key}":
                await connection.send(whole("401 Unauthorized", b'{"error": {"message": "wrong key"}}'))
            elif connection.head.startswith("GET"):
                listed = json.dumps({"data": [{"id": name} for name in self.models or ()]}).encode()
                known = self.models is not None
                await connection.send(whole("200 OK", listed) if known else whole("404 Not Found", b"{}"))
            elif not connection.head.startswith(f"POST /v1{self.api.path} "):
                await connection.send(whole("404 Not Found", b'{"error": {"message": "no such path"}}'))
            elif self.busy:
                self.busy -= 1
                await connection.send(whole("503 Service Unavailable", b'{"error": "busy"}'))
            else:
                self.asked.append(body)
                await self._chat(connection, body)

    async def _chat(self, connection: Connection, body: Mapping[str, Any]) -> None:
        try:
            text = self.answer(body)
        except ValueError as error:
            await connection.send(
                whole("400 Bad Request", json.dumps({"error": {"message": str(error)}}).encode())
            )
            return
        if self.api is Api.RESPONSES:
            await self._respond(connection, text, body)
            return
        said: dict[str, Any] = {"role": "assistant", "content": text}
        if self.place is Place.CUSTOM_TOOL and "tools" in body:
            call = {"index": 0, "id": "c", "type": "custom", "custom": {"name": TOOL, "input": text}}
            said = {"role": "assistant", "content": None, "tool_calls": [call]}
        held = any(
            name in body for name in ("grammar", "structured_outputs", "ebnf", "response_format", "tools")
        )
        if self.thinks not in {"", *IN_TEXT} and (self.thinks_first or not held):
            said[self.thinks] = "Let me think."
        if not body["stream"] or not self.streams:
            many = body.get("n", 1) if self.many else 1
            choices = [{"index": i, "message": said, "finish_reason": "stop"} for i in range(many)]
            usage = {"usage": {"completion_tokens": 3}} if self.usage else {}
            await connection.send(whole("200 OK", json.dumps({"choices": choices} | usage).encode()))
            return
        chunk = {"choices": [{"index": 0, "delta": said, "finish_reason": None}]}
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        await connection.stream(event(chunk), event(end), *([USAGE] if self.usage else []), DONE)

    async def _respond(self, connection: Connection, text: str, body: Mapping[str, Any]) -> None:
        answer = Answer()
        events = answer.start() + (answer.summary(["Let me think."]) if self.thinks else [])
        written = self.place is Place.CUSTOM_TOOL and "tools" in body
        events += [*(answer.tool([text]) if written else answer.text([text])), *answer.end()]
        if body["stream"] and self.streams:
            await connection.stream(*events)
        else:
            await connection.send(whole("200 OK", json.dumps(answer.ended()).encode()))


@asynccontextmanager
async def able_server(able: Able) -> AsyncIterator[Server]:
    """Serve it."""
    async with serving(able.behave) as server:
        yield server

"""An upstream that plays a file: for tests, documentation and trying a policy without a model."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal

import orjson
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from guard.dialect.notation import Dialect
from guard.errors import (
    ConfigError,
    UpstreamBusy,
    UpstreamConnectError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeout,
)
from guard.nesting import FlatLoader
from guard.run.faults import of_end
from guard.run.messages import Ended, Message, Open, Target, Text, Usage
from guard.upstream.base import ClientCall, Passage, PassageAnswer
from guard.wire import sse
from guard.wire.chat import Envelope, text_of
from guard.wire.thinking import Thinking

NONCE: Final = "{nonce}"

_BEGIN: Final = re.compile(r"@begin \S+ ([0-9a-f]{6})\b")


class Failure(BaseModel):
    """How a reply breaks off: behind so many characters, as what."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    after: int = Field(default=0, ge=0)
    kind: Literal["connect", "timeout", "busy", "broken"]

    def error(self) -> UpstreamError:
        """Say it as the exception that the real thing would be."""
        match self.kind:
            case "connect":
                return UpstreamConnectError("scripted: no connection: connection refused")
            case "timeout":
                return UpstreamTimeout("scripted: nothing came in time")
            case "busy":
                return UpstreamBusy("scripted: it answered 429", upstream_status=429, retry_after_s=0)
            case "broken":
                return UpstreamProtocolError("scripted: the connection broke off in the middle of the answer")


class Reply(BaseModel):
    """One answer: its text in pieces of `chunk` characters, `delay_s` seconds before each.

    `{nonce}` stands for the nonce that the prompt names. Where the request has a prefix that the text
    begins with, only what comes behind it is played, as a server that continues a prefix would.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str
    chunk: int = Field(default=4, ge=1)
    delay_s: float = Field(default=0.0, ge=0, le=60)
    finish_reason: str | None = "stop"
    fail: Failure | None = None


class Script(BaseModel):
    """The file: replies that are played in order, and from the first again."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = "scripted"
    prefill: bool = True
    grammar: bool = False
    replies: tuple[Reply, ...] = Field(min_length=1)


def load_script(path: Path) -> Script:
    """Read a script. Raises `ConfigError` with everything that is wrong in it."""
    try:
        return Script.model_validate(FlatLoader(path.read_text(encoding="utf-8")).get_single_data())
    except ValidationError as error:
        problems = [(".".join(map(str, e["loc"])) or "script", e["msg"].lower()) for e in error.errors()]
        raise ConfigError(problems, file=str(path)) from None
    except (OSError, ValueError, yaml.YAMLError) as error:  # numbers and dates that are none, too
        raise ConfigError([("script", str(error))], file=str(path)) from None
    except RecursionError:
        raise ConfigError([("script", "is nested too deeply")], file=str(path)) from None


class ScriptedUpstream:
    """Plays a script."""

    def __init__(self, name: str, script: Script) -> None:
        dialect = Dialect.GBNF if script.grammar else None
        self.target = Target(
            name=name, model=script.model, prefill=script.prefill, dialect=dialect, replays=True
        )
        self._script = script
        self._played = 0

    async def start(self) -> None:
        """There is nothing to start."""

    async def close(self) -> None:
        """There is nothing to release."""

    async def stream(self, command: Open, *, client: ClientCall) -> AsyncGenerator[Text | Ended]:  # noqa: ARG002
        """Play the next reply."""
        reply = self._next()
        spoken = _with_nonce(reply.text, [*command.messages, {"content": command.prefix}])
        spoken = spoken.removeprefix(command.prefix)
        thinking = Thinking()
        count = 0
        async for piece in _pieces(reply, spoken):
            count += 1
            thought, said = ("", piece) if command.prefix else thinking.feed(piece)
            if thought:
                yield Text("", 0 if said else 1, thought=thought)
            if said or not thought:
                yield Text(said)
        if said := thinking.close()[1]:
            yield Text(said, 0)
        fault = of_end(reply.finish_reason)
        if fault is not None:
            raise fault
        prompt = sum(len(text_of(message)) for message in command.messages) // 4
        yield Ended(reply.finish_reason, Usage(prompt=prompt, completion=count))

    @asynccontextmanager
    async def forward(self, request: Passage, *, client: ClientCall) -> AsyncIterator[PassageAnswer]:  # noqa: ARG002
        """Answer as a small OpenAI-compatible server would: chat completions and the list of models."""
        match request.method, request.path.partition("?")[0]:
            case "POST", "/chat/completions":
                yield self._completion(orjson.loads(request.body))
            case "GET", "/models":
                model = {"id": self.target.model, "object": "model", "created": 0, "owned_by": "stepguard"}
                yield _json(200, {"object": "list", "data": [model]})
            case _:
                error = {"message": f"a scripted upstream has no {request.path}", "type": "not_found_error"}
                yield _json(404, {"error": {**error, "param": None, "code": "not_found"}})

    def _next(self) -> Reply:
        reply = self._script.replies[self._played % len(self._script.replies)]
        self._played += 1
        return reply

    def _completion(self, body: dict[str, Any]) -> PassageAnswer:
        reply = self._next()
        spoken = _with_nonce(reply.text, body["messages"])
        envelope = Envelope(id=f"chatcmpl-scripted-{self._played}", model=self.target.model, created=0)
        if body.get("stream"):
            headers = (("content-type", "text/event-stream"),)
            return PassageAnswer(status=200, headers=headers, body=_events(reply, spoken, envelope))
        answer = envelope.completion(spoken, finish_reason=reply.finish_reason or "stop")
        return PassageAnswer(status=200, headers=(("content-type", "application/json"),), body=_once(answer))


async def _pieces(reply: Reply, text: str) -> AsyncIterator[str]:
    end = len(text) if reply.fail is None else min(len(text), reply.fail.after)
    for start in range(0, end, reply.chunk):
        await asyncio.sleep(reply.delay_s)
        yield text[start : min(start + reply.chunk, end)]
    if reply.fail is not None:
        raise reply.fail.error()


async def _events(reply: Reply, text: str, envelope: Envelope) -> AsyncIterator[bytes]:
    yield sse.encode(envelope.role())
    async for piece in _pieces(reply, text):
        yield sse.encode(envelope.content(piece))
    yield sse.encode(envelope.finish(reply.finish_reason or "stop"))
    yield sse.encode(sse.DONE)


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _json(status: int, body: dict[str, Any]) -> PassageAnswer:
    headers = (("content-type", "application/json"),)
    return PassageAnswer(status=status, headers=headers, body=_once(orjson.dumps(body)))


def _with_nonce(text: str, messages: Sequence[Message]) -> str:
    """The text with the nonce that the prompt names last."""
    named = [nonce for message in messages for nonce in _BEGIN.findall(text_of(message))]
    return text.replace(NONCE, named[-1]) if named else text

"""The whole endpoint on loopback, in one event loop with the servers behind it and the clients before it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent
from typing import Any, Final, TypeVar

import openai
import yaml

from guard.config import Service, build, load_config
from guard.config.procedures import shipped
from guard.proxy.app import Addresses, serve
from tests.upstream.servers import HANGS_S, Connection, Server, serving

T = TypeVar("T")

CHAIN = """\
1 s1 = 2 + 3 = 5
2 s2 = 5 * 3 = 15
3 s3 = 15 - 2 = 13
4 s4 = 13 + 5 = 18
5 s5 = 18 - 3 = 15
6 if 15 > 100 = false
7.1 s6 = 15 + 15 = 30
8 s7 = 30 + 13 = 43
9 return 43 - 5 = 38
"""
TRACE = "@begin chain {nonce}\n" + CHAIN + "@end {nonce}\n"
WRONG = TRACE.replace("= 13 + 5 = 18", "= 13 + 5 = 19")  # in step 4
INPUTS = {"a": 2, "b": 3}
ASK: dict[str, Any] = {
    "model": "chain",
    "messages": [{"role": "user", "content": "Please."}],
    "extra_body": {"stepguard": {"inputs": INPUTS}},
}
BODY: dict[str, Any] = {"model": "chain", "messages": ASK["messages"], "stepguard": {"inputs": INPUTS}}
NAMED = {"chain", "invoice", "retail_cancel"}
PORTS = "server: {port: 0}\nadmin: {port: 0}\n"
BOUND = "routes: [{model: chain, procedure: chain}]\n"
PASSING = f"{BOUND}defaults: {{unbound: pass}}\n"  # what no route binds passes


def scripted(
    folder: Path,
    *replies: str | dict[str, Any],
    config: str = BOUND,
    server: str = PORTS,
    upstreams: dict[str, Any] | None = None,
    prefill: bool = True,
) -> Service:
    """A service whose upstream `play` plays these replies."""
    texts = [{"text": one} if isinstance(one, str) else one for one in replies]
    script = {"prefill": prefill, "replies": texts}
    (folder / "script.yaml").write_text(yaml.safe_dump(script))
    plays = {"play": {"kind": "scripted", "file": "script.yaml"}}
    text = yaml.safe_dump({"upstreams": plays | (upstreams or {})})
    return configured(folder, f"{server}{text}{dedent(config)}")


BRIEF: Final = {"connect_s": 0.3, "first_s": 0.5, "idle_s": 0.3}


def behind(folder: Path, url: str, *, config: str = BOUND, server: str = PORTS, **settings: Any) -> Service:
    """A service before a server at `url`, whom it waits for as long as a test may take.

    A test of a server that falls silent says how soon that is noticed (`BRIEF`).
    """
    upstream = {
        "kind": "generic",
        "base_url": url,
        "model": "m",
        "connect_s": HANGS_S,
        "first_s": HANGS_S,
        "idle_s": HANGS_S,
    }
    text = yaml.safe_dump({"upstreams": {"main": upstream | settings}})
    return configured(folder, f"{server}{text}{dedent(config)}")


def configured(folder: Path, text: str) -> Service:
    """A service as a file describes it. Of the shipped procedures it has those that tests of the endpoint name.

    Each procedure has some hundred series of metrics, which a service makes and renders whole.
    """
    (folder / "stepguard.yaml").write_text(text)
    config = load_config(folder / "stepguard.yaml")
    if config.procedures is None:
        named = NAMED | {route.procedure or "" for route in config.routes}
        config.__dict__["programs"] = {name: shipped()[name] for name in named & shipped().keys()}
    return build(config, {})


def policy(settings: str) -> str:
    """The route for the chain, under a policy with these settings."""
    return f"{BOUND}policies:\n  default:\n{indent(dedent(settings), '    ')}\n"


@dataclass
class Endpoint:
    """A running service. `stop` asks it to stop, `ended` is done when it has."""

    service: Service
    addresses: Addresses
    stop: asyncio.Event
    ended: asyncio.Task[None]

    @property
    def base_url(self) -> str:
        return f"{self.addresses.client}/v1"

    def client(self, path: str = "/v1", **settings: Any) -> openai.AsyncOpenAI:
        known: dict[str, Any] = {"api_key": "none", "max_retries": 0, "timeout": 10}
        return openai.AsyncOpenAI(base_url=self.addresses.client + path, **known | settings)

    async def post(
        self, body: object = None, *, path: str = "/v1/chat/completions", method: str = "POST", **headers: str
    ) -> Reply:
        """One raw request on a connection of its own."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        reader, writer = await self.connect()
        try:
            writer.write(request(data, path=path, method=method, **headers))
            return Reply(*(await read_reply(reader)))
        finally:
            writer.close()

    async def connect(self, url: str | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = (url or self.addresses.client).removeprefix("http://").rsplit(":", 1)
        return await asyncio.open_connection(host, int(port))

    async def admin(self, path: str) -> Reply:
        reader, writer = await self.connect(self.addresses.admin)
        try:
            writer.write(request(b"", path=path, method="GET"))
            return Reply(*(await read_reply(reader)))
        finally:
            writer.close()

    async def counted(self, series: str) -> float:
        """The value of a series in a scrape, 0 where it is not there."""
        text = (await self.admin("/metrics")).body.decode()
        found = re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0


@dataclass(frozen=True)
class Reply:
    """An answer, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def report(self) -> dict[str, Any]:
        """What an answer in one piece tells of its run."""
        report: dict[str, Any] = self.json["stepguard"]
        return report

    @property
    def error(self) -> dict[str, Any]:
        """The error object, after a look at its shape."""
        error: dict[str, Any] = self.json["error"]
        assert {"message", "type", "param", "code"} == error.keys()
        return error

    @property
    def events(self) -> list[Any]:
        """The events of a stream; `[DONE]` must be the last and is left out."""
        blocks = self.body.decode().split("\n\n")
        assert blocks.pop() == ""
        datas = [block.removeprefix("data: ") for block in blocks if not block.startswith(":")]
        assert datas.pop() == "[DONE]"
        return [json.loads(data) for data in datas]


def request(
    data: bytes, *, path: str = "/v1/chat/completions", method: str = "POST", **headers: str
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: test", "Content-Type: application/json"]
    lines.append(f"Content-Length: {len(data)}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + data


async def read_reply(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    status, headers = await read_head(reader)
    return status, headers, await read_body(reader, headers)


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    pairs = (line.split(": ", 1) for line in head[1:] if line)
    return int(head[0].split()[1]), {name.lower(): value for name, value in pairs}


async def read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding") == "chunked":
        return b"".join([piece async for piece in read_chunks(reader)])
    return await reader.readexactly(int(headers.get("content-length", "0")))


async def read_chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int(await reader.readuntil(b"\r\n"), 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)


@asynccontextmanager
async def running(service: Service) -> AsyncIterator[Endpoint]:
    stop = asyncio.Event()
    ready: asyncio.Future[Addresses] = asyncio.get_running_loop().create_future()
    ended = asyncio.create_task(serve(service, ready=ready.set_result, stop=stop))
    started: list[asyncio.Future[Any]] = [ended, ready]
    await asyncio.wait(started, return_when=asyncio.FIRST_COMPLETED)
    try:
        if not ended.done():
            yield Endpoint(service, await ready, stop, ended)
    finally:
        stop.set()
        await ended


@asynccontextmanager
async def before(
    folder: Path, behave: Callable[[Connection], Awaitable[None]], **settings: Any
) -> AsyncIterator[tuple[Endpoint, Server]]:
    """An endpoint in front of a server that treats every connection the same way."""
    async with serving(behave) as server, running(behind(folder, server.url, **settings)) as endpoint:
        yield endpoint, server


def run(body: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(body, HANGS_S))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 (of whatever kind it is)
        await asyncio.sleep(0.01)


def nonce_in(connection: Connection) -> str:
    """The nonce that the request named last."""
    nonces: list[str] = re.findall(r"@begin \S+ ([0-9a-f]{6})", connection.body.decode())
    return nonces[-1]

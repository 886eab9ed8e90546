"""How long one request keeps a server from all others: `python -m tests.benchmarks.lag [WORD...]`.

A server in a process of its own is asked for its health again and again by another process, while it is sent
the worst that a client may send, and reads the worst that an upstream may answer, within the default limits.
Two figures each: the longest that health was waited for, which other programs lengthen, and the most
processor time that the server spent between two turns of a task that asks for one every millisecond. Words
pick the cases with one of them in their names.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep, thread_time
from typing import Any, Final

import uvloop

from guard.config import Config, build, load_config
from guard.procedure.execute import reference
from guard.procedure.values import json_text
from guard.proxy.app import Addresses, serve, settle
from guard.trace import render
from guard.wire.chat import Envelope
from guard.wire.sse import DONE, encode
from tests.proxy.running import read_reply, request
from tests.upstream.servers import STREAM_HEAD, Connection, chunked, serving

TURN_S: Final = 0.001
SETTLE_S: Final = 0.3
HEALTH: Final = request(b"", path="/healthz", method="GET")
FRAME: Final = re.compile(r"@begin (\w+) ([0-9a-f]{6})")
KINDS: Final = ("generic", "llama.cpp", "vllm", "openai")
PROCEDURES: Final = """\
record Line { qty: int, price: decimal }

procedure short(a: int) -> int
  b = a + 1
  c = b * 2
  return c - a

procedure pairs(xs: list of int) -> int
  n = 0
  for x in xs at most 500
    for y in xs at most 500
      n = n + x * y
  return n

procedure total(lines: list of Line) -> decimal
  return sum(l.qty * l.price for l in lines)

procedure found(note: text) -> int
  extract n: int from note quote
  return n * 2
"""
ENVELOPE: Final = Envelope(id="chatcmpl-1", model="m", created=0)


@dataclass(frozen=True)
class Case:
    """What is sent, and what an upstream answers: bytes, given the opening and the closing line."""

    name: str
    body: bytes
    answer: Callable[[str, str], bytes]


@dataclass(frozen=True)
class Lag:
    """What a case costs: the most that the server worked in one piece, and that its health was waited for."""

    name: str
    came: str
    worked_s: float
    waited_s: float


# --- what is sent and answered -------------------------------------------------------------------


def said(*texts: str, reason: str = "stop") -> bytes:
    """An answer as a stream, an event for each text."""
    events = [*map(encode, map(ENVELOPE.content, texts)), encode(ENVELOPE.finish(reason)), encode(DONE)]
    return STREAM_HEAD + b"".join(map(chunked, events)) + b"0\r\n\r\n"


def wrong(_begin: str, _end: str) -> bytes:
    return said("I do not know.\n")


def asked(
    procedure: str, inputs: object, *, message: str = "Go.", model: str = "generic", **more: Any
) -> bytes:
    control = {"procedure": procedure, "inputs": inputs, **more.pop("control", {})}
    messages = more.pop("messages", [{"role": "user", "content": message}])
    return json.dumps({"model": model, "messages": messages, "stepguard": control, **more}).encode()


def bodies() -> Iterator[tuple[str, bytes]]:
    """Requests that cost the most within the limits, or just beyond them."""
    yield "one message of 3.9 MB", asked("short", {"a": 1}, message="word, " * 650_000)
    for policy in ("watched", "off"):
        yield (
            f"one message of 3.9 MB, policy {policy}",
            asked("short", {"a": 1}, message="word, " * 650_000, control={"policy": policy}),
        )
        yield (
            f"quotation marks, policy {policy}",
            asked("short", {"a": 1}, message='"' * 1_900_000, control={"policy": policy}),
        )
    yield "quotation marks", asked("short", {"a": 1}, message='"' * 1_900_000)
    yield "a source of 3.9 MB", asked("found", {}, message="word, " * 650_000)
    yield "a source of 200,000 characters", asked("found", {}, message="word, " * 33_000)
    yield "a source of 198 kB in the inputs", asked("found", {"note": "some words " * 18_000})
    yield "a source beyond the first plane", asked("found", {"note": "\U00012000\U0001d165" * 99_000})
    yield "a source of combining marks", asked("found", {"note": "a" + "\u0301" * 60_000 + "\u0316" * 60_000})
    yield "a source of escapes", asked("found", {"note": "\u00e4" * 199_000})
    yield "2,900 parts of inputs", asked("total", {"lines": [{"qty": 1, "price": 1.25}] * 960})
    yield "too many parts of inputs", asked("total", {"lines": [{"qty": 1, "price": 1.25}] * 90_000})
    yield "965 steps", asked("pairs", {"xs": [1] * 30})
    yield "965 steps, all by the guard", asked("pairs", {"xs": [1] * 30}, control={"policy": "computed"})
    yield (
        "the same as a stream",
        asked("pairs", {"xs": [1] * 30}, stream=True, control={"policy": "computed"}),
    )
    yield "too many steps", asked("pairs", {"xs": [1] * 400})
    yield "4,900 empty messages", asked("short", {"a": 1}, messages=[{"role": "user", "content": ""}] * 4_900)
    yield "7,400 lists", asked("short", {"a": 1}, vendor=[[]] * 7_400)
    yield "14,900 strings", asked("short", {"a": 1}, vendor=[""] * 14_900)
    yield "14,000 numbers", asked("short", {"a": 1}, vendor=[1.5] * 14_000)
    yield "700,000 numbers", asked("short", {"a": 1}, vendor=[1.5] * 700_000)
    yield "brackets that never close", b'{"a": ' + b"[" * 3_900_000
    yield (
        "a number of a megabyte",
        b'{"model": "m", "stepguard": {"inputs": {"a": ' + b"1" * 1_000_000 + b"}}}",
    )


def answers() -> Iterator[tuple[str, Callable[[str, str], bytes]]]:
    """Answers that cost the most to read."""
    yield "1 MB of short lines in one event", lambda _b, _e: said("ab\n" * 330_000)
    yield "1 MB of blank lines", lambda b, _e: said(b + "\n" + "\n" * 900_000)
    yield "1 MB of thoughts", lambda _b, _e: said("<think>" + "ab\n" * 300_000)
    yield "1 MB of tags", lambda _b, _e: said("<think>\n</think>\n" * 55_000)
    yield "1 MB of digits", lambda b, _e: said(f"{b}\n1 b = " + "1" * 900_000)
    yield "1 MB of braces", lambda _b, _e: said("{" * 900_000)
    yield (
        "members of an object",
        lambda _b, _e: said(json.dumps({f"{i} x = ": "\\u0041" * 9 for i in range(18_000)})),
    )
    yield "quotes", lambda b, _e: said(f"{b}\n1 n = 5" + ' <- "ab"' * 1_900 + "\n")
    yield "a line of equations", lambda _b, _e: said("1+1=2 " * 2_600 + "\n")
    yield "a line of names", lambda _b, _e: said("b = " * 4_000 + "\n")
    yield "400,000 events", lambda _b, _e: said(*["a"] * 20_000)
    yield (
        "an error of nested objects",
        lambda _b, _e: _json(b'{"error":' + b'{"a":' * 255 + b"1" + b"}" * 256),
    )
    yield (
        "an error body of 2 MB",
        lambda _b, _e: _json(b'{"error":{"message":"' + b"x" * 2_000_000 + b'"}}', 500),
    )
    yield "a whole answer of 1.9 MB", lambda _b, _e: _json(ENVELOPE.completion("ab\n" * 600_000))
    yield "a web page", lambda _b, _e: _json(b"<html>" + b"<br>" * 400_000)


def _json(body: bytes, status: int = 200) -> bytes:
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def quoting() -> Iterator[Case]:
    """Answers that quote a long source, rightly or not."""
    sources = {
        "words": "word 5, " * 24_900,
        "numbers": "5 " * 99_000,
        "no end of a word": "\u6f22\u5b57" * 99_000,
    }
    for name, source in sources.items():
        for length, quote in (("short", "5"), ("long", source[:15_000].strip()), ("absent", "zz 9")):
            text = f'1 n = 7 <- "{quote}"\n'
            yield Case(f"{length} quote of {name}", asked("found", {"note": source}), _framed(text))


def shipped() -> Iterator[Case]:
    """Every shipped procedure on its example: written faithfully, as whole words and as one piece, and wrong."""
    for name, program in Config().bindable.items():
        inputs, decisions = program.example_inputs, program.example_decisions
        if inputs is None or decisions is None or program.example is None:
            continue
        steps, _ = reference(program, inputs, decisions)
        lines = "".join(f"{render.line(step, value)}\n" for step, value in steps)
        types = {parameter.name: parameter.type for parameter in program.parameters}
        given = {key: json.loads(json_text(value, types[key])) for key, value in inputs.items()}
        body = asked(name, given, stream=True)
        yield Case(f"{name}, faithful", body, _framed(lines))
        yield Case(f"{name}, wrong", body, wrong)


def _framed(lines: str) -> Callable[[str, str], bytes]:
    return lambda begin, end: said(f"{begin}\n{lines}{end}\n")


# --- the three processes ---------------------------------------------------------------------------


def _config(url: str) -> str:
    upstreams = {
        kind: {"kind": kind, "base_url": url, "model": "m", "first_s": 20, "breaker": "off"} for kind in KINDS
    }
    settings = {
        "procedures": ["p.proc", str(files("guard.examples"))],
        "upstreams": upstreams,
        "policies": {
            "computed": {"compute": "guard"},
            "watched": {"mode": "observe"},
            "off": {"mode": "off"},
            "free": {"tolerant": True},
        },
        "routes": [{"model": kind, "upstream": kind, "override": True} for kind in KINDS],
    }
    return json.dumps({"server": {"port": 0}, "admin": {"port": 0}, **settings})


def _write(folder: Path, url: str) -> None:
    (folder / "p.proc").write_text(PROCEDURES)
    (folder / "c.yaml").write_text(_config(url))


def _server(folder: str, pipe: Pipe) -> None:
    """Serve until told to stop; say the most processor time between two turns whenever asked."""
    longest = [0.0]
    service = build(load_config(Path(folder) / "c.yaml", {}), {})
    settle()

    async def watch() -> None:
        while True:
            before = thread_time()
            await asyncio.sleep(TURN_S)
            longest[0] = max(longest[0], thread_time() - before)

    async def main() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()

        def heard() -> None:
            try:
                told = pipe.recv()
            except EOFError:  # nobody is there any more
                told = "stop"
            if told == "stop":
                loop.remove_reader(pipe.fileno())
                stop.set()
            else:
                pipe.send(longest[0])
                longest[0] = 0.0

        def ready(addresses: Addresses) -> None:
            loop.add_reader(pipe.fileno(), heard)
            pipe.send((addresses.client, addresses.admin))

        watching = asyncio.create_task(watch())
        await serve(service, ready=ready, stop=stop)
        watching.cancel()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def _prober(address: str, pipe: Pipe) -> None:
    """Ask for the health all the time; say the longest that it was waited for whenever asked."""
    host, port = address.removeprefix("http://").rsplit(":", 1)
    longest = 0.0
    with socket.create_connection((host, int(port))) as connection:
        while True:
            before = perf_counter()
            connection.sendall(HEALTH)
            connection.recv(4096)
            longest = max(longest, perf_counter() - before)
            if pipe.poll():
                if pipe.recv() == "stop":
                    return
                pipe.send(longest)
                longest = 0.0
            sleep(2 * TURN_S)


async def _ask(client: str, body: bytes) -> str:
    host, port = client.removeprefix("http://").rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port), limit=2**24)
    writer.write(request(body))
    try:
        async with asyncio.timeout(60):
            status, _, answer = await read_reply(reader)
    except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
        return type(error).__name__
    finally:
        writer.close()
    found = re.search(rb'"outcome":"(\\w+)"|"code":"(\\w+)"', answer)
    return f"{status} {(found[1] or found[2]).decode() if found else ''}"


def cases() -> Iterator[Case]:
    """All of them: each request by itself, each answer from each kind of server, each shipped procedure."""
    for name, body in bodies():
        yield Case(name, body, wrong)
    yield from quoting()
    yield from shipped()
    for name, answer in answers():
        for kind in KINDS:
            for policy in ("default", "free", "watched"):
                body = asked("short", {"a": 1}, stream=True, model=kind, control={"policy": policy})
                yield Case(f"{name}, from {kind}, policy {policy}", body, answer)


async def measure(folder: str, chosen: Iterable[Case]) -> AsyncIterator[Lag]:
    """Give what each case costs a server that has its configuration in a folder."""
    current: list[Callable[[str, str], bytes]] = [wrong]

    async def behave(connection: Connection) -> None:
        while True:
            await connection.request()
            frame = FRAME.search(connection.body.decode())
            name, nonce = frame.groups() if frame else ("none", "000000")
            connection.writer.write(current[0](f"@begin {name} {nonce}", f"@end {nonce}"))

    spawn = get_context("spawn")
    (ours, theirs), (probes, probed) = spawn.Pipe(), spawn.Pipe()
    async with serving(behave) as upstream:
        _write(Path(folder), upstream.url)
        server = spawn.Process(target=_server, args=(folder, theirs), daemon=True)
        server.start()
        client, admin = await asyncio.to_thread(ours.recv)
        prober = spawn.Process(target=_prober, args=(admin, probed), daemon=True)
        prober.start()
        for case in chosen:
            current[0] = case.answer
            for pipe in (ours, probes):
                pipe.send("reset")
                await asyncio.to_thread(pipe.recv)
            came = await _ask(client, case.body)
            await asyncio.sleep(SETTLE_S)
            for pipe in (ours, probes):
                pipe.send("tell")
            worked, waited = await asyncio.to_thread(ours.recv), await asyncio.to_thread(probes.recv)
            yield Lag(case.name, came, worked_s=worked, waited_s=waited)
        for pipe in (ours, probes):
            pipe.send("stop")
        await asyncio.to_thread(server.join)
        await asyncio.to_thread(prober.join)


async def show(folder: str, words: Sequence[str]) -> None:
    """Print what each case costs; of all where no word of their names is given."""
    worst = Lag("none", "", worked_s=0.0, waited_s=0.0)
    chosen = (case for case in cases() if not words or any(word in case.name for word in words))
    async for lag in measure(folder, chosen):
        worst = max(worst, lag, key=lambda one: one.worked_s)
        sys.stdout.write(
            f"{lag.worked_s * 1e3:6.1f} ms of work, {lag.waited_s * 1e3:6.1f} ms waited: {lag.name} ({lag.came})\n"
        )
        sys.stdout.flush()
    sys.stdout.write(f"at most {worst.worked_s * 1e3:.1f} ms of work in one piece: {worst.name}\n")


def main() -> None:
    """Print what is measured."""
    with TemporaryDirectory() as folder:
        asyncio.run(show(folder, sys.argv[1:]))


if __name__ == "__main__":
    main()

"""What observing costs those who are observed: `python -m tests.benchmarks.observing`.

Machines differ, so a request in mode `observe` is compared with the same request in mode `off`, which passes
through and is not looked at: in the same process, in turn, at the same server on the loopback.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter

import orjson
import uvloop

from guard.wire.chat import Envelope
from guard.wire.sse import DONE, encode
from tests.benchmarks.checking import STEPS, chain, cut, source, traced
from tests.proxy.running import Endpoint, behind, read_reply, request, running
from tests.upstream.servers import STREAM_HEAD, Connection, chunked, serving, whole

MODES = ("off", "observe")
PAUSE_S = 0.01  # behind a request, in which it is looked at: the next one is not to pay for that
CONFIG = """
procedures: [chain.proc]
routes: [{model: chain, procedure: chain, mode: "off", modes: [observe]}]
"""


@dataclass(frozen=True)
class Case:
    """An answer, and how often it is asked for in each mode."""

    name: str
    stream: bool
    answer: bytes
    rounds: int


def cases(text: str) -> list[Case]:
    """The same trace in one piece and as a stream."""
    envelope = Envelope(id="chatcmpl-1", model="m", created=0)
    events = [
        *map(encode, map(envelope.content, cut(text, 4))),
        encode(envelope.finish("stop")),
        encode(DONE),
    ]
    streamed = STREAM_HEAD + b"".join(map(chunked, events)) + b"0\r\n\r\n"
    return [
        Case("in one piece", False, whole("200 OK", envelope.completion(text)), 600),
        Case(f"a stream of {len(events)} events", True, streamed, 200),
    ]


@asynccontextmanager
async def endpoint(folder: Path, answer: bytes) -> AsyncIterator[Endpoint]:
    """An endpoint in front of a server that always gives one answer."""

    async def behave(connection: Connection) -> None:
        while True:
            await connection.request()
            connection.writer.write(answer)

    async with serving(behave) as server, running(behind(folder, server.url, config=CONFIG)) as one:
        yield one


async def latencies(one: Endpoint, case: Case) -> dict[str, list[float]]:
    """Seconds from request to the end of its answer, by mode, in turn."""
    reader, writer = await one.connect()
    found: dict[str, list[float]] = {mode: [] for mode in MODES}
    for number in range(case.rounds + 10):
        for mode in MODES:
            control = {"mode": mode, "inputs": {"s0": 6}}
            body = {"model": "chain", "messages": [], "stream": case.stream, "stepguard": control}
            before = perf_counter()
            writer.write(request(orjson.dumps(body)))
            await read_reply(reader)
            found[mode] += [perf_counter() - before] if number >= 10 else []
            await asyncio.sleep(PAUSE_S)
    writer.close()
    return found


async def throughput(one: Endpoint, case: Case, mode: str, clients: int = 8) -> float:
    """Answers a second for some clients at once, until all that was observed was also looked at."""

    async def ask() -> None:
        reader, writer = await one.connect()
        control = {"mode": mode, "inputs": {"s0": 6}}
        body = {"model": "chain", "messages": [], "stream": case.stream, "stepguard": control}
        for _ in range(case.rounds // clients):
            writer.write(request(orjson.dumps(body)))
            await read_reply(reader)
        writer.close()

    before = perf_counter()
    await asyncio.gather(*(ask() for _ in range(clients)))
    return case.rounds / (perf_counter() - before)


async def compare(case: Case, procedure: str) -> list[str]:
    """Give what is measured of one case, in lines."""
    with TemporaryDirectory() as name:
        (Path(name) / "chain.proc").write_text(procedure)
        async with endpoint(Path(name), case.answer) as one:
            found = await latencies(one, case)
            busy = {mode: await throughput(one, case, mode) for mode in MODES}
            await asyncio.sleep(2)
            passed = await one.counted('stepguard_observed_total{procedure="chain",result="passed"}')
    off, observed = (sorted(found[mode]) for mode in MODES)
    tails = [quantiles(values, n=100)[98] for values in (off, observed)]
    one_client = (
        f"off {median(off) * 1e3:.2f} ms, observed {median(observed) * 1e3:.2f} ms, "
        f"ratio {median(observed) / median(off):.2f}; p99 {tails[0] * 1e3:.2f} and {tails[1] * 1e3:.2f} ms"
    )
    eight = f"off {busy['off']:.0f}, observed {busy['observe']:.0f} answers/s; {passed:.0f} looked at in all"
    return [f"{case.name}, one client: {one_client}", f"{case.name}, eight clients: {eight}"]


def main() -> None:
    """Print what is measured."""
    program, inputs = chain(STEPS)
    for case in cases(traced(program, inputs)):
        for line in uvloop.run(compare(case, source(STEPS))):
            sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()

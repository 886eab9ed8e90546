"""The local upstream: the real runtime with the real default model, and its processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from guard.dialect.notation import Dialect
from guard.errors import ConfigError, UpstreamConnectError, UpstreamStatusError
from guard.foreign import Sink
from guard.run.messages import Ended, Text
from guard.upstream.base import Passage
from guard.upstream.capabilities import Place
from guard.upstream.http import HttpUpstream
from guard.upstream.local import LocalUpstream, require_runtime
from guard.upstream.model import resolve
from tests.upstream.servers import HANGS_S, Call, opening, text_in

CALL = Call()
PREFIX = "1 part = 2 + 3 ="
NUMBER = 'root ::= " " [0-9]{1,4} "\\n"'
ENDLESS = 'root ::= "x"+'


@asynccontextmanager
async def local(model: Path | None = None, **settings: Any) -> AsyncIterator[LocalUpstream]:
    upstream = LocalUpstream("local", model or resolve(), **{"threads": 1, "context": 2048} | settings)
    try:
        yield upstream
    finally:
        await upstream.close()


def with_model(body: Callable[[LocalUpstream], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        async with local() as upstream:
            await body(upstream)

    asyncio.run(asyncio.wait_for(whole(), 60))


def alive(pid: int) -> bool:
    """Whether a process runs; a dead one that nobody has waited for does not count."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def gone_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 (processes raise no events)
        await asyncio.sleep(0.001)


@pytest.mark.local
def test_a_prefix_is_continued_under_a_grammar_without_echo() -> None:
    async def body(upstream: LocalUpstream) -> None:
        assert upstream.target.prefill
        assert upstream.target.dialect == "gbnf"
        command = opening(prefix=PREFIX, grammar=NUMBER, model="")
        heard = [piece async for piece in upstream.stream(command, client=CALL)]
        text = text_in(heard)
        assert text.startswith(" ")
        assert text.endswith("\n")
        assert text.strip().isdigit()
        end = heard[-1]
        assert isinstance(end, Ended)
        assert end.finish_reason == "stop"
        assert end.usage is not None
        assert not end.usage.estimated
        tokens = sum(piece.tokens for piece in heard if isinstance(piece, Text))
        assert end.usage.completion - tokens in {0, 1}  # the server counts the end token as well

    with_model(body)


@pytest.mark.local
def test_what_is_expected_to_be_wrong_is_answered_clearly() -> None:
    async def body(upstream: LocalUpstream) -> None:
        bad_grammar = opening(grammar="root ::= nothing")
        too_long = opening(messages=({"role": "user", "content": "a b c d " * 5000},))
        for command in (bad_grammar, too_long):
            with pytest.raises(UpstreamStatusError) as caught:
                await anext(upstream.stream(command, client=CALL))
            assert caught.value.upstream_status == 400
            assert not caught.value.retryable
        assert "context" in Sink().shown(caught.value.said.text)

    with_model(body)


@pytest.mark.local
def test_streams_follow_each_other_and_run_side_by_side() -> None:
    async def body(upstream: LocalUpstream) -> None:
        async def once() -> str:
            command = opening(grammar='root ::= "a"{8}')
            return text_in([piece async for piece in upstream.stream(command, client=CALL)])

        for _ in range(5):
            assert await once() == "aaaaaaaa"
        assert await asyncio.gather(*(once() for _ in range(5))) == ["aaaaaaaa"] * 5

    with_model(body)


@pytest.mark.local
def test_a_cut_frees_the_model_at_once() -> None:
    async def body(upstream: LocalUpstream) -> None:
        clock = asyncio.get_running_loop().time
        for _ in range(4):  # more than there are slots: a generation that went on would block them
            async with aclosing(
                upstream.stream(opening(grammar=ENDLESS, max_tokens=2000), client=CALL)
            ) as stream:
                await anext(stream)
                await anext(stream)
        began = clock()
        command = opening(grammar='root ::= "b"')
        assert text_in([piece async for piece in upstream.stream(command, client=CALL)]) == "b"
        assert clock() - began < 5

    with_model(body)


@pytest.mark.local
def test_requests_can_be_passed_on_to_it() -> None:
    async def body(upstream: LocalUpstream) -> None:
        request = Passage(method="GET", path="/models", headers=(), body=b"")
        async with upstream.forward(request, client=CALL) as answer:
            assert answer.status == 200
            told = b"".join([data async for data in answer.body])
        assert json.loads(told)["data"][0]["id"] == resolve().stem
        assert str(resolve().parent).encode() not in told, "where it is kept is nobody's business"

    with_model(body)


@pytest.mark.local
def test_others_on_the_machine_are_not_served() -> None:
    async def body(upstream: LocalUpstream) -> None:
        await upstream.start()
        assert upstream._server is not None
        stranger = HttpUpstream("stranger", upstream._server._base, kind="llama.cpp", api_key="guess")
        with pytest.raises(UpstreamStatusError, match="it answered 401"):
            await anext(stranger.stream(opening(), client=CALL))
        await stranger.close()

    with_model(body)


@pytest.mark.local
def test_it_starts_once_and_again_where_it_has_died() -> None:
    async def body(upstream: LocalUpstream) -> None:
        await asyncio.gather(upstream.start(), upstream.start())
        first = upstream.pid
        assert first is not None
        await upstream.start()
        assert upstream.pid == first
        os.kill(first, signal.SIGKILL)
        await until(lambda: upstream.pid is None)
        command = opening(grammar='root ::= "b"')
        assert text_in([piece async for piece in upstream.stream(command, client=CALL)]) == "b"
        assert upstream.pid not in {None, first}

    with_model(body)


@pytest.mark.local
def test_closing_ends_the_child_also_in_the_middle_of_an_answer() -> None:
    async def body() -> None:
        async with local() as upstream:
            stream = upstream.stream(opening(grammar=ENDLESS, max_tokens=2000), client=CALL)
            await anext(stream)
            pid = upstream.pid
            assert pid is not None
            await upstream.close()
            assert not alive(pid)
            assert upstream.pid is None
            await stream.aclose()
            await upstream.close()

    asyncio.run(body())


@pytest.mark.local
def test_the_child_leaves_signals_to_its_parent() -> None:
    async def body(upstream: LocalUpstream) -> None:
        await upstream.start()
        pid = upstream.pid
        assert pid is not None
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(pid, number)
        command = opening(grammar='root ::= "b"')
        assert text_in([piece async for piece in upstream.stream(command, client=CALL)]) == "b"
        assert upstream.pid == pid

    with_model(body)


PARENT = """
import asyncio, sys
from pathlib import Path
from guard.upstream.http import HttpUpstream
from guard.upstream.local import LocalUpstream

async def main():
    upstream = LocalUpstream("local", Path(sys.argv[1]), threads=1, context=2048)
    await upstream.start()
    print(upstream.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.local
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_no_orphan_is_left_however_the_parent_ends(number: signal.Signals) -> None:
    command = [sys.executable, "-c", PARENT, str(resolve())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.send_signal(number)
        parent.wait(10)
    assert gone_within(child, HANGS_S)


@pytest.mark.local
def test_a_start_that_is_given_up_leaves_no_child() -> None:
    async def body() -> int:
        async with local() as upstream:
            starting = asyncio.create_task(upstream.start())
            await until(lambda: upstream.pid is not None)
            pid = upstream.pid
            assert pid is not None
            starting.cancel()
            await asyncio.wait([starting])
            return pid

    assert gone_within(asyncio.run(body()), HANGS_S)


@pytest.mark.local
def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + b"\0" * 100)

    async def body() -> None:
        async with local(path) as upstream:
            await upstream.start()

    with pytest.raises(UpstreamConnectError, match=r"the local model did not start: broken.gguf") as caught:
        asyncio.run(body())
    assert "gguf_init_from" in Sink().shown(caught.value.said.text)


def test_without_the_runtime_it_says_how_to_install_it() -> None:
    code = "import sys; sys.modules['xllamacpp'] = None\nfrom guard.upstream.local import require_runtime\nrequire_runtime()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ConfigError" in done.stderr
    assert "pip install 'stepguard[local]'" in done.stderr


@pytest.mark.local
def test_with_the_runtime_there_is_nothing_to_say() -> None:
    try:
        require_runtime()
    except ConfigError as error:  # pragma: no cover
        pytest.fail(str(error))


@pytest.mark.local
def test_lines_that_are_asked_for_as_members_of_an_object_come_back_as_lines() -> None:
    names = ["1 a = 3 + 4 = ", "2 b = 7 * 2 = ", "3 return "]
    number = {"type": "string", "pattern": "^[0-9]{1,4}$"}
    schema = {
        "type": "object",
        "properties": dict.fromkeys(names, number),
        "required": names,
        "additionalProperties": False,
    }

    async def body(upstream: LocalUpstream) -> None:
        child = await upstream._serving()
        held = {"grammar": Place.RESPONSE_FORMAT, "dialect": Dialect.JSON_SCHEMA}
        server = HttpUpstream(
            "main", child._base, kind="llama.cpp", api_key=child._api_key, capabilities=held
        )
        try:
            command = opening(grammar=json.dumps(schema), model="")
            heard = [piece async for piece in server.stream(command, client=CALL)]
        finally:
            await server.close()
        lines = text_in(heard).splitlines(keepends=True)
        for name, line in zip(names, lines, strict=True):
            assert re.fullmatch(re.escape(name) + r"[0-9]{1,4}\n", line)
        assert isinstance(heard[-1], Ended)
        assert heard[-1].finish_reason == "stop"

    with_model(body)

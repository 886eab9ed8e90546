"""`stepguard probe`: what it prints and writes, and what it says where it cannot measure."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from guard.bench.measured import Way
from guard.bench.probe import Plan
from guard.cli import main
from guard.config import load_config
from tests.bench.known import Known, known_server
from tests.upstream.servers import HANGS_S, Connection, in_a_thread, serving

CHAIN = Path(__file__).parent.parent.parent / "examples/quickstart/chain.proc"
CHANCES = {Way.FIRST: 0.9, Way.RETRY: 0.7, Way.SCAFFOLD: 0.95}
RUNS = 3


def configured(folder: Path, url: str, **more: str) -> str:
    keys = {"kind": "llama.cpp", "base_url": url, "model": "m"} | more
    written = ", ".join(f"{key}: {value!r}" for key, value in keys.items())
    file = folder / "stepguard.yaml"
    file.write_text(f"upstreams: {{served: {{{written}}}}}\nprocedures: [{CHAIN}]\n")
    return str(file)


def probe(folder: Path, *arguments: str) -> int:
    return main(["probe", *arguments, "--runs", str(RUNS), "--out", str(folder / "probed.yaml")])


def known(**habits: Any) -> Known:
    return Known(Plan(model="m", runs=RUNS), CHANCES, **habits)


def test_the_picture_is_printed_and_a_policy_written_that_is_a_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with in_a_thread(known_server(known(grammars=True))) as url:
        assert probe(tmp_path, "served", "--config", configured(tmp_path, url), "--steps", "20") == 0
    out = capsys.readouterr().out
    assert out.startswith("model m on upstream served: at most ")
    assert "prefill works, grammar works (a bad one: refused), stream_options works" in out
    for word in ("force: none", "force: operands", "recommended", "attempts_per_step", "extract", "lookup"):
        assert word in out
    assert max(map(len, out.splitlines())) <= 110
    written = (tmp_path / "probed.yaml").read_text()
    (tmp_path / "probed.yaml").write_text(f"{written}procedures: [{CHAIN}]\n")
    assert set(load_config(tmp_path / "probed.yaml").policies) == {"probed"}
    assert "success" in written


def test_the_json_has_all_that_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = known()
    with in_a_thread(known_server(model)) as url:
        config = configured(tmp_path, url, kind="generic")
        assert probe(tmp_path, "--config", config, "--steps", "9", "--json", "--name", "mine") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["upstream"] == "served"
    assert found["abilities"] == {
        "prefill": "works",
        "grammar": "not offered",
        "bad_grammar": "not offered",
        "stream_options": "works",
    }
    steps = found["levels"]["none"]["steps"]
    assert set(steps) == {"assign", "branch", "loop", "lookup", "return", "extract", "judge"}
    assert steps["judge"]["first"]["of"] == RUNS
    assert set(found["policy"]) == {"mine"}
    assert set(found["expected"]["generated_steps"]) == {"mean", "p50", "p95"}
    assert found["requests"] > 6 * RUNS
    assert "  mine:\n" in (tmp_path / "probed.yaml").read_text()


def test_an_upstream_that_is_not_configured_is_a_mistake_in_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert probe(tmp_path, "nobody", "--config", configured(tmp_path, "http://127.0.0.1:9/v1")) == 2
    assert "there is no upstream 'nobody'; there are: served" in capsys.readouterr().err


def test_an_upstream_without_a_model_wants_one_to_be_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configured(tmp_path, "http://127.0.0.1:9/v1", model="")
    assert probe(tmp_path, "--config", config) == 2
    assert "--model: is needed: upstream 'served' names no model" in capsys.readouterr().err
    assert probe(tmp_path, "--config", config, "--model", "m") == 3


def test_a_server_that_is_down_is_said_to_be_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert probe(tmp_path, "served", "--config", configured(tmp_path, "http://127.0.0.1:9/v1")) == 3
    assert "stepguard: upstream 'served': " in capsys.readouterr().err
    assert not (tmp_path / "probed.yaml").exists()


def test_a_file_that_cannot_be_written_is_known_before_anything_is_spent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configured(tmp_path, "http://127.0.0.1:9/v1")
    assert main(["probe", "--config", config, "--out", str(tmp_path / "no/where.yaml")]) == 2
    assert "--out: there is no folder" in capsys.readouterr().err


def test_ctrl_c_ends_it_at_once_and_closes_the_connection(tmp_path: Path) -> None:
    """The server accepts a request and never answers."""

    async def body() -> tuple[int, float]:
        asked = asyncio.Event()

        async def behave(connection: Connection) -> None:
            await connection.request()
            asked.set()
            await connection.until_gone()

        async with serving(behave) as server:
            command = [sys.executable, "-m", "guard", "probe", "--config", configured(tmp_path, server.url)]
            process = await asyncio.create_subprocess_exec(
                *[*command, "--out", str(tmp_path / "probed.yaml")],
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": str(Path.cwd())},
            )
            try:
                await asyncio.wait_for(asked.wait(), HANGS_S)
                process.send_signal(signal.SIGINT)
                stopped = time.monotonic()
                code = await asyncio.wait_for(process.wait(), HANGS_S)
                took = time.monotonic() - stopped
            except TimeoutError:
                process.kill()
                raise
            [connection] = server.connections
            while connection.gone is None:  # noqa: ASYNC110 (it is the server that notes it)
                await asyncio.sleep(0.01)
            return code, took

    code, took = asyncio.run(asyncio.wait_for(body(), 3 * HANGS_S))
    assert code == 130
    assert took < 30
    assert not (tmp_path / "probed.yaml").exists()

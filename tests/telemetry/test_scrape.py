"""What a running endpoint lets Prometheus scrape, after real requests over the loopback."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from guard.config import build, load_config
from guard.procedure.execute import reference
from guard.procedure.load import load
from guard.proxy.app import Addresses, serve
from guard.telemetry.metrics import CONTENT_TYPE, Metrics
from guard.trace import render
from tests import happenings

PROCEDURE = "procedure double(a: int) -> int\n  b = a * 2\n  return b + 1\n"
REQUEST = {
    "model": "m",
    "messages": [{"role": "user", "content": happenings.SECRET}],
    "stepguard": {"procedure": "double", "inputs": {"a": 4}},
}


def configuration(folder: Path) -> Path:
    """An endpoint whose model goes wrong in its first answer and is right from then on."""
    program = load(PROCEDURE, "double").procedures["double"]
    steps, _ = reference(program, {"a": 4}, {})
    right = [render.line(expected) for expected, _ in steps]
    wrong = [right[0].replace("= 8", "= 9"), *right[1:]]
    assert wrong != right
    replies = [
        {"text": "\n".join(["@begin double {nonce}", *lines, "@end {nonce}", ""])} for lines in (wrong, right)
    ]
    (folder / "double.proc").write_text(PROCEDURE)
    (folder / "replies.yaml").write_text(yaml.safe_dump({"replies": replies}))
    settings = {
        "server": {"port": 0},
        "admin": {"port": 0},
        "procedures": ["double.proc"],
        "upstreams": {"main": {"kind": "scripted", "file": "replies.yaml"}},
    }
    (folder / "stepguard.yaml").write_text(yaml.safe_dump(settings))
    return folder / "stepguard.yaml"


async def scraped(file: Path) -> str:
    """Serve, ask one guarded, one malformed and one unbound request, and scrape."""
    service = build(load_config(file), {})
    listening: asyncio.Future[Addresses] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(service, ready=listening.set_result, stop=stop))
    try:
        addresses = await asyncio.wait_for(listening, 20)
        async with aiohttp.ClientSession() as client:
            async with client.post(f"{addresses.client}/v1/chat/completions", json=REQUEST) as answer:
                assert (await answer.json())["choices"][0]["message"]["content"] == "9"
            async with client.post(f"{addresses.client}/v1/chat/completions", data=b"{") as answer:
                assert answer.status == 400
            async with client.get(f"{addresses.client}/v1/models") as answer:
                assert answer.status == 200
            async with client.get(f"{addresses.admin}/metrics") as answer:
                assert answer.headers["content-type"] == CONTENT_TYPE
                return await answer.text()
    finally:
        stop.set()
        await serving


@pytest.fixture(scope="module")
def scrape(tmp_path_factory: pytest.TempPathFactory) -> str:
    return asyncio.run(scraped(configuration(tmp_path_factory.mktemp("endpoint"))))


def shapes(text: str) -> set[tuple[str, tuple[str, ...]]]:
    """The metrics of ours with the names of their labels."""
    return {
        (sample.name, tuple(sorted(sample.labels)))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("stepguard_")
    }


def test_an_endpoint_exports_what_the_dashboard_and_the_manual_are_tested_with(scrape: str) -> None:
    metrics = Metrics({"double": happenings.KINDS.values()}, models=["scripted"], version="1")
    happenings.play_all(metrics)
    assert shapes(scrape) == shapes(metrics.render().decode())


@pytest.mark.parametrize(
    "line",
    [
        'stepguard_requests_total{outcome="accepted_after_retry",procedure="double"} 1.0',
        'stepguard_requests_total{outcome="error",procedure="(none)"} 1.0',
        'stepguard_requests_total{outcome="passthrough",procedure="(none)"} 1.0',
        'stepguard_attempts_total{procedure="double",result="violation",strategy="initial"} 1.0',
        'stepguard_steps_total{mode="enforce",procedure="double",step_kind="return",verdict="verified"} 1.0',
        'stepguard_violations_total{mode="enforce",procedure="double",step_kind="assign",violation="wrong_value"} 1.0',
        'stepguard_time_to_first_step_seconds_count{procedure="double"} 1.0',
        'stepguard_overhead_seconds_count{stage="check"} 1.0',
        'stepguard_overhead_seconds_count{stage="deliver"} 1.0',
    ],
)
def test_what_was_asked_is_counted(scrape: str, line: str) -> None:
    assert line in scrape.splitlines()


def test_nothing_that_was_said_is_in_a_scrape(scrape: str) -> None:
    assert happenings.SECRET not in scrape

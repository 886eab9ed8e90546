"""The `stepguard` object and the client's usage: as the manual has them, and adding up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.proxy.planting import stream, trace
from tests.proxy.running import (
    BODY,
    TRACE,
    WRONG,
    before,
    nonce_in,
    policy,
    run,
    running,
    scripted,
)
from tests.proxy.test_proxy_votes import BEGIN, PROCEDURE, REST
from tests.upstream.servers import Connection

MANUAL: Final = Path(__file__).parents[2] / "deploy" / "README.md"
SOMETIMES: Final = ("violations[]", "votes[]", "race.", "reasoning")  # only where there is such an entry
NUMBERS: Final = ("prompt_tokens", "completion_tokens", "total_tokens")


def told() -> list[str]:
    """The fields that the manual tells of."""
    section = MANUAL.read_text().split("\n## The `stepguard` object\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def fields(value: Any, path: str = "") -> Iterator[str]:
    """All fields of an object, with those of the objects in it."""
    match value:
        case dict():
            for name, inner in value.items():
                field = f"{path}.{name}" if path else name
                yield field
                yield from fields(inner, field)
        case list():
            for inner in value:
                yield from fields(inner, f"{path}[]")
        case _:
            pass


def report_of(
    folder: Path, *replies: str, config: str, stream: bool, prefill: bool = True, **changes: Any
) -> dict[str, Any]:
    """The whole last event, or the whole answer."""

    async def body() -> dict[str, Any]:
        async with running(scripted(folder, *replies, config=config, prefill=prefill)) as endpoint:
            reply = await endpoint.post({**BODY, "stream": stream, **changes})
            last: dict[str, Any] = reply.events[-1] if stream and reply.status == 200 else reply.json
            return last

    return run(body())


def test_the_manual_tells_of_every_field_and_of_no_other(tmp_path: Path) -> None:
    (tmp_path / "pick.proc").write_text(PROCEDURE)
    votes = (
        "procedures: [pick.proc]\nroutes: [{model: pick, procedure: pick}]\npolicies: {default: {votes: {}}}"
    )
    asked: dict[str, Any] = {
        "model": "pick",
        "stepguard": {},
        "messages": [{"role": "user", "content": "Three?"}],
    }
    reports = [
        report_of(tmp_path, TRACE, config=policy("attempts: 1"), stream=True),
        report_of(tmp_path, WRONG, TRACE, config=policy("reveal: true"), stream=False),
        report_of(tmp_path, WRONG, config=policy("reveal: true\nactions: [reject]"), stream=True),
        report_of(tmp_path, WRONG, TRACE, config=policy("race: 2"), stream=False),
        report_of(
            tmp_path,
            f"<think>hm</think>{TRACE}",
            config=policy("reasoning: relay"),
            stream=False,
            prefill=False,
        ),
        report_of(tmp_path, f"{BEGIN}1 n = 3\n{REST}", config=votes, stream=False, **asked),
    ]
    found = [set(fields(report["stepguard"])) for report in reports]
    listed = told()
    assert len(set(listed)) == len(listed)
    details = "completion_tokens_details"
    of_usage = {f"{usage}.{details}" for usage in ("usage", "usage.last", "usage.generations[]")}
    containers = {"usage.last", *of_usage}  # told of by what is in it
    assert set().union(*found) - containers == set(listed)
    for one in found:
        missing = [field for field in set(listed) - one if not field.endswith(".reasoning_tokens")]
        assert all(field.startswith(SOMETIMES) for field in missing), missing


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("rule", ["sum", "last"])
def test_the_clients_usage_follows_the_policy_and_the_report_has_both(
    tmp_path: Path, stream: bool, rule: str
) -> None:
    async def body() -> None:
        config = policy(f"usage: {rule}")
        async with running(scripted(tmp_path, WRONG, TRACE, config=config)) as endpoint:
            options = {"stream_options": {"include_usage": True}} if stream else {}
            reply = await endpoint.post({**BODY, "stream": stream, **options})
            usage = (reply.events[-1] if stream else reply.json)["usage"]
            accounts = (reply.events[-2] if stream else reply.json)["stepguard"]["usage"]
            both = accounts["generations"]
            assert len(both) == 2
            for name in NUMBERS:
                assert accounts[name] == sum(one[name] for one in both)
                assert accounts["last"][name] == both[-1][name]
                assert usage[name] == (accounts if rule == "sum" else both[-1])[name]
            assert set(usage) == set(NUMBERS)
            assert accounts["rule"] == rule
            assert usage["completion_tokens"] > 0

    run(body())


def test_what_was_delivered_discarded_and_saved(tmp_path: Path) -> None:
    report = report_of(tmp_path, WRONG, TRACE, config=policy("attempts: 2"), stream=True)["stepguard"]
    accounts = report["usage"]
    cut, last = accounts["generations"]
    assert (cut["estimated"], last["estimated"], accounts["estimated"]) == (True, False, True)
    assert accounts["delivered_tokens"] + accounts["discarded_tokens"] == accounts["completion_tokens"]
    assert accounts["discarded_tokens"] == cut["discarded_tokens"] + last["discarded_tokens"]
    assert 0 < cut["discarded_tokens"] < cut["completion_tokens"]
    assert accounts["saved_tokens"] > 5 * 2, "five steps were not written"


def test_a_run_that_gave_its_client_nothing_delivered_nothing(tmp_path: Path) -> None:
    accounts = report_of(tmp_path, WRONG, config=policy("actions: [reject]"), stream=False)["stepguard"][
        "usage"
    ]
    assert accounts["delivered_tokens"] == 0
    assert accounts["discarded_tokens"] == accounts["completion_tokens"] > 0
    streamed = report_of(tmp_path, WRONG, config=policy("actions: [reject]"), stream=True)["stepguard"][
        "usage"
    ]
    assert 0 < streamed["delivered_tokens"] < streamed["completion_tokens"]


def test_metrics_add_up_to_the_same(tmp_path: Path) -> None:
    async def body() -> None:
        async with running(scripted(tmp_path, WRONG, TRACE)) as endpoint:
            accounts = (await endpoint.post(BODY)).json["stepguard"]["usage"]
            counted = {
                (disposition, source): await endpoint.counted(
                    f'stepguard_tokens_total{{disposition="{disposition}",model="scripted",'
                    f'source="{source}",token_type="output"}}'
                )
                for disposition in ("delivered", "discarded")
                for source in ("reported", "estimated")
            }
            for disposition in ("delivered", "discarded"):
                both = counted[disposition, "reported"] + counted[disposition, "estimated"]
                assert both == accounts[f"{disposition}_tokens"]
            saved = await endpoint.counted('stepguard_tokens_saved_total{procedure="chain"}')
            assert saved == accounts["saved_tokens"] > 0

    run(body())


@pytest.mark.parametrize("stream", [False, True])
def test_who_was_asked_is_told_of_each_generation_and_in_headers(tmp_path: Path, stream: bool) -> None:
    dead = {"kind": "generic", "base_url": "http://127.0.0.1:9/v1", "model": "big"}
    config = """\
        routes: [{model: chain, procedure: chain, upstream: [dead, play]}]
        policies: {default: {transport_retries: 0}}
    """

    async def body() -> None:
        async with running(
            scripted(tmp_path, WRONG, TRACE, config=config, upstreams={"dead": dead})
        ) as endpoint:
            reply = await endpoint.post({**BODY, "stream": stream})
            report = (reply.events[-1] if stream else reply.json)["stepguard"]
            each = [(one["upstream"], one["model"]) for one in report["usage"]["generations"]]
            assert each == [("dead", "big"), ("play", "scripted"), ("play", "scripted")]
            assert reply.headers["x-stepguard-upstream"] == "play"
            assert reply.headers["x-stepguard-model"] == "scripted"

    run(body())


def test_a_name_that_no_header_can_hold_is_told_in_the_report_alone(tmp_path: Path) -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(*stream(trace(nonce_in(connection))))

    async def body() -> None:
        config = "routes: [{model: '*', procedure: chain}]\n"
        async with before(tmp_path, behave, config=config, model="") as (endpoint, _):
            for name in ("a\r\nx-injected: yes", "größe", " ", "x" * 300):
                reply = await endpoint.post({**BODY, "model": name})
                assert reply.report["usage"]["generations"][0]["model"] == name
                assert not {"x-stepguard-model", "x-injected"} & reply.headers.keys()

    run(body())

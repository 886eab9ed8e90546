"""What a policy says about a violation, seen from the client."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.proxy.running import BODY, CHAIN, TRACE, WRONG, Reply, policy, run, running, scripted

UPSTREAMS = {"spare": {"kind": "scripted", "file": "spare.yaml"}}


def test_a_policy_can_name_an_upstream_that_the_route_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "spare.yaml").write_text(yaml.safe_dump({"replies": [{"text": TRACE}]}))

    async def body() -> None:
        config = policy("actions: [{fallback: spare}]")
        async with running(scripted(tmp_path, WRONG, config=config, upstreams=UPSTREAMS)) as endpoint:
            reply = await endpoint.post(BODY)
            assert reply.json["choices"][0]["message"]["content"] == "38"
            assert reply.json["stepguard"]["outcome"] == "accepted_by_fallback"

    run(body())


def test_an_upstream_that_only_a_policy_names_is_not_gone_to_otherwise(tmp_path: Path) -> None:
    (tmp_path / "spare.yaml").write_text(yaml.safe_dump({"replies": [{"text": TRACE}]}))
    broken = {"text": "", "fail": {"kind": "connect"}}

    async def body() -> None:
        config = policy("actions: [{fallback: spare}]\ntransport_retries: 0")
        async with running(scripted(tmp_path, broken, config=config, upstreams=UPSTREAMS)) as endpoint:
            assert (await endpoint.post(BODY)).status == 502

    run(body())


def test_the_client_is_told_why_nothing_more_was_tried(tmp_path: Path) -> None:
    async def body() -> None:
        config = policy("actions: [resume, fallback]\nvary: false")
        async with running(scripted(tmp_path, WRONG, config=config)) as endpoint:
            error = (await endpoint.post(BODY)).error
            assert error["message"].endswith(
                "resume was tried twice at this step; there is no further upstream"
            )

    run(body())


# --- what is released ----------------------------------------------------------------------------

RELEASES = policy("actions: [release]\nforce: none")
VERIFIED = "".join(CHAIN.splitlines(keepends=True)[:3])  # of WRONG, as far as it is right
BEHIND = WRONG.partition(VERIFIED)[2]  # the line that is wrong and all that follows, to `@end`
PROSE = "It comes to 38, I think.\nThat is all.\n"


def released(
    tmp_path: Path, reply: str | dict[str, Any], settings: str, *, stream: bool
) -> tuple[str, str, dict[str, Any], Reply]:
    """What a client reads: the content, the reasoning, the report and all the rest."""

    async def ask() -> Reply:
        config = policy(f"actions: [release]\nforce: none\n{settings}")
        async with running(scripted(tmp_path, reply, config=config)) as endpoint:
            reply_ = await endpoint.post({**BODY, "stream": stream})
            nonce = next(iter(re.findall("@end ([0-9a-f]{6})", reply_.body.decode())), "")
            count = 'stepguard_requests_total{outcome="released",procedure="chain"}'
            assert await endpoint.counted(count) == 1
            return replace(reply_, body=reply_.body.replace(nonce.encode() or b"\0", b"{nonce}"))

    answer = run(ask())
    assert answer.status == 200
    if not stream:
        message = answer.json["choices"][0]["message"]
        return message["content"], message.get("reasoning_content", ""), answer.json["stepguard"], answer
    deltas = [event["choices"][0]["delta"] for event in answer.events]
    content = "".join(delta.get("content", "") for delta in deltas)
    reasoning = "".join(delta.get("reasoning_content", "") for delta in deltas)
    return content, reasoning, answer.events[-1]["stepguard"], answer


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("settings", "content", "reasoning"),
    [
        ("content: answer", "38", VERIFIED + BEHIND),
        ("content: answer\nsteps_as: none", "38", ""),
        ("content: trace", f"@begin chain {{nonce}}\n{VERIFIED}{BEHIND}", ""),
        ("content: both", f"@begin chain {{nonce}}\n{VERIFIED}{BEHIND}\n38", ""),
        ("content: both\ndeliver: hold_all", f"@begin chain {{nonce}}\n{VERIFIED}{BEHIND}\n38", ""),
    ],
)
def test_what_is_released_goes_on_behind_what_is_verified(
    tmp_path: Path, settings: str, content: str, reasoning: str, stream: bool
) -> None:
    found_content, found_reasoning, report, _ = released(tmp_path, WRONG, settings, stream=stream)
    assert (found_content, found_reasoning) == (content, reasoning)
    assert (report["outcome"], report["unverified"], report["end"]) == ("released", True, "return")
    assert report["steps"]["verified"] == 3
    assert report["violations"][0]["kind"] == "wrong_value"
    assert "wrong_value at step 4" in report["reason"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("settings", "content"),
    [
        ("content: answer", PROSE.rstrip()),
        ("content: trace", f"@begin chain {{nonce}}\n{PROSE}"),
    ],
)
def test_a_text_that_is_no_trace_is_the_content_itself(
    tmp_path: Path, settings: str, content: str, stream: bool
) -> None:
    found, reasoning, report, answer = released(
        tmp_path, {"text": PROSE}, f"{settings}\ntolerant: false", stream=stream
    )
    nonce = next(iter(re.findall("@begin chain ([0-9a-f]{6})", found)), "{nonce}")
    assert found.replace(nonce, "{nonce}") == content
    assert (reasoning, report["end"], report["unverified"]) == ("", None, True)
    assert answer.headers["x-stepguard-unverified"] == "true", "also on a stream that begins with it"
    assert answer.headers["x-stepguard-outcome"] == "released"


def test_every_chunk_with_unverified_text_is_marked(tmp_path: Path) -> None:
    _, _, _, answer = released(tmp_path, WRONG, "content: answer", stream=True)
    assert "x-stepguard-unverified" not in answer.headers, "it had begun with verified steps"
    verified: list[str] = []
    marked: list[str] = []
    for event in answer.events[1:-1]:
        delta = event["choices"][0]["delta"]
        (marked if event.get("stepguard", {}).get("unverified") else verified).extend(delta.values())
    assert "".join(verified) == VERIFIED
    assert marked == [BEHIND, "38"]


def test_what_is_not_released_is_not_marked(tmp_path: Path) -> None:
    async def body() -> None:
        async with running(scripted(tmp_path, TRACE, config=RELEASES)) as endpoint:
            reply = await endpoint.post(BODY)
            assert reply.json["stepguard"]["unverified"] is False
            assert "x-stepguard-unverified" not in reply.headers

    run(body())


@pytest.mark.parametrize("stream", [False, True])
def test_a_trace_that_stops_short_is_released_as_far_as_it_goes(tmp_path: Path, stream: bool) -> None:
    cut = {"text": f"@begin chain {{nonce}}\n{VERIFIED}4 s4 = 13", "finish_reason": "length"}
    content, reasoning, report, answer = released(tmp_path, cut, "content: answer", stream=stream)
    assert (content, reasoning, report["end"]) == ("", f"{VERIFIED}4 s4 = 13", None)
    last = answer.events[-1] if stream else answer.json
    assert last["choices"][0]["finish_reason"] == "length"

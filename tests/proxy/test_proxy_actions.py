"""What a policy says about a violation, seen from the client."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.proxy.running import BODY, TRACE, WRONG, policy, run, running, scripted

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
                "the same was wrong at this step 3 times; there is no further upstream"
            )

    run(body())

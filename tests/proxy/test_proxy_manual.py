"""The policies of the operator's manual do what it says of them, at the endpoint."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from guard.cli import main
from tests.proxy.running import BODY, TRACE, WRONG, Reply, run, running, scripted

MANUAL = Path(__file__).parent.parent.parent / "deploy" / "README.md"
SECTION = MANUAL.read_text().split("\n## Policies\n")[1].split("\n## ")[0]
STRICT, CHEAP, WATCH = re.findall(r"^```yaml\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)
ONE = "routes: [{{model: chain, procedure: chain, policy: {}}}]\n"


def ask(tmp_path: Path, config: str, *replies: str | dict[str, Any], **changed: Any) -> Reply:
    async def body() -> Reply:
        async with running(scripted(tmp_path, *replies, config=config)) as endpoint:
            return await endpoint.post({**BODY, **changed})

    return run(body())


def test_the_strict_policy_takes_the_models_own_work_and_nothing_else(tmp_path: Path) -> None:
    config = STRICT + ONE.format("strict")
    reply = ask(tmp_path, config, WRONG, TRACE)
    assert reply.json["choices"][0]["message"]["content"] == "38"
    assert reply.json["stepguard"]["outcome"] == "accepted_after_retry"
    assert reply.json["stepguard"]["steps"]["repaired"] == 0
    reply = ask(tmp_path, config, WRONG, WRONG, WRONG, WRONG, WRONG, WRONG, WRONG)
    assert (reply.status, reply.error["code"]) == (422, "wrong_value")


def test_the_cheap_policy_lets_the_guard_compute(tmp_path: Path) -> None:
    reply = ask(tmp_path, CHEAP + ONE.format("cheap"), WRONG)
    assert reply.json["choices"][0]["message"]["content"] == "38"
    assert "reasoning_content" not in reply.json["choices"][0]["message"]
    assert reply.json["stepguard"]["steps"]["computed"] == 9


def test_the_observing_policies_change_nothing_unless_the_client_asks_for_more(tmp_path: Path) -> None:
    for model in ("chain", "chain-beta"):
        assert "stepguard" not in ask(tmp_path, WATCH, WRONG, model=model).json
    control = {**BODY["stepguard"], "mode": "enforce"}
    reply = ask(tmp_path, WATCH, WRONG, TRACE, model="chain", stepguard=control)
    assert (reply.status, reply.error["code"]) == (403, "mode_not_allowed")
    reply = ask(tmp_path, WATCH, WRONG, TRACE, model="chain-beta", stepguard=control)
    assert reply.json["stepguard"]["outcome"] == "accepted_after_retry"


@pytest.mark.parametrize(
    ("text", "name"), [(STRICT, "strict"), (CHEAP, "cheap"), (WATCH, "watch"), (WATCH, "tried")]
)
def test_the_manuals_policies_can_be_explained(
    tmp_path: Path, text: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stepguard.yaml").write_text(text)
    assert main(["policy", "explain", name, "--config", str(tmp_path / "stepguard.yaml")]) == 0
    assert f"policy {name}" in capsys.readouterr().out

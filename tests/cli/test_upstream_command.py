"""`stepguard upstream`: what it lists, and what it says of a server that it has tried."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from guard.cli import main
from guard.config import load_config
from guard.config.service import upstream_of
from guard.upstream.backends import BACKENDS
from guard.upstream.capabilities import Place, Prefix
from guard.upstream.http import HttpUpstream
from tests.upstream.able import Able, able_server
from tests.upstream.servers import in_a_thread


def configured(folder: Path, **upstreams: dict[str, object]) -> str:
    file = folder / "stepguard.yaml"
    file.write_text(yaml.safe_dump({"upstreams": upstreams}, sort_keys=False))
    return str(file)


def test_where_a_server_is_otherwise_the_words_for_it_are_printed_and_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with in_a_thread(able_server(Able(prefix=Prefix.TRAILING, place=Place.STRUCTURED_OUTPUTS))) as server:
        served: dict[str, object] = {"kind": "vllm", "base_url": server.url, "model": "m"}
        file = configured(tmp_path, gpu=served)
        assert main(["upstream", "test", "gpu", "--config", file]) == 1
        out = capsys.readouterr().out
        written = yaml.safe_load(out[out.index("upstreams:") :])
        assert written == {"upstreams": {"gpu": {"capabilities": {"prefix": "trailing"}}}}
        assert "continue_final_message" in out
        file = configured(tmp_path, gpu=served | written["upstreams"]["gpu"])
        assert main(["upstream", "test", "gpu", "--config", file]) == 0
        assert "as the table says" in capsys.readouterr().out
        made = upstream_of(load_config(Path(file)), "gpu")
        assert isinstance(made, HttpUpstream)
        assert made.backend_for("").prefix is Prefix.TRAILING


def test_as_json_all_of_it_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with in_a_thread(able_server(Able(many=False, place=Place.GRAMMAR))) as server:
        file = configured(tmp_path, any={"kind": "generic", "base_url": server.url})
        assert main(["upstream", "test", "any", "--config", file, "--model", "m", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["usable"] is True
    assert told["model"] == "m"
    assert told["capabilities"] == {"grammar": "grammar"}
    assert 10 < told["requests"] <= 30
    [grammar] = [finding for finding in told["findings"] if finding["capability"] == "grammar"]
    assert grammar == {
        "capability": "grammar",
        "row": "none",
        "found": "grammar: obeyed",
        "override": {"grammar": "grammar"},
    }


def test_a_server_that_cannot_be_used_is_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = configured(tmp_path, gone={"kind": "vllm", "base_url": "http://127.0.0.1:9/v1", "model": "m"})
    assert main(["upstream", "test", "gone", "--config", file]) == 3
    assert "connection refused" in capsys.readouterr().out


def test_a_key_is_never_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with in_a_thread(able_server(Able(key="other"))) as server:
        file = configured(
            tmp_path, main={"kind": "generic", "base_url": server.url, "model": "m", "api_key": "sk-secret"}
        )
        assert main(["upstream", "test", "main", "--config", file]) == 3
        assert main(["upstream", "list", "--config", file]) == 0
    captured = capsys.readouterr()
    assert "refused" in captured.out
    assert "sk-secret" not in captured.out + captured.err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["nobody"], "there is no upstream 'nobody'; there are: main, played"),
        (["played"], "plays replies from a file"),
        (["main"], "--model: is needed: upstream 'main' names no model"),
    ],
)
def test_what_cannot_be_tried_is_2(
    arguments: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "replies.yaml").write_text("replies: [{text: a}]\n")
    file = configured(
        tmp_path,
        main={"kind": "generic", "base_url": "http://127.0.0.1:9/v1"},
        played={"kind": "scripted", "file": "replies.yaml"},
    )
    assert main(["upstream", "test", *arguments, "--config", file]) == 2
    assert why in capsys.readouterr().err


def test_upstreams_are_listed_with_their_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    served = {
        kind: {"kind": kind, "base_url": "http://h/beta", "model": "m"}
        for kind in BACKENDS
        if kind not in {"local", "scripted"}
    }
    (tmp_path / "replies.yaml").write_text("replies: [{text: a}]\n")
    upstreams: dict[str, dict[str, object]] = {
        **{name: dict(keys) for name, keys in served.items()},
        "vllm": {**served["vllm"], "capabilities": {"roles": "none"}},
        "local": {"kind": "local"},
        "scripted": {"kind": "scripted", "file": "replies.yaml"},
    }
    file = configured(tmp_path, **upstreams)
    assert main(["upstream", "list", "--config", file, "--json"]) == 0
    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert set(listed) == set(BACKENDS)
    assert listed["vllm"]["capabilities"]["roles"] == "none"
    assert listed["vllm"]["where"] == "http://h/beta m"
    assert listed["llama.cpp"]["capabilities"]["grammar"] == "grammar: gbnf"
    assert main(["upstream", "list", "--config", file]) == 0
    assert "structured_outputs: xgrammar" in capsys.readouterr().out


def test_without_a_configuration_it_is_the_embedded_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["upstream", "list"]) == 0
    assert capsys.readouterr().out.startswith("local  local  the default model\n")

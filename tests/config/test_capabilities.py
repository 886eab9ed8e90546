"""What the operator says of a server holds for its requests, and what cannot be is refused with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from guard.config import load_config
from guard.config.capabilities import Capabilities, GrammarPlace
from guard.config.service import upstream_of
from guard.config.settings import AzureUpstream, HttpUpstream
from guard.dialect.notation import Dialect
from guard.errors import ConfigError
from guard.upstream.backends import BACKENDS, backend_for
from guard.upstream.capabilities import Backend, Echo, Place, Prefix
from guard.upstream.http import HttpUpstream as Served


def written(folder: Path, **upstream: Any) -> Path:
    file = folder / "stepguard.yaml"
    known = {"kind": "vllm", "base_url": "http://h/v1", "model": "m"} | upstream
    file.write_text(yaml.safe_dump({"upstreams": {"main": known}}, sort_keys=False))
    return file


def served(folder: Path, **upstream: Any) -> Served:
    made = upstream_of(load_config(written(folder, **upstream)), "main")
    assert isinstance(made, Served)
    return made


def problems(folder: Path, **upstream: Any) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        load_config(written(folder, **upstream))
    return dict(caught.value.problems)


def test_every_kind_of_the_table_can_be_configured(tmp_path: Path) -> None:
    kinds = get_args(HttpUpstream.model_fields["kind"].annotation)
    kinds += get_args(AzureUpstream.model_fields["kind"].annotation)
    assert {*kinds, "local", "scripted"} == set(BACKENDS)
    for kind in kinds:
        url = "http://h/beta" if kind == "deepseek" else "http://h/v1"
        upstream = served(tmp_path, kind=kind, base_url=url, model="m")
        assert upstream.backend_for("") == backend_for(kind, "m")


def test_every_column_but_those_of_our_own_can_be_said_otherwise() -> None:
    ours = {"kind", "models", "fixed", "with_grammar", "with_prefix", "key_header"}
    ours |= {"token_per_chunk", "closes_after_stream"}
    columns = set(Backend.__dataclass_fields__) - ours - {"unverified"}
    assert set(Capabilities.model_fields) == columns
    assert set(get_args(GrammarPlace)) == {*Place, "none"}


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({"prefix": "none"}, {"prefix": Prefix.NONE, "echo": Echo.NEVER}),
        ({"prefix": "trailing", "echo": "whole"}, {"prefix": Prefix.TRAILING, "echo": Echo.WHOLE}),
        ({"grammar": "none"}, {"grammar": None, "dialect": None}),
        ({"grammar": "ebnf"}, {"grammar": Place.EBNF, "dialect": Dialect.XGRAMMAR}),
        (
            {"grammar": "structured_outputs", "dialect": "llguidance"},
            {"grammar": Place.STRUCTURED_OUTPUTS, "dialect": Dialect.LLGUIDANCE},
        ),
        ({"stop_field": "none", "seed_field": "none"}, {"stop_field": None, "seed_field": None}),
        ({"max_tokens_field": "max_new_tokens"}, {"max_tokens_field": "max_new_tokens"}),
        ({"refuses": "user"}, {"refuses": frozenset({"user"})}),
        ({"refuses": []}, {"refuses": frozenset()}),
        ({"ignores_bad": ["xgrammar"]}, {"ignores_bad": frozenset({Dialect.XGRAMMAR})}),
        ({"reasoning_fields": ["thoughts"]}, {"reasoning_fields": ("thoughts",)}),
        ({"n": False, "usage": False, "stream_options": False}, {"n": False, "usage": False}),
        ({"temperature": 0.5}, {"temperature": 0.5}),
    ],
)
def test_what_is_said_counts(tmp_path: Path, said: dict[str, object], meant: dict[str, object]) -> None:
    row = served(tmp_path, capabilities=said).backend_for("")
    assert {column: getattr(row, column) for column in meant} == meant
    said_columns = {*said, *meant}
    table = backend_for("vllm", "m")
    for column in set(Backend.__dataclass_fields__) - said_columns:
        assert getattr(row, column) == getattr(table, column), column


@pytest.mark.parametrize(
    ("upstream", "key", "why"),
    [
        ({"capabilities": {"dialect": "lark"}}, "capabilities.dialect", "write `grammar`, too"),
        (
            {"capabilities": {"grammar": "ebnf", "dialect": "lark"}},
            "capabilities.dialect",
            "ebnf holds xgrammar, llguidance, regex, found lark",
        ),
        ({"capabilities": {"grammar": "none", "dialect": "lark"}}, "capabilities.dialect", "no place"),
        (
            {"capabilities": {"grammar": "custom_tool"}},
            "capabilities",
            "the input of a tool cannot be begun for the model",
        ),
        (
            {"kind": "openai", "model": "", "capabilities": {"prefix": "trailing"}},
            "capabilities.prefix",
            "the input of a tool cannot be begun",
        ),
        ({"kind": "generic", "capabilities": {"echo": "whole"}}, "capabilities.echo", "nothing to repeat"),
        ({"capabilities": {"refuses": ["messages"]}}, "capabilities.refuses", "without 'messages'"),
        (
            {"capabilities": {"refuses": ["structured_outputs"]}},
            "capabilities.refuses",
            "without 'structured_outputs'",
        ),
        (
            {"kind": "openai", "model": "gpt-5", "capabilities": {"temperature": 0}},
            "capabilities.temperature",
            "never sent `temperature`",
        ),
        ({"capabilities": {"ecko": "never"}}, "capabilities.ecko", "did you mean 'echo'"),
        ({"capabilities": {"prefix": "trail"}}, "capabilities.prefix", "did you mean 'trailing'"),
        ({"capabilities": {"stop_field": "a b"}}, "capabilities.stop_field", "should match pattern"),
        ({"kind": "deepseek"}, "base_url", "only below /beta"),
        ({"kind": "azure", "deployment": "d", "base_url": "http://h/openai"}, "deployment", "api_version"),
        (
            {"kind": "azure", "deployment": "d", "api_version": "2025-01-01-preview"},
            "base_url",
            "ends in /openai",
        ),
        ({"kind": "azure", "api_version": "next"}, "api_version", "should match pattern"),
        ({"kind": "vlm"}, "kind", "did you mean 'vllm'"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(
    tmp_path: Path, upstream: dict[str, Any], key: str, why: str
) -> None:
    found = problems(tmp_path, **upstream)
    assert list(found) == [f"upstreams.main.{key}"]
    assert why in found[f"upstreams.main.{key}"]


def test_each_has_its_line(tmp_path: Path) -> None:
    file = tmp_path / "stepguard.yaml"
    file.write_text(
        "upstreams:\n  main:\n    kind: vllm\n    base_url: http://h/v1\n    capabilities:\n"
        "      grammar: ebnf\n      dialect: lark\n      refuses: [model]\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert str(caught.value).splitlines() == [
        f"{file}:7: upstreams.main.capabilities.dialect: ebnf holds xgrammar, llguidance, regex, found lark",
        f"{file}:8: upstreams.main.capabilities.refuses: no request can do without 'model'",
    ]


def test_a_prefix_needs_no_beta_where_none_is_wanted(tmp_path: Path) -> None:
    assert not served(tmp_path, kind="deepseek", capabilities={"prefix": "none"}).target.prefill
    assert served(tmp_path, kind="deepseek", base_url="http://h/beta").target.prefill


def test_a_deployment_is_below_the_address(tmp_path: Path) -> None:
    upstream = served(
        tmp_path,
        kind="azure",
        base_url="https://h.example/openai",
        deployment="bills",
        api_version="2025-01-01-preview",
        model="gpt-5",
    )
    assert str(upstream.url("/chat/completions")) == (
        "https://h.example/openai/deployments/bills/chat/completions?api-version=2025-01-01-preview"
    )
    assert str(upstream.url("/files?limit=2")).endswith("/files?limit=2&api-version=2025-01-01-preview")
    assert upstream.target.dialect is Dialect.LARK

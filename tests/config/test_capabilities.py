"""What the operator says of a server holds for its requests, and what cannot be is refused with its line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from guard.config import load_config
from guard.config.capabilities import Capabilities, GrammarPlace, impossible_capabilities
from guard.config.service import upstream_of
from guard.config.settings import AzureUpstream, HttpUpstream
from guard.dialect.notation import Dialect
from guard.errors import ConfigError
from guard.upstream.backends import BACKENDS, backend_for
from guard.upstream.capabilities import Api, Backend, Echo, Place, Prefix, Roles, Thinking
from guard.upstream.http import HttpUpstream as Served
from guard.upstream.request import body
from tests.upstream.servers import opening


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
        ({"reasoning_fields": ["thoughts"]}, {"reasoning_fields": ("thoughts",)}),
        ({"n": False, "usage": False, "stream_options": False}, {"n": False, "usage": False}),
        ({"temperature": 0.5}, {"temperature": 0.5}),
        (
            {"api": "responses"},
            {
                "api": Api.RESPONSES,
                "prefix": Prefix.NONE,
                "echo": Echo.NEVER,
                "stream_options": False,
                "max_tokens_field": "max_output_tokens",
                "stop_field": None,
                "seed_field": None,
                "reasoning_fields": ("reasoning_text", "reasoning_summary_text"),
                "n": False,
                "unverified": frozenset({"grammar"}),
            },
        ),
        (
            {"prefix": "none", "thinks": True, "thinking": "inside"},
            {"prefix": Prefix.NONE, "echo": Echo.NEVER, "thinks": True, "thinking": Thinking.INSIDE},
        ),
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
        (
            {"capabilities": {"dialect": "lark"}},
            "capabilities.dialect",
            "write `grammar: structured_outputs`, too",
        ),
        (
            {"capabilities": {"dialect": "gbnf"}},
            "capabilities.dialect",
            "write `grammar: grammar` or `grammar: response_format`, too",
        ),
        ({"capabilities": {"patterns": "text"}}, "capabilities.patterns", "only a JSON schema has them"),
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
        ({"capabilities": {"thinking": "inside"}}, "capabilities.thinking", "write `prefix: none`, too"),
        ({"capabilities": {"thinks": True}}, "capabilities.thinks", "write `prefix: none`, too"),
        (
            {"kind": "generic", "capabilities": {"thinking": "inside"}},
            "capabilities.thinking",
            "without `grammar` there is nothing",
        ),
        (
            {"kind": "ollama", "capabilities": {"thinking": "inside", "prefix": "none"}},
            "capabilities.thinking",
            "json_schema in response_format has no room for thoughts",
        ),
        ({"capabilities": {"ecko": "never"}}, "capabilities.ecko", "did you mean 'echo'"),
        ({"capabilities": {"prefix": "trail"}}, "capabilities.prefix", "did you mean 'trailing'"),
        ({"capabilities": {"stop_field": "a b"}}, "capabilities.stop_field", "should match pattern"),
        ({"capabilities": {"refuses": "add_generation_prompt"}}, "capabilities.refuses", "can do without"),
        ({"capabilities": {"max_tokens_field": "none"}}, "capabilities.max_tokens_field", "name the field"),
        ({"capabilities": {"max_tokens_field": "stop"}}, "capabilities", "hold `max_tokens_field`"),
        ({"capabilities": {"max_tokens_field": "model"}}, "capabilities.max_tokens_field", "something else"),
        (
            {"capabilities": {"seed_field": "max_tokens"}},
            "capabilities.seed_field",
            "hold `max_tokens_field`",
        ),
        ({"capabilities": {"stop_field": "structured_outputs"}}, "capabilities.stop_field", "something else"),
        ({"capabilities": {"reasoning_fields": "content"}}, "capabilities.reasoning_fields", "what is said"),
        (
            {"kind": "llama.cpp", "capabilities": {"thinks": True, "prefix": "none"}},
            "capabilities.thinks",
            "see `thinking`",
        ),
        ({"base_url": "http://a b/v1"}, "base_url", "expected a URL"),
        ({"base_url": "http://h:99999/v1"}, "base_url", "expected a URL"),
        ({"base_url": "http://[h/v1"}, "base_url", "expected a URL"),
        ({"base_url": "http://h/v1/chat/completions"}, "base_url", "leave out /chat/completions"),
        ({"base_url": "http://h/v1/responses/"}, "base_url", "leave out /responses"),
        ({"capabilities": {"api": "response"}}, "capabilities.api", "did you mean 'responses'"),
        (
            {"capabilities": {"api": "responses", "prefix": "trailing"}},
            "capabilities.prefix",
            "from no prefix",
        ),
        ({"capabilities": {"api": "responses", "n": True}}, "capabilities.n", "gives one answer"),
        (
            {"capabilities": {"api": "responses", "stream_options": True}},
            "capabilities.stream_options",
            "tells the usage unasked",
        ),
        (
            {"kind": "fireworks", "capabilities": {"api": "responses"}},
            "capabilities",
            "`response_format` holds json_schema only",
        ),
        (
            {"kind": "openai", "model": "gpt-4o", "capabilities": {"api": "responses", "refuses": "text"}},
            "capabilities.refuses",
            "without 'text'",
        ),
        (
            {"capabilities": {"api": "responses", "refuses": "input"}},
            "capabilities.refuses",
            "without 'input'",
        ),
        (
            {
                "kind": "azure",
                "deployment": "d",
                "base_url": "http://h/openai",
                "api_version": "2025-01-01-preview",
                "model": "gpt-5-codex",
            },
            "deployment",
            "not below a deployment",
        ),
        ({"kind": "deepseek"}, "base_url", "only below /beta"),
        ({"kind": "azure", "deployment": "d", "base_url": "http://h/openai"}, "deployment", "api_version"),
        (
            {"kind": "azure", "deployment": "d", "api_version": "2025-01-01-preview"},
            "base_url",
            "ends in /openai",
        ),
        ({"kind": "azure", "api_version": "next"}, "api_version", "should match pattern"),
        ({"kind": "vlm"}, "kind", "did you mean 'vllm'"),
        ({"deployment": "d"}, "deployment", "unknown key; there are: "),
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


COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "api": st.sampled_from([api.value for api in Api]),
    "grammar": st.sampled_from([*(place.value for place in Place), "none"]),
    "dialect": st.sampled_from([dialect.value for dialect in Dialect]),
    "prefix": st.sampled_from([prefix.value for prefix in Prefix]),
    "echo": st.sampled_from([echo.value for echo in Echo]),
    "roles": st.sampled_from([roles.value for roles in Roles]),
    "stream_options": st.booleans(),
    "max_tokens_field": st.sampled_from(["max_tokens", "max_completion_tokens"]),
    "stop_field": st.sampled_from(["stop", "stop_sequences", "none"]),
    "seed_field": st.sampled_from(["seed", "random_seed", "none"]),
    "refuses": st.lists(
        st.sampled_from(
            ["user", "seed", "stop", "temperature", "messages", "tools", "continue_final_message"]
        ),
        unique=True,
    ),
    "temperature": st.floats(0, 2),
}


@given(
    kind=st.sampled_from(sorted(BACKENDS)),
    model=st.sampled_from(["m", "gpt-5", "gpt-5-codex", "o3", "gpt-4", "gemma-2-9b-it"]),
    said=st.fixed_dictionaries({}, optional=COLUMNS),
)
def test_what_is_not_refused_can_be_asked(kind: str, model: str, said: dict[str, Any]) -> None:
    capabilities = Capabilities.model_validate(said)
    row = backend_for(kind, model, capabilities.changes)
    if list(impossible_capabilities(kind, model, capabilities)):
        return
    text = {Dialect.JSON_SCHEMA: "{}"}.get(row.dialect, "7") if row.dialect else None
    command = opening(
        messages=({"role": "system", "content": "a"}, {"role": "user", "content": "b"}),
        prefix="1" if row.prefill else "",
        grammar=text,
        stop=("x",),
        seed=7,
    )
    sent = body(row, command, model=model, extra={"user": "ann"})
    assert not row.refuses & set(sent)
    assert row.refuses & {"messages", "model"} == set()
    assert ("stream_options" in sent) is row.stream_options
    assert json.dumps(sent).count("system") == (row.roles in {Roles.ANY, Roles.SYSTEM})
    messages: Any = sent["messages" if row.api is Api.CHAT else "input"]
    assert (messages[-1]["role"] == "assistant") is row.prefill
    without = body(row, replace(command, grammar=None), model=model, extra={"user": "ann"})
    assert (set(sent) > set(without)) is (text is not None)


@pytest.mark.local
def test_the_embedded_model_can_be_said_to_be_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "stepguard.yaml"
    file.write_text("upstreams: {main: {kind: local, capabilities: {prefix: none, grammar: none}}}\n")
    target = upstream_of(load_config(file), "main").target
    assert not target.prefill
    assert target.dialect is None


def test_what_it_cannot_be_is_refused_as_well(tmp_path: Path) -> None:
    file = tmp_path / "stepguard.yaml"
    file.write_text("upstreams: {main: {kind: local, capabilities: {grammar: ebnf, dialect: gbnf}}}\n")
    with pytest.raises(ConfigError, match="ebnf holds xgrammar") as caught:
        load_config(file)
    assert caught.value.problems[0][0] == "upstreams.main.capabilities.dialect"


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


def test_what_an_operator_says_of_the_api_counts_for_every_model(tmp_path: Path) -> None:
    """Also of a model that OpenAI has in the other one only: somebody else may serve it."""
    upstream = served(tmp_path, kind="openai", model="gpt-5-codex", capabilities={"api": "chat"})
    row = upstream.backend_for("")
    assert (row.api, row.max_tokens_field, row.seed_field) == (Api.CHAT, "max_completion_tokens", "seed")
    assert served(tmp_path, kind="openai", model="gpt-5-codex").backend_for("").api is Api.RESPONSES
    upstream = served(tmp_path, kind="openai", model="", capabilities={"api": "responses"})
    assert {upstream.backend_for(model).api for model in ("gpt-4o", "gpt-5", "o3")} == {Api.RESPONSES}
    bounded = served(tmp_path, capabilities={"api": "responses", "seed_field": "seed"}).backend_for("")
    assert (bounded.seed_field, bounded.stop_field) == ("seed", None)

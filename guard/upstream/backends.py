"""What each kind of model server can do and how it wants to be asked: one row a kind, or some of its models.

Of the rows of a kind, the first one whose `models` fit counts, else the one without. Where a column's source
is missing, `unverified` names it: `stepguard upstream test` tells what holds on a server.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final

from guard.dialect.json_schema import Patterns
from guard.dialect.notation import Dialect
from guard.run.messages import Target
from guard.upstream.capabilities import Api, Backend, Echo, Place, Prefix, Roles, Thinking
from guard.wire.responses import THOUGHTS

_OPENAI: Final = Backend(
    kind="openai",
    grammar=Place.RESPONSE_FORMAT,
    dialect=Dialect.JSON_SCHEMA,
    patterns=Patterns.TEXT,
    roles=Roles.ANY,
    max_tokens_field="max_completion_tokens",
    reasoning_fields=(),
    temperature=0.0,
)
_O_SERIES: Final = replace(
    _OPENAI,
    models=("o1*", "o3*", "o4*"),
    roles=Roles.DEVELOPER,
    stop_field=None,
    refuses=frozenset({"temperature", "top_p", "stop"}),
    temperature=None,
)
# The grammar of a custom tool needs one of these models.
_GPT_5: Final = replace(
    _O_SERIES, models=("gpt-5*", "codex*"), grammar=Place.CUSTOM_TOOL, dialect=Dialect.LARK
)
# Later reasoning models, of which no more is known than that they are there: as their forerunners.
_GPT_6: Final = replace(_GPT_5, models=("gpt-6*",), unverified=frozenset({"grammar", "roles"}))
# These have no chat completions, as the types that OpenAI publishes say (`ResponsesModel`).
_O_PRO: Final = replace(
    _O_SERIES,
    models=("o1-pro*", "o3-pro*", "o3-deep-research*", "o4-mini-deep-research*"),
    api=Api.RESPONSES,
    unverified=frozenset({"grammar"}),
)
_GPT_5_PRO: Final = replace(
    _GPT_5,
    models=("gpt-5-pro*", "gpt-5.5-pro*", "gpt-5-codex*", "gpt-5.1-codex-max*", "gpt-5.6-cyber*"),
    api=Api.RESPONSES,
    unverified=frozenset({"grammar"}),
)
_OPENAI_ROWS: Final = (
    replace(_O_SERIES, models=("o1-mini*", "o1-preview*"), roles=Roles.NONE, grammar=None, dialect=None),
    _O_PRO,
    _O_SERIES,
    replace(
        _OPENAI,
        models=("gpt-5*-chat*", "chatgpt-4o*", "gpt-4", "gpt-4-*", "gpt-3.5*"),
        grammar=None,
        dialect=None,
        unverified=frozenset({"grammar"}),
    ),
    _GPT_5_PRO,
    _GPT_5,
    _GPT_6,
    _OPENAI,
)
# A deployment's name says nothing about its model: `model` of the upstream does. Its guide to structured
# outputs names `pattern` among the keywords that are not supported.
_AZURE_ROWS: Final = tuple(
    replace(
        row,
        kind="azure",
        key_header="api-key",
        patterns=Patterns.NONE,
        unverified=row.unverified | {"grammar", "stream_options", "usage"},
    )
    for row in _OPENAI_ROWS
)

_LLAMA_CPP: Final = Backend(
    kind="llama.cpp",
    grammar=Place.GRAMMAR,
    dialect=Dialect.GBNF,
    thinking=Thinking.FORBIDDEN,
    prefix=Prefix.TRAILING,
    echo=Echo.WHOLE,
    roles=Roles.SYSTEM,
    reasoning_fields=("reasoning_content",),
    temperature=0.0,
    fixed={"cache_prompt": True},
    # It goes on from no prefix where the chat template makes room for thoughts first.
    with_prefix={"chat_template_kwargs": {"enable_thinking": False}},
    token_per_chunk=True,
    closes_after_stream=True,
)

# Behind a prefix there are no thoughts, and a server that waits for their end would hold to no grammar. Which
# word a chat template has for it depends on the model; each ignores the other.
_THOUGHTLESS: Final = {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}

_VLLM: Final = Backend(
    kind="vllm",
    grammar=Place.STRUCTURED_OUTPUTS,
    # As XGrammar reads it. llguidance's reading of EBNF refuses some right texts: for a server that runs with
    # `--structured-outputs-config.backend guidance` the operator says `dialect: llguidance`.
    dialect=Dialect.XGRAMMAR,
    prefix=Prefix.CONTINUE,
    with_prefix=_THOUGHTLESS,
    reasoning_fields=("reasoning", "reasoning_content"),
    temperature=0.0,
)
_SGLANG: Final = Backend(
    kind="sglang",
    grammar=Place.EBNF,
    dialect=Dialect.XGRAMMAR,
    prefix=Prefix.CONTINUE,
    with_prefix=_THOUGHTLESS,
    reasoning_fields=("reasoning_content",),
    temperature=0.0,
    unverified=frozenset({"echo"}),
)
# Their chat templates raise an error at a system message.
_NO_SYSTEM: Final = (
    "gemma-2b*",
    "gemma-7b*",
    "gemma-1*",
    "gemma-2-*",
    "gemma2*",
    "codegemma*",
    "mistral-7b-instruct-v0.1*",
    "mistral-7b-instruct-v0.2*",
    "mixtral-8x7b-instruct-v0.1*",
)


def _without_system(row: Backend) -> Backend:
    return replace(row, models=_NO_SYSTEM, roles=Roles.NONE)


_FIREWORKS: Final = Backend(
    kind="fireworks",
    grammar=Place.RESPONSE_FORMAT,
    dialect=Dialect.GBNF,
    thinking=Thinking.FORBIDDEN,
    reasoning_fields=("reasoning_content",),
    temperature=0.0,
    unverified=frozenset({"prefix", "thinking", "n"}),
)
_MISTRAL: Final = Backend(
    kind="mistral",
    grammar=Place.RESPONSE_FORMAT,
    dialect=Dialect.JSON_SCHEMA,
    prefix=Prefix.FLAGGED,
    echo=Echo.ALWAYS,
    stream_options=False,
    seed_field="random_seed",
    refuses=frozenset({"user"}),  # unknown fields are answered with 422
    reasoning_fields=(),
    temperature=0.0,
    unverified=frozenset({"thinking", "patterns"}),
)
_DEEPSEEK: Final = Backend(
    kind="deepseek",
    prefix=Prefix.FLAGGED,
    seed_field=None,
    reasoning_fields=("reasoning_content",),
    n=False,
    temperature=0.0,
    unverified=frozenset({"echo", "n"}),
)
_OPENROUTER: Final = Backend(
    kind="openrouter",
    grammar=Place.RESPONSE_FORMAT,
    dialect=Dialect.JSON_SCHEMA,
    prefix=Prefix.TRAILING,
    reasoning_fields=("reasoning",),
    n=False,
    temperature=0.0,
    with_grammar={"provider": {"require_parameters": True}},  # else a provider may drop what it has not
    unverified=frozenset({"echo", "prefix", "thinking", "patterns", "n"}),
)
_OLLAMA: Final = Backend(
    kind="ollama",
    grammar=Place.RESPONSE_FORMAT,
    dialect=Dialect.JSON_SCHEMA,
    prefix=Prefix.TRAILING,
    reasoning_fields=("reasoning",),
    n=False,
    temperature=0.0,
    unverified=frozenset({"echo", "thinking"}),
)
# Nothing that not every server has; a field that it does not know is left to it.
_GENERIC: Final = Backend(
    kind="generic",
    roles=Roles.ANY,
    n=False,
    unverified=frozenset({"roles", "stream_options", "usage", "n", "reasoning_fields"}),
)
_SCRIPTED: Final = Backend(kind="scripted", prefix=Prefix.TRAILING, roles=Roles.ANY, n=False)

# The Responses API's own words, and what it has none for, whoever serves it.
_IN_RESPONSES: Final[Mapping[str, Any]] = {
    "prefix": Prefix.NONE,
    "echo": Echo.NEVER,
    "stream_options": False,
    "max_tokens_field": "max_output_tokens",
    "stop_field": None,
    "seed_field": None,
    "reasoning_fields": THOUGHTS,
    "n": False,
}

# Where it is known that a grammar holds there, too.
_GRAMMAR_IN_RESPONSES: Final = frozenset({"openai", "azure", "llama.cpp", "local"})


def _in_its_api(row: Backend, said: Collection[str] = ()) -> Backend:
    """Give a row in the words of its API, but for the columns that the operator has said."""
    if row.api is Api.CHAT:
        return row
    words = {name: value for name, value in _IN_RESPONSES.items() if name not in said}
    doubtful = frozenset() if row.kind in _GRAMMAR_IN_RESPONSES else frozenset({"grammar"})
    return replace(row, **words, unverified=row.unverified - _IN_RESPONSES.keys() | doubtful)


_ROWS: Final[tuple[Backend, ...]] = (
    *_OPENAI_ROWS,
    *_AZURE_ROWS,
    _LLAMA_CPP,
    _without_system(_VLLM),
    _VLLM,
    _without_system(_SGLANG),
    _SGLANG,
    _FIREWORKS,
    _MISTRAL,
    _DEEPSEEK,
    _OPENROUTER,
    _OLLAMA,
    _without_system(_GENERIC),
    _GENERIC,
    replace(_LLAMA_CPP, kind="local"),
    _SCRIPTED,
)
TABLE: Final[tuple[Backend, ...]] = tuple(map(_in_its_api, _ROWS))

# The row of each kind for a model that no pattern names.
BACKENDS: Final[Mapping[str, Backend]] = {row.kind: row for row in TABLE if not row.models}


def backend_for(kind: str, model: str = "", changes: Mapping[str, Any] | None = None) -> Backend:
    """Find the row for a model on a server of a kind, with what the operator says to the contrary."""
    name = _bare(model)
    rows = (row for row in _ROWS if row.kind == kind and any(fnmatchcase(name, each) for each in row.models))
    row = next(rows, BACKENDS[kind])
    return _in_its_api(replace(row, **changes) if changes else row, changes or ())


def target_for(kind: str, name: str, model: str, changes: Mapping[str, Any] | None = None) -> Target:
    """Say what a run has to know of an upstream, with its model or another one."""
    target = backend_for(kind, model, changes).target(name, model)
    return replace(target, by_model=partial(_target, kind, name, changes))


def _target(kind: str, name: str, changes: Mapping[str, Any] | None, model: str) -> Target:
    return target_for(kind, name, model, changes)


def _bare(model: str) -> str:
    """Give a model's name without who offers it: `openai/gpt-5`, `ft:gpt-4o:acme`, `accounts/a/models/m`."""
    return model.lower().rpartition("/")[2].removeprefix("ft:")

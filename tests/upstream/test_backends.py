"""What each row of the table sends, and that the servers' own types and the wire agree with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from openai.types.shared.chat_model import ChatModel
from openai.types.shared.responses_model import ResponsesModel

from guard.config.capabilities import Capabilities
from guard.dialect.notation import Dialect
from guard.errors import InvalidState
from guard.run.messages import Message, Open
from guard.upstream.backends import BACKENDS, TABLE, backend_for, target_for
from guard.upstream.capabilities import HELD, Api, Backend, Place, Prefix, Roles, Thinking, contradictions
from guard.upstream.request import body, grammar_fields
from tests.upstream.openai_types import published
from tests.upstream.responding import Answer
from tests.upstream.servers import (
    DONE,
    Call,
    Connection,
    connected,
    hear,
    opening,
    run,
    said,
    serving,
    text_in,
)

GOLDEN = Path(__file__).parent.parent / "cases" / "requests.yaml"
CASES: Mapping[str, Any] = yaml.safe_load(GOLDEN.read_text(encoding="utf-8"))
TEXTS = {
    Dialect.LARK: 'start: "7"\n',
    Dialect.LLGUIDANCE: '%llguidance {}\nstart: "7"\n',
    Dialect.GBNF: 'root ::= "7"\n',
    Dialect.XGRAMMAR: 'root ::= "7"\n',
    Dialect.REGEX: "7",
    Dialect.JSON_SCHEMA: '{"type": "object", "properties": {}, "additionalProperties": false}',
}
# The conversation is one that every row has to do something with.
MESSAGES: tuple[Message, Message] = (
    {"role": "system", "content": "Carry out the procedure."},
    {"role": "user", "content": "The bill, please."},
)
FOLDED = {"role": "user", "content": "Carry out the procedure.\n\nThe bill, please."}
CLIENT = {"user": "ann", "provider": {"order": ["a"]}}


def asking(row: Backend, *, model: str = "", grammar: bool = True) -> Open:
    """All that a row can be asked for at once. The members of an object go on from no prefix."""
    held = row.dialect if grammar else None
    return opening(
        messages=MESSAGES,
        prefix="@begin bill 3fa92c\n1" if row.prefill and held is not Dialect.JSON_SCHEMA else "",
        grammar=TEXTS[held] if held else None,
        stop=("\n",),
        top_p=0.9,
        seed=7,
        model=model,
    )


def asked(row: Backend, *, model: str = "", grammar: bool = True) -> dict[str, object]:
    return body(row, asking(row, grammar=grammar), model=model, extra=CLIENT)


def name_of(case: Mapping[str, Any]) -> str:
    return f"{case['kind']} {case['model']} {case.get('grammar', True)} {case.get('capabilities', '')}"


def changes_of(case: Mapping[str, Any]) -> Mapping[str, Any]:
    return Capabilities.model_validate(case.get("capabilities", {})).changes


def row_of(case: Mapping[str, Any]) -> Backend:
    return backend_for(case["kind"], case["model"], changes_of(case))


@pytest.mark.parametrize("case", CASES["requests"], ids=name_of)
def test_a_row_sends_what_its_server_wants(case: Mapping[str, Any]) -> None:
    row = row_of(case)
    assert asked(row, model=case["model"], grammar=case.get("grammar", True)) == case["body"]


def test_every_row_is_among_the_cases() -> None:
    tried = [row_of(case) for case in CASES["requests"]]
    assert [row for row in TABLE if row not in tried] == []


def published_tools(sent: Mapping[str, object]) -> list[Any]:
    """The tools of a request of the type that OpenAI publishes, but for a field of the client's."""
    said, tools = published({name: value for name, value in sent.items() if name != "provider"})
    assert len(said) == len(MESSAGES) - (sent.get("messages") == [FOLDED])
    return tools


@pytest.mark.parametrize(
    "row",
    [
        *(row for row in TABLE if row.kind in {"openai", "azure", "openrouter", "ollama", "generic"}),
        *(backend_for("openai", model, {"api": Api.RESPONSES}) for model in ("gpt-5", "gpt-4o", "o4-mini")),
    ],
    ids=lambda row: f"{row.kind} {row.models} {row.api}",
)
def test_what_is_sent_is_of_the_type_that_openai_publishes(row: Backend) -> None:
    assert bool(published_tools(asked(row, model="m"))) is (row.grammar is Place.CUSTOM_TOOL)


def test_that_type_refuses_what_is_none_of_it() -> None:
    chat = asked(backend_for("openai", "gpt-5"), model="gpt-5")
    response = asked(backend_for("openai", "gpt-5", {"api": Api.RESPONSES}), model="gpt-5")
    unknown: list[dict[str, object]] = [{"random_seed": 7}, {"stop": 7}]
    theirs: list[dict[str, object]] = [
        {"seed": 7},
        {"n": 1},
        {"max_tokens": 9},
        {"stream_options": {"include_usage": True}},
        {"input": [{"role": "user", "content": [{"type": "text", "text": "7"}]}]},
    ]
    for sent, other, no_field in ((chat, response, unknown), (response, chat, [*unknown, *theirs])):
        tools = [{name: other[name]} for name in ("tools", "tool_choice")]  # as the other API wants them
        for wrong in [*tools, *no_field]:
            with pytest.raises(ValueError, match="validation error"):
                published_tools({**sent, **wrong})


def test_models_that_have_no_chat_completions_are_asked_for_responses() -> None:
    chats = set(get_args(ChatModel))
    _, _, only = get_args(ResponsesModel)
    for model in get_args(only):
        if model.startswith(("o1", "o3", "o4", "gpt-5")):
            assert backend_for("openai", model).api is Api.RESPONSES, model
    assert [model for model in chats if backend_for("openai", model).api is Api.RESPONSES] == []


# --- the wire ------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES["requests"], ids=name_of)
def test_it_is_what_arrives(case: Mapping[str, Any]) -> None:
    bodies: list[dict[str, Any]] = []
    row = row_of(case)

    async def behave(connection: Connection) -> None:
        bodies.append(await connection.request())
        assert connection.head.startswith(f"POST /v1{row.api.path} HTTP/1.1")
        answer = Answer()
        response = [*answer.start(), *answer.text("7"), *answer.end()]
        chat = [said("7", "stop"), DONE]
        await connection.stream(*(response if row.api is Api.RESPONSES else chat))

    async def talk() -> None:
        command = asking(row, model=case["model"], grammar=case.get("grammar", True))
        settings = {"kind": case["kind"], "model": "", "capabilities": changes_of(case)}
        async with serving(behave) as server, connected(server, **settings) as upstream:
            assert text_in(await hear(upstream, command, Call(extra=dict(CLIENT)))) == "7"

    run(talk())
    assert bodies == [case["body"]]


def test_a_deployment_of_azure_is_reached_with_its_version_and_key() -> None:
    seen: list[Connection] = []

    async def behave(connection: Connection) -> None:
        await connection.request()
        seen.append(connection)
        await connection.stream(said("7", "stop"), DONE)

    async def talk() -> None:
        async with serving(behave) as server:
            settings = {"kind": "azure", "api_key": "sk-ours", "api_version": "2025-01-01-preview"}
            async with connected(server, **settings) as upstream:
                await hear(upstream)

    run(talk())
    [connection] = seen
    assert connection.head.startswith("POST /v1/chat/completions?api-version=2025-01-01-preview HTTP/1.1")
    assert connection.header("api-key") == "sk-ours"
    assert connection.header("authorization") is None


# --- the table -----------------------------------------------------------------------------------


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.kind} {row.models}")
def test_no_row_contradicts_itself(row: Backend) -> None:
    assert list(contradictions(row)) == []
    assert row.unverified <= {column.name for column in fields(row)}
    assert row.dialect is None or row.dialect in HELD[row.grammar or Place.GRAMMAR]


def test_every_kind_has_a_row_for_models_that_nobody_knows() -> None:
    assert set(BACKENDS) == {row.kind for row in TABLE}
    for kind in BACKENDS:
        assert backend_for(kind, "no-such-model") is BACKENDS[kind]
        assert backend_for(kind) is BACKENDS[kind]


@pytest.mark.parametrize(
    ("model", "place"),
    [
        ("gpt-5", Place.CUSTOM_TOOL),
        ("openai/GPT-5-mini", Place.CUSTOM_TOOL),
        ("ft:gpt-5-nano:acme", Place.CUSTOM_TOOL),
        ("gpt-5-chat-latest", None),
        ("gpt-5.2-chat-latest", None),
        ("gpt-4o-mini", Place.RESPONSE_FORMAT),
        ("ft:gpt-4o:acme", Place.RESPONSE_FORMAT),
        ("gpt-4.1", Place.RESPONSE_FORMAT),
        ("gpt-4-turbo", None),
        ("o3-mini", Place.RESPONSE_FORMAT),
        ("o1-mini", None),
    ],
)
def test_a_model_is_known_by_its_name(model: str, place: Place | None) -> None:
    assert backend_for("openai", model).grammar is place


def test_a_target_follows_the_model_that_is_asked_for() -> None:
    target = target_for("openai", "main", "gpt-5")
    assert target.dialect is Dialect.LARK
    assert target.temperature is None
    other = target.asked_for("gpt-4o")
    assert (other.name, other.model, other.dialect, other.temperature) == (
        "main",
        "gpt-4o",
        Dialect.JSON_SCHEMA,
        0.0,
    )


def test_what_the_operator_says_holds_for_every_model() -> None:
    changes = {"grammar": None, "dialect": None}
    target = target_for("openai", "main", "gpt-5", changes)
    assert target.dialect is None
    assert target.asked_for("gpt-4o").dialect is None


@pytest.mark.parametrize("place", Place)
@pytest.mark.parametrize("dialect", Dialect)
def test_a_place_holds_its_dialects_and_no_other(place: Place, dialect: Dialect) -> None:
    if dialect in HELD[place]:
        sent = json.dumps(grammar_fields(place, dialect, TEXTS[dialect]))
        held = json.loads(TEXTS[dialect]) if dialect is Dialect.JSON_SCHEMA else TEXTS[dialect]
        assert json.dumps(held) in sent
    else:
        with pytest.raises(InvalidState, match="cannot hold"):
            grammar_fields(place, dialect, TEXTS[dialect])


def test_what_a_row_cannot_do_is_a_mistake_of_ours() -> None:
    generic = BACKENDS["generic"]
    with pytest.raises(InvalidState, match="no grammar"):
        body(generic, opening(grammar="x"), model="m", extra={})
    with pytest.raises(InvalidState, match="cannot continue"):
        body(generic, opening(prefix="x"), model="m", extra={})


# --- roles ---------------------------------------------------------------------------------------


def sent_messages(roles: Roles, *messages: dict[str, object]) -> object:
    row = replace(BACKENDS["generic"], roles=roles)
    return body(row, opening(messages=messages), model="m", extra={})["messages"]


@pytest.mark.parametrize("theirs", ["system", "developer"])
@pytest.mark.parametrize("roles", [Roles.SYSTEM, Roles.DEVELOPER])
def test_instructions_come_in_the_role_that_the_server_knows(roles: Roles, theirs: str) -> None:
    [first, last] = MESSAGES
    assert sent_messages(roles, {**first, "role": theirs}, last) == [{**first, "role": roles.value}, last]
    assert sent_messages(Roles.ANY, {**first, "role": theirs}, last) == [{**first, "role": theirs}, last]


def test_without_a_role_for_them_they_go_to_the_front_of_the_first_user_message() -> None:
    [first, last] = MESSAGES
    told = "Carry out the procedure.\n\nThe bill, please."
    assert sent_messages(Roles.NONE, first, last) == [{"role": "user", "content": told}]
    parts = [{"type": "text", "text": "The bill, please."}]
    assert sent_messages(Roles.NONE, first, {"role": "user", "content": parts}) == [
        {"role": "user", "content": [{"type": "text", "text": first["content"]}, *parts]}
    ]
    assert sent_messages(Roles.NONE, first) == [{"role": "user", "content": first["content"]}]
    assert sent_messages(Roles.NONE, last) == [last]
    hello: dict[str, object] = {"role": "assistant", "content": "Hello."}
    late: dict[str, object] = {"role": "developer", "content": "Be brief."}
    assert sent_messages(Roles.NONE, first, hello, last, late) == [
        hello,
        {"role": "user", "content": "Carry out the procedure.\n\nBe brief.\n\nThe bill, please."},
    ]


def test_a_prefix_is_continued_in_the_way_of_the_server() -> None:
    def last(prefix: Prefix) -> tuple[object, set[str]]:
        row = replace(BACKENDS["generic"], prefix=prefix)
        sent = body(row, opening(prefix="1"), model="m", extra={})
        plain = body(row, opening(), model="m", extra={})
        messages: Any = sent["messages"]
        return messages[-1], set(sent) - set(plain)

    said_already = {"role": "assistant", "content": "1"}
    assert last(Prefix.TRAILING) == (said_already, set())
    assert last(Prefix.FLAGGED) == ({**said_already, "prefix": True}, set())
    assert last(Prefix.CONTINUE) == (said_already, {"continue_final_message", "add_generation_prompt"})


def test_a_grammar_without_room_for_thoughts_switches_them_off_where_one_can() -> None:
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    plain = opening(grammar=TEXTS[Dialect.GBNF])
    for thinking, sent in ((Thinking.FORBIDDEN, True), (Thinking.INSIDE, False), (Thinking.FREE, False)):
        row = backend_for("llama.cpp", "", {"prefix": Prefix.NONE, "thinking": thinking})
        made = body(row, plain, model="m", extra={})
        assert (made.get("chat_template_kwargs") == off["chat_template_kwargs"]) is sent
        assert row.target("u", "m").thoughts is (thinking is Thinking.INSIDE)
        ungrammared = body(row, replace(plain, grammar=None), model="m", extra={})
        assert "chat_template_kwargs" not in ungrammared
    theirs = {"chat_template_kwargs": {"date": "2026"}}
    both = body(backend_for("llama.cpp", ""), plain, model="m", extra=theirs)
    assert both["chat_template_kwargs"] == {"date": "2026", "enable_thinking": False}

"""Who binds a request to what, and every way in which a request can be wrong."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from tests.proxy.running import (
    ASK,
    BODY,
    BOUND,
    INPUTS,
    PASSING,
    PORTS,
    TRACE,
    Reply,
    behind,
    read_reply,
    request,
    run,
    running,
    scripted,
)
from tests.upstream.servers import DONE, Connection, head, said, serving

FREE = {"model": "any", "messages": ASK["messages"]}
KEYS = "server: {port: 0, api_keys: [key-a, key-b]}\nadmin: {port: 0}\n"


def asks(tmp_path: Path, body: object, *, config: str = BOUND, server: str = PORTS, **options: str) -> Reply:
    """The answer to one request; where it is a refusal of ours, after a look at whether it was counted."""
    return asks_all(tmp_path, [body], config=config, server=server, **options)[0]


def asks_all(
    tmp_path: Path, bodies: Sequence[object], *, config: str = BOUND, server: str = PORTS, **options: str
) -> list[Reply]:
    async def ask() -> list[Reply]:
        async with running(scripted(tmp_path, TRACE, config=config, server=server)) as endpoint:
            replies = [await endpoint.post(body, **options) for body in bodies]
            ours = [
                reply for reply in replies if reply.status >= 400 and "outcome" not in reply.body.decode()
            ]
            refused = Counter(
                reply.error["code"] for reply in ours if reply.error["type"] != "not_found_error"
            )
            for code, count in refused.items():
                assert await endpoint.counted(f'stepguard_requests_refused_total{{code="{code}"}}') == count
            return replies

    return run(ask())


def answer(reply: Reply) -> str:
    content: str = reply.json["choices"][0]["message"]["content"]
    return content


# --- binding -------------------------------------------------------------------------------------


def test_the_body_can_bind(tmp_path: Path) -> None:
    control = {"procedure": "chain", "inputs": INPUTS}
    assert answer(asks(tmp_path, {**FREE, "stepguard": control}, config="")) == "38"


def test_the_header_can_bind(tmp_path: Path) -> None:
    body = {**FREE, "stepguard": {"inputs": INPUTS}}
    assert answer(asks(tmp_path, body, config="", x_stepguard_procedure="chain")) == "38"


def test_the_path_can_bind(tmp_path: Path) -> None:
    body = {**FREE, "stepguard": {"inputs": INPUTS}}
    assert answer(asks(tmp_path, body, config="", path="/p/chain/v1/chat/completions")) == "38"


def test_bindings_that_agree_are_one(tmp_path: Path) -> None:
    body = {**BODY, "stepguard": {"procedure": "chain", "inputs": INPUTS}}
    path = "/p/chain/v1/chat/completions"
    assert answer(asks(tmp_path, body, path=path, x_stepguard_procedure="chain")) == "38"


@pytest.mark.parametrize(
    ("control", "options"),
    [
        ({"procedure": "chain"}, {"path": "/p/invoice/v1/chat/completions"}),
        ({"procedure": "chain"}, {"x_stepguard_procedure": "invoice"}),
        ({}, {"path": "/p/invoice/v1/chat/completions"}),
        ({"procedure": "invoice"}, {}),
    ],
)
def test_bindings_that_disagree_are_refused(
    tmp_path: Path, control: dict[str, str], options: dict[str, str]
) -> None:
    reply = asks(tmp_path, {**BODY, "stepguard": {**control, "inputs": INPUTS}}, **options)
    assert (reply.status, reply.error["code"]) == (400, "binding_conflict")


def test_a_route_may_let_the_client_choose(tmp_path: Path) -> None:
    config = "routes: [{model: chain, procedure: invoice, override: true}]"
    control = {"procedure": "chain", "inputs": INPUTS}
    assert answer(asks(tmp_path, {**BODY, "stepguard": control}, config=config)) == "38"


@pytest.mark.parametrize(
    ("body", "options"),
    [
        ({**FREE, "stepguard": {"procedure": "retail_cancel"}}, {}),
        (FREE, {"x_stepguard_procedure": "retail_cancel"}),
        (FREE, {"path": "/p/retail_cancel/v1/chat/completions"}),
    ],
)
def test_a_procedure_with_tool_steps_is_refused(
    tmp_path: Path, body: dict[str, Any], options: dict[str, str]
) -> None:
    reply = asks(tmp_path, body, config="", **options)
    assert (reply.status, reply.error["code"]) == (400, "conversation_procedure")
    assert "running such procedures over a conversation is not possible yet" in reply.error["message"]


def test_an_unknown_procedure_is_named(tmp_path: Path) -> None:
    reply = asks(tmp_path, {**FREE, "stepguard": {"procedure": "chian"}}, config="")
    assert (reply.status, reply.error["code"]) == (400, "unknown_procedure")
    assert reply.error["param"] == "stepguard.procedure"
    assert "'chain'" in reply.error["message"]


def test_inputs_without_a_procedure_are_refused(tmp_path: Path) -> None:
    reply = asks(tmp_path, {**FREE, "stepguard": {"inputs": INPUTS}}, config="")
    assert (reply.status, reply.error["param"]) == (400, "stepguard.procedure")


def test_unbound_requests_can_be_refused(tmp_path: Path) -> None:
    config = BOUND + "defaults: {unbound: refuse}"
    refused, bound = asks_all(tmp_path, [FREE, BODY], config=config)
    assert (refused.status, refused.error["code"]) == (400, "unbound")
    assert "`unbound: pass`" in refused.error["message"]
    assert answer(bound) == "38"


CHAT = {"model": "any", "messages": ASK["messages"]}
OPEN = "{model: any, upstream: play}"


@pytest.mark.parametrize(
    ("config", "passed"),
    [
        ("", True),
        (BOUND, False),
        (BOUND + "defaults: {unbound: pass}", True),
        (f"routes: [{OPEN}, {{model: chain, procedure: chain}}]", True),
        (f"routes: [{OPEN}]\ndefaults: {{unbound: refuse}}", False),
        ("routes: [{model: any, unbound: pass}]\ndefaults: {unbound: refuse}", True),
        ("routes: [{model: any, unbound: refuse}]\ndefaults: {unbound: pass}", False),
    ],
)
def test_what_generates_unbound_passes_only_where_the_configuration_says_so_or_says_nothing(
    tmp_path: Path, config: str, passed: bool
) -> None:
    for options in ({}, {"path": "/v1/completions"}, {"path": "/v1/anything/else", "method": "PUT"}):
        reply = asks(tmp_path, CHAT, config=config, **options)
        if passed:
            assert reply.headers["x-stepguard-outcome"] == "passthrough"
            assert reply.status == (404 if options else 200)  # which is what a scripted upstream says
        else:
            assert (reply.status, reply.error["code"]) == (400, "unbound")
    quiet = asks(tmp_path, {}, config=config, path="/v1/embeddings")
    assert quiet.headers["x-stepguard-outcome"] == "passthrough"


def test_a_procedure_that_is_off_lets_its_requests_pass(tmp_path: Path) -> None:
    async def behave(connection: Connection) -> None:
        body = await connection.request()
        assert body == {"model": "gpt-x", "messages": ASK["messages"], "stream": True}
        await connection.stream(said("hello"), DONE)

    async def body() -> None:
        config = "routes: [{model: chain, procedure: chain, upstream_model: gpt-x, mode: off}]"
        async with (
            serving(behave) as server,
            running(behind(tmp_path, server.url, config=config)) as endpoint,
        ):
            reply = await endpoint.post({**BODY, "stream": True})
            assert reply.body == said("hello") + DONE

    run(body())


def test_the_other_generating_endpoints_cannot_slip_past_the_guard(tmp_path: Path) -> None:
    paths = [
        "/v1/responses",
        "/v1/completions?x=1",
        "/v1/messages",
        "/p/chain/v1/completions",
        "/v1/chat/completions/",
        "/v1//chat/completions",
        "/v1/x%2F..%2Fchat%2Fcompletions",
        "/v1/Chat/Completions",
        "/v1/chat%5Ccompletions",
        "/v1/chat/completions%253Fx",
        "/v1/chat/./completions;x",
        "/v1/chat/completions%00",
        "/v1/completion",
        "/v1/infill",
        "/v1/api/chat",
        "/v1/api/generate",
    ]

    async def body() -> None:
        async with running(scripted(tmp_path, TRACE)) as endpoint:
            for path in paths:
                reply = await endpoint.post({"model": "any" if "/p/" in path else "chain"}, path=path)
                assert reply.error["code"] == "unsupported_endpoint", path
            reply = await endpoint.post({"model": "chain"}, path="/v1/chat/completions", method="PUT")
            assert reply.error["code"] == "unsupported_endpoint"

    run(body())


POLICIES = "policies: {bare: {content: trace}, full: {content: both}, lax: {mode: off, content: trace}}\n"
CONTROL = {"procedure": "chain", "inputs": INPUTS}


def test_the_client_may_choose_among_policies_where_no_route_does(tmp_path: Path) -> None:
    body = {**FREE, "stepguard": {**CONTROL, "policy": "bare"}}
    assert "@begin" in answer(asks(tmp_path, body, config=POLICIES))
    body = {**FREE, "stepguard": {**CONTROL, "policy": "none"}}
    reply = asks(tmp_path, body, config=POLICIES)
    assert (reply.status, reply.error["code"]) == (400, "unknown_policy")
    assert reply.error["message"].endswith("there are 'bare', 'default', 'full', 'lax'")


def test_a_route_for_all_models_leaves_clients_only_what_it_names(tmp_path: Path) -> None:
    config = f"{POLICIES}routes: [{{policy: bare, policies: [full], modes: [observe]}}]"
    asked: list[tuple[dict[str, str], object]] = [
        ({}, 200),
        ({"policy": "full"}, 200),
        ({"mode": "observe"}, 200),
        ({"policy": "default"}, "policy_not_allowed"),
        ({"mode": "off"}, "mode_not_allowed"),
    ]
    bodies = [{**FREE, "stepguard": {**CONTROL, **said}} for said, _ in asked]
    replies = asks_all(tmp_path, bodies, config=config)
    assert [reply.status if reply.status == 200 else reply.error["code"] for reply in replies] == [
        expected for _, expected in asked
    ]


def test_who_may_not_choose_cannot_find_out_what_there_is(tmp_path: Path) -> None:
    config = f"{POLICIES}routes: [{{model: any, procedure: chain, policy: full, policies: [bare]}}]"
    for field, there, not_there in (("policy", "lax", "lux"), ("procedure", "invoice", "involce")):
        bodies = [{**FREE, "stepguard": {**CONTROL, field: name}} for name in (there, not_there)]
        known, unknown = (reply.error for reply in asks_all(tmp_path, bodies, config=config))
        assert known == unknown | {"message": unknown["message"].replace(not_there, there)}
        assert there not in unknown["message"]


TWICE = [
    ("x_stepguard_procedure", "chain", "invoice"),
    ("x_stepguard_policy", "bare", "full"),
    ("x_stepguard_mode", "off", "enforce"),
    ("x_stepguard_key", "key-a", "key-b"),
    ("authorization", "Bearer key-a", "Bearer key-b"),
]


@pytest.mark.parametrize(("header", "one", "other"), TWICE)
@pytest.mark.parametrize("server", [PORTS, KEYS])
def test_a_header_of_ours_that_says_two_things_is_refused(
    tmp_path: Path, header: str, one: str, other: str, server: str
) -> None:
    name = header.replace("_", "-")
    key = {} if "key-a" in one else {"authorization": "Bearer key-a"}
    body = {**FREE, "stepguard": CONTROL}
    for first, last in ((one, other), (other, one)):
        twice = {**key, header: f"{first}\r\n{name.title()}: {last}"}
        reply = asks(tmp_path, body, config=POLICIES, server=server, **twice)
        assert (reply.status, reply.error["code"]) == (400, "header_conflict")
        assert name in reply.error["message"]
        assert not any(value in reply.body.decode() for value in ("key-a", "key-b"))
    agreed = {**key, header: f"{one}\r\n{name.title()}:{one} "}
    assert asks(tmp_path, body, config=POLICIES, server=server, **agreed).status == 200


@pytest.mark.parametrize(
    ("route", "policy", "allowed"),
    [
        ("policy: full", "bare", "'full'"),
        ("policy: full", "default", "'full'"),
        ("policy: full, policies: [default]", "bare", "'default', 'full'"),
        ("policies: full", "bare", "'default', 'full'"),
        ("policy: full", "full", None),
        ("policy: full, policies: bare", "bare", None),
        ("policy: full, override: true", "bare", None),
        ("modes: [off]", "bare", None),
    ],
)
@pytest.mark.parametrize("where", ["body", "header"])
def test_a_policy_that_the_route_does_not_allow_is_forbidden(
    tmp_path: Path, route: str, policy: str, allowed: str | None, where: str
) -> None:
    config = f"{POLICIES}routes: [{{model: any, procedure: chain, {route}}}]"
    said = {"policy": policy} if where == "body" else {}
    options = {"x_stepguard_policy": policy} if where == "header" else {}
    reply = asks(tmp_path, {**FREE, "stepguard": {**CONTROL, **said}}, config=config, **options)
    if allowed is None:
        assert "38" in answer(reply)
    else:
        assert (reply.status, reply.error["code"]) == (403, "policy_not_allowed")
        assert reply.error["param"] == "stepguard.policy"
        assert repr(policy) in reply.error["message"]
        assert reply.error["message"].endswith(f"allowed: {allowed}")


@pytest.mark.parametrize(
    ("config", "asked", "expected"),
    [
        ("routes: [{model: any, procedure: chain}]", {}, "enforce"),
        ("routes: [{model: any, procedure: chain}]", {"mode": "off"}, None),
        ("routes: [{model: any, procedure: chain}]", {"mode": "enforce"}, "enforce"),
        ("routes: [{model: any, procedure: chain, modes: [off]}]", {"mode": "off"}, "off"),
        ("routes: [{model: any, procedure: chain, modes: [off]}]", {}, "enforce"),
        ("routes: [{model: any, procedure: chain, override: true}]", {"mode": "off"}, "off"),
        ("routes: [{model: any, procedure: chain, policy: lax}]", {}, "off"),
        ("routes: [{model: any, procedure: chain, policy: lax, mode: enforce}]", {}, "enforce"),
        ("routes: [{model: any, procedure: chain, policy: lax, mode: enforce}]", {"mode": "off"}, None),
        ("routes: [{model: any, procedure: chain, policy: lax, modes: [enforce]}]", {"mode": "enforce"}, "enforce"),
        ("routes: [{model: any, procedure: chain, policy: bare, policies: [lax]}]", {"policy": "lax"}, "off"),
        ("routes: [{model: any, procedure: chain}]", {"policy": "lax"}, None),
        ("routes: [{model: any, procedure: chain, mode: enforce}]", {"policy": "lax"}, "enforce"),
        ("defaults: {mode: off}\nroutes: [{model: any, procedure: chain}]", {}, "off"),
        ("defaults: {mode: off}\nroutes: [{model: any, procedure: chain, mode: enforce}]", {}, "enforce"),
        ("defaults: {policy: lax}\nroutes: [{model: any, procedure: chain}]", {}, "off"),
        ("defaults: {policy: lax, mode: enforce}\nroutes: [{model: any, procedure: chain}]", {}, "off"),
        ("", {"mode": "off"}, "off"),
        ("", {"policy": "lax"}, "off"),
        ("defaults: {unbound: refuse}", {"mode": "off"}, None),
        ("defaults: {unbound: refuse}", {"policy": "lax"}, None),
        ("defaults: {unbound: refuse}", {}, "enforce"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", ["body", "header"])
def test_the_mode_is_the_clients_if_allowed_else_the_routes_else_the_policys_else_the_default_one(
    tmp_path: Path, config: str, asked: dict[str, str], expected: str | None, where: str
) -> None:
    said = asked if where == "body" else {}
    options = {f"x_stepguard_{name}": value for name, value in asked.items()} if where == "header" else {}
    reply = asks(tmp_path, {**FREE, "stepguard": {**CONTROL, **said}}, config=POLICIES + config, **options)
    match expected:
        case None:
            assert (reply.status, reply.error["code"]) == (403, "mode_not_allowed")
            assert "'off' is not allowed" in reply.error["message"]
            brought = "mode" not in asked
            assert ("policy 'lax' has it" in reply.error["message"]) == brought
            assert reply.error["param"] == ("stepguard.policy" if brought else "stepguard.mode")
        case "off":
            assert "stepguard" not in reply.json
        case _:
            assert reply.json["stepguard"]["outcome"] == "accepted_first"


@pytest.mark.parametrize(
    ("control", "options", "code"),
    [
        ({"mode": "strict"}, {}, "invalid_value"),
        ({"mode": 3}, {}, "invalid_value"),
        ({"policy": ["bare"]}, {}, "invalid_value"),
        ({"mode": "off"}, {"x_stepguard_mode": "enforce"}, "binding_conflict"),
        ({"policy": "bare"}, {"x_stepguard_policy": "full"}, "binding_conflict"),
        ({}, {"x_stepguard_mode": "strict"}, "invalid_value"),
    ],
)
def test_a_mode_or_policy_that_cannot_be_meant_is_refused(
    tmp_path: Path, control: dict[str, Any], options: dict[str, str], code: str
) -> None:
    reply = asks(tmp_path, {**FREE, "stepguard": {**CONTROL, **control}}, config=POLICIES, **options)
    assert (reply.status, reply.error["code"]) == (400, code)
    assert reply.error["param"] in {"stepguard.mode", "stepguard.policy"}


WATCH = "policies: {watch: {mode: observe, deliver: pass_through}}\n"
ELSEWHERE = "'enforce' with another policy than 'watch'"


@pytest.mark.parametrize(
    ("route", "asked", "allowed"),
    [
        ("override: true", {}, None),
        ("override: true", {"mode": "enforce"}, f"'observe', 'off', {ELSEWHERE}"),
        ("modes: [observe]", {}, None),
        ("modes: [observe]", {"mode": "enforce"}, f"'observe', {ELSEWHERE}"),
        ("modes: []", {"mode": "enforce"}, ELSEWHERE),
        ("modes: []", {"mode": "observe"}, ELSEWHERE),
        ("modes: []", {}, ELSEWHERE),
    ],
)
def test_a_policy_that_only_observes_is_never_enforced(
    tmp_path: Path, route: str, asked: dict[str, str], allowed: str | None
) -> None:
    config = f"{WATCH}routes: [{{model: any, procedure: chain, {route}}}]"
    body = {**FREE, "stepguard": {**CONTROL, "policy": "watch", **asked}}
    reply = asks(tmp_path, body, config=config)
    if allowed is None:
        assert "stepguard" not in reply.json
    else:
        assert (reply.status, reply.error["code"]) == (403, "mode_not_allowed")
        assert reply.error["message"].endswith(f"allowed: {allowed}")


@pytest.mark.parametrize("header", ["x_stepguard_mode", "x_stepguard_policy"])
def test_a_mode_or_policy_for_no_procedure_is_refused(tmp_path: Path, header: str) -> None:
    reply = asks(tmp_path, FREE, config="", **{header: "enforce"})
    assert (reply.status, reply.error["code"]) == (400, "unbound")


VALUES = """\
@begin chain {nonce}
1 s1 = 5
2 s2 = 15
So far so good.
3 s3 = 13
4 s4 = 18
5 s5 = 15
6 if false
7.1 s6 = 30
8 s7 = 43
9 return 38
@end {nonce}
"""


def test_a_policy_sets_the_form_of_the_trace_and_how_it_is_read(tmp_path: Path) -> None:
    short = "{trace: values, tolerant: true, content: trace, actions: [reject]}"
    config = f"policies: {{short: {short}, usual: {{actions: [reject]}}}}\n"
    control = {"procedure": "chain", "inputs": INPUTS, "policy": "short"}

    async def ask() -> None:
        async with running(scripted(tmp_path, VALUES, VALUES, config=config)) as endpoint:
            reply = await endpoint.post({**FREE, "stepguard": control})
            lines = answer(reply).splitlines()
            assert lines[1:-1] == [line for line in VALUES.splitlines()[1:-1] if line[0].isdigit()]
            refused = await endpoint.post({**FREE, "stepguard": {**control, "policy": "usual"}})
            assert refused.status == 422

    run(ask())


# --- what a request may hold ---------------------------------------------------------------------


def test_a_body_that_is_no_json_object_is_refused(tmp_path: Path) -> None:
    bodies = [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"a": NaN}',
        b'{"model": "chain", "messages": ' + b"[" * 10_000,
    ]
    for body, reply in zip(bodies, asks_all(tmp_path, bodies), strict=True):
        assert reply.status == 400, body
        assert (reply.error["code"], reply.error["type"]) == ("invalid_json", "invalid_request_error")


WRONG_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"messages": None}, "messages"),
    ({"messages": []}, "messages"),
    ({"model": "m" * 513, "stepguard": {"procedure": "chain", "inputs": INPUTS}}, "model"),
    ({"messages": [{"content": "x"}]}, "messages"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"temperature": "warm"}, "temperature"),
    ({"stepguard": 3}, "stepguard"),
    ({"stepguard": {"inputs": INPUTS, "polcy": "x"}}, "stepguard.polcy"),
    ({"stepguard": {"inputs": {}}}, "stepguard.inputs.a"),
    ({"stepguard": {"inputs": {"a": 1}}}, "stepguard.inputs.b"),
    ({"stepguard": {"inputs": {"a": "two", "b": 3}}}, "stepguard.inputs.a"),
    ({"stepguard": {"inputs": {"a": 2.5, "b": 3}}}, "stepguard.inputs.a"),
    ({"stepguard": {"inputs": {"a": True, "b": 3}}}, "stepguard.inputs.a"),
    ({"stepguard": {"inputs": {"a": 10**50, "b": 3}}}, "stepguard.inputs.a"),
    ({"stepguard": {"inputs": {**INPUTS, "c": 1}}}, "stepguard.inputs.c"),
    ({"n": 2}, "n"),
    ({"stop": ["\n"]}, "stop"),
    ({"tools": [{"type": "function"}]}, "tools"),
    ({"logprobs": True}, "logprobs"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"max_completion_tokens": 3}, "max_completion_tokens"),
    ({"max_tokens": 3}, "max_tokens"),
    ({"max_tokens": 3, "max_completion_tokens": 9}, "max_tokens"),
]


def test_a_request_that_cannot_be_carried_out_is_refused_with_the_field(tmp_path: Path) -> None:
    replies = asks_all(tmp_path, [{**BODY, **changes} for changes, _ in WRONG_FIELDS])
    for (changes, param), reply in zip(WRONG_FIELDS, replies, strict=True):
        assert reply.status == 400, changes
        assert reply.error["type"] == "invalid_request_error"
        assert reply.error["param"] == param
        assert param.startswith("stepguard") or param in reply.error["message"]


def test_an_input_as_large_as_no_number_is_refused_at_once(tmp_path: Path) -> None:
    body = json.dumps(BODY).replace('"a": 2', '"a": 1e999999').encode()
    started = asyncio.run(_timed(tmp_path, body))
    assert started < 5  # of processor time; as a whole number it would take minutes


async def _timed(tmp_path: Path, body: bytes) -> float:
    async with running(scripted(tmp_path, TRACE)) as endpoint:
        before = process_time()
        reply = await endpoint.post(body)
        assert reply.status == 400
        return process_time() - before


def test_all_wrong_inputs_are_named_at_once(tmp_path: Path) -> None:
    reply = asks(tmp_path, {**BODY, "stepguard": {"inputs": {"a": "x", "c": 1}}})
    for name in ("a", "b", "c"):
        assert f"{name!r}" in reply.error["message"]


def test_a_response_format_that_the_result_satisfies_is_fine(tmp_path: Path) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "integer"}}}
    assert answer(asks(tmp_path, {**BODY, "response_format": schema})) == "38"


# --- size, keys, paths ---------------------------------------------------------------------------


def test_a_prompt_of_ten_megabytes_is_refused(tmp_path: Path) -> None:
    body = {**BODY, "messages": [{"role": "user", "content": "x" * 10_000_000}]}
    reply = asks(tmp_path, body)
    assert (reply.status, reply.error["code"]) == (413, "request_too_large")


def test_a_body_that_does_not_say_its_length_is_refused_when_it_is_too_long(tmp_path: Path) -> None:
    async def body() -> None:
        server = "server: {port: 0, max_body_bytes: 100000}\nadmin: {port: 0}\n"
        async with running(scripted(tmp_path, TRACE, server=server)) as endpoint:
            reader, writer = await endpoint.connect()
            writer.write(request(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked"))
            for _ in range(20):
                writer.write(b"%x\r\n%s\r\n" % (10_000, b"x" * 10_000))
            status, _, data = await read_reply(reader)
            assert (status, json.loads(data)["error"]["code"]) == (413, "request_too_large")
            writer.close()

    run(body())


PRESENTED: list[tuple[dict[str, str], bool]] = [
    ({}, False),
    ({"authorization": "Bearer key-c"}, False),
    ({"authorization": "key-a"}, False),
    ({"authorization": "Bearer kéy"}, False),
    ({"x_stepguard_key": "key-c", "authorization": "Bearer key-a"}, False),
    ({"authorization": "Bearer key-a"}, True),
    ({"authorization": "bearer  key-b "}, True),
    ({"x_stepguard_key": "key-a", "authorization": "Bearer other"}, True),
]


def test_clients_need_a_key_where_there_are_some(tmp_path: Path) -> None:
    async def body() -> None:
        async with running(scripted(tmp_path, TRACE, server=KEYS)) as endpoint:
            for path in ("/v1/chat/completions", "/v1/models", "/v1/embeddings", "/elsewhere"):
                for headers, known in PRESENTED:
                    reply = await endpoint.post(BODY, path=path, **headers)
                    assert (reply.status != 401) == known, headers
                    assert known or reply.error["code"] == "invalid_api_key"

    run(body())


def test_a_route_can_be_for_one_client(tmp_path: Path) -> None:
    config = "routes: [{api_key: key-a, procedure: chain}, {api_key: key-b}]"
    bound = asks(tmp_path, BODY, config=config, server=KEYS, authorization="Bearer key-a")
    assert answer(bound) == "38"
    free = asks(tmp_path, FREE, config=config, server=KEYS, authorization="Bearer key-b")
    assert free.json["model"] == "scripted"


def test_the_keys_of_both_sides_stay_apart(tmp_path: Path) -> None:
    seen: list[str | None] = []

    async def behave(connection: Connection) -> None:
        await connection.request()
        seen.append(connection.header("authorization"))
        assert "key-a" not in connection.head
        await connection.stream(said("x", "stop"), DONE)

    async def body() -> None:
        async with serving(behave) as server:
            async with running(
                behind(tmp_path, server.url, config=PASSING, server=KEYS, pass_key=True)
            ) as endpoint:
                await endpoint.post(FREE, authorization="Bearer key-a")
                await endpoint.post(FREE, authorization="Bearer theirs", x_stepguard_key="key-a")
            async with running(
                behind(tmp_path, server.url, config=PASSING, server=KEYS, api_key="own")
            ) as endpoint:
                await endpoint.post(FREE, authorization="Bearer key-a")

    run(body())
    assert seen == [None, "Bearer theirs", "Bearer own"]


def test_a_procedure_that_asks_for_the_time_is_given_it_once_in_its_zone(tmp_path: Path) -> None:
    (tmp_path / "dated.proc").write_text(
        'now in "+05:30"\nprocedure dated(now: datetime, today: date) -> int\n  return year(today) + hour(now)\n'
    )
    config = "procedures: [dated.proc]\nroutes: [{model: dated, procedure: dated}]"
    prompts: list[str] = []

    async def behave(connection: Connection) -> None:
        prompts.append((await connection.request())["messages"][-1]["content"])
        await connection.stream(said("@", "stop"), DONE)

    async def body() -> None:
        async with (
            serving(behave) as server,
            running(behind(tmp_path, server.url, config=config)) as endpoint,
        ):
            asked = {"model": "dated", "messages": ASK["messages"]}
            before = datetime.now(UTC).replace(microsecond=0)  # noqa: TID251
            await endpoint.post(asked)
            given = len(prompts)
            shown = re.search("now = (.*)\ntoday = (.*)", prompts[0])
            assert shown is not None
            now = datetime.fromisoformat(shown[1])
            assert now.utcoffset() == timedelta(hours=5, minutes=30)
            assert shown[2] == now.date().isoformat()
            assert timedelta() <= now - before < timedelta(minutes=2)
            assert all(shown[0] in prompt for prompt in prompts)  # a later attempt has the same time
            await endpoint.post({**asked, "stepguard": {"inputs": {"now": "2026-12-31T20:00:00Z"}}})
            assert "now = 2026-12-31T20:00:00+00:00\ntoday = 2027-01-01" in prompts[given]

    run(body())


def test_a_path_that_is_not_there_is_a_404(tmp_path: Path) -> None:
    async def body() -> None:
        async with running(scripted(tmp_path, TRACE)) as endpoint:
            for path in (
                "/",
                "/chat/completions",
                "/healthz",
                "/metrics",
                "/docs",
                "/openapi.json",
                "/p/chain",
            ):
                reply = await endpoint.post(path=path, method="GET")
                assert (reply.status, reply.error["code"]) == (404, "not_found")

    run(body())


@pytest.mark.parametrize(
    ("more", "listed"),
    [
        ("", ["chain"]),
        ("defaults: {unbound: pass}", ["chain", "scripted"]),
        ("routes: [{model: 'script*'}]", ["scripted"]),
        ("routes: [{model: 'script*', procedure: chain}]", ["scripted"]),
        ("routes: [{model: 'script*', unbound: refuse}]", []),
    ],
)
def test_models_are_those_of_the_routes_and_the_upstreams_that_a_client_may_use(
    tmp_path: Path, more: str, listed: list[str]
) -> None:
    async def body() -> None:
        own = "routes: [{model: chain, procedure: chain}, {model: 'x-*', procedure: chain}, {model: free}]\n"
        config = more if "routes" in more else own + more
        async with running(scripted(tmp_path, TRACE, config=config)) as endpoint:
            reply = await endpoint.post(method="GET", path="/v1/models")
            assert [model["id"] for model in reply.json["data"]] == listed

    run(body())


TENANTS = """
routes:
  - {model: chain-a, procedure: chain, api_key: key-a}
  - {model: chain-b, procedure: chain, api_key: key-b}
"""


@pytest.mark.parametrize(
    ("key", "seen", "hidden"), [("key-a", "chain-a", "chain-b"), ("key-b", "chain-b", "chain-a")]
)
def test_a_key_sees_its_own_routes_only(tmp_path: Path, key: str, seen: str, hidden: str) -> None:
    async def body() -> None:
        async with running(scripted(tmp_path, TRACE, config=TENANTS, server=KEYS)) as endpoint:
            told = {"authorization": f"Bearer {key}"}
            listed = await endpoint.post(method="GET", path="/v1/models", **told)
            assert [model["id"] for model in listed.json["data"]] == [seen]
            assert (await endpoint.post(method="GET", path=f"/v1/models/{seen}", **told)).status == 200
            other, none = [
                await endpoint.post(method="GET", path=f"/v1/models/{name}", **told)
                for name in (hidden, "none")
            ]
            assert (other.status, none.status) == (404, 404)
            assert "stepguard" not in other.body.decode()

    run(body())


def test_a_key_of_ours_never_reaches_an_upstream_whatever_header_holds_it(tmp_path: Path) -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(head("200 OK", "Content-Length: 0", content_type="text/plain"))

    async def body() -> None:
        async with serving(behave) as server:
            service = behind(tmp_path, server.url, config="", server=KEYS, pass_key=True)
            async with running(service) as endpoint:
                told = {"x_stepguard_key": "key-a", "authorization": "Bearer theirs", "cookie": "a=b"}
                for name in ("x_api_key", "user_agent", "x_any", "accept"):
                    for value in ("key-b", "Bearer key-a", "k=key-a; b"):
                        reply = await endpoint.post({}, path="/v1/embeddings", **told, **{name: value})
                        assert reply.status == 200
                reply = await endpoint.post({}, path="/v1/embeddings?key=ke%79-b", **told)
                assert (reply.status, reply.error["code"]) == (400, "key_in_query")
            assert len(server.connections) > 0
            for connection in server.connections:
                assert "key-" not in connection.head
                assert connection.header("authorization") == "Bearer theirs"
                assert connection.header("cookie") == "a=b"

    run(body())


def test_one_of_our_models_and_one_that_nobody_has(tmp_path: Path) -> None:
    async def body() -> None:
        async with running(scripted(tmp_path, TRACE)) as endpoint:
            async with endpoint.client() as client:
                assert (await client.models.retrieve("chain")).owned_by == "stepguard"
            reply = await endpoint.post(method="GET", path="/v1/models/none")
            assert reply.status == 404

    run(body())


def test_models_of_an_upstream_that_is_down_are_left_out(tmp_path: Path) -> None:
    async def body() -> None:
        async with (
            running(behind(tmp_path, "http://127.0.0.1:9/v1")) as endpoint,
            endpoint.client() as client,
        ):
            assert [model.id async for model in client.models.list()] == ["chain"]

    run(body())


def test_a_conversation_that_ends_with_another_turn_gets_one_of_ours(tmp_path: Path) -> None:
    messages = [*ASK["messages"], {"role": "assistant", "content": "What?"}]
    assert answer(asks(tmp_path, {**BODY, "messages": messages})) == "38"


def test_a_bug_of_ours_is_a_500_that_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("guard.proxy.routes.bind", fail)
    reply = asks(tmp_path, BODY)
    assert (reply.status, reply.error["message"], reply.error["code"]) == (
        500,
        "internal error",
        "internal_error",
    )
    assert "secret" in caplog.text

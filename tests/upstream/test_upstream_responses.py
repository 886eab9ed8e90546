"""A chat request in the words of the Responses API, and its answers from a server on the loopback."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from guard.errors import (
    InvalidState,
    UpstreamBusy,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamStatusError,
    UpstreamTimeout,
)
from guard.foreign import Said
from guard.run.messages import Ended, Text, Usage
from guard.upstream.backends import backend_for
from guard.upstream.capabilities import Api
from guard.upstream.local import LocalUpstream
from guard.upstream.model import resolve
from guard.upstream.request import body
from guard.upstream.responses import PLACES, in_responses
from guard.upstream.trial import Trial, overrides
from guard.wire.fields import Treatment, rule_for
from tests.upstream import openai_types
from tests.upstream.responding import Answer
from tests.upstream.servers import (
    DONE,
    SHORT,
    Call,
    Connection,
    answered,
    connected,
    event,
    first_pieces,
    hear,
    opening,
    run,
    serving,
    streams,
    text_in,
    whole,
)

ROW = backend_for("openai", "gpt-5-mini", {"api": Api.RESPONSES})
RESPONSES: dict[str, Any] = {
    "kind": "openai",
    "model": "gpt-5-mini",
    "capabilities": {"api": Api.RESPONSES},
}
USAGE = Usage(prompt=400, completion=90, reasoning=64)


def published(sent: dict[str, object]) -> dict[str, object]:
    """The same, after a look at whether it is of the type that OpenAI's library publishes."""
    openai_types.published(sent)
    return sent


def items(*messages: dict[str, object]) -> Any:
    """The items of the input that a conversation becomes."""
    return published(body(ROW, opening(messages=messages), model="m", extra={}))["input"]


def message(role: str, content: object) -> dict[str, object]:
    return {"type": "message", "role": role, "content": content}


def sent(**extra: object) -> dict[str, object]:
    """What is sent beside what always is."""
    command = opening(temperature=None)
    always = body(ROW, command, model="m", extra={})
    asked = published(body(ROW, command, model="m", extra=extra))
    return {name: value for name, value in asked.items() if always.get(name) != value}


# --- the request ---------------------------------------------------------------------------------


def test_messages_are_items_of_the_input_in_their_roles() -> None:
    assert items(
        {"role": "system", "content": "Add."},
        {"role": "user", "name": "ann", "content": "2 + 3"},
        {"role": "assistant", "content": "1 a = 2 + 3", "refusal": None},
        {"role": "user", "content": "Go on."},
    ) == [
        message("developer", "Add."),
        message("user", "2 + 3"),
        message("assistant", "1 a = 2 + 3"),
        message("user", "Go on."),
    ]


def test_parts_are_named_for_who_gives_them() -> None:
    picture = "data:image/png;base64,AAAA"
    parts = [
        {"type": "text", "text": "What does it say?"},
        {"type": "image_url", "image_url": {"url": picture}},
        {"type": "image_url", "image_url": {"url": "https://h/x.png", "detail": "low"}},
        {"type": "file", "file": {"file_data": "AAAA", "filename": "bill.pdf"}},
    ]
    [item] = items({"role": "user", "content": parts})
    assert item["content"] == [
        {"type": "input_text", "text": "What does it say?"},
        {"type": "input_image", "image_url": picture, "detail": "auto"},
        {"type": "input_image", "image_url": "https://h/x.png", "detail": "low"},
        {"type": "input_file", "file_data": "AAAA", "filename": "bill.pdf"},
    ]


def test_what_the_assistant_said_is_one_text() -> None:
    parts = [{"type": "text", "text": "1 a = 3"}, {"type": "text", "text": "2 b = 4"}]
    assert items({"role": "assistant", "content": parts}) == [message("assistant", "1 a = 3\n2 b = 4")]
    assert items({"role": "assistant", "content": None, "refusal": "No."}) == [message("assistant", "No.")]


def test_calls_of_tools_are_items_of_their_own() -> None:
    look = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    write = {"id": "c2", "type": "custom", "custom": {"name": "write", "input": "a"}}
    assert items(
        {"role": "assistant", "content": None, "tool_calls": [look, write]},
        {"role": "tool", "tool_call_id": "c1", "content": "red"},
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "done"}]},
        {"role": "assistant", "content": "It is red."},
    ) == [
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "write", "input": "a"},
        {"type": "function_call_output", "call_id": "c1", "output": "red"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "done"},
        message("assistant", "It is red."),
    ]


def test_what_has_no_counterpart_is_left_for_the_server_to_refuse() -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    odd: dict[str, object] = {"role": "assistant", "content": "", "tool_calls": [{"odd": 1}, 7]}
    sent = in_responses({"messages": [{"role": "user", "content": [audio]}, odd], "top_k": 5})
    assert sent["input"] == [message("user", [audio]), {"odd": 1}, {"type": "function_call"}]
    assert sent["top_k"] == 5
    with pytest.raises(ValueError, match="validation error"):
        published({"model": "m", "stream": True, **sent})


@pytest.mark.parametrize(
    ("call", "sent"),
    [
        ({"type": "custom_tool_call"}, {"type": "custom_tool_call"}),
        ({"type": "custom_tool_call", "call_id": 7}, {"type": "custom_tool_call", "call_id": 7}),
        (
            {"id": ["c"], "custom": {"name": "write", "input": "a"}},
            {"type": "custom_tool_call", "call_id": ["c"], "name": "write", "input": "a"},
        ),
    ],
)
def test_a_call_without_a_name_that_could_be_one_is_left_for_the_server_to_refuse(
    call: dict[str, object], sent: dict[str, object]
) -> None:
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    assert in_responses({"messages": [said]})["input"] == [sent]


def test_fields_of_the_client_go_to_their_places() -> None:
    assert sent(
        user="ann",
        metadata={"a": "b"},
        service_tier="flex",
        prompt_cache_key="k",
        safety_identifier="s",
        reasoning_effort="low",
        verbosity="low",
        store=True,
    ) == {
        "user": "ann",
        "metadata": {"a": "b"},
        "service_tier": "flex",
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "reasoning": {"effort": "low"},
        "text": {"verbosity": "low"},
        "store": True,
    }
    assert sent(reasoning={"summary": "auto"}, reasoning_effort="high") == {
        "reasoning": {"summary": "auto", "effort": "high"}
    }
    assert sent(text={"verbosity": "high"}, verbosity="low") == {"text": {"verbosity": "low"}}
    assert sent(text="odd", verbosity="low") == {"text": {"verbosity": "low"}}


def test_a_schema_and_how_many_words_stand_side_by_side() -> None:
    row = backend_for("openai", "gpt-4o", {"api": Api.RESPONSES})
    schema = '{"type": "object", "properties": {}, "required": [], "additionalProperties": false}'
    made = published(body(row, opening(grammar=schema), model="m", extra={"verbosity": "low"}))
    form = {"type": "json_schema", "name": "trace", "schema": json.loads(schema), "strict": True}
    assert made["text"] == {"verbosity": "low", "format": form}


def test_every_field_of_a_chat_request_that_is_sent_on_has_a_counterpart() -> None:
    known = set(ResponseCreateParamsStreaming.__annotations__)
    for field in CompletionCreateParamsBase.__annotations__:
        if rule_for(field).treatment is Treatment.FORWARD and field != "seed":
            assert field in known or field in PLACES, field


def test_a_seed_a_stop_text_and_several_answers_are_not_asked_for() -> None:
    made = body(ROW, opening(seed=4, stop=("\n",), temperature=0.5, top_p=0.5), model="m", extra={})
    assert set(published(made)) == {"model", "input", "stream", "store", "max_output_tokens"}
    row = backend_for("openai", "gpt-4o", {"api": Api.RESPONSES})
    made = published(
        body(row, opening(seed=4, stop=("\n",), temperature=0.5, top_p=0.5), model="m", extra={})
    )
    assert (made["temperature"], made["top_p"]) == (0.5, 0.5)
    assert not {"seed", "stop", "n"} & set(made)


def test_what_an_operator_refuses_is_not_sent_by_either_name() -> None:
    for refused in ("store", "reasoning", "reasoning_effort"):
        row = backend_for("openai", "gpt-5", {"api": Api.RESPONSES, "refuses": frozenset({refused})})
        made = body(row, opening(temperature=None), model="m", extra={"reasoning_effort": "low"})
        assert refused not in made
        assert ("reasoning" in made) is (refused == "store")


def test_it_goes_on_from_no_prefix() -> None:
    with pytest.raises(InvalidState, match="cannot continue"):
        body(ROW, opening(prefix="1"), model="m", extra={})
    assert not backend_for("llama.cpp", "m", {"api": Api.RESPONSES}).prefill


# --- the answer ----------------------------------------------------------------------------------


def heard(*events: bytes, **settings: Any) -> list[Text | Ended]:
    return answered(streams(*events, **settings), **RESPONSES)


def fault(*events: bytes, **settings: Any) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        heard(*events, **settings)
    return caught.value


def test_what_is_written_into_the_tool_is_what_the_model_says() -> None:
    answer = Answer()
    events = [*answer.start(), *answer.summary(["Add."]), *answer.tool(["1 a", " = 3\n"]), *answer.end()]
    assert heard(*events) == [
        Text("", 1, thought="Add."),
        Text("1 a", 1),
        Text(" = 3\n", 1),
        Ended("stop", USAGE),
    ]


def test_what_is_said_beside_it_stands_on_lines_of_its_own() -> None:
    answer = Answer()
    events = [*answer.start(), *answer.text(["Here:"]), *answer.tool(["1 a = 3\n"]), *answer.end()]
    assert text_in(heard(*events)) == "Here:\n1 a = 3\n"


@pytest.mark.parametrize("finish_reason", ["length", "content_filter"])
def test_an_answer_that_was_cut_says_why(finish_reason: str) -> None:
    answer = Answer()
    pieces = heard(*answer.start(), *answer.tool(["1 a = "]), *answer.end(finish_reason))
    assert pieces[-1] == Ended(finish_reason, USAGE)


def test_the_last_event_is_the_end_whatever_follows_or_not() -> None:
    answer = Answer()
    events = [*answer.start(), *answer.tool(["1"]), *answer.end()]
    assert text_in(heard(*events, event(b"rubbish"))) == "1"
    assert text_in(heard(*events, DONE)) == "1"

    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.stream(*events, end=False)
        await connection.until_gone()

    assert text_in(answered(behave, **RESPONSES, timeouts=SHORT)) == "1"


def test_without_usage_the_tokens_are_estimated() -> None:
    answer = Answer()
    answer.tool(["x" * 40])
    bare = {"type": "response.completed", "response": answer.ended() | {"usage": None}}
    last = heard(*answer.start(), event(bare))[-1]
    assert last == Ended("stop", Usage(prompt=4, completion=10, estimated=True))


def test_an_answer_in_one_piece_will_do() -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        answer = Answer()
        answer.tool(["1 a = 3\n"])
        await connection.send(whole("200 OK", json.dumps(answer.ended()).encode()))

    pieces = answered(behave, **RESPONSES)
    assert text_in(pieces) == "1 a = 3\n"
    assert pieces[-1] == Ended("stop", USAGE)


def test_the_members_of_an_object_are_read_as_lines() -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        answer = Answer()
        text = '{"1 a = 1 + 2 = ": "3", "2 return ": "3"}'
        await connection.stream(*answer.start(), *answer.text(text), *answer.end())

    settings = RESPONSES | {"model": "gpt-4o"}
    assert text_in(answered(behave, opening(grammar="{}", model="gpt-4o"), **settings)) == (
        "1 a = 1 + 2 = 3\n2 return 3\n"
    )


def test_an_answer_that_is_as_long_as_it_may_be_was_cut_whatever_the_server_calls_it() -> None:
    answer = Answer()
    events = [*answer.start(), *answer.tool(["1 a = "]), *answer.end()]  # of 90 tokens
    for most, finish_reason in ((90, "length"), (91, "stop")):
        last = answered(streams(*events), opening(max_tokens=most), **RESPONSES)[-1]
        assert last == Ended(finish_reason, USAGE)


@pytest.mark.local
def test_llama_cpp_answers_by_it_as_well() -> None:
    """A server that is none of OpenAI's: it takes our requests, and we read its answers."""

    async def talk() -> tuple[Trial, str, list[str | None]]:
        upstream = LocalUpstream(
            "local", resolve(), threads=1, context=2048, slots=1, capabilities={"api": Api.RESPONSES}
        )
        await upstream.start()
        try:
            model = upstream.target.model
            trial = Trial(upstream, backend_for("local", "", {"api": Api.RESPONSES}), model)
            assert await trial.run()
            grammar = 'root ::= "1 a = " [0-9]{1,3} "\\n"\n'
            texts: list[str] = []
            ends: list[str | None] = []
            said_already: dict[str, object] = {"role": "assistant", "content": "@begin p aaaaaa\n1 a = 3"}
            asks: dict[str, object] = {"role": "user", "content": "Go on."}
            for command in (
                opening(grammar=grammar, model=model, messages=(asks, said_already, asks)),
                opening(max_tokens=4, model=model),
            ):
                *said, end = [piece async for piece in upstream.stream(command, client=Call())]
                assert isinstance(end, Ended)
                assert end.usage is not None
                assert not end.usage.estimated
                texts.append(text_in(said))
                ends.append(end.finish_reason)
            return trial, texts[0], ends
        finally:
            await upstream.close()

    trial, text, ends = asyncio.run(talk())
    assert overrides(trial.findings) == {}
    assert {finding.capability: finding.found for finding in trial.findings}["grammar"] == "obeyed"
    assert re.fullmatch(r"1 a = [0-9]{1,3}\n", text)
    assert ends == ["stop", "length"]


# --- what goes wrong -----------------------------------------------------------------------------


def test_a_stream_without_its_last_event_is_a_fault() -> None:
    answer = Answer()
    error = fault(*answer.start(), *answer.tool(["1 a = 3\n"]))
    assert isinstance(error, UpstreamProtocolError)
    assert "ended without its last event" in str(error)
    assert isinstance(fault(*answer.start(), answer.tool(["1"])[0][:-9]), UpstreamProtocolError)


@pytest.mark.parametrize("rubbish", [b"{", b"Hello", b"1 a"])
def test_what_is_no_event_is_a_fault(rubbish: bytes) -> None:
    error = fault(*Answer().start(), b"data: " + rubbish + b"\n\n")
    assert isinstance(error, UpstreamProtocolError)
    assert "something came that is no event of a response" in str(error)


def test_events_that_nobody_knows_are_passed_over() -> None:
    answer = Answer()
    odd = event({"type": "response.telepathy.delta", "delta": "?"})
    assert text_in(heard(*answer.start(), odd, *answer.tool(["1"]), odd, *answer.end())) == "1"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("server_error", UpstreamBusy),
        ("rate_limit_exceeded", UpstreamBusy),
        ("invalid_prompt", UpstreamStatusError),
    ],
)
def test_a_failure_in_the_stream_is_the_error_that_it_would_be(
    code: str, kind: type[UpstreamStatusError]
) -> None:
    answer = Answer()
    for told in (answer.failed(code, "No."), answer.error(code, "No.")):
        error = fault(*answer.start(), *told)
        assert type(error) is kind
        assert error.said == Said.of("No.", code=code)


def test_a_refused_request_is_told_with_its_reason() -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        reason = {"message": "Invalid grammar", "type": "invalid_request_error", "param": "tools[0].format"}
        await connection.send(
            whole("400 Bad Request", json.dumps({"error": reason | {"code": None}}).encode())
        )

    with pytest.raises(UpstreamStatusError, match=r"it answered 400$") as caught:
        answered(behave, **RESPONSES)
    assert "Invalid grammar" in caught.value.said.text
    assert caught.value.upstream_status == 400


def test_one_that_falls_silent_is_not_waited_for() -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.stream(*Answer().start(), end=False)
        await connection.until_gone()

    with pytest.raises(UpstreamTimeout):
        answered(behave, **RESPONSES, timeouts=SHORT)


def test_a_cut_closes_the_connection_at_once() -> None:
    async def talk() -> None:
        left = asyncio.Event()

        async def behave(connection: Connection) -> None:
            await connection.request()
            answer = Answer()
            await connection.stream(*answer.start(), *answer.tool(["1 a", " = 3\n"]), end=False)
            await connection.until_gone()
            left.set()

        async with serving(behave) as server, connected(server, **RESPONSES) as upstream:
            await first_pieces(upstream.stream(opening(), client=Call()), 2)
            await left.wait()

    run(talk())


def test_connections_are_reused() -> None:
    answer = Answer()
    events = [*answer.start(), *answer.tool(["1"]), *answer.end()]

    async def talk() -> int:
        async with serving(streams(*events)) as server, connected(server, **RESPONSES) as upstream:
            for _ in range(3):
                await hear(upstream)
            return len(server.connections)

    assert run(talk()) == 1

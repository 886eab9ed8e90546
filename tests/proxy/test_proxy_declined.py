"""A procedure that denies or escalates: told from an answer in the message itself, in the form that was asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.proxy.running import BODY, run, running, scripted

SAID: Final = "Nothing ordered."
OBJECT: Final = {"type": "object", "properties": {"whole": {"type": "integer"}}}
STRICT: Final = {**OBJECT, "required": ["whole"], "additionalProperties": False}
OPEN: Final = {"type": ["object", "null"], "properties": {"deny": {"type": "string"}}, "required": ["deny"]}


def schema(inner: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": inner}}


def asked(
    tmp_path: Path, end: str, settings: str, form: dict[str, Any] | None, *, stream: bool, qty: int = 0
) -> dict[str, Any]:
    """What a client reads: the message, whole or put together from a stream."""
    (tmp_path / "gate.proc").write_text(
        "procedure gate(qty: int) -> { whole: int }\n"
        f'  require qty > 0 else {end} "{SAID}"\n  return {{ whole: qty }}\n'
    )
    rest = f'= false\n1.1 {end} "{SAID}"' if qty == 0 else f'= true\n2 return {{"whole": {qty}}}'
    trace = f"@begin gate {{nonce}}\n1 require {qty} > 0 {rest}\n@end {{nonce}}\n"
    config = f"""
procedures: [gate.proc]
policies: {{default: {{{settings}}}}}
routes: [{{model: gate, procedure: gate}}]
"""
    body = {**BODY, "model": "gate", "stepguard": {"inputs": {"qty": qty}}, "stream": stream}

    async def ask() -> dict[str, Any]:
        async with running(scripted(tmp_path, trace, config=config)) as endpoint:
            reply = await endpoint.post(body if form is None else {**body, "response_format": form})
        assert reply.status == 200, reply.body
        if not stream:
            message: dict[str, Any] = reply.json["choices"][0]["message"]
            return message
        deltas = [event["choices"][0]["delta"] for event in reply.events]
        joined = {key: "".join(d.get(key, "") for d in deltas) for key in ("content", "refusal")}
        return {key: text or None for key, text in joined.items()}

    return run(ask())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("end", ["deny", "escalate"])
@pytest.mark.parametrize(
    ("form", "as_object"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, True),
        (schema(OBJECT), True),
        (schema({}), True),
        (schema(STRICT), False),
    ],
)
def test_it_is_a_refusal_and_fits_what_was_asked_for(
    tmp_path: Path, end: str, form: dict[str, Any] | None, as_object: bool | None, stream: bool
) -> None:
    message = asked(tmp_path, end, "steps_as: none", form, stream=stream)
    assert message["refusal"] == SAID
    if as_object is None:
        assert message["content"] == SAID
    elif as_object:
        assert json.loads(message["content"]) == {end: SAID}
    else:
        assert message["content"] is None


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("content", ["trace", "both"])
def test_beside_the_trace_it_is_a_refusal_too(tmp_path: Path, content: str, stream: bool) -> None:
    message = asked(tmp_path, "deny", f"content: {content}", None, stream=stream)
    assert message["refusal"] == SAID
    assert f'1.1 deny "{SAID}"\n@end ' in message["content"]
    assert message["content"].endswith(f"\n{SAID}") == (content == "both")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("form", [None, {"type": "json_object"}, schema(STRICT)])
def test_an_answer_is_no_refusal(tmp_path: Path, form: dict[str, Any] | None, stream: bool) -> None:
    message = asked(tmp_path, "deny", "steps_as: none", form, stream=stream, qty=7)
    assert message["refusal"] is None
    assert json.loads(message["content"]) == {"whole": 7}

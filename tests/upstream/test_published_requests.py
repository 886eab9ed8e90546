"""What a run of each shipped procedure asks OpenAI's models for is of the types that OpenAI publishes."""

from __future__ import annotations

from typing import Any

import pytest

from guard.dialect.notation import Dialect
from guard.run.messages import Open, Text
from guard.run.policy import Policy
from guard.run.run import Job, Run
from guard.trace import prompt, render
from guard.upstream.backends import backend_for
from guard.upstream.capabilities import Api
from guard.upstream.request import body
from tests.dialect.shipped import shipped
from tests.strategies import NONCE, Sample
from tests.upstream.openai_types import published


def asked(sample: Sample, model: str, api: Api) -> list[dict[str, object]]:
    """What is sent first, and behind half of the lines and a wrong one."""
    row = backend_for("openai", model, {"api": api})
    told = prompt.closing(sample.program, sample.inputs, NONCE)
    messages: tuple[dict[str, object], ...] = (
        {"role": "system", "content": prompt.instructions(sample.program)},
        {"role": "user", "content": told},
    )
    job = Job(program=sample.program, inputs=sample.inputs, messages=messages, nonce=NONCE)
    run = Run(job, Policy(), [row.target("u", model)])
    (first,) = run.start()
    assert isinstance(first, Open)
    half = sample.steps[: len(sample.steps) // 2]
    lines = render.trace(sample.program, half, NONCE).splitlines(keepends=True)[:-1]
    if first.grammar is not None and row.dialect is Dialect.JSON_SCHEMA:
        lines = lines[1:]
    run.handle(Text("".join(lines)))
    *_, second = run.handle(Text("wrong\n"))
    commands = [first, *([second] if isinstance(second, Open) else [])]
    return [body(row, command, model=model, extra={"user": "ann"}) for command in commands]


@pytest.mark.parametrize("api", Api)
@pytest.mark.parametrize("model", ["gpt-5-mini", "gpt-4o"])
@pytest.mark.parametrize("name", sorted(shipped()))
def test_every_request_is_of_its_type(name: str, model: str, api: Api) -> None:
    held: list[Any] = []
    for sent in asked(shipped()[name], model, api):
        _, tools = published(sent)
        text: Any = sent.get("text", {})
        held += [*tools, *filter(None, [sent.get("response_format"), text.get("format")])]
    assert held

"""The whole language through the endpoint: what a procedure can hold is carried out, answered and streamed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from guard.config import Service
from guard.procedure.execute import reference
from guard.procedure.expected import Form
from guard.procedure.load import load
from guard.procedure.model import StepKind
from guard.trace import render
from guard.upstream.scripted import NONCE
from tests.proxy.running import ASK, PORTS, configured, run, running

PROCEDURE = """\
now in "Europe/Berlin"
unit kg
unit g = 0.001 kg

record Parcel { name: string, weight: int g, insured: decimal(2)? }

procedure ship(note: text, parcels: list of Parcel, today: date, gift: bool = false) -> { kilos: decimal(3) kg, by: date, cover: decimal(2)?, way: string, names: list of string }
  any order
    extract wish: date? from note
    total = sum(p.weight as kg for p in parcels)
    heaviest = first(sort(p.weight for p in parcels by p.weight desc))
  by = wish else today + 1 months down
  one of at most 2
    try "road"
      require total < 2 kg else next
      way = "road"
    try "rail"
      way = "rail"
      require total < 50 kg else next
  else
    deny "Too heavy."
  insured = [p.insured for p in parcels if p.insured is not null]
  if heaviest > 1000 g and len(insured) > 0
    cover = max(insured)
  else
    cover = null
  check not gift
  return { kilos: total, by: by, cover: cover, way: way, names: [upper(p.name) for p in parcels] }
"""
INPUTS: dict[str, Any] = {
    "note": "Any time will do.",
    "parcels": [
        {"name": "hinge", "weight": 650, "insured": None},
        {"name": "panel", "weight": 4100, "insured": 20},
    ],
    "today": "2026-01-31",
}
ANSWER = {"kilos": 4.750, "by": "2026-02-28", "cover": 20.00, "way": "rail", "names": ["HINGE", "PANEL"]}


def spoken(form: Form) -> str:
    """The faithful trace, its nonce left to be put in."""
    program = load(PROCEDURE, "ship.proc").procedures["ship"].in_form(form)
    [choice] = [number for number, kind in program.step_numbers.items() if kind is StepKind.CHOICE]
    decisions = program.decide({"wish": None, f"{choice}[1]": "rail"})
    steps, _ = reference(program, program.accept(INPUTS), decisions)
    return render.trace(program, steps, "3fa92c").replace("3fa92c", NONCE)


def service(folder: Path, form: Form, force: str, *, prefill: bool) -> Service:
    (folder / "ship.proc").write_text(PROCEDURE)
    replies = [{"text": spoken(form)}]
    (folder / "script.yaml").write_text(yaml.safe_dump({"prefill": prefill, "replies": replies}))
    config = {
        "procedures": ["ship.proc"],
        "upstreams": {"play": {"kind": "scripted", "file": "script.yaml"}},
        "policies": {"default": {"trace": form.value, "force": force}},
        "routes": [{"model": "*", "procedure": "ship"}],
    }
    return configured(folder, PORTS + yaml.safe_dump(config))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("prefill", [False, True])
@pytest.mark.parametrize("force", ["none", "shape", "operands", "values"])
@pytest.mark.parametrize("form", list(Form))
def test_every_construct_is_carried_out_and_answered(
    tmp_path: Path, form: Form, force: str, prefill: bool, stream: bool
) -> None:
    body = {"model": "any", "messages": ASK["messages"], "stream": stream, "stepguard": {"inputs": INPUTS}}

    async def ask() -> None:
        async with running(service(tmp_path, form, force, prefill=prefill)) as endpoint:
            reply = await endpoint.post(body)
            assert reply.status == 200, reply.body
            answers = reply.events if stream else [reply.json]
            choices = [
                choice["delta" if stream else "message"] for one in answers for choice in one["choices"]
            ]
            assert json.loads("".join(choice.get("content") or "" for choice in choices)) == ANSWER
            report = answers[-1]["stepguard"]
            assert report["steps"]["missing"] == 0
            assert report["violations"] == []

    run(ask())

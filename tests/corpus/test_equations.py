"""Equations as people wrote them are read right or not at all, in every setting."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
import yaml

from guard.trace.freeform import read_freely
from tests.corpus.equations import NAME, SETTINGS, Equation, equations, written

CORPUS = os.environ.get("STEPGUARD_CORPUS")
SAMPLE = [
    Equation(*fields)
    for fields in yaml.safe_load((Path(__file__).parent / "gsm8k_equations.yaml").read_text("utf-8"))
]
MOST_UNREAD = {setting: 0.02 if setting == "plain" else 0.10 for setting in SETTINGS}


def whole() -> list[Equation]:
    lines = (Path(CORPUS or "") / "gsm8k_400.jsonl").read_text("utf-8").splitlines()
    return [equation for line in lines for equation in equations(json.loads(line)["answer"])]


def outcome(text: str, equation: Equation) -> str:
    seen = [one for one in read_freely(text, [NAME]).seen if one.name == NAME]
    assert len(seen) == 1, text
    if seen[0].result is None:
        return "unread"
    assert seen[0].result.value == equation.value, text
    return "right"


def check(found: list[Equation], setting: str) -> None:
    outcomes = Counter(outcome(written(equation, setting), equation) for equation in found)
    assert outcomes["unread"] / len(found) < MOST_UNREAD[setting], outcomes


@pytest.mark.parametrize("setting", SETTINGS)
def test_of_the_sample_nothing_is_misread_and_little_unread(setting: str) -> None:
    assert len(SAMPLE) == 100
    check(SAMPLE, setting)


@pytest.mark.skipif(not CORPUS, reason="STEPGUARD_CORPUS names no folder with gsm8k_400.jsonl")
@pytest.mark.parametrize("setting", SETTINGS)
def test_of_all_annotated_equations_nothing_is_misread_and_little_unread(setting: str) -> None:
    found = whole()
    assert len(found) == 1312
    assert found[5::13][:100] == SAMPLE
    check(found, setting)


@pytest.mark.skipif(not CORPUS, reason="STEPGUARD_CORPUS names no folder with gsm8k_400.jsonl")
def test_the_settings_differ() -> None:
    found = whole()
    for setting in SETTINGS[1:]:
        changed = [one for one in found if written(one, setting) != written(one, "plain")]
        assert len(changed) > len(found) // 3, setting

"""Two hundred outputs of small models, as they came, are read as their labels say."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from guard.trace.freeform import Reading, read_freely
from tests.corpus_real.real_outputs import OURS, label

HERE = Path(__file__).parent
CORPUS = os.environ.get("STEPGUARD_CORPUS")
ROWS: list[dict[str, Any]] = (
    [json.loads(line) for line in (Path(CORPUS) / "real_outputs.jsonl").read_text("utf-8").splitlines()]
    if CORPUS
    else []
)
LABELLED = [row for row in ROWS if "fail_kind" in row]
FREE = [row for row in ROWS if "fail_kind" not in row]
WRONG = {entry["id"]: entry for entry in yaml.safe_load((HERE / "wrong_labels.yaml").read_text("utf-8"))}
ANSWERS: dict[str, list[str]] = yaml.safe_load((HERE / "free_answers.yaml").read_text("utf-8"))

pytestmark = pytest.mark.skipif(not CORPUS, reason="STEPGUARD_CORPUS names no folder with real_outputs.jsonl")


def test_all_outputs_are_there() -> None:
    assert (len(LABELLED), len(FREE)) == (170, 30)
    assert set(WRONG) <= {row["id"] for row in LABELLED}


@pytest.mark.parametrize("row", LABELLED, ids=lambda row: str(row["id"]))
def test_the_first_wrong_step_and_its_kind_are_those_of_the_label(row: dict[str, Any]) -> None:
    expected = WRONG.get(row["id"], row)["fail_kind"]
    read = label(row)
    assert read.kind in OURS[expected]
    assert (read.theirs, read.step) == (expected, row["fail_step"])
    # One step a line: the place is in the line of that step.
    assert read.line is None or read.line == row["fail_step"]


@pytest.mark.parametrize("entry", WRONG.values(), ids=lambda entry: str(entry["id"]))
def test_a_label_listed_as_wrong_does_differ(entry: dict[str, Any]) -> None:
    [row] = [row for row in LABELLED if row["id"] == entry["id"]]
    assert row["fail_kind"] != entry["fail_kind"]


def read(row: dict[str, Any]) -> Reading:
    names = re.findall(r"^Step \d+: (\w+) =", row["prompt"], re.MULTILINE)
    given = re.findall(r"^(\w+) = ", row["prompt"], re.MULTILINE)
    return read_freely(row["output"], names, given=given)


@pytest.mark.parametrize("row", FREE, ids=lambda row: str(row["id"]))
def test_every_answer_of_a_free_form_output_is_found_where_it_stands(row: dict[str, Any]) -> None:
    reading = read(row)
    assert [answer.text for answer in reading.answers] == ANSWERS[row["id"]]
    for answer in reading.answers:
        assert row["output"][answer.at : answer.end] == answer.text
    if row["last_number_correct"]:
        assert reading.last_answer is not None
        assert reading.last_answer.value == row["answer"]


def test_a_faithful_free_form_output_misses_no_step() -> None:
    whole = [row for row in FREE if row["last_number_correct"] and row["model"] == "qwen"]
    assert whole
    assert all(not reading.missing and not reading.extra for reading in map(read, whole))

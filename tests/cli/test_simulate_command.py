"""`stepguard policy simulate`: what it prints, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guard.cli import main

MEASURES = ("success", "generated_steps", "attempts", "tokens", "latency_s")
CONFIG = """\
policies:
  bare:
    actions: [reject]
    mode: observe
  resuming: {actions: [resume, reject]}
  twice:
    extends: resuming
    attempts_per_step: 2
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "stepguard.yaml"
    file.write_text(CONFIG)
    return str(file)


def simulate(*arguments: str) -> int:
    return main(["policy", "simulate", *arguments])


def measured(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, float]]:
    assert simulate(*arguments, "--json") == 0
    found: dict[str, dict[str, float]] = json.loads(capsys.readouterr().out)
    return found


def test_the_json_has_every_measure_with_its_spread_beside_the_baselines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = measured(capsys, "default", "--steps", "12", "--p", "0.9", "--runs", "60")
    baselines = found["baselines"]
    assert {"restart", "resume", "voting"} < set(baselines)
    for sample in (found, *baselines.values()):
        assert isinstance(sample, dict)
        for measure in MEASURES:
            assert set(sample[measure]) == {"mean", "p50", "p95"}
    assert found["generated_steps"]["mean"] >= 12
    assert found["success"]["mean"] == 1
    assert sum(found["outcomes"].values()) == pytest.approx(1)


def test_the_table_has_a_row_for_the_policy_and_each_baseline(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("default", "--steps", "5", "--p", "1", "--runs", "5") == 0
    out = capsys.readouterr().out
    assert "default      100.00%  5.0/5/5        1.0/1/1    125/125/125      3.0/3/3\n" in out
    for name in ("unguarded", "restart", "resume", "voting"):
        assert f"\n{name}  " in out
    assert max(map(len, out.splitlines())) <= 88


def test_the_policy_is_that_of_the_configuration(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--config", config, "--steps", "10", "--p", "0.7", "--runs", "200")
    bare = measured(capsys, "bare", *arguments)
    twice = measured(capsys, "twice", *arguments)
    assert bare["attempts"]["p95"] == 1
    assert bare["success"]["mean"] < 0.2
    assert twice["success"]["mean"] > 0.6


def test_an_observing_policy_is_said_to_be_one(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("bare", "--config", config, "--steps", "2", "--p", "1", "--runs", "2") == 0
    assert "the policy's mode is observe" in capsys.readouterr().out


def test_the_chances_come_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "steps.csv"
    file.write_text("step,p,retry\n1-3,1\n4,0,1\n")
    found = measured(capsys, "default", "--p-step-file", str(file), "--runs", "5")
    assert found["generated_steps"] == {"mean": 5, "p50": 5, "p95": 5}
    found = measured(capsys, "default", "--p-step-file", str(file), "--steps", "9", "--p", "1", "--runs", "5")
    assert found["generated_steps"] == {"mean": 10, "p50": 10, "p95": 10}


def test_a_policy_that_restarts_can_do_so_only_while_nothing_was_delivered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "stepguard.yaml"
    again = "actions: [restart, reject], attempts_per_step: 50, attempts: 50"
    file.write_text(f"policies: {{soon: {{{again}}}, late: {{{again}, deliver: hold_all}}}}\n")
    arguments = ("--config", str(file), "--steps", "10", "--p", "0.8", "--runs", "100")
    assert measured(capsys, "soon", *arguments)["success"]["mean"] < 0.3
    assert measured(capsys, "late", *arguments)["success"]["mean"] == 1


def test_every_option_reaches_the_simulation(capsys: pytest.CaptureFixture[str]) -> None:
    found = measured(
        capsys,
        *("default", "--steps", "4", "--p", "0", "--retry", "0", "--scaffold", "0"),
        *("--wrong", "malformed=0.3,wrong_value", "--fallback-p", "1", "--judge", "1", "--runs", "20"),
        *("--step-tokens", "7", "--tokens-per-s", "70", "--first-token", "1", "--seed", "5"),
    )
    assert found["success"]["mean"] == 0  # the judged step is wrong, and nobody sees it
    assert found["outcomes"] == {"accepted_by_fallback": 1.0}
    assert found["tokens"]["mean"] == pytest.approx(7 * found["generated_steps"]["mean"])
    assert found["latency_s"]["mean"] == pytest.approx(
        found["attempts"]["mean"] + found["tokens"]["mean"] / 70
    )


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (
            ["nobody", "--steps", "5", "--p", "0.5"],
            "policy: there is no 'nobody' without --config; there are: default",
        ),
        (["default", "--steps", "5"], "--p: is needed"),
        (["default", "--p", "0.5"], "--steps: is needed"),
        (["default", "--p-step-file", "/nowhere.csv"], "/nowhere.csv: cannot be read"),
    ],
)
def test_what_is_missing_is_said(
    arguments: list[str], wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate(*arguments) == 2
    assert wanted in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "value", "wanted"),
    [
        ("--steps", "0", "expected 1 to 1000, found"),
        ("--steps", "1001", "expected 1 to 1000, found"),
        ("--tokens-per-s", "1e7", "expected a number from 0.001 to 1,000,000, found '1e7'"),
        ("--first-token", "-1", "expected a number from 0 to 86,400, found '-1'"),
        ("--seed", "-1", "expected 0 to 9223372036854775807, found '-1'"),
        ("--p", "1.5", "expected a number from 0 to 1, found '1.5'"),
        ("--judge", "0", "expected a step's number such as 17, or a range such as 17-20, found '0'"),
    ],
)
def test_a_bound_is_said_as_it_is(
    argument: str, value: str, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        simulate("default", "--p", "0.5", argument, value)
    assert wanted in capsys.readouterr().err


@pytest.mark.parametrize(
    ("shares", "wanted"),
    [
        ("late", "expected kinds, each once, of"),
        ("malformed,malformed", "expected kinds, each once, of"),
        ("malformed=2", "expected a number from 0 to 1, found '2'"),
        ("malformed=-1", "expected a number from 0 to 1, found '-1'"),
        ("malformed=nan", "expected a number from 0 to 1, found 'nan'"),
        ("malformed=", "expected a number from 0 to 1, found ''"),
        ("malformed=0", "expected a share above 0 of malformed, or to leave it out"),
        ("malformed=0.3", "expected shares that add up to 1, found 0.3"),
        ("malformed=0.7,wrong_value=0.7", "expected shares that add up to 1, found 1.4"),
        (
            "malformed=0.7,wrong_value=0.3,skipped_step",
            "add up to less than 1, since some have none, found 1",
        ),
    ],
)
def test_shares_of_what_a_wrong_line_is_are_parts_of_one(
    shares: str, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        simulate("default", "--steps", "5", "--p", "0.5", "--wrong", shares)
    assert wanted in capsys.readouterr().err

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
        *("--wrong", "malformed,wrong_value=2", "--fallback-p", "1", "--judge", "1", "--runs", "20"),
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
    "arguments",
    [
        ["--p", "1.5"],
        ["--p", "nan"],
        ["--steps", "0"],
        ["--steps", "many"],
        ["--runs", "-1"],
        ["--judge", "0"],
        ["--wrong", "late"],
        ["--wrong", "malformed,malformed"],
        ["--wrong", "malformed=0"],
        ["--tokens-per-s", "0"],
        ["--first-token", "inf"],
    ],
)
def test_an_absurd_value_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        simulate("default", "--steps", "5", "--p", "0.5", *arguments)
    assert exited.value.code == 2
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "value", "wanted"),
    [
        ("--steps", "0", "expected 1 to 1000, found"),
        ("--steps", "1001", "expected 1 to 1000, found"),
        ("--tokens-per-s", "1e7", "expected a number above 0, up to 1000000, found"),
    ],
)
def test_a_bound_is_said_as_it_is(
    argument: str, value: str, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        simulate("default", "--p", "0.5", argument, value)
    assert wanted in capsys.readouterr().err

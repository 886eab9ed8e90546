"""`stepguard policy`: what a policy of the configuration does, in words and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from guard.check.verdict import Kind
from guard.cli import main
from guard.cli.explain import explain
from guard.config import Config
from guard.config.lists import CASES
from guard.config.policies import PolicySettings
from guard.procedure.model import StepKind
from guard.run.ladders import Action, ladder

CONFIG = """\
upstreams:
  main: {kind: generic, base_url: "http://127.0.0.1:9/v1"}
  spare: {kind: llama.cpp, base_url: "http://127.0.0.1:8/v1"}
policies:
  strict:
    attempts: 6
    attempts_per_upstream: {spare: 3}
    actions: [feedback, "resume": 1, scaffold, fallback: spare, repair]
    rules:
      - {violation: malformed, actions: [restart: 1, reject]}
      - {step: [extract, judge], actions: [resume: 3, reject]}
  cheap: {extends: strict, compute: guard, votes: {most: 5}, rules: []}
  once: {actions: [resume, fallback, fallback: main, reject], deliver: hold_all}
  watch: {mode: observe, deliver: pass_through, sample: 0.1}
routes:
  - {model: a, procedure: invoice, policy: strict, upstream: [main, spare]}
  - {model: b, procedure: invoice, policies: [cheap]}
  - {model: "c*", procedure: chain, policy: watch, modes: ["off"]}
  - {model: d, procedure: chain, policy: once}
  - {model: e, procedure: invoice, policy: once, upstream: spare}
""".replace('"resume"', "resume")


@pytest.fixture
def config(tmp_path: Path) -> str:
    (tmp_path / "stepguard.yaml").write_text(CONFIG)
    return str(tmp_path / "stepguard.yaml")


def told(config: str, name: str, capsys: pytest.CaptureFixture[str]) -> Any:
    assert main(["policy", "explain", name, "--config", config, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def passed_over(route: Any) -> dict[str, str]:
    return {one["what"]: one["why"] for one in route["passed_over"]}


def test_the_table_has_the_rules_in_their_order_and_what_counts_for_the_rest(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = told(config, "strict", capsys)["table"]
    assert [(row["source"], row["violations"], row["steps"]) for row in table] == [
        ("rules[0]", ["malformed"], []),
        ("rules[1]", [], ["extract", "judge"]),
        ("actions", [], []),
    ]
    spelled = [(one["action"], one["at_most"], one["per"], one["upstream"]) for one in table[2]["actions"]]
    assert spelled == [
        ("feedback", 2, "step", None),
        ("resume", 1, "step", None),
        ("scaffold", 2, "step", None),
        ("fallback", None, None, "spare"),
        ("repair", None, None, None),
        ("reject", None, None, None),  # what is always behind the last one
    ]
    assert table[0]["actions"][0] == {"action": "restart", "at_most": 1, "per": "upstream", "upstream": None}


def test_what_a_route_cannot_use_is_said(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    strict = {route["route"]: route for route in told(config, "strict", capsys)["routes"]}
    said = passed_over(strict["routes[0]"])
    assert said["repair"] == "what the model decides cannot be repaired: steps 1, 2"
    assert "'spare'" in said["scaffold"]
    assert "'main'" not in said["scaffold"]
    assert "delivered" in said["restart"]
    assert "fallback" not in said
    once = {route["route"]: route for route in told(config, "once", capsys)["routes"]}
    assert passed_over(once["routes[3]"]) == {
        "fallback": "there is one upstream only, 'main'",
        "fallback: main": "it is the upstream that the run begins on",
    }
    assert "fallback: main" not in passed_over(once["routes[4]"])
    [cheap, _] = told(config, "cheap", capsys)["routes"]
    assert (cheap["route"], cheap["by"]) == ("routes[1]", "client")
    assert passed_over(cheap)["scaffold"] == "the guard writes each line that can be computed itself"
    watch = told(config, "watch", capsys)["routes"][0]
    assert (watch["mode"], watch["modes"]) == ("observe", ["off"])
    assert passed_over(watch) == {
        "everything": "in mode `observe` 10% of the requests are only checked and counted"
    }


def test_the_worst_case_is_the_sum_of_its_parts_where_the_procedure_says_how_much_is_decided(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chain = told(config, "once", capsys)["routes"][0]["worst"]
    assert chain == {
        "first": 1,
        "after_violations": 12,
        "after_faults": 2,
        "behind_decisions": 0,
        "behind_lines": 0,
        "votes": 0,
        "generations": 15,
        "output_tokens": 8000,
        "seconds": 120,
    }
    strict = told(config, "strict", capsys)["routes"][0]["worst"]
    assert (strict["after_violations"], strict["after_faults"]) == (6, 5)
    assert (strict["behind_decisions"], strict["generations"]) == (None, None)  # it has a loop


def test_votes_and_lanes_multiply_what_decisions_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "two.proc").write_text(
        "procedure two(t: text) -> int\n  extract a: int from t\n  extract b: int from t\n  return a + b\n"
    )
    (tmp_path / "stepguard.yaml").write_text(
        "procedures: [two.proc]\n"
        "policies: {p: {votes: {most: 5}, race: 2}}\n"
        "routes: [{procedure: two, policy: p}]\n"
    )
    worst = told(str(tmp_path / "stepguard.yaml"), "p", capsys)["routes"][0]["worst"]
    assert (worst["first"], worst["behind_decisions"], worst["votes"]) == (2, 2 * 2, 2 * 2 * 4)
    assert worst["generations"] == 2 + 12 + 2 + 4 + 16


def test_lines_are_passed_over_where_no_prefix_is_continued_and_counted_where_one_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "two.proc").write_text(
        "procedure two(note: text) -> int\n  extract a: int from note\n  b = a + 1\n  return b\n"
    )
    (tmp_path / "stepguard.yaml").write_text(
        "procedures: [two.proc]\n"
        "upstreams:\n"
        '  asked: {kind: generic, base_url: "http://127.0.0.1:9/v1"}\n'
        '  begun: {kind: llama.cpp, base_url: "http://127.0.0.1:8/v1"}\n'
        "policies:\n"
        "  lines: {force_by: lines, race: 2}\n"
        "  forced: {force_by: grammar}\n"
        "routes: [{procedure: two, policies: [lines, forced], upstream: [asked, begun]}]\n"
    )
    lines = told(str(tmp_path / "stepguard.yaml"), "lines", capsys)["routes"][0]
    over = passed_over(lines)
    assert over["force_by: lines"] == "'asked' does not continue a line that was begun"
    assert (
        over["scaffold"] == "`force: operands` gives the operands already on 'begun', wherever they are known"
    )
    worst = lines["worst"]
    assert (worst["behind_decisions"], worst["behind_lines"]) == (0, 2 * 2)
    assert worst["generations"] == 2 + 12 + 5 + 4
    forced = told(str(tmp_path / "stepguard.yaml"), "forced", capsys)["routes"][0]
    assert passed_over(forced)["force_by: grammar"] == "'asked' takes no grammar"
    assert (forced["worst"]["behind_decisions"], forced["worst"]["behind_lines"]) == (1, 0)
    assert main(["policy", "explain", "lines", "--config", str(tmp_path / "stepguard.yaml")]) == 0
    printed = capsys.readouterr().out
    assert "the model computes, force operands by lines, trace work" in printed
    assert "4 behind lines" in " ".join(printed.split())


def test_the_settings_are_those_that_count(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    settings = told(config, "cheap", capsys)["settings"]
    assert settings["extends"] == "strict"
    assert (settings["attempts"], settings["compute"], settings["votes"]["most"]) == (6, "guard", 5)
    assert settings["rules"] == []
    assert set(settings) == set(PolicySettings.model_fields)


@pytest.mark.parametrize("written", ["{compute: guard}", "{force: values}"])
def test_who_computes_and_what_is_forced_are_told_as_they_count_together(written: str) -> None:
    named = PolicySettings.model_validate(yaml.safe_load(written))
    told = explain(Config(), "a", named).settings
    assert (told["compute"], told["force"]) == ("guard", "values")


@pytest.mark.parametrize(
    ("route", "defaults", "enforced"),
    [
        ("modes: [enforce]", "unbound: refuse", ["routes[0]"]),
        ("override: true", "unbound: refuse", ["routes[0]"]),
        ("modes: [off]", "unbound: pass", [""]),
        ("modes: [off]", "unbound: refuse", []),
        ("mode: enforce", "unbound: refuse", ["routes[0]"]),
    ],
)
def test_what_is_enforced_only_where_a_client_asks_for_it_is_explained_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], route: str, defaults: str, enforced: list[str]
) -> None:
    file = tmp_path / "stepguard.yaml"
    file.write_text(
        'upstreams: {main: {kind: generic, base_url: "http://127.0.0.1:9/v1"}}\n'
        "policies: {tried: {mode: observe, actions: [fallback, reject]}}\n"
        f"routes: [{{model: a, procedure: chain, policy: tried, {route}}}]\n"
        f"defaults: {{{defaults}}}\n"
    )
    routes = told(str(file), "tried", capsys)["routes"]
    found = [one for one in routes if one["mode"] == "enforce"]
    assert [one["route"] for one in found] == enforced
    assert all(set(passed_over(one)) == {"fallback"} for one in found)


def test_it_is_told_in_words_of_at_most_80_columns(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "explain", "strict", "--config", config]) == 0
    printed = capsys.readouterr().out
    for said in (
        "policy strict",
        "malformed:\n      restart (once on an upstream), reject",
        "any violation at extract, judge:\n      resume (3 times at a step), reject",
        "any other violation:\n      feedback (2 times at a step), resume (once at a step), scaffold",
        "6 generations, of them 3 on spare",
        "On routes[0] a\n  mode enforce\n  upstreams main, spare\n",
        "passed over: repair: what the model decides cannot be repaired: steps 1, 2",
    ):
        assert said in printed
    heading = "What is done about a violation"
    assert all(len(line) <= 80 or line.startswith(heading) for line in printed.splitlines())
    assert main(["policy", "explain", "cheap", "--config", config]) == 0
    assert "\n  any violation:\n" in capsys.readouterr().out


def test_the_built_in_policy_is_explained_without_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "explain", "default"]) == 0
    printed = capsys.readouterr().out
    assert "fallback: there is one upstream only, 'local'" in printed
    words = " ".join(printed.split())
    assert (
        "wrong_expression: scaffold (2 times at a step), fallback, repair, feedback (until all attempts are spent), "
        "reject"
    ) in words


def test_policies_are_listed_with_their_routes(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "list", "--config", config]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "default: enforce, hold_step, 12 attempts; routes: b",
        "strict: enforce, hold_step, 6 attempts; routes: a",
        "cheap: enforce, hold_step, 6 attempts; routes: b",
        "once: enforce, hold_all, 12 attempts; routes: d, e",
        "watch: observe, pass_through, 12 attempts; routes: c*",
    ]
    assert main(["policy", "list", "--config", config, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == ["default", "strict", "cheap", "once", "watch"]
    assert rows[4] == {
        "name": "watch",
        "mode": "observe",
        "deliver": "pass_through",
        "attempts": 12,
        "routes": ["c*"],
    }


def test_an_unknown_policy_and_a_wrong_file_are_named(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policy", "explain", "strikt", "--config", config]) == 2
    assert "did you mean 'strict'?" in capsys.readouterr().err
    (tmp_path / "bad.yaml").write_text("policies:\n  p:\n    attempts: 0\n")
    for command in (["explain", "p"], ["list"]):
        assert main(["policy", *command, "--config", str(tmp_path / "bad.yaml")]) == 2
        assert "bad.yaml:3: policies.p.attempts: " in capsys.readouterr().err


ACTIONS = st.lists(st.sampled_from([one for one in Action if one != Action.REJECT]), min_size=1, unique=True)
RULES = st.lists(
    st.fixed_dictionaries(
        {"actions": ACTIONS},
        optional={
            "violation": st.lists(st.sampled_from(Kind), min_size=1, max_size=3, unique=True),
            "step": st.lists(st.sampled_from(StepKind), min_size=1, max_size=3, unique=True),
        },
    ),
    max_size=3,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rules=RULES,
    actions=st.none() | ACTIONS,
    kind=st.sampled_from(Kind),
    step=st.sampled_from([None, *StepKind]),
)
def test_the_first_row_that_fits_is_the_ladder_that_a_run_follows(
    rules: list[dict[str, Any]], actions: list[Action] | None, kind: Kind, step: StepKind | None
) -> None:
    made = PolicySettings.model_validate({"rules": rules, "actions": actions})
    table = explain(Config(), "p", made).table
    fitting = [
        row
        for row in table
        if (not row.violations or kind in row.violations) and (not row.steps or step in row.steps)
    ]
    followed = [rung.action.value for rung in ladder(made.policy.rules, kind, step, made.policy.force)]
    if not fitting:
        assert (kind, step) not in CASES  # there is no such violation at such a step
        return
    shown = [one["action"] for one in fitting[0].actions]
    assert shown[: len(followed)] == followed
    assert shown[len(followed) :] in ([], ["reject"])

"""The table of decisions: every action, and every reason for which one is passed over."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from pydantic import TypeAdapter

from guard.check.verdict import Kind
from guard.config.policies import Actions
from guard.run.ladders import GENERATING, Action, Rule
from guard.run.messages import Strategy, Target
from guard.run.policy import Attempt, Policy, decide

CASES: Final[list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parents[1] / "cases/decisions.yaml").read_text()
)
ACTIONS: Final[TypeAdapter[Any]] = TypeAdapter(Actions)

# What keeps each action from being taken; `N` stands for a number.
AT_STEP: Final = {
    "the upstream gave an identical response again",
    "all N attempts on this upstream are spent",
    "the same was wrong at this step N times",
}
ANYWHERE: Final = {"all N attempts are spent", "all N tokens are spent"}
REASONS: Final[dict[Action, set[str]]] = {
    Action.RESUME: AT_STEP | ANYWHERE | {"resume was tried N at this step"},
    Action.FEEDBACK: AT_STEP | ANYWHERE | {"feedback was tried N at this step"},
    Action.SCAFFOLD: AT_STEP
    | ANYWHERE
    | {"scaffold was tried N at this step", "the line has no operands that could still be given"},
    Action.ISOLATE: AT_STEP
    | ANYWHERE
    | {"isolate was tried N at this step", "nothing in the line can be asked for by itself"},
    Action.RESTART: AT_STEP
    | ANYWHERE
    | {"restart was tried N", "steps were delivered, which forbids a restart"},
    Action.FALLBACK: ANYWHERE
    | {
        "there is no further upstream",
        "the run is on the upstream to fall back to",
        "the upstream to fall back to was left",
        "there is no upstream to fall back to",
    },
    Action.REPAIR: {"what the model decides cannot be repaired"},
    Action.RELEASE: {"nothing was written that could be released"},
    Action.REJECT: {"the policy allows no retry"},
}


def attempt(number: int, told: dict[str, Any]) -> Attempt:
    by, at = Strategy(told["by"]), told.get("at", "3")
    return Attempt(
        upstream=told.get("upstream", 0),
        strategy=by,
        step=at,
        counted=told.get("counted", by is not Strategy.INITIAL),
        prefix=f"up to {at}",
        kind=Kind(told.get("kind", "wrong_value")),
        failed_at=told.get("failed", "3"),
        text=told.get("text", f"text {number}"),
        found=told.get("found", f"found {number}"),
        delivered=told.get("delivered", False),
        scaffoldable=told.get("scaffoldable", False),
        isolable=told.get("isolable", False),
        repairable=told.get("repairable", False),
        written=told.get("written", True),
    )


@pytest.mark.parametrize("case", CASES, ids=[case["about"] for case in CASES])
def test_a_decision_is_the_one_of_the_table(case: dict[str, Any]) -> None:
    ladder = tuple(entry.rung for entry in ACTIONS.validate_python(case["actions"]))
    upstreams = [
        Target(name=name.strip("()"), model="m", prefill=True, dialect=None, standby=name.startswith("("))
        for name in case.get("upstreams", ["a"])
    ]
    choice = decide(
        Policy(rules=(Rule(ladder=ladder),), **case.get("policy", {})),
        [attempt(number, told) for number, told in enumerate(case["history"])],
        upstreams=upstreams,
        barred=case.get("barred", ""),
    )
    does = Action(case["does"])
    assert choice.action is does
    assert choice.upstream == case.get("to")
    assert choice.rest == case.get("rest", False)
    assert choice.counted == case.get("counted", does in GENERATING)
    assert choice.reason == "; ".join(dict.fromkeys(case.get("passed", {}).values()))


def test_the_table_has_every_action_and_every_reason_against_it() -> None:
    assert {Action(case["does"]) for case in CASES} == set(Action)
    found: dict[Action, set[str]] = {action: set() for action in Action}
    for case in CASES:
        for action, reason in case.get("passed", {}).items():
            found[Action(action)].add(re.sub(r"\d+|once|twice|\d+ times", "N", reason))
    assert found == REASONS

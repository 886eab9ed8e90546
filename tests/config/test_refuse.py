"""What can be read but never work is refused when the file is read, with the reason and its line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
import yaml

from guard.check.verdict import Kind
from guard.config import Config, load_config
from guard.config.lists import CASES, REPEATED
from guard.config.policies import Mode, PolicySettings
from guard.errors import ConfigError
from guard.procedure.model import StepKind
from guard.run.ladders import ENDS, Action

COMPUTED = "procedure chain(a: int) -> int\n  return a + 1\n"
DECIDED = "procedure kind(t: text) -> int\n  extract k: int from t\n  return k\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "chain.proc").write_text(COMPUTED)
    return tmp_path


def read(folder: Path, text: str) -> Config:
    path = folder / "stepguard.yaml"
    path.write_text(f"procedures: [chain.proc]\n{text}\n")
    return load_config(path, {})


def said(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(folder, text)
    return [line.removeprefix(f"{folder}/stepguard.yaml:") for line in str(caught.value).splitlines()]


def policy(*lines: str) -> str:
    return "policies:\n  p:\n" + "\n".join(f"    {line}" for line in lines)


TWO = "upstreams: {main: {kind: generic, base_url: http://a}, spare: {kind: generic, base_url: http://b}}\n"
OBSERVED = ("mode: observe", "deliver: pass_through")

# The lines of a policy (from line 4 on), the line and key that are blamed, and what is said.
ALONE = [
    (["deliver: pass_through", "mode: enforce"], 4, "deliver", "write `mode: observe`, or `deliver: hold_step`"),
    (["mode: off", "deliver: pass_through"], 5, "deliver", "found mode 'off'"),
    (["deliver: pass_through"], 4, "deliver", "write `mode: observe`"),
    ([*OBSERVED, "actions: [repair]"], 6, "actions", "`actions` cannot work with `deliver: pass_through`"),
    ([*OBSERVED, "actions: [resume, reject]"], 6, "actions", "cannot work"),
    ([*OBSERVED, "rules: [{actions: [resume]}]"], 6, "rules", "cannot work"),
    ([*OBSERVED, "race: 2"], 6, "race", "cannot work"),
    ([*OBSERVED, "votes: {}"], 6, "votes", "cannot work"),
    ([*OBSERVED, "compute: guard"], 6, "compute", "cannot work"),
    (["sample: 0.5", "mode: enforce"], 4, "sample", "only for mode `observe`, found mode 'enforce'"),
    (["mode: off", "sample: 0.5"], 5, "sample", "leave it out, or write `mode: observe`"),
    (["sample: 0.5"], 4, "sample", "in which no route has this policy"),
    (["actions: [reject, resume]"], 4, "actions[1]", "`resume` is never reached behind `reject`"),
    (["actions: [release, reject]"], 4, "actions[1]", "`reject` is never reached behind `release`"),
    (["actions: [resume, scaffold, resume]"], 4, "actions[2]", "as actions[0]: leave it out; for more tries"),
    (["actions: [resume, resume: 3]"], 4, "actions[1]", "`resume: 3` stands in this list already"),
    (["actions: [repair, repair]"], 4, "actions[1]", "as actions[0]: leave it out"),
    (["actions: [fallback, fallback]"], 4, "actions[1]", "`fallback` stands in this list already"),
    (["actions: [fallback: local, fallback: local]"], 4, "actions[1]", "`fallback: local` stands"),
    (["actions: [repair: 2]"], 4, "actions[0]", "write `repair` without a number"),
    (["actions: [reject: 1]"], 4, "actions[0]", "write `reject` without a number"),
    (["actions: [{action: fallback, times: 2}]"], 4, "actions[0]", "write `fallback` without a number"),
    (["actions: [{action: resume, upstream: local}]"], 4, "actions[0]", "only `fallback` goes to an upstream"),
    (["actions: [resume: 5]", "attempts: 4"], 4, "actions[0]", "more than `attempts` allows, 4 in all"),
    (["actions: [fallback: locla]"], 4, "actions[0]", "there is no upstream 'locla'; did you mean 'local'?"),
    (["attempts_per_upstream:", "  locla: 2"], 5, "attempts_per_upstream.locla", "did you mean 'local'?"),
    (["attempts_per_upstream:", "  local: 13"], 5, "attempts_per_upstream.local", "allows, 12 in all"),
    (["attempts: 2", "attempts_per_step: 3"], 5, "attempts_per_step", "allows, 2 in all"),
    (["votes:", "  ahead: 3", "  most: 2"], 4, "votes", "2 votes never put a value 3 ahead"),
    (["votes: {}", "seed: 1", "vary: temperature"], 4, "votes", "the same seed again and again"),
    (["race: 2", "seed: 1", "vary: false"], 4, "race", "leave out `seed`, or add it to `vary`"),
    (["temperatures: [0.5]", "vary: false"], 4, "temperatures", "add `temperature` to `vary`"),
    (["temperatures: [0.5]", "vary: [seed]"], 4, "temperatures", "add `temperature` to `vary`"),
    (["compute: guard", "force: shape"], 5, "force", "found `force: shape`"),
    (["compute: model", "force: values"], 4, "compute", "write `compute: guard`, or another `force`"),
    (["force_by: lines", "force: shape"], 4, "force_by", "write `force: operands` or nothing, or another"),
    (["force_by: lines", "force: none"], 4, "force_by", "gives the operands of each line, found `force: none`"),
    (["rules:", "  - actions: [reject, resume]"], 5, "rules[0].actions[1]", "never reached"),
    (["rules:", "  - actions: [fallback: x]"], 5, "rules[0].actions[0]", "there is no upstream 'x'"),
    (
        ["rules:", "  - {violation: malformed, actions: [reject]}", "  - {violation: malformed, step: assign, actions: [resume]}"],
        6,
        "rules[1]",
        "is never used, since rules[0] fits whenever it does: put it before",
    ),
    (
        ["rules:", "  - {step: extract, actions: [reject]}", "  - {step: judge, actions: [reject]}", "  - {violation: ungrounded_value, actions: [resume]}"],
        7,
        "rules[2]",
        "since rules[0], rules[1] fits",
    ),
    (["rules: [{actions: [reject]}, {step: judge, actions: [resume]}]"], 4, "rules[1]", "is never used"),
    (["rules: [{violation: wrong_branch, step: judge, actions: [reject]}]"], 4, "rules[0]", "there is no wrong_branch"),
    (["rules: [{step: [extract, judge], actions: [resume, repair]}]"], 4, "rules[0].actions[1]", "cannot write"),
    (["rules: [{violation: inadmissible_value, actions: [repair]}]"], 4, "rules[0].actions[0]", "cannot write"),
    (["rules: [{actions: [reject]}]", "actions: [resume]"], 5, "actions", "is never used, since `rules` fit"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "line", "key", "message"), ALONE)
def test_what_cannot_work_in_a_policy_is_refused(
    folder: Path, lines: list[str], line: int, key: str, message: str
) -> None:
    [found] = said(folder, policy(*lines))
    assert found.startswith(f"{line}: policies.p.{key}: ")
    assert message in found


FINE = [
    ["actions: [resume: 12, restart, feedback, scaffold: 1, fallback, fallback: local, repair, release]"],
    ["attempts: 1"],
    ["attempts: 1", "attempts_per_step: 1"],
    ["force: values"],
    ["compute: guard"],
    ["compute: guard", "force: values"],
    ["compute: model", "force: operands"],
    ["force_by: lines"],
    ["force_by: lines", "compute: guard"],
    ["force_by: grammar", "force: none"],
    ["force_by: auto", "force: shape"],
    ["votes: {ahead: 3, most: 3}"],
    ["votes: {}", "seed: 1"],
    ["race: 2", "vary: false"],
    ["race: 2", "votes: {}"],
    ["vary: [temperature]", "temperatures: [null, 0.4, 0.2]"],
    [*OBSERVED, "sample: 0.01"],
    ["mode: observe", "actions: [resume, repair]"],
    ["mode: observe", "sample: 0.5"],
    ["rules: [{violation: malformed, actions: [reject]}, {step: judge, actions: [resume]}]", "actions: [repair]"],
    ["rules: [{step: [extract, assign], actions: [resume, repair]}]"],
]  # fmt: skip


@pytest.mark.parametrize("lines", FINE)
def test_what_can_work_is_read(folder: Path, lines: list[str]) -> None:
    assert list(read(folder, policy(*lines)).policies) == ["p"]


# --- between policies and routes -----------------------------------------------------------------

BETWEEN = [
    ("policies: {p: {votes: {}}}\nroutes:\n  - procedure: chain\n    policy: p",
     "5: routes[0].policy: policy 'p' puts to the vote"),
    ("policies: {p: {votes: {}}}\nroutes:\n  - procedure: chain\n    policies: [p]",
     "5: routes[0].policies: policy 'p' puts to the vote"),
    ("policies: {default: {votes: {}}}\nroutes:\n  - procedure: chain",
     "4: routes[0].procedure: policy 'default' puts to the vote"),
    ("policies: {p: {mode: observe, deliver: pass_through}}\nroutes:\n  - policy: p\n    mode: enforce",
     "5: routes[0].mode: policy 'p' cannot be enforced"),
    ("policies: {p: {mode: observe, deliver: pass_through}}\nroutes:\n  - policy: p\n    modes: [off, enforce]",
     "5: routes[0].modes: policy 'p' cannot be enforced"),
    ("policies: {p: {mode: observe, deliver: pass_through}}\nroutes:\n  - policies: p\n    mode: enforce",
     "5: routes[0].mode: policy 'p' cannot be enforced"),
    ("policies: {p: {deliver: pass_through}}\nroutes:\n  - policy: p",
     "4: routes[0].policy: policy 'p' cannot be enforced"),
    ("policies: {p: {deliver: pass_through}}\ndefaults:\n  policy: p",
     "4: defaults.policy: policy 'p' cannot be enforced"),
    ("policies: {p: {race: 3}}\nupstreams: {local: {kind: local}}\nroutes:\n  - policy: p",
     "5: routes[0].policy: policy 'p' races 3 generations, but upstream 'local' has only 2 `slots`"),
    ("policies: {p: {sample: 0.5}}\nroutes:\n  - policy: p\n    modes: [off]",
     "2: policies.p.sample: a sample is only for mode `observe`"),
    ("routes:\n  - policy: p\n    policies: [defualt,\n      q]",
     "4: routes[0].policies[0]: there is no policy 'defualt'; did you mean 'default'?"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BETWEEN)
def test_what_cannot_work_on_a_route_is_refused(folder: Path, text: str, message: str) -> None:
    assert any(line.startswith(message) for line in said(folder, text)), said(folder, text)


@pytest.mark.parametrize(
    "text",
    [
        "policies: {p: {deliver: pass_through, sample: 0.5}}\nroutes: [{policy: p, mode: observe}]",
        "policies: {p: {sample: 0.5}}\nroutes: [{policy: p, modes: [observe]}]",
        "policies: {default: {sample: 0.5}}\ndefaults: {mode: observe}",
        "policies: {p: {mode: observe, deliver: pass_through}}\nroutes: [{policy: p}, {modes: [enforce]}]",
        "policies: {p: {votes: {}}}\nroutes: [{policy: p}]",
        "policies: {p: {race: 3}}\nupstreams: {local: {kind: local, slots: 3}}\nroutes: [{policy: p}]",
        TWO + "policies: {p: {race: 3, actions: [fallback: spare]}}\nroutes: [{policy: p, upstream: main}]",
        "policies: {p: {mode: off}}\nroutes: [{policy: default, policies: [p], modes: [off, observe]}]",
    ],
)
def test_what_can_work_on_a_route_is_read(folder: Path, text: str) -> None:
    assert read(folder, text).policies


def test_votes_are_for_a_procedure_that_decides_itself_or_by_another(folder: Path) -> None:
    (folder / "chain.proc").write_text(
        DECIDED + "procedure outer(t: text) -> int\n  k = do kind(t)\n  return k\n"
    )
    for name in ("kind", "outer"):
        text = f"policies: {{p: {{votes: {{}}}}}}\nroutes: [{{procedure: {name}, policy: p}}]"
        assert read(folder, text).routes[0].procedure == name


def test_all_that_cannot_work_is_told_at_once_beside_what_cannot_be_read(folder: Path) -> None:
    found = said(
        folder,
        "server: {port: x}\n"
        "policies:\n"
        "  p: {race: 2, votes: {}, seed: 1, vary: false}\n"
        "  q: {attempts: 0}\n"
        "  r: {deliver: pass_through, mode: off}\n"
        "routes: [{procedure: chain, policy: p}, {procedure: chian}]",
    )
    keys = [re.sub(r"^(\d+: \S+): .*", r"\1", line) for line in found]
    assert keys == [
        "2: server.port",
        "4: policies.p.race",
        "4: policies.p.votes",
        "5: policies.q.attempts",
        "6: policies.r.deliver",
        "7: routes[1].procedure",
        "7: routes[0].policy",
    ]


def test_every_list_of_two_actions_is_read_unless_it_says_something_twice_or_behind_the_end(
    folder: Path,
) -> None:
    pairs = [(first, second) for first in Action for second in Action]
    text = {"policies": {f"p{n}": {"actions": list(map(str, pair))} for n, pair in enumerate(pairs)}}
    refused = {
        int(match)
        for match in re.findall(r"policies\.p(\d+)\.", "\n".join(said(folder, yaml.safe_dump(text))))
    }
    assert {pairs[number] for number in refused} == {
        (first, second) for first, second in pairs if first == second or first in ENDS
    }
    assert Action.REPAIR not in REPEATED


def test_the_cases_that_there_can_be_have_every_kind_and_every_kind_of_step() -> None:
    assert {kind for kind, _ in CASES} == set(Kind)
    assert {step for _, step in CASES} == {None, *StepKind}


def test_a_policy_without_any_key_can_be_had_in_every_mode(folder: Path) -> None:
    for mode in get_args(Mode):
        assert (
            read(folder, f"policies: {{p: {{mode: {mode}}}}}").policies["p"].policy == PolicySettings().policy
        )

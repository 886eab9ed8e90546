"""Policies that extend each other: what a child takes over, and chains that lead nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from guard.config import load_config
from guard.config.inherit import MAX_CHAIN, inherit
from guard.config.policies import PolicySettings
from guard.errors import ConfigError


def read(folder: Path, policies: dict[str, Any]) -> dict[str, PolicySettings]:
    path = folder / "stepguard.yaml"
    path.write_text(yaml.safe_dump({"policies": policies}, sort_keys=False))
    return load_config(path, {}).policies


def said(folder: Path, policies: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(folder, policies)
    return [line.removeprefix(f"{folder}/") for line in str(caught.value).splitlines()]


def test_a_child_takes_over_what_it_does_not_write(tmp_path: Path) -> None:
    policies = read(
        tmp_path,
        {
            "child": {"extends": "strict", "attempts": 5},
            "strict": {"attempts": 3, "seconds": 9, "actions": ["resume", "reject"], "mode": "off"},
            "grandchild": {"extends": "child", "seconds": 4, "mode": "enforce"},
        },
    )
    child, grandchild, strict = policies["child"], policies["grandchild"], policies["strict"]
    assert (child.attempts, child.seconds, child.actions, child.mode) == (5, 9, strict.actions, "off")
    assert (grandchild.attempts, grandchild.seconds, grandchild.mode) == (5, 4, "enforce")
    assert grandchild.policy.rules == strict.policy.rules
    assert strict.attempts == 3


def test_nested_settings_are_taken_over_or_replaced_as_a_whole(tmp_path: Path) -> None:
    policies = read(
        tmp_path,
        {
            "base": {
                "votes": {"ahead": 3, "most": 9},
                "rules": [{"violation": "malformed", "actions": ["reject"]}],
                "attempts_per_upstream": {"local": 3},
            },
            "same": {"extends": "base"},
            "other": {"extends": "base", "votes": {"most": 5}, "rules": [], "attempts_per_upstream": {}},
            "none": {"extends": "base", "votes": None},
        },
    )
    assert policies["same"].votes == policies["base"].votes
    assert policies["same"].rules == policies["base"].rules
    votes = policies["other"].votes
    assert votes is not None
    assert (votes.ahead, votes.most) == (2, 5)
    assert policies["other"].rules == ()
    assert policies["other"].attempts_per_upstream == {}
    assert policies["none"].votes is None


def test_a_list_of_actions_can_be_taken_back(tmp_path: Path) -> None:
    policies = read(tmp_path, {"a": {"actions": ["reject"]}, "b": {"extends": "a", "actions": "default"}})
    assert policies["b"].policy == PolicySettings().policy


def test_the_built_in_policy_can_be_extended_and_so_can_the_files_own_default(tmp_path: Path) -> None:
    assert read(tmp_path, {"a": {"extends": "default"}})["a"].attempts == PolicySettings().attempts
    policies = read(tmp_path, {"a": {"extends": "default"}, "default": {"attempts": 3}})
    assert policies["a"].attempts == 3


def test_a_parent_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert said(tmp_path, {"strict": {}, "a": {"extends": "strikt"}}) == [
        "stepguard.yaml:4: policies.a.extends: there is no policy 'strikt'; did you mean 'strict'?"
    ]


def test_policies_that_extend_each_other_in_a_circle_are_refused(tmp_path: Path) -> None:
    found = said(
        tmp_path,
        {
            "a": {"extends": "b"},
            "b": {"extends": "c"},
            "c": {"extends": "b"},
            "d": {"extends": "d"},
        },
    )
    assert found == [
        "stepguard.yaml:5: policies.b.extends: a policy cannot extend itself: b -> c -> b",
        "stepguard.yaml:7: policies.c.extends: a policy cannot extend itself: c -> b -> c",
        "stepguard.yaml:9: policies.d.extends: a policy cannot extend itself: d -> d",
    ]


def test_a_chain_has_a_longest(tmp_path: Path) -> None:
    chain = {f"p{n}": {"extends": f"p{n + 1}"} for n in range(MAX_CHAIN)}
    read(tmp_path, {**chain, f"p{MAX_CHAIN - 1}": {}})
    [found] = said(tmp_path, {**chain, f"p{MAX_CHAIN}": {}})
    assert "p0.extends" in found
    assert f"more than {MAX_CHAIN}" in found


def test_what_is_wrong_is_told_where_it_is_written_and_once(tmp_path: Path) -> None:
    found = said(
        tmp_path,
        {
            "base": {"attempts": 0, "seed": 1, "vary": False},
            "child": {"extends": "base", "seconds": 5},
            "voting": {"extends": "child", "votes": {}, "attempts": 4},
            "again": {"extends": "voting"},
        },
    )
    assert [line.split(": ")[:2] for line in found] == [
        ["stepguard.yaml:3", "policies.base.attempts"],
        ["stepguard.yaml:11", "policies.voting.votes"],
    ]


@pytest.mark.parametrize("extends", [5, ["a"], {"a": 1}, None])
def test_what_is_no_name_extends_nothing(tmp_path: Path, extends: object) -> None:
    if extends is None:
        assert read(tmp_path, {"a": {"extends": extends}})
    else:
        [found] = said(tmp_path, {"a": {"extends": extends}})
        assert "policies.a.extends: input should be a valid string" in found


NAMES = st.sampled_from("abcdef")


@given(
    st.dictionaries(
        NAMES,
        st.one_of(
            st.none(),
            st.fixed_dictionaries(
                {}, optional={"extends": NAMES, "attempts": st.integers(), "seconds": st.integers()}
            ),
        ),
    )
)
def test_whatever_extends_what_each_policy_keeps_what_it_writes(policies: dict[str, Any]) -> None:
    inherited = inherit(policies)
    wrong = {key.split(".")[1] for key, _ in inherited.problems}
    for name, written in policies.items():
        whole = inherited.policies[name]
        if written is None:
            assert whole is None
            continue
        assert whole.items() >= written.items()
        parent = policies.get(written.get("extends"))
        above = inherited.policies.get(written.get("extends"))
        if not wrong and parent is not None and above is not None:
            assert whole == {**above, **written}

"""From tables of measurements to policies, and to files that can be used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from guard.bench.baselines import voted
from guard.bench.measured import Abilities, Measured, Rate, Seen, Try, Way
from guard.bench.policy_file import policy_file
from guard.bench.recommend import Recommendation, recommend
from guard.bench.tasks import DECIDED, Skill
from guard.check.verdict import Kind
from guard.config import load_config
from guard.config.policies import PolicySettings
from guard.dialect.lark import Level
from guard.run.policy import ForceBy, Policy
from guard.upstream.abilities import Ability

WORKS, UNTRIED = Ability.WORKS, Ability.UNTRIED
CHAIN = Path(__file__).parent.parent.parent / "examples/quickstart/chain.proc"
COMPUTED = [skill for skill in Skill if skill not in DECIDED]


def tries(skill: Skill, way: Way, right: int, of: int, kind: Kind = Kind.WRONG_VALUE) -> tuple[Try, ...]:
    good, bad = Try(skill=skill, way=way, right=True), Try(skill=skill, way=way, right=False, kind=kind)
    return (good,) * right + (bad,) * (of - right)


def seen(
    first: tuple[int, int],
    retry: tuple[int, int] = (0, 0),
    scaffold: tuple[int, int] = (0, 0),
    *,
    level: Level = Level.NONE,
    by: ForceBy = ForceBy.GRAMMAR,
    decided: Mapping[Skill, tuple[int, int]] | None = None,
    kind: Kind = Kind.WRONG_VALUE,
) -> Seen:
    found: tuple[Try, ...] = ()
    for skill in COMPUTED:
        found += tries(skill, Way.FIRST, *first, kind)
    found += tries(Skill.ASSIGN, Way.RETRY, *retry) + tries(Skill.ASSIGN, Way.SCAFFOLD, *scaffold)
    for skill, rate in (decided or {}).items():
        found += tries(skill, Way.FIRST, *rate)
    return Seen(level=level, tries=found, by=by)


def measured(*levels: Seen, grammar: Ability = UNTRIED, **changes: Any) -> Measured:
    able = Abilities(prefill=WORKS, grammar=grammar, bad_grammar=grammar, stream_options=WORKS)
    known: dict[str, Any] = {"first_s": 0.5, "tokens_per_s": 50.0, "line_tokens": 20}
    return Measured(upstream="u", model="m", abilities=able, seen=levels, **known | changes)


def keys(*levels: Seen, steps: int = 20, **changes: Any) -> Mapping[str, Any]:
    return recommend(measured(*levels, **changes), steps=steps, runs=40).keys


# --- each rule -------------------------------------------------------------------------------------


def test_a_model_that_is_always_right_needs_nothing_but_a_cap_on_what_was_never_seen() -> None:
    advice = recommend(measured(seen((500, 500))))
    assert advice.keys == {"attempts_per_step": 3}
    assert advice.expected.policy.measures["success"].mean == 1
    assert advice.expected.policy.measures["generated_steps"].mean < 95.3


@pytest.mark.parametrize(
    ("first", "retry", "wanted"), [(0.999, 0.9, 1), (0.99, 0.92, 2), (0.95, 0.97, 2), (0.98, 0.5, 3)]
)
def test_there_are_as_many_retries_as_make_a_request_safe_but_three_at_most(
    first: float, retry: float, wanted: int
) -> None:
    found = keys(seen((round(10_000 * first), 10_000), (round(10_000 * retry), 10_000)), steps=95)
    assert found["attempts_per_step"] == wanted
    failing = (1 - first) * (1 - retry) ** wanted
    assert wanted == 3 or (1 - failing) ** 95 >= 0.99
    assert wanted == 1 or (1 - failing / (1 - retry)) ** 95 < 0.99


def test_a_model_that_gets_too_little_right_only_decides() -> None:
    found = keys(seen((30, 100), (5, 100), (20, 100)))
    assert found["compute"] == "guard"
    assert PolicySettings(**found).policy.force is Level.VALUES


def test_scaffolding_alone_may_keep_a_model_that_would_otherwise_only_decide() -> None:
    assert "compute" not in keys(seen((70, 100), (10, 100), (97, 100)))


@pytest.mark.parametrize(
    ("none", "operands", "wanted"), [(60, 95, "operands"), (97, 90, "none"), (95, 95, "operands")]
)
def test_operands_are_given_where_that_helps_or_does_no_harm(none: int, operands: int, wanted: str) -> None:
    levels = [
        seen((share, 100), (60, 100), level=level)
        for share, level in ((none, Level.NONE), (operands, Level.OPERANDS))
    ]
    assert keys(*levels, grammar=WORKS)["force"] == wanted


def test_no_level_is_named_where_no_grammar_could_hold_it() -> None:
    assert "force" not in keys(seen((95, 100), (60, 100)))


@pytest.mark.parametrize(
    ("retry", "scaffold", "wanted"),
    [(20, 95, "scaffold"), (80, 50, "resume"), (60, 65, None), (60, None, None)],
)
def test_a_line_is_scaffolded_as_early_as_it_pays(
    retry: int, scaffold: int | None, wanted: str | None
) -> None:
    given = (0, 0) if scaffold is None else (scaffold, 100)
    rules = keys(seen((90, 100), (retry, 100), given)).get("rules")
    assert (rules[0]["actions"][0] if rules else None) == wanted


@pytest.mark.parametrize(
    ("right", "voting"), [(480, False), (600, True), (850, True), (960, True), (995, False)]
)
def test_decisions_are_voted_on_where_votes_can_help(right: int, voting: bool) -> None:
    decided = {Skill.EXTRACT: (1000, 1000), Skill.JUDGE: (right, 1000)}
    advice = recommend(measured(seen((100, 100), decided=decided)), steps=10)
    votes = advice.keys.get("votes")
    assert (votes is not None) == voting
    assert advice.decided is not None
    if votes:
        assert advice.decided == voted((right + 0.5) / 1001, votes["ahead"])
        assert votes["ahead"] == 5 or advice.decided >= 0.98
        assert votes["most"] >= votes["ahead"]


def test_prose_is_left_out_where_no_grammar_keeps_it_away() -> None:
    prose = seen((50, 100), (60, 100), (95, 100), kind=Kind.MALFORMED)
    assert keys(prose)["tolerant"] is True
    assert "tolerant" not in keys(prose, grammar=WORKS)


def test_the_limits_leave_room_for_what_is_simulated() -> None:
    advice = recommend(
        measured(seen((80, 100), (50, 100), (90, 100)), tokens_per_s=5.0, line_tokens=90), steps=60, runs=40
    )
    usual = Policy()
    measures = advice.expected.policy.measures
    for key, measure in (("attempts", "attempts"), ("output_tokens", "tokens"), ("seconds", "latency_s")):
        assert advice.keys[key] > getattr(usual, key)
        assert advice.keys[key] >= measures[measure].p95
    assert measures["success"].mean == 1


def test_few_measurements_are_no_certainty() -> None:
    assert Rate(3, 3).estimate < 0.9 < Rate(300, 300).estimate < 1
    assert Rate(0, 3).estimate > 0
    assert Rate().estimate == 0.5
    assert Rate().share is None


# --- the file --------------------------------------------------------------------------------------

RATES = st.integers(0, 30).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of)))
MEASURED = st.builds(
    lambda first, retry, scaffold, judge, operands, grammar: measured(
        seen(first, retry, scaffold, decided={Skill.JUDGE: judge}),
        seen(operands, retry, level=Level.OPERANDS),
        grammar=grammar,
    ),
    RATES,
    RATES,
    RATES,
    RATES,
    RATES,
    st.sampled_from(Ability),
)


def loaded(folder: Path, text: str) -> Mapping[str, PolicySettings]:
    file = folder / "probed.yaml"
    file.write_text(f"{text}procedures: [{CHAIN}]\n", encoding="utf-8")  # not all that are shipped
    return load_config(file).policies


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(MEASURED)
def test_whatever_was_measured_the_file_is_a_configuration_that_says_the_same(
    tmp_path: Path, found: Measured
) -> None:
    advice = recommend(found, steps=5, runs=30)
    written = loaded(tmp_path, policy_file("probed", found, advice))
    assert set(written) == {"probed"}
    assert written["probed"].policy == PolicySettings(**advice.keys).policy
    assert set(advice.reasons) == set(advice.keys)


def test_the_file_says_what_it_goes_by_and_what_to_expect() -> None:
    found = measured(seen((97, 100), (3, 5), decided={Skill.JUDGE: (8, 10)}), requests=77)
    advice = recommend(found, runs=50)
    text = policy_file("mine", found, advice)
    for wanted in ("'m' on upstream 'u'", "77 requests", "#   assign: first 97 of 100, retry 3 of 5"):
        assert wanted in text
    assert f"success {advice.expected.policy.measures['success'].mean:.1%}" in text
    assert max(map(len, text.splitlines())) <= 120


def test_the_same_measurements_give_the_same_advice() -> None:
    found = measured(seen((9, 10), (1, 2)))
    first, second = (recommend(found, steps=10, runs=30) for _ in range(2))
    assert isinstance(first, Recommendation)
    assert first == second


def by_lines(right: int) -> Seen:
    """What was seen line by line: what is copied, such as the answer, the guard writes."""
    made = seen((right, 20), retry=(20, 20), level=Level.OPERANDS, by=ForceBy.LINES)
    return replace(made, tries=tuple(one for one in made.tries if one.skill is not Skill.RETURN))


def test_lines_are_recommended_where_there_is_no_grammar_and_more_of_them_are_right() -> None:
    none = seen((10, 20), retry=(20, 20))
    found = keys(none, by_lines(19))
    assert (found["force"], found["force_by"]) == ("operands", "lines")
    worse = keys(seen((19, 20), retry=(20, 20)), by_lines(10))
    assert worse["force"] == "none"
    assert "force_by" not in worse


@pytest.mark.parametrize(("grammar", "lines", "by"), [(18, 19, None), (14, 19, "lines"), (19, 10, None)])
def test_a_grammar_is_recommended_unless_lines_are_clearly_better(
    grammar: int, lines: int, by: str | None
) -> None:
    forced = seen((grammar, 20), retry=(20, 20), level=Level.OPERANDS)
    found = keys(seen((5, 20)), by_lines(lines), forced, grammar=WORKS)
    assert (found["force"], found.get("force_by")) == ("operands", by)

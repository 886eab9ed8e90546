"""A model with known chances is measured: they come out, and so does what its server can do."""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from random import Random

import pytest
from lark import Lark
from lark.exceptions import LarkError

from guard.bench.measured import Measured, Rate, Way
from guard.bench.probe import Plan, probe
from guard.bench.tasks import DECIDED, TASKS, Skill, instances, program_of
from guard.check.checker import Checker
from guard.check.verdict import Verdict
from guard.dialect.notation import Dialect
from guard.errors import UpstreamConnectError
from guard.run.policy import ForceBy
from guard.trace import render
from guard.upstream.abilities import GRAMMARS, ODD, Ability
from guard.upstream.http import HttpUpstream
from guard.upstream.local import LocalUpstream
from guard.upstream.model import resolve
from tests.bench.known import Known, KnownUpstream, known_server
from tests.dialect.gbnf_reader import Gbnf
from tests.upstream.servers import run

CHANCES = {Way.FIRST: 0.8, Way.RETRY: 0.5, Way.SCAFFOLD: 0.9}
COMPUTED = [skill for skill in Skill if skill not in DECIDED]
BOUND = 4  # standard errors


def measure(known: Known, *, prefill: bool = True) -> Measured:
    return asyncio.run(probe(KnownUpstream(known, prefill=prefill), known.plan))


def near(right: int, of: int, chance: float) -> bool:
    return of > 0 and abs(right / of - chance) <= BOUND * math.sqrt(chance * (1 - chance) / of)


@pytest.mark.parametrize("prefill", [True, False])
def test_the_chances_of_a_model_are_found(prefill: bool) -> None:
    known = Known(
        Plan(model="m", runs=60), CHANCES, of={Skill.LOOKUP: 0.4, Skill.JUDGE: 0.6}, continues=False
    )
    measured = measure(known, prefill=prefill)
    [seen] = measured.seen
    assert set(seen.skills) == set(Skill)
    for way, chance in CHANCES.items():
        skills = [skill for skill in COMPUTED if skill is not Skill.LOOKUP or way is not Way.FIRST]
        rate = seen.rate(way, skills)
        assert near(rate.right, rate.of, chance), way
        assert (rate.right, rate.of) == known.rate(way, skills)
    for skill, chance in known.of.items():
        rate = seen.rate(Way.FIRST, [skill])
        assert near(rate.right, rate.of, chance), skill


def test_a_wrong_decision_that_may_stand_counts_as_wrong() -> None:
    known = Known(Plan(model="m", runs=20), dict.fromkeys(Way, 1.0), of={Skill.JUDGE: 0.0}, continues=False)
    [seen] = measure(known).seen
    assert seen.rate(Way.FIRST, [Skill.JUDGE]).right == 0
    assert seen.rate(Way.FIRST, COMPUTED).share == 1
    assert not seen.kinds


def test_prose_counts_as_a_wrong_line_outside_the_format() -> None:
    known = Known(Plan(model="m", runs=20), CHANCES, prose=1.0, continues=False)
    [seen] = measure(known).seen
    share = seen.in_format.share
    assert share is not None
    assert 0.5 < share < 0.95


def test_operands_are_given_in_prefixes_and_where_one_works_in_a_grammar() -> None:
    plan = Plan(model="m", runs=1)
    without = measure(Known(plan, dict.fromkeys(Way, 1.0)))
    assert [seen.name for seen in without.seen] == ["none", "operands by lines"]
    assert without.abilities.grammar is without.abilities.bad_grammar is Ability.UNTRIED
    known = Known(plan, dict.fromkeys(Way, 1.0), grammars=True)
    assert [seen.name for seen in measure(known).seen] == ["none", "operands by lines", "operands"]


def test_line_by_line_the_chances_are_found_as_well_but_of_what_is_copied() -> None:
    known = Known(Plan(model="m", runs=60), CHANCES, grammars=False)
    none, lines = measure(known).seen
    assert Skill.RETURN in none.skills
    rate = lines.rate(Way.FIRST, COMPUTED)
    assert near(rate.right, rate.of, 0.8)
    assert lines.in_format.share == 1


def over_http(known: Known, kind: str = "llama.cpp") -> Measured:
    async def body() -> Measured:
        async with known_server(known) as url:
            upstream = HttpUpstream("served", url, kind=kind, model="m")
            try:
                return await probe(upstream, known.plan)
            finally:
                await upstream.close()

    return run(body())


def test_over_http_the_chances_are_found_as_well() -> None:
    known = Known(Plan(model="m", runs=10), CHANCES, grammars=True)
    measured = over_http(known)
    assert measured.upstream == "served"
    assert [seen.name for seen in measured.seen] == ["none", "operands by lines", "operands"]
    rate = sum(
        (seen.rate(Way.FIRST, COMPUTED) for seen in measured.seen if seen.by is ForceBy.GRAMMAR), Rate()
    )
    assert near(rate.right, rate.of, 0.8)
    assert measured.requests <= known.plan.most_requests(grammar=True, prefill=True)
    assert measured.tokens > 0
    assert measured.first_s > 0


@pytest.mark.parametrize(
    ("habits", "wanted"),
    [
        ({"grammars": True}, "works works refused works"),
        ({"grammars": True, "picky": False}, "works works ignored works"),
        ({"grammars": False}, "works ignored ignored works"),
        ({"continues": False}, "ignored ignored ignored works"),
        ({"usage": False}, "works ignored ignored ignored"),
    ],
)
def test_what_a_server_can_do_shows_in_its_answers(habits: dict[str, bool], wanted: str) -> None:
    plan = Plan(model="m", runs=1, tasks=TASKS[:1])
    able = over_http(Known(plan, dict.fromkeys(Way, 1.0), **habits)).abilities  # type: ignore[arg-type]
    assert f"{able.prefill} {able.grammar} {able.bad_grammar} {able.stream_options}" == wanted


def test_a_server_that_is_not_there_is_an_error() -> None:
    async def body() -> None:
        upstream = HttpUpstream("down", "http://127.0.0.1:9/v1", model="m")
        try:
            await probe(upstream, Plan(model="m", runs=1))
        finally:
            await upstream.close()

    with pytest.raises(UpstreamConnectError, match="upstream 'down'"):
        asyncio.run(body())


def test_progress_is_told_from_the_first_request_to_the_last() -> None:
    told: list[tuple[int, int]] = []
    plan = Plan(model="m", runs=2, tasks=TASKS[:2])
    upstream = KnownUpstream(Known(plan, dict.fromkeys(Way, 1.0), continues=False))
    asyncio.run(probe(upstream, plan, lambda done, of: told.append((done, of))))
    assert told == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]


def test_every_notation_has_a_grammar_for_the_odd_word_and_one_that_is_none() -> None:
    assert set(GRAMMARS) == set(Dialect)
    for dialect in (Dialect.LARK, Dialect.LLGUIDANCE):
        good, bad = GRAMMARS[dialect]
        head = "%llguidance {}\n"
        assert Lark(good.removeprefix(head), parser="lalr").parse(ODD).data == "start"
        with pytest.raises(LarkError):
            Lark(bad.removeprefix(head), parser="lalr")
    good, bad = GRAMMARS[Dialect.REGEX]
    assert re.fullmatch(good, ODD)
    with pytest.raises(re.error):
        re.compile(bad)
    assert json.loads(GRAMMARS[Dialect.JSON_SCHEMA][0])["properties"]["word"]["enum"] == [ODD]
    for dialect in (Dialect.GBNF, Dialect.XGRAMMAR):
        assert Gbnf(GRAMMARS[dialect][0]).matches(ODD) == (len(ODD), True)


# --- the tasks -------------------------------------------------------------------------------------


def test_every_task_is_sound_and_together_they_have_every_kind_of_step() -> None:
    skills = set()
    for instance in instances(TASKS, 30, Random(3)):
        begin, end = (
            render.begin(instance.job.program.name, instance.job.nonce),
            render.end(instance.job.nonce),
        )
        checker = Checker(instance.job.program, instance.job.inputs, nonce=instance.job.nonce)
        checker.feed("\n".join([begin, *instance.lines, end, ""]))
        assert checker.verdict is Verdict.PASSED
        skills |= {instance.skill(step.path) for step, _ in instance.steps}
    assert skills == set(Skill)


def test_the_worked_example_of_a_task_is_none_of_its_requests() -> None:
    for task in TASKS:
        program = program_of(task)
        assert all(
            instance.job.inputs != program.example_inputs for instance in instances((task,), 50, Random(1))
        )


# --- a real model ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.local
def test_the_embedded_model_is_measured() -> None:
    async def body() -> tuple[Measured, float]:
        upstream = LocalUpstream("local", resolve(), threads=1, context=2048)
        plan = Plan(model=upstream.target.model, runs=1, tasks=(TASKS[0], TASKS[4]))
        try:
            await upstream.start()
            started = time.monotonic()
            return await probe(upstream, plan), time.monotonic() - started
        finally:
            await upstream.close()
            assert upstream.pid is None

    measured, took = asyncio.run(asyncio.wait_for(body(), 120))
    assert measured.abilities.prefill is Ability.WORKS
    assert measured.abilities.grammar is Ability.WORKS
    assert measured.abilities.bad_grammar is Ability.REFUSED
    assert measured.abilities.stream_options is Ability.WORKS
    assert [seen.name for seen in measured.seen] == ["none", "operands by lines", "operands"]
    none, lines, operands = (seen.rate(Way.FIRST) for seen in measured.seen)
    assert lines.of >= 5
    assert none.of >= 5
    assert operands.of >= 5
    assert 0 < measured.first_s < took
    assert measured.tokens > measured.requests > 4

"""What a grammar at the embedded model rules out, whatever the model says: many runs, each to its end."""

from __future__ import annotations

import asyncio
from functools import cache
from random import Random
from typing import Final

import pytest

from guard.bench.tasks import TASKS, instances
from guard.check.verdict import Kind
from guard.dialect.lark import Level
from guard.procedure.execute import Program
from guard.procedure.types import Value
from guard.run.ladders import Action, Rung, always
from guard.run.messages import Message
from guard.run.opening import Job
from guard.run.policy import Policy
from guard.trace import prompt
from guard.upstream.http import Timeouts
from guard.upstream.local import LocalUpstream
from guard.upstream.model import resolve
from tests.corpus.chains import chain
from tests.live import Heard, ask
from tests.worked import folders, worked

pytestmark = [pytest.mark.local, pytest.mark.slow]

STRUCTURAL: Final = frozenset(
    {
        Kind.SKIPPED_STEP,
        Kind.EXTRA_STEP,
        Kind.REPEATED_STEP,
        Kind.SELF_CORRECTION,
        Kind.PREMATURE_ANSWER,
        Kind.MISSING_ANSWER,
        Kind.MALFORMED,
    }
)
NONCE: Final = "3fa92c"
HOT: Final = 0.8  # the more a model says at random, the more it tries; hotter, it ends no line
SLOTS: Final = 4
PATIENT: Final = Timeouts(first_s=300, idle_s=300)  # where others use the same cores
TOKENS: Final = 48  # of a run; a longer one ends there
SECONDS: Final = 300.0  # for all runs on a busy machine; idle, they take a small part of it


def policy(level: Level) -> Policy:
    """What is wrong the guard writes itself, so that the model comes to every line."""
    rules = always((Rung(Action.REPAIR), Rung(Action.RESUME, 1), Action.REJECT))
    return Policy(
        attempts=100, rules=rules, force=level, output_tokens=TOKENS, deliver="hold_all", seconds=SECONDS
    )


def job(program: Program, inputs: dict[str, Value]) -> Job:
    """Ask without a word of what to do: a model that is told less goes wrong in more ways."""
    message: Message = {"role": "user", "content": prompt.closing(program, inputs, NONCE)}
    return Job(program=program, inputs=inputs, messages=(message,), nonce=NONCE, temperature=HOT)


def jobs() -> list[Job]:
    """Every shipped procedure, and small ones with inputs of all kinds."""
    shipped = [worked(folder)[0] for folder in folders()]
    chains = [chain(length, look_back, seed=length) for length in (3, 5) for look_back in range(1, 5)]
    drawn = [instance.job for instance in instances(TASKS, 5, Random(8))]
    given = [(case.program, case.inputs) for case in shipped] + [(one.program, one.inputs) for one in chains]
    return [job(*one) for one in given] + [job(one.program, dict(one.inputs)) for one in drawn]


@cache
def runs() -> dict[Level, list[Heard]]:
    """All runs at both levels, on one server."""

    async def one(upstream: LocalUpstream, level: Level, asked: Job, free: asyncio.Semaphore) -> Heard:
        async with free:
            return await ask(upstream, asked, policy(level))

    async def body() -> dict[Level, list[Heard]]:
        upstream = LocalUpstream("local", resolve(), context=2048, slots=SLOTS, timeouts=PATIENT)
        free = asyncio.Semaphore(SLOTS)
        try:
            await upstream.start()
            return {
                level: await asyncio.gather(*(one(upstream, level, asked, free) for asked in jobs()[::every]))
                for level, every in ((Level.SHAPE, 1), (Level.OPERANDS, 2))
            }
        finally:
            await upstream.close()

    return asyncio.run(asyncio.wait_for(body(), 2 * SECONDS))


def judged(heard: list[Heard]) -> int:
    """How many lines were written to their end, right or wrong."""
    wrong = [v for one in heard for v in one.violations if v.kind is not Kind.TRUNCATED]
    return len(wrong) + sum(len(one.written) for one in heard)


@pytest.mark.parametrize("level", [Level.SHAPE, Level.OPERANDS])
def test_under_a_grammar_no_line_is_out_of_place_or_out_of_shape(level: Level) -> None:
    heard = runs()[level]
    assert len(heard) >= (50 if level is Level.SHAPE else 25)
    assert all(command.grammar for one in heard for command in one.opened_with)
    wrong = [violation for one in heard for violation in one.violations if violation.kind in STRUCTURAL]
    assert not wrong, wrong
    # That says something of a model only that writes lines, and gets some of them wrong.
    assert judged(heard) >= 30
    assert any(violation.kind is Kind.WRONG_VALUE for one in heard for violation in one.violations)


def test_a_server_that_heeds_its_grammar_never_counts_as_ignoring_it() -> None:
    closed = [command for heard in runs().values() for one in heard for command in one.closes]
    assert len(closed) >= 100
    assert not [command for command in closed if command.ignored]


def test_with_operands_given_no_known_one_is_wrong() -> None:
    lines = 0
    for one in runs()[Level.OPERANDS]:
        known = frozenset[str]().union(*one.known)
        tried = [step.path for step in one.written]
        tried += [violation.step for violation in one.violations if violation.kind is not Kind.TRUNCATED]
        lines += len(known & {*tried})
        wrong = [v for v in one.violations if v.kind is Kind.WRONG_EXPRESSION and v.step in known]
        assert not wrong, wrong
    assert lines >= 20


def test_without_operands_the_same_model_gets_them_wrong() -> None:
    wrong = [v for one in runs()[Level.SHAPE] for v in one.violations if v.kind is Kind.WRONG_EXPRESSION]
    assert len(wrong) >= 5

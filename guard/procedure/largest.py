"""The most steps that a run of a procedure can have, whatever its inputs and decisions: read off its text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, assert_never

from guard.procedure.model import (
    AnyOrder,
    Assign,
    Check,
    Confirm,
    Deny,
    Do,
    Escalate,
    Extract,
    For,
    If,
    Invoke,
    Judge,
    Next,
    OneOf,
    Require,
    Return,
    Say,
    Step,
    While,
)

MOST_COUNTED: Final = 10**9  # counts stop there: loops in loops may come to numbers of many digits


def largest_run(body: Iterable[Step], callees: Mapping[str, int]) -> int:
    """Give the number of steps of a block; `MOST_COUNTED` stands for all that are more.

    `callees` has the same of each procedure that a step carries out.
    """
    return min(MOST_COUNTED, sum(_steps(step, callees) for step in body))


def _steps(step: Step, callees: Mapping[str, int]) -> int:
    match step:
        case If(branches=branches):
            arms = [(arm.condition is not None, largest_run(arm.body, callees)) for arm in branches]
            return _longest(arms)
        case For(bound=bound, body=body):
            return 1 + bound * largest_run(body, callees)
        case While(bound=bound, body=body):
            return 1 + bound * (1 + largest_run(body, callees))
        case AnyOrder(body=body):
            return largest_run(body, callees)
        case OneOf():
            return _tried(step, callees)
        case Require(otherwise=Next()):
            return 1
        case Require() | Confirm():
            return 2
        case Do(procedure=name):
            return 1 + callees[name]
        case Assign() | Extract() | Judge() | Check() | Invoke() | Say() | Return() | Deny() | Escalate():
            return 1
        case _:
            assert_never(step)


def _longest(arms: Iterable[tuple[bool, int]]) -> int:
    """Take the arm with the most steps, counting the conditions that are asked before it."""
    asked = most = 0
    for has_condition, steps in arms:
        asked += has_condition
        most = max(most, asked + steps)
    return most


def _tried(step: OneOf, callees: Mapping[str, int]) -> int:
    ways = [1 + largest_run(way.body, callees) for way in step.alternatives]
    failed = sum(ways) if step.attempts is None else step.attempts * max(ways)
    return failed + (0 if step.otherwise is None else largest_run(step.otherwise.body, callees))

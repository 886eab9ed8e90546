"""What differs from one generation to the next that is like it: its temperature and its seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from guard.run.messages import Strategy
from guard.run.policy import Attempt, Policy, Vary, repeats

SEEDS: Final = 2**63  # seeds are whole numbers of 64 bits, below this one

_TRIES: Final = frozenset(
    {Strategy.RESUME, Strategy.FEEDBACK, Strategy.SCAFFOLD, Strategy.ISOLATE, Strategy.RESTART}
)
_SAME_AGAIN: Final = frozenset({Strategy.TRANSPORT, Strategy.UNFORCED, Strategy.LESS})
_DRAWN: Final = frozenset(
    {
        *(Strategy.RESUME, Strategy.FEEDBACK, Strategy.SCAFFOLD, Strategy.ISOLATE),
        *(Strategy.RESTART, Strategy.FALLBACK, Strategy.VOTE),
    }
)


def temperature(policy: Policy, asked: float | None, tries: int) -> float | None:
    """Give the temperature of a generation after so many tries that were alike; `asked` is where it starts.

    Where nobody asked for one it is the server's to choose, and is left to it.
    """
    if asked is None or Vary.TEMPERATURE not in policy.vary:
        return asked
    scheduled = policy.temperatures[min(tries, len(policy.temperatures) - 1)]
    return asked if scheduled is None else max(asked, scheduled)


def seed(policy: Policy, asked: int | None, retries: int) -> int | None:
    """Give the seed of a generation: the client's for the first attempt, another one for each retry."""
    asked = policy.seed if asked is None else asked
    if asked is None or Vary.SEED not in policy.vary:
        return asked
    return asked + retries if asked + retries < SEEDS else asked - retries


def draws(history: Sequence[Attempt], strategy: Strategy) -> int:
    """Count the generations up to the one to be opened, itself included, that were to bring something new.

    After a fault of the network the same is asked for with the same seed, and so it is behind a decision.
    """
    return sum(attempt.strategy in _DRAWN for attempt in history) + (strategy in _DRAWN)


def tries(history: Sequence[Attempt], strategy: Strategy, step: str, upstream: int) -> int:
    """Count the generations that were like one which is to be opened at a step.

    A resume is like the generation that failed before it, told or not; a scaffolded line is not, it is
    easier, nor is one that is asked for by itself. Behind an equal answer all are alike that were tried at
    the step, so that it never gets cooler. After a fault of the network it is the one that could not end.
    All further votes are alike: nothing went wrong that a wilder one could mend.
    """
    here = [a.strategy for a in history if (a.step, a.upstream) == (step, upstream)]
    match strategy:
        case _ if strategy in _TRIES and repeats(history):
            return sum(tried in _TRIES for tried in here) + 1
        case Strategy.RESUME | Strategy.FEEDBACK:
            return here.count(Strategy.RESUME) + here.count(Strategy.FEEDBACK) + 1
        case Strategy.RESTART:
            return here.count(Strategy.RESTART) + 1
        case Strategy.SCAFFOLD | Strategy.ISOLATE:
            return here.count(strategy)
        case Strategy.VOTE:
            return 1
        case Strategy.TRANSPORT | Strategy.UNFORCED | Strategy.LESS:
            return _tries_before_fault(history, step, upstream)
        case _:
            return 0


def _tries_before_fault(history: Sequence[Attempt], step: str, upstream: int) -> int:
    for i in range(len(history) - 1, -1, -1):
        attempt = history[i]
        if (attempt.step, attempt.upstream) != (step, upstream):
            break
        if attempt.strategy not in _SAME_AGAIN:
            return tries(history[:i], attempt.strategy, step, upstream)
    return 0

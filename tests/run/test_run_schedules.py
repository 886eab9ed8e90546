"""What is new in each try: the temperature and the seed that generations are opened with, in order."""

from __future__ import annotations

from typing import Final

import pytest

from guard.check.verdict import Kind
from guard.errors import UpstreamConnectError
from guard.run.ladders import Action, Rung, always
from guard.run.messages import Failed, Open, Outcome, Result, Strategy, Waited
from guard.run.policy import Policy, Vary
from guard.run.run import Run
from tests.playbook import Playbook, closes, finishes, opens, says, violates, waits
from tests.run.procedures import LARGER, PREFILL, sums

LADDER: Final = always([Action.RESUME, Rung(Action.FEEDBACK, 1), Action.SCAFFOLD, Action.RESTART])


def schedule(run: Run) -> list[tuple[Strategy, float | None, int | None]]:
    """What a run asks for whose model writes another wrong value each time."""
    asked: list[tuple[Strategy, float | None, int | None]] = []
    commands = run.start()
    for number in range(20, 40):
        opened = next((command for command in commands if isinstance(command, Open)), None)
        if opened is None:
            return asked
        asked.append((opened.strategy, opened.temperature, opened.seed))
        rest = "a = 3 + 4 =".removeprefix(opened.prefix.partition("\n")[2].removeprefix("1 "))
        commands = run.handle(says(f" {rest.lstrip()} {number}\n"))
    raise AssertionError("the run never ends")


STRATEGIES: Final = [
    Strategy.INITIAL,
    *[Strategy.RESUME, Strategy.RESUME, Strategy.FEEDBACK],
    *[Strategy.SCAFFOLD, Strategy.SCAFFOLD],
    *[Strategy.RESTART, Strategy.RESTART],
]


@pytest.mark.parametrize(
    ("policy", "client", "temperatures", "seeds"),
    [
        (
            Policy(rules=LADDER),
            {},
            [0.0, 0.5, 0.65, 0.8, 0.0, 0.5, 0.5, 0.65],
            [None] * 8,
        ),
        (
            Policy(rules=LADDER, temperatures=(0.1, 0.2, 0.3), seed=100),
            {},
            [0.1, 0.2, 0.3, 0.3, 0.1, 0.2, 0.2, 0.3],
            list(range(100, 108)),
        ),
        (
            Policy(rules=LADDER, temperatures=(0.1, None, 0.9), seed=100),
            {"temperature": 0.4, "seed": 7},
            [0.4, 0.4, 0.9, 0.9, 0.4, 0.4, 0.4, 0.9],
            list(range(7, 15)),
        ),
        (
            Policy(rules=LADDER, seed=100, vary=frozenset({Vary.SEED})),
            {"temperature": 0.4},
            [0.4] * 8,
            list(range(100, 108)),
        ),
        (Policy(rules=LADDER, seed=100, vary=frozenset()), {"temperature": 0.4}, [0.4] * 8, [100] * 8),
    ],
)
def test_each_try_is_asked_for_as_the_schedule_says(
    policy: Policy, client: dict[str, float], temperatures: list[float], seeds: list[int | None]
) -> None:
    asked = schedule(sums(policy=policy, **client))
    assert asked == list(zip(STRATEGIES, temperatures, seeds, strict=True))


def test_another_upstream_starts_at_the_bottom_with_a_seed_of_its_own() -> None:
    policy = Policy(rules=always([Rung(Action.RESUME, 1), Action.FALLBACK]), seed=5)
    assert schedule(sums(PREFILL, LARGER, policy=policy, temperature=0.0)) == [
        (Strategy.INITIAL, 0.0, 5),
        (Strategy.RESUME, 0.5, 6),
        (Strategy.FALLBACK, 0.0, 7),
        (Strategy.RESUME, 0.5, 8),
    ]


def test_a_fault_of_the_network_changes_neither() -> None:
    play = (
        Playbook(sums(policy=Policy(rules=always([Action.RESUME]), seed=5)))
        << opens(temperature=0.0, seed=5)
        >> says(" a = 3 + 4 = 8\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, temperature=0.5, seed=6)
        >> Failed(UpstreamConnectError("refused"))
        << closes(Result.UPSTREAM_ERROR)
    )
    (wait,) = play._pending
    assert (
        play
        << waits(wait.seconds)  # type: ignore[union-attr]
        >> Waited()
        << opens(Strategy.TRANSPORT, temperature=0.5, seed=6)
        >> says(" a = 3 + 4 = 9\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(Strategy.RESUME, temperature=0.65, seed=7)
        >> says(" a = 3 + 4 = 10\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << finishes(Outcome.REJECTED, attempts=3)
    )

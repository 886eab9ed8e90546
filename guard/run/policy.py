"""The retry policy: from what has happened to what to do next, as a pure function of history.

What may be tried are the rungs of a ladder (see `guard.run.ladders`). At one step of one upstream the
ladder is only ever climbed: an action is tried again until its cap is reached, then the next one. A
fallback to the next upstream starts at the bottom again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

from guard.check.verdict import Kind
from guard.dialect.lark import Level
from guard.errors import UpstreamError
from guard.procedure.model import StepKind
from guard.run.ladders import GENERATING, Action, Ladder, Rule, Rung, ladder
from guard.run.messages import Strategy

BACKOFF_S: Final = 0.5  # before the first retry after a fault of the network; doubled for each further one
LONGEST_WAIT_S: Final = 10.0  # a server that asks for more is given up
TEMPERATURES: Final = (None, 0.5, 0.65, 0.8, 0.95, 1.1, 1.2)  # of the first, second, ... like try
SEEDS: Final = 2**63  # seeds are whole numbers of 64 bits, below this one


class Vary(StrEnum):
    """What may differ between a generation and the like one before it."""

    TEMPERATURE = "temperature"
    SEED = "seed"
    PHRASING = "phrasing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Votes:
    """How often the model is asked for what only it can decide.

    Until one value is `ahead` of every other by so many votes; or `most` times, when the value with the
    most votes stands, of several the one that was said first.
    """

    ahead: int = 2
    most: int = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a procedure is enforced.

    Caps: `attempts` bounds the generations that are opened because of a violation, `attempts_per_upstream`
    those on the upstreams that it names, `attempts_per_step` the same action on the same step,
    `transport_retries` the generations after a fault of the network on one upstream; the two kinds of
    retries are counted apart. `output_tokens` is what all generations may write together, `seconds` the
    wall time of the run.

    `rules` say what to do about a violation, the defaults of `ladders` where none fits. `vary` is what a
    retry may change of what the client asked for, `temperatures` the ones of the first, second, ... like
    try at a step (None: as the client, else the upstream, has it; the last one counts for all further
    ones), `seed` the first one where the client names none.

    `race`: so many first generations at once, of which the first that comes to the end counts. `votes`:
    how what the model decides is put to the vote. `tolerant`: as the checker has it.
    """

    attempts: int = 12
    attempts_per_step: int = 2
    attempts_per_upstream: Mapping[str, int] = field(default_factory=dict)
    transport_retries: int = 2
    rules: tuple[Rule, ...] = ()
    vary: frozenset[Vary] = frozenset(Vary)
    temperatures: tuple[float | None, ...] = TEMPERATURES
    seed: int | None = None
    force: Level = Level.OPERANDS
    output_tokens: int = 8000
    seconds: float = 120
    deliver: Literal["hold_step", "hold_all"] = "hold_step"
    tolerant: bool = False
    race: int = 1
    votes: Votes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One generation, as the policy remembers it.

    `strategy` and `step` say why it was opened and at which step; `counted` whether because of a
    violation. `kind`, `failed_at`, `step_kind` and `text` tell of the violation that ended it:
    what it wrote behind `prefix`, up to the end of what was wrong. `kind` is None where it
    ended otherwise. `delivered`: the client had received something by then. `scaffoldable`: the failed line
    has operands that the model had to write itself. `repairable`: the guard knows the whole of that line.
    `vote`: it ended with a line that was put to the vote, and may well say what another one said.
    """

    upstream: int
    strategy: Strategy
    step: str
    counted: bool
    prefix: str
    kind: Kind | None = None
    failed_at: str = ""
    step_kind: StepKind | None = None
    text: str = ""
    delivered: bool = False
    scaffoldable: bool = False
    repairable: bool = False
    vote: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What to do next, and in words why nothing gentler.

    `counted`: a generation opened for it counts against `attempts`. `rest`: repair not only this line but
    all that follow, up to the next one that the model has to decide.
    """

    action: Action
    counted: bool = False
    rest: bool = False
    reason: str = ""


def decide(policy: Policy, history: Sequence[Attempt], *, upstreams: int) -> Choice:
    """Choose what to do about the violation that ended the last generation of `history`.

    `upstreams` is how many there are; a fallback goes to the one behind the last generation's.
    """
    last = history[-1]
    assert last.kind is not None, "a generation that ended well needs no policy"
    rungs = ladder(policy.rules, last.kind, last.step_kind)
    counted = last.kind is not Kind.TRUNCATED
    spent = counted and sum(attempt.counted for attempt in history) >= policy.attempts
    passed: list[str] = []
    for rung in rungs[_climbed(rungs, history) :]:
        if rung.action is Action.REJECT:
            break
        why_not = _why_not(policy, rung, history, upstreams=upstreams, spent=spent)
        if why_not is None:
            counts = counted and rung.action in GENERATING
            return Choice(action=rung.action, counted=counts, rest=spent, reason="; ".join(passed))
        if why_not not in passed:
            passed.append(why_not)
    return Choice(action=Action.REJECT, reason="; ".join(passed) or "the policy allows no retry")


def backtrack(policy: Policy, history: Sequence[Attempt], step: str) -> str | None:
    """Why a decided step may not be asked for again after the procedure failed; None: it may."""
    if sum(attempt.counted for attempt in history) >= policy.attempts:
        return f"all {policy.attempts} attempts are spent"
    if _identical(history):
        return "the upstream gave an identical response again"
    last = history[-1]
    tried = [a for a in history if a.upstream == last.upstream and a.step == step and a.counted]
    if len(tried) >= policy.attempts_per_step:
        return f"step {step} was decided again {_often(len(tried))}"
    return None


def pause(policy: Policy, error: UpstreamError, faults: int) -> float | None:
    """Seconds to wait before the same generation is opened again after a fault; None: do not.

    `faults` is how many this upstream has had in this run, the present one included.
    """
    if not error.retryable or faults > policy.transport_retries:
        return None
    asked = error.retry_after_s
    if asked is None:
        return float(BACKOFF_S * 2 ** (faults - 1))
    return max(0.0, asked) if asked <= LONGEST_WAIT_S else None


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


def tries(history: Sequence[Attempt], strategy: Strategy, step: str, upstream: int) -> int:
    """Count the generations that were like one which is to be opened at a step.

    A resume is like the generation that failed before it; a scaffolded line is not, it is easier. All
    further votes are alike: nothing went wrong that a wilder one could mend.
    """
    alike = sum(a.strategy is strategy and a.step == step and a.upstream == upstream for a in history)
    match strategy:
        case Strategy.RESUME | Strategy.RESTART:
            return alike + 1
        case Strategy.SCAFFOLD:
            return alike
        case Strategy.VOTE:
            return 1
        case _:
            return 0


def _climbed(rungs: Ladder, history: Sequence[Attempt]) -> int:
    """Find the highest rung that was tried at this step: there is no way back down."""
    tried = {attempt.strategy.value for attempt in _at_this_step(history)}
    reached = [i for i, rung in enumerate(rungs) if rung.action.value in tried & _CLIMBED]
    return max(reached, default=0)


# A restart is not tried at one step, and a fallback begins anew.
_CLIMBED: Final = frozenset({Action.RESUME.value, Action.SCAFFOLD.value})


def _at_this_step(history: Sequence[Attempt]) -> list[Attempt]:
    """Pick the generations opened at the step that failed last, on the same upstream, for a like reason."""
    last = history[-1]
    counted = last.kind is not Kind.TRUNCATED
    return [
        attempt
        for attempt in history
        if (attempt.upstream, attempt.step, attempt.counted) == (last.upstream, last.failed_at, counted)
    ]


def _identical(history: Sequence[Attempt]) -> bool:
    """Whether the last generation repeated the one before it word for word."""
    if len(history) < 2 or history[-1].vote:
        return False
    last, before = history[-1], history[-2]
    return (last.upstream, last.prefix, last.text) == (before.upstream, before.prefix, before.text)


def _why_not(
    policy: Policy, rung: Rung, history: Sequence[Attempt], *, upstreams: int, spent: bool
) -> str | None:
    """Why a rung cannot be taken; None: it can."""
    if spent and rung.action in GENERATING:
        return f"all {policy.attempts} attempts are spent"
    last = history[-1]
    cap = policy.attempts_per_step if rung.times is None else rung.times
    match rung.action:
        case Action.RESUME | Action.RESTART if _identical(history):
            return "the upstream gave an identical response again"
        case Action.RESUME | Action.SCAFFOLD if _times(rung, _at_this_step(history)) >= cap:
            return f"{rung.action} was tried {_often(cap)} at this step"
        case Action.SCAFFOLD if not last.scaffoldable:
            return "the line has no operands that could still be given"
        case Action.RESTART if last.delivered:
            return "steps were delivered, which forbids a restart"
        case Action.RESTART if _times(rung, [a for a in history if a.upstream == last.upstream]) >= cap:
            return f"restart was tried {_often(cap)}"
        case Action.FALLBACK if last.upstream + 1 >= upstreams:
            return "there is no further upstream"
        case Action.REPAIR if not last.repairable:
            return "what the model decides cannot be repaired"
        case _:
            return None


def _times(rung: Rung, attempts: Sequence[Attempt]) -> int:
    return sum(attempt.strategy.value == rung.action.value for attempt in attempts)


def _often(times: int) -> str:
    return {1: "once", 2: "twice"}.get(times, f"{times} times")

"""The retry policy: from what has happened to what to do next, as a pure function of history.

What may be tried depends on the kind of the violation: each kind has a *ladder*, a row of actions that are
tried in order. At one step of one upstream the ladder is only ever climbed: an action is tried again until
its cap is reached, then the next one. A fallback to the next upstream starts at the bottom again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

from guard.check.verdict import Kind
from guard.dialect.lark import Level
from guard.errors import UpstreamError
from guard.run.messages import Strategy

BACKOFF_S: Final = 0.5  # before the first retry after a fault of the network; doubled for each further one
LONGEST_WAIT_S: Final = 10.0  # a server that asks for more is given up
RETRY_TEMPERATURE: Final = (0.5, 0.15, 1.2)  # start, increase a retry, ceiling
SEEDS: Final = 2**63  # seeds are whole numbers of 64 bits, below this one


class Action(StrEnum):
    """What can be done about a violation."""

    RESTART = "restart"  # from the beginning, as long as nothing was delivered
    RESUME = "resume"  # from the last verified step
    SCAFFOLD = "scaffold"  # the same, the line's operands given
    FALLBACK = "fallback"  # resume on the next upstream
    REPAIR = "repair"  # the guard writes the line
    REJECT = "reject"


GENERATING: Final = frozenset({Action.RESTART, Action.RESUME, Action.SCAFFOLD, Action.FALLBACK})


@dataclass(frozen=True, slots=True)
class Rung:
    """An action of a ladder. `times`: how often on the same step; None: the policy's cap."""

    action: Action
    times: int | None = None


Ladder = tuple[Rung, ...]


def _ladder(*rungs: Action | Rung) -> Ladder:
    return tuple(rung if isinstance(rung, Rung) else Rung(rung) for rung in rungs)


_FORM = _ladder(Action.RESUME, Action.FALLBACK, Action.REPAIR, Action.REJECT)
_VALUE = _ladder(Action.RESUME, Action.SCAFFOLD, Action.FALLBACK, Action.REPAIR, Action.REJECT)
_OPERANDS = _ladder(Action.SCAFFOLD, Action.FALLBACK, Action.REPAIR, Action.REJECT)
_JUDGEMENT = _ladder(Action.RESUME, Action.FALLBACK, Action.REJECT)
_LOST = _ladder(Rung(Action.RESUME, 1), Rung(Action.RESTART, 1), Action.FALLBACK, Action.REJECT)

LADDERS: Final[Mapping[Kind, Ladder]] = {
    Kind.SKIPPED_STEP: _FORM,
    Kind.EXTRA_STEP: _FORM,
    Kind.REPEATED_STEP: _FORM,
    Kind.SELF_CORRECTION: _FORM,
    Kind.PREMATURE_ANSWER: _FORM,
    Kind.MISSING_ANSWER: _FORM,
    Kind.WRONG_VALUE: _VALUE,
    Kind.WRONG_ANSWER: _VALUE,
    # Drawing again rescues arithmetic slips (65 %), wrong operands hardly ever (17-34 %).
    Kind.WRONG_EXPRESSION: _OPERANDS,
    Kind.WRONG_BRANCH: _JUDGEMENT,
    Kind.INADMISSIBLE_VALUE: _JUDGEMENT,
    Kind.UNGROUNDED_VALUE: _JUDGEMENT,
    Kind.WRONG_CALL: _JUDGEMENT,
    Kind.UNCONFIRMED_CALL: _JUDGEMENT,
    Kind.MALFORMED: _LOST,
    Kind.LIMIT_EXCEEDED: _LOST,
    # Never the model's fault: does not count as an attempt.
    Kind.TRUNCATED: _JUDGEMENT,
}


def ladders(actions: Iterable[Action]) -> dict[Kind, Ladder]:
    """One list of actions for every kind of violation."""
    ladder = _ladder(*actions)
    return dict.fromkeys(Kind, ladder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a procedure is enforced.

    `attempts` bounds the generations that are opened because of a violation, `attempts_per_step` the same
    action on the same step, `transport_retries` the generations after a fault of the network on one
    upstream, `output_tokens` what all generations write together, `seconds` the wall time of the run.
    `vary`: a retry may raise the temperature and change the seed that the client asked for. `tolerant`: as
    the checker has it.
    """

    attempts: int = 12
    attempts_per_step: int = 2
    transport_retries: int = 2
    ladders: Mapping[Kind, Ladder] = field(default_factory=lambda: LADDERS, repr=False)
    vary: bool = True
    force: Level = Level.OPERANDS
    output_tokens: int = 8000
    seconds: float = 120
    deliver: Literal["hold_step", "hold_all"] = "hold_step"
    tolerant: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One generation, as the policy remembers it.

    `strategy` and `step` say why it was opened and at which step; `counted` whether because of a
    violation. `kind`, `failed_at`, `text` tell of the violation that ended it: what it wrote behind
    `prefix`, up to the end of what was wrong. `kind` is None where it ended otherwise. `delivered`: the
    client had received something by then. `scaffoldable`: the failed line has operands that the model had
    to write itself. `repairable`: the guard knows the whole of that line.
    """

    upstream: int
    strategy: Strategy
    step: str
    counted: bool
    prefix: str
    kind: Kind | None = None
    failed_at: str = ""
    text: str = ""
    delivered: bool = False
    scaffoldable: bool = False
    repairable: bool = False


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
    ladder = policy.ladders[last.kind]
    counted = last.kind is not Kind.TRUNCATED
    spent = counted and sum(attempt.counted for attempt in history) >= policy.attempts
    passed: list[str] = []
    for rung in ladder[_climbed(ladder, history) :]:
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
    if asked is None or not policy.vary or tries == 0:
        return asked
    start, increase, ceiling = RETRY_TEMPERATURE
    return max(asked, min(ceiling, round(start + increase * (tries - 1), 2)))


def seed(policy: Policy, asked: int | None, retries: int) -> int | None:
    """Give the seed of a generation: the client's for the first attempt, another one for each retry."""
    if asked is None or not policy.vary:
        return asked
    return asked + retries if asked + retries < SEEDS else asked - retries


def tries(history: Sequence[Attempt], strategy: Strategy, step: str, upstream: int) -> int:
    """Count the generations that were like one which is to be opened at a step.

    A resume is like the generation that failed before it; a scaffolded line is not, it is easier.
    """
    alike = sum(a.strategy is strategy and a.step == step and a.upstream == upstream for a in history)
    match strategy:
        case Strategy.RESUME | Strategy.RESTART:
            return alike + 1
        case Strategy.SCAFFOLD:
            return alike
        case _:
            return 0


def _climbed(ladder: Ladder, history: Sequence[Attempt]) -> int:
    """Find the highest rung that was tried at this step: there is no way back down."""
    tried = {attempt.strategy.value for attempt in _at_this_step(history)}
    reached = [i for i, rung in enumerate(ladder) if rung.action.value in tried & _CLIMBED]
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
    if len(history) < 2:
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

"""What may be tried about a violation: the actions, their order for each kind, and rules of one's own.

A *ladder* is a row of actions that are tried in order. Which one counts depends on the kind of the
violation and on the kind of the step it is at: the first rule that fits, else the default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from guard.check.verdict import Kind
from guard.dialect.line import Level
from guard.procedure.model import StepKind


class Action(StrEnum):
    """What can be done about a violation."""

    RESTART = "restart"  # from the beginning, as long as nothing was delivered
    RESUME = "resume"  # from the last verified step
    FEEDBACK = "feedback"  # the same, and the model is told which step was wrong and how
    SCAFFOLD = "scaffold"  # from the last verified step, the line's operands given
    ISOLATE = "isolate"  # the line is asked for by itself, without the trace, which then goes on from it
    FALLBACK = "fallback"  # resume on the next upstream, or on a named one
    REPAIR = "repair"  # the guard writes the line
    REJECT = "reject"
    RELEASE = "release"  # deliver what the model wrote, marked as not verified


GENERATING: Final = frozenset(
    {
        *(Action.RESTART, Action.RESUME, Action.FEEDBACK),
        *(Action.SCAFFOLD, Action.ISOLATE, Action.FALLBACK),
    }
)
AT_A_STEP: Final = (Action.RESUME, Action.FEEDBACK, Action.SCAFFOLD, Action.ISOLATE)  # what is tried at one
_GIVING: Final = frozenset({Level.OPERANDS, Level.VALUES})
ENDS: Final = frozenset({Action.REJECT, Action.RELEASE})


@dataclass(frozen=True, slots=True)
class Rung:
    """An action of a ladder.

    `times`: how often for the same kind of violation at the same step; None: the policy's cap; `ALL`: until
    all attempts are spent. `upstream`: which one a fallback goes to; None: the next.
    """

    action: Action
    times: int | Literal["all"] | None = None
    upstream: str | None = None


ALL: Final = "all"

Ladder = tuple[Rung, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A ladder, and what it is for: kinds of violations and kinds of steps; an empty set is all of them."""

    ladder: Ladder
    kinds: frozenset[Kind] = frozenset()
    steps: frozenset[StepKind] = frozenset()

    def fits(self, kind: Kind, step: StepKind | None) -> bool:
        """Whether it is for a violation at a step; None: at no step of the procedure."""
        return (not self.kinds or kind in self.kinds) and (not self.steps or step in self.steps)


def _ladder(*rungs: Action | Rung) -> Ladder:
    return tuple(rung if isinstance(rung, Rung) else Rung(rung) for rung in rungs)


# How ladders end: another model, else the guard; what only the model can decide is asked for, told what was
# wrong and ever hotter, for as long as there are attempts.
_END: Final = (Action.FALLBACK, Action.REPAIR, Rung(Action.FEEDBACK, ALL), Action.REJECT)

_FORM: Final = _ladder(Action.RESUME, *_END)
# The same context tempts a model to the same slip, however hot: of 17 lines it got 13 right by themselves.
_VALUE: Final = _ladder(Action.ISOLATE, Action.RESUME, Action.SCAFFOLD, *_END)
_OPERANDS: Final = _ladder(Action.SCAFFOLD, *_END)
_LOST: Final = _ladder(Rung(Action.RESUME, 1), Rung(Action.RESTART, 1), *_END)
_DECIDED: Final = _ladder(
    *(Action.RESUME, Action.FEEDBACK, Action.ISOLATE, Action.FALLBACK),
    *(Rung(Action.FEEDBACK, ALL), Action.REJECT),
)
_CUT: Final = _ladder(Action.RESUME, Action.FALLBACK, Action.REPAIR, Action.REJECT)

LADDERS: Final[Mapping[Kind, Ladder]] = {
    Kind.SKIPPED_STEP: _FORM,
    Kind.EXTRA_STEP: _FORM,
    Kind.REPEATED_STEP: _FORM,
    Kind.SELF_CORRECTION: _FORM,
    Kind.PREMATURE_ANSWER: _FORM,
    Kind.MISSING_ANSWER: _FORM,
    Kind.WRONG_VALUE: _VALUE,
    Kind.WRONG_BRANCH: _VALUE,
    Kind.WRONG_ANSWER: _VALUE,
    # Drawing again rescues arithmetic slips (65 %), wrong operands hardly ever (17-34 %).
    Kind.WRONG_EXPRESSION: _OPERANDS,
    Kind.INADMISSIBLE_VALUE: _DECIDED,
    Kind.UNGROUNDED_VALUE: _DECIDED,
    # What goes out into the world is never written by the guard.
    Kind.WRONG_CALL: _DECIDED,
    Kind.UNCONFIRMED_CALL: _DECIDED,
    Kind.MALFORMED: _LOST,
    Kind.LIMIT_EXCEEDED: _LOST,
    # Hotter, and with less left to write, it may well end.
    Kind.RUNAWAY: _VALUE,
    # Never the model's fault: does not count as an attempt, and is no reason to give up what can be computed.
    Kind.TRUNCATED: _CUT,
}

_IN_TRACE: Final[Mapping[Kind, Ladder]] = {
    kind: tuple(rung for rung in ladder if rung.action is not Action.ISOLATE)
    for kind, ladder in LADDERS.items()
}


def defaults(force: Level, *, whole: bool = False) -> Mapping[Kind, Ladder]:
    """Give the ladders of a policy without rules.

    Nothing is isolated where a model is to write its operands by itself, as `force` says: the question would
    give it the operands. Nor is it where answers are ready, and `whole` traces.
    """
    return LADDERS if force in _GIVING and not whole else _IN_TRACE


def always(actions: Iterable[Action | Rung]) -> tuple[Rule, ...]:
    """Make the one rule that has the same ladder for every violation."""
    return (Rule(ladder=_ladder(*actions)),)


def ladder(
    rules: Sequence[Rule], kind: Kind, step: StepKind | None, force: Level, *, whole: bool = False
) -> Ladder:
    """Find the ladder of a violation at a step: the first rule that fits, else the kind's default."""
    for rule in rules:
        if rule.fits(kind, step):
            return rule.ladder
    return defaults(force, whole=whole)[kind]


def named(rules: Iterable[Rule]) -> tuple[str, ...]:
    """Give the upstreams that rules fall back to by name, each once."""
    rungs = (rung for rule in rules for rung in rule.ladder)
    return tuple(dict.fromkeys(rung.upstream for rung in rungs if rung.upstream is not None))

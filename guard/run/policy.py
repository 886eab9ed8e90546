"""The retry policy: from what has happened to what to do next, as a pure function of history.

What may be tried are the rungs of a ladder (see `guard.run.ladders`). For one kind of violation at one step
of one upstream the ladder is only ever climbed: an action is tried again until its cap is reached, then the
next one. A fallback to another upstream starts at the bottom again, and there is no way back from it.

An answer that is no other than the one before is no reason to ask the same again as long as there is
something else to try: it leads to the next action at once. It never ends a run by itself.

Nothing here can go on for ever. A counted generation spends `attempts`. The other ones go on behind a cut:
so often at one step of one upstream as their rung says, while steps are only left behind, but by a restart,
which has a cap on each upstream, and upstreams only once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from typing import Final, Literal

from guard.check.verdict import Kind
from guard.dialect.lark import Level
from guard.procedure.expected import Expected
from guard.procedure.model import StepKind
from guard.run.ladders import AT_A_STEP, ENDS, GENERATING, Action, Ladder, Rule, Rung, ladder
from guard.run.messages import Strategy, Target
from guard.trace.alone import DECIDED

TEMPERATURES: Final = (None, 0.5, 0.65, 0.8, 0.95, 1.1, 1.2)  # of the first, second, ... like try
SAME: Final = (
    3  # times that the same mistake is made at one step of one upstream, until it counts as an equal answer
)


class Vary(StrEnum):
    """What may differ between a generation and the like one before it."""

    TEMPERATURE = "temperature"
    SEED = "seed"
    PHRASING = "phrasing"


class ForceBy(StrEnum):
    """How a model is held to the lines that its procedure wants."""

    AUTO = "auto"  # by a grammar where the server takes it, else line by line where it continues a prefix
    GRAMMAR = "grammar"
    LINES = "lines"  # line by line, also where it takes a grammar
    ISOLATION = "isolation"  # each step by itself, without the trace, several at once


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
    those on the upstreams that it names, `attempts_per_step` the same action for the same kind of violation
    at the same step, `transport_retries` the generations after a fault of the network on one upstream; the
    two kinds of retries are counted apart. `output_tokens` is what all generations may write together,
    `seconds` the wall time of the run.

    `force` says how much of each line the model is given, `force_by` how. `rules` say what to do about a
    violation, the defaults of `ladders` where none fits. `vary` is what a retry may change of what the client
    asked for, `temperatures` the ones of the first, second, ... like try at a step (None: as the client, else
    the upstream, has it; the last one counts for all further ones), `seed` the first one where the client
    names none.

    `parallel`: so many steps are asked for at once where they are asked for by themselves and do not wait for
    each other; in a race each lane has one at a time.

    `race`: so many first generations at once, of which the first that comes to the end counts. `votes`:
    how what the model decides is put to the vote. `tolerant`: as the checker has it. `relay_thoughts`:
    whether the client gets what models think. `without_grammar`: what a server refuses is asked for once
    more without its grammar.
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
    force_by: ForceBy = ForceBy.GRAMMAR
    output_tokens: int = 8000
    seconds: float = 120
    deliver: Literal["hold_step", "hold_all"] = "hold_step"
    tolerant: bool = False
    without_grammar: bool = True
    parallel: int = 4
    race: int = 1
    votes: Votes | None = None
    relay_thoughts: bool = False

    @property
    def isolates(self) -> bool:
        """Whether each step is asked for by itself."""
        return self.force_by is ForceBy.ISOLATION and self.force in {Level.OPERANDS, Level.VALUES}

    @property
    def releases(self) -> bool:
        """Whether what was not verified may be released."""
        return any(rung.action is Action.RELEASE for rule in self.rules for rung in rule.ladder)

    def repairs(self, due: Expected) -> bool:
        """Whether the guard may write a line for which there are no tokens left."""
        rungs = ladder(self.rules, Kind.TRUNCATED, due.kind, self.force)
        return due.known and any(rung.action is Action.REPAIR for rung in rungs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One generation, as the policy remembers it.

    `strategy` and `step` say why it was opened and at which step; `counted` whether because of a
    violation. `fault`: it was the network that ended it. `kind`, `failed_at`, `step_kind`, `found` and
    `text` tell of the violation that ended it: what it wrote behind `prefix`, up to the end of what was
    wrong. `kind` is None where it ended otherwise. `delivered`: the client had received something by then.
    `scaffoldable`: the failed line has operands that the model had to write itself. `isolable`: it can be
    asked for by itself. `repairable`: the guard knows the whole of that line. `written`: there is a text that
    could be released. `vote`: it ended with a line that was put to the vote, and may well say what another
    one said.
    """

    upstream: int
    strategy: Strategy
    step: str
    counted: bool
    prefix: str
    fault: bool = False
    kind: Kind | None = None
    failed_at: str = ""
    step_kind: StepKind | None = None
    found: str = ""
    text: str = ""
    delivered: bool = False
    scaffoldable: bool = False
    isolable: bool = False
    repairable: bool = False
    written: bool = True
    vote: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether it was opened for the next line, and nothing is wrong with that: nobody goes by it."""
        return self.strategy is Strategy.LINE and self.kind is None and not (self.fault or self.vote)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What to do next, and in words why nothing gentler.

    `upstream` is the one that a fallback goes to. `counted`: a generation opened for it counts against
    `attempts`. `rest`: repair not only this line but all that follow, up to the next one that the model has
    to decide. `barred`: it was nothing gentler because no generation may be opened any more.
    """

    action: Action
    upstream: int | None = None
    counted: bool = False
    rest: bool = False
    barred: bool = False
    reason: str = ""


def decide(
    policy: Policy,
    history: Sequence[Attempt],
    *,
    upstreams: Sequence[Target],
    barred: str = "",
    here: str = "",
) -> Choice:
    """Choose what to do about the violation that ended the last generation of `history`.

    `upstreams` are all that the run may use. `barred` says why no further generation can be opened whatever
    the policy would like; "": one can. `here`: the same for the upstream of the last one.
    """
    last = history[-1]
    assert last.kind is not None, "a generation that ended well needs no policy"
    whole = upstreams[last.upstream].replays
    rungs = ladder(policy.rules, last.kind, last.step_kind, policy.force, whole=whole)
    case = _Case(policy, history, rungs, upstreams, barred)
    case.here = here
    choice = _choose(case, equal=case.equal)
    return choice if choice.action not in ENDS or not case.equal else _choose(case, equal="")


def _choose(case: _Case, *, equal: str) -> Choice:
    """Take the first rung that can be taken. `equal`: why none is that was tried already; "": it may be."""
    passed: list[str] = []
    for position in range(case.climbed, len(case.rungs)):
        rung = case.rungs[position]
        if rung.action is Action.REJECT:
            break
        why_not = case.why_not(position) or (equal if case.was_tried(position) else "")
        if not why_not:
            return Choice(
                action=rung.action,
                upstream=case.target(rung) if rung.action is Action.FALLBACK else None,
                counted=case.counted and rung.action in GENERATING,
                rest=rung.action is Action.REPAIR and (case.is_spent or not case.counted),
                reason="; ".join(passed),
            )
        if why_not not in passed:
            passed.append(why_not)
    reason = "; ".join(passed) or "the policy allows no retry"
    return Choice(action=Action.REJECT, barred=case.barred in passed, reason=reason)


def blamed(attempt: Attempt, *, step: str, kind: StepKind, value: str, delivered: bool) -> Attempt:
    """Blame a generation for a decision of the model's behind which the procedure itself failed.

    `value` is what was decided: one that the step does not allow, as it has turned out.
    """
    return replace(
        attempt,
        kind=Kind.INADMISSIBLE_VALUE,
        failed_at=step,
        step_kind=kind,
        found=value,
        delivered=delivered,
        scaffoldable=False,
        isolable=kind in DECIDED,
        repairable=False,
    )


def damped(policy: Policy, retried: int) -> Policy:
    """Give the policy for a request that its client has sent so many times before.

    The client's retries take the place of ours after faults, so that the two do not multiply.
    """
    if retried <= 0:
        return policy
    return replace(policy, transport_retries=max(0, policy.transport_retries - retried))


def further(
    history: Sequence[Attempt], upstreams: Sequence[Target], *, here: int | None = None
) -> int | None:
    """Find the upstream that a run goes to from the last generation's, or from `here`; None: none is left.

    It is the first one that was not used yet and does not stand by for a policy that names it.
    """
    used = {attempt.upstream for attempt in history} | {here}
    return next((i for i, one in enumerate(upstreams) if i not in used and not one.standby), None)


def repeats(history: Sequence[Attempt]) -> bool:
    """Whether the last generation said what the one before it said, of those that were answered at all."""
    answered = [(a.upstream, a.prefix, a.text) for a in history if not a.fault][-2:]
    return len(answered) == 2 and answered[0] == answered[1] and not history[-1].vote


class _Case:
    """One violation and all that is known of what was tried before."""

    def __init__(
        self,
        policy: Policy,
        history: Sequence[Attempt],
        rungs: Ladder,
        upstreams: Sequence[Target],
        barred: str,
    ) -> None:
        self.policy, self.history, self.rungs = policy, history, rungs
        self.upstreams, self.barred = upstreams, barred
        self.here = ""  # why nothing more is asked of the last upstream
        self.last = history[-1]
        self.counted = self.last.kind is not Kind.TRUNCATED  # which is never the model's fault
        self.tried = Counter(_tried(history, self.last))
        self.begun = any(  # whether the line was begun for the model, whatever was wrong
            (a.upstream, a.step, a.strategy) == (self.last.upstream, self.last.failed_at, Strategy.SCAFFOLD)
            for a in history
        )

    @property
    def climbed(self) -> int:
        """The highest rung that was tried at this step: there is no way back down."""
        return max((self._reached(action) for action in AT_A_STEP if self._has_tried(action)), default=0)

    def _has_tried(self, action: Action) -> bool:
        return self.tried[action.value] > 0 or (action is Action.SCAFFOLD and self.begun)

    def _reached(self, action: Action) -> int:
        """The rung of an action that it has come to; 0 where it was tried by another ladder only."""
        positions = [i for i, rung in enumerate(self.rungs) if rung.action is action]
        tried = self.tried[action.value]
        return next((i for i in positions if tried <= self._cap(i)), max(positions, default=0))

    def was_tried(self, position: int) -> bool:
        """Whether a rung of this ladder was tried already."""
        action = self.rungs[position].action
        if action in AT_A_STEP:
            return position <= self.climbed and self._has_tried(action)
        return action is Action.RESTART and self.tried[action.value] > 0

    def _cap(self, position: int) -> int:
        """How often the action of a rung may have been tried when that rung is done."""
        action = self.rungs[position].action
        return sum(self._times(rung) for rung in self.rungs[: position + 1] if rung.action is action)

    def _times(self, rung: Rung) -> int:
        match rung.times:
            case None:
                return self.policy.attempts_per_step
            case "all":  # what does not count is never spent
                return self.policy.attempts if self.counted else self.policy.attempts_per_step
            case int(times):
                return times

    @property
    def is_spent(self) -> bool:
        """Whether no violation may open a generation any more, but by a fallback."""
        return bool(self._spent or self.barred or self._spent_here)

    @property
    def _spent(self) -> str:
        counted = sum(attempt.counted for attempt in self.history)
        spent = self.counted and counted >= self.policy.attempts
        return f"all {self.policy.attempts} attempts are spent" if spent else ""

    @property
    def _spent_here(self) -> str:
        if self.here:
            return self.here
        name = self.upstreams[self.last.upstream].name
        cap = self.policy.attempts_per_upstream.get(name)
        if cap is None or not self.counted:
            return ""
        counted = sum(a.counted and self.upstreams[a.upstream].name == name for a in self.history)
        return f"all {cap} attempts on this upstream are spent" if counted >= cap else ""

    @property
    def equal(self) -> str:
        """Why the last answer is none that another one like it could differ from; "": it may."""
        if repeats(self.history):
            return "the upstream gave an identical response again"
        mistake = (self.last.upstream, self.last.kind, self.last.failed_at, self.last.found)
        same = sum((a.upstream, a.kind, a.failed_at, a.found) == mistake for a in self.history)
        return f"the same was wrong at this step {_often(same)}" if same >= SAME else ""

    def target(self, rung: Rung) -> int | None:
        """The upstream that a fallback goes to; None: there is none."""
        if rung.upstream is None:
            return further(self.history, self.upstreams)
        used = {attempt.upstream for attempt in self.history}
        named = (i for i, one in enumerate(self.upstreams) if one.name == rung.upstream)
        return next((i for i in named if i not in used), None)

    def why_not(self, position: int) -> str | None:
        """Why a rung cannot be taken; None: it can."""
        rung = self.rungs[position]
        if rung.action in GENERATING and (spent := self.barred or self._spent):
            return spent
        if rung.action in _ON_THIS_UPSTREAM and (ended := self._spent_here):
            return ended
        match rung.action:
            case Action.RESUME | Action.FEEDBACK | Action.SCAFFOLD | Action.ISOLATE:
                return self._why_not_at_step(position)
            case Action.RESTART:
                return self._why_no_restart(position)
            case Action.FALLBACK if self.target(rung) is None:
                return self._why_no_fallback(rung)
            case Action.REPAIR if not self.last.repairable:
                return "what the model decides cannot be repaired"
            case Action.RELEASE if not self.last.written:
                return "nothing was written that could be released"
            case _:
                return None

    def _why_not_at_step(self, position: int) -> str | None:
        action = self.rungs[position].action
        if self.tried[action.value] >= self._cap(position):
            return f"{action} was tried {_often(self.tried[action.value])} at this step"
        if action is Action.SCAFFOLD and not self.last.scaffoldable:
            return "the line has no operands that could still be given"
        if action is Action.ISOLATE and not self.last.isolable:
            return "nothing in the line can be asked for by itself"
        return None

    def _why_no_restart(self, position: int) -> str | None:
        if self.last.delivered:
            return "steps were delivered, which forbids a restart"
        if self.tried[Action.RESTART.value] >= self._cap(position):
            return f"restart was tried {_often(self.tried[Action.RESTART.value])}"
        return None

    def _why_no_fallback(self, rung: Rung) -> str:
        if rung.upstream is None:
            return "there is no further upstream"
        if self.upstreams[self.last.upstream].name == rung.upstream:
            return "the run is on the upstream to fall back to"
        known = any(one.name == rung.upstream for one in self.upstreams)
        return "the upstream to fall back to was left" if known else "there is no upstream to fall back to"


_ON_THIS_UPSTREAM: Final = GENERATING - {Action.FALLBACK}


def _tried(history: Sequence[Attempt], last: Attempt) -> Iterator[str]:
    """Give what was tried about violations of the kind of the last one at its step; restarts wherever."""
    for before, attempt in pairwise(history):
        alike = (attempt.upstream, before.kind) == (last.upstream, last.kind)
        if alike and (attempt.step == last.failed_at or attempt.strategy is Strategy.RESTART):
            yield attempt.strategy.value


def _often(times: int) -> str:
    return {1: "once", 2: "twice"}.get(times, f"{times} times")

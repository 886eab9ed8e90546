"""Several runs of one request at once, of which the client gets the one that wins.

Theory of operation. Every lane is a run of its own with the same nonce; what differs is how its generations
are drawn. A lane is in one of three states:

    running   what it wants is done, but for what the client would see: nothing leaves
    parked    it wants something else than to go straight on: to try again, to wait, to end without an answer
              or with one that the guard had to write a part of. What it wants is kept
              (one that reads on unchecked, for what it writes to be released, counts as parked, too)
    lost      another lane goes on alone: the generation that it has open is closed, all it wants is dropped

A lane goes on alone from then on, and as any run does, when the first of these happens:

    it comes to an accepted answer, all of it the model's, with no second try
    it is the last one that runs, and no parked one has come further
    all are parked, and no other one that can still come to an answer has come further

What all lanes cost is the race's: one budget of tokens, one list of generations, numbered as they are opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from guard.check.verdict import Violation
from guard.errors import InvalidState
from guard.run import endings, varying
from guard.run.messages import (
    Cancelled,
    Close,
    Command,
    Emit,
    Finish,
    Observe,
    Open,
    Outcome,
    OutOfTime,
    Raced,
    Relay,
    Result,
    RunEvent,
    Strategy,
    Target,
    Usage,
    Wait,
)
from guard.run.opening import Job
from guard.run.policy import Policy
from guard.run.run import Run

# Why a generation is opened where nothing went wrong.
STRAIGHT_ON: Final = frozenset(
    {
        *(Strategy.INITIAL, Strategy.DECISION, Strategy.LINE, Strategy.VOTE),
        *(Strategy.UNFORCED, Strategy.LESS),
    }
)
SEEDS_APART: Final = 10_007  # between two lanes, so that no try of one has a seed of another's


def machine(job: Job, policy: Policy, targets: Sequence[Target]) -> Run | Race:
    """Make what carries out a request as its policy wants it: a run, or a race of several."""
    return Run(job, policy, targets) if policy.race == 1 else Race(job, policy, targets)


@dataclass(slots=True, kw_only=True)
class _Lane:
    """One run of the race. `numbers` gives the race's number of each of its generations."""

    number: int
    run: Run
    numbers: dict[int, int] = field(default_factory=dict)
    current: int = 0  # the race's number of its last generation
    parked: bool = False
    wants: list[Command] = field(default_factory=list)  # while it is parked
    violations: list[Violation] = field(default_factory=list)

    @property
    def runs(self) -> bool:
        """Whether it may still come to an answer by going straight on."""
        return not self.parked and not self.run.releases

    @property
    def finish(self) -> Finish | None:
        """Its end, where that is what it wants."""
        last = self.wants[-1] if self.wants else None
        return last if isinstance(last, Finish) else None

    @property
    def rank(self) -> tuple[int, int, int]:
        """What makes it the one to go on with, where none runs."""
        if self.run.releases:
            hope = 1
        else:
            hope = 2 if self.finish is None or self.finish.outcome in endings.ACCEPTED else 0
        return (hope, self.run.lines, -self.number)


class Race:
    """One client request, in as many lanes as the policy says.

    As with `Run`, the commands that `start` and `handle` return are to be performed in order; events say
    which generation they happened to.
    """

    def __init__(self, job: Job, policy: Policy, targets: Sequence[Target]) -> None:
        self._deliver = policy.deliver
        held = replace(policy, race=1, deliver="hold_all", parallel=1)
        self._lanes = [
            _Lane(number=i + 1, run=Run(_job(job, policy, i), held, _targets(targets, policy, i)))
            for i in range(policy.race)
        ]
        self._alone: _Lane | None = None
        self._owners: list[_Lane] = []  # of the generations that were opened
        self._usage: dict[int, Usage] = {}
        self._started = self._over = False

    def start(self) -> list[Command]:
        """Begin, all lanes at once. Raises InvalidState the second time."""
        if self._started:
            raise InvalidState("a race is started once")
        self._started = True
        commands: list[Command] = []
        for lane in self._lanes:
            if self._alone is None:  # the guard may write all of it, and needs one lane for that
                commands += self._take(lane, lane.run.start())
        return commands + self._settle()

    def handle(self, event: RunEvent, generation: int = 0) -> list[Command]:
        """Take what happened to a generation (0: to none of them), return what to do about it.

        Raises InvalidState for an event that has no place in the state of the race.
        """
        if not self._started or self._over:
            raise InvalidState(f"{event!r} came {'behind the end' if self._over else 'before the start'}")
        match event:
            case OutOfTime() | Cancelled():
                commands = self._stop(event)
            case _ if generation == 0 and self._alone is not None:
                commands = self._tell(self._alone, event)
            case _:
                commands = self._tell(self._lane(event, generation), event)
        return commands + self._settle()

    @property
    def decided(self) -> bool:
        """See `Run`; while several lanes race, the others may still say what counts."""
        return self._alone is not None and self._alone.run.decided

    def __repr__(self) -> str:
        lanes = ", ".join(repr(lane.run) + (" parked" if lane.parked else "") for lane in self._lanes)
        return f"<Race of {lanes}>"

    # --- what happened ---------------------------------------------------------------------------

    def _lane(self, event: RunEvent, generation: int) -> _Lane:
        """Find the lane whose open generation it is."""
        lane = self._owners[generation - 1] if 0 < generation <= len(self._owners) else None
        if lane is None or lane.current != generation or generation in self._usage:
            raise InvalidState(f"{event!r} came for generation {generation}, which is not open")
        return lane

    def _tell(self, lane: _Lane, event: RunEvent) -> list[Command]:
        lane.run.share_budget(sum(other.run.spent for other in self._lanes if other is not lane))
        return self._take(lane, lane.run.handle(event))

    def _stop(self, event: OutOfTime | Cancelled) -> list[Command]:
        """Tell all lanes, also those that wait for their turn; one may just have come to its end."""
        commands: list[Command] = []
        for lane in self._lanes if self._alone is None else [self._alone]:
            if self._alone is None and lane.parked and lane.finish is None:
                told = lane.run.handle(event)
                lane.wants = [c for c in told if not isinstance(c, Close)]  # what it wanted to open never was
            elif self._alone is lane or (self._alone is None and not lane.parked):
                commands += self._tell(lane, event)
        return commands

    # --- what to do ------------------------------------------------------------------------------

    def _take(self, lane: _Lane, commands: list[Command]) -> list[Command]:
        """Do what a lane wants, as far as it may; park it where it wants more."""
        done: list[Command] = []
        for i, command in enumerate(commands):
            if self._alone is not lane and _wants_more(command):
                lane.parked, lane.wants = True, commands[i:]
                won = lane.finish is not None and _clean(lane.finish)
                return done + (self._go_alone(lane) if won else [])
            done.append(self._numbered(lane, command))
        return done

    def _numbered(self, lane: _Lane, command: Command) -> Command:
        """Make a command of a lane one of the race."""
        match command:
            case Open(generation=number, strategy=strategy):
                self._owners.append(lane)
                lane.current = lane.numbers[number] = len(self._owners)
                if strategy is Strategy.INITIAL and lane.number > 1:
                    strategy = Strategy.RACE
                return replace(command, generation=lane.current, strategy=strategy)
            case Relay(generation=number):
                return replace(command, generation=lane.numbers[number])
            case Close(generation=number, usage=usage):
                self._usage[lane.numbers[number]] = usage
                return replace(command, generation=lane.numbers[number])
            case Observe(judgement):
                if isinstance(judgement, Violation):
                    lane.violations.append(judgement)
                return Observe(judgement, lane.current)
            case Finish():
                return self._finish(lane, command)
            case _:
                return command

    def _settle(self) -> list[Command]:
        """Let a lane go on alone, where it is settled by now which one it is."""
        if self._alone is not None:
            return []
        running = [lane for lane in self._lanes if lane.runs]
        furthest = max((lane.run.lines for lane in self._lanes if not lane.runs), default=0)
        match running:
            case []:
                return self._go_alone(max(self._lanes, key=lambda lane: lane.rank))
            case [last] if last.run.lines >= furthest:
                return self._go_alone(last)
            case _:
                return []

    def _go_alone(self, lane: _Lane) -> list[Command]:
        self._alone = lane
        commands: list[Command] = []
        for other in self._lanes:
            if other is not lane and not other.parked and other.current:
                closes = (c for c in other.run.handle(Cancelled()) if isinstance(c, Close))
                commands += [self._numbered(other, replace(close, result=Result.LOST)) for close in closes]
        if self._deliver == "hold_step":
            commands += (self._numbered(lane, command) for command in lane.run.deliver_steps())
        return commands + self._take(lane, lane.wants)

    def _finish(self, lane: _Lane, finish: Finish) -> Finish:
        """Make the end of the lane that went on alone the end of all."""
        self._over = True
        lost = tuple((o.number, v) for o in self._lanes if o is not lane for v in o.violations)
        return replace(
            finish,
            generations=len(self._owners),
            usage=tuple(usage for _, usage in sorted(self._usage.items())),
            discarded=self._discarded(lane, finish),
            raced=Raced(
                lanes=len(self._lanes),
                lane=lane.number,
                lost=lost,
                generations_lost=frozenset(n for n, o in enumerate(self._owners, 1) if o is not lane),
            ),
        )

    def _discarded(self, lane: _Lane, finish: Finish) -> tuple[int, ...]:
        """What served nobody: all that other lanes wrote, and of this one what it says."""
        own = {lane.numbers[i]: lost for i, lost in enumerate(finish.discarded, 1) if i in lane.numbers}
        return tuple(own.get(number, usage.completion) for number, usage in sorted(self._usage.items()))


def _wants_more(command: Command) -> bool:
    """Whether a command is not for a lane that races."""
    if isinstance(command, Open):
        return command.strategy not in STRAIGHT_ON
    return isinstance(command, Wait | Emit | Relay | Finish)


def _clean(finish: Finish) -> bool:
    return finish.outcome in endings.ACCEPTED and finish.outcome is not Outcome.REPAIRED


def _job(job: Job, policy: Policy, lane: int) -> Job:
    """Give a lane a seed and a temperature of its own; the first one has what the client asked for."""
    return replace(
        job,
        temperature=_temperature(policy, job.temperature, lane),
        seed=varying.seed(policy, job.seed, lane * SEEDS_APART),
    )


def _targets(targets: Sequence[Target], policy: Policy, lane: int) -> tuple[Target, ...]:
    return tuple(replace(t, temperature=_temperature(policy, t.temperature, lane)) for t in targets)


def _temperature(policy: Policy, asked: float | None, lane: int) -> float | None:
    return varying.temperature(policy, asked, min(lane, 1))

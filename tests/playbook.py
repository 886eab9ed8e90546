"""Tell what a run must do as a script: `>>` is what happens, `<<` what the run does about it.

    assert (
        Playbook(run)
        << opens(prefix="@begin sums 3fa92c\\n1")
        >> says(" a = 3 + 4 = 8\\n")
        << violates(Kind.WRONG_VALUE, "1")
        << closes(Result.VIOLATION)
        << opens(strategy=Strategy.RESUME, temperature=0.5)
        ...
        << finishes(Outcome.ACCEPTED_AFTER_RETRY)
    )

Every command must be told, in its order, before the next thing happens; only `Observe` of a verified step
is left out, which `Emit` tells of. A playbook that does not end with the run's end is false.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from guard.check.verdict import Ignored, Kind, StepVerified, Violation
from guard.run.messages import (
    Close,
    Command,
    Emit,
    Ended,
    Finish,
    Observe,
    Open,
    Outcome,
    Result,
    RunEvent,
    StepClass,
    Strategy,
    Text,
    Usage,
    Wait,
)
from guard.run.run import Run


@dataclass(frozen=True)
class Wanted:
    """A command of which some fields are told; `None` is a value to be told like any other."""

    type: type[Command]
    fields: dict[str, object]

    def differs(self, command: Command) -> list[str]:
        """In what a command is not the wanted one."""
        if not isinstance(command, self.type):
            return [f"it is no {self.type.__name__}"]
        return [
            f"{name}: {value!r} was wanted"
            for name, value in self.fields.items()
            if getattr(command, name) != value
        ]

    def __repr__(self) -> str:
        return (
            f"{self.type.__name__}({', '.join(f'{name}={value!r}' for name, value in self.fields.items())})"
        )


@dataclass(frozen=True)
class Judged:
    """An `Observe` whose judgement fits."""

    what: str
    fits: Callable[[object], bool]

    def differs(self, command: Command) -> list[str]:
        """In what a command is not the wanted one."""
        if isinstance(command, Observe) and self.fits(command.judgement):
            return []
        return [f"{self.what} was wanted"]


class Playbook:
    """An exchange with a run, checked while it is told."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.told: list[str] = []
        self.commands: list[Command] = []  # all there were
        self._pending = self._without_steps(run.start())

    def __rshift__(self, event: RunEvent) -> Playbook:
        assert not self._pending, self._report(f"{event!r} happens before this was told: {self._pending!r}")
        self.told.append(f">> {event!r}")
        self._pending = self._without_steps(self.run.handle(event))
        return self

    def __lshift__(self, wanted: Wanted | Judged | Waits) -> Playbook:
        assert self._pending, self._report(f"the run does nothing, {wanted!r} was wanted")
        command = self._pending.pop(0)
        differences = wanted.differs(command)
        assert not differences, self._report("\n   ".join([f"<< {command!r}", *differences]))
        self.told.append(f"<< {command!r}")
        return self

    def __bool__(self) -> bool:
        assert not self._pending, self._report(f"this was not told: {self._pending!r}")
        return bool(self.commands) and isinstance(self.commands[-1], Finish)

    def _without_steps(self, commands: list[Command]) -> list[Command]:
        self.commands += commands
        return [c for c in commands if not (isinstance(c, Observe) and isinstance(c.judgement, StepVerified))]

    def _report(self, message: str) -> str:
        return "\n".join(["", *self.told, message])

    @property
    def finish(self) -> Finish:
        """How the run ended."""
        last = self.commands[-1]
        assert isinstance(last, Finish)
        return last


# --- what happens --------------------------------------------------------------------------------


def says(text: str, tokens: int = 1) -> Text:
    """The upstream writes something."""
    return Text(text, tokens)


def ends(finish_reason: str | None = "stop", *, prompt: int = 0, completion: int | None = None) -> Ended:
    """The upstream is at its end; without `completion` it reports no usage."""
    usage = None if completion is None else Usage(prompt=prompt, completion=completion)
    return Ended(finish_reason, usage)


# --- what the run does ---------------------------------------------------------------------------


def opens(strategy: Strategy = Strategy.INITIAL, **fields: object) -> Wanted:
    """A generation is opened."""
    return Wanted(Open, {"strategy": strategy, **fields})


def closes(result: Result, **fields: object) -> Wanted:
    """The generation is closed."""
    return Wanted(Close, {"result": result, **fields})


def emits(step: str, step_class: StepClass = StepClass.VERIFIED, **fields: object) -> Wanted:
    """The client gets a step."""
    return Wanted(Emit, {"step": step, "step_class": step_class, **fields})


@dataclass(frozen=True)
class Waits:
    """A wait that begins as a back-off of so many seconds, of which up to a half is cut."""

    seconds: float

    def differs(self, command: Command) -> list[str]:
        """In what a command is not the wanted one."""
        match command:
            case Wait(seconds) if self.seconds / 2 <= seconds <= self.seconds:
                return []
            case _:
                return [f"a wait of up to {self.seconds} s was wanted"]


def waits(seconds: float) -> Waits:
    """The run waits."""
    return Waits(seconds)


def finishes(outcome: Outcome, **fields: object) -> Wanted:
    """The run is over."""
    return Wanted(Finish, {"outcome": outcome, **fields})


def violates(kind: Kind, step: str) -> Judged:
    """A violation is observed."""

    def fits(judgement: object) -> bool:
        return isinstance(judgement, Violation) and (judgement.kind, judgement.step) == (kind, step)

    return Judged(f"violation {kind.value} at step {step!r}", fits)


def ignores(text: str) -> Judged:
    """Text is left out of account."""

    def fits(judgement: object) -> bool:
        return isinstance(judgement, Ignored) and judgement.text == text

    return Judged(f"{text!r} to be ignored", fits)

"""What an endpoint tells its observers while it works: realistic runs as series of calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Final

from guard.check.report import StepCounts
from guard.check.verdict import Kind, StepVerified, Violation
from guard.errors import UpstreamTimeout
from guard.procedure.model import StepKind
from guard.run.messages import (
    Close,
    Emit,
    Finish,
    Margin,
    Open,
    Outcome,
    Raced,
    Result,
    RunError,
    StepClass,
    Strategy,
    Usage,
    Voted,
)
from guard.telemetry.observer import (
    Observation,
    Observed,
    Observer,
    Refusal,
    RunInfo,
    RunObserver,
    Stage,
)

MODEL: Final = "smol"
SECRET: Final = "Ann Example, 12 hinges"  # stands for every text of a prompt or a response

KINDS: Final = {
    "1": StepKind.EXTRACT,
    "2": StepKind.LOOP,
    "2.1": StepKind.ASSIGN,
    "3": StepKind.RETURN,
}
PATHS: Final = {"1": "1", "2": "2", "2[1].1": "2.1", "2[2].1": "2.1", "3": "3"}


def info(**changes: object) -> RunInfo:
    known: dict[str, object] = {
        "procedure": "invoice",
        "version": "1.2",
        "digest": "0123456789abcdef",
        "audit_id": "0197f0c0-0000-7000-8000-000000000001",
        "mode": "enforce",
        "stream": True,
        "model": "invoice-small",
        "step_kinds": KINDS,
    }
    return RunInfo(**(known | changes))  # type: ignore[arg-type]


def opened(generation: int = 1, strategy: Strategy = Strategy.INITIAL, *, model: str = MODEL) -> Open:
    return Open(
        generation=generation,
        attempt=generation,
        upstream="main",
        strategy=strategy,
        messages=({"role": "user", "content": SECRET},),
        prefix="@begin invoice 3fa92c\n1",
        grammar=f'root ::= "{SECRET}"',
        max_tokens=800,
        temperature=0.2,
        model=model,
        resume_from="" if generation == 1 else "2[1].1",
    )


def closed(
    generation: int = 1,
    result: Result = Result.PASSED,
    *,
    discarded: int = 0,
    prompt: int = 100,
    completion: int = 40,
    estimated: bool = False,
) -> Close:
    usage = Usage(prompt=prompt, completion=completion, estimated=estimated)
    error = UpstreamTimeout("nothing came for 30 s") if result is Result.TIMEOUT else None
    return Close(generation=generation, result=result, usage=usage, discarded=discarded, error=error)


def verified(path: str) -> StepVerified:
    return StepVerified(
        path=path,
        kind=KINDS[PATHS[path]],
        label=None,
        target=None,
        value=Fraction(5),
        text=f"{path} {SECRET}\n",
        at=0,
        end=9,
        decided=False,
    )


def violation(path: str = "2[1].1", kind: Kind = Kind.WRONG_VALUE) -> Violation:
    return Violation(
        kind=kind, step=path, at=30, expected=SECRET, found=SECRET, step_kind=KINDS.get(PATHS.get(path, ""))
    )


def emitted(path: str, how: StepClass = StepClass.VERIFIED) -> Emit:
    return Emit(
        step=path, kind=KINDS[PATHS[path]], step_class=how, text=f"{path} {SECRET}\n", value=Fraction(5)
    )


def finished(
    outcome: Outcome,
    *,
    error: RunError | None = None,
    votes: tuple[Voted, ...] = (),
    discarded: tuple[int, ...] = (),
    saved: int = 0,
    **classes: StepClass,
) -> Finish:
    """The end of a run whose steps are verified but for what `classes` says (`s2_1` means `2[1].1`)."""
    ended = dict.fromkeys(PATHS, StepClass.VERIFIED) | {_path(key): how for key, how in classes.items()}
    count = dict.fromkeys(StepClass, 0)
    for how in ended.values():
        count[how] += 1
    return Finish(
        votes=votes,
        outcome=outcome,
        end=None if error else "return",
        answer=None if error else SECRET,
        trace=SECRET,
        attempts=1,
        generations=1,
        violations=(),
        steps=StepCounts(expected=len(ended), **{str(how): number for how, number in count.items()}),
        usage=(),
        error=error,
        classes=ended,
        discarded=discarded,
        saved=saved,
    )


def _path(key: str) -> str:
    number, _, at = key.removeprefix("s").partition("_")
    return f"{number}[{at}].1" if at else number


def play_accepted(observer: Observer) -> None:
    run = observer.run_started(info())
    run.opened(opened())
    _write(run, PATHS)
    run.closed(closed())
    run.finished(finished(Outcome.ACCEPTED_FIRST, discarded=(0,), s1=StepClass.MODEL_DECIDED), 2.0)


def play_voted(observer: Observer) -> None:
    run = observer.run_started(info())
    for generation in range(1, 4):
        run.opened(opened(generation, Strategy.INITIAL if generation == 1 else Strategy.VOTE))
        run.observed(verified("1"))
        run.closed(closed(generation, Result.DECIDED, discarded=0 if generation == 3 else 40))
    run.opened(opened(4, Strategy.DECISION))
    _write(run, PATHS)
    run.closed(closed(4))
    votes = (
        Voted(step="1", kind=StepKind.EXTRACT, cast=3, agreed=2, margin=Margin.CAPPED),
        Voted(step="2[1].1", kind=StepKind.JUDGE, cast=2, agreed=2, margin=Margin.REACHED),
    )
    lost = (40, 40, 0, 0)
    finish = finished(Outcome.ACCEPTED_FIRST, votes=votes, discarded=lost, s1=StepClass.MODEL_DECIDED)
    run.finished(finish, 2.0)


def play_raced(observer: Observer) -> None:
    """Three lanes; the second one does something wrong, the third one wins."""
    run = observer.run_started(info())
    for generation in (1, 2, 3):
        strategy = Strategy.INITIAL if generation == 1 else Strategy.RACE
        run.opened(opened(generation, strategy, model="large" if generation == 1 else MODEL))
    run.observed(violation(), 2)
    run.closed(closed(2, Result.VIOLATION, completion=12, discarded=5))
    run.closed(closed(3, completion=40))
    run.closed(closed(1, Result.LOST, completion=30))
    raced = Raced(lanes=3, lane=3, lost=((2, violation()),), generations_lost=frozenset({1, 2}))
    run.finished(replace(finished(Outcome.ACCEPTED_FIRST, discarded=(30, 12, 0)), raced=raced), 2.0)


def play_resumed(observer: Observer) -> None:
    run = observer.run_started(info())
    run.opened(opened())
    _write(run, ("1", "2"))
    run.observed(violation())
    run.closed(closed(1, Result.VIOLATION, discarded=12))
    run.opened(opened(2, Strategy.SCAFFOLD))
    _write(run, ("2[1].1", "2[2].1", "3"))
    run.closed(closed(2, estimated=True))
    finish = finished(Outcome.ACCEPTED_AFTER_RETRY, discarded=(12, 0), saved=25, s2_1=StepClass.SCAFFOLDED)
    run.finished(finish, 3.0)


def play_repaired(observer: Observer) -> None:
    run = observer.run_started(info())
    run.opened(opened())
    run.observed(violation("2[2].1", Kind.WRONG_EXPRESSION))
    run.closed(closed(1, Result.VIOLATION, discarded=40))
    _write(run, PATHS)
    run.finished(
        finished(Outcome.REPAIRED, discarded=(40,), s2_2=StepClass.REPAIRED, s3=StepClass.COMPUTED), 1.0
    )


def play_rejected(observer: Observer) -> None:
    run = observer.run_started(info())
    run.opened(opened())
    run.observed(violation("3", Kind.PREMATURE_ANSWER))
    run.closed(closed(1, Result.VIOLATION, discarded=10))
    error = RunError(status=422, type="procedure_violation", code="premature_answer", message="step 3")
    run.finished(finished(Outcome.REJECTED, error=error, s2_1=StepClass.MISSING, s3=StepClass.MISSING), 1.0)


def play_timed_out(observer: Observer) -> None:
    run = observer.run_started(info(stream=False))
    run.opened(opened(model="a-model-nobody-configured"))
    run.closed(replace(closed(1, Result.TIMEOUT, completion=0), ignored=True))
    error = RunError(status=504, type="upstream_error", code="upstream_timeout", message="too slow")
    run.finished(finished(Outcome.ERROR, error=error, s2=StepClass.MISSING, s3=StepClass.MISSING), 60.0)


def play_observed(observer: Observer) -> None:
    for result, answer in ((Observed.FAILED, "wrong"), (Observed.NOT_SAMPLED, None)):
        run = observer.run_started(info(mode="observe", stream=False))
        run.opened(opened())
        if answer is not None:
            run.observed(violation())
        run.closed(closed(1, Result.VIOLATION if answer else Result.PASSED))
        where = {"reading": "free", "answer": answer, "answer_at": 0.9} if answer else {}
        run.concluded(Observation(result=result, **where))  # type: ignore[arg-type]
        ended = finished(Outcome.PASSTHROUGH, s1=StepClass.MODEL_DECIDED, s2_1=StepClass.MISSING)
        run.finished(ended if answer else replace(ended, classes={}, steps=StepCounts()), 1.0)


def play_others(observer: Observer) -> None:
    observer.passthrough(status=200, duration_s=0.4)
    observer.request_refused(Refusal(code="missing_input", status=400, procedure="invoice"))
    observer.request_refused(Refusal(code="invalid_json", status=400))
    for stage in Stage:
        observer.overhead(stage, 0.0004)


PLAYS: Final[tuple[Callable[[Observer], None], ...]] = (
    play_accepted,
    play_resumed,
    play_repaired,
    play_rejected,
    play_timed_out,
    play_observed,
    play_others,
)


def play_all(observer: Observer) -> None:
    for play in PLAYS:
        play(observer)
    for state in ("open", "half_open", "closed", "open"):
        observer.breaker_changed("main", state)
    for reason in ("breaker", "budget"):
        observer.upstream_spared("main", reason)
    observer.grammar_refused("main")


def _write(run: RunObserver, paths: Iterable[str]) -> None:
    for path in paths:
        run.observed(verified(path))
        run.emitted(emitted(path), 0.3)

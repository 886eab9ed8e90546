"""A whole text that has the opening line of a trace: the checker's, and what it says of the answer."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping

from guard.check.checker import Checker
from guard.check.ended import true_ending
from guard.check.findings import STEPS, TURN, Class, Findings, verdict
from guard.check.replay import Sent, Walk
from guard.check.verdict import Judgement, Kind, StepVerified, Verdict, Violation
from guard.check.whole import check_whole
from guard.procedure.execute import Program
from guard.procedure.expected import Pick
from guard.procedure.model import ANSWERS, StepKind
from guard.procedure.types import Value


def traced(
    program: Program, inputs: Mapping[str, Value], text: str, finish_reason: str | None
) -> Generator[None, None, Findings]:
    """Check a text as a trace in which other text may stand. Yields now and then."""
    checker = Checker(program, inputs, nonce=None, stop_at_first=False, tolerant=True)
    heard, _ = yield from check_whole(checker, text, finish_reason)
    verifications = [one for one in heard if isinstance(one, StepVerified)]
    ending = yield from true_ending(
        program, inputs, {one.path: one.value for one in verifications if one.decided}
    )
    answers = list(_answers(heard))
    steps, ended = yield from _all_steps(program, inputs, checker.sent)
    cut = any(violation.kind is Kind.TRUNCATED for violation in checker.violations)
    verified = dict(checker.paths)
    classes: dict[str, tuple[StepKind, Class]] = {}
    for place, (path, kind) in enumerate(steps):
        if path in verified:
            classes[path] = (kind, "model_decided" if verified[path] else "verified")
        elif not cut or place < len(checker.sent):
            classes[path] = (kind, "missing")
    right = [ending is not None and one.value == ending.value for one in verifications if one.kind in ANSWERS]
    return Findings(
        reading="trace",
        verdict=verdict(checker.violations, sure=checker.verdict is Verdict.PASSED),
        violations=tuple(checker.violations),
        classes=classes,
        answer="none" if not answers else "right" if any(right) else "wrong",
        answer_at=answers[0] / len(text) if answers else None,
        too_long=not ended,
        supported=len(checker.supported),
    )


def _answers(judgements: Iterable[Judgement]) -> Iterator[int]:
    """Give the places of the answers, right or wrong."""
    for judgement in judgements:
        match judgement:
            case StepVerified(kind=kind, at=at) if kind in ANSWERS:
                yield at
            case Violation(kind=Kind.PREMATURE_ANSWER | Kind.WRONG_ANSWER, at=at):
                yield at
            case _:
                pass


def _all_steps(
    program: Program, inputs: Mapping[str, Value], sent: Iterable[Sent]
) -> Generator[None, None, tuple[list[tuple[str, StepKind]], bool]]:
    """Give the steps of an execution, carried on behind what was sent; and whether there are no more."""
    walk, steps = Walk.start(program, inputs), list[tuple[str, StepKind]]()
    rest = iter(sent)
    while walk.due is not None and len(steps) < STEPS:
        value = next(rest, ...)
        if not isinstance(value, Pick):
            steps.append((walk.due.path, walk.due.kind))
        if value is ...:
            walk.skip()
        else:
            walk.send(value)
        if len(steps) % TURN == 0:
            yield
    return steps, walk.due is None

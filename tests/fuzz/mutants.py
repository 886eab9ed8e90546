"""Guards with one thing wrong in each: what the harness must find, or it would find nothing else either."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Final

from guard.check import compare
from guard.check.frame import Frame
from guard.check.misplaced import Misplaced
from guard.check.verdict import Judgement, Kind
from guard.procedure import numbers
from guard.procedure.types import Rounding
from guard.run.accounts import Accounts
from guard.run.messages import Close, Command, Emit, StepClass
from guard.run.policy import _Case
from guard.run.progress import Progress
from guard.run.run import Run
from guard.trace import render
from guard.wire.sse import Decoder

Mutant = Callable[[], AbstractContextManager[None]]


@contextmanager
def changed(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Put something else in the place of a member, for a while."""
    kept = owner.__dict__[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, kept)


def _around(owner: Any, name: str, otherwise: Callable[..., Any]) -> Mutant:
    """`otherwise` gets what was there, and its arguments."""

    def mutant() -> AbstractContextManager[None]:
        there = owner.__dict__[name]
        return changed(owner, name, lambda *args, **named: otherwise(there, *args, **named))

    return mutant


def _value_not_compared(_there: Any, *_args: Any) -> bool:
    return True


def _working_not_compared(there: Any, cell: Any, wanted: str, working: str) -> bool:
    return cell.working is not None or bool(there(cell, wanted, working))


def _no_fault(_there: Any, *_args: Any) -> None:
    return None


def _line_feed_lost(there: Any, progress: Progress) -> list[Emit]:
    return [replace(emit, text=emit.text.rstrip("\n")) for emit in there(progress)]


def _delivered_twice(there: Any, progress: Progress) -> list[Emit]:
    emits: list[Emit] = there(progress)
    progress._emitted = max(0, progress._emitted - 1)
    return emits


def _one_line_early(there: Any, progress: Progress) -> list[Emit]:
    emits: list[Emit] = there(progress)
    due = progress.expected
    if emits and due is not None and due.known:
        text = render.line(due) + "\n"
        emits.append(replace(emits[-1], step=due.path, kind=due.kind, text=text))
    return emits


def _not_marked(there: Any, progress: Progress, step_class: StepClass) -> list[Judgement]:
    marked = StepClass.VERIFIED if step_class is StepClass.REPAIRED else step_class
    written: list[Judgement] = there(progress, marked)
    return written


def _delivered_at_once(_there: Any, run: Run) -> list[Command]:
    return list(run._progress.deliver())


def _not_counted(there: Any, accounts: Accounts, *args: Any, **named: Any) -> Close:
    before = accounts.completion
    close: Close = there(accounts, *args, **named)
    accounts.completion = before
    return close


def _called_extra(there: Any, misplaced: Misplaced, *args: Any) -> Kind:
    kind: Kind = there(misplaced, *args)
    return Kind.EXTRA_STEP if kind is Kind.SKIPPED_STEP else kind


_SWAPPED: Final = {
    Rounding.HALF_UP: Rounding.HALF_EVEN,
    Rounding.HALF_EVEN: Rounding.HALF_UP,
    Rounding.DOWN: Rounding.UP,
    Rounding.UP: Rounding.DOWN,
    Rounding.FLOOR: Rounding.CEILING,
    Rounding.CEILING: Rounding.FLOOR,
}


def _rounded_otherwise(there: Any, numerator: int, denominator: int, rounding: Rounding) -> int:
    return int(there(numerator, denominator, _SWAPPED.get(rounding, Rounding.UP)))


def _forgets(there: Any, decoder: Decoder, data: bytes) -> list[bytes]:
    decoder._parts.clear()
    events: list[bytes] = there(decoder, data)
    return events


def _one_attempt_more() -> AbstractContextManager[None]:
    there = _Case.__dict__["_spent"].fget

    def spent(case: _Case) -> str:
        kept = case.policy
        case.policy = replace(kept, attempts=kept.attempts + 1)
        try:
            return str(there(case))
        finally:
            case.policy = kept

    return changed(_Case, "_spent", property(spent))


def _another_end(there: Any, progress: Progress) -> tuple[str, str]:
    _, answer = there(progress)
    return "return", answer


def _answered_otherwise() -> AbstractContextManager[None]:
    there = Progress.__dict__["answer"].fget
    return changed(Progress, "answer", property(lambda progress: _another_end(there, progress)))


MUTANTS: Final[Mapping[str, Mutant]] = {
    "a value is not compared": _around(compare, "_right_value", _value_not_compared),
    "a working is not compared": _around(compare, "_same", _working_not_compared),
    "a quote is not looked up": _around(compare, "_ungrounded", _no_fault),
    "the nonce is not looked at": _around(Frame, "is_mine", _value_not_compared),
    "a skipped step is called an extra one": _around(Misplaced, "kind", _called_extra),
    "a line feed is lost": _around(Progress, "deliver", _line_feed_lost),
    "a line is delivered twice": _around(Progress, "deliver", _delivered_twice),
    "a line is delivered before it was written": _around(Progress, "deliver", _one_line_early),
    "what is held leaves step by step": _around(Run, "_deliver", _delivered_at_once),
    "a repaired line is not marked": _around(Progress, "write", _not_marked),
    "a refusal is called an answer": _answered_otherwise,
    "an attempt too many": _one_attempt_more,
    "tokens are not counted": _around(Accounts, "close", _not_counted),
    "rounded in another mode": _around(numbers, "_whole", _rounded_otherwise),
    "bytes are lost between two reads": _around(Decoder, "feed", _forgets),
}

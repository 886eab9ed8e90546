"""What a model may be blamed for: its own mistake, by its kind and place, and what a server's mishap looks like.

A line that goes on from one that was begun may be read in more than one way, and where prose may stand beside the
trace what nobody can read is left out. These are the only liberties that a run has.
"""

from __future__ import annotations

from typing import Final

from guard.check.verdict import Kind, Violation
from guard.run.messages import Result
from tests.faults.faithful import Mutant
from tests.fuzz.play import Generation
from tests.fuzz.scenario import OWN_ENDS, Mishap

HARMLESS: Final = frozenset({Mishap.NONE, Mishap.LATE})
# Kinds of lines that cannot be read: where prose may stand beside the trace some of them are taken for that.
ILLEGIBLE: Final = frozenset({Kind.MALFORMED.value, Kind.LIMIT_EXCEEDED.value, Kind.RUNAWAY.value})
BEHIND: Final = "all that was asked for"  # what comes then is nobody's mistake any more
UNFRAMED: Final = "misframed"
PASSED_BY: Final = frozenset({Kind.SKIPPED_STEP, Kind.PREMATURE_ANSWER, Kind.MISSING_ANSWER})


def is_due(generation: Generation, violation: Violation, *, tolerant: bool, ample: bool, begun: bool) -> bool:
    """Whether a violation is right.

    `ample`: there are tokens for anything. `begun`: the guard wrote the opening line before any generation.
    """
    mistake = generation.said.mistake
    if mistake is not None and _is_of(generation, violation, mistake, tolerant=tolerant, begun=begun):
        return True
    return _is_mishap(generation, violation.kind, ample=ample)


def _is_of(
    generation: Generation, violation: Violation, mistake: Mutant, *, tolerant: bool, begun: bool
) -> bool:
    command, illegible = generation.command, mistake.kind in ILLEGIBLE
    goes_on = begun or command.generation > 1 or generation.said.framed
    if violation.step == mistake.step or (not violation.step and violation.kind is Kind.EXTRA_STEP):
        if violation.kind.value == mistake.kind:
            return True
        if illegible and generation.said.framed and violation.kind is Kind.WRONG_EXPRESSION:
            return True  # read as the rest of the line that was begun
    if tolerant:  # it is left out, and so the step is missed, by whatever comes then
        return illegible or violation.kind in PASSED_BY
    return illegible and goes_on and not command.prefix  # a turn of a dialogue may have a sentence in front


def _is_mishap(generation: Generation, kind: Kind, *, ample: bool) -> bool:
    answer = generation.answer
    match kind:
        case Kind.TRUNCATED:
            early = answer.mishap in {Mishap.LATE, Mishap.EMPTY} and answer.finish_reason not in OWN_ENDS
            return early or not ample or answer.mishap in {Mishap.CUT, Mishap.RUNAWAY}
        case Kind.RUNAWAY if not ample:
            return True  # thoughts that leave no room for an answer
        case Kind.MISSING_ANSWER | Kind.MALFORMED if answer.mishap is Mishap.EMPTY:
            return True
        case _:
            return answer.mishap is Mishap.RUNAWAY


def missed(generation: Generation) -> str:
    """Say which mistake a run was told of that nobody noticed; "": none."""
    mistake, close = generation.said.mistake, generation.close
    if mistake is None or close is None or close.result is not Result.PASSED or generation.said.late:
        return ""
    aside = any(ignored.text.strip() and not ignored.why.endswith(BEHIND) for ignored in generation.ignored)
    if generation.found or aside or generation.answer.mishap not in HARMLESS:
        return ""
    if mistake.name == UNFRAMED and generation.command.generation > 1:
        return ""  # where nothing stands after a first answer, the opening line need not be written
    return f"{mistake.name} ({mistake.kind} at {mistake.step!r})"

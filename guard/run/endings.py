"""How a run ends without an answer, as OpenAI error objects; and what a run that has one came to."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from guard.check.verdict import Kind
from guard.errors import UpstreamError, UpstreamSpared, UpstreamTimeout
from guard.foreign import Foreign
from guard.procedure.expected import Ending
from guard.run.messages import Outcome, Result, RunError, StepClass

SERVERS: Final = 500  # statuses from here on are the server's own trouble

ACCEPTED: Final = frozenset(
    {
        Outcome.ACCEPTED_FIRST,
        Outcome.ACCEPTED_AFTER_RETRY,
        Outcome.ACCEPTED_BY_FALLBACK,
        Outcome.REPAIRED,
    }
)

_REASONS: Final = {
    Outcome.ACCEPTED_FIRST: "no step had to be asked for twice",
    Outcome.ACCEPTED_AFTER_RETRY: "every step was verified, some after a retry",
    Outcome.ACCEPTED_BY_FALLBACK: "every step was verified, on a further upstream",
    Outcome.REPAIRED: "the guard wrote steps that the model did not get right",
    Outcome.RELEASED: "what the model wrote was released without verification",
    Outcome.CANCELLED: "the client has gone",
}


def reason(outcome: Outcome, error: RunError | None) -> str:
    """Say in words why a run ended as it did."""
    return error.message if error is not None else _REASONS[outcome]


def rejected(procedure: str, kind: Kind, step: str, why: str) -> RunError:
    """Say that the model departed from the procedure and the policy has nothing left to try."""
    place = f"at step {step} " if step else ""
    return RunError(
        status=422,
        type="procedure_violation",
        code=kind.value,
        param=step or None,
        message=f"the model departed from procedure {procedure!r} {place}({kind.value}): {why}",
    )


def out_of_tokens(procedure: str, step: str, limit: int, *, field: str | None) -> RunError:
    """Say that the tokens did not suffice. `field`: by which the client limited them; None: the policy."""
    more = "they are those of the policy (output_tokens)" if field is None else f"allow more with {field}"
    return RunError(
        status=422,
        type="procedure_violation",
        code=Kind.TRUNCATED.value,
        param=step or None,
        message=(
            f"the trace of procedure {procedure!r} came as far as step {step}: all {limit} tokens are spent, "
            f"over all generations; {more}"
        ),
    )


def too_few_tokens(procedure: str, limit: int, fewest: int, *, field: str) -> RunError:
    """Refuse a budget that cannot suffice, before anything is spent."""
    return RunError(
        status=400,
        type="invalid_request_error",
        code="max_tokens_too_small",
        param=field,
        message=(
            f"a budget of {limit} tokens cannot suffice: procedure {procedure!r} takes {fewest} lines at "
            f"least with these inputs; expected a larger {field}, or none"
        ),
    )


def procedure_failed(procedure: str, ending: Ending, why: str) -> RunError:
    """Say that the procedure itself could not be carried out, which is nobody's departure."""
    place = f"at step {ending.path}" if ending.path else "at its first step"
    plain = ending.plain or ending.reason
    return RunError(
        status=422,
        type="procedure_failed",
        code="procedure_failed",
        param=ending.path or None,
        message=f"procedure {procedure!r} failed {place}: {plain}" + (f" ({why})" if why else ""),
        foreign=Foreign("" if plain == ending.reason else ending.reason),
    )


def out_of_time(procedure: str, step: str, seconds: float) -> RunError:
    """Say that the run's wall time was over first."""
    return RunError(
        status=504,
        type="upstream_error",
        code="out_of_time",
        param=step or None,
        message=f"the trace of procedure {procedure!r} came as far as step {step} in {seconds:g} s",
    )


def upstream_failed(error: UpstreamError, fault: UpstreamError | None = None) -> RunError:
    """Say that no upstream could be used; what a server says of the request itself is passed on.

    Where the last upstream was spared, the client is told of the last `fault`, and that it was.
    """
    message = error.message
    if isinstance(error, UpstreamSpared) and fault is not None:
        message, error = f"{fault.message} (not asked again: {error.message})", fault
    return RunError(
        status=error.http_status,
        type="upstream_error",
        code=error.code,
        message=message,
        retry_after_s=error.retry_after_s,
        cause=error,
        foreign=error.said.text,
    )


def of_fault(error: UpstreamError) -> Result:
    """Name what a fault of the network makes of its generation."""
    return Result.TIMEOUT if isinstance(error, UpstreamTimeout) else Result.UPSTREAM_ERROR


def of_answer(classes: Collection[StepClass], *, retried: bool, fallen_back: bool) -> Outcome:
    """Name what a run with an answer came to."""
    if StepClass.REPAIRED in classes:
        return Outcome.REPAIRED
    if fallen_back:
        return Outcome.ACCEPTED_BY_FALLBACK
    return Outcome.ACCEPTED_AFTER_RETRY if retried else Outcome.ACCEPTED_FIRST

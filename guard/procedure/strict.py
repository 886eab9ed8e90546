"""Operations on values that may not be known yet: what hangs on an unknown one is unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from guard.procedure.expected import UNKNOWN
from guard.procedure.functions import EvaluationError
from guard.procedure.passes import Env, Evaluate
from guard.procedure.types import NULL


def there(evaluate: Evaluate, written: str) -> Evaluate:
    """Give an operand that has been found not to be null. An override of that test may say otherwise."""

    def found(env: Env) -> Any:
        value = evaluate(env)
        if value is NULL:
            raise EvaluationError(f"{written} is null")
        return value

    return found


def unary(op: Callable[[Any], Any], operand: Evaluate) -> Evaluate:
    """Give an operation on one operand."""

    def evaluate(env: Env) -> Any:
        value = operand(env)
        return UNKNOWN if value is UNKNOWN else op(value)

    return evaluate


def paired(first: Evaluate, second: Evaluate) -> Evaluate:
    """Give two values as a pair."""

    def evaluate(env: Env) -> Any:
        pair = first(env), second(env)
        return UNKNOWN if pair[0] is UNKNOWN or pair[1] is UNKNOWN else pair

    return evaluate


def strict(op: Callable[[Any, Any], Any], left: Evaluate, right: Evaluate) -> Evaluate:
    """Give an operation on two operands, both of which are evaluated."""

    def evaluate(env: Env) -> Any:
        first, second = left(env), right(env)
        return UNKNOWN if first is UNKNOWN or second is UNKNOWN else op(first, second)

    return evaluate


def applied(function: Callable[[Sequence[Any]], Any], arguments: Sequence[Evaluate]) -> Evaluate:
    """Give a function of the values of its arguments."""
    parts = tuple(arguments)

    def evaluate(env: Env) -> Any:
        values = [part(env) for part in parts]
        return UNKNOWN if any(value is UNKNOWN for value in values) else function(values)

    return evaluate

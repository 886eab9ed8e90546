"""What inputs may cost: too many parts or characters are refused before anything is done with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from guard.errors import RequestError
from guard.procedure.execute import Program
from guard.procedure.types import Value

CHARACTERS: Final = 200_000  # of all texts of the inputs: each is normalised, and searched for quotes
SHORT: Final = 30  # items of a list over which loops in loops come to no limit worth looking for


def require_few(given: Mapping[str, Any], most: int) -> None:
    """Refuse inputs that one execution could not even go through once, or whose texts are too long.

    `given` are the inputs as data of JSON, `most` is how many parts they may have. Raises `RequestError`.
    """
    parts, characters, waiting = 0, 0, [*given.values()]
    while waiting and parts <= most:
        part = waiting.pop()
        parts += 1
        if isinstance(part, str):
            characters += len(part)
        waiting += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    if parts > most:
        raise RequestError(
            f"the inputs have more than {most:,} parts, which is the policy's limit `passes`",
            param="stepguard.inputs",
            code="procedure_limit",
        )
    if characters > CHARACTERS:
        raise RequestError(
            f"the inputs have {characters:,} characters: expected at most {CHARACTERS:,}",
            param="stepguard.inputs",
            code="request_too_large",
            status=413,
        )


def require_short(program: Program, inputs: Mapping[str, Value]) -> None:
    """Refuse what would end at a limit for all that the model decides, before a token is asked for.

    Most procedures are too short for that, whatever their inputs are.
    """
    if program.largest <= program.extent.steps and not any(map(_is_long, inputs.values())):
        return
    ending = program.foresee(inputs)
    if ending.limited:
        raise RequestError(
            f"procedure {program.name!r} is too long for its policy on these inputs: at step {ending.path} "
            f"{ending.reason}",
            param="stepguard.inputs",
            code="procedure_limit",
        )


def _is_long(value: Value) -> bool:
    """Whether a value has a list that takes many passes."""
    match value:
        case tuple():
            return len(value) > SHORT or any(map(_is_long, value))
        case dict():
            return any(map(_is_long, value.values()))
        case _:
            return False

"""What the model is told when a trace has to be continued: in a dialogue turn, or with its instructions.

It names codes and step numbers, never what the model wrote: wrong text in the context breeds more of
its kind, and foreign text is no instruction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from guard.check.verdict import Kind

# One sentence a kind: what was wrong, in terms of what to do.
_ADVICE: Final[Mapping[Kind, str]] = {
    Kind.SKIPPED_STEP: "A step was left out. Write every step in order.",
    Kind.EXTRA_STEP: "There was a line that is no step of the procedure. Write the procedure's steps only.",
    Kind.REPEATED_STEP: "A step was written twice. Write every step once.",
    Kind.SELF_CORRECTION: "A step was written again with another value. A step that stands is final.",
    Kind.WRONG_EXPRESSION: "The expression was not the step's with its values put in. Copy each value.",
    Kind.WRONG_VALUE: "The value was not what the expression gives. Compute it again.",
    Kind.WRONG_BRANCH: "The condition was not decided right. Compare its values again.",
    Kind.INADMISSIBLE_VALUE: "The value is not one that this step allows. Mind its type and its bounds.",
    Kind.UNGROUNDED_VALUE: "The quote is not in the text, or does not say the value. Copy the words that do.",
    Kind.WRONG_CALL: "The call was not the step's.",
    Kind.UNCONFIRMED_CALL: "The call was not confirmed.",
    Kind.PREMATURE_ANSWER: "The answer came before its turn. Write all the steps before it first.",
    Kind.MISSING_ANSWER: "The trace stopped before the answer. Write all the steps that are left.",
    Kind.WRONG_ANSWER: "The answer was not what the steps give. Compute it again.",
    Kind.MALFORMED: "A line was not in the format of the trace.",
    Kind.TRUNCATED: "The trace was cut off.",
    Kind.LIMIT_EXCEEDED: "A line was too long. Write each step on one line, and nothing else.",
    Kind.RUNAWAY: "The text ran on without an end. Write each step on one short line, and nothing else.",
}

_AS_MEMBERS: Final = (
    "Write these lines as the members of one JSON object, without those that begin with `@`: "
    "the name of a member is the beginning of its line, the value, a string, is the rest. It begins so:"
)


def told(kind: Kind, step: str) -> str:
    """Say what was wrong: the code, the step where it was, "" for none, and what to do otherwise."""
    return f"{kind.value}{f' at step {step}' if step else ''}. {_ADVICE[kind]}"


def as_members(schema: str) -> str:
    """Say that the lines are asked for as members of a JSON object: the first one of `schema` shows how."""
    first: str = next(iter(json.loads(schema)["properties"]))
    return f"{_AS_MEMBERS}\n{{{json.dumps(first, ensure_ascii=False)}: ..."


def turn(
    *,
    step: str,
    begin: str,
    violation: tuple[Kind, str] | None,
    again: bool,
    line: str | None,
    afresh: bool = False,
) -> str:
    """Write the user's turn that asks for the rest of a trace.

    `step` is the path of the step that is due. `begin` is the opening line, asked for where nothing
    stands yet; "" where something does, and where it is not the model's to write: then `afresh`. `violation`
    is the kind and step of what went wrong, None where that is not told. `again` words it otherwise, for a
    second try. `line` is the beginning of the due line where its operands are given.
    """
    sentences: list[str] = [] if violation is None else [told(*violation)]
    if begin:
        sentences.append(f"Write the trace from the beginning. Its first line is: {begin}")
    elif afresh:
        sentences.append("Write the trace from the beginning.")
    elif again:
        sentences.append(
            f"The next line is that of step {step}. Write it, and then the ones behind it, nothing else."
        )
    else:
        sentences.append(
            f"All steps above stand. Go on with step {step}; do not repeat them, do not explain."
        )
    if line is not None:
        sentences.append(f"Complete this line, then write the ones behind it: {line}")
    return "\n".join(sentences)

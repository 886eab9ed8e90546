"""What a text that nobody forced into a format shows of a procedure: judged only as far as it can be read.

A text with an opening line of the procedure is a trace, and the checker's. Any other is read in free-form
mode and set beside an execution, in which the model's decisions, and its wrong values, are carried on.
Lines that prose does not have (branches, loops, conditions) count only where they are written, lists and
records only in JSON: what cannot be read is neither right nor wrong, and leaves the verdict undecided.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping

from guard.check.comparison import Comparison
from guard.check.findings import Findings
from guard.check.traced import traced
from guard.procedure.execute import Program
from guard.procedure.types import Value


def findings(
    program: Program, inputs: Mapping[str, Value], text: str, finish_reason: str | None = "stop"
) -> Generator[None, None, Findings]:
    """Judge a whole answer. Yields now and then, so that others get their turn.

    `finish_reason` is as on the wire: an answer that was cut is blamed for nothing it had no room for.
    """
    opening = re.compile(rf"^[ \t]*@begin {re.escape(program.name)} [0-9a-f]{{6}}[ \t\r]*$", re.MULTILINE)
    if opening.search(text):
        return (yield from traced(program, inputs, text, finish_reason))
    return (yield from Comparison(program, inputs, text, finish_reason).run())

"""What lint says of examples whose text does not say what they decide."""

from __future__ import annotations

import pytest

from guard.procedure.load import load
from guard.source import Source
from guard.trace.grounds import ungrounded

TEXT = """\
procedure p(note: text) -> int
  extract n: int from note quote{how}
  judge ok: bool from note asking "Is it?" quote
  return n

example p
  note = "Twelve of them, please."
  decide n = {n}
  decide ok = true
"""


@pytest.mark.parametrize(
    ("how", "n", "warned"), [("", 12, False), ("", 13, True), (" loosely", 13, False), ("", 1, True)]
)
def test_a_decision_that_the_text_does_not_say_is_warned_of(how: str, n: int, *, warned: bool) -> None:
    source = Source("p.proc", TEXT.format(how=how, n=n))
    problems = list(ungrounded(load(source.text, source.name).procedures, source))
    assert [(one.line, one.column, one.severity) for one in problems] == (
        [(8, 14, "warning")] if warned else []
    )
    assert all("quote loosely" in one.help for one in problems)

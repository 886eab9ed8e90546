"""Which departure a line is that belongs to another step than the one that is due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from guard.check import order
from guard.check.compare import same_step
from guard.check.prefix import Prefix
from guard.check.quotes import Sources
from guard.check.replay import Executable, Walk, look_ahead, retrace
from guard.check.verdict import Kind
from guard.procedure.model import StepKind
from guard.procedure.types import Value
from guard.trace.events import Line

_ANSWERS: Final = frozenset({"return", "deny", "escalate"})


@dataclass(frozen=True, slots=True)
class Misplaced:
    """Tells what lines of one response are that stand where another one should."""

    program: Executable
    inputs: Mapping[str, Value]
    prefix: Prefix
    sources: Sources

    def kind(self, step: Line, walk: Walk) -> Kind:
        """Tell what a line is, at the point to which the execution has come."""
        if self.prefix.has(step.path):
            return Kind.REPEATED_STEP if self._repeats(step, walk) else Kind.SELF_CORRECTION
        if walk.due is not None and step.head in _ANSWERS and not self._is_result(step):
            return Kind.PREMATURE_ANSWER
        return Kind.SKIPPED_STEP if self._comes(step.path, walk) else Kind.EXTRA_STEP

    def _is_result(self, step: Line) -> bool:
        """Whether a line gives the value of a sub-procedure, which is no answer."""
        return order.kind_of(step.path, self.program.step_numbers) is StepKind.RESULT

    def _comes(self, path: str, walk: Walk) -> bool:
        """Whether a step comes later, as far as that can be told."""
        kinds, members = self.program.step_numbers, self.program.members
        if walk.due is None or not order.can_follow(path, walk.due.path, kinds, self.prefix.passes, members):
            return False
        ahead = look_ahead(self.program, self.inputs, walk.sent, path)
        return ahead.due is not None or ahead.undetermined

    def _repeats(self, step: Line, walk: Walk) -> bool:
        """Whether a line says what a verified one said."""
        steps = retrace(self.program, self.inputs, walk.sent)
        expected = next(verified for verified in steps if verified.path == step.path)
        return same_step(expected, self.prefix.value(expected), step, self.sources)

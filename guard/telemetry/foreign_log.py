"""What servers and models wrote where something went wrong: for the operator, at a level of the log's own."""

from __future__ import annotations

import logging
from traceback import format_tb
from typing import Final

from guard.check.verdict import Judgement, Violation
from guard.errors import UpstreamError
from guard.foreign import Sink
from guard.run.messages import Close
from guard.telemetry.observer import Observer, RunInfo, RunObserver

FOREIGN: Final = 15  # below INFO: no other line of the log holds a word of a server's or a model's

logging.addLevelName(FOREIGN, "FOREIGN")
log = logging.getLogger(__name__)


def switch_on() -> None:
    """Have this log written, whatever the level of all others is."""
    log.setLevel(FOREIGN)


class ForeignLog(Observer):
    """Writes what it hears to the log of this module, by way of the run's sink."""

    def run_started(self, info: RunInfo) -> RunObserver:
        """See `Observer`."""
        return _RunLog(info) if log.isEnabledFor(FOREIGN) else RunObserver()


class _RunLog(RunObserver):
    def __init__(self, info: RunInfo) -> None:
        self._run, self._sink = info.audit_id, info.sink

    def observed(self, judgement: Judgement, generation: int = 0) -> None:  # noqa: ARG002 (no other one says more)
        if isinstance(judgement, Violation):
            expected, found = self._sink.shown(judgement.expected), self._sink.shown(judgement.found)
            where = f"{judgement.kind} at step {judgement.step or '?'}"
            log.log(FOREIGN, "run %s: %s: expected %s, found %s", self._run, where, expected, found)

    def closed(self, command: Close) -> None:
        if command.error is not None:
            tell(command.error, self._sink, f"run {self._run}, generation {command.generation}")


def crashed(error: BaseException, sink: Sink, what: str) -> None:
    """Write down a fault of ours: where it was. Its message may hold what a model or a server wrote."""
    places = "".join(format_tb(error.__traceback__))
    log.error("%s: %s\n%s", what, type(error).__name__, places)
    log.log(FOREIGN, "%s: %s: %s", what, type(error).__name__, sink.shown(str(error)))


def tell(error: UpstreamError, sink: Sink, where: str) -> None:
    """Write down what a server said of a fault, if it said anything."""
    said = error.said
    names = [name for name in (said.code, said.type, said.param) if sink.name(name)]
    text = ", ".join(filter(None, (sink.shown(said.text), *names)))
    if text:
        log.log(FOREIGN, "%s: %s: %s", where, error.message, text)

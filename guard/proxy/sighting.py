"""One request in mode `observe` and what passed by for it: read, checked, and summed up. Sans-I/O.

Nothing in here has to be quick or right for the client's sake: its answer has gone. Whatever is raised is
the caller's to count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal

from guard.check.findings import Findings
from guard.check.freely import findings
from guard.check.order import known
from guard.check.report import StepCounts
from guard.check.verdict import Kind, Verdict, Violation
from guard.errors import RequestError, UpstreamStatusError
from guard.procedure.execute import Program
from guard.procedure.types import Value
from guard.proxy.costs import require_few
from guard.run.messages import Finish, Outcome, StepClass, Usage
from guard.telemetry.observer import CHECKED, Observation, Observed
from guard.upstream.reading import AnswerReader
from guard.wire import finish
from guard.wire.body import read_exactly
from guard.wire.encodings import READABLE, UndecodableError, decoded
from guard.wire.headers import Headers

MAX_BYTES: Final = 8 * 1024 * 1024  # of an answer, before and after it is decoded
MAX_WHOLE: Final = 2 * 1024 * 1024  # of one that is no stream: its JSON is read in one go
MAX_TEXT: Final = 128 * 1024  # characters of it that the model wrote
MAX_LINE: Final = 16 * 1024  # characters of one line: it is read in one go,
LONG_LINE: Final = 1024  # and one with more than so many in another thread

_RESULTS: Final = {
    Verdict.PASSED: Observed.PASSED,
    Verdict.FAILED: Observed.FAILED,
    Verdict.PENDING: Observed.UNDECIDED,
    Verdict.UNDECIDED: Observed.UNDECIDED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a request says of its procedure's inputs.

    `control` is its member `stepguard` as it was written, `said` the last message of its user, `moment` when
    it came. `thinks`: its answer begins among thoughts, which the prompt has opened.
    """

    program: Program
    control: bytes
    said: str
    moment: datetime
    thinks: bool = False

    def inputs(self) -> dict[str, Value]:
        """Give the inputs. Raises `RequestError` or `ValueError` where they cannot be had."""
        control: Any = read_exactly(self.control)
        given = control.get("inputs") if isinstance(control, dict) else None
        raw: dict[str, object] = dict(given) if isinstance(given, dict) else {}
        left_out = [name for name in self.program.sources if name not in raw]
        if len(left_out) == 1 and self.said.strip():
            raw[left_out[0]] = self.said
        require_few(raw, self.program.extent.passes)
        return self.program.accept(raw, self.moment)


@dataclass(slots=True, kw_only=True)
class Sighting:
    """What passed by: the bytes of an answer as they came, as long as they are kept.

    `ended` is how it ended where that leaves nothing to be read.
    """

    asked: Asked | None = None
    status: int = 0
    coding: str = ""
    kept: list[bytes] = field(default_factory=list)
    size: int = 0
    ended: Observed | None = None

    def begin(self, status: int, headers: Headers) -> None:
        """The answer begins."""
        self.status = status
        codings = [value for name, value in headers if name.lower() == "content-encoding"]
        self.coding = ",".join(codings).strip().lower()

    @property
    def readable(self) -> bool:
        """Whether there is, or may yet be, something to be read."""
        return self.ended is None and self.status in {0, 200}

    def give_up(self, why: Observed, *, finally_: bool = False) -> None:
        """Read no more of it; the first reason counts, but for one that ends the exchange."""
        if self.ended is None or finally_:
            self.ended = why


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """What one sighting came to."""

    observation: Observation
    found: Findings | None = None
    usage: Usage = field(default_factory=Usage)

    @property
    def violations(self) -> tuple[Violation, ...]:
        """What is wrong with the text, at steps of the procedure."""
        return self.found.violations if self.found is not None else ()

    def finish(self, outcome: Outcome) -> Finish:
        """Give the end of the run."""
        judged = self.found.classes if self.found is not None else {}
        classes = {path: StepClass(how) for path, (_, how) in judged.items()}
        count = Counter(classes.values())
        result = self.observation.result
        steps = StepCounts(
            expected=len(classes),
            verified=count[StepClass.VERIFIED],
            model_decided=count[StepClass.MODEL_DECIDED],
            supported=self.found.supported if self.found is not None else 0,
            missing=count[StepClass.MISSING],
        )
        return Finish(
            outcome=outcome,
            end=None,
            answer=None,
            trace="",
            attempts=1,
            generations=1,
            violations=self.violations,
            steps=steps if result in CHECKED else StepCounts(),
            usage=(self.usage,),
            reason=f"observed: {result}",
            classes=classes,
            discarded=(0,),  # the client has got all of it
        )


def concluded(result: Observed, usage: Usage | None = None) -> Conclusion:
    """Sum up a sighting that was not checked."""
    return Conclusion(observation=Observation(result=result), usage=usage or Usage())


def read(sighting: Sighting) -> Generator[bool, None, Conclusion]:
    """Read and check what passed by. Yields now and then, so that others get their turn.

    What it yields says whether what comes next takes long, and so belongs in another thread.
    """
    asked = sighting.asked
    if sighting.coding not in READABLE:
        return concluded(Observed.UNREADABLE)
    if asked is None:
        return concluded(Observed.NO_INPUTS)
    try:
        inputs = asked.inputs()
    except (RequestError, ValueError, RecursionError):
        return concluded(Observed.NO_INPUTS)
    reader = AnswerReader(thinks=asked.thinks)
    said = yield from _said(sighting, reader)
    if isinstance(said, Observed):
        return concluded(said)
    usage = reader.ended().usage or Usage()
    if not said.strip() or reader.finish_reason in finish.CALLS:
        return concluded(Observed.NO_TEXT, usage)
    longest = max(map(len, said.split("\n")))
    if len(said) > MAX_TEXT or longest > MAX_LINE:
        return concluded(Observed.TOO_LONG, usage)
    judging = findings(asked.program, inputs, said, reader.ended().finish_reason)
    found = yield from _paced(judging, long=longest > LONG_LINE)
    if found.too_long:
        return concluded(Observed.TOO_LONG, usage)
    observation = Observation(
        result=_RESULTS[found.verdict],
        reading=found.reading,
        answer=found.answer,
        answer_at=found.answer_at,
    )
    return Conclusion(observation=observation, found=_told(found, asked.program), usage=usage)


def _paced(judging: Generator[None, None, Findings], *, long: bool) -> Generator[bool, None, Findings]:
    """Go on with a judgement, and say whether it takes long from one yield to another."""
    while True:
        yield long
        try:
            next(judging)
        except StopIteration as stop:
            found: Findings = stop.value
            return found


def _told(found: Findings, program: Program) -> Findings:
    """Give findings as they may be told: a step's number that a model made up is none."""
    made_up = [
        one.kind is Kind.EXTRA_STEP and not known(one.step, program.step_numbers) for one in found.violations
    ]
    violations = zip(found.violations, made_up, strict=True)
    return replace(found, violations=tuple(replace(one, step="") if no else one for one, no in violations))


def _said(
    sighting: Sighting, reader: AnswerReader
) -> Generator[bool, None, str | Literal[Observed.TOO_LONG, Observed.UNREADABLE, Observed.UPSTREAM_ERROR]]:
    """Give the text of an answer, of several choices that of the first; or why it cannot be had."""
    texts: list[str] = []
    size, limit = 0, MAX_BYTES
    try:
        for piece in decoded(sighting.kept, sighting.coding):
            if size == 0 and piece.lstrip().startswith(b"{"):
                limit = MAX_WHOLE
            size += len(piece)
            if size > limit:
                return Observed.TOO_LONG
            for one in reader.turns(piece):
                texts += () if one is None else (one.text,)
                yield False
            if reader.over:
                break
            yield False
    except UndecodableError:
        return Observed.UNREADABLE
    texts += (one.text for one in reader.close())
    if reader.fault is None:
        return "".join(texts)
    told = isinstance(reader.fault, UpstreamStatusError) or any(texts)
    return Observed.UPSTREAM_ERROR if told else Observed.UNREADABLE

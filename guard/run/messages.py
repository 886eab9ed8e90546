"""What goes into a run and what comes out: upstream events in, commands out. All of it is data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from guard.check.report import StepCounts
from guard.check.verdict import Ignored, StepVerified, Violation
from guard.dialect.json_schema import Patterns
from guard.dialect.line import Level
from guard.dialect.notation import Dialect
from guard.errors import UpstreamError
from guard.foreign import Foreign
from guard.procedure.model import StepKind
from guard.procedure.types import Value

Message = dict[str, object]  # one message of a chat request, as on the wire


class Outcome(StrEnum):
    """What a run came to; the label `outcome` of metrics."""

    ACCEPTED_FIRST = "accepted_first"
    ACCEPTED_AFTER_RETRY = "accepted_after_retry"
    ACCEPTED_BY_FALLBACK = "accepted_by_fallback"
    REPAIRED = "repaired"
    REJECTED = "rejected"
    RELEASED = "released"
    ERROR = "error"
    CANCELLED = "cancelled"
    PASSTHROUGH = "passthrough"


class Strategy(StrEnum):
    """Why a generation was opened; the label `strategy` of metrics."""

    INITIAL = "initial"
    DECISION = "decision"  # re-opened behind a model decision, with a narrower grammar
    LINE = "line"  # opened for the next line, where the model is asked for one at a time
    RESTART = "restart"
    FEEDBACK = "feedback"
    RESUME = "resume"
    SCAFFOLD = "scaffold"
    ISOLATE = "isolate"  # for one step by itself, without the trace
    CONTINUE = "continue"  # with the trace again, behind a line that was asked for by itself
    FALLBACK = "fallback"
    RACE = "race"  # the first generation of a further lane of a race
    VOTE = "vote"  # asked once more for what the model decides
    REPAIR = "repair"  # continued behind a line that the guard wrote
    TRANSPORT = "transport"  # the same again after a fault of the network
    UNFORCED = "unforced"  # the same again without the grammar, with which the server refused it
    LESS = "less"  # the same again without something else of ours, with which the server refused it


class Ours(StrEnum):
    """What we add to what a client asks for, in the order in which it is left out."""

    GRAMMAR = "grammar"
    FIELDS = "fields"  # a temperature, a seed or stop texts that the client did not ask for
    PREFIX = "prefix"  # what the assistant is to go on from
    HISTORY = "history"  # what was written so far, and what we say of it


class Result(StrEnum):
    """What became of a generation; the label `result` of metrics."""

    PASSED = "pass"  # it brought the trace to its end
    DECIDED = "decided"  # it ended, or was cut on purpose, behind a model decision or its one line
    VIOLATION = "violation"
    REFUSED = "refused"  # the server did not take the request, which had something of ours
    UPSTREAM_ERROR = "upstream_error"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    LOST = "lost"  # another lane of its race won
    BUDGET_EXHAUSTED = "budget_exhausted"
    INTERNAL_ERROR = "internal_error"  # a fault of our own broke it off


class Margin(StrEnum):
    """How a vote on what the model decides was settled."""

    REACHED = "reached"  # one value was ahead of each other one by as much as the policy asks for
    CAPPED = "capped"  # it never was: the value with the most votes stands
    OPEN = "open"  # the run was over first


class StepClass(StrEnum):
    """How an expected step ended."""

    VERIFIED = "verified"
    SCAFFOLDED = "scaffolded"
    MODEL_DECIDED = "model_decided"
    REPAIRED = "repaired"
    COMPUTED = "computed"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a run must know of an upstream. `dialect` is None where it takes no grammar.

    `temperature` is what is asked for where the client asks for none; None leaves it to the server.
    `thoughts`: a grammar has to let them stand in front; `thinks`: its answers begin among them.
    `standby`: it is gone to only where a policy names it. `replays`: its answers are ready and whole, so that
    it is asked for single lines or steps only where a policy says so. `by_model` tells what it is for another
    model. `patterns` are those that a JSON schema may have there. `plain`: it is sent no fields that nobody
    asked for.
    """

    name: str
    model: str
    prefill: bool
    dialect: Dialect | None
    temperature: float | None = None
    standby: bool = False
    patterns: Patterns = Patterns.PLAIN
    thoughts: bool = False
    thinks: bool = False
    replays: bool = False
    plain: bool = False
    by_model: Callable[[str], Target] | None = field(default=None, compare=False, repr=False)

    def asked_for(self, model: str) -> Target:
        """Give what it is where this model is asked for."""
        return replace(self, model=model) if self.by_model is None else self.by_model(model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one generation; `estimated` where the server did not report them.

    `reasoning`: those of `completion` that were thoughts, as reported, or else `counted` by ourselves.
    """

    prompt: int = 0
    completion: int = 0
    estimated: bool = False
    reasoning: int = 0
    counted: bool = False

    @property
    def reasoning_estimated(self) -> bool:
        """Whether the server did not say how many were thoughts."""
        return self.estimated or self.counted


# --- in ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """The upstream wrote some of its answer, or thought: then there is no text.

    `tokens`: how many the piece is thought to be. `ahead`: how many are there already and not yet told.
    `usage`: what the server says that all so far is, if it says so this early. `thought`: what it thought,
    None where it did not. `strayed`: the answer so far has not the form that was asked for with a grammar.
    """

    text: str
    tokens: int = 1
    ahead: int = 0
    usage: Usage | None = None
    thought: str | None = None
    strayed: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """The upstream finished by itself. `finish_reason` as on the wire, `strayed` as of a text."""

    finish_reason: str | None
    usage: Usage | None = None
    strayed: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The upstream could not be used, or stopped being usable.

    `left_s` is what is left of the run's wall time; None: more than anybody would wait.
    """

    error: UpstreamError
    left_s: float | None = None


@dataclass(frozen=True, slots=True)
class Waited:
    """A wait that was asked for is over."""


@dataclass(frozen=True, slots=True)
class OutOfTime:
    """The run's wall time is spent."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The client has gone."""


RunEvent = Text | Ended | Failed | Waited | OutOfTime | Cancelled


# --- out -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Open a generation. A run has at most one open at a time, a race one a lane.

    `prefix` is what the assistant has said already (the upstream continues it; never ends in white
    space; "" where the upstream cannot or need not). `grammar` covers what comes behind the prefix.
    `generation` counts every one from 1. `attempt` is 1 until a generation is opened because of a
    violation, which is the second, and so on.
    `model` is the target's: the name that the upstream knows the model by. `stop`: texts at which it ends,
    where the server can be told. `isolated`: it is asked for one step by itself, without the trace.
    """

    generation: int
    attempt: int
    upstream: str
    strategy: Strategy
    messages: tuple[Message, ...]
    prefix: str
    grammar: str | None
    max_tokens: int
    temperature: float | None
    top_p: float | None = None
    seed: int | None = None
    resume_from: str = ""  # path of the first step that is not verified
    model: str = ""
    last: bool = False  # there is no further upstream that the run could go to
    stop: tuple[str, ...] = ()
    isolated: bool = False
    loosened: Level | None = None  # the grammar's, where its notation cannot say what was asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """Close a generation that is open, whether it has ended or must be cut.

    `ignored`: it wrote what the grammar that was sent with it forbids.
    """

    generation: int
    result: Result
    usage: Usage
    discarded: int = 0  # completion tokens that were not kept, of `usage.completion`
    error: UpstreamError | None = None
    ignored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Emit:
    """A step that the client may have. `text` is its line with its end.

    `isolated`: it was asked for by itself, without the trace.
    """

    step: str
    kind: StepKind
    step_class: StepClass
    text: str
    value: Value
    isolated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """Something that a generation thought and the client may have: no part of the trace, never checked."""

    generation: int
    text: str


@dataclass(frozen=True, slots=True)
class Observe:
    """Something that was judged, for metrics, spans and logs.

    `generation` is the one that wrote it, 0 where only one is open at a time.
    """

    judgement: StepVerified | Ignored | Violation
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """Send `Waited` after so many seconds, or at once where an upstream is not going to be asked again.

    `upstream` is that one, `last` says that there is no further one.
    """

    seconds: float
    upstream: str
    last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunError:
    """Why there is no answer: an OpenAI error object and its status.

    `cause` is the upstream's error, if it is one. `foreign` is what a server or model wrote about it.
    """

    status: int
    type: str
    code: str
    message: str
    param: str | None = None
    retry_after_s: float | None = None
    cause: UpstreamError | None = None
    foreign: Foreign = Foreign()


@dataclass(frozen=True, slots=True, kw_only=True)
class Voted:
    """What a vote on one step came to: `agreed` of the `cast` votes are for the value that leads."""

    step: str
    kind: StepKind
    cast: int
    agreed: int
    margin: Margin


@dataclass(frozen=True, slots=True, kw_only=True)
class Raced:
    """How a race went: how many lanes there were, and whose end this is, from 1.

    Of the other lanes: what they did wrong, with the lane that did it, and the numbers of their generations,
    nothing of which served anybody.
    """

    lanes: int
    lane: int
    lost: tuple[tuple[int, Violation], ...] = ()
    generations_lost: frozenset[int] = frozenset()


EndName = Literal["return", "deny", "escalate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The run is over; nothing comes after this.

    `answer` is what the client reads (canonical spelling), `end` which end of the procedure it was;
    both None where there is none. `trace` is the verified text with its opening and closing lines.
    `unverified` is what was released behind it: with an outcome of `released` the answer is what the model
    says that it is, and where its text has no answer line, the text itself and no `end`. `forced` is how much
    of each line a grammar gave, in the generation that had least of it; None where none was opened.
    """

    outcome: Outcome
    end: EndName | None
    answer: str | None
    trace: str
    attempts: int
    generations: int
    violations: tuple[Violation, ...]
    steps: StepCounts
    usage: tuple[Usage, ...]  # one a generation, in order
    error: RunError | None = None
    unverified: str = ""
    reason: str = ""  # in words, why it ended as it did
    finish_reason: str = "stop"
    classes: dict[str, StepClass] = field(default_factory=dict)  # step path -> class
    isolated: frozenset[str] = frozenset()  # paths of the steps that were asked for by themselves
    votes: tuple[Voted, ...] = ()  # one a step that was put to the vote
    raced: Raced | None = None
    discarded: tuple[int, ...] = ()  # of each generation's completion tokens, those that served nobody
    saved: int = 0  # completion tokens that cutting generations early saved, estimated
    forced: Level | None = None


Command = Open | Close | Emit | Relay | Observe | Wait | Finish

"""How a procedure is enforced, as the operator writes it down: the section `policies`."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from guard.check.verdict import Kind
from guard.config.sections import EachOnce, Section, each_once
from guard.config.words import shown
from guard.dialect.lark import Level
from guard.procedure.expected import Form
from guard.procedure.model import StepKind
from guard.procedure.passes import MOST_PASSES, MOST_STEPS, Extent
from guard.run.ladders import ALL, Action, Rule, Rung
from guard.run.policy import TEMPERATURES, ForceBy, Policy, Vary, Votes
from guard.run.varying import SEEDS

Mode = Literal["enforce", "observe", "off"]

MAX_TEMPERATURE: Final = 2.0
MAX_TIMES: Final = 100  # of one action at one step
MAX_RACE: Final = 8
MAX_VOTES: Final = 99
MAX_TOKENS: Final = 10_000_000
MAX_PARALLEL: Final = 32
MAX_SECONDS: Final = 86_400  # a day


def _often(raw: Any) -> Any:
    if (
        raw is None
        or raw == ALL
        or (isinstance(raw, int) and not isinstance(raw, bool) and 1 <= raw <= MAX_TIMES)
    ):
        return raw
    raise ValueError(f"expected a number from 1 to {MAX_TIMES}, or `all`, found {shown(raw)}")


class Entry(Section):
    """One action of a list: its name, or what the name maps to.

    `resume` is `{action: resume}`, `resume: 2` is so often at one step, `resume: all` until all attempts are
    spent, `fallback: NAME` goes to that upstream.
    """

    action: Action
    times: Annotated[int | Literal["all"] | None, BeforeValidator(_often)] = None
    upstream: str | None = None

    @property
    def rung(self) -> Rung:
        """The rung of a ladder that it is."""
        return Rung(self.action, self.times, self.upstream)


def _entry(raw: Any) -> Any:
    match raw:
        case Entry():
            return raw
        case str():
            return {"action": raw}
        case dict() if len(raw) == 1 and "action" not in raw:
            ((action, what),) = raw.items()
            return {"action": action, ("upstream" if action == Action.FALLBACK else "times"): what}
        case dict() if "action" in raw:
            return raw
        case _:
            found = shown(raw)
            raise ValueError(f"expected one action, such as `resume` or `resume: 2`, found {found}")


def _actions(raw: Any) -> Any:
    if isinstance(raw, str):
        raise ValueError(f"expected a list, such as [resume, repair, reject], found {raw!r}")  # noqa: TRY004
    return raw


Actions = Annotated[
    tuple[Annotated[Entry, BeforeValidator(_entry)], ...],
    Field(min_length=1),
    BeforeValidator(_actions),
]


def _listed(raw: Any) -> Any:
    return [raw] if isinstance(raw, str) else raw


def _varied(raw: Any) -> Any:
    return {True: tuple(Vary), False: ()}[raw] if isinstance(raw, bool) else each_once(_listed(raw))


class RuleSettings(Section):
    """Another list of actions for some violations, or at some kinds of steps."""

    violation: Annotated[tuple[Kind, ...], BeforeValidator(_listed), EachOnce] = Field(
        default=(), description="the kinds of violations that it is for; none: all"
    )
    step: Annotated[tuple[StepKind, ...], BeforeValidator(_listed), EachOnce] = Field(
        default=(), description="the kinds of steps that it is for; none: all"
    )
    actions: Actions = Field(description="what to do, tried in order")

    @property
    def rule(self) -> Rule:
        """The rule as a run follows it."""
        return Rule(
            ladder=tuple(entry.rung for entry in self.actions),
            kinds=frozenset(self.violation),
            steps=frozenset(self.step),
        )


class VotesSettings(Section):
    """What the model decides is asked for several times."""

    ahead: int = Field(default=2, ge=1, le=MAX_VOTES, description="votes that a value must be ahead by")
    most: int = Field(default=7, ge=1, le=MAX_VOTES, description="votes on one step, at most")

    @model_validator(mode="after")
    def _within_reach(self) -> Self:
        if self.ahead > self.most:
            raise ValueError(
                f"{self.most} votes never put a value {self.ahead} ahead; expected `most` to be no less"
            )
        return self


class PolicySettings(Section):
    """How a procedure is enforced."""

    extends: str | None = Field(
        default=None, description="the policy whose settings count where this one has none of its own"
    )
    mode: Mode | None = Field(
        default=None,
        description=(
            "`enforce`; `observe`: only check and count; `off`: bound requests pass through; "
            "default: `defaults.mode`"
        ),
    )
    sample: float = Field(
        default=1.0, gt=0, le=1, description="the share of requests that is checked in mode `observe`"
    )
    attempts: int = Field(
        default=12, ge=1, le=1000, description="generations opened because of a violation, at most"
    )
    attempts_per_step: int = Field(
        default=2,
        ge=1,
        le=MAX_TIMES,
        description="the same action for the same kind of violation at the same step, at most",
    )
    attempts_per_upstream: dict[str, Annotated[int, Field(ge=1, le=1000)]] = Field(
        default_factory=dict, description="of `attempts`, those on an upstream, by its name"
    )
    transport_retries: int = Field(
        default=2,
        ge=0,
        le=20,
        description="generations after a fault of the network on one upstream, at most",
    )
    actions: Annotated[
        Actions | None, BeforeValidator(lambda value: None if value == "default" else value)
    ] = Field(
        default=None,
        description="what to do about a violation: `default` (by its kind) or a list, tried in order",
    )
    rules: tuple[RuleSettings, ...] = Field(
        default=(), description="other actions for some violations or steps; the first that fits counts"
    )
    compute: Literal["model", "guard"] = Field(
        default="model", description="who writes the lines that can be computed"
    )
    race: int = Field(
        default=1,
        ge=1,
        le=MAX_RACE,
        description="first generations at once, of which the first right one counts",
    )
    votes: VotesSettings | None = Field(
        default=None, description="what the model decides is put to the vote; none: asked for once"
    )
    vary: Annotated[
        frozenset[Vary],
        BeforeValidator(_varied),
    ] = Field(
        default=frozenset(Vary),
        description="what a retry may change: `temperature`, `seed`, `phrasing`; true: all, false: nothing",
    )
    temperatures: tuple[Annotated[float, Field(ge=0, le=MAX_TEMPERATURE)] | None, ...] = Field(
        default=TEMPERATURES,
        min_length=1,
        max_length=100,
        description="of the first, second, ... try at a step, if higher than asked for; null: as asked for",
    )
    seed: int | None = Field(
        default=None, ge=0, lt=SEEDS, description="seed of the first try where the client names none"
    )
    force: Level = Field(
        default=Level.OPERANDS,
        description="how much of each line is given to the model; `values`: all that can be computed",
    )
    without_grammar: bool = Field(
        default=True,
        description="whether a request that a server refuses is sent once more without its grammar",
    )
    force_by: ForceBy = Field(
        default=ForceBy.AUTO,
        description=(
            "`grammar`; `lines`: each line is a generation of its own, begun up to its value; `isolation`: "
            "each step is asked for by itself, without the trace; `auto`: by a grammar where the server "
            "takes one, else by lines where it continues a prefix"
        ),
    )
    parallel: int = Field(
        default=4,
        ge=1,
        le=MAX_PARALLEL,
        description="steps that are asked for at once, by `force_by: isolation`, at most",
    )
    trace: Form = Field(
        default=Form.WORK,
        description="what a line shows: `values`, `work` (the operands too), `full` (the expression too)",
    )
    tolerant: bool = Field(
        default=False,
        description="whether what is no line of the trace (a preamble, a code fence, prose) is left out",
    )
    output_tokens: int = Field(
        default=8000, ge=1, le=MAX_TOKENS, description="tokens over all generations of one request, at most"
    )
    seconds: float = Field(default=120, gt=0, le=MAX_SECONDS, description="seconds for one request, at most")
    steps: int = Field(
        default=1_000, ge=1, le=MOST_STEPS, description="steps of one execution of a procedure, at most"
    )
    passes: int = Field(
        default=3_000,
        ge=1,
        le=MOST_PASSES,
        description="items of lists that one execution goes through, at most, each as often as it does",
    )
    deliver: Literal["hold_step", "hold_all", "pass_through"] = Field(
        default="hold_step",
        description=(
            "`hold_step`: a step leaves when it is verified; `hold_all`: when all are; "
            "`pass_through`: unchecked, only in mode `observe`"
        ),
    )
    content: Literal["answer", "trace", "both"] = Field(default="answer", description="what the client reads")
    steps_as: Literal["reasoning", "none"] = Field(
        default="reasoning",
        description="where the steps go when `content` is `answer`: the field reasoning_content, or nowhere",
    )
    reasoning: Literal["drop", "relay"] = Field(
        default="drop",
        description=("what models think: `drop`, or `relay` it to the client, unverified and marked as such"),
    )
    usage: Literal["sum", "last"] = Field(
        default="sum",
        description="what the client's `usage` counts: all generations, or the last one",
    )
    reveal: bool = Field(
        default=False,
        description="whether clients get what a server or model wrote where something went wrong, without "
        "keys and cut: what was expected and found, not only kind and step, and what an error says",
    )
    commit_after_s: float = Field(
        default=10,
        ge=0,
        le=MAX_SECONDS,
        description="seconds until a stream is opened with no step verified; later errors are sent in it",
    )

    @property
    def extent(self) -> Extent:
        """How far an execution of a procedure may go."""
        return Extent(steps=self.steps, passes=self.passes)

    @property
    def policy(self) -> Policy:
        """The part of it that a run follows."""
        rules = tuple(rule.rule for rule in self.rules)
        if self.actions is not None:
            rules += (Rule(ladder=tuple(entry.rung for entry in self.actions)),)
        return Policy(
            attempts=self.attempts,
            attempts_per_step=self.attempts_per_step,
            attempts_per_upstream=self.attempts_per_upstream,
            transport_retries=self.transport_retries,
            rules=rules,
            vary=self.vary,
            temperatures=self.temperatures,
            seed=self.seed,
            force=Level.VALUES if self.compute == "guard" else self.force,
            force_by=self.force_by,
            output_tokens=self.output_tokens,
            seconds=self.seconds,
            deliver="hold_step" if self.deliver == "hold_step" else "hold_all",
            tolerant=self.tolerant,
            without_grammar=self.without_grammar,
            parallel=self.parallel,
            race=self.race,
            relay_thoughts=self.reasoning == "relay",
            votes=None if self.votes is None else Votes(ahead=self.votes.ahead, most=self.votes.most),
        )

"""One run as its seed draws it: a procedure and inputs, a policy, servers, and what model and servers will do.

Everything follows from one number, so that a failure is a number. Runs whose numbers lie close together share
a procedure, since compiling one takes longer than carrying it out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from enum import StrEnum
from functools import lru_cache
from random import Random
from typing import Any, Final, get_args

from guard.check.verdict import Kind
from guard.config.policies import PolicySettings
from guard.dialect.line import Level
from guard.errors import ProcedureError
from guard.procedure.execute import Program
from guard.procedure.expected import Form
from guard.procedure.load import Library, load
from guard.procedure.model import StepKind
from guard.procedure.types import Value
from guard.run.ladders import ALL, GENERATING, Action, Rule, Rung
from guard.run.messages import Target
from guard.run.opening import Job
from guard.run.policy import TEMPERATURES, ForceBy, Policy, Vary, Votes
from guard.upstream.backends import BACKENDS, TABLE
from guard.upstream.capabilities import HELD, Api, Backend, Echo, Prefix, Thinking, contradictions
from tests.faults.faithful import NONCE
from tests.fuzz.mistakes import MISTAKES
from tests.procedure.programs import DECLARATIONS, INPUTS, MODES, Maker

SHARED: Final = 25  # runs of one procedure
NOTE: Final = "Two red ones, not blue: 7, 12, 3 and 45, by 2026-03-01; yes, true, not false."
NUMBERS: Final = (7, 12, 3, 45)  # that stand in the note
AMPLE: Final = 5_000_000  # tokens
PATIENT: Final = 60  # retries
DELIVERIES: Final = ("hold_step", "hold_all")
CONTENTS: Final[tuple[str, ...]] = get_args(PolicySettings.model_fields["content"].annotation)
CHANCE: Final = ("never equal", "division by zero")  # what constants may come to, and an author is told


class Manner(StrEnum):
    """How a server says what it says; none of it changes what was said."""

    STREAM = "stream"
    WHOLE = "whole"  # in one piece of JSON, though a stream was asked for
    CRLF = "crlf"
    COMMENTS = "comments"
    ECHO = "echo"  # the prefix once more
    THOUGHT_FIELD = "thought_field"
    THOUGHT_TAGS = "thought_tags"
    NO_USAGE = "no_usage"
    NO_DONE = "no_done"


class Mishap(StrEnum):
    """What goes wrong with a generation, and is no fault of the model's."""

    NONE = "none"
    CUT = "cut"  # somewhere, with a reason that says so
    LATE = "late"  # such a reason behind a text that is whole
    RESET = "reset"  # the connection breaks in the middle of it
    BUSY = "busy"
    BROKEN = "broken"  # an event that is no JSON
    IN_BAND = "in_band"  # an error as an event
    REFUSED = "refused"  # the request, with status 400
    EMPTY = "empty"  # it ends without a word
    RUNAWAY = "runaway"  # it writes blank lines or digits without end
    OUT_OF_TIME = "out_of_time"
    CLIENT_GONE = "client_gone"


# Reasons that a server gives where its model has ended by itself; every other one is a cut, or a server's fault.
OWN_ENDS: Final = ("stop", "eos", "eos_token", "end_turn", "stop_sequence")
CUTS: Final = (
    *("length", "content_filter", "max_tokens", "model_length", "MAX_TOKENS", "odd", None),
    "model_context_window_exceeded",
)
FAULTS: Final = ("abort", "error", "cancelled", "insufficient_system_resource", "network_error")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the model and its servers are going to do.

    `mistakes` is how many the model makes at most, `rate` how likely one is in a generation, `stubborn` that it
    makes the same again. `mistakes_of` are their forms, in the order in which they are tried, `wavering` that it decides anew each time,
    `loose` that it writes blanks as it likes. `mishaps` and `manners` are by generation, the last for all further ones.
    """

    mistakes: int
    rate: float
    stubborn: bool
    mistakes_of: tuple[str, ...]
    wavering: bool
    loose: bool
    mishaps: tuple[Mishap, ...]
    manners: tuple[Manner, ...]
    own_end: str
    cut: str | None


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One run."""

    seed: int
    library: Library
    text: str
    program: Program
    inputs: dict[str, Value]
    policy: Policy
    rows: tuple[Backend, ...]
    targets: tuple[Target, ...]
    job: Job
    plan: Plan
    content: str
    patient: bool  # the policy asks again as often as anybody could want


class Seeded:
    """Lets a seed choose."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)

    def pick(self, options: Sequence[str]) -> str:
        return self.random.choice(options)

    def number(self, least: int, most: int) -> int:
        return self.random.randint(least, most)


# --- procedures ----------------------------------------------------------------------------------


@lru_cache(8)
def procedure(number: int) -> tuple[str, Library]:
    """The text of a procedure `main`, and what it compiles to."""
    for again in range(50):
        text = _written(Seeded(f"procedure {number} {again}"))
        try:
            return text, load(text, "made.proc")
        except ProcedureError as error:
            if not all(problem.message.startswith(CHANCE) for problem in error.problems):
                raise
    raise AssertionError(f"no procedure for {number}")


@lru_cache(16)
def _compiled(number: int, form: Form) -> Program:
    return procedure(number)[1].procedures["main"].in_form(form)


def forget() -> None:
    """Compile all procedures anew, as one has to where the guard has changed."""
    procedure.cache_clear()
    _compiled.cache_clear()


def _written(chance: Seeded) -> str:
    texts: list[str] = []
    callees: tuple[str, ...] = ()
    for own in [*chance.random.choice([[], [], ["help"]]), "main"]:
        texts += Maker(chance, own, callees).text()
        callees += (own,)
    numbers = f"numbers round {chance.pick(MODES)}, carry {chance.pick(['shown', 'shown', 'exact'])}"
    return "\n".join([numbers, "", DECLARATIONS, *texts])


def _inputs(random: Random) -> dict[str, object]:
    def cents() -> str:
        return f"{random.randint(-500, 9000) / 100:.2f}"

    def line() -> dict[str, object]:
        return {"name": random.choice(["abc", "hinge", ""]), "qty": random.randint(-9, 30), "price": cents()}

    values: dict[str, Any] = {
        "int": lambda: random.randint(-9, 30),
        "money": cents,
        "percent": lambda: random.choice(["5%", "0.1"]),
        "bool": lambda: random.random() < 0.5,
        "string": lambda: random.choice(["abc", "hinge", ""]),
        "color": lambda: random.choice(["red", "blue"]),
        "ints": lambda: [random.randint(-9, 30) for _ in range(random.randint(0, 4))],
        "lines": lambda: [line() for _ in range(random.randint(0, 4))],
        "line": line,
        "date": lambda: str(date(2024, 1, 1) + timedelta(days=random.randint(0, 2000))),
        "datetime": lambda: random.choice(["2026-06-01T09:30:00+02:00", "2028-02-29T23:59:59Z"]),
    }
    return {name: values[kind]() for name, kind in INPUTS.items()} | {"note": NOTE}


# --- servers -------------------------------------------------------------------------------------


def _rows() -> Iterator[Backend]:
    """All rows of the table, and each of them with whatever else an operator may say of it."""
    for row in TABLE:
        yield row
        dialects = () if row.grammar is None else HELD[row.grammar]
        plain = replace(row, prefix=Prefix.NONE, echo=Echo.NEVER)
        changed = (
            *(replace(row, dialect=dialect) for dialect in dialects if dialect is not row.dialect),
            replace(plain, thinking=Thinking.INSIDE),
            replace(plain, thinks=True),
        )
        yield from (each for each in changed if each != row and not any(contradictions(each)))


ROWS: Final = tuple(_rows())
BY_KIND: Final = {kind: tuple(row for row in ROWS if row.kind == kind) for kind in BACKENDS}
BY_API: Final = {api: tuple(row for row in ROWS if row.api is api) for api in Api}


def _row(random: Random) -> Backend:
    rows = (
        BY_API[random.choice(list(Api))] if random.random() < 0.15 else BY_KIND[random.choice(list(BY_KIND))]
    )
    return random.choice(rows)


# --- policies ------------------------------------------------------------------------------------


def _rung(random: Random, action: Action, names: Sequence[str]) -> Rung:
    if action is Action.FALLBACK:
        return Rung(action, None, random.choice([None, None, *names]))
    return Rung(action, random.choice([None, None, 1, 2, 3, ALL]) if action in GENERATING else None)


def _ladder(random: Random, names: Sequence[str]) -> tuple[Rung, ...]:
    chosen = random.sample(list(Action), random.randint(1, 6))
    if Action.REJECT in chosen and random.random() < 0.8:  # nothing behind it counts
        chosen.sort(key=lambda action: action is Action.REJECT)
    return tuple(_rung(random, action, names) for action in chosen)


def _rules(random: Random, names: Sequence[str]) -> tuple[Rule, ...]:
    match random.choice(["default", "list", "list", "rules"]):
        case "default":
            return ()
        case "list":
            return (Rule(ladder=_ladder(random, names)),)
        case _:
            return tuple(
                Rule(
                    ladder=_ladder(random, names),
                    kinds=frozenset(random.sample(list(Kind), random.randint(0, 3))),
                    steps=frozenset(random.sample(list(StepKind), random.choice([0, 0, 4]))),
                )
                for _ in range(random.randint(1, 3))
            )


def _policy(random: Random, names: Sequence[str], *, patient: bool) -> Policy:
    rules = (
        (Rule(ladder=(Rung(Action.RESUME, PATIENT), Rung(Action.REJECT))),)
        if patient
        else _rules(random, names)
    )
    return Policy(
        attempts=PATIENT if patient else random.choice([1, 2, 4, 12]),
        attempts_per_step=random.randint(1, 3),
        attempts_per_upstream={}
        if patient or random.random() < 0.8
        else {random.choice(names): random.randint(1, 2)},
        transport_retries=random.randint(0, 2),
        rules=rules,
        vary=frozenset(random.sample(list(Vary), random.randint(0, len(Vary)))),
        temperatures=random.choice([TEMPERATURES, (None,), (0.3, 0.9)]),
        seed=random.choice([None, 7]),
        force=random.choice(list(Level)),
        force_by=random.choice(list(ForceBy)),
        parallel=random.choice([1, 2, 4]),
        output_tokens=AMPLE if patient or random.random() < 0.9 else random.randint(10, 400),
        deliver=random.choice(DELIVERIES),
        tolerant=random.random() < 0.2,
        without_grammar=random.random() < 0.8,
        race=random.choice([1, 1, 1, 1, 2, 3]),
        votes=None if random.random() < 0.8 else Votes(ahead=random.randint(1, 2), most=random.randint(2, 4)),
        relay_thoughts=random.random() < 0.3,
    )


# --- all of it -----------------------------------------------------------------------------------


def _plan(random: Random) -> Plan:
    rate = random.choice([0.0, 0.5, 1.0, 1.0])
    harm = random.choice([0.0, 0.0, 0.3, 0.6])
    mishaps = [random.choice(list(Mishap)[1:]) if random.random() < harm else Mishap.NONE for _ in range(4)]
    return Plan(
        mistakes=random.choice([0, 1, 1, 2, 3, 99]) if rate else 0,
        rate=rate,
        stubborn=random.random() < 0.2,
        mistakes_of=tuple(random.sample(list(MISTAKES), len(MISTAKES))),
        wavering=random.random() < 0.4,
        loose=random.random() < 0.3,
        mishaps=(*mishaps, Mishap.NONE),
        manners=tuple(random.choice([Manner.STREAM, *Manner]) for _ in range(4)),
        own_end=random.choice(OWN_ENDS[:1] * 3 + OWN_ENDS[1:]),
        cut=random.choice([*CUTS, *FAULTS]),
    )


def drawn(seed: int) -> Scenario:
    """Draw the run of a seed."""
    text, library = procedure(seed // SHARED)
    random = Random(f"run {seed}")
    program = _compiled(seed // SHARED, random.choice([Form.WORK, Form.WORK, *Form]))
    inputs = program.accept(_inputs(random))
    names = ("x", "y", "z")[: random.randint(1, 3)]
    rows = tuple(_row(random) for _ in names)
    targets = tuple(
        replace(row.target(name, f"model-{name}"), standby=index > 0 and random.random() < 0.2)
        for index, (row, name) in enumerate(zip(rows, names, strict=True))
    )
    patient = random.random() < 0.2
    policy = _policy(random, names, patient=patient)
    job = Job(
        program=program,
        inputs=inputs,
        messages=({"role": "user", "content": f"Carry it out. The first line is: @begin main {NONCE}"},),
        nonce=NONCE,
        temperature=random.choice([None, 0.0, 0.7]),
        seed=random.choice([None, 11]),
        max_tokens=None if patient or random.random() < 0.9 else random.randint(1, 300),
        whole=random.random() < 0.3,
    )
    plan = _plan(random)
    if (
        policy.isolates
    ):  # nothing of what was decided is told again, and a model that wavers contradicts itself
        plan = replace(plan, wavering=False)
    return Scenario(
        seed=seed, library=library, text=text, program=program, inputs=inputs, policy=policy, rows=rows,
        targets=targets, job=job, plan=plan, content=random.choice(CONTENTS), patient=patient,
    )  # fmt: skip

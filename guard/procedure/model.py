"""What a procedure is: steps, tables, declarations and examples as frozen data.

`load` makes these from text, `validate` judges them, `execute` compiles them. Nothing here computes.
As with expressions, the place of a node (`at`) is left out of comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from guard.procedure.nodes import Expr, ListOf, Literal, Name, RecordOf, place
from guard.procedure.types import EnumType, RecordType, Rounding, Type, Unit
from guard.source import Span

# --- steps ---------------------------------------------------------------------------------------


class StepKind(StrEnum):
    """What a step does; also the label `step_kind` of metrics."""

    ASSIGN = "assign"
    DO = "do"
    CALL = "call"
    CONFIRM = "confirm"
    SAY = "say"
    EXTRACT = "extract"
    JUDGE = "judge"
    BRANCH = "branch"
    LOOP = "loop"
    WHILE = "while"
    CHOICE = "choice"  # which alternative of `one of` is tried
    REQUIRE = "require"
    CHECK = "check"
    RETURN = "return"
    RESULT = "result"  # the return of a sub-procedure, which is no answer
    DENY = "deny"
    ESCALATE = "escalate"


# Steps that end a procedure with what the client reads.
ANSWERS: Final = frozenset({StepKind.RETURN, StepKind.DENY, StepKind.ESCALATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """`target = expression [to places [rounding]]`; places below 0 are those left of the point."""

    number: str
    target: str
    expression: Expr
    places: int | None = None
    rounding: Rounding | None = None
    label: str | None = None
    at: Span = place()


@dataclass(frozen=True, slots=True, kw_only=True)
class Do:
    """`target = do procedure(arguments)`: another procedure's steps, whose return gives the value."""

    number: str
    target: str
    procedure: str
    arguments: tuple[Expr, ...]
    label: str | None = None
    at: Span = place()


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoke:
    """`[target =] call tool(arguments)`: the model calls a tool, whose result gives the value."""

    number: str
    target: str | None
    tool: str
    arguments: tuple[Expr, ...]
    label: str | None = None
    at: Span = place()


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirm:
    """`confirm tool(arguments) [with details] else end`: the user is shown a call and agrees to it."""

    number: str
    tool: str
    arguments: tuple[Expr, ...]
    details: tuple[Expr, ...]  # what else the user is shown
    otherwise: End
    label: str | None = None
    at: Span = place()


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """`say "wording {name}"`: what the model must say, as constants and the values between them."""

    number: str
    parts: tuple[Expr, ...]
    label: str | None = None
    at: Span = place()


class Quoting(StrEnum):
    """What the words are to do that a model quotes for a value."""

    SUPPORTING = "supporting"  # say the value
    LOOSE = "loosely"  # stand in the source


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    """`extract target: type from sources [where condition] [quote [loosely]]`: the model reads."""

    number: str
    target: str
    type: Type
    sources: tuple[str, ...]
    where: Expr | None = None
    quote: Quoting | None = None
    label: str | None = None
    at: Span = place()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """`judge target: type from sources asking question [where ...] [quote [loosely]]`: the model decides."""

    number: str
    target: str
    type: Type
    sources: tuple[str, ...]
    question: str
    where: Expr | None = None
    quote: Quoting | None = None
    label: str | None = None
    at: Span = place()


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One arm of an `if`: `keyword` is `if`, `elif` or `else` (which has no condition and no line)."""

    number: str
    keyword: str
    condition: Expr | None
    body: tuple[Step, ...]
    label: str | None = None
    at: Span = place()


@dataclass(frozen=True, slots=True, kw_only=True)
class If:
    """Arms in order; the first whose condition holds is carried out."""

    branches: tuple[Branch, ...]
    at: Span = place()


@dataclass(frozen=True, slots=True, kw_only=True)
class For:
    """`for variable in items at most bound`."""

    number: str
    variable: str
    items: Expr
    bound: int
    body: tuple[Step, ...]
    label: str | None = None
    at: Span = place()


@dataclass(frozen=True, slots=True, kw_only=True)
class While:
    """`while condition at most bound`: the condition is a line before each pass, and one that ends them."""

    number: str
    condition: Expr
    bound: int
    body: tuple[Step, ...]
    label: str | None = None
    at: Span = place()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOrder:
    """Steps that may come in any order, each once. It has no line of its own."""

    number: str
    body: tuple[Step, ...]
    label: str | None = None
    at: Span = place()


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """`try "name"` and its steps: one way of several. It has no line of its own."""

    number: str
    name: str
    body: tuple[Step, ...]
    at: Span = place()


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """`one of [at most attempts]`: the model chooses an alternative, and another one where that fails.

    Each attempt is a line, numbered by its place. Without `attempts` each alternative is tried once at
    most, with them any of them again. `otherwise` is the `else` below, for when all have failed.
    """

    number: str
    alternatives: tuple[Alternative, ...]
    attempts: int | None
    otherwise: Branch | None
    label: str | None = None
    at: Span = place()


@dataclass(frozen=True, slots=True)
class Next:
    """`else next` of a `require`: this alternative has failed. It has no line of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Require:
    """`require condition else end`; the end is a step of its own, numbered below this one."""

    number: str
    condition: Expr
    otherwise: End | Next
    label: str | None = None
    at: Span = place()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """`check condition`: where it is false, the procedure has failed."""

    number: str
    condition: Expr
    label: str | None = None
    at: Span = place()


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """`return expression [to places [rounding]]`: an end with an answer."""

    number: str
    expression: Expr
    places: int | None = None
    rounding: Rounding | None = None
    label: str | None = None
    at: Span = place()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    """`deny "text"`: an end that refuses."""

    number: str
    text: str
    label: str | None = None
    at: Span = place()


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalate:
    """`escalate "text"`: an end that hands the case to people."""

    number: str
    text: str
    label: str | None = None
    at: Span = place()


End = Return | Deny | Escalate
ToolStep = Invoke | Confirm | Say
Step = Assign | Do | Extract | Judge | If | For | While | AnyOrder | OneOf | Require | Check | ToolStep | End


# --- declarations --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Numbers:
    """`numbers round MODE, carry shown|exact`."""

    rounding: Rounding = Rounding.HALF_UP
    carry_exact: bool = False


@dataclass(frozen=True, slots=True)
class Parameter:
    """A typed input of a procedure or table; `default` is what a request may leave out."""

    name: str
    type: Type
    default: Literal | None = None
    at: Span = place()


@dataclass(frozen=True, slots=True)
class AnyCell:
    """`any`: every value."""


@dataclass(frozen=True, slots=True)
class ValuesCell:
    """`"a", "b"` or `3`: one of some values."""

    values: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class RangeCell:
    """`1..9` with both ends, `0<..10` without the low one, `>= 50`, `< 3`: numbers between two ends."""

    low: Literal | None
    high: Literal | None
    low_included: bool = True
    high_included: bool = True


Cell = AnyCell | ValuesCell | RangeCell


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a table's row, one a parameter, and its result."""

    cells: tuple[Cell, ...]
    result: Literal
    at: Span = place()


class Hit(StrEnum):
    """What a decision table gives where several rows take its inputs."""

    FIRST = "first match"  # the result of the uppermost
    UNIQUE = "unique"  # there must be one only
    ANY = "any equal"  # their results must be one and the same
    SUM = "sum"  # all their results added up, 0 where there is no row
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Table:
    """A decision table."""

    name: str
    parameters: tuple[Parameter, ...]
    result: Type
    hit: Hit
    rows: tuple[Row, ...]
    at: Span = place()


class Effect(StrEnum):
    """What a call of a tool does to the world."""

    READS = "reads"
    WRITES = "writes"


@dataclass(frozen=True, slots=True)
class Tool:
    """What a model may call: a tool's arguments, what it gives, and whether it changes anything."""

    name: str
    parameters: tuple[Parameter, ...]
    result: Type
    effect: Effect
    at: Span = place()


class Demand(StrEnum):
    """What an `always` asks for."""

    CONFIRM = "confirm"  # before each call of `then`, a confirmation of it with its arguments
    BEFORE = "before"  # before each call of `then`, a call of one of `first`
    NEVER_AFTER = "no after"  # behind a call of one of `first`, no call of `then`


@dataclass(frozen=True, slots=True)
class Always:
    """A rule for the calls of a whole run. Tools stand by name; `reads` and `writes` are all that do."""

    demand: Demand
    first: tuple[Name, ...]
    then: tuple[Name, ...]
    origin: Origin = field(compare=False)
    at: Span = place()


@dataclass(frozen=True, slots=True)
class Example:
    """Inputs and decisions on which a procedure is executed for lint and for the prompt."""

    procedure: str
    inputs: dict[str, Literal | ListOf | RecordOf]
    decisions: dict[str, Literal | ListOf | RecordOf]
    at: Span = place()


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure as written, its steps numbered. `numbers` are the rules of its file."""

    name: str
    parameters: tuple[Parameter, ...]
    result: Type
    body: tuple[Step, ...]
    numbers: Numbers = Numbers()
    at: Span = place()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a name is declared: the file as messages call it, and the line, from 1."""

    file: str
    line: int

    @property
    def place(self) -> str:
        """The place for a message."""
        return f"{self.file}, line {self.line}"


@dataclass(frozen=True, slots=True)
class Clock:
    """`now in "zone"`: a run that is not given its time is given that of the guard's clock, in this zone."""

    zone: str
    at: Span = place()


@dataclass(frozen=True, slots=True)
class Module:
    """All of one file, and of the files that it imports what they declare.

    `origins` has the place of each type, table, tool and procedure, by its kind and name.
    """

    version: str | None
    numbers: Numbers
    records: dict[str, RecordType]
    enums: dict[str, EnumType]
    tables: dict[str, Table]
    procedures: dict[str, Procedure]
    examples: dict[str, Example]
    units: dict[str, Unit] = field(default_factory=dict)
    constants: dict[str, Literal] = field(default_factory=dict)
    clock: Clock | None = None
    tools: dict[str, Tool] = field(default_factory=dict)
    rules: tuple[Always, ...] = ()
    file: str = ""
    origins: dict[tuple[str, str], Origin] = field(default_factory=dict, compare=False)

    @property
    def own_tables(self) -> dict[str, Table]:
        """The tables of this file itself."""
        return {name: table for name, table in self.tables.items() if self._owns("table", name)}

    @property
    def own_procedures(self) -> dict[str, Procedure]:
        """The procedures of this file itself."""
        return {name: found for name, found in self.procedures.items() if self._owns("procedure", name)}

    @property
    def own_tools(self) -> dict[str, Tool]:
        """The tools of this file itself."""
        return {name: tool for name, tool in self.tools.items() if self._owns("tool", name)}

    @property
    def own_rules(self) -> tuple[Always, ...]:
        """The rules of this file itself."""
        return tuple(rule for rule in self.rules if rule.origin.file == self.file)

    def _owns(self, kind: str, name: str) -> bool:
        return self.origins[kind, name].file == self.file

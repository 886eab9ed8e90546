"""What a procedure is: types, expressions, steps, tables and examples as frozen data.

`load` makes these from text, `validate` judges them, `execute` compiles them. Nothing here computes.
Every node knows where it stands in its source (`at`); that is left out of comparisons, so that two
texts which differ in white space give equal models.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from guard.source import Span

NOWHERE = Span(0, 0)


def _at() -> Span:
    return field(default=NOWHERE, compare=False, repr=False)


# --- types ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IntType:
    """Whole numbers."""


@dataclass(frozen=True, slots=True)
class DecimalType:
    """Exact numbers, shown with at least `places` decimals; None: as many as the value needs."""

    places: int | None = None


@dataclass(frozen=True, slots=True)
class PercentType:
    """Exact numbers that are shown times 100 with a `%` where they stand: 0.05 is `5%`."""


@dataclass(frozen=True, slots=True)
class BoolType:
    """`true` and `false`."""


@dataclass(frozen=True, slots=True)
class StringType:
    """Short text: a value that steps compare and show."""


@dataclass(frozen=True, slots=True)
class TextType:
    """Long text: a source to extract from, quote and judge; stands by its name."""


@dataclass(frozen=True, slots=True)
class EnumType:
    """One of some strings."""

    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListType:
    """Values of one type in order."""

    item: Type


@dataclass(frozen=True, slots=True)
class FieldType:
    """A named part of a record."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class RecordType:
    """Named fields in a fixed order. Two record types are the same when their fields are."""

    fields: tuple[FieldType, ...]
    name: str | None = field(default=None, compare=False)


Type = (
    IntType | DecimalType | PercentType | BoolType | StringType | TextType | EnumType | ListType | RecordType
)

# A value of the language. Numbers are exact: `int`, or `Fraction` where there are decimals. A list is
# a tuple; a record is a dict in the order of its fields and is never changed. `bool` is a truth value
# although Python makes it a number: ask for it first.
Value = bool | int | Fraction | str | tuple["Value", ...] | dict[str, "Value"]


class Rounding(StrEnum):
    """How `to n` decides between its two neighbours."""

    HALF_UP = "half_up"  # away from zero on a tie
    HALF_EVEN = "half_even"
    DOWN = "down"  # towards zero
    UP = "up"  # away from zero
    FLOOR = "floor"
    CEILING = "ceiling"


# --- expressions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. `type` keeps how it was written: `0.00` is a decimal of 2 places, `5%` a percent."""

    value: Value
    type: Type
    at: Span = _at()


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, parameter, or the item of a loop or `each`."""

    name: str
    at: Span = _at()


@dataclass(frozen=True, slots=True)
class FieldOf:
    """`record.field`."""

    record: Expr
    name: str
    at: Span = _at()


@dataclass(frozen=True, slots=True)
class Negate:
    """`-x`."""

    operand: Expr
    at: Span = _at()


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left op right`, op one of `+ - * / div mod`."""

    op: str
    left: Expr
    right: Expr
    at: Span = _at()


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left op right`, op one of `== != < <= > >= in not in`."""

    op: str
    left: Expr
    right: Expr
    at: Span = _at()


@dataclass(frozen=True, slots=True)
class Not:
    """`not x`."""

    operand: Expr
    at: Span = _at()


@dataclass(frozen=True, slots=True)
class Logic:
    """`left and right`, `left or right`; the right side is evaluated only where it matters."""

    op: str
    left: Expr
    right: Expr
    at: Span = _at()


@dataclass(frozen=True, slots=True)
class Choose:
    """`if condition then a else b` as a value."""

    condition: Expr
    then: Expr
    otherwise: Expr
    at: Span = _at()


@dataclass(frozen=True, slots=True)
class Call:
    """A built-in function or a table applied to arguments."""

    function: str
    arguments: tuple[Expr, ...]
    at: Span = _at()


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`function(term for variable in items if condition)`."""

    function: str
    term: Expr
    variable: str
    items: Expr
    condition: Expr | None
    at: Span = _at()


@dataclass(frozen=True, slots=True)
class ListOf:
    """`[a, b]`."""

    items: tuple[Expr, ...]
    at: Span = _at()


@dataclass(frozen=True, slots=True)
class RecordOf:
    """`{ name: value }`."""

    fields: tuple[tuple[str, Expr], ...]
    at: Span = _at()


Expr = (
    Literal
    | Name
    | FieldOf
    | Negate
    | Arithmetic
    | Comparison
    | Not
    | Logic
    | Choose
    | Call
    | Aggregate
    | ListOf
    | RecordOf
)


# --- steps ---------------------------------------------------------------------------------------


class StepKind(StrEnum):
    """What a step does; also the label `step_kind` of metrics."""

    ASSIGN = "assign"
    DO = "do"
    EXTRACT = "extract"
    JUDGE = "judge"
    BRANCH = "branch"
    LOOP = "loop"
    WHILE = "while"
    REQUIRE = "require"
    CHECK = "check"
    RETURN = "return"
    RESULT = "result"  # the return of a sub-procedure, which is no answer
    DENY = "deny"
    ESCALATE = "escalate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """`target = expression [to places [rounding]]`."""

    number: str
    target: str
    expression: Expr
    places: int | None = None
    rounding: Rounding | None = None
    label: str | None = None
    at: Span = _at()


@dataclass(frozen=True, slots=True, kw_only=True)
class Do:
    """`target = do procedure(arguments)`: another procedure's steps, whose return gives the value."""

    number: str
    target: str
    procedure: str
    arguments: tuple[Expr, ...]
    label: str | None = None
    at: Span = _at()


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    """`extract target: type from sources [where condition] [quote]`: the model reads."""

    number: str
    target: str
    type: Type
    sources: tuple[str, ...]
    where: Expr | None = None
    quote: bool = False
    label: str | None = None
    at: Span = _at()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """`judge target: type from sources asking question [where ...] [quote]`: the model decides."""

    number: str
    target: str
    type: Type
    sources: tuple[str, ...]
    question: str
    where: Expr | None = None
    quote: bool = False
    label: str | None = None
    at: Span = _at()


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One arm of an `if`: `keyword` is `if`, `elif` or `else` (which has no condition and no line)."""

    number: str
    keyword: str
    condition: Expr | None
    body: tuple[Step, ...]
    label: str | None = None
    at: Span = _at()


@dataclass(frozen=True, slots=True, kw_only=True)
class If:
    """Arms in order; the first whose condition holds is carried out."""

    branches: tuple[Branch, ...]
    at: Span = _at()


@dataclass(frozen=True, slots=True, kw_only=True)
class For:
    """`for variable in items at most bound`."""

    number: str
    variable: str
    items: Expr
    bound: int
    body: tuple[Step, ...]
    label: str | None = None
    at: Span = _at()


@dataclass(frozen=True, slots=True, kw_only=True)
class While:
    """`while condition at most bound`: the condition is a line before each pass, and one that ends them."""

    number: str
    condition: Expr
    bound: int
    body: tuple[Step, ...]
    label: str | None = None
    at: Span = _at()


@dataclass(frozen=True, slots=True, kw_only=True)
class Require:
    """`require condition else end`; the end is a step of its own, numbered below this one."""

    number: str
    condition: Expr
    otherwise: End
    label: str | None = None
    at: Span = _at()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """`check condition`: where it is false, the procedure has failed."""

    number: str
    condition: Expr
    label: str | None = None
    at: Span = _at()


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """`return expression`: an end with an answer."""

    number: str
    expression: Expr
    label: str | None = None
    at: Span = _at()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    """`deny "text"`: an end that refuses."""

    number: str
    text: str
    label: str | None = None
    at: Span = _at()


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalate:
    """`escalate "text"`: an end that hands the case to people."""

    number: str
    text: str
    label: str | None = None
    at: Span = _at()


End = Return | Deny | Escalate
Step = Assign | Do | Extract | Judge | If | For | While | Require | Check | End


# --- declarations --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Numbers:
    """`numbers round MODE, carry shown|exact`."""

    rounding: Rounding = Rounding.HALF_UP
    carry_exact: bool = False


@dataclass(frozen=True, slots=True)
class Parameter:
    """A typed input of a procedure or table."""

    name: str
    type: Type
    at: Span = _at()


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
    at: Span = _at()


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
    at: Span = _at()


@dataclass(frozen=True, slots=True)
class Example:
    """Inputs and decisions on which a procedure is executed for lint and for the prompt."""

    procedure: str
    inputs: dict[str, Literal | ListOf | RecordOf]
    decisions: dict[str, Literal | ListOf | RecordOf]
    at: Span = _at()


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure as written, its steps numbered."""

    name: str
    parameters: tuple[Parameter, ...]
    result: Type
    body: tuple[Step, ...]
    at: Span = _at()


@dataclass(frozen=True, slots=True)
class Module:
    """All of one file."""

    version: str | None
    numbers: Numbers
    records: dict[str, RecordType]
    enums: dict[str, EnumType]
    tables: dict[str, Table]
    procedures: dict[str, Procedure]
    examples: dict[str, Example]

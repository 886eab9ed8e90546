"""What expressions are: the nodes of their trees, as frozen data; and what is in them.

Every node knows where it stands in its source (`at`); that is left out of comparisons, so that two
texts which differ in white space give equal trees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from guard.procedure.types import Type, Unit, Value
from guard.source import Span

NOWHERE = Span(0, 0)


def place() -> Span:
    """The field of a node that keeps its place."""
    return field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. `type` keeps how it was written: `0.00` is a decimal of 2 places, `5%` a percent."""

    value: Value
    type: Type
    at: Span = place()


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, parameter, or the item of a loop or `each`."""

    name: str
    at: Span = place()


@dataclass(frozen=True, slots=True)
class FieldOf:
    """`record.field`."""

    record: Expr
    name: str
    at: Span = place()


@dataclass(frozen=True, slots=True)
class Negate:
    """`-x`."""

    operand: Expr
    at: Span = place()


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left op right`, op one of `+ - * / div mod`."""

    op: str
    left: Expr
    right: Expr
    at: Span = place()


@dataclass(frozen=True, slots=True)
class Shift:
    """`date op amount unit [mode]`: so many units later (`+`) or earlier (`-`).

    `unit` is one of `days weeks months years`, of moments also `hours minutes seconds`. `mode` says what
    months and years make of a day that the month does not have: `down` its last day, `up` the next first.
    """

    date: Expr
    op: str
    amount: Expr
    unit: str
    mode: str | None
    at: Span = place()


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left op right`, op one of `== != < <= > >= in not in`."""

    op: str
    left: Expr
    right: Expr
    at: Span = place()


@dataclass(frozen=True, slots=True)
class IsNull:
    """`x is null`, and `x is not null` where `negated`."""

    operand: Expr
    negated: bool = False
    at: Span = place()


@dataclass(frozen=True, slots=True)
class Default:
    """`value else fallback`: the value, or the fallback where it is null, which is evaluated only then."""

    value: Expr
    fallback: Expr
    at: Span = place()


@dataclass(frozen=True, slots=True)
class Convert:
    """`x as unit`: the same amount counted in another unit."""

    operand: Expr
    unit: Unit
    at: Span = place()


@dataclass(frozen=True, slots=True)
class Not:
    """`not x`."""

    operand: Expr
    at: Span = place()


@dataclass(frozen=True, slots=True)
class Logic:
    """`left and right`, `left or right`; the right side is evaluated only where it matters."""

    op: str
    left: Expr
    right: Expr
    at: Span = place()


@dataclass(frozen=True, slots=True)
class Choose:
    """`if condition then a else b` as a value."""

    condition: Expr
    then: Expr
    otherwise: Expr
    at: Span = place()


@dataclass(frozen=True, slots=True)
class Call:
    """A built-in function or a table applied to arguments."""

    function: str
    arguments: tuple[Expr, ...]
    at: Span = place()


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`function(term for variable in items if condition)`; as function `list` it is `[term for ...]`.

    `key` and `descending` are those of `sort(term for variable in items by key desc)`.
    """

    function: str
    term: Expr
    variable: str
    items: Expr
    condition: Expr | None
    key: Expr | None = None
    descending: bool = False
    at: Span = place()


@dataclass(frozen=True, slots=True)
class ListOf:
    """`[a, b]`."""

    items: tuple[Expr, ...]
    at: Span = place()


@dataclass(frozen=True, slots=True)
class RecordOf:
    """`{ name: value }`."""

    fields: tuple[tuple[str, Expr], ...]
    at: Span = place()


Expr = (
    Literal
    | Name
    | FieldOf
    | Negate
    | Arithmetic
    | Shift
    | Comparison
    | IsNull
    | Default
    | Convert
    | Not
    | Logic
    | Choose
    | Call
    | Aggregate
    | ListOf
    | RecordOf
)


def parts(expr: Expr) -> tuple[Expr, ...]:
    """Give the expressions that an expression is made of, in the order of the text."""
    match expr:
        case Literal() | Name():
            return ()
        case FieldOf(record):
            return (record,)
        case Negate(operand) | Not(operand) | IsNull(operand) | Convert(operand):
            return (operand,)
        case Default(value, fallback):
            return (value, fallback)
        case Arithmetic(_, left, right) | Comparison(_, left, right) | Logic(_, left, right):
            return (left, right)
        case Shift(date, _, amount):
            return (date, amount)
        case Choose(condition, then, otherwise):
            return (condition, then, otherwise)
        case Call(_, arguments):
            return arguments
        case Aggregate(_, term, _, items, condition, key):
            return (term, items, *(part for part in (condition, key) if part is not None))
        case ListOf(items):
            return items
        case RecordOf(fields):
            return tuple(value for _, value in fields)


def mapped(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Give an expression with each of its parts changed."""
    match expr:
        case Literal() | Name():
            return expr
        case FieldOf(record):
            return replace(expr, record=change(record))
        case Negate(operand) | Not(operand) | IsNull(operand) | Convert(operand):
            return replace(expr, operand=change(operand))
        case Default(value, fallback):
            return replace(expr, value=change(value), fallback=change(fallback))
        case Arithmetic(_, left, right) | Comparison(_, left, right) | Logic(_, left, right):
            return replace(expr, left=change(left), right=change(right))
        case Shift(date, _, amount):
            return replace(expr, date=change(date), amount=change(amount))
        case Choose(condition, then, otherwise):
            return replace(expr, condition=change(condition), then=change(then), otherwise=change(otherwise))
        case Call(_, arguments):
            return replace(expr, arguments=tuple(map(change, arguments)))
        case Aggregate(_, term, _, items, condition, key):
            only, by = (part if part is None else change(part) for part in (condition, key))
            return replace(expr, term=change(term), items=change(items), condition=only, key=by)
        case ListOf(items):
            return replace(expr, items=tuple(map(change, items)))
        case RecordOf(fields):
            return replace(expr, fields=tuple((name, change(value)) for name, value in fields))


def within(expr: Expr) -> Iterator[Expr]:
    """Give an expression and all that it is made of."""
    yield expr
    for part in parts(expr):
        yield from within(part)


def names(expr: Expr) -> Iterator[Name]:
    """Find every variable that an expression mentions from outside: those it binds itself left out."""
    match expr:
        case Name():
            yield expr
        case Aggregate(_, _, variable, items):
            yield from names(items)
            inner = (part for part in parts(expr) if part is not items)
            yield from (name for part in inner for name in names(part) if name.name != variable)
        case _:
            for part in parts(expr):
                yield from names(part)

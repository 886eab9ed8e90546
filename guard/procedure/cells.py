"""What a line carries: one cell for each value that an expression builds, computed and spelled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

from guard.procedure.evaluate import Compiled, compiled
from guard.procedure.expected import UNKNOWN, Cell, Form, Unknown, Working, assemble
from guard.procedure.functions import EvaluationError
from guard.procedure.lattice import depth, is_number, required
from guard.procedure.nodes import Aggregate, Expr, ListOf, Literal, RecordOf
from guard.procedure.numbers import Number, Unspellable, decimals_of, round_to
from guard.procedure.passes import MOST_PASSES, Env, charge
from guard.procedure.plain import Plain, plain
from guard.procedure.scope import Scope
from guard.procedure.text import text
from guard.procedure.types import (
    NULL,
    DecimalType,
    IntType,
    ListType,
    OptionalType,
    RecordType,
    Rounding,
    Type,
    Value,
)
from guard.procedure.values import speller

SHOWN_PLACES: Final = 10  # of a number carried exactly whose decimals never end and whose type sets none

Key = tuple[str | int, ...]
Watch = Callable[[str, Key, Any], None]  # is told a step's number, the place in its line, and the value
Finish = Callable[[Any], tuple[Value, Value]]  # from what an expression gives to what is carried and shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A place in a line that carries a value.

    `copied` says that the value is an operand's own, unrounded: it is shown as the operand is. `bare` says
    that no working stands before it; None: where the two are spelled the same. `symbol` is the expression
    as written, where the line shows it.
    """

    key: Key
    lead: str
    expression: Compiled
    type: Type
    spell: Callable[[Any], str]
    finish: Finish
    copied: bool
    bare: bool | None
    heavy: bool  # it has parts, which may be shared and so many more than it seems
    symbol: str | None = None
    unwritten: bool = False

    def fill(self, env: Env, shown: Env) -> tuple[Value | Unknown, Cell]:
        """Give the value that is carried on and the cell. Raises `EvaluationError`."""
        found = self.expression.evaluate(env)
        working = None if self.bare else self.expression.working(env, shown)
        if found is UNKNOWN:
            return UNKNOWN, self.cell(working, UNKNOWN, None)
        carried, seen = self.finish(found)
        if self.copied and shown is not env:
            seen = self.expression.evaluate(shown)
        if self.heavy:
            charge(env, parts_of(carried))
        try:
            spelling = self.spell(seen)
        except Unspellable as reason:
            raise EvaluationError(f"the value is {reason}") from None
        if self.bare is None and working == (spelling,):
            working = None
        return carried, self.cell(working, seen, spelling)

    def cell(self, working: Working | None, value: Value | Unknown, spelling: str | None) -> Cell:
        """Give the cell of a value, and of what stands before it."""
        symbol = self.symbol
        if symbol is not None and working in {None, (symbol,)}:
            working, symbol = (symbol,), None
        return Cell(
            self.key,
            self.lead,
            working,
            value,
            spelling,
            self.type,
            False,
            symbol,
            self.unwritten,
        )


@dataclass(frozen=True, slots=True)
class Body:
    """The places of a line in order, and the text behind the last."""

    leaves: tuple[Leaf, ...]
    tail: str
    plain: Plain | None = None

    def watched(self, watch: Watch, number: str) -> Body:
        """Give the same for a step that tells every value before it is rounded."""

        def told(leaf: Leaf) -> Leaf:
            def finish(value: Any) -> tuple[Value, Value]:
                watch(number, leaf.key, value)
                return leaf.finish(value)

            return replace(leaf, finish=finish)

        return Body(tuple(map(told, self.leaves)), self.tail)

    def read(self, text: str, value: Value, /) -> tuple[Cell, ...]:
        """Give the cell of a line that was written the plain way, of the text behind its head."""
        leaf = self.leaves[0]
        working, _, spelling = text.rpartition(" = ")
        return (leaf.cell((working,) if working else None, value, spelling),)

    def fill(self, env: Env, shown: Env) -> tuple[Value | Unknown, tuple[Cell, ...]]:
        """Give the value that is carried on and the cells. Raises `EvaluationError`."""
        if len(self.leaves) == 1 and not self.leaves[0].key:
            carried, cell = self.leaves[0].fill(env, shown)
            return carried, (cell,)
        filled = [leaf.fill(env, shown) for leaf in self.leaves]
        cells = tuple(cell for _, cell in filled)
        return assemble((cell.key, carried) for carried, cell in filled), cells


@dataclass(frozen=True, slots=True)
class Rule:
    """`to places rounding`, as far as a step has it."""

    places: int | None = None
    rounding: Rounding | None = None


def body(expr: Expr, type: Type, scope: Scope, form: Form, rule: Rule | None = None) -> Body:  # noqa: A002
    """Compile the right side of a step whose value is of a type, for a form of the trace."""
    rule = rule or Rule()
    leaves: list[Leaf] = []
    lead = ""
    for key, before, inner, kind in _places(expr, type, ()):
        lead += before
        if inner is not None:
            leaf = _leaf(key, lead, compiled(inner, scope), kind, scope=scope, rule=rule)
            leaves.append(_formed(leaf, inner, form))
            lead = ""
    match leaves:
        case [Leaf(key=(), symbol=None, expression=expression, bare=bool(bare))]:
            whole = rule.places is None or rule.places >= 0  # which leaves a whole number as it is
            return Body(tuple(leaves), lead, plain(expression, type, bare=bare) if whole else None)
        case _:
            return Body(tuple(leaves), lead)


def argument(expr: Expr, type: Type, scope: Scope) -> Leaf:  # noqa: A002
    """Compile what is given to an input of a type."""
    return _leaf((), "", compiled(expr, scope), type, scope=scope, rule=Rule())


def _formed(leaf: Leaf, expr: Expr, form: Form) -> Leaf:
    match form:
        case Form.VALUES:
            return replace(leaf, bare=True, unwritten=not leaf.copied)
        case Form.WORK:
            return leaf
        case Form.FULL:
            constant = isinstance(expr, Literal) or expr == ListOf(())
            return leaf if constant else replace(leaf, symbol=text(expr))


def _leaf(
    key: Key,
    lead: str,
    expression: Compiled,
    type: Type,  # noqa: A002
    *,
    scope: Scope,
    rule: Rule,
) -> Leaf:
    copied = expression.single and rule.places is None
    return Leaf(
        key=key,
        lead=lead,
        expression=expression,
        type=type,
        spell=speller(type),
        finish=_finish(type, rule, scope),
        copied=copied,
        bare=_bare(expression, type, copied=copied),
        heavy=depth(type) > 0,
    )


def parts_of(value: Value) -> int:
    """Count what a value is made of, up to a little more than may be."""
    parts = 0
    waiting: list[Value] = [value]
    while waiting and parts <= MOST_PASSES:
        parts += 1
        match waiting.pop():
            case tuple() as items:
                waiting.extend(items)
            case dict() as fields:
                waiting.extend(fields.values())
            case _:
                pass
    return parts


def _bare(expression: Compiled, type: Type, *, copied: bool) -> bool | None:  # noqa: A002
    match expression.expr:
        case ListOf(()):
            return True
        case Aggregate(function="list"):
            return None  # its terms may be the values themselves
        case _:
            pass
    if not expression.single:
        return False
    if copied and (expression.type == type or not is_number(required(type))):
        return True
    return None  # decimals may make a difference


Place = tuple[Key, str, Expr | None, Type]  # key, text before it, expression, type of its value


def _places(expr: Expr, type: Type, key: Key) -> Iterator[Place]:  # noqa: A002
    """Take constructors apart: literal text, and the expressions whose values stand between it."""
    match expr, required(type):
        case RecordOf(values), RecordType(fields):
            given = dict(values)
            for index, field in enumerate(fields):
                yield key, f'{", " if index else "{"}"{field.name}": ', None, type
                yield from _places(given[field.name], field.type, (*key, field.name))
            yield key, "}", None, type
        case ListOf((_, *_) as items), ListType(item):
            for index, part in enumerate(items):
                yield key, ", " if index else "[", None, type
                yield from _places(part, item, (*key, index))
            yield key, "]", None, type
        case _:
            yield key, "", expr, type


def _finish(type: Type, rule: Rule, scope: Scope) -> Finish:  # noqa: A002
    if isinstance(type, OptionalType):
        inner = _finish(type.item, rule, scope)
        return lambda value: (NULL, NULL) if value is NULL else inner(value)
    if not is_number(type):
        return lambda value: (value, value)
    rounding = rule.rounding or scope.numbers.rounding
    places = rule.places
    if isinstance(type, IntType):
        return _finish_whole(places, rounding)
    if not scope.numbers.carry_exact:
        return _finish_shown(places, rounding)
    if places is None and isinstance(type, DecimalType):
        places = type.places
    return lambda value: (value, _seen(value, places, rounding))


def _finish_whole(places: int | None, rounding: Rounding) -> Finish:
    """Carry whole numbers as they are shown, in either mode: no table or loop sees parts of them."""

    def finish(value: Number) -> tuple[Value, Value]:
        if places is not None:
            value = round_to(value, places, rounding)
        if isinstance(value, Fraction):
            if value.denominator != 1:
                raise EvaluationError("the value is no whole number")
            value = value.numerator
        return value, value

    return finish


def _finish_shown(places: int | None, rounding: Rounding) -> Finish:
    if places is None:
        return lambda value: (value, value)

    def finish(value: Number) -> tuple[Value, Value]:
        value = round_to(value, places, rounding)
        return value, value

    return finish


def _seen(value: Number, places: int | None, rounding: Rounding) -> Number:
    if places is not None:
        return round_to(value, places, rounding)
    ends = decimals_of(value.denominator) is not None
    return value if ends else round_to(value, SHOWN_PLACES, rounding)

"""What has more decimals than may be kept, and what to write so that no value is lost.

While a procedure is checked, what must be rounded is only collected: to how many decimals is settled
afterwards, by what its example comes to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from guard.procedure.advice import rounded
from guard.procedure.bindings import given_type
from guard.procedure.decimals import keeping, loses
from guard.procedure.exact import places_of_share
from guard.procedure.expression import conversions, infer
from guard.procedure.lattice import is_number, places_of_type, required, too_precise, type_text
from guard.procedure.library import PASSING
from guard.procedure.listing import expressions, walk
from guard.procedure.model import Assign, Return
from guard.procedure.nodes import (
    Aggregate,
    Arithmetic,
    Call,
    Choose,
    Convert,
    Expr,
    ListOf,
    Name,
    Negate,
    RecordOf,
    names,
    within,
)
from guard.procedure.numbers import Number, decimal_text, round_to
from guard.procedure.plainly import unitless
from guard.procedure.text import cut, text
from guard.procedure.types import DecimalType, IntType, ListType, Rounding, Type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from guard.procedure.cells import Key
    from guard.procedure.decimals import Values
    from guard.procedure.faults import Faults
    from guard.procedure.model import Procedure
    from guard.procedure.scope import Scope
    from guard.source import Span

ENDLESS = "the result of / is not rounded, it may have decimals without end"


@dataclass(frozen=True, slots=True)
class Need:
    """A value that must be rounded, in the line of a step, at a place in it.

    `advice` says what to write for a number of decimals. `declared` are those that its type asks for;
    `widened` says what to write where so few would lose the value.
    """

    at: Span
    message: str
    number: str
    key: Key
    advice: Callable[[int], str]
    declared: int | None = None
    widened: Callable[[int], str] | None = None

    def settled(self, values: Values, rounding: Rounding) -> str:
        """Say what to write, by the values that the example comes to."""
        known = values.get((self.number, self.key), ())
        if self.declared is None:
            return self.advice(keeping(known))
        lost = next((value for value in known if loses(value, self.declared, rounding)), None)
        if lost is None:
            return self.advice(self.declared)
        places = keeping(known)
        if self.widened is None:
            return self.advice(places)
        return f"{self.widened(places)}: {turned(lost, self.declared, rounding)} on the example"


def settle(needs: Sequence[Need], values: Values, rounding: Rounding, faults: Faults) -> None:
    """Report what must be rounded."""
    for need in needs:
        faults(need.at, need.message, need.settled(values, rounding))


def turned(value: Number, places: int, rounding: Rounding) -> str:
    """Say what rounding makes of a value: `to 2 turns 0.005417 into 0.01`."""
    before = decimal_text(round_to(value, keeping([value]), Rounding.HALF_UP), 0)
    after = decimal_text(round_to(value, places, rounding), max(places, 0))
    return f"to {places} turns {before} into {after}"


# --- quotients -----------------------------------------------------------------------------------


def quotients(expression: Expr, scope: Scope) -> Iterator[Expr]:
    """Find the divisions whose result an expression hands on unrounded, as they are written."""
    plain = unitless(expression, conversions(expression, scope))
    for found in _quotients(plain):
        yield next((part for part in within(expression) if part.at == found.at), found)


def _quotients(expression: Expr) -> Iterator[Expr]:
    inner: Sequence[Expr] = ()
    match expression:
        case Arithmetic(op="/", left=left) if places_of_share(expression) is not None:
            inner = (left,)
        case Arithmetic(op="/"):
            yield expression
        case Arithmetic(op="+" | "-" | "*" | "mod", left=left, right=right):
            inner = (left, right)
        case Negate(operand):
            inner = (operand,)
        case Choose(_, then, otherwise):
            inner = (then, otherwise)
        case Call(function, arguments) if function in PASSING:
            inner = arguments
        case Aggregate(function, term) if function in PASSING:
            inner = (term,)
        case ListOf(items):
            inner = items
        case RecordOf(fields):
            inner = [value for _, value in fields]
        case _:
            pass
    for part in inner:
        yield from _quotients(part)


def unrounded(step: Assign, scope: Scope, uses: Uses) -> Iterator[Need]:
    """Find what an assignment keeps without end of decimals."""
    whole = infer(step.expression, scope, _quiet)
    if whole is None:
        return
    for key, part in _places(step.expression, ()):
        quotient = next(quotients(part, scope), None)
        if quotient is None:
            continue
        if is_number(whole):
            declared = uses.decimals_asked_for(step.target)
            yield Need(quotient.at, ENDLESS, step.number, key, _kept(step), declared)
        else:
            yield Need(quotient.at, ENDLESS, step.number, key, _in_place(_roundable(part, quotient, scope)))


def unrounded_argument(expr: Expr, number: str, scope: Scope) -> Iterator[Need]:
    """Find what an argument hands on without end of decimals."""
    quotient = next(quotients(expr, scope), None)
    if quotient is not None:
        yield Need(quotient.at, ENDLESS, number, ("?",), _in_place(_roundable(expr, quotient, scope)))


def _roundable(part: Expr, quotient: Expr, scope: Scope) -> Expr:
    """Give what is to be rounded: all of an expression where that is a number, else the quotient in it."""
    return part if is_number(infer(part, scope, _quiet)) else quotient


def _kept(step: Assign) -> Callable[[int], str]:
    return lambda places: f"write {step.target} = {text(step.expression)} to {places}"


def _in_place(expr: Expr) -> Callable[[int], str]:
    return lambda places: f"write {rounded(expr, places)}"


def _places(expr: Expr, key: Key) -> Iterator[tuple[Key, Expr]]:
    """Take constructors apart, as the line that carries their values does."""
    match expr:
        case RecordOf(fields):
            for name, value in fields:
                yield from _places(value, (*key, name))
        case ListOf(items):
            for index, item in enumerate(items):
                yield from _places(item, (*key, index))
        case _:
            yield key, expr


@dataclass(frozen=True)
class Uses:
    """How the names of a procedure get their values, and what these are used for; found once, when asked."""

    procedure: Procedure

    @cached_property
    def assigned(self) -> Mapping[str, Sequence[Assign]]:
        """The assignments by the name that they give a value."""
        found: dict[str, list[Assign]] = {}
        for step in walk(self.procedure.body):
            if isinstance(step, Assign):
                found.setdefault(step.target, []).append(step)
        return found

    @cached_property
    def _calculated_with(self) -> frozenset[str]:
        return frozenset(
            used.name
            for step in walk(self.procedure.body)
            if not (isinstance(step, Return) and isinstance(step.expression, Name))
            for expr in expressions(step)
            for used in names(expr)
        )

    def decimals_asked_for(self, name: str) -> int | None:
        """Give the decimals of the result where a name is used for nothing but that."""
        return None if name in self._calculated_with else places_of_type(required(self.procedure.result))


# --- results -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Result:
    """What a return gives: the step, what its names are of, and how they get their values."""

    step: Return
    uses: Uses
    scope: Scope
    line: Callable[[Span], int]

    def narrowed(self, part: Expr, wanted: Type, found: Type, key: Key) -> Need:
        """Give the need of a part of the result that has more decimals than its type."""
        places = places_of_type(required(wanted))
        assert places is not None
        asked, more = type_text(required(wanted)), "may have more decimals"
        message = f"the result is {asked}, {cut(part)} "
        message += f"is {type_text(found)}" if isinstance(required(wanted), IntType) else more
        write, origin = self._writing(part), self._origin(part, required(wanted))
        return Need(
            part.at,
            message,
            self.step.number,
            key,
            lambda n: f"write {write(n)}{self._or_wider(wanted)}{origin}",
            places,
            lambda n: f"write {write(n)}, and {_wider(wanted, n)} for {asked} {_where(key)}",
        )

    def narrowed_items(self, part: Aggregate, wanted: ListType, key: Key) -> Need:
        """Give the need of a list whose items have more decimals than its type."""
        places, asked = places_of_type(wanted.item), type_text(wanted.item)
        assert places is not None
        where = _where(key)
        return Need(
            part.term.at,
            f"the result is {type_text(wanted)}, {cut(part.term)} may have more decimals",
            self.step.number,
            key,
            lambda n: f"write {rounded(part.term, n)}",
            places,
            lambda n: f"write {rounded(part.term, n)}, and {_wider(wanted.item, n)} for {asked} {where}",
        )

    def _or_wider(self, wanted: Type) -> str:
        """Offer the decimals that a return asks for itself."""
        places = self.step.places
        return "" if places is None or places < 1 else f", or {_wider(wanted, places)} after ->"

    def endless(self, part: Expr, key: Key) -> Iterator[Need]:
        """Find what a result hands on without end of decimals."""
        # A conversion may take back what another one has done, which its type does not say.
        found = (part for part in quotients(part, self.scope) if not isinstance(part, Convert))
        quotient = next(found, None)
        if quotient is not None:
            write = self._writing(part, quotient)
            yield Need(quotient.at, ENDLESS, self.step.number, key, lambda n: f"write {write(n)}")

    def _writing(self, part: Expr, quotient: Expr | None = None) -> Callable[[int], str]:
        whole = self.step.expression
        if is_number(infer(whole, self.scope, _quiet)):
            return lambda places: f"return {text(whole)} to {places}"
        kind = infer(part, self.scope, _quiet)
        if is_number(kind) or kind is None or not is_number(required(kind)):
            inner = part if is_number(kind) or quotient is None else quotient
            return lambda places: rounded(inner, places)
        return lambda places: f"if {text(part)} is null then null else {rounded(part, places)}"

    def _origin(self, part: Expr, wanted: Type) -> str:
        step = self._made(part.name, wanted) if isinstance(part, Name) else None
        return "" if step is None else f"; its decimals come from line {self.line(step.at)}"

    def _made(self, name: str, wanted: Type) -> Assign | None:
        """Find the assignment that brings in the decimals which are too many, also by way of other names."""
        found, seen = None, {name}
        while True:
            steps = self.uses.assigned.get(name, ())
            step = next((step for step in steps if self._too_precise(step, wanted)), None)
            if step is None:
                return found
            found = step
            others = [] if step.places is not None else [used.name for used in names(step.expression)]
            inner = next(
                (other for other in others if other not in seen and self._brings(other, wanted)), None
            )
            if inner is None:
                return found
            seen.add(inner)
            name = inner

    def _too_precise(self, step: Assign, wanted: Type) -> bool:
        found = given_type(step, infer(step.expression, self.scope, _quiet))
        return found is not None and too_precise(wanted, found)

    def _brings(self, name: str, wanted: Type) -> bool:
        known = self.scope.variables.get(name)
        return name in self.uses.assigned and known is not None and too_precise(wanted, known)


def _where(key: Key) -> str:
    """Say where the type of a part of the result stands."""
    field = next((name for name in reversed(key) if isinstance(name, str)), None)
    return "after ->" if field is None else f"as the type of {field}"


def _wider(wanted: Type, places: int) -> str:
    inner = required(wanted)
    assert isinstance(inner, IntType | DecimalType)
    return type_text(DecimalType(places, inner.unit)) + ("" if inner is wanted else "?")


def _quiet(span: Span, message: str, help: str) -> None:  # noqa: A002
    """Complaints are made where the step itself is checked."""

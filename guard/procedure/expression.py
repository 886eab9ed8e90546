"""The types of expressions: what each gives, and every reason why one cannot be computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from guard.procedure.advice import CALLED, advice_for, instead, meant, null_problem, nulls_left_out
from guard.procedure.compared import compared, compared_null
from guard.procedure.exact import places_of_share
from guard.procedure.faults import suggestion
from guard.procedure.lattice import (
    is_number,
    is_time,
    join,
    join_all,
    kind_text,
    may_be_null,
    most_places,
    places_of_type,
    required,
    takes,
    type_text,
)
from guard.procedure.library import FUNCTIONS
from guard.procedure.lists import sorts
from guard.procedure.measured import (
    arithmetic_unit,
    called,
    converted,
    first_odd,
    is_one,
    unit_advice,
)
from guard.procedure.model import Table
from guard.procedure.nodes import (
    Aggregate,
    Arithmetic,
    Call,
    Choose,
    Comparison,
    Convert,
    Default,
    Expr,
    FieldOf,
    IsNull,
    ListOf,
    Literal,
    Logic,
    Name,
    Negate,
    Not,
    RecordOf,
    Shift,
)
from guard.procedure.presence import path_of
from guard.procedure.scope import Scope
from guard.procedure.text import text
from guard.procedure.timed import difference_type, shift_type
from guard.procedure.types import (
    BoolType,
    DecimalType,
    EnumType,
    FieldType,
    IntType,
    ListType,
    NothingType,
    NullType,
    OptionalType,
    PercentType,
    RecordType,
    StringType,
    Type,
)
from guard.procedure.units import bare, unit_of, with_unit
from guard.source import Span

Problems = Callable[[Span, str, str], None]  # place, message, help

_ADDING: Final = frozenset({"sum", "min", "max", "all", "any"})  # functions that need each term to be there
_KEEPING: Final = frozenset({"append", "insert", "put"})  # functions that put a value in a list as it is


def infer(expr: Expr, scope: Scope, problems: Problems) -> Type | None:
    """Give the type of an expression.

    None where it has none; `problems` has then been told why, once for each place that is wrong.
    """
    return _Inference(problems).of(expr, scope)


def inference(problems: Problems) -> Callable[[Expr, Scope], Type | None]:
    """Give a function that does as `infer`, for one expression and the parts of it.

    It remembers what it has found of a part, so that asking for each of them takes no longer than for all.
    """
    return _Inference(problems).of


def conversions(expr: Expr, scope: Scope) -> dict[Span, Fraction]:
    """Say what the conversions of an expression that has a type multiply by, each by its place."""
    inference = _Inference(lambda *_: None)
    inference.of(expr, scope)
    return inference.shares


@dataclass(frozen=True, slots=True)
class _Inference:
    problems: Problems
    shares: dict[Span, Fraction] = field(default_factory=dict)  # of the conversions, by their places
    # By what was asked for, which is kept so that no other one is taken for it.
    found: dict[tuple[int, int], tuple[Expr, Scope, Type | None]] = field(default_factory=dict)

    def of(self, expr: Expr, scope: Scope) -> Type | None:
        key = id(expr), id(scope)
        known = self.found.get(key)
        if known is None:
            known = self.found[key] = (expr, scope, self._type_of(expr, scope))
        return known[2]

    def _type_of(self, expr: Expr, scope: Scope) -> Type | None:
        match expr:
            case Literal(str(value), StringType()):
                return EnumType((value,))  # fits every string type and every enumeration that has it
            case Literal(_, EnumType(())):
                return None  # it has a unit that nothing declares, which has been reported
            case Literal(_, type):
                return type
            case Name():
                return self._name(expr, scope)
            case FieldOf():
                return self._field(expr, scope)
            case Negate(operand):
                return self._number(operand, scope, "-")
            case Arithmetic():
                return self._arithmetic(expr, scope)
            case Shift(date, _, amount):
                moment = self._there(date, self.of(date, scope))
                return shift_type(expr, moment, self._there(amount, self.of(amount, scope)), self.problems)
            case Comparison():
                return self._comparison(expr, scope)
            case IsNull():
                return self._null_test(expr, scope)
            case Default():
                return self._default(expr, scope)
            case Convert(operand):
                number = self._number(operand, scope, "as")
                if number is None:
                    return None
                type_, self.shares[expr.at] = converted(expr, number, self.problems, arithmetic_type)
                return type_
            case Not(operand):
                self.condition(operand, scope, "not")
                return BoolType()
            case Logic(op, left, right):
                self.condition(left, scope, op)
                self.condition(right, scope.where(left, holds=op == "and"), op)
                return BoolType()
            case Choose():
                return self._choice(expr, scope)
            case Call():
                return self._call(expr, scope)
            case Aggregate():
                return self._aggregate(expr, scope)
            case ListOf():
                return self._list(expr, scope)
            case RecordOf(fields):
                found = [(name, self.of(value, scope)) for name, value in fields]
                kept = tuple(FieldType(name, known) for name, known in found if known is not None)
                return RecordType(kept) if len(kept) == len(found) else None

    def _name(self, expr: Name, scope: Scope) -> Type | None:
        if expr.name in scope.variables:
            return _present(expr, scope.variables[expr.name], scope)
        if expr.name in scope.tables or expr.name in FUNCTIONS:
            self.problems(expr.at, f"{expr.name!r} is not a value", f"call it: {expr.name}(...)")
        else:
            self.problems(expr.at, f"unknown name {expr.name!r}", meant(expr.name, scope.variables))
        return None

    def _field(self, expr: FieldOf, scope: Scope) -> Type | None:
        match self._there(expr.record, self.of(expr.record, scope)):
            case None:
                return None
            case RecordType(fields):
                types = {field.name: field.type for field in fields}
                if expr.name in types:
                    return _present(expr, types[expr.name], scope)
                known = suggestion(expr.name, types)
                self.problems(expr.at, f"{text(expr.record)!r} has no field {expr.name!r}", known)
            case other:
                message = f"{text(expr.record)!r} is {type_text(other)} and has no fields"
                self.problems(expr.at, message, _instead_of_field(expr))
        return None

    def _number(self, expr: Expr, scope: Scope, op: str) -> Type | None:
        return self._numeric(expr, self._there(expr, self.of(expr, scope)), op)

    def _numeric(self, expr: Expr, found: Type | None, op: str) -> Type | None:
        if found is None or is_number(found):
            return found
        advice = instead(op, found)
        self.problems(expr.at, f"{op!r} needs a number, {text(expr)!r} is {kind_text(found)}", advice)
        return None

    def condition(self, expr: Expr, scope: Scope, op: str) -> None:
        found = self._there(expr, self.of(expr, scope))
        if found is not None and not isinstance(found, BoolType):
            advice = (
                f"compare it with something, as in `{text(expr)} > 0`"
                if is_number(found)
                else "write a comparison"
            )
            message = f"{op!r} needs true or false, {text(expr)!r} is {kind_text(found)}"
            self.problems(expr.at, message, advice)

    def _arithmetic(self, expr: Arithmetic, scope: Scope) -> Type | None:
        left = self._there(expr.left, self.of(expr.left, scope))
        right = self._there(expr.right, self.of(expr.right, scope))
        if left is not None and right is not None and (is_time(left) or is_time(right)):
            return difference_type(expr, left, right, self.problems)
        if is_time(left or right):
            return None  # the other side has been complained about
        left = self._numeric(expr.left, left, expr.op)
        right = self._numeric(expr.right, right, expr.op)
        if left is None or right is None:
            return None
        fits, unit = arithmetic_unit(expr, left, right, self.problems)
        if expr.op in {"/", "div", "mod"} and isinstance(expr.right, Literal) and expr.right.value == 0:
            self.problems(expr.right.at, "division by zero", "write another divisor")
        return with_unit(_calculated(expr, bare(left), bare(right)), unit) if fits else None

    def _comparison(self, expr: Comparison, scope: Scope) -> Type | None:
        left, right = self.of(expr.left, scope), self.of(expr.right, scope)
        if isinstance(left, NullType) or isinstance(right, NullType):
            compared_null(expr, left, self.problems)
        else:
            compared(expr, self._there(expr.left, left), self._there(expr.right, right), self.problems)
        return BoolType()

    # --- null

    def _there(self, expr: Expr, found: Type | None) -> Type | None:
        """Report a value that may be null where one is needed; its type is that of what it is else."""
        if not may_be_null(found):
            return found
        assert found is not None
        self.problems(expr.at, *null_problem(expr, found))
        return None

    def _untold(self, expr: Expr, scope: Scope) -> Type | None:
        """Give a type as declared: asking again whether a value is null is no fault."""
        path = path_of(expr)
        return self.of(expr, scope if path is None else scope.knowing(scope.present - {path}))

    def _null_test(self, expr: IsNull, scope: Scope) -> Type:
        found = self._untold(expr.operand, scope)
        if found is not None and not may_be_null(found):
            word = "true" if expr.negated else "false"
            message = f"{text(expr.operand)!r} is {kind_text(found)}, which is never null"
            self.problems(expr.at, message, f"leave the test out: it is always {word}")
        return BoolType()

    def _default(self, expr: Default, scope: Scope) -> Type | None:
        found = self._untold(expr.value, scope)
        fallback = self.of(expr.fallback, scope)
        if found is None or fallback is None:
            return None
        if not may_be_null(found):
            message = f"{text(expr.value)!r} is {kind_text(found)}, which is never null"
            self.problems(expr.at, message, "leave else and what follows out")
            return found
        if isinstance(found, NullType):
            return fallback
        joined = join(required(found), fallback)
        if joined is None:
            kinds = f"{kind_text(required(found))}, {kind_text(fallback)}"
            advice = unit_advice(expr.fallback, fallback, required(found))
            self.problems(
                expr.at,
                f"both sides of 'else' must be of one kind, found {kinds}",
                advice or "write numbers, or strings, or bools",
            )
        return joined

    def _choice(self, expr: Choose, scope: Scope) -> Type | None:
        self.condition(expr.condition, scope, "if")
        then = self.of(expr.then, scope.where(expr.condition, holds=True))
        otherwise = self.of(expr.otherwise, scope.where(expr.condition, holds=False))
        arms = (expr.then, expr.otherwise)
        return self._joined(arms, [then, otherwise], "both sides of 'else'", expr.at)

    def _joined(self, exprs: tuple[Expr, ...], found: list[Type | None], what: str, at: Span) -> Type | None:
        types = [type for type in found if type is not None]  # noqa: A001
        if len(types) < len(found):
            return None
        joined = join_all(types)
        if joined is None:
            kinds = ", ".join(dict.fromkeys(map(kind_text, types)))
            advice = first_odd(exprs, types) or "write numbers, or strings, or bools"
            self.problems(at, f"{what} must be of one kind, found {kinds}", advice)
        return joined

    def _list(self, expr: ListOf, scope: Scope) -> Type | None:
        if not expr.items:
            return ListType(NothingType())
        item = self._joined(
            expr.items, [self.of(part, scope) for part in expr.items], "items of a list", expr.at
        )
        return item and ListType(item)

    def _call(self, expr: Call, scope: Scope) -> Type | None:
        types = [self.of(argument, scope) for argument in expr.arguments]
        table, function = scope.tables.get(expr.function), FUNCTIONS.get(expr.function)
        if table is None and function is not None and expr.function not in _KEEPING:
            types = [self._there(*pair) for pair in zip(expr.arguments, types, strict=True)]
        known = [type for type in types if type is not None]  # noqa: A001
        if table is not None:
            self._arguments(expr, table, types)
            return table.result
        if function is None:
            advice = CALLED.get(expr.function) or suggestion(expr.function, [*scope.tables, *FUNCTIONS])
            self.problems(expr.at, f"unknown function or table {expr.function!r}", advice)
            return None
        if len(known) < len(types):
            return None
        fits, result = called(
            expr,
            known,
            self.problems,
            lambda types: function.result(types, expr.arguments),
        )
        if fits and result is None:
            given = ", ".join(map(type_text, known)) or "nothing"
            message = f"{expr.function!r} does not take ({given})"
            self.problems(
                expr.at, message, nulls_left_out(expr, known) or f"write it as {function.signature}"
            )
        return result

    def _arguments(self, expr: Call, table: Table, types: list[Type | None]) -> None:
        if len(types) != len(table.parameters):
            wanted = ", ".join(f"{p.name}: {type_text(p.type)}" for p in table.parameters)
            message = f"table {table.name!r} takes ({wanted}), {len(types)} given"
            self.problems(expr.at, message, f"write it as {table.name}({wanted})")
            return
        for parameter, argument, given in zip(table.parameters, expr.arguments, types, strict=True):
            if given is not None and not _may_look_up(parameter.type, given):
                message = f"{parameter.name!r} of table {table.name!r} is {type_text(parameter.type)}"
                advice = (
                    advice_for(
                        argument, given, parameter.type, f"{parameter.name}: {{type}} in table {table.name}"
                    )
                    or f"give it {type_text(parameter.type)}"
                )
                self.problems(argument.at, f"{message}, {text(argument)!r} is {kind_text(given)}", advice)

    def _aggregate(self, expr: Aggregate, scope: Scope) -> Type | None:
        items = self._there(expr.items, self.of(expr.items, scope))
        if items is not None and not isinstance(items, ListType):
            message = f"'for' needs a list, {text(expr.items)!r} is {type_text(items)}"
            self.problems(expr.items.at, message, "write a list, such as lines or [1, 2]")
        inner = scope.bind(expr.variable, items.item if isinstance(items, ListType) else None)
        if expr.condition is not None:
            self.condition(expr.condition, inner, "if")
            inner = inner.where(expr.condition, holds=True)
        term = self.of(expr.term, inner)
        self._key(expr, inner)
        if expr.function == "list":
            return term and ListType(term)
        function = FUNCTIONS.get(expr.function)
        if function is None or function.over is None:
            able = [name for name, known in FUNCTIONS.items() if known.over is not None]
            advice = suggestion(expr.function, able)
            self.problems(expr.at, f"{expr.function!r} does not go over a list", advice)
            return None
        if expr.function == "filter" and expr.condition is None:
            advice = f"add if and a condition behind {text(expr.items)}"
            self.problems(expr.at, "a filter says which items it keeps", advice)
        if expr.function in _ADDING:
            term = self._there(expr.term, term)
        over = function.over
        fits, result = True, term and ListType(term)
        if term is not None and expr.key is None:
            fits, result = called(expr, [term], self.problems, lambda types: over(types[0]))
        if term is not None and result is None and fits:
            message = f"{expr.function!r} does not take {type_text(term)}"
            self.problems(expr.term.at, message, f"write it as {function.signature}")
        return result

    def _key(self, expr: Aggregate, inner: Scope) -> None:
        """Look at what a sort goes by."""
        if expr.function != "sort" and (expr.key is not None or expr.descending):
            word = "desc" if expr.key is None else "by"
            self.problems(expr.at, f"only a sort has {word}, found {expr.function}", f"leave {word} out")
        elif expr.key is not None:
            found = self.of(expr.key, inner)
            if found is not None and not sorts(found):
                message = (
                    f"a sort goes by numbers, strings or dates, {text(expr.key)!r} is {type_text(found)}"
                )
                self.problems(expr.key.at, message, "name a field of the item, such as by x.price")


def _instead_of_field(expr: FieldOf) -> str:
    """Say how what other languages have as a property is written."""
    name = "len" if expr.name in ("length", "size", "count") else expr.name
    return f"write {name}({text(expr.record)})" if name in FUNCTIONS else "only records have fields"


def _present(expr: Name | FieldOf, found: Type | None, scope: Scope) -> Type | None:
    """Give the type of an operand: without null where that is known not to be."""
    if isinstance(found, OptionalType) and scope.present and text(expr) in scope.present:
        return found.item
    return found


def _may_look_up(parameter: Type, given: Type) -> bool:
    column, number = required(parameter), required(given)
    # A column of open decimals takes every number: each has its place between the ends of a row.
    if is_number(column) and is_number(number) and places_of_type(column) is None:
        there = may_be_null(parameter) or not may_be_null(given)
        return there and unit_of(column) == unit_of(number)
    return takes(parameter, given)


def _calculated(expr: Arithmetic, left: Type, right: Type) -> Type:
    """Give the type of a calculation; a division by some constants has an end of decimals."""
    if expr.op == "/" and is_one(expr.right):
        return left
    more = places_of_share(expr)
    if more is None:
        return arithmetic_type(expr.op, left, right)
    places = most_places(left)
    return DecimalType(None if places is None else places + more)


def arithmetic_type(op: str, left: Type, right: Type) -> Type:
    """Give the type of `left op right` for two number types."""
    match op, left, right:
        case "div", _, _:
            return IntType()
        case "/", _, _:
            return DecimalType(None)
        case _, IntType(), IntType():
            return IntType()
        case "+" | "-" | "mod", PercentType(), PercentType():
            return PercentType()
        case "*", IntType() | DecimalType(int()), IntType() | DecimalType(int()):
            return DecimalType((most_places(left) or 0) + (most_places(right) or 0))
        case _:
            return DecimalType(most_places(left, right))

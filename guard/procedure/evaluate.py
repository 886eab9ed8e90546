"""Expressions as functions: what they give, and the same with the operands' values in their places.

An expression is compiled once into closures over two mappings from names to values: `env` has the values
that are carried on, `shown` those that the trace shows. They are one and the same mapping unless the
procedure says `carry exact`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from guard.errors import InvalidState
from guard.procedure.dates import between
from guard.procedure.expected import UNKNOWN, Hole, Working
from guard.procedure.expression import inference
from guard.procedure.functions import arithmetic, shift
from guard.procedure.lattice import is_time, required
from guard.procedure.library import FUNCTIONS
from guard.procedure.lists import ordered
from guard.procedure.lookup import lookup
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
    names,
)
from guard.procedure.numbers import Unspellable
from guard.procedure.passes import Env, Evaluate, Passes, charged
from guard.procedure.scope import Scope
from guard.procedure.showing import (
    Operand,
    OutOfSight,
    Part,
    Show,
    joined,
    merge,
    null_shown,
    out_of_sight,
    render,
    separated,
    show_one,
    string_shown,
)
from guard.procedure.strict import applied, paired, strict, there, unary
from guard.procedure.text import ATOM, CHOICE, NOT, OR, SUM, binding, places_of, text, unit_text
from guard.procedure.types import (
    NULL,
    BoolType,
    EnumType,
    IntType,
    ListType,
    OptionalType,
    RecordType,
    StringType,
    TextType,
    Type,
)
from guard.procedure.values import spell, speller
from guard.source import Span

SHOWN_TERMS: Final = 8  # terms of an aggregate that still stand by value

_ANY_BOOL: Final = Hole(BoolType(), free=True)


_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "in": lambda left, right: left in right,
    "not in": lambda left, right: left not in right,
}


@dataclass(frozen=True, slots=True)
class Compiled:
    """An expression that can be computed and shown.

    `parts` show it as an operand of something larger, `whole` as a step's whole right side: a table
    look-up stands by its result in the one and by its call in the other. `single` is an operand or
    constant by itself.
    """

    expr: Expr
    type: Type
    evaluate: Evaluate
    parts: tuple[Part, ...]
    whole: tuple[Part, ...]
    single: bool = False

    def working(self, env: Env, shown: Env | None = None) -> Working:
        """Give the substituted text, with holes for operands that are not known."""
        return render(self.whole, env, env if shown is None else shown)


def call_shown(name: str, arguments: Sequence[Compiled]) -> tuple[Part, ...]:
    """Give the parts that show a call of something by its name."""
    return (f"{name}(", *separated(argument.parts for argument in arguments), ")")


def compiled(expr: Expr, scope: Scope) -> Compiled:
    """Compile an expression that `infer` has no complaint about."""
    return _Compiler(scope, frozenset(), inference(_no_problems)).of(expr)


def _no_problems(span: Span, message: str, help: str) -> None:  # noqa: A002, ARG001
    raise InvalidState(f"an expression was compiled that does not hold: {message}")


@dataclass(frozen=True, slots=True)
class _Compiler:
    scope: Scope
    bound: frozenset[str]  # variables of the aggregates around
    infer: Callable[[Expr, Scope], Type | None]

    def of(self, expr: Expr) -> Compiled:
        match expr:
            case Literal():
                return self._literal(expr)
            case Name():
                return self._name(expr)
            case FieldOf():
                return self._field(expr)
            case Negate(operand):
                inner = self.of(operand)
                evaluate = unary(lambda value: -value, inner.evaluate)
                return self._made(expr, evaluate, ("-", *_negated(inner)))
            case Arithmetic(op):
                return self._binary(expr, arithmetic(op))
            case Shift():
                return self._shift(expr)
            case Comparison(op):
                return self._binary(expr, _COMPARISONS[op])
            case IsNull(operand, negated):
                inner = self.of(operand)
                evaluate = unary(lambda value: (value is NULL) is not negated, inner.evaluate)
                return self._made(
                    expr, evaluate, (*_placed(inner, SUM), f" is {'not ' if negated else ''}null")
                )
            case Default():
                return self._default(expr)
            case Convert():
                raise InvalidState("an expression was compiled that has units")
            case Not(operand):
                inner = self.of(operand)
                evaluate = unary(lambda value: not value, inner.evaluate)
                return self._made(expr, evaluate, ("not ", *_placed(inner, NOT)))
            case Logic():
                return self._logic(expr)
            case Choose():
                return self._choice(expr)
            case Call():
                return self._call(expr)
            case Aggregate():
                return self._aggregate(expr)
            case ListOf(items):
                return self._list(expr, [self.of(item) for item in items])
            case RecordOf(fields):
                return self._record(expr, [(name, self.of(value)) for name, value in fields])

    def _made(self, expr: Expr, evaluate: Evaluate, parts: tuple[Part, ...]) -> Compiled:
        return Compiled(expr, self._type(expr), evaluate, parts, parts)

    def _type(self, expr: Expr) -> Type:
        found = self.infer(expr, self.scope)
        if found is None:
            raise InvalidState(f"an expression without a type was compiled: {text(expr)}")
        return found

    # --- operands

    def _literal(self, expr: Literal) -> Compiled:
        value = expr.value
        parts = (spell(value, expr.type),)
        return Compiled(expr, self._type(expr), lambda _: value, parts, parts, single=True)

    def _name(self, expr: Name) -> Compiled:
        name = expr.name

        def evaluate(env: Env) -> Any:
            return env[name]

        return self._operand(expr, evaluate)

    def _field(self, expr: FieldOf) -> Compiled:
        record, name = self.of(expr.record), expr.name
        whole = record.evaluate

        def evaluate(env: Env) -> Any:
            found = whole(env)
            return UNKNOWN if found is UNKNOWN else found[name]

        return self._operand(expr, evaluate)

    def _operand(self, expr: Name | FieldOf, evaluate: Evaluate) -> Compiled:
        if text(expr) in self.scope.present:
            evaluate = there(evaluate, text(expr))
        parts = (self._shown(evaluate, self._type(expr), expr),)
        return Compiled(expr, self._type(expr), evaluate, parts, parts, single=True)

    def _shown(self, evaluate: Evaluate, type: Type, expr: Expr) -> Part:  # noqa: A002
        """Show an operand by value where its type allows it, else by name."""
        if isinstance(type, IntType) and isinstance(expr, Name):
            return Operand(expr.name)
        by_name = self._written(expr)
        spelled = speller(type)
        if isinstance(type, OptionalType):
            return null_shown(evaluate, type, self._shown(evaluate, type.item, expr))
        if isinstance(type, StringType | EnumType):
            return string_shown(evaluate, type, by_name)
        if isinstance(type, TextType | ListType | RecordType):
            return by_name

        def show(env: Env, shown: Env) -> str | Hole:  # noqa: ARG001
            value = evaluate(shown)
            return Hole(type) if value is UNKNOWN else spelled(value)

        return show

    def _written(self, expr: Expr, least: int = CHOICE) -> Part:
        """Show an expression as it is written: by name."""
        written = text(expr, least)
        if any(name.name in self.bound for name in names(expr)):
            return out_of_sight
        return written

    # --- operators

    def _binary(self, expr: Arithmetic | Comparison, op: Callable[[Any, Any], Any]) -> Compiled:
        left, right = self.of(expr.left), self.of(expr.right)
        before, behind = places_of(expr)
        parts = (*_placed(left, before), f" {expr.op} ", *_placed(right, behind))
        if isinstance(expr, Arithmetic) and is_time(left.type):
            op = between
        return self._made(expr, strict(op, _counted(left), _counted(right)), parts)

    def _shift(self, expr: Shift) -> Compiled:
        moment, amount = self.of(expr.date), self.of(expr.amount)
        before, behind = places_of(expr)
        parts = (
            *_placed(moment, before),
            f" {expr.op} ",
            *_placed(amount, behind),
            f" {unit_text(expr)}",
        )
        op = shift(expr.op, expr.unit, expr.mode)
        return self._made(expr, strict(op, moment.evaluate, amount.evaluate), parts)

    def _logic(self, expr: Logic) -> Compiled:
        told = self.scope.where(expr.left, holds=expr.op == "and")
        left, right = self.of(expr.left), replace(self, scope=told).of(expr.right)
        before, behind = places_of(expr)
        decided = expr.op == "or"  # the value of the left side that leaves the right one unread
        first, second = left.evaluate, right.evaluate
        evaluated, unread = _placed(right, behind), self._written(expr.right, behind)

        def evaluate(env: Env) -> Any:
            value = first(env)
            return value if value is UNKNOWN or value is decided else second(env)

        def show(env: Env, shown: Env) -> str | Hole | Working:
            value = first(env)
            if value is UNKNOWN:
                return _ANY_BOOL
            return show_one(unread, env, shown) if value is decided else joined(render(evaluated, env, shown))

        return self._made(expr, evaluate, (*_placed(left, before), f" {expr.op} ", show))

    def _choice(self, expr: Choose) -> Compiled:
        condition = self.of(expr.condition)
        then, otherwise = (
            replace(self, scope=self.scope.where(expr.condition, holds=holds)).of(arm)
            for arm, holds in ((expr.then, True), (expr.otherwise, False))
        )
        whether, this, that = condition.evaluate, then.evaluate, otherwise.evaluate
        kind = self._type(expr)

        def evaluate(env: Env) -> Any:
            value = whether(env)
            return UNKNOWN if value is UNKNOWN else (this(env) if value else that(env))

        def arm(wanted: bool, inner: Compiled, least: int) -> Show:
            taken, unread = _placed(inner, least), self._written(inner.expr, least)

            def show(env: Env, shown: Env) -> str | Hole | Working:
                value = whether(env)
                if value is UNKNOWN:
                    return Hole(kind, free=True)
                return joined(render(taken, env, shown)) if value is wanted else show_one(unread, env, shown)

            return show

        arms = (" then ", arm(True, then, OR), " else ", arm(False, otherwise, CHOICE))
        return self._made(expr, evaluate, ("if ", *_placed(condition, OR), *arms))

    def _default(self, expr: Default) -> Compiled:
        kind = self._type(expr)
        value = self.of(expr.value)
        if expr.fallback == ListOf(()):
            fallback = Compiled(expr.fallback, kind, lambda _: (), ("[]",), ("[]",))
        else:
            fallback = self.of(expr.fallback)
        first, second = value.evaluate, fallback.evaluate
        evaluated, unread = fallback.parts, self._written(expr.fallback)

        def evaluate(env: Env) -> Any:
            found = first(env)
            return second(env) if found is NULL else found

        def show(env: Env, shown: Env) -> str | Hole | Working:
            found = first(env)
            if found is UNKNOWN:
                return Hole(kind, free=True)
            return joined(render(evaluated, env, shown)) if found is NULL else show_one(unread, env, shown)

        return self._made(expr, evaluate, (*_placed(value, OR), " else ", show))

    # --- calls

    def _call(self, expr: Call) -> Compiled:
        arguments = [self.of(argument) for argument in expr.arguments]
        call = call_shown(expr.function, arguments)
        table = self.scope.tables.get(expr.function)
        if table is not None:
            evaluate = applied(lookup(table), [one.evaluate for one in arguments])
            result = self._shown_result(evaluate, table.result, expr)
            return Compiled(expr, table.result, evaluate, (result,), call)
        function, rounding = FUNCTIONS[expr.function], self.scope.numbers.rounding
        one_list = function.over is not None and len(arguments) == 1

        compute = function.apply if function.typed is None else function.typed(arguments[0].type)

        def apply(values: Sequence[Any]) -> Any:
            return compute(values[0] if one_list else values, rounding)

        given = [one.evaluate if function.quick else _counted(one) for one in arguments]
        made = self._made(expr, applied(apply, given), call)
        return self._looked_up(made) if function.item else made

    def _looked_up(self, call: Compiled) -> Compiled:
        """Show an item of a list by its value where it is an operand."""
        item = self._shown(call.evaluate, call.type, call.expr)

        def show(env: Env, shown: Env) -> str | Hole | Working:
            try:
                return show_one(item, env, shown)
            except Unspellable:  # of a list that is made in this very expression
                return joined(render(call.parts, env, shown))

        return replace(call, parts=(show,))

    def _shown_result(self, evaluate: Evaluate, type: Type, expr: Expr) -> Part:  # noqa: A002
        # What a table gives is computed from what is carried, not from what is shown.
        inner = self._shown(evaluate, type, expr)
        return inner if isinstance(inner, str) else lambda env, _: inner(env, env)

    def _aggregate(self, expr: Aggregate) -> Compiled:
        items = self.of(expr.items)
        assert isinstance(items.type, ListType)
        around = self.bound | {expr.variable}
        inner = _Compiler(self.scope.bind(expr.variable, items.type.item), around, self.infer)
        told = inner.scope if expr.condition is None else inner.scope.where(expr.condition, holds=True)
        term = replace(inner, scope=told).of(expr.term)
        condition = None if expr.condition is None else inner.of(expr.condition).evaluate
        passes = Passes(expr.variable, items.evaluate, condition)
        collect = self._collected(expr)
        kind, written = self._type(expr), self._written(expr)
        compute = term.evaluate if expr.key is None else paired(term.evaluate, inner.of(expr.key).evaluate)
        opening, closing = ("[", "]") if expr.function == "list" else (f"{expr.function}(", ")")

        def evaluate(env: Env) -> Any:
            values = passes.over(env, env, lambda: compute(env))
            if values is None or any(value is UNKNOWN for value in values):
                return UNKNOWN
            return collect(values)

        if expr.key is not None or expr.descending:  # its terms alone do not say what they are sorted by
            return self._made(expr, evaluate, (lambda env, shown: show_one(written, env, shown),))

        def show(env: Env, shown: Env) -> str | Hole | Working:
            try:
                terms = passes.over(env, shown, lambda: render(term.parts, env, shown), most=SHOWN_TERMS)
            except OutOfSight:
                return show_one(written, env, shown)
            if terms is None:
                return Hole(kind, free=True)
            if len(terms) > SHOWN_TERMS:
                return show_one(written, env, shown)
            return joined(merge([opening, *separated(terms), closing]))

        return self._made(expr, evaluate, (show,))

    def _collected(self, expr: Aggregate) -> Callable[[list[Any]], Any]:
        """Give what is made of the terms; where there is a key, they come in pairs with theirs."""
        if expr.function == "list":
            return tuple
        if expr.key is not None:
            return lambda pairs: ordered(
                [term for term, _ in pairs], [key for _, key in pairs], descending=expr.descending
            )
        if expr.descending:
            return lambda terms: ordered(terms, terms, descending=True)
        function, rounding = FUNCTIONS[expr.function], self.scope.numbers.rounding
        return lambda terms: function.apply(terms, rounding)

    # --- lists and records

    def _list(self, expr: ListOf, items: list[Compiled]) -> Compiled:
        evaluate = applied(tuple, [one.evaluate for one in items])
        return self._made(expr, evaluate, ("[", *separated(item.parts for item in items), "]"))

    def _record(self, expr: RecordOf, fields: list[tuple[str, Compiled]]) -> Compiled:
        keys = [name for name, _ in fields]
        evaluate = applied(
            lambda values: dict(zip(keys, values, strict=True)), [value.evaluate for _, value in fields]
        )
        parts = separated((f'"{name}": ', *value.parts) for name, value in fields)
        return self._made(expr, evaluate, ("{", *parts, "}"))


def _counted(operand: Compiled) -> Evaluate:
    """Evaluate an operand; where it is a list, what is done with it takes as long as that is."""
    return charged(operand.evaluate) if isinstance(required(operand.type), ListType) else operand.evaluate


def _placed(inner: Compiled, least: int) -> tuple[Part, ...]:
    """Show an operand, in parentheses where it binds less tightly than its place asks for."""
    return inner.parts if binding(inner.expr) >= least else ("(", *inner.parts, ")")


def _negated(inner: Compiled) -> tuple[Part, ...]:
    """Show the operand of a minus sign: in parentheses also where its value has a sign of its own."""
    if not inner.single:
        return _placed(inner, ATOM)

    def show(env: Env, shown: Env) -> str | Hole | Working:
        value = joined(render(inner.parts, env, shown))
        return f"({value})" if isinstance(value, str) and value.startswith("-") else value

    return (show,)

"""Whether a procedure makes sense: its types, the order of its steps, its tables and its example."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from guard.procedure.advice import null_advice, null_problem
from guard.procedure.bindings import given_type, known_in, target_span, types_of
from guard.procedure.callees import check_call, check_nesting
from guard.procedure.clock import check_clock
from guard.procedure.doubt import CERTAIN, MYSTERY, Doubt, is_certain, is_known
from guard.procedure.examples import check_default, check_example
from guard.procedure.expression import conversions, infer
from guard.procedure.faults import CUT, Faults, quoted, suggestion
from guard.procedure.flow import check_flow
from guard.procedure.lattice import is_number, kind_text, may_be_null, required, takes, type_text
from guard.procedure.library import PASSING
from guard.procedure.listing import expressions, walk
from guard.procedure.measured import unit_advice
from guard.procedure.model import (
    AnyOrder,
    Assign,
    Check,
    Confirm,
    Deny,
    Do,
    Escalate,
    Extract,
    For,
    If,
    Invoke,
    Judge,
    Module,
    OneOf,
    Procedure,
    Require,
    Return,
    Say,
    Step,
    While,
)
from guard.procedure.nodes import (
    Aggregate,
    Arithmetic,
    Call,
    Choose,
    Expr,
    ListOf,
    Literal,
    Name,
    Negate,
    RecordOf,
    parts,
)
from guard.procedure.plainly import unitless
from guard.procedure.presence import Paths
from guard.procedure.rules import check_rules
from guard.procedure.scope import Scope
from guard.procedure.tables import check_table
from guard.procedure.text import binding, text
from guard.procedure.toolchecks import check_tool_step, check_tools
from guard.procedure.types import (
    BoolType,
    DecimalType,
    EnumType,
    IntType,
    ListType,
    OptionalType,
    PercentType,
    RecordType,
    StringType,
    TextType,
    Type,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from guard.errors import Problem
    from guard.source import Source, Span


def validate(
    source: Source, module: Module, doubt: Doubt = CERTAIN
) -> tuple[list[Problem], dict[str, dict[str, Type]]]:
    """Give what is wrong with a module, and for each procedure the type of each name.

    Problems include warnings. A name that has no type is left out; there is a problem then.
    """
    tables = {name: table for name, table in module.tables.items() if is_certain(table)}
    faults = Faults(source, doubt.names | (module.tables.keys() - tables.keys()))
    types: dict[str, dict[str, Type]] = {}
    for name in module.own_tables.keys() & tables.keys():
        check_table(tables[name], faults)
    for procedure in module.own_procedures.values():
        clashes, faulty = Faults(source), doubt.touches(procedure)
        doubtful = doubt.names if faulty else frozenset[str]()
        outer = Scope({}, tables, module.numbers, module.procedures, module.tools)
        scope = types_of(procedure, outer, doubtful, clashes)
        if not faulty:
            check_flow(procedure, scope, faults)
        faults.join(clashes)
        _Procedure(procedure, scope, faults).check()
        types[procedure.name] = {name: found for name, found in scope.variables.items() if found is not None}
    check_clock(module, faults)
    check_nesting(module, faults)
    check_tools(module, faults)
    certain = [found for found in module.own_procedures.values() if not doubt.touches(found)]
    check_rules(module, certain, faults)
    for example in module.examples.values():
        if example.procedure not in doubt.names:
            check_example(example, module, doubt, faults)
    return faults.problems, types


@dataclass(frozen=True, slots=True)
class _Procedure:
    procedure: Procedure
    scope: Scope
    faults: Faults

    def check(self) -> None:
        labels: dict[str, Step] = {}
        known = known_in(self.procedure, self.scope)
        for parameter in self.procedure.parameters:
            check_default(parameter, self.faults)
        for step in walk(self.procedure.body):
            self._in(step, known)
            for label, labelled in _labels(step):
                first = labels.setdefault(label, labelled)
                if first is not labelled:
                    line, _ = self.faults.source.position(first.at.start)
                    self.faults(
                        labelled.at, f"line {line} has the step name {label!r} already", "rename one of them"
                    )
            for expression in expressions(step):
                self._percents(expression)
                self._counted_conditions(expression)

    def _in(self, step: Step, known: Mapping[str, Paths]) -> None:
        """Check a step in the scope of what is known not to be null in front of it."""
        if isinstance(step, If):
            for branch in step.branches:
                if branch.condition is not None:
                    self._where(known.get(branch.number))._condition(  # noqa: SLF001 (its own kind)
                        branch.condition, f"behind {branch.keyword}"
                    )
        else:
            self._where(known.get(step.number))._step(step)  # noqa: SLF001 (its own kind)

    def _where(self, paths: Paths | None) -> _Procedure:
        return replace(self, scope=self.scope.knowing(paths)) if paths else self

    def _step(self, step: Step) -> None:
        match step:
            case Assign():
                self._assign(step)
            case Do(arguments=arguments):
                given = [infer(argument, self.scope, self.faults) for argument in arguments]
                check_call(step, self.scope.procedures, given, self.faults)
                if not self.scope.numbers.carry_exact:
                    self._undivided(arguments)
            case Invoke() | Confirm() | Say():
                check_tool_step(step, self.scope, self.faults)
            case Extract() | Judge():
                self._decision(step)
            case If():
                pass  # its arms have been checked one by one
            case For(items=items):
                self._items(items)
            case While(condition=condition):
                self._condition(condition, "behind while")
            case Require(condition=condition):
                self._condition(condition, "behind require")
            case Check(condition=condition):
                self._condition(condition, "behind check")
            case AnyOrder() | OneOf():
                pass  # what is in them are steps of their own
            case Return(expression=expression):
                self._result(expression, self.procedure.result)
            case Deny(text=reason):
                if not reason.strip():
                    self.faults(
                        step.at, "the reason of this deny is empty", 'say why, such as deny "Too late."'
                    )
            case Escalate(text=reason):
                if not reason.strip():
                    self.faults(
                        step.at,
                        "the reason of this escalate is empty",
                        'say why, such as escalate "The amount needs a second pair of eyes."',
                    )

    # --- values -----------------------------------------------------------------------------------

    def _assign(self, step: Assign) -> None:
        found = infer(step.expression, self.scope, self.faults)
        if found is None:
            return
        if step.places is not None and may_be_null(found):
            self.faults(step.expression.at, *null_problem(step.expression, found))
        elif step.places is not None and not is_number(found):
            self.faults(
                step.expression.at,
                f"only numbers can be rounded, {_cut(step.expression)} is {kind_text(found)}",
                "leave to and what follows out",
            )
        elif isinstance(found, TextType):
            self.faults(
                step.expression.at,
                f"{_cut(step.expression)} is a text, which stays where it is",
                f"read from it: extract {step.target}: string from {text(step.expression)}",
            )
        elif given_type(step, found) is found and not self.scope.numbers.carry_exact:
            self._unrounded(step)

    def _undivided(self, arguments: Sequence[Expr]) -> None:
        for quotient in (part for argument in arguments for part in _quotients(argument)):
            advice = f"round it in a step before: share = {text(quotient)} to 2"
            self.faults(
                quotient.at, "the result of / is not rounded, it may have decimals without end", advice
            )

    def _unrounded(self, step: Assign) -> None:
        plain = unitless(step.expression, conversions(step.expression, self.scope))
        quotient = next(_quotients(plain), None)
        if quotient is None:
            return
        if isinstance(step.expression, ListOf | RecordOf):
            advice = f"round it in a step before: share = {text(quotient)} to 2"
        else:
            advice = f"write {step.target} = {text(step.expression)} to 2"
        self.faults(quotient.at, "the result of / is not rounded, it may have decimals without end", advice)

    def _decision(self, step: Extract | Judge) -> None:
        if step.where is not None:
            kind = step.type if is_known(step.type) else self.scope.variables.get(step.target)
            inner = replace(self, scope=self.scope.bind(step.target, kind))
            inner._condition(step.where, "behind where")  # noqa: SLF001 (its own kind)
        for name in step.sources:
            found = self.scope.variables.get(name)
            if step.quote and found is not None and not isinstance(found, TextType | StringType):
                self.faults(
                    target_span(self.faults.source.text, step.at, name),
                    f"a quote is taken from a text, {name!r} is {type_text(found)}",
                    "leave quote out, or read from an input of type text",
                )

    def _condition(self, condition: Expr, where: str) -> None:
        found = infer(condition, self.scope, self.faults)
        if found is None or isinstance(found, BoolType):
            return
        if may_be_null(found):
            self.faults(condition.at, *null_problem(condition, found))
            return
        advice = (
            f"compare it with something, as in `{text(condition)} > 0`"
            if is_number(found)
            else "write a comparison"
        )
        self.faults(
            condition.at, f"a condition stands {where}, {_cut(condition)} is {kind_text(found)}", advice
        )

    def _items(self, items: Expr) -> None:
        found = infer(items, self.scope, self.faults)
        if found is not None and may_be_null(found):
            self.faults(items.at, *null_problem(items, found))
        elif found is not None and not isinstance(found, ListType):
            self.faults(
                items.at,
                f"a loop goes through a list, {_cut(items)} is {type_text(found)}",
                "loop over a list",
            )

    def _result(self, expression: Expr, wanted: Type) -> None:
        match expression, wanted:
            case _, _ if wanted == MYSTERY:
                infer(expression, self.scope, self.faults)
            case RecordOf() | ListOf((_, *_)), OptionalType(item):
                self._result(expression, item)
            case RecordOf(), RecordType():
                self._fields(expression, wanted)
            case Choose(condition, then, otherwise), _:
                self._condition(condition, "behind if")
                for arm, holds in ((then, True), (otherwise, False)):
                    replace(self, scope=self.scope.where(condition, holds=holds))._result(arm, wanted)  # noqa: SLF001 (its own kind)
            case ListOf(items), ListType(item):
                for part in items:
                    self._result(part, item)
            case _:
                found = infer(expression, self.scope, self.faults)
                if found is not None and not takes(wanted, found):
                    self._misfit(expression, wanted, found)

    def _fields(self, record: RecordOf, wanted: RecordType) -> None:
        types = {field.name: field.type for field in wanted.fields}
        for name, value in record.fields:
            if name in types:
                self._result(value, types[name])
            else:
                at = target_span(self.faults.source.text, record.at, name)
                self.faults(at, f"the result has no field {name!r}", suggestion(name, types))
        missing = [name for name in types if name not in dict(record.fields)]
        if missing:
            listed = ", ".join(map(repr, missing))
            self.faults(record.at, f"the result lacks {listed}", f"add {missing[0]}: ... to it")

    def _misfit(self, expression: Expr, wanted: Type, found: Type) -> None:
        at, what = expression.at, _cut(expression)
        if advice := null_advice(expression, found, wanted):
            change = f"or write {type_text(wanted)}? behind ->" if wanted == self.procedure.result else ""
            message = f"the result is {type_text(wanted)}, {what} may be null here"
            self.faults(at, message, f"{advice}, {change}" if change else advice)
            return
        wanted, found = required(wanted), required(found)
        if advice := unit_advice(expression, found, wanted):
            message = f"the result is {type_text(wanted)}, {what} is {type_text(found)}"
            self.faults(at, message, advice)
            return
        match wanted, found:
            case DecimalType(int(places)), DecimalType() | PercentType():
                message = f"the result is {type_text(wanted)}, {what} may have more decimals"
                self.faults(at, message, self._rounded(expression, places))
            case IntType(), DecimalType() | PercentType():
                message = f"the result is int, {what} is {type_text(found)}"
                self.faults(at, message, self._rounded(expression, 0))
            case EnumType(options), EnumType((word,)):
                self.faults(at, f"the result is {type_text(wanted)}, found {what}", suggestion(word, options))
            case _:
                self.faults(
                    at,
                    f"the result is {type_text(wanted)}, {what} is {kind_text(found)}",
                    f"return {type_text(wanted)}, or change the type behind ->",
                )

    def _rounded(self, expression: Expr, places: int) -> str:
        """Say how to round a result: where its value is made, or in a step of its own."""
        for step in walk(self.procedure.body):
            if isinstance(step, Assign) and Name(step.target) == expression and step.places is None:
                line, _ = self.faults.source.position(step.at.start)
                return f"round it where it is made, in line {line}: {step.target} = ... to {places}"
        return f"round it in a step before: total = {_cut(expression, bare=True)} to {places}"

    # --- percents ---------------------------------------------------------------------------------

    def _percents(self, expression: Expr) -> None:
        """Warn of `100 + 5%`, which is 100.05."""
        for part in _within(expression):
            match part:
                case Arithmetic(op="+" | "-" as op, left=left, right=right):
                    self._added_percent(part, op, left, right)
                case _:
                    pass

    def _added_percent(self, whole: Arithmetic, op: str, left: Expr, right: Expr) -> None:
        if isinstance(left, Literal) and left.value == 1:
            return
        quiet = _Quiet()
        kinds = [infer(side, self.scope, quiet) for side in (left, right)]
        if (
            not isinstance(kinds[1], PercentType)
            or isinstance(kinds[0], PercentType)
            or not is_number(kinds[0])
        ):
            return
        verb = "adds" if op == "+" else "takes away"
        base = text(left) if binding(left) > binding(whole) else f"({text(left)})"
        self.faults.warning(
            whole.at,
            f"this {verb} the number that {_cut(right)} stands for, such as 0.05 for 5%",
            f"write {base} * (1 {op} {text(right)}) for a share of it",
        )

    # --- counting ---------------------------------------------------------------------------------

    def _counted_conditions(self, expression: Expr) -> None:
        """Warn of `count(x > 3 for x in xs)`, which is how many there are."""
        for part in _within(expression):
            match part:
                case Aggregate("count", term, variable, items, None):
                    kind = infer(items, self.scope, _Quiet())
                    inner = self.scope.bind(variable, kind.item if isinstance(kind, ListType) else None)
                    if isinstance(infer(term, inner, _Quiet()), BoolType):
                        passes = f"{variable} for {variable} in {text(items)}"
                        self.faults.warning(
                            part.at,
                            f"this counts every item, whether {_cut(term)} holds or not",
                            f"write count({passes} if {_cut(term, bare=True)})",
                        )
                case _:
                    pass


class _Quiet:
    """Takes complaints that are made elsewhere already."""

    def __call__(self, span: Span, message: str, help: str) -> None:  # noqa: A002
        pass


def _labels(step: Step) -> Iterator[tuple[str, Step]]:
    match step:
        case If(branches=branches):
            for branch in branches:
                if branch.label is not None:
                    yield branch.label, branch  # type: ignore[misc]
        case _:
            if step.label is not None:
                yield step.label, step
            if isinstance(step, OneOf) and step.otherwise is not None and step.otherwise.label is not None:
                yield step.otherwise.label, step.otherwise  # type: ignore[misc]


def _within(expression: Expr) -> Iterator[Expr]:
    yield expression
    for part in parts(expression):
        yield from _within(part)


def _quotients(expression: Expr) -> Iterator[Expr]:
    """Find the divisions whose result an expression hands on unrounded."""
    inner: Sequence[Expr] = ()
    match expression:
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


def _cut(expression: Expr, *, bare: bool = False) -> str:
    spelt = text(expression)
    if bare or isinstance(expression, Literal):
        return "..." if len(spelt) > CUT else spelt
    return quoted(spelt)

"""Whether a procedure makes sense: its types, the order of its steps, its tables and its example."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from guard.procedure.advice import null_advice, null_problem
from guard.procedure.bindings import given_type, known_in, target_span, types_of
from guard.procedure.callees import check_call, check_nesting
from guard.procedure.clock import check_clock
from guard.procedure.decimals import Examples
from guard.procedure.doubt import CERTAIN, MYSTERY, Doubt, is_certain, is_known
from guard.procedure.examples import check_default, check_example
from guard.procedure.expression import infer, inference
from guard.procedure.faults import Faults, suggestion
from guard.procedure.flow import check_flow
from guard.procedure.lattice import is_number, kind_text, may_be_null, required, takes, too_precise, type_text
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
    Choose,
    Expr,
    ListOf,
    Literal,
    RecordOf,
    within,
)
from guard.procedure.presence import Paths
from guard.procedure.rules import check_rules
from guard.procedure.scope import Scope
from guard.procedure.tables import check_table
from guard.procedure.text import binding, cut, text
from guard.procedure.toolchecks import check_tool_step, check_tools
from guard.procedure.types import (
    BoolType,
    EnumType,
    ListType,
    OptionalType,
    PercentType,
    RecordType,
    StringType,
    TextType,
    Type,
)
from guard.procedure.unrounded import Need, Result, Uses, settle, unrounded, unrounded_argument

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from guard.errors import Problem
    from guard.procedure.cells import Key
    from guard.source import Source, Span


def validate(
    source: Source, module: Module, doubt: Doubt = CERTAIN, *, sound: bool = True
) -> tuple[list[Problem], dict[str, dict[str, Type]]]:
    """Give what is wrong with a module, and for each procedure the type of each name.

    Problems include warnings. A name that has no type is left out; there is a problem then. `sound` says that
    nothing was found wrong with the text before.
    """
    tables = {name: table for name, table in module.tables.items() if is_certain(table)}
    faults = Faults(source, doubt.names | (module.tables.keys() - tables.keys()))
    types: dict[str, dict[str, Type]] = {}
    needs: dict[str, list[Need]] = {}
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
        checked = _Procedure(procedure, scope, faults, Uses(procedure))
        checked.check()
        needs[procedure.name] = checked.needs
        types[procedure.name] = {name: found for name, found in scope.variables.items() if found is not None}
    check_clock(module, faults)
    check_nesting(module, faults)
    check_tools(module, faults)
    certain = [found for found in module.own_procedures.values() if not doubt.touches(found)]
    check_rules(module, certain, faults)
    for example in module.examples.values():
        if example.procedure not in doubt.names:
            check_example(example, module, doubt, faults)
    sound = sound and not any(problem.severity == "error" for problem in faults.problems)
    examples = Examples(module, types, sound)
    for name, found in needs.items():
        values = examples.values(module.procedures[name]) if found else {}
        settle(found, values, module.numbers.rounding, faults)
    return faults.problems, types


@dataclass(frozen=True, slots=True)
class _Procedure:
    procedure: Procedure
    scope: Scope
    faults: Faults
    uses: Uses
    needs: list[Need] = field(default_factory=list)

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
                fits = check_call(step, self.scope.procedures, given, self.faults)
                if fits and not self.scope.numbers.carry_exact:
                    for argument in arguments:
                        self.needs.extend(unrounded_argument(argument, step.number, self.scope))
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
            case Return():
                self._return(step)
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
        if step.places is not None and not is_number(found):
            self._unroundable(step.expression, found)
        elif isinstance(found, TextType):
            self.faults(
                step.expression.at,
                f"{cut(step.expression)} is a text, which stays where it is",
                f"read from it: extract {step.target}: string from {text(step.expression)}",
            )
        elif step.places is None and not self.scope.numbers.carry_exact:
            self.needs.extend(unrounded(step, self.scope, self.uses))

    def _unroundable(self, expression: Expr, found: Type) -> None:
        if may_be_null(found):
            self.faults(expression.at, *null_problem(expression, found))
            return
        message = f"only numbers can be rounded, {cut(expression)} is {kind_text(found)}"
        self.faults(expression.at, message, "leave to and what follows out")

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
            condition.at, f"a condition stands {where}, {cut(condition)} is {kind_text(found)}", advice
        )

    def _items(self, items: Expr) -> None:
        found = infer(items, self.scope, self.faults)
        if found is not None and may_be_null(found):
            self.faults(items.at, *null_problem(items, found))
        elif found is not None and not isinstance(found, ListType):
            self.faults(
                items.at,
                f"a loop goes through a list, {cut(items)} is {type_text(found)}",
                "loop over a list",
            )

    def _return(self, step: Return) -> None:
        wanted = self.procedure.result
        if step.places is None or wanted == MYSTERY:
            self._result(step, step.expression, wanted, ())
            return
        found = infer(step.expression, self.scope, self.faults)
        given = given_type(step, found)
        if found is not None and not is_number(found):
            self._unroundable(step.expression, found)
        elif given is not None and not takes(wanted, given):
            self._misfit(step, step.expression, wanted, given, ())

    def _result(self, step: Return, expression: Expr, wanted: Type, key: Key) -> None:
        """Check a part of a result, which `key` leads to."""
        match expression, wanted:
            case _, _ if wanted == MYSTERY:
                infer(expression, self.scope, self.faults)
            case RecordOf() | ListOf((_, *_)), OptionalType(item):
                self._result(step, expression, item, key)
            case RecordOf(), RecordType():
                self._fields(step, expression, wanted, key)
            case Choose(condition, then, otherwise), _:
                self._condition(condition, "behind if")
                for arm, holds in ((then, True), (otherwise, False)):
                    inner = replace(self, scope=self.scope.where(condition, holds=holds))
                    inner._result(step, arm, wanted, key)  # noqa: SLF001 (its own kind)
            case ListOf(items), ListType(item):
                for index, part in enumerate(items):
                    self._result(step, part, item, (*key, index))
            case _:
                found = infer(expression, self.scope, self.faults)
                if found is not None and not takes(wanted, found):
                    self._misfit(step, expression, wanted, found, key)
                elif found is not None and not self.scope.numbers.carry_exact:
                    self.needs.extend(self._as_result(step).endless(expression, key))

    def _as_result(self, step: Return) -> Result:
        return Result(step, self.uses, self.scope, lambda at: self.faults.source.position(at.start)[0])

    def _fields(self, step: Return, record: RecordOf, wanted: RecordType, key: Key) -> None:
        types = {field.name: field.type for field in wanted.fields}
        for name, value in record.fields:
            if name in types:
                self._result(step, value, types[name], (*key, name))
            else:
                at = target_span(self.faults.source.text, record.at, name)
                self.faults(at, f"the result has no field {name!r}", suggestion(name, types))
        missing = [name for name in types if name not in dict(record.fields)]
        if missing:
            listed = ", ".join(map(repr, missing))
            self.faults(record.at, f"the result lacks {listed}", f"add {missing[0]}: ... to it")

    def _misfit(self, step: Return, expression: Expr, wanted: Type, found: Type, key: Key) -> None:
        at, what = expression.at, cut(expression)
        if advice := null_advice(expression, found, wanted):
            change = f"or write {type_text(wanted)}? behind ->" if wanted == self.procedure.result else ""
            message = f"the result is {type_text(wanted)}, {what} may be null here"
            self.faults(at, message, f"{advice}, {change}" if change else advice)
            return
        match expression, wanted, found:
            case _ if too_precise(wanted, found):
                self.needs.append(self._as_result(step).narrowed(expression, wanted, found, key))
                return
            case Aggregate(function="list"), ListType(item), ListType(other) if too_precise(item, other):
                self.needs.append(self._as_result(step).narrowed_items(expression, wanted, key))
                return
            case _:
                pass
        wanted, found = required(wanted), required(found)
        if advice := unit_advice(expression, found, wanted):
            message = f"the result is {type_text(wanted)}, {what} is {type_text(found)}"
            self.faults(at, message, advice)
            return
        match wanted, found:
            case EnumType(options), EnumType((word,)):
                self.faults(at, f"the result is {type_text(wanted)}, found {what}", suggestion(word, options))
            case _:
                self.faults(
                    at,
                    f"the result is {type_text(wanted)}, {what} is {kind_text(found)}",
                    f"return {type_text(wanted)}, or change the type behind ->",
                )

    # --- percents ---------------------------------------------------------------------------------

    def _percents(self, expression: Expr) -> None:
        """Warn of `100 + 5%`, which is 100.05."""
        types = inference(_Quiet())
        for part in within(expression):
            match part:
                case Arithmetic(op="+" | "-" as op, left=left, right=right):
                    kinds = [types(side, self.scope) for side in (left, right)]
                    self._added_percent(part, op, kinds)
                case _:
                    pass

    def _added_percent(self, whole: Arithmetic, op: str, kinds: list[Type | None]) -> None:
        left, right = whole.left, whole.right
        if isinstance(left, Literal) and left.value == 1:
            return
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
            f"this {verb} the number that {cut(right)} stands for, such as 0.05 for 5%",
            f"write {base} * (1 {op} {text(right)}) for a share of it",
        )

    # --- counting ---------------------------------------------------------------------------------

    def _counted_conditions(self, expression: Expr) -> None:
        """Warn of `count(x > 3 for x in xs)`, which is how many there are."""
        for part in within(expression):
            match part:
                case Aggregate("count", term, variable, items, None):
                    kind = infer(items, self.scope, _Quiet())
                    inner = self.scope.bind(variable, kind.item if isinstance(kind, ListType) else None)
                    if isinstance(infer(term, inner, _Quiet()), BoolType):
                        passes = f"{variable} for {variable} in {text(items)}"
                        self.faults.warning(
                            part.at,
                            f"this counts every item, whether {cut(term)} holds or not",
                            f"write count({passes} if {cut(term, bare=True)})",
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

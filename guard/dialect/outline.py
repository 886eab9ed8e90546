"""What may still come where the order of the steps hangs on what nobody has decided yet.

The statements behind such a line become rules: one for each, that ends in the rule of what follows. Both
arms of a branch lead to what stands behind it, and a loop's body leads back to the loop, so the rules are
as many as the statements, however the procedure goes on. Passes of loops have open numbers. Nothing here
hangs on a request: what was made is kept for the next one, as long as its program.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final
from weakref import WeakKeyDictionary

from guard.dialect.arrange import Open, Place, any_of
from guard.dialect.holes import LIST_ITEMS, NULL, PASS, QUOTES, hole
from guard.dialect.quotes import quotes, unquoted
from guard.dialect.tree import EMPTY, Kept, Literal, Node, Rule, choice, optional, sequence
from guard.dialect.workings import listing, working
from guard.errors import InvalidState
from guard.procedure.compile import Numbered, head
from guard.procedure.execute import Program
from guard.procedure.expected import Form
from guard.procedure.groups import around
from guard.procedure.lattice import may_be_null, required
from guard.procedure.model import (
    AnyOrder,
    Assign,
    Branch,
    Check,
    Confirm,
    Deny,
    Do,
    End,
    Escalate,
    Extract,
    For,
    If,
    Invoke,
    Judge,
    Next,
    OneOf,
    Quoting,
    Require,
    Return,
    Say,
    Step,
    While,
)
from guard.procedure.nodes import Expr, FieldOf, Name
from guard.procedure.nodes import Literal as ConstantExpr
from guard.procedure.types import (
    DecimalType,
    EnumType,
    IntType,
    ListType,
    RecordType,
    StringType,
    TextType,
    Type,
)

_PASS = re.compile(r"\[([0-9]+)\]")
_TRUE, _FALSE = Literal("true\n"), Literal("false\n")

MOST_KEPT: Final = 4  # of a program: most requests begin alike, and few go on from one place

Block = tuple[Step, ...]
_Key = tuple[str, frozenset[Place], object]


_OUTLINES: Final[WeakKeyDictionary[Program, dict[_Key, Kept]]] = WeakKeyDictionary()


def outline(program: Program, path: str, done: Collection[Place] = (), free: Open | None = None) -> Kept:
    """Give what may follow the line at a path, up to the answer, as rule `rest` and those that it needs.

    It ends in the rule `end`, which is not among them. The line has been written, that of a condition up to
    its value. `done` are the members of groups around it that are there or have begun; what follows is `free`
    where nothing of such a group has been written, the line at the path neither.
    """
    kept = _OUTLINES.setdefault(program, {})
    key = (path, frozenset(done), None if free is None else free.key)
    found = kept.pop(key, None)
    if found is None:
        rules: dict[str, Node] = {}
        rest = _outlined(program, path, rules, done, free)
        found = Kept({**rules, "rest": rest})
    kept[key] = found  # the one that was asked for last stands last
    if len(kept) > MOST_KEPT:
        del kept[next(iter(kept))]
    return found


def _outlined(
    program: Program, path: str, rules: dict[str, Node], done: Collection[Place], free: Open | None
) -> Node:
    groups = list(around(path, program.members))
    passes = [int(number) for number in _PASS.findall(path)]
    return _Outline(program, rules, passes, groups, done, free).behind(
        program.procedure.body, _PASS.sub("", path), Literal(""), "", Rule("end")
    )


@dataclass(slots=True)
class _Outline:
    """Makes the rules. `base` is what the path of a loop's pass says, for the number `above`.

    Where nothing is to follow, `then` is empty: the members of a group are followed by each other.
    """

    program: Program
    rules: dict[str, Node]
    passes: list[int]  # of the loops around the line, the outermost first
    groups: list[Place]  # around the line, the outermost first
    done: Collection[Place]
    free: Open | None
    answer: Node = field(default_factory=lambda: Rule("end"))  # what follows a return
    another: Node = EMPTY  # what follows where the alternative around has failed
    fresh: Iterator[int] = field(default_factory=lambda: count(1))

    def behind(self, block: Block, number: str, base: Node, above: str, then: Node) -> Node:
        """Give what follows the line of the statement `number`, which stands in the block or below."""
        index, step = next((i, step) for i, step in enumerate(block) if _holds(step, number))
        rest = self.block(block[index + 1 :], base, above, then)
        match step:
            case If(branches=branches):
                return self._inside_branch(branches, number, base, above, rest)
            case For(number=own) if own == number:
                return _or(self._loop(step, base, above, rest), rest)
            case For(number=own, body=body):
                current = sequence(self._path(own, base, above), Literal(f"[{self.passes.pop(0)}]"))
                then = self._named(_or(self._loop(step, base, above, rest), rest))
                return self.behind(body, number, current, own, then)
            case While(number=own, body=body):
                current = sequence(self._path(own, base, above), Literal(f"[{self.passes.pop(0)}]"))
                test = self._while(step, base, above, rest)
                if own == number:
                    return _either(self.block(body, current, own, test), rest)
                return self.behind(body, number, current, own, test)
            case OneOf():
                return self._inside_one_of(step, number, base, above, rest)
            case AnyOrder(body=body):
                return self._inside_group(body, number, base, above, rest)
            case Require(otherwise=end):
                return _either(rest, self._refused(end, base, above))
            case Check():
                return sequence(_TRUE, rest)
            case Do(number=own):
                inner, base = self._inside(step, base, above, rest)
                steps = inner.program.procedure.body
                if own == number:
                    return inner.block(steps, base, "", rest)
                return inner.behind(steps, number.removeprefix(f"{own}."), base, "", rest)
            case Return():
                return self.answer
            case _:
                return rest

    def _inside_group(self, members: Block, number: str, base: Node, above: str, then: Node) -> Node:
        group, current = self.groups.pop(0)
        if self.free is not None and group == self.free.group:
            known, begun = dict(self.free.known), []
        else:
            known, begun = {}, [self.behind((members[current],), number, base, above, EMPTY)]
        left = [
            known[index] if index in known else self.block((member,), base, above, EMPTY)
            for index, member in enumerate(members)
            if (group, index) not in self.done
        ]
        return sequence(*begun, any_of(left), then)

    def _inside_branch(
        self, branches: tuple[Branch, ...], number: str, base: Node, above: str, then: Node
    ) -> Node:
        index, branch = next((i, arm) for i, arm in enumerate(branches) if _below(number, arm.number))
        if branch.number != number:
            return self.behind(branch.body, number, base, above, then)
        taken = self.block(branch.body, base, above, then)
        return _either(taken, self._arms(branches[index + 1 :], base, above, then))

    def block(self, steps: Block, base: Node, above: str, then: Node) -> Node:
        """Give the rule of some statements in order, and of what follows them."""
        for step in reversed(steps):
            then = self._named(self._step(step, base, above, then))
        return then

    def _named(self, node: Node) -> Rule:
        name = f"t{next(self.fresh)}"
        self.rules[name] = node
        return Rule(name)

    def _step(self, step: Step, base: Node, above: str, then: Node) -> Node:
        match step:
            case If(branches=branches):
                return self._arms(branches, base, above, then)
            case For():
                header = self._start(step, base, above)
                loop = self._loop(step, base, above, then)
                return sequence(*header, hole(IntType()), Literal("\n"), _or(loop, then))
            case While():
                return self._while(step, base, above, then)
            case OneOf():
                return self._attempts(step, base, above, then)[0]
            case AnyOrder(body=body):
                return sequence(any_of([self.block((one,), base, above, EMPTY) for one in body]), then)
            case Do():
                inner, base_inside = self._inside(step, base, above, then)
                steps = inner.block(inner.program.procedure.body, base_inside, "", then)
                return sequence(*self._start(step, base, above), *self._call(step), Literal("\n"), steps)
            case Require(otherwise=end):
                refused = self._refused(end, base, above)
                return sequence(*self._condition(step, base, above), _either(then, refused))
            case Check():
                return sequence(*self._condition(step, base, above), _TRUE, then)
            case Invoke() | Confirm() | Say():
                raise InvalidState(f"step {step.number} has no line: steps like it are not run")
            case _:
                return self._line(step, base, above, then)

    def _arms(self, branches: tuple[Branch, ...], base: Node, above: str, then: Node) -> Node:
        if not branches:
            return then
        branch, rest = branches[0], branches[1:]
        taken = self.block(branch.body, base, above, then)
        if branch.condition is None:
            return taken
        others = self._arms(rest, base, above, then)
        return self._named(sequence(*self._condition(branch, base, above), _either(taken, others)))

    def _loop(self, step: For, base: Node, above: str, then: Node) -> Node:
        """Give the rule of one more pass, which leads to another one or to what stands behind the loop."""
        loop = Rule(f"t{next(self.fresh)}")
        again = self._named(_or(loop, then))
        each = sequence(self._path(step.number, base, above), PASS)
        self.rules[loop.name] = self.block(step.body, each, step.number, again)
        return loop

    def _while(self, step: While, base: Node, above: str, then: Node) -> Node:
        """Give the rule of one more test, which leads to a pass and another one, or behind the loop."""
        test = Rule(f"t{next(self.fresh)}")
        each = sequence(self._path(step.number, base, above), PASS)
        asked = sequence(each, Literal(f" {head(step)} "), *self._asked(step.condition))
        self.rules[test.name] = sequence(asked, _either(self.block(step.body, each, step.number, test), then))
        return test

    def _refused(self, end: End | Next, base: Node, above: str) -> Node:
        return self.another if isinstance(end, Next) else self._line(end, base, above, Rule("end"))

    def _inside_one_of(self, step: OneOf, number: str, base: Node, above: str, then: Node) -> Node:
        arm = step.otherwise
        if arm is not None and _below(number, arm.number):
            return self.behind(arm.body, number, base, above, then)
        current = sequence(self._path(step.number, base, above), Literal(f"[{self.passes.pop(0)}]"))
        _, another = self._attempts(step, base, above, then)
        inner = replace(self, another=another)
        if number == step.number:
            return inner.chosen(step, current, then)
        way = next(way for way in step.alternatives if _below(number, way.number))
        return inner.behind(way.body, number, current, step.number, then)

    def _attempts(self, step: OneOf, base: Node, above: str, then: Node) -> tuple[Node, Node]:
        """Give the rule of one more attempt, and of what follows one that failed."""
        attempt = Rule(f"t{next(self.fresh)}")
        each = sequence(self._path(step.number, base, above), PASS)
        arm = step.otherwise
        failed = () if arm is None else (self.block(arm.body, base, above, then),)
        another = self._named(choice(attempt, *failed))
        chosen = replace(self, another=another).chosen(step, each, then)
        self.rules[attempt.name] = sequence(each, Literal(f" {head(step)} "), chosen)
        return attempt, another

    def chosen(self, step: OneOf, each: Node, then: Node) -> Node:
        """Give the name of each alternative with its steps."""
        return choice(
            *(
                sequence(
                    hole(EnumType((way.name,))), Literal("\n"), self.block(way.body, each, step.number, then)
                )
                for way in step.alternatives
            )
        )

    def _inside(self, step: Do, base: Node, above: str, then: Node) -> tuple[_Outline, Node]:
        """Give what makes the rules of a sub-procedure, and what the paths of its steps begin with."""
        inner = replace(self, program=self.program.callees[step.procedure], answer=then)
        return inner, sequence(self._path(step.number, base, above), Literal("."))

    def _call(self, step: Do) -> Iterator[Node]:
        yield Literal(f"{step.procedure}(")
        for index, _ in enumerate(step.arguments):
            yield Literal(", " if index else "")
            yield working(None, self.rules)
        yield Literal(")")

    # --- lines

    def _path(self, number: str, base: Node, above: str) -> Node:
        return sequence(base, Literal(number.removeprefix(above)))

    def _start(self, step: Numbered, base: Node, above: str) -> tuple[Node, ...]:
        return (self._path(step.number, base, above), Literal(f" {head(step)} "))

    def _condition(self, step: Branch | Require | Check, base: Node, above: str) -> tuple[Node, ...]:
        return (*self._start(step, base, above), *self._asked(step.condition))

    def _asked(self, condition: Expr | None) -> tuple[Node, ...]:
        """Give what stands before a condition's value: nothing where it is an operand alone."""
        alone = isinstance(condition, ConstantExpr | Name | FieldOf)
        match self.program.form:
            case Form.FULL:
                return () if isinstance(condition, ConstantExpr) else self._worked(2)
            case Form.WORK:
                return () if alone else self._worked(1)
            case Form.VALUES:
                return ()

    def _worked(self, most: int) -> tuple[Node, ...]:
        """Give what stands in front of a value: the working, and the expression in front of that."""
        part = (working(None, self.rules), Literal(" = "))
        return part if most == 1 else (*part, optional(*part))

    def _line(self, step: Assign | Extract | Judge | End, base: Node, above: str, then: Node) -> Node:
        start = self._start(step, base, above)
        match step:
            case Assign(target=target):
                return sequence(*start, self._value(self.program.types[target]), Literal("\n"), then)
            case Extract(type=kind, quote=quote) | Judge(type=kind, quote=quote):
                return sequence(*start, self._decided(kind, quote), Literal("\n"), then)
            case Return():
                return sequence(*start, self._value(self.program.result), Literal("\n"), self.answer)
            case Deny(text=message) | Escalate(text=message):
                return sequence(*start, hole(StringType(), message), Literal("\n"), Rule("end"))

    def _decided(self, kind: Type, quote: Quoting | None) -> Node:
        is_list = isinstance(required(kind), ListType)
        behind = quotes(None, self.rules, most=(LIST_ITEMS if quote else QUOTES) if is_list else 1)
        if quote is None:
            return sequence(hole(kind), optional(behind))
        return choice(*unquoted(kind), sequence(hole(required(kind), at_least=1), behind))

    def _value(self, kind: Type) -> Node:
        before = {
            Form.VALUES: (),
            Form.WORK: (optional(*self._worked(1)),),
            Form.FULL: (optional(*self._worked(2)),),
        }[self.program.form]
        match required(kind):
            case ListType() | RecordType() | TextType():
                # Where its parts are worked out one by one, the whole is not.
                whole = sequence(*before, working(None, self.rules))
                return choice(whole, listing(self.rules)) if before else listing(self.rules)
            case DecimalType():
                value = hole(DecimalType())
                return sequence(*before, choice(NULL, value) if may_be_null(kind) else value)
            case _:
                return sequence(*before, hole(kind))


def _either(holds: Node, fails: Node) -> Node:
    return choice(sequence(_TRUE, holds), sequence(_FALSE, fails))


def _or(loop: Node, then: Node) -> Node:
    return optional(loop) if then == EMPTY else choice(loop, then)


def _holds(step: Step, number: str) -> bool:
    if isinstance(step, If):
        return any(_below(number, branch.number) for branch in step.branches)
    if isinstance(step, OneOf) and step.otherwise is not None and _below(number, step.otherwise.number):
        return True
    return _below(number, step.number)


def _below(number: str, above: str) -> bool:
    return number == above or number.startswith(f"{above}.")

"""The steps of a procedure, from a syntax tree to the model: numbered, their places and clauses seen to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from guard.procedure import constants, tools
from guard.procedure.declared import SIMPLE_TYPES, Types, count, rounding_named
from guard.procedure.faults import MENDED, Faults
from guard.procedure.model import (
    Alternative,
    AnyOrder,
    Assign,
    Branch,
    Check,
    Deny,
    Do,
    End,
    Escalate,
    Extract,
    For,
    If,
    Judge,
    Next,
    OneOf,
    Quoting,
    Require,
    Return,
    Step,
    While,
)
from guard.procedure.nodes import Expr
from guard.procedure.terms import Node, Part, Terms, parts, span, token, tree
from guard.procedure.types import Rounding
from guard.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lark import Token

MAX_BOUND: Final = 10_000
MAX_STEPS: Final = 2_000


class Statements:
    """The steps of all procedures of a file. `steps` is how many there have been, `MAX_STEPS` at most."""

    def __init__(self, faults: Faults, terms: Terms, types: Types) -> None:
        self.faults, self.terms, self.types = faults, terms, types
        self.steps = 0

    def block(self, block: Node, prefix: str) -> tuple[Step, ...]:
        return tuple(self._steps(block, prefix))

    def _steps(self, block: Node, prefix: str) -> Iterator[Step]:
        arms: list[Branch] = []
        waiting: OneOf | None = None  # for its else
        for index, statement in enumerate(block.children, start=1):
            label, part = parts(tree(statement))
            node, number = tree(part), f"{prefix}{index}"
            if self._too_many(node):
                break
            if arms and (node.data not in ("elif", "else") or arms[-1].keyword == "else"):
                yield If(branches=tuple(arms), at=arms[0].at)
                arms = []
            named = None if label is None else self.terms.name(label, "a step")
            if waiting is not None:
                arm = self._arm(node, number, named, first=False) if node.data == "else" else None
                yield replace(waiting, otherwise=arm)
                waiting = None
                if arm is not None:
                    continue
            if node.data in ("if", "elif", "else"):
                arms.append(self._arm(node, number, named, first=not arms))
            elif node.data == "one_of":
                waiting = self._one_of(node, number, named)
            else:
                yield self._step(node, number, named)
        if arms:
            yield If(branches=tuple(arms), at=arms[0].at)
        if waiting is not None:
            yield waiting

    def _too_many(self, node: Node) -> bool:
        self.steps += 1
        if self.steps == MAX_STEPS + 1:
            self.faults(span(node), f"a file has at most {MAX_STEPS:,} steps", "split it into several files")
        return self.steps > MAX_STEPS

    def _arm(self, node: Node, number: str, label: str | None, *, first: bool) -> Branch:
        keyword = str(node.data)
        if first and keyword != "if":
            self.faults(
                _keyword(node),
                f"this {keyword} belongs to no if",
                "indent it like its if, right below the steps of that if; an else comes last",
            )
        *condition, block = parts(node)
        return Branch(
            number=number,
            keyword=keyword,
            condition=self.terms.expression(condition[0]) if condition else None,
            body=self.block(tree(block), f"{number}."),
            label=label,
            at=_keyword(node),
        )

    def _step(self, node: Node, number: str, label: str | None) -> Step:
        children, at = parts(node), span(node)
        match node.data:
            case "assign":
                return self._assign(node, number, label)
            case "do":
                target, procedure, arguments = children
                given = () if arguments is None else parts(tree(arguments))
                return Do(
                    number=number,
                    target=self.terms.name(target, "a value"),
                    procedure=str(token(procedure)),
                    arguments=tuple(self.terms.expression(part) for part in given if part is not None),
                    label=label,
                    at=at,
                )
            case kind if kind in tools.STEPS:
                return tools.step(node, number, label, self.terms, lambda end, of: self._end(end, of, None))
            case "extract" | "judge":
                return self._decision(node, number, label)
            case "for":
                return self._for(node, number, label)
            case "while":
                return self._while(node, number, label)
            case "any_order":
                body = self.block(tree(children[0]), f"{number}.")
                return AnyOrder(number=number, body=body, label=label, at=_words(node, "any order"))
            case "require":
                condition = self.terms.expression(children[0])
                behind = tree(children[1])
                end = Next() if behind.data == "next" else self._end(behind, f"{number}.1", None)
                return Require(number=number, condition=condition, otherwise=end, label=label, at=at)
            case "check":
                return Check(number=number, condition=self.terms.expression(children[0]), label=label, at=at)
            case _:
                return self._end(node, number, label)

    def _assign(self, node: Node, number: str, label: str | None) -> Assign:
        target, expression, *rounding = parts(node)
        name = self.terms.name(target, "a value")
        places, mode = self._rounding(*rounding)
        if label is not None and name in SIMPLE_TYPES:
            self.faults(
                span(token(target)),
                f"a step gives a value without naming its type, found {name!r}",
                f"write {label} = ...",
            )
        return Assign(
            number=number,
            target=name,
            expression=self.terms.expression(expression),
            places=places,
            rounding=mode,
            label=label,
            at=span(node),
        )

    def _rounding(self, places: Part, mode: Part) -> tuple[int | None, Rounding | None]:
        """Read `to places mode`, as far as a step has it."""
        if places is None:
            return None, None
        node = tree(places)
        digits = count(token(node.children[0]), 0, constants.MAX_PLACES, "decimal places", self.faults)
        named = None if mode is None else rounding_named(token(mode), self.faults)
        return (-digits if node.data == "places_left" else digits), named

    def _decision(self, node: Node, number: str, label: str | None) -> Extract | Judge:
        target, type_, sources, *clauses = parts(node)
        where, quote, question = self._clauses(node, [tree(clause) for clause in clauses])
        name = self.terms.name(target, "a value")
        result = self.types.resolve(type_)
        names = tuple(dict.fromkeys(str(source) for source in tree(sources).children))
        if node.data == "extract":
            return Extract(
                number=number,
                target=name,
                type=result,
                sources=names,
                where=where,
                quote=quote,
                label=label,
                at=_head(node, sources),
            )
        return Judge(
            number=number,
            target=name,
            type=result,
            sources=names,
            question=question,
            where=where,
            quote=quote,
            label=label,
            at=_head(node, sources),
        )

    def _clauses(self, node: Node, clauses: list[Node]) -> tuple[Expr | None, Quoting | None, str]:
        where: Expr | None = None
        quote: Quoting | None = None
        question = ""
        seen: set[str] = set()
        for clause in clauses:
            kind = str(clause.data)
            mended = kind == "where" and tree(clause.children[0]).children == [MENDED]
            if kind in seen and not mended:
                self.faults(span(clause), f"this step has two {kind} clauses", _merge(kind))
            seen |= {"where", "asking"} if mended else {kind}
            match kind:
                case "where":
                    where = self.terms.expression(clause.children[0])
                case "quote":
                    quote = Quoting.LOOSE if clause.children else Quoting.SUPPORTING
                case _:
                    question = self._question(node, token(clause.children[0]))
        if node.data == "judge" and "asking" not in seen:
            self.faults(
                _keyword(node),
                "a judge needs the question that the model is to answer",
                'add asking "...?" behind the source',
            )
        return where, quote, question

    def _question(self, node: Node, text: Token) -> str:
        if node.data == "extract":
            self.faults(
                span(text),
                "an extract asks no question",
                "write judge instead of extract where the model has to form an opinion",
            )
        question = constants.unescaped(text, self.faults)
        if not question.strip():
            self.faults(span(text), "the question is empty", "say what the model is to answer")
        return question

    def _for(self, node: Node, number: str, label: str | None) -> For:
        variable, items, bound, block = parts(node)
        return For(
            number=number,
            variable=self.terms.name(variable, "a loop's item"),
            items=self.terms.expression(items),
            bound=count(token(bound), 1, MAX_BOUND, "passes", self.faults),
            body=self.block(tree(block), f"{number}."),
            label=label,
            at=Span(span(node).start, span(token(bound)).end),
        )

    def _while(self, node: Node, number: str, label: str | None) -> While:
        condition, bound, block = parts(node)
        return While(
            number=number,
            condition=self.terms.expression(condition),
            bound=count(token(bound), 1, MAX_BOUND, "passes", self.faults),
            body=self.block(tree(block), f"{number}."),
            label=label,
            at=Span(span(node).start, span(token(bound)).end),
        )

    def _one_of(self, node: Node, number: str, label: str | None) -> OneOf:
        bound, *ways = parts(node)
        return OneOf(
            number=number,
            alternatives=tuple(
                self._alternative(tree(way), f"{number}.{index}") for index, way in enumerate(ways, start=1)
            ),
            attempts=None if bound is None else count(token(bound), 1, MAX_BOUND, "attempts", self.faults),
            otherwise=None,
            label=label,
            at=_words(node, "one of"),
        )

    def _alternative(self, node: Node, number: str) -> Alternative:
        name, block = parts(node)
        return Alternative(
            number=number,
            name=constants.unescaped(token(name), self.faults),
            body=self.block(tree(block), f"{number}."),
            at=Span(span(node).start, span(token(name)).end),
        )

    def _end(self, node: Node, number: str, label: str | None) -> End:
        if node.data == "return":
            expression, *rounding = parts(node)
            places, mode = self._rounding(*rounding)
            return Return(
                number=number,
                expression=self.terms.expression(expression),
                places=places,
                rounding=mode,
                label=label,
                at=span(node),
            )
        text = constants.unescaped(token(node.children[0]), self.faults)
        kind = Escalate if node.data == "escalate" else Deny
        return kind(number=number, text=text, label=label, at=span(node))


def _merge(kind: str) -> str:
    return "join their conditions by and" if kind == "where" else "leave one of them out"


def _keyword(node: Node) -> Span:
    start = span(node).start
    return Span(start, start + len(str(node.data)))


def _words(node: Node, words: str) -> Span:
    start = span(node).start
    return Span(start, start + len(words))


def _head(node: Node, sources: Part) -> Span:
    return Span(span(node).start, span(tree(sources)).end)

"""From a syntax tree to the model: types resolved, duplicates refused, steps numbered."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from guard.procedure import constants, tools
from guard.procedure.declared import SIMPLE_TYPES, Types, count, elsewhere, twice
from guard.procedure.faults import MENDED, Faults, nearest, suggestion
from guard.procedure.imports import Imported
from guard.procedure.model import (
    Alternative,
    Always,
    AnyOrder,
    Assign,
    Branch,
    Check,
    Clock,
    Deny,
    Do,
    End,
    Escalate,
    Example,
    Extract,
    For,
    Hit,
    If,
    Judge,
    Module,
    Next,
    Numbers,
    OneOf,
    Origin,
    Parameter,
    Procedure,
    Require,
    Return,
    Row,
    Step,
    Table,
    Tool,
    While,
)
from guard.procedure.nodes import Expr, ListOf, Literal, Name, RecordOf
from guard.procedure.terms import Node, Part, Terms, parts, span, token, tree
from guard.procedure.types import EnumType, RecordType, Rounding
from guard.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lark import Token

MAX_BOUND: Final = 10_000
MAX_STEPS: Final = 2_000


def build(tree_: Node, faults: Faults, imported: Imported | None = None) -> Module | None:
    """Give the model of a tree; what is wrong with single words of it goes to `faults`.

    None where the text is larger than a file may be. Types named in `faults.doubtful` may be declared in
    lines that could not be read.
    """
    builder = _Builder(faults, imported or Imported())
    module = builder.module(tree_)
    return None if builder.steps > MAX_STEPS else module


class _Builder:
    def __init__(self, faults: Faults, imported: Imported) -> None:
        self.faults, self.imported = faults, imported
        self.terms = Terms(faults)
        self.terms.measures.units.update(imported.units)
        self.types = Types(faults, self.terms, imported)
        self.steps = 0
        self.version: Token | None = None
        self.numbers: tuple[Node, Numbers] | None = None
        self.clock: Clock | None = None
        self.tables: dict[str, Table] = {}
        self.tools: dict[str, Tool] = {}
        self.rules: list[Always] = []
        self.procedures: dict[str, Procedure] = {}
        self.examples: dict[str, Example] = {}
        self.seen: dict[tuple[str, str], Token] = {}

    def module(self, root: Node) -> Module:
        declarations = [tree(child) for child in root.children]
        for node in declarations:
            if node.data in ("record", "enumeration"):
                self.types.declare(node)
            elif node.data in ("unit_of", "scale"):
                self.terms.measures.declare(node)
        for node in sorted(declarations, key=lambda node: node.data != "numbers"):  # rule all procedures
            self._declare(node)
        named = {**self.imported.types, **{name: self.types.named(name) for name in self.types.declared}}
        return Module(
            version=None if self.version is None else constants.unescaped(self.version, self.faults),
            numbers=self.numbers[1] if self.numbers else Numbers(),
            records={name: type_ for name, type_ in named.items() if isinstance(type_, RecordType)},
            enums={name: type_ for name, type_ in named.items() if isinstance(type_, EnumType)},
            tables={**self.imported.tables, **self.tables},
            procedures={**self.imported.procedures, **self.procedures},
            examples=self.examples,
            clock=self.clock,
            units=self.terms.measures.units,
            tools={**self.imported.tools, **self.tools},
            rules=(*self.imported.rules.values(), *self.rules),
            file=self.faults.source.name,
            origins={**self.imported.origins, **self._origins()},
        )

    def _origins(self) -> dict[tuple[str, str], Origin]:
        declared = {("type", name): token(node.children[0]) for name, node in self.types.declared.items()}
        declared |= {key: word for key, word in self.seen.items() if key[0] != "example"}
        source = self.faults.source
        return {
            key: Origin(source.name, source.position(span(word).start)[0])
            for key, word in declared.items()
            if key[1] != MENDED
        }

    def _declare(self, node: Node) -> None:
        match node.data:
            case "version":
                if self.version is not None:
                    self.faults(span(node), "a file has one version", "leave one of them out")
                self.version = token(node.children[0])
            case "numbers":
                self._numbers(node)
            case "clock":
                if self.clock is not None:
                    self.faults(span(node), "a file has one time zone", "leave one of them out")
                self.clock = Clock(constants.unescaped(token(node.children[0]), self.faults), span(node))
            case "table":
                self._table(node)
            case "tool":
                self._tool(node)
            case rule if rule in tools.RULES:
                self.rules.append(tools.rule(node, self.faults))
            case "procedure":
                self._procedure(node)
            case "example":
                self._example(node)
            case _:
                pass  # types were declared first, so that they may be used above their declaration

    def _numbers(self, node: Node) -> None:
        if self.numbers is not None:
            self.faults(span(node), "a file has one line of number rules", "leave one of them out")
        rounding, exact = Rounding.HALF_UP, False
        for setting in node.children:
            what, value = map(token, tree(setting).children)
            match str(what):
                case "round":
                    rounding = self._rounding(value) or rounding
                case "carry":
                    exact = value == "exact"
                    if value not in ("shown", "exact"):
                        self.faults(
                            span(value),
                            f"there is no way {str(value)!r} to carry numbers",
                            "write shown or exact",
                        )
                case _:
                    self.faults(
                        span(what),
                        f"numbers have no rule {str(what)!r}",
                        suggestion(str(what), ["round", "carry"]),
                    )
        self.numbers = (node, Numbers(rounding, exact))

    def _rounding(self, word: Token) -> Rounding | None:
        if word in list(Rounding):
            return Rounding(str(word))
        self.faults(
            span(word),
            f"there is no rounding {str(word)!r}",
            suggestion(str(word), [mode.value for mode in Rounding]),
        )
        return None

    def _new(self, kind: str, word: Token) -> bool:
        """Whether a name is new among its kind; if not, that is reported."""
        self.terms.name(word, f"a {kind}")
        if elsewhere(self.faults, self.imported, kind, word):
            return False
        first = self.seen.setdefault((kind, str(word)), word)
        if first is not word and word != MENDED:
            twice(self.faults, word, kind, first)
        return first is word and word != MENDED

    def _table(self, node: Node) -> None:
        name, parameters, result, hit, *rows = parts(node)
        word = token(name)
        table = Table(
            name=str(word),
            parameters=self._parameters(parameters, "table"),
            result=self.types.resolve(result),
            hit=self._hit(tree(hit)),
            rows=tuple(self._row(tree(row)) for row in rows if not _mended_row(tree(row))),
            at=span(word),
        )
        if self._new("table", word):
            self.tables[table.name] = table

    def _tool(self, node: Node) -> None:
        name, parameters, result, effect = parts(node)
        word, takes = token(name), self._parameters(parameters, "tool")
        tool = tools.tool(word, takes, self.types.resolve(result), token(effect), self.faults)
        if self._new("tool", word):
            self.tools[tool.name] = tool

    def _hit(self, node: Node) -> Hit:
        policy = " ".join(str(word) for word in parts(node) if word is not None)
        if policy in list(Hit):
            return Hit(policy)
        known = ", ".join(hit.value for hit in Hit)
        near = nearest(policy, [hit.value for hit in Hit])
        self.faults(
            span(node),
            f"there is no hit policy {policy!r}",
            f"did you mean {near!r}?" if near else f"write first match, or another of {known}",
        )
        return Hit.FIRST

    def _row(self, node: Node) -> Row:
        *cells, result = parts(node)
        return Row(tuple(self.terms.cell(cell) for cell in cells), self.terms.literal(result), span(node))

    def _parameters(self, part: Part, what: str, *, text: bool = False) -> tuple[Parameter, ...]:
        found: dict[str, Parameter] = {}
        for parameter in () if part is None else parts(tree(part)):
            if parameter is None:
                continue
            word, type_, default = parts(tree(parameter))
            name = self.terms.name(word, "an input")
            if name in found:
                self.faults(span(token(word)), f"the {what} has two inputs {name!r}", "rename one of them")
            kept = None if default is None else self.terms.literal(default)
            found[name] = Parameter(name, self.types.resolve(type_, text=text), kept, span(token(word)))
        return tuple(found.values())

    def _procedure(self, node: Node) -> None:
        name, parameters, result, block = parts(node)
        word = token(name)
        procedure = Procedure(
            name=str(word),
            parameters=self._parameters(parameters, "procedure", text=True),
            result=self.types.resolve(result),
            body=self._block(tree(block), ""),
            numbers=self.numbers[1] if self.numbers else Numbers(),
            at=span(word),
        )
        if self._new("procedure", word):
            self.procedures[procedure.name] = procedure

    # --- steps ------------------------------------------------------------------------------------

    def _block(self, block: Node, prefix: str) -> tuple[Step, ...]:
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
            body=self._block(tree(block), f"{number}."),
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
                body = self._block(tree(children[0]), f"{number}.")
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
        target, expression, places, mode = parts(node)
        name = self.terms.name(target, "a value")
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
            places=None
            if places is None
            else count(token(places), 0, constants.MAX_PLACES, "decimal places", self.faults),
            rounding=None if mode is None else self._rounding(token(mode)),
            label=label,
            at=span(node),
        )

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

    def _clauses(self, node: Node, clauses: list[Node]) -> tuple[Expr | None, bool, str]:
        where: Expr | None = None
        quote, question = False, ""
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
                    quote = True
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
            body=self._block(tree(block), f"{number}."),
            label=label,
            at=Span(span(node).start, span(token(bound)).end),
        )

    def _while(self, node: Node, number: str, label: str | None) -> While:
        condition, bound, block = parts(node)
        return While(
            number=number,
            condition=self.terms.expression(condition),
            bound=count(token(bound), 1, MAX_BOUND, "passes", self.faults),
            body=self._block(tree(block), f"{number}."),
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
            body=self._block(tree(block), f"{number}."),
            at=Span(span(node).start, span(token(name)).end),
        )

    def _end(self, node: Node, number: str, label: str | None) -> End:
        if node.data == "return":
            expression = self.terms.expression(node.children[0])
            return Return(number=number, expression=expression, label=label, at=span(node))
        text = constants.unescaped(token(node.children[0]), self.faults)
        kind = Escalate if node.data == "escalate" else Deny
        return kind(number=number, text=text, label=label, at=span(node))

    # --- examples ---------------------------------------------------------------------------------

    def _example(self, node: Node) -> None:
        name, *entries = parts(node)
        word = token(name)
        inputs: dict[str, Literal | ListOf | RecordOf] = {}
        decisions: dict[str, Literal | ListOf | RecordOf] = {}
        for entry in map(tree, entries):
            target, value = parts(entry)
            if target == MENDED:
                continue
            where = inputs if entry.data == "given" else decisions
            key, constant = str(token(target)), self._constant(value)
            if key in where:
                self.faults(span(token(target)), f"{key!r} is given twice", "leave one of them out")
            if constant is not None:
                where[key] = constant
        if self._new("example", word):
            self.examples[str(word)] = Example(str(word), inputs, decisions, span(word))

    def _constant(self, part: Part) -> Literal | ListOf | RecordOf | None:
        expression = self.terms.expression(part)
        wrong = _varying(expression)
        if wrong is None and isinstance(expression, Literal | ListOf | RecordOf):
            return expression
        self.faults(
            getattr(wrong, "at", span(tree(part))), "an example holds constants only", _constant_for(wrong)
        )
        return None


def _varying(expression: Expr) -> Expr | None:
    """Find the first part of an expression that is no constant."""
    match expression:
        case Literal():
            return None
        case ListOf(items=items):
            return next((wrong for item in items if (wrong := _varying(item)) is not None), None)
        case RecordOf(fields=fields):
            return next((wrong for _, item in fields if (wrong := _varying(item)) is not None), None)
        case _:
            return expression


_TRUTHS: Final = {
    "yes": "true",
    "on": "true",
    "no": "false",
    "off": "false",
    "true": "true",
    "false": "false",
}


def _constant_for(wrong: Expr | None) -> str:
    match wrong:
        case Name(name) if name.lower() in _TRUTHS:
            return f"write {_TRUTHS[name.lower()]}"
        case Name(name):
            return f'write "{name}" in quotes for a text'
        case _:
            return 'write the value itself, such as 12, 3.35, "text", true, [...] or { name: value }'


def _mended_row(node: Node) -> bool:
    cell = tree(node.children[0])
    return cell.data == "any_cell" and cell.children[0] == MENDED


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

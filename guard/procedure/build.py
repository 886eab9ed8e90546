"""From a syntax tree to the model: what a file declares, types resolved and duplicates refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from guard.procedure import constants, tools
from guard.procedure.declared import Types, elsewhere, rounding_named, twice
from guard.procedure.faults import MENDED, Faults, nearest, suggestion
from guard.procedure.imports import Imported
from guard.procedure.model import (
    Always,
    Clock,
    Example,
    Hit,
    Module,
    Numbers,
    Origin,
    Parameter,
    Procedure,
    Row,
    Table,
    Tool,
)
from guard.procedure.nodes import Expr, ListOf, Literal, Name, RecordOf
from guard.procedure.statements import MAX_STEPS, Statements
from guard.procedure.terms import Node, Part, Terms, parts, span, token, tree
from guard.procedure.types import EnumType, Null, RecordType, Rounding

if TYPE_CHECKING:
    from lark import Token


def build(tree_: Node, faults: Faults, imported: Imported | None = None) -> Module | None:
    """Give the model of a tree; what is wrong with single words of it goes to `faults`.

    None where the text is larger than a file may be. Types named in `faults.doubtful` may be declared in
    lines that could not be read.
    """
    builder = _Builder(faults, imported or Imported())
    module = builder.module(tree_)
    return None if builder.statements.steps > MAX_STEPS else module


class _Builder:
    def __init__(self, faults: Faults, imported: Imported) -> None:
        self.faults, self.imported = faults, imported
        self.terms = Terms(faults)
        self.terms.measures.units.update(imported.units)
        self.terms.constants.update(imported.constants)
        self.types = Types(faults, self.terms, imported)
        self.statements = Statements(faults, self.terms, self.types)
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
        for node in declarations:
            if node.data == "constant":  # those may count units
                self._constant_of(node)
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
            constants=self.terms.constants,
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
                    rounding = rounding_named(value, self.faults) or rounding
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

    def _constant_of(self, node: Node) -> None:
        """Read `const vat = 19%`: the name stands for the value from here to the end of the file."""
        _, name, value = parts(node)
        word = token(name)
        literal = self.terms.literal(value)
        if isinstance(literal.value, Null):
            self.faults(literal.at, "a constant has a value, found null", "write the value, such as 19%")
        elif word.value in self.terms.measures.units:
            advice = f"take another name, such as {word}_1"
            self.faults(span(word), f"{word.value!r} is a unit and cannot name a constant", advice)
        elif self._new("const", word):
            self.terms.constants[str(word)] = literal

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
            body=self.statements.block(tree(block), ""),
            numbers=self.numbers[1] if self.numbers else Numbers(),
            at=span(word),
        )
        if self._new("procedure", word):
            self.procedures[procedure.name] = procedure

    # --- examples ---------------------------------------------------------------------------------

    def _example(self, node: Node) -> None:
        name, *written = parts(node)
        word, entries = token(name), [entry for entry in written if entry is not None]
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

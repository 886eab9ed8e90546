"""From syntax trees to expressions, types' constants and table cells."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lark import Token, Tree

from guard.procedure import constants
from guard.procedure.dates import at_position, dates_meant, parse_date
from guard.procedure.faults import MENDED
from guard.procedure.measures import Measures
from guard.procedure.model import AnyCell, Cell, RangeCell, ValuesCell
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
from guard.procedure.types import NULL, BoolType, DateType, IntType, NullType
from guard.source import Span

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from guard.procedure.faults import Faults

MAX_HEIGHT: Final = 50
MAX_NAME: Final = 100
MAX_DATE: Final = 10  # characters of one as it is printed elsewhere

_VALUES: Final = frozenset({"a value", "an input", "a loop's item"})

ARITHMETIC: Final = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "floor_divide": "div",
    "modulo": "mod",
}

Node = Tree[Token]
Part = Node | Token | None


def span(part: Node | Token) -> Span:
    """Where a part of the tree stands in its text."""
    if isinstance(part, Token):
        return constants.place(part)
    return Span(0, 0) if part.meta.empty else Span(part.meta.start_pos, part.meta.end_pos)


def tree(part: Part) -> Node:
    """Narrow a part that the grammar makes a tree."""
    assert isinstance(part, Tree)
    return part


def token(part: Part) -> Token:
    """Narrow a part that the grammar makes a token."""
    assert isinstance(part, Token)
    return part


def parts(node: Node) -> Sequence[Part]:
    """Give the children of a node; None stands where something optional was left out."""
    return node.children


class Terms:
    """Reads the expressions of one text."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.measures = Measures(faults)
        self.constants: dict[str, Literal] = {}

    def name(self, part: Part, what: str) -> str:
        """Read a word that something is given as its name."""
        word = token(part)
        taken: dict[str, Container[str]] = {"a unit": self.measures.units, "a constant": self.constants}
        kind = next((kind for kind, known in taken.items() if word.value in known), None)
        if kind is not None and what in _VALUES:
            self.faults(
                span(word),
                f"{word.value!r} is {kind} and cannot name {what}",
                f"take another name, such as {word.value}_1",
            )
        if len(word) > MAX_NAME:
            self.faults(span(word), f"a name has at most {MAX_NAME} characters", "take a shorter one")
        return str(word.value)[:MAX_NAME]

    def expression(self, part: Part) -> Expr:
        """Read an expression; one that is nested too deep is reported and read as 0."""
        node = tree(part)
        if _height(node) > MAX_HEIGHT:
            self.faults(
                span(node),
                f"an expression has at most {MAX_HEIGHT} operations one within the other",
                "give its parts steps of their own",
            )
            return Literal(0, IntType(), span(node))
        return self._expression(node)

    def _expression(self, node: Node) -> Expr:
        at, children = span(node), parts(node)
        match node.data:
            case "variable":
                word = token(children[0])
                constant = self.constants.get(str(word))
                if constant is not None:  # stands for what it is, also in what the model sees
                    return replace(constant, at=at)
                return self.measures.one(word) or Name(str(word), at)
            case "field_of":
                return FieldOf(self._sub(children[0]), str(token(children[1])), at)
            case "negate":
                return self._negate(tree(children[0]), at)
            case "not":
                return Not(self._sub(children[0]), at)
            case "and" | "or" as op:
                return Logic(op, self._sub(children[0]), self._sub(children[1]), at)
            case "compare":
                op = str(token(children[1]))
                return Comparison(op, self._sub(children[0]), self._sub(children[2]), at)
            case "in" | "not_in" as op:
                return Comparison(op.replace("_", " "), self._sub(children[0]), self._sub(children[1]), at)
            case "is_null" | "is_not_null" as kind:
                return IsNull(self._sub(children[0]), kind == "is_not_null", at)
            case "default":
                return Default(self._sub(children[0]), self._sub(children[1]), at)
            case "choose":
                condition, then, otherwise = map(self._sub, children)
                return Choose(condition, then, otherwise, at)
            case "call" | "aggregate" | "list" | "list_of" | "record_of":
                return self._compound(node)
            case "later" | "earlier":
                return self._shift(node)
            case "convert":
                unit = self.measures.target(tree(children[1]))
                operand = self._sub(children[0])
                return operand if unit is None else Convert(operand, unit, at)
            case "divide" | "subtract" if (moment := self._printed_date(node)) is not None:
                return moment
            case "divide" if (quantity := self._per(node)) is not None:
                return quantity
            case op if op in ARITHMETIC:
                return Arithmetic(ARITHMETIC[op], self._sub(children[0]), self._sub(children[1]), at)
            case _:
                return self.literal(node)

    def _per(self, node: Node) -> Expr | None:
        """Read `3.10 EUR/kg`, also behind a `*`: the name of a unit behind a stroke is no divisor."""
        left, right = map(tree, node.children)
        word = str(right.children[0]) if right.data == "variable" else ""
        if word not in self.measures.units or left.data not in ("quantity", "multiply", "divide"):
            return None
        match self._expression(left):
            case Literal() as above:
                return self.measures.below(above, word, span(node))
            case Arithmetic("*" | "/" as op, many, Literal() as above, at) if left.data != "quantity":
                price = self.measures.below(above, word, Span(above.at.start, span(node).end))
                if op == "/" and price is not None:
                    self._divided_twice(node, price)
                return price and Arithmetic(op, many, price, Span(at.start, span(node).end))
            case _:
                return None

    def _divided_twice(self, node: Node, price: Literal) -> None:
        """Report `c / 0.80 EUR/kg`, which divides by a price and then by a unit."""
        source = self.faults.source.text
        before, written = source[span(node).start : price.at.start], source[price.at.start : price.at.end]
        message = f"{written} stands in brackets where something is divided by it"
        self.faults(price.at, message, f"write {before}({written})")

    def _printed_date(self, node: Node) -> Literal | None:
        """Report `20/05/2026` and `2026-6-1`, which are no calculations, and read them as dates."""
        at = span(node)
        written = self.faults.source.text[at.start : at.end] if at.end - at.start <= MAX_DATE else ""
        meant = dates_meant(written)
        if not meant:
            return None
        message = f"a date is written as year, month and day, found {written!r}"
        self.faults(at, message, f"write {meant}")
        return Literal(parse_date(meant[:10]) or at_position(1), DateType(), at)

    def _sub(self, part: Part) -> Expr:
        return self._expression(tree(part))

    def _shift(self, node: Node) -> Expr:
        moment, amount, by = parts(node)
        unit, mode = parts(tree(by))
        op = "+" if node.data == "later" else "-"
        kept = None if mode is None else str(token(mode))
        return Shift(self._sub(moment), op, self._sub(amount), str(token(unit)), kept, span(node))

    def _compound(self, node: Node) -> Expr:
        at, children = span(node), parts(node)
        match node.data:
            case "call":
                return Call(self._called(token(children[0])), self._arguments(children[1]), at)
            case "aggregate":
                function, *of = children
                return self._aggregate(self._called(token(function)), of, at)
            case "list_of":
                return self._aggregate("list", [*children, None, None], at)
            case "list":
                return ListOf(self._arguments(children[0]), at)
            case _:
                return RecordOf(self._pairs(children), at)

    def _called(self, word: Token) -> str:
        if word == "list":
            self.faults(
                span(word),
                "a list is written in brackets",
                "write [a, b], or [x * 2 for x in xs] without list",
            )
        return str(word)

    def _aggregate(self, function: str, of: Sequence[Part], at: Span) -> Aggregate:
        term, variable, items, condition, key, descending = of
        return Aggregate(
            function,
            self._sub(term),
            self.name(variable, "a loop's item"),
            self._sub(items),
            None if condition is None else self._sub(condition),
            None if key is None else self._sub(key),
            descending is not None,
            at,
        )

    def _arguments(self, part: Part) -> tuple[Expr, ...]:
        if part is None:
            return ()
        return tuple(self._sub(child) for child in parts(tree(part)) if child is not None)

    def _pairs(self, children: Sequence[Part]) -> tuple[tuple[str, Expr], ...]:
        pairs: dict[str, Expr] = {}
        for pair in children:
            if pair is None:
                continue
            name, value = parts(tree(pair))
            if str(name) in pairs:
                self.faults(
                    span(token(name)), f"the field {str(name)!r} is given twice", "leave one of them out"
                )
            pairs[str(name)] = self._sub(value)
        return tuple(pairs.items())

    def _negate(self, operand: Node, at: Span) -> Expr:
        # A minus before a constant is part of the constant: `-5` is a number and no operation.
        match operand.data:
            case "number":
                return constants.number(token(operand.children[0]), self.faults, negative=True, at=at)
            case "percent":
                return constants.percent(token(operand.children[0]), self.faults, negative=True, at=at)
            case "quantity":
                return self._quantity(operand, at, negative=True)
            case _:
                return Negate(self._sub(operand), at)

    def literal(self, part: Part) -> Literal:
        """Read a constant of one word."""
        node = tree(part)
        at = span(node)
        match node.data:
            case "true" | "false" as word:
                return Literal(word == "true", BoolType(), at)
            case "null":
                return Literal(NULL, NullType(), at)
            case "string":
                return constants.string(token(node.children[0]), self.faults)
            case "date":
                return constants.date(token(node.children[0]), self.faults)
            case "datetime":
                return constants.moment(token(node.children[0]), self.faults)
            case "quantity":
                return self._quantity(node, at)
            case "number" | "minus_number" as kind:
                negative = kind == "minus_number"
                return constants.number(token(node.children[0]), self.faults, negative=negative, at=at)
            case kind:
                negative = kind == "minus_percent"
                return constants.percent(token(node.children[0]), self.faults, negative=negative, at=at)

    def _quantity(self, node: Node, at: Span, *, negative: bool = False) -> Literal:
        number, words = node.children
        literal = constants.number(token(number), self.faults, negative=negative, at=at)
        return self.measures.quantity(literal, tree(words), token(number))

    def cell(self, part: Part) -> Cell:
        """Read what a table's row asks of one parameter."""
        node = tree(part)
        match node.data:
            case "any_cell":
                return self._any(token(node.children[0]))
            case "open_cell":
                return self._open(token(node.children[0]), self.literal(node.children[1]))
            case "range_cell":
                return self._range(node)
            case _:
                return ValuesCell(tuple(self.literal(child) for child in node.children))

    def _any(self, word: Token) -> AnyCell:
        if word not in ("any", MENDED):
            self.faults(
                span(word),
                f"a cell holds constants, {word.value!r} is a name",
                f'write "{word.value}" in quotes for the text, or any for every value',
            )
        return AnyCell()

    def _range(self, node: Node) -> RangeCell:
        low, above, below, high = parts(node)
        for sign in (above, below):
            if sign is not None and token(sign) != "<":
                self.faults(
                    span(sign),
                    f"an end that does not belong to a range is marked by <, found {str(sign)!r}",
                    "write 1..9 with both ends, 1<..9 without the 1, 1..<9 without the 9",
                )
        return RangeCell(self.literal(low), self.literal(high), above is None, below is None)

    def _open(self, op: Token, end: Literal) -> Cell:
        match str(op):
            case ">":
                return RangeCell(end, None, low_included=False)
            case ">=":
                return RangeCell(end, None)
            case "<":
                return RangeCell(None, end, high_included=False)
            case "<=":
                return RangeCell(None, end)
            case "==":
                self.faults(span(op), "a cell that is one value needs no ==", "write the value alone")
            case _:
                self.faults(
                    span(op),
                    "a cell cannot exclude a value",
                    "write a row for that value above this one, and any here",
                )
        return ValuesCell((end,))


def _height(node: Node) -> int:
    """How many operations stand one within the other, counted without recursion."""
    highest, waiting = 0, [(node, 1)]
    while waiting:
        current, height = waiting.pop()
        highest = max(highest, height)
        if highest > MAX_HEIGHT:
            break
        waiting.extend((child, height + 1) for child in current.children if isinstance(child, Tree))
    return highest

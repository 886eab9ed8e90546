"""The types that a text declares, and the names it declares twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from guard.procedure import constants
from guard.procedure.doubt import MYSTERY
from guard.procedure.faults import Faults, suggestion
from guard.procedure.imports import Imported
from guard.procedure.terms import Node, Part, Terms, parts, span, token, tree
from guard.procedure.types import (
    BoolType,
    DatetimeType,
    DateType,
    DecimalType,
    EnumType,
    FieldType,
    IntType,
    ListType,
    OptionalType,
    PercentType,
    RecordType,
    Rounding,
    StringType,
    TextType,
    Type,
)
from guard.procedure.units import with_unit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lark import Token

MAX_DEPTH: Final = 50
# Of a record, with those of the records in it: a type is written out wherever it stands.
MAX_FIELDS: Final = 1_000

SIMPLE_TYPES: Final[dict[str, Type]] = {
    "int": IntType(),
    "decimal": DecimalType(),
    "percent": PercentType(),
    "bool": BoolType(),
    "date": DateType(),
    "datetime": DatetimeType(),
    "string": StringType(),
    "text": TextType(),
}
# What people write who think of another language.
FOREIGN_TYPES: Final = {
    "integer": "int",
    "number": "decimal(2)",
    "float": "decimal(2)",
    "double": "decimal(2)",
    "money": "decimal(2)",
    "boolean": "bool",
    "str": "string",
    "day": "date",
    "time": "datetime",
    "timestamp": "datetime",
    "char": "string",
}


class Types:
    """The types that a text declares, each resolved when it is first asked for."""

    def __init__(self, faults: Faults, terms: Terms, imported: Imported) -> None:
        self.faults, self.terms, self.imported = faults, terms, imported
        self.declared: dict[str, Node] = {}
        self.resolved: dict[str, Type] = {}
        self.resolving: list[str] = []
        self.depth = 0
        self._fields: dict[int, tuple[RecordType, int]] = {}  # by identity: what a record comes to

    def declare(self, node: Node) -> None:
        name = token(node.children[0])
        word = self.terms.name(name, "a type")
        if word in SIMPLE_TYPES:
            self.faults(span(name), f"{word!r} is a type of the language", "take another name")
        elif word in self.declared:
            twice(self.faults, name, "type", self.declared[word])
        elif not elsewhere(self.faults, self.imported, "type", name):
            self.declared[word] = node

    def resolve(self, part: Part, *, text: bool = False) -> Type:
        """Give the type that a node means; `MYSTERY` for one that is unknown, which is reported.

        `text` says that it is the type of a procedure's input, the only place for a text.
        """
        node = tree(part)
        if self.depth == MAX_DEPTH:
            self.faults(
                span(node), f"types stand at most {MAX_DEPTH} one within the other", "make it flatter"
            )
            return MYSTERY
        self.depth += 1
        found = self._resolved(node, text=text)
        self.depth -= 1
        return found

    def _resolved(self, node: Node, *, text: bool) -> Type:
        match node.data:
            case "named_type":
                found = self._named(token(node.children[0]))
                if isinstance(found, TextType) and not text:
                    self.faults(span(node), "only an input of a procedure can be a text", "write string")
                return found
            case "places_type":
                return self._places(*map(token, node.children))
            case "unit_type":
                return self._measured(node)
            case "list_type":
                return ListType(self.resolve(node.children[0]))
            case "optional_type":
                return self._optional(node)
            case "enum_type":
                return self.enum(child for child in parts(node) if child is not None)
            case _:
                return self.record(tree(node.children[0]), None)

    def _measured(self, node: Node) -> Type:
        number, words = map(tree, node.children)
        found, unit = self.resolve(number), self.terms.measures.of(words)
        if isinstance(found, IntType | DecimalType):
            return with_unit(found, unit)
        if found != MYSTERY:
            advice = (
                "leave the unit out"
                if isinstance(found, PercentType)
                else "write int or decimal(2) and the unit"
            )
            self.faults(span(node), "only int and decimal count something", advice)
        return found

    def _optional(self, node: Node) -> Type:
        item = self.resolve(node.children[0], text=True)
        match item:
            case OptionalType():
                self.faults(span(node), "one ? says that a value may be null", "leave the other out")
                return item
            case TextType():
                self.faults(span(node), "a text is always there", "write text: an empty one says nothing")
                return item
            case _:
                return OptionalType(item) if item != MYSTERY else item

    def record(self, fields: Node, name: str | None) -> RecordType:
        found: dict[str, FieldType] = {}
        for field in parts(fields):
            if field is None:
                continue
            word, type_ = parts(tree(field))
            field_name = self.terms.name(word, "a field")
            if field_name in found:
                self.faults(
                    span(token(word)), f"the field {field_name!r} is declared twice", "rename one of them"
                )
            found[field_name] = FieldType(field_name, self.resolve(type_))
        return self._bounded(RecordType(tuple(found.values()), name), fields)

    def _bounded(self, record: RecordType, fields: Node) -> RecordType:
        """Refuse a record whose type would be too long to write; what stands twice in it counts twice."""
        count = self._count(record)
        if count > MAX_FIELDS:
            message = f"the record comes to {count} fields with those of its records, at most {MAX_FIELDS}"
            self.faults(span(fields), message, "leave some of them out")
            return RecordType((), record.name)
        return record

    def _count(self, type_: Type) -> int:
        match type_:
            case RecordType(fields=fields):
                if id(type_) not in self._fields:
                    self._fields[id(type_)] = type_, max(1, sum(self._count(field.type) for field in fields))
                return self._fields[id(type_)][1]
            case ListType(item=item) | OptionalType(item=item):
                return self._count(item)
            case _:
                return 1

    def enum(self, options: Iterable[Part]) -> EnumType:
        found: dict[str, None] = {}  # in order, and found at once: there may be thousands
        for option in options:
            text = constants.unescaped(token(option), self.faults)
            if text in found:
                self.faults(
                    span(token(option)), f"the value {text!r} is listed twice", "leave one of them out"
                )
            else:
                found[text] = None
        return EnumType(tuple(found))

    def named(self, name: str) -> Type:
        """Give a declared type."""
        if name not in self.resolved:
            node = self.declared[name]
            self.resolving.append(name)
            if node.data == "record":
                self.resolved[name] = self.record(tree(node.children[1]), name)
            else:
                self.resolved[name] = self.enum(node.children[1:])
            self.resolving.pop()
        return self.resolved[name]

    def _named(self, word: Token) -> Type:
        name = str(word)
        if name in SIMPLE_TYPES:
            return SIMPLE_TYPES[name]
        if name in self.resolving:
            self.faults(
                span(word), f"the record {name!r} holds itself", "refer to the other record by a name or key"
            )
        elif name in self.declared:
            return self.named(name)
        elif name in self.imported.types:
            return self.imported.types[name]
        elif name not in self.faults.doubtful or name.lower() in FOREIGN_TYPES:
            known = FOREIGN_TYPES.get(name.lower())
            help_text = (
                f"write {known}"
                if known
                else suggestion(name, [*SIMPLE_TYPES, *self.declared, *self.imported.types])
            )
            self.faults(span(word), f"there is no type {name!r}", help_text)
        return MYSTERY

    def _places(self, word: Token, places: Token) -> Type:
        if word != "decimal":
            help_text = f"write {word}" if word in SIMPLE_TYPES else "write decimal(2)"
            self.faults(span(word), f"only decimal takes a number of places, not {str(word)!r}", help_text)
            return SIMPLE_TYPES.get(str(word), DecimalType())
        return DecimalType(count(places, 0, constants.MAX_PLACES, "decimal places", self.faults))


def twice(faults: Faults, word: Token, kind: str, first: Node | Token) -> None:
    """Report a name that is declared a second time, and where it was first."""
    line, _ = faults.source.position(span(first).start)
    article = "an" if kind == "example" else "a"
    faults(
        span(word),
        f"there is {article} {kind} {str(word)!r} already, in line {line}",
        "leave one of them out" if kind == "example" else "rename one of them",
    )


def elsewhere(faults: Faults, imported: Imported, kind: str, word: Token) -> bool:
    """Report a name that an imported file declares, and where; whether one does."""
    origin = imported.origins.get((kind, str(word)))
    if origin is None:
        return False
    faults(span(word), f"there is a {kind} {str(word)!r} already, in {origin.place}", "rename one of them")
    return True


def rounding_named(word: Token, faults: Faults) -> Rounding | None:
    """Read the name of a rounding; None where there is none of that name, which is reported."""
    if word in list(Rounding):
        return Rounding(str(word))
    known = [mode.value for mode in Rounding]
    faults(span(word), f"there is no rounding {str(word)!r}", suggestion(str(word), known))
    return None


def count(text: Token, low: int, high: int, what: str, faults: Faults) -> int:
    """Read a small whole number; one out of range is reported and read as `low`."""
    value = text.value
    if value.isdigit() and len(value) <= len(str(high)) and low <= int(value) <= high:
        return int(value)
    faults(
        span(text),
        f"the number of {what} is a whole number from {low} to {high:,}, found {value[:24]}",
        f"write a whole number, such as {max(low, 2)}",
    )
    return low

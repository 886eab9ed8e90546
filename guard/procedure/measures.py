"""The units and scales that a text declares, and the units it writes behind numbers and types."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from lark import Token, Tree

from guard.procedure import constants
from guard.procedure.dates import UNITS
from guard.procedure.faults import Faults, nearest
from guard.procedure.nodes import Literal
from guard.procedure.numbers import DIGITS
from guard.procedure.types import DecimalType, EnumType, IntType, Unit
from guard.procedure.units import MOST_POWERS, base_unit, is_small, named_unit, times, unit_of, with_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from guard.source import Span

NUMBER: Final = "number"  # what `as` takes for no unit
_EXPONENT: Final = re.compile(r"[eE][0-9]*")


class Measures:
    """Units by name. Each is known from its declaration on."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.units: dict[str, Unit] = {}
        self.places: dict[str, Token] = {}

    def declare(self, node: Tree[Token]) -> None:
        """Read `unit kg`, `unit g = 0.001 kg` or `scale thousand = 1000`."""
        word, amount, *more = node.children
        of = [part for part in more if isinstance(part, Tree)]
        name = str(word)
        if name == NUMBER or name in self.places:
            line = f"declared already, in line {self.places[name].line}" if name in self.places else "no unit"
            self.faults(constants.place(_token(word)), f"{name!r} is {line}", "take another name")
            return
        one: Unit | None = base_unit(name)
        if amount is not None:
            one = self._amount(name, _token(amount), of)
        if one is not None and self.units.setdefault(name, one) != one:
            at = constants.place(_token(word))
            self.faults(
                at, f"the unit {name!r} is another one in a file that is imported", "rename one of them"
            )
        self.places[name] = _token(word)

    def _amount(self, name: str, amount: Token, of: Sequence[Tree[Token] | Token]) -> Unit | None:
        read = constants.number(amount, self.faults)
        assert isinstance(read.value, int | Fraction)
        if read.value == 0:
            self.faults(read.at, "a unit is some amount of another, not none", "write what one of it is")
            return None
        base = self.of(_tree(of[0])) if of else None
        made = None if of and base is None else named_unit(name, Fraction(read.value), base)
        if made is None or is_small(made):
            return made
        self.faults(
            read.at,
            f"a unit comes to at most {MOST_POWERS} factors of units that are declared by themselves, and to "
            f"{DIGITS} digits of them",
            "declare it of a larger or smaller one",
        )
        return None

    def one(self, word: Token) -> Literal | None:
        """Report the name of a unit where a value should stand and read it as one of it; None for others."""
        unit = self.units.get(str(word))
        if unit is None:
            return None
        at = constants.place(word)
        advice = f"write the number in front of it: 1 {word}"
        self.faults(at, f"{str(word)!r} is a unit and no value", advice)
        return Literal(1, IntType(unit), at)

    def below(self, literal: Literal, word: str, at: Span) -> Literal | None:
        """Give `3.10 EUR/kg` for `3.10 EUR` that is divided by the name of a unit; None for anything else."""
        if not counted(literal) or word not in self.units:
            return None
        unit = times(unit_of(literal.type), self.units[word], -1)
        return replace(literal, type=with_unit(literal.type, unit), at=at)

    def of(self, node: Tree[Token]) -> Unit | None:
        """Give the unit that some words mean; None, which is reported, where one of them is none."""
        first, *below = [node] if node.data == "names" else node.children
        words = [*((word, 1) for word in _tree(first).children), *((word, -1) for word in below)]
        found: Unit | None = None
        if len(words) > MOST_POWERS:
            self.faults(
                constants.place(_token(words[MOST_POWERS][0])),
                f"a unit has at most {MOST_POWERS} factors",
                "leave some out",
            )
            return None
        for word, power in words:
            one = self.units.get(str(word))
            if one is None:
                self._unknown(_token(word))
                return None
            found = times(found, one, power)
        return found

    def target(self, node: Tree[Token]) -> Unit | None:
        """Give what `as` counts in: a unit, or one of nothing for `number`."""
        if node.children == [NUMBER]:
            return Unit((), (), (1, 1), ())
        return self.of(node)

    def quantity(self, literal: Literal, node: Tree[Token], number: Token) -> Literal:
        """Give a constant with the unit behind it, one of an unknown type where there is no such unit."""
        word = _token(node.children[0])
        if number.end_pos == word.start_pos and str(word) not in self.units and self._glued(number, word):
            return literal
        unit = self.of(node)
        return replace(literal, type=EnumType(()) if unit is None else with_unit(literal.type, unit))

    def _glued(self, number: Token, word: Token) -> bool:
        """Report what people write close behind a number and mean no unit by."""
        name = str(word)
        at = _across(number, word)
        if name.startswith("_") and name.replace("_", "").isdigit():
            self.faults(at, "a number has no separators", f"write {number}{name.replace('_', '')}")
        elif _EXPONENT.fullmatch(name):
            self.faults(at, "a number has no exponent", "write it out, such as 1000 or 0.001")
        else:
            self.faults(at, f"a name does not start with a digit, found {number + name!r}", "")
        return True

    def _unknown(self, word: Token) -> None:
        name = str(word)
        if name in self.faults.doubtful:
            return
        near = nearest(name, [*self.units, *UNITS])
        advice = f"did you mean {near!r}?" if near else f"declare it above: unit {name}"
        if name.lower() in ("percent", "pct"):
            advice = "write the sign right after the number: 5%"
        self.faults(constants.place(word), f"there is no unit {name!r}", advice)


def counted(literal: Literal) -> bool:
    """Whether a constant has a unit."""
    return isinstance(literal.type, IntType | DecimalType) and literal.type.unit is not None


def _across(number: Token, word: Token) -> Span:
    at = constants.place(number)
    return type(at)(at.start, constants.place(word).end)


def _token(part: Tree[Token] | Token) -> Token:
    assert isinstance(part, Token)
    return part


def _tree(part: Tree[Token] | Token) -> Tree[Token]:
    assert isinstance(part, Tree)
    return part

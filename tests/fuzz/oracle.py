"""The oracle: what a client may get of a run, said without a word of the checker or of the run.

It carries the procedure out by the second evaluator, on what the model decided, and knows of policies what a
sentence each can say: which kinds of ends there are, what each of them may deliver, who may have written a line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from guard.procedure import model as m
from guard.procedure.types import NULL
from tests.procedure.plain import Ended, Failed, Walk

ANSWERS: Final = frozenset({"return", "deny", "escalate"})
QUOTE: Final = " <- "


class Open(Exception):  # noqa: N818
    """What comes next was never decided."""


class Forbidden(Exception):  # noqa: N818
    """The model decided what it may not."""


class Decisions(dict[str, Any]):
    """Decisions by path. Where one is missing nobody knows how it goes on."""

    def get(self, key: str, default: Any = None) -> Any:
        """Give a decision. Raises Open where there is none for a path."""
        if key in self:
            return self[key]
        if key[0].isdigit():
            raise Open
        return default


@dataclass
class Reading(Walk):
    """Carries a procedure out in the order in which steps came, `came` being their paths."""

    came: Sequence[str] = ()
    quoted: set[str] = field(default_factory=set)  # paths of the lines that have to be quoted

    def step(self, step: m.Step) -> None:
        """Carry a statement out; what may come in any order in the one in which it came."""
        if isinstance(step, m.AnyOrder):
            self.block(sorted(step.body, key=self._first_of))
            return
        super().step(step)
        if isinstance(step, m.Extract | m.Judge):
            if step.where is not None and not self.of(step.where, self.env):
                raise Forbidden(self.path(step.number))
            self.quoted |= {self.path(step.number)} if step.quote else set()

    def _first_of(self, step: m.Step) -> int:
        heads = [self.path(number) for number in numbers(step)]
        places = (place for place, path in enumerate(self.came) if any(_within(path, head) for head in heads))
        return next(places, len(self.came))


def numbers(step: m.Step) -> Iterator[str]:
    """The numbers that the lines of a statement begin with."""
    match step:
        case m.If():
            yield from (arm.number for arm in step.branches)
        case m.AnyOrder():
            for member in step.body:
                yield from numbers(member)
        case _:
            yield step.number


def _within(path: str, head: str) -> bool:
    return path == head or path.startswith((f"{head}.", f"{head}["))


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """How a run goes: its lines so far, each a path and a value, and its end; "" where that is not known.

    `quoted` are the paths of the lines that have to have a quote.
    """

    lines: list[tuple[str, Any]]
    end: str
    value: Any = None
    quoted: frozenset[str] = frozenset()


def foresee(
    module: m.Module,
    types: Mapping[str, Mapping[str, Any]],
    inputs: Mapping[str, Any],
    decided: Mapping[str, Any],
    came: Sequence[str],
) -> Foreseen:
    """Carry `main` out on what was decided, as far as that goes. Raises Forbidden."""
    lines: list[tuple[str, Any]] = []
    procedure = module.procedures["main"]
    walk = Reading(module, types, procedure, dict(inputs), dict(inputs), Decisions(decided), lines, came=came)
    end, value = "", None
    try:
        walk.block(procedure.body)
    except Ended as ended:
        end, value = ended.kind, ended.value
    except Failed as failed:
        end, value = "failed", failed.path
    except Open:
        pass
    return Foreseen(lines=lines, end=end, value=value, quoted=frozenset(walk.quoted))


# --- what a text says ------------------------------------------------------------------------------

_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?%?")


def shows(line: str, value: Any) -> bool:
    """Whether a line ends in a value, as far as that can be told by looking: numbers, truth, dates, words."""
    said = line.partition(QUOTE)[0].rstrip()
    match value:
        case bool():
            return said.endswith(f" {str(value).lower()}")
        case int() | Fraction():
            found = _NUMBER.fullmatch(said.rpartition(" ")[2])
            return found is not None and number(found[0]) == value
        case datetime():
            return datetime.fromisoformat(said.rpartition(" ")[2]) == value
        case date():
            return said.endswith(f" {value.isoformat()}")
        case str():
            return said.endswith(f" {json.dumps(value, ensure_ascii=False)}")
        case _:
            return True


def number(text: str) -> Fraction:
    """The number that a spelling means."""
    return Fraction(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


def means(answer: str, value: Any) -> bool:
    """Whether the answer that a client reads is a value."""
    match value:
        case bool():
            return answer == str(value).lower()
        case int() | Fraction():
            return _NUMBER.fullmatch(answer) is not None and number(answer) == value
        case str():
            return answer == value
        case datetime() | date():
            return answer == value.isoformat()
        case _ if value is NULL:
            return answer == "null"
        case _:
            return _same(json.loads(answer, parse_float=Decimal, parse_int=Decimal), value)


def _same(told: Any, value: Any) -> bool:
    match told, value:
        case dict(), dict():
            return told.keys() == value.keys() and all(_same(told[name], value[name]) for name in told)
        case list(), tuple():
            return len(told) == len(value) and all(map(_same, told, value))
        case Decimal(), int() | Fraction():
            return Fraction(told) == value
        case None, _:
            return value is NULL
        case str(), date() | datetime():
            return told == value.isoformat()
        case _:
            return bool(told == value)


def stands(quote: str, source: str) -> bool:
    """Whether a quote stands in its source, but for how wide blanks are."""
    return bool(quote.split()) and " ".join(quote.split()) in " ".join(source.split())


def quotes(line: str) -> list[str]:
    """The quotes of a line."""
    return [json.loads(part) for part in line.rstrip().split(QUOTE)[1:]]

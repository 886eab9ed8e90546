"""What an execution yields: the step that must come next, with what the guard knows of its line.

A line is `path head cells tail`, for instance

    5[2].1 part = 4 * 61.20 * (1 - 0%) = 244.80
    ------ ------ -------------------   ------
    path   head   working               value     (one cell, no lead, no tail)

    9 return {"net": 274.50, "total": 274.50 + 54.90 = 329.40}
             --------        ---------                       -
             lead            lead                            tail   (two cells)
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Final, Protocol

from guard.procedure.model import Quoting, StepKind
from guard.procedure.types import Type, Value


class Form(StrEnum):
    """How much of a step its line shows. A procedure is compiled for one; its digest is the same in all."""

    VALUES = "values"  # the value alone
    WORK = "work"  # also the expression with the values of its operands
    FULL = "full"  # also the expression as it is written in the procedure


class Unknown(Enum):
    """The value of what the model has yet to decide, and of all that depends on it."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN


@dataclass(frozen=True, slots=True)
class Hole:
    """A place in a working whose value the guard does not know yet.

    Most stand for one operand. A `free` one stands for a part whose form is unknown as well: the side
    of an `and` that may be left unread, the terms of an aggregate over a list that nobody has decided.
    """

    type: Type
    free: bool = False


Working = tuple[str | Hole, ...]  # text, with holes where operands are unknown; no two texts adjoin


@dataclass(slots=True)  # as `Expected`
class Cell:
    """One value that a line carries.

    `key` says where it stands in the line's value: () for the value itself, ("total",) for a field,
    ("lines", 0, "qty") deeper. `lead` is the literal text before it. `working` is the substituted
    expression, None where the cell is its value alone. `spelling` is the value's canonical text,
    None where `value` is UNKNOWN. A `bare` cell is its working alone: the value comes in later lines,
    and `value` and `spelling` are that text, None where it has holes. `symbol` is the expression as the
    procedure has it, where the trace form shows that. An `unwritten` cell has an expression that the trace
    form leaves out.
    """

    key: tuple[str | int, ...]
    lead: str
    working: Working | None
    value: Value | Unknown
    spelling: str | None
    type: Type
    bare: bool = False
    symbol: str | None = None
    unwritten: bool = False

    @property
    def given(self) -> str:
        """What stands in front of the working, and all of it is known: the lead and the symbol."""
        return self.lead if self.symbol is None else f"{self.lead}{self.symbol} = "


@dataclass(frozen=True, slots=True)
class Decision:
    """What bounds a value that the model decides.

    `sources` are (name, text) pairs that a quote may come from; `quote` says which is required, if any.
    `admissible` returns None for a value that may stand, else why it may not (type, range,
    enumeration, `where`), in the words of a violation's `expected`. `at_most` is how many items a list
    may have, where a loop over it sets a bound.
    """

    type: Type
    sources: tuple[tuple[str, str], ...]
    quote: Quoting | None
    admissible: Callable[[Value], str | None]
    at_most: int | None = None


@dataclass(slots=True)  # never changed; not frozen, since one is made for every step of an execution
class Expected:
    """The step that must come next.

    `path` is the number with loop passes (`5[2].1`); `number` the one in the procedure's text (`5.1`);
    `label` the author's name for the step, if any; `target` the variable it gives a value, if any.
    `text` is the canonical line where it was written before its cells were made, else None. `others` are
    the steps that may come instead, which an execution is told by a `Pick`. `env` has the values of the
    variables as a trace shows them, for as long as the step is due: the execution goes on with it.
    """

    path: str
    number: str
    kind: StepKind
    label: str | None
    target: str | None
    head: str
    cells: tuple[Cell, ...]
    tail: str = ""
    decision: Decision | None = None
    text: str | None = field(default=None, compare=False, repr=False)
    others: tuple[Expected, ...] = ()
    env: Mapping[str, Value | Unknown] = field(default_factory=dict, compare=False, repr=False)

    @property
    def known(self) -> bool:
        """Whether the guard knows all of this line, so that it could write it itself."""
        return self.decision is None and all(cell.spelling is not None for cell in self.cells)

    @property
    def value(self) -> Value | Unknown:
        """The line's value: that of its only cell, or the list or record that its cells make."""
        return assemble((cell.key, cell.value) for cell in self.cells)


class Readable(Protocol):
    """What makes the cells of a line of what stands behind its head, and its value."""

    def read(self, text: str, value: Value, /) -> tuple[Cell, ...]: ...


class Ready(Expected):
    """A step whose line was written in one go. Its cells are made once somebody asks for them.

    For all others it is an `Expected`: equal to one with the same fields, and replaced by one.
    """

    __slots__ = ("_source", "_value")

    def __init__(  # noqa: PLR0917 (made for every step: by name it takes twice the time)
        self,
        path: str,
        number: str,
        kind: StepKind,
        label: str | None,
        target: str | None,
        head: str,
        text: str,
        value: Value,
        source: Readable,
        env: Mapping[str, Value | Unknown],
    ) -> None:
        self.path, self.number, self.kind, self.label = path, number, kind, label
        self.target, self.head, self.text = target, head, text
        self.tail, self.decision, self.others = "", None, ()
        self._value, self._source, self.env = value, source, env

    @property  # type: ignore[misc]
    def __class__(self) -> type[Expected]:  # type: ignore[override]
        return Expected

    def __getattr__(self, name: str) -> Any:
        if name != "cells":
            raise AttributeError(name)
        assert self.text is not None
        self.cells = self._source.read(self.text[len(self.path) + len(self.head) + 2 :], self._value)
        return self.cells

    @property
    def known(self) -> bool:
        """See `Expected`."""
        return True

    @property
    def value(self) -> Value | Unknown:
        """See `Expected`."""
        return self._value


@dataclass(frozen=True, slots=True)
class Pick:
    """Sent to an execution in place of a value: of the steps that may come, the one at this path does."""

    path: str


def assemble(parts: Iterable[tuple[tuple[str | int, ...], Value | Unknown]]) -> Value | Unknown:
    """Make one value of the values of cells, each with its key; UNKNOWN where one of them is."""
    tree: dict[str | int, Any] = {}
    for key, value in parts:
        if value is UNKNOWN or not key:
            return value
        node = tree
        for part in key[:-1]:
            node = node.setdefault(part, {})
        node[key[-1]] = value
    return _folded(tree)


def _folded(node: Any) -> Value:
    if not isinstance(node, dict):
        value: Value = node
        return value
    if isinstance(next(iter(node), None), int):
        return tuple(map(_folded, node.values()))
    return {name: _folded(part) for name, part in node.items()}


class EndKind(Enum):
    """How an execution came to its end."""

    RETURN = "return"
    DENY = "deny"
    ESCALATE = "escalate"
    FAILED = "failed"  # a false check, division by zero, a list longer than its bound, ...
    UNDETERMINED = "undetermined"  # a branch or loop hangs on a value that nobody has decided


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of an execution: what a generator returns.

    `value` is the answer of RETURN (of the procedure's result type) or the text of DENY or ESCALATE;
    `path` and `reason` say where and why it FAILED or is UNDETERMINED, `plain` the same without values ("":
    there are none in the reason). `limited`: it failed because it had gone as far as an execution may.
    """

    kind: EndKind
    value: Value | Unknown | None = None
    path: str = ""
    reason: str = ""
    limited: bool = False
    plain: str = field(default="", compare=False)


# Yields what must come next. Is sent the value that was observed: for a decision the model's value (or
# UNKNOWN to go on without it), for everything else None to take the computed value, or a value to go on
# from instead (offline, after a wrong one; only where the step has a single cell). A Pick makes it yield
# one of the others. Returns its Ending.
Execution = Generator[Expected, "Value | Unknown | Pick | None", Ending]

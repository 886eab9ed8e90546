"""The trace's grammar narrowed to one procedure, its inputs and what has been decided so far.

`narrow` carries the procedure out up to the first line that hangs on a value nobody has decided yet and
writes down what may stand in each line; `lark_text` writes that in Lark's notation. Literals are, byte
for byte, what `trace.render` writes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from collections.abc import Sequence as Listing
from dataclasses import dataclass
from typing import Final, assert_never

from guard.dialect.arrange import Place, Placed, arranged, opened
from guard.dialect.line import Level, line, rule_name
from guard.dialect.outline import outline
from guard.dialect.patterns import CONTROLS, DEFINES, pattern, times
from guard.dialect.tree import (
    Chars,
    Choice,
    Grammar,
    Kept,
    Literal,
    Node,
    Repeat,
    Rule,
    Sequence,
    Terminal,
    has_rule,
    nullable,
    sequence,
)
from guard.dialect.workings import all_kept
from guard.procedure.execute import Program
from guard.procedure.expected import UNKNOWN, Ending, EndKind, Expected, Pick, Unknown
from guard.procedure.groups import around
from guard.procedure.model import StepKind
from guard.procedure.types import Value

__all__ = ["Level", "Narrowed", "lark_text", "narrow"]

MAX_LINES: Final = 400  # written out; the rest is for another generation, or open where there is none

_CONDITIONS: Final = frozenset(
    {StepKind.BRANCH, StepKind.WHILE, StepKind.CHOICE, StepKind.REQUIRE, StepKind.CHECK}
)


Observed = Listing[Value | Unknown | Pick | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """What a generation may write behind its prefix.

    `grammar` is None at level `none` and where there is nothing to write. `given` are the paths of the
    lines whose operands stand in the grammar or in the prefix. `last` is the path of the last step
    that the grammar covers, "" where it covers none; `complete` says that it goes on to `@end`. A
    generation that is not complete ends by itself behind `last`, to be opened again. `capped` says that one
    that is goes on behind `MAX_LINES` lines open in shape, though more is known.
    """

    grammar: Grammar | None
    given: frozenset[str]
    last: str
    complete: bool
    capped: bool = False


def narrow(
    program: Program,
    inputs: Mapping[str, Value],
    observed: Observed,
    *,
    level: Level,
    nonce: str,
    stop_at_decision: bool,
    prefix_tail: str = "",
) -> Narrowed:
    """Narrow the grammar to what is left of a trace.

    `observed` has one entry for each verified step, in order: its value (only those of decided steps
    matter), with the picks in between. `prefix_tail` is what the assistant has said already of the line
    that is due: "" (also: nothing at all), its path, or more of it. With `stop_at_decision` the grammar
    ends in front of the first line that hangs on a value which is still to be decided, or behind
    `MAX_LINES`; else it goes on to `@end`, open from there on.

    Raises InvalidState where `prefix_tail` is no beginning of the line that is due.
    """
    begun: set[Place] = set()  # members of groups of which some step is there
    steps, ending = _ahead(program, inputs, observed, begun, stop=stop_at_decision)
    complete = ending is not None and ending.kind is not EndKind.FAILED
    undetermined = ending is not None and ending.kind is EndKind.UNDETERMINED
    names = [rule_name(step.path) for step in steps]
    placed: Listing[Placed] = [
        Placed(Rule(name), around(step.path, program.members))
        for name, step in zip(names, steps, strict=True)
    ]
    done = frozenset(begun)
    begun |= set(placed[0].around) if placed and prefix_tail else set()
    # What follows a line of a group is as open as the order in which its members come.
    placed, free = opened(placed, begun) if undetermined else (placed, None)
    # Where a condition comes last, its value and what follows from it go together.
    fork = steps[-1] if undetermined and free is None and steps[-1].kind in _CONDITIONS else None
    lines: dict[str, Node] = {}
    rules: dict[str, Node] = {}
    kept: tuple[Kept, ...] = ()
    given: list[str] = []
    start: list[Node] = []
    if not any(not isinstance(value, Pick) for value in observed) and not prefix_tail:
        lines["begin"] = Literal(f"@begin {program.name} {nonce}\n")
        start.append(Rule("begin"))
    told = len(steps) - (free.untold if free is not None else 0)
    for name, step in zip(names[:told], steps, strict=False):
        written = line(step, level, rules, prefix_tail, valued=step is not fork)
        prefix_tail = ""
        lines[name] = written.node
        if written.given:
            given.append(step.path)
    start.append(arranged(placed, begun, last=not complete))
    if undetermined:
        done |= {place for line_ in placed for place in line_.around}
        behind = outline(program, steps[-1].path, done, free)
        lines["rest"] = behind.rules["rest"]
        kept, rules = (behind,), {**rules, **behind.rules}
        rules["end"] = Literal(f"@end {nonce}\n")
        start.append(Rule("rest"))
    elif complete:
        lines["end"] = Literal(f"@end {nonce}\n".removeprefix(prefix_tail))
        start.append(Rule("end"))
    forced = level is not Level.NONE and (complete or bool(steps))
    return Narrowed(
        grammar=Grammar(sequence(*start), {**lines, **rules}, kept) if forced else None,
        given=frozenset(given),
        last=steps[-1].path if steps else "",
        complete=complete,
        capped=undetermined and len(steps) == MAX_LINES,
    )


def _ahead(
    program: Program,
    inputs: Mapping[str, Value],
    observed: Observed,
    begun: set[Place],
    *,
    stop: bool,
) -> tuple[list[Expected], Ending | None]:
    """Give the steps that a grammar can cover, and the ending if they reach it; note what has `begun`."""
    due = _due(program, inputs, observed, begun)
    steps: list[Expected] = []
    while True:
        try:
            step = next(due)
        except StopIteration as end:
            ending: Ending = end.value
            # Of the steps so far only a choice, which is the model's to decide, may leave open what comes.
            return steps, None if stop and ending.kind is EndKind.UNDETERMINED else ending
        if len(steps) == MAX_LINES:
            return steps, None if stop else Ending(EndKind.UNDETERMINED, path=step.path)
        if stop and step.decision is None and not step.known:
            return steps, None
        steps.append(step)


def _due(
    program: Program, inputs: Mapping[str, Value], observed: Observed, begun: set[Place]
) -> Generator[Expected, None, Ending]:
    """Give the steps behind the observed ones, as far as they are determined."""
    execution = program.execute(inputs)
    try:
        step = next(execution)
        for value in observed:
            if isinstance(value, Pick):
                step = execution.send(value)
                continue
            begun.update(around(step.path, program.members))
            step = execution.send(value if step.decision is not None else None)
        while True:
            yield step
            step = execution.send(UNKNOWN if step.decision is not None else None)
    except StopIteration as end:
        ending: Ending = end.value
        return ending


# --- Lark's notation -----------------------------------------------------------------------------

_STRING_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"'}
_IN_STRING = str.maketrans({char: f"\\u{ord(char):04x}" for char in CONTROLS} | _STRING_ESCAPES)


def lark_text(grammar: Grammar) -> str:
    """Write a grammar in the subset that all readers of Lark's notation share; its start rule is `start`.

    Whatever holds no rule is one regular expression, which ends where a line ends wherever it holds a
    free text: readers that take the longest match cannot run past it.
    """
    known = {name: text for block in all_kept(grammar) for name, text in block.made(_texts).items()}
    rules = {"start": grammar.start, **grammar.rules}
    return "".join([f"{name}: {known.get(name) or _body(node)}\n" for name, node in rules.items()])


def _texts(rules: Mapping[str, Node]) -> dict[str, str]:
    return {name: _body(node) for name, node in rules.items()}


def _body(node: Node) -> str:
    """Write what may stand in a place of its own."""
    match node:
        case Rule(name=name):
            return name
        case Choice(options=options) if has_rule(node):
            return "\n  | ".join(map(_items, options))
        case _:
            return _items(node)


def _items(node: Node) -> str:
    match node:
        case Sequence(parts=parts):
            return " ".join(_written(parts))
        case _:
            return _item(node)


def _written(parts: Iterable[Node]) -> Iterator[str]:
    """Write parts one after the other, neighbours that hold no rule as one."""
    plain: list[Node] = []
    for part in parts:
        if not has_rule(part):
            plain.append(part)
            continue
        if plain:
            yield _plain(plain)
            plain = []
        yield _ruled(part)
    if plain:
        yield _plain(plain)


def _plain(parts: Listing[Node]) -> str:
    """Write parts without rules as one, but none that could be empty: no lexer likes those."""
    if all(map(nullable, parts)):
        return " ".join(map(_nullable, parts))
    match parts:
        case [Literal(text=text)]:
            return _string(text)
        case _:
            return f"/{pattern(parts)}/"


def _string(text: str) -> str:
    written = text.translate(_IN_STRING)
    return f'"{written.replace(DEFINES, "::" + chr(92) + "u003d")}"'


def _item(node: Node) -> str:
    return _ruled(node) if has_rule(node) else _plain([node])


def _ruled(node: Node) -> str:
    """Write a part that holds a rule."""
    match node:
        case Rule(name=name):
            return name
        case Repeat(item=item, least=least, most=most):
            return f"({_body(item)}){times(least, most, '~')}"
        case _:
            return f"({_body(node)})"


def _nullable(node: Node) -> str:
    """Write a part without rules that may be nothing."""
    match node:
        case Repeat(item=item, least=least, most=most):
            return f"({_body(item)}){times(least, most, '~')}"
        case Terminal(node=item):
            return _item(item)
        case Literal(text=text):
            return _string(text)
        case Choice(options=options):
            return f"({' | '.join(map(_item, options))})"
        case Sequence(parts=parts):
            return f"({' '.join(map(_item, parts))})"
        case Rule() | Chars():
            raise AssertionError(node)
        case _:
            assert_never(node)
